// SPDX-License-Identifier: Apache-2.0
/*
 * Files there and back: up by sendfile, down to nowhere, so that the client costs as little as it can. The round that does not
 * count compares, or keeps what came.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PIECE = 1 << 18, /* stays in the cache of a core */
	DISCARD = 1 << 24,
	LINE_MAX_BYTES = 32, /* of a chunk's size */
};

/* --- up --------------------------------------------------------------------------------------- */

static int open_file(const char *path, off_t *ret_size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (file < 0 || fstat(file, &st) < 0)
		die("open '%s': %s", path, strerror(errno));
	*ret_size = st.st_size;
	return file;
}

/* A request, whose body goes on with a file and ends with `after`. Its answer is printed with how long it took. */
static int send_file(const char *port, const char *head, int file, off_t size, const char *after)
{
	static char answer[65536];
	int fd = connect_to(port);
	struct answer a;
	uint64_t start = now_ns(), ns;
	off_t at = 0;
	size_t n;

	if (!send_all(fd, head, strlen(head)))
		die("send: %s", strerror(errno));
	while (at < size) {
		ssize_t put = sendfile(fd, file, &at, (size_t)(size - at));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			break; /* what it says to that is in the answer */
	}
	(void)send_all(fd, after, strlen(after));
	n = read_head(fd, answer, sizeof(answer), &a);
	if (a.length > sizeof(answer) - 1 - a.head)
		die("an answer without a length, or a large one");
	while (n < a.head + a.length) {
		size_t got = recv_some(fd, answer + n, sizeof(answer) - 1 - n, 0);

		if (got == 0)
			die("the answer ended early");
		n += got;
	}
	ns = now_ns() - start;
	if (a.status / 100 != 2)
		die("%d: %.*s", a.status, (int)(n - a.head), answer + a.head);
	(void)printf("{\"ns\": %llu}\n%.*s\n", (unsigned long long)ns, (int)(n - a.head),
		     answer + a.head);
	return 0;
}

int do_up(char **arg)
{
	static const char boundary[] = "a-line-that-is-in-no-file-0123456789";
	static char before[512], after[128], head[1024];
	off_t size;
	int file = open_file(arg[1], &size);

	(void)snprintf(
		before, sizeof(before),
		"--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"bench.bin\"\r\n"
		"Content-Type: application/octet-stream\r\n\r\n",
		boundary);
	(void)snprintf(after, sizeof(after), "\r\n--%s--\r\n", boundary);
	(void)snprintf(
		head, sizeof(head),
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		"Content-Type: multipart/form-data; boundary=%s\r\nContent-Length: %llu\r\n\r\n%s",
		arg[2] != NULL ? arg[2] : "/v1/files", boundary,
		(unsigned long long)size + strlen(before) + strlen(after), before);
	return send_file(arg[0], head, file, size, after);
}

int do_put(char **arg)
{
	static char head[1024];
	off_t size;
	int file = open_file(arg[2], &size);

	(void)snprintf(head, sizeof(head),
		       "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		       "Content-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n",
		       arg[3] != NULL ? arg[3] : "PUT", arg[1], (unsigned long long)size);
	return send_file(arg[0], head, file, size, "");
}

/* --- down ------------------------------------------------------------------------------------- */

/* Ask for a path, and read the head of the answer; how many bytes came with it. */
static size_t ask_for(int fd, const char *path, char *buf, struct answer *a)
{
	static char request[1024];

	(void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		       path);
	if (!send_all(fd, request, strlen(request)))
		die("send: %s", strerror(errno));
	return read_head(fd, buf, PIECE, a);
}

static void print_done(uint64_t ns, uint64_t bytes)
{
	(void)printf("{\"ns\": %llu, \"bytes\": %llu}\n", (unsigned long long)ns,
		     (unsigned long long)bytes);
}

