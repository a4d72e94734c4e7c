// SPDX-License-Identifier: Apache-2.0
/*
 * Requests under way. A connection goes through connecting (to each address of the server in turn), sending and reading; an answer
 * may come before all was sent, and is the answer then. What the server says is read by wire/http_answer.c.
 */
#include "cli/mcp_http.h"

#include "base/clock.h"
#include "base/own.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

enum {
	HEAD_MAX = 64 * 1024,
	PIECE = 64 * 1024,
	STALL_MS = 60000, /* how long a server may take nothing of a request */
};

void exchanges_init(struct exchanges *all, struct client *c)
{
	*all = (struct exchanges){ .c = c };
}

void exchanges_done(struct exchanges *all)
{
	for (unsigned int i = 0; i < EXCHANGES_MAX; i++)
		if (all->x[i] != NULL)
			exchange_drop(all->x[i]);
}

/* --- making --------------------------------------------------------------------------------------- */

struct exchange *exchange_new(struct exchanges *all, const char *method, const char *path,
			      const struct exchange_ops *ops, void *arg)
{
	struct exchange *x;
	unsigned int i = 0;

	while (i < EXCHANGES_MAX && all->x[i] != NULL)
		i++;
	x = i < EXCHANGES_MAX ? calloc(1, sizeof(*x)) : NULL;
	if (x == NULL)
		return NULL;
	x->all = all;
	x->ops = ops;
	x->arg = arg;
	x->fd = x->file = -1;
	x->deadline_us = UINT64_MAX;
	x->is_get = strcmp(method, "GET") == 0;
	bytes_init(&x->head, HEAD_MAX);
	client_head(all->c, &x->head, method, path);
	bytes_puts(&x->head, "Connection: close\r\n");
	all->x[i] = x;
	all->n++;
	return x;
}

void exchange_header(struct exchange *x, const char *name, const char *value)
{
	bytes_puts(&x->head, name);
	bytes_puts(&x->head, ": ");
	bytes_puts(&x->head, value);
	bytes_puts(&x->head, "\r\n");
}

static void put_length(struct exchange *x, uint64_t n)
{
	bytes_printf(&x->head, "Content-Length: %llu\r\n", (unsigned long long)n);
}

void exchange_body(struct exchange *x, const char *type, char *body, size_t n)
{
	exchange_header(x, "Content-Type", type);
	put_length(x, n);
	x->body = body;
	x->nbody = n;
}

void exchange_file(struct exchange *x, int fd, uint64_t size)
{
	exchange_header(x, "Content-Type", "application/octet-stream");
	put_length(x, size);
	x->file = fd;
	x->file_size = size;
}

void exchange_drop(struct exchange *x)
{
	struct exchanges *all = x->all;

	for (unsigned int i = 0; i < EXCHANGES_MAX; i++)
		if (all->x[i] == x)
			all->x[i] = NULL;
	all->n--;
	fd_close(&x->fd);
	fd_close(&x->file);
	bytes_done(&x->head);
	free(x->body);
	free(x);
}

static void fail(struct exchange *x, int sys, const char *what)
{
	fd_close(&x->fd);
	x->state = EXCHANGE_FAILED;
	(void)err_set(&x->e, ERR_SYS, sys, "%s %s", what, x->all->c->url.shown);
}

/* --- connecting ----------------------------------------------------------------------------------- */

static int find_host(struct exchanges *all, struct err *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	const struct url *url = &all->c->url;
	char port[8];
	int r;

	(void)snprintf(port, sizeof(port), "%u", (unsigned int)url->port);
	r = getaddrinfo(url->host, port, &hints, &list);
	if (r != 0)
		return err_set(e, ERR_INPUT, 0, "there is no host '%s': %s", url->host,
			       gai_strerror(r));
	for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
		if (all->naddresses == EXCHANGE_ADDRESSES_MAX ||
		    a->ai_addrlen > sizeof(all->addresses[0].a))
			break;
		(void)memcpy(&all->addresses[all->naddresses].a, a->ai_addr, a->ai_addrlen);
		all->addresses[all->naddresses++].len = a->ai_addrlen;
	}
	freeaddrinfo(list);
	return all->naddresses > 0
		       ? 0
		       : err_set(e, ERR_INPUT, 0, "the host '%s' has no address", url->host);
}

