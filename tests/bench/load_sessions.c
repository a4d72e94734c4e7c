// SPDX-License-Identifier: Apache-2.0
/*
 * load sessions PORT CREATE CELL EXPECT TOTAL AT_ONCE END
 *
 * AT_ONCE connections, open and answered once before the clock runs, make TOTAL sessions: CREATE, then CELL with the new id in place of "{id}",
 * whose answer must contain EXPECT. END is "keep" (the sessions stay) or "delete" (they are deleted at last, all connections at work).
 *
 *   {"count", "failed", "error", "wall_ns", "delete_ns", "made_ns": [until the session was there], "ns": [until its first result]}
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	ID_MAX = 64,
	SESSIONS_MAX = 10000,
	REQUEST_MAX = 1 << 16,
};

enum step { STEP_CREATE, STEP_CELL, STEP_DELETE };

struct session {
	char id[ID_MAX];
};

struct client {
	int fd;
	enum step step;
	unsigned int session;
	uint64_t sent_ns, made_ns;
	size_t len;
	char *buf;
};

struct crowd {
	const char *create, *cell, *expect;
	size_t create_len, cell_len, expect_len;
	struct client clients[CONNECTIONS_MAX];
	unsigned int nclients, total, begun, busy;
	struct session sessions[SESSIONS_MAX];
	uint64_t made_ns[SESSIONS_MAX], ns[SESSIONS_MAX];
	unsigned int count, failed;
	char error[256];
	int epoll_fd;
};

static void ask(struct crowd *w, struct client *c, const char *p, size_t n)
{
	c->len = 0;
	if (!send_all(c->fd, p, n))
		die("send: %s", strerror(errno));
	w->busy++;
}

static void ask_cell(struct crowd *w, struct client *c)
{
	static const char place[] = "{id}";
	static char request[REQUEST_MAX];
	const char *id = w->sessions[c->session].id;
	const char *at = memmem(w->cell, w->cell_len, place, sizeof(place) - 1);
	size_t before = (size_t)(at - w->cell), n = strlen(id);
	size_t behind = w->cell_len - before - (sizeof(place) - 1);

	(void)memcpy(request, w->cell, before);
	(void)memcpy(request + before, id, n);
	(void)memcpy(request + before + n, at + sizeof(place) - 1, behind);
	c->step = STEP_CELL;
	ask(w, c, request, before + n + behind);
}

static void begin(struct crowd *w, struct client *c)
{
	if (w->begun == w->total || w->failed >= FAILURES_MAX)
		return;
	c->session = w->begun++;
	c->step = STEP_CREATE;
	c->sent_ns = now_ns();
	ask(w, c, w->create, w->create_len);
}

/* The next session that is there, for a client without one. */
static void begin_delete(struct crowd *w, struct client *c)
{
	char request[256];
	int n;

	while (w->begun < w->total && w->sessions[w->begun].id[0] == '\0')
		w->begun++;
	if (w->begun == w->total)
		return;
	c->session = w->begun++;
	c->step = STEP_DELETE;
	n = snprintf(request, sizeof(request),
		     "DELETE /v1/boxes/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		     w->sessions[c->session].id);
	ask(w, c, request, (size_t)n);
}

static void wrong(struct crowd *w, const struct client *c, const struct answer *a)
{
	static const char *const what[] = { "new session", "first cell", "delete" };

	if (w->failed++ == 0)
		(void)snprintf(w->error, sizeof(w->error), "%s: %d: %.*s", what[c->step], a->status,
			       (int)(a->length < 150 ? a->length : 150), c->buf + a->head);
}

static bool take_id(struct session *s, const char *p, size_t n)
{
	static const char key[] = "\"id\":\"";
	const char *at = memmem(p, n, key, sizeof(key) - 1), *end;

	if (at == NULL)
		return false;
	at += sizeof(key) - 1;
	end = memchr(at, '"', (size_t)(p + n - at));
	if (end == NULL || end == at || (size_t)(end - at) >= sizeof(s->id))
		return false;
	(void)memcpy(s->id, at, (size_t)(end - at));
	return true;
}

static void answered(struct crowd *w, struct client *c, const struct answer *a)
{
	uint64_t ns = now_ns() - c->sent_ns;
	const char *body = c->buf + a->head;

	w->busy--;
	switch (c->step) {
	case STEP_CREATE:
		if (a->status == 201 &&
		    take_id(&w->sessions[c->session], body, (size_t)a->length)) {
			c->made_ns = ns;
			ask_cell(w, c);
			return;
		}
		wrong(w, c, a);
		begin(w, c);
		return;
	case STEP_CELL:
		if (a->status == 200 &&
		    memmem(body, (size_t)a->length, w->expect, w->expect_len) != NULL) {
			w->made_ns[w->count] = c->made_ns;
			w->ns[w->count++] = ns;
		} else {
			wrong(w, c, a);
		}
		begin(w, c);
		return;
	case STEP_DELETE:
		if (a->status != 204)
			wrong(w, c, a);
		begin_delete(w, c);
		return;
	}
}

static void readable(struct crowd *w, struct client *c)
{
	size_t got = recv_some(c->fd, c->buf + c->len, ANSWER_MAX - 1 - c->len, 0);
	struct answer a;

	if (got == 0)
		die("the connection was closed");
	c->len += got;
	c->buf[c->len] = '\0';
	if (parse_answer(c->buf, c->len, &a))
		answered(w, c, &a);
}

static void turn(struct crowd *w)
{
	while (w->busy > 0) {
		struct epoll_event e[64];
		int ready = epoll_wait(w->epoll_fd, e, 64, PATIENCE_MS);

		if (ready == 0 || (ready < 0 && errno != EINTR))
			die("no answer for %d s", PATIENCE_MS / 1000);
		for (int i = 0; i < ready; i++)
			readable(w, e[i].data.ptr);
	}
}

/* Accepting a connection is no part of what is measured. */
static void open_client(struct crowd *w, struct client *c, const char *port)
{
	static const char request[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
	struct answer a;

	c->fd = connect_to(port);
	c->buf = malloc(ANSWER_MAX);
	if (c->buf == NULL || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0)
		die("out of memory");
	if (!send_all(c->fd, request, sizeof(request) - 1))
		die("send: %s", strerror(errno));
	do
		c->len += recv_some(c->fd, c->buf + c->len, ANSWER_MAX - 1 - c->len, 0);
	while (!parse_answer(c->buf, c->len, &a));
}

int do_sessions(char **arg)
{
	static struct crowd w;
	uint64_t start, wall, ended = 0;

	w.create = map(arg[1], &w.create_len);
	w.cell = map(arg[2], &w.cell_len);
	w.expect = arg[3];
	w.expect_len = strlen(arg[3]);
	w.total = (unsigned int)number(arg[4]);
	w.nclients = (unsigned int)number(arg[5]);
	w.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w.total == 0 || w.total > SESSIONS_MAX || w.nclients == 0 ||
	    w.nclients > CONNECTIONS_MAX)
		die("sessions and connections are numbers above 0");
	if (memmem(w.cell, w.cell_len, "{id}", 4) == NULL || w.cell_len > REQUEST_MAX - ID_MAX)
		die("a cell has {id} in its path, and is short");
	for (unsigned int i = 0; i < w.nclients; i++)
		open_client(&w, &w.clients[i], arg[0]);
	start = now_ns();
	for (unsigned int i = 0; i < w.nclients; i++)
		begin(&w, &w.clients[i]);
	turn(&w);
	wall = now_ns() - start;
	if (strcmp(arg[6], "delete") == 0) {
		w.begun = 0;
		for (unsigned int i = 0; i < w.nclients; i++)
			begin_delete(&w, &w.clients[i]);
		turn(&w);
		ended = now_ns() - start - wall;
	}
	(void)printf("{\"count\": %u, \"failed\": %u, \"error\": \"", w.count, w.failed);
	print_text(w.error);
	(void)printf("\", \"wall_ns\": %llu, \"delete_ns\": %llu, ", (unsigned long long)wall,
		     (unsigned long long)ended);
	print_list("made_ns", w.made_ns, w.count);
	(void)printf(", ");
	print_list("ns", w.ns, w.count);
	(void)printf("}\n");
	return 0;
}
