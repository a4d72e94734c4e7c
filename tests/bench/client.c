// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Noreturn void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t number(const char *text)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno != 0 || *text < '0' || *text > '9' || *end != '\0')
		die("not a number: '%s'", text);
	return v;
}

int connect_to(const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)number(port)) };
	const struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect: %s", strerror(errno));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return fd;
}

const char *map(const char *path, size_t *ret_n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		die("open '%s': %s", path, strerror(errno));
	*ret_n = (size_t)st.st_size;
	p = mmap(NULL, *ret_n, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		die("map '%s': %s", path, strerror(errno));
	(void)close(fd);
	return p;
}

bool send_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t put = send(fd, p, n, MSG_NOSIGNAL);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		p += put;
		n -= (size_t)put;
	}
	return true;
}

size_t recv_some(int fd, void *p, size_t n, int flags)
{
	ssize_t got;

	do
		got = recv(fd, p, n, flags);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		die("receive: %s", strerror(errno));
	return (size_t)got;
}

void acknowledge(int fd)
{
	int one = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one));
}

/* --- answers ---------------------------------------------------------------------------------- */

bool parse_head(const char *p, size_t n, struct answer *a)
{
	static const char name[] = "\r\ncontent-length:";
	const char *end = memmem(p, n, "\r\n\r\n", 4);

	if (end == NULL)
		return false;
	if (n < 12 || strncmp(p, "HTTP/1.1 ", 9) != 0)
		die("no answer: '%.60s'", p);
	*a = (struct answer){ .status = atoi(p + 9), .length = UINT64_MAX };
	a->head = (size_t)(end + 4 - p);
	for (const char *at = p; at < end; at++)
		if (*at == '\r' && strncasecmp(at, name, sizeof(name) - 1) == 0)
			a->length = strtoull(at + sizeof(name) - 1, NULL, 10);
	return true;
}

size_t read_head(int fd, char *p, size_t size, struct answer *a)
{
	size_t n = 0;

	do {
		size_t got = recv_some(fd, p + n, size - 1 - n, 0);

		if (got == 0 || n + got == size - 1)
			die("the answer ended early: '%.*s'", (int)(n < 200 ? n : 200), p);
		n += got;
		p[n] = '\0';
	} while (!parse_head(p, n, a));
	return n;
}

bool parse_answer(const char *p, size_t n, struct answer *a)
{
	if (!parse_head(p, n, a))
		return false;
	if (a->status == 204)
		a->length = 0;
	if (a->length > ANSWER_MAX - 1 - a->head)
		die("an answer without a length, or a large one");
	return n >= a->head + a->length;
}

/* --- output ----------------------------------------------------------------------------------- */

void print_text(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text >= ' ' && *text < 127 && *text != '"' && *text != '\\')
			(void)putchar(*text);
		else
			(void)putchar('\'');
}

void print_list(const char *name, const uint64_t *v, size_t n)
{
	(void)printf("\"%s\": [", name);
	for (size_t i = 0; i < n; i++)
		(void)printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)v[i]);
	(void)putchar(']');
}