int do_down(char **arg)
{
	static char buf[DISCARD];
	uint64_t bytes = number(arg[2]), done, start;
	int fd = connect_to(arg[0]);
	const char *same = NULL;
	size_t same_len = 0, n;
	struct answer a;

	if (arg[3] != NULL)
		same = map(arg[3], &same_len);
	start = now_ns();
	n = ask_for(fd, arg[1], buf, &a);
	if (a.status != 200 || a.length != bytes || (same != NULL && same_len != bytes))
		die("%d with %llu bytes of %llu", a.status, (unsigned long long)a.length,
		    (unsigned long long)bytes);
	done = n - a.head;
	if (same != NULL && memcmp(buf + a.head, same, (size_t)done) != 0)
		die("the content differs");
	while (done < bytes) {
		/* Without a copy: the client is not what is measured. */
		size_t got = same != NULL ? recv_some(fd, buf, PIECE, 0)
					  : recv_some(fd, buf, DISCARD, MSG_TRUNC);

		if (got == 0 || got > bytes - done)
			die("%llu bytes of %llu came", (unsigned long long)(done + got),
			    (unsigned long long)bytes);
		if (same != NULL && memcmp(buf, same + done, got) != 0)
			die("the content differs");
		done += got;
	}
	print_done(now_ns() - start, done);
	return 0;
}

/* Bytes of an answer that have come and are not looked at yet. */
struct pieces {
	int fd, keep; /* keep: where the content goes, or -1 */
	size_t at, len;
	char *buf; /* of PIECE bytes */
};

/* The next line, without its end, in LINE_MAX_BYTES. */
static void next_line(struct pieces *p, char *line)
{
	size_t n = 0;

	for (;;) {
		if (p->at == p->len) {
			p->at = 0;
			p->len = recv_some(p->fd, p->buf, PIECE, 0);
			if (p->len == 0)
				die("the answer was cut");
		}
		if (p->buf[p->at] == '\n')
			break;
		if (n == LINE_MAX_BYTES - 1)
			die("no size of a chunk");
		line[n++] = p->buf[p->at++];
	}
	p->at++;
	line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
}

/* So many bytes of content. */
static void take_content(struct pieces *p, uint64_t left)
{
	static char away[DISCARD];

	while (left > 0) {
		size_t want = left < DISCARD ? (size_t)left : DISCARD, got = p->len - p->at;
		const char *from = p->buf + p->at;

		if (got > 0) {
			got = got < want ? got : want;
			p->at += got;
		} else {
			got = recv_some(p->fd, away, want, p->keep < 0 ? MSG_TRUNC : 0);
			from = away;
		}
		if (got == 0)
			die("the answer was cut");
		if (p->keep >= 0 && write(p->keep, from, got) != (ssize_t)got)
			die("write: %s", strerror(errno));
		left -= got;
	}
}

int do_chunks(char **arg)
{
	static char buf[PIECE];
	struct pieces p = { .fd = connect_to(arg[0]), .keep = -1, .buf = buf };
	char line[LINE_MAX_BYTES];
	uint64_t done = 0, size, start;
	struct answer a;

	if (arg[2] != NULL) {
		p.keep = open(arg[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (p.keep < 0)
			die("open '%s': %s", arg[2], strerror(errno));
	}
	start = now_ns();
	p.len = ask_for(p.fd, arg[1], buf, &a);
	p.at = a.head;
	if (a.status != 200 || a.length != UINT64_MAX)
		die("%d, not in chunks: %.*s", a.status,
		    (int)(p.len - p.at < 200 ? p.len - p.at : 200), buf + p.at);
	do {
		char *end;

		next_line(&p, line);
		size = strtoull(line, &end, 16);
		if (end == line || *end != '\0')
			die("no size of a chunk: '%s'", line);
		take_content(&p, size);
		done += size;
		next_line(&p, line);
		if (line[0] != '\0')
			die("no end of a chunk");
	} while (size > 0);
	print_done(now_ns() - start, done);
	return 0;
}