/* Once: what is found stays. (A name may take a while to be looked up, and everybody waits; later ones do not.) */
static int find_addresses(struct exchanges *all, struct err *e)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (all->naddresses > 0)
		return 0;
	if (all->c->url.path[0] == '\0')
		return find_host(all, e);
	(void)memcpy(un.sun_path, all->c->url.path, sizeof(un.sun_path));
	(void)memcpy(&all->addresses[0].a, &un, sizeof(un));
	all->addresses[0].len = sizeof(un);
	all->naddresses = 1;
	return 0;
}

/* A machine that is gone says nothing: the kernel asks whether it is there. */
static void tune(int fd)
{
	static const struct {
		int option, value;
	} rows[] = { { TCP_NODELAY, 1 },
		     { TCP_KEEPIDLE, 30 },
		     { TCP_KEEPINTVL, 10 },
		     { TCP_KEEPCNT, 3 },
		     { TCP_USER_TIMEOUT, STALL_MS } };
	int one = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		(void)setsockopt(fd, IPPROTO_TCP, rows[i].option, &rows[i].value,
				 sizeof(rows[i].value));
}

static void begin_sending(struct exchange *x)
{
	x->state = EXCHANGE_SENDING;
	x->all->good = x->address;
	x->deadline_us = clock_us() + STALL_MS * US_PER_MS;
}

/* The next address that can be tried. */
static void try_connect(struct exchange *x, int error)
{
	struct exchanges *all = x->all;

	fd_close(&x->fd);
	for (; x->tried < all->naddresses; x->tried++, fd_close(&x->fd)) {
		x->address = (all->good + x->tried) % all->naddresses;
		x->fd = socket(all->addresses[x->address].a.ss_family,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (x->fd < 0) {
			error = errno;
			continue;
		}
		if (all->addresses[x->address].a.ss_family != AF_UNIX)
			tune(x->fd);
		if (connect(x->fd, (const struct sockaddr *)&all->addresses[x->address].a,
			    all->addresses[x->address].len) == 0) {
			begin_sending(x);
			return;
		}
		error = errno;
		if (error == EINPROGRESS) {
			x->tried++;
			x->state = EXCHANGE_CONNECTING;
			x->deadline_us = clock_us() + CONNECT_TIMEOUT_MS * US_PER_MS;
			return;
		}
	}
	fail(x, error, "connect to");
}

static void step_connecting(struct exchange *x)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error == 0)
		begin_sending(x);
	else
		try_connect(x, error);
}

void exchange_start(struct exchange *x)
{
	if (x->body == NULL && x->file < 0 && !x->is_get)
		put_length(x, 0);
	bytes_puts(&x->head, "\r\n");
	http_answer_init(&x->answer);
	if (x->head.failed) {
		(void)err_set(&x->e, ERR_LIMIT, 0, "what is to be said in headers is too long");
		x->state = EXCHANGE_FAILED;
	} else if (find_addresses(x->all, &x->e) < 0) {
		x->state = EXCHANGE_FAILED;
	} else {
		try_connect(x, 0);
	}
}

/* --- sending -------------------------------------------------------------------------------------- */

static void begin_reading(struct exchange *x)
{
	x->state = EXCHANGE_READING;
	free(x->body);
	x->body = NULL;
	fd_close(&x->file);
	x->deadline_us = x->answer_ms > 0 ? clock_us() + x->answer_ms * US_PER_MS : UINT64_MAX;
}

/* What comes next, in *p; 0: that was all; -1: failed. */
static ssize_t next_piece(struct exchange *x, const char **p)
{
	static char piece[PIECE];
	uint64_t left = x->file_size - x->file_at;
	ssize_t n;

	if (x->sent < x->head.n) {
		*p = x->head.p + x->sent;
		return (ssize_t)(x->head.n - x->sent);
	}
	if (x->sent < x->head.n + x->nbody) {
		*p = x->body + (x->sent - x->head.n);
		return (ssize_t)(x->head.n + x->nbody - x->sent);
	}
	if (x->file < 0 || left == 0)
		return 0;
	*p = piece;
	n = pread(x->file, piece, left < PIECE ? (size_t)left : PIECE, (off_t)x->file_at);
	if (n > 0)
		return n;
	fail(x, n < 0 ? errno : 0, "the file became shorter while it was sent to");
	return -1;
}

static void step_sending(struct exchange *x)
{
	const char *p = NULL;
	ssize_t n = next_piece(x, &p), w;

	if (n < 0)
		return;
	w = n > 0 ? send(x->fd, p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
	if (w < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (w < 0 && errno != EPIPE && errno != ECONNRESET) {
		fail(x, errno, "send to");
		return;
	}
	/* Who refuses a body may close before it has all of it, and has said why. */
	if (n == 0 || w < 0) {
		begin_reading(x);
		return;
	}
	if (x->sent < x->head.n + x->nbody)
		x->sent += (size_t)w;
	else
		x->file_at += (uint64_t)w;
	x->deadline_us = clock_us() + STALL_MS * US_PER_MS;
}

/* --- reading -------------------------------------------------------------------------------------- */

static void end(struct exchange *x, const struct err *e)
{
	fd_close(&x->fd);
	x->ops->end(x, e);
	exchange_drop(x);
}

/* false: the exchange is gone, or has failed. */
static bool take_bytes(struct exchange *x, const char *p, size_t n)
{
	struct http_answer *a = &x->answer;

	for (size_t at = 0; at < n && !a->done;) {
		bool had_head = a->status != 0;
		struct http_slice data;
		const char *why = "";
		ptrdiff_t used = http_answer_feed(a, p + at, n - at, &data, &why);

		if (used < 0) {
			x->state = EXCHANGE_FAILED;
			(void)err_set(&x->e, ERR_PROTO, 0, "what answers at %s is no glovebox: %s",
				      x->all->c->url.shown, why);
			return false;
		}
		at += (size_t)used;
		if ((!had_head && a->status != 0 && x->ops->head != NULL && x->ops->head(x) != 0) ||
		    (data.n > 0 && x->ops->body != NULL && x->ops->body(x, data.p, data.n) != 0)) {
			exchange_drop(x);
			return false;
		}
	}
	if (!a->done)
		return true;
	end(x, NULL);
	return false;
}

static void step_reading(struct exchange *x)
{
	static char buf[PIECE];
	ssize_t n = recv(x->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		fail(x, errno, "the connection was lost to");
		return;
	}
	if (n > 0) {
		if (x->answer_ms > 0 && x->state == EXCHANGE_READING)
			x->deadline_us = clock_us() + x->answer_ms * US_PER_MS;
		(void)take_bytes(x, buf, (size_t)n);
		return;
	}
	if (http_answer_end(&x->answer))
		end(x, NULL);
	else
		fail(x, ECONNRESET, "the connection was lost to");
}

/* --- driving -------------------------------------------------------------------------------------- */

static bool is_paused(const struct exchange *x)
{
	return x->paused && x->state == EXCHANGE_READING;
}

unsigned int exchanges_poll(struct exchanges *all, struct pollfd *p, uint64_t *deadline_us)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < EXCHANGES_MAX; i++) {
		struct exchange *x = all->x[i];

		if (x == NULL || x->state == EXCHANGE_NEW)
			continue;
		p[n] = (struct pollfd){ .fd = is_paused(x) ? -1 : x->fd, .events = POLLIN };
		if (x->state != EXCHANGE_READING)
			p[n].events |= POLLOUT;
		if (x->state == EXCHANGE_CONNECTING)
			p[n].events = POLLOUT;
		if (x->state == EXCHANGE_FAILED)
			*deadline_us = 0;
		else if (!is_paused(x) && x->deadline_us < *deadline_us)
			*deadline_us = x->deadline_us;
		x->polled = ++n;
	}
	return n;
}

static void step(struct exchange *x, short came)
{
	enum exchange_state was = x->state;

	if (came == 0 && was != EXCHANGE_FAILED && !is_paused(x) && clock_us() >= x->deadline_us)
		fail(x, ETIMEDOUT, was == EXCHANGE_CONNECTING ? "connect to" : "wait for");
	else if (came != 0 && was == EXCHANGE_CONNECTING)
		step_connecting(x);
	else if (was == EXCHANGE_SENDING && (came & POLLOUT) != 0 && (came & POLLIN) == 0)
		step_sending(x);
	else if (came != 0 && (was == EXCHANGE_READING || was == EXCHANGE_SENDING))
		step_reading(x); /* what came early is the answer */
	else if (was == EXCHANGE_FAILED)
		end(x, &x->e);
}

void exchanges_step(struct exchanges *all, const struct pollfd *p)
{
	for (unsigned int i = 0; i < EXCHANGES_MAX; i++) {
		struct exchange *x = all->x[i];

		/* A function of another one may have made it, or dropped it. */
		if (x != NULL && x->polled > 0) {
			short came = p[x->polled - 1].revents;

			x->polled = 0;
			step(x, came);
		}
	}
}

bool exchange_says(const struct exchange *x, const char *header, const char *begins)
{
	struct http_slice s = http_answer_get(&x->answer, header);
	size_t n = strlen(begins);

	return s.n >= n && strncasecmp(s.p, begins, n) == 0;
}
