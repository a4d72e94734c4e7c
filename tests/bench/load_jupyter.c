// SPDX-License-Identifier: Apache-2.0
/*
 * load jupyter PORT PATH FRAMING CONTENT PIECE TIMES MS
 *
 * One kernel's channels at PATH, behind which a session's id is put. FRAMING is legacy or v1; who does not take v1 is no server for it.
 * CONTENT, that of an execute_request, goes out again and again for MS milliseconds, at least once. What is printed must be the bytes of PIECE,
 * so many times; with 0 PIECE is not looked at. A cell is over when its reply and its idle have come. One that does nothing comes first,
 * and does not count.
 *
 *   {"count", "failed", "error", "ns": [from the request to reply and idle]}
 *
 * load kernels PORT CREATE PATH FRAMING CONTENT PIECE TIMES TOTAL
 *
 * So many connections at once, open and answered once before the clock runs. Each asks for a kernel by CREATE, goes to its channels at
 * PATH, with the kernel's id in place of "{id}", and runs one cell there, as above. The kernels stay.
 *
 *   {"count", "failed", "error", "wall_ns", "made_ns": [until the kernel was there], "ns": [until its cell was over]}
 */
#include "jupyter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	TIMES_MAX = 1 << 16,
	SESSION_MAX = 64,
	PATH_MAX_BYTES = 512,
};

/* What every cell is asked with. */
struct work {
	bool v1;
	struct slice content;
	struct output output;
};

/* FRAMING CONTENT PIECE TIMES */
static struct work take_work(char **arg)
{
	struct work w = { .v1 = is_v1(arg[0]), .output.times = number(arg[3]) };

	w.content.p = map(arg[1], &w.content.n);
	if (w.output.times > 0)
		w.output.piece.p = map(arg[2], &w.output.piece.n);
	return w;
}

static const char *protocol_of(const struct work *w)
{
	return w->v1 ? JUPYTER_V1 : NULL;
}

/* --- one kernel ------------------------------------------------------------------------------- */

/* One cell to its end; how long that took. */
static uint64_t run_cell(struct wire *w, const struct work *work, const char *session,
			 struct cell *c)
{
	static char out[FRAME_MAX];
	size_t n = put_cell(out, c, work->v1, session, work->content, &work->output);
	uint64_t start = now_ns();
	const char *p;
	int opcode;

	if (!send_all(w->fd, out, n))
		die("send: %s", strerror(errno));
	do {
		acknowledge(w->fd);
		opcode = wire_next(w, &p, &n);
		if (opcode == WS_CLOSE)
			die("closed: %.*s", n > 2 ? (int)(n - 2) : 0, p + 2);
	} while (!hear(c, opcode, p, n));
	return now_ns() - start;
}

static void run_first(struct wire *w, const struct work *work, const char *session)
{
	static const char content[] = "{\"code\":\"pass\",\"silent\":false,\"store_history\":false,"
				      "\"user_expressions\":{},\"allow_stdin\":false,"
				      "\"stop_on_error\":true}";
	const struct work first = { .v1 = work->v1, .content = { content, sizeof(content) - 1 } };
	struct cell c;

	(void)run_cell(w, &first, session, &c);
	if (!is_right(&c))
		die("first cell: %s", c.error);
}

int do_jupyter(char **arg)
{
	static uint64_t times[TIMES_MAX];
	char session[SESSION_MAX], path[PATH_MAX_BYTES], error[256] = "";
	const struct work work = take_work(arg + 2);
	unsigned int count = 0, failed = 0;
	struct wire w = { 0 };
	uint64_t end_ns;

	(void)snprintf(session, sizeof(session), "bench-%d", (int)getpid());
	(void)snprintf(path, sizeof(path), "%s%s", arg[1], session);
	wire_open(&w, arg[0], path, protocol_of(&work));
	run_first(&w, &work, session);
	end_ns = now_ns() + number(arg[6]) * 1000000u;
	do {
		struct cell c;
		uint64_t ns = run_cell(&w, &work, session, &c);

		if (is_right(&c))
			times[count++] = ns;
		else if (failed++ == 0)
			(void)snprintf(error, sizeof(error), "%s", c.error);
	} while (now_ns() < end_ns && count < TIMES_MAX && failed < FAILURES_MAX);
	(void)printf("{\"count\": %u, \"failed\": %u, \"error\": \"", count, failed);
	print_text(error);
	(void)printf("\", ");
	print_list("ns", times, count);
	(void)printf("}\n");
	return 0;
}

/* --- many kernels ----------------------------------------------------------------------------- */

enum step { STEP_CREATE, STEP_UPGRADE, STEP_CELL, STEP_OVER };

struct client {
	int fd;
	enum step step;
	uint64_t sent_ns, made_ns;
	struct cell cell;
	size_t len;
	char *buf;
};

struct crowd {
	struct work work;
	const char *create, *path;
	size_t create_len;
	struct client clients[CONNECTIONS_MAX];
	uint64_t made_ns[CONNECTIONS_MAX], ns[CONNECTIONS_MAX];
	unsigned int total, busy, count, failed;
	char error[256];
	int epoll_fd;
};

static void ask(struct client *c, enum step step, const char *p, size_t n)
{
	c->step = step;
	if (!send_all(c->fd, p, n))
		die("send: %s", strerror(errno));
	acknowledge(c->fd);
}

static void over(struct crowd *w, struct client *c, const char *error)
{
	static const char *const what[] = { "new kernel", "its channels", "its cell" };

	if (error == NULL) {
		w->made_ns[w->count] = c->made_ns;
		w->ns[w->count++] = now_ns() - c->sent_ns;
	} else if (w->failed++ == 0) {
		(void)snprintf(w->error, sizeof(w->error), "%s: %s", what[c->step], error);
	}
	c->step = STEP_OVER;
	w->busy--;
}

static void session_of(const struct crowd *w, const struct client *c, char session[SESSION_MAX])
{
	(void)snprintf(session, SESSION_MAX, "bench-%d-%d", (int)getpid(), (int)(c - w->clients));
}

static bool has_made(struct crowd *w, struct client *c)
{
	static const char place[] = "{id}";
	char request[UPGRADE_MAX], path[PATH_MAX_BYTES], session[SESSION_MAX], error[200];
	const char *at = strstr(w->path, place);
	struct member id = { .key = "id" };
	struct answer a;

	if (!parse_answer(c->buf, c->len, &a))
		return false;
	c->made_ns = now_ns() - c->sent_ns;
	if (a.status != 201 ||
	    !find_members((struct slice){ c->buf + a.head, (size_t)a.length }, &id, 1) ||
	    id.value.n < 3 || id.value.n > SESSION_MAX || id.value.p[0] != '"') {
		(void)snprintf(error, sizeof(error), "%d: %.*s", a.status,
			       (int)(a.length < 150 ? a.length : 150), c->buf + a.head);
		over(w, c, error);
		return false;
	}
	session_of(w, c, session);
	(void)snprintf(path, sizeof(path), "%.*s%.*s%s%s", (int)(at - w->path), w->path,
		       (int)(id.value.n - 2), id.value.p + 1, at + sizeof(place) - 1, session);
	c->len = 0;
	ask(c, STEP_UPGRADE, request, put_upgrade(request, path, protocol_of(&w->work)));
	return false;
}

static bool has_connected(struct crowd *w, struct client *c)
{
	char out[FRAME_MAX], session[SESSION_MAX], error[200];
	struct answer a;

	if (!parse_head(c->buf, c->len, &a))
		return false;
	if (!is_upgraded(c->buf, c->len, &a, protocol_of(&w->work), error, sizeof(error))) {
		over(w, c, error);
		return false;
	}
	c->len -= a.head;
	(void)memmove(c->buf, c->buf + a.head, c->len);
	session_of(w, c, session);
	ask(c, STEP_CELL, out,
	    put_cell(out, &c->cell, w->work.v1, session, w->work.content, &w->work.output));
	return true;
}

static bool has_heard(struct crowd *w, struct client *c)
{
	size_t at = 0;
	struct frame f;

	while (c->step == STEP_CELL && parse_frame(c->buf + at, c->len - at, &f)) {
		at += f.whole;
		if (f.opcode == WS_CLOSE)
			over(w, c, "closed");
		else if (f.opcode != WS_PING && hear(&c->cell, f.opcode, f.p, f.n))
			over(w, c, is_right(&c->cell) ? NULL : c->cell.error);
	}
	c->len -= at;
	(void)memmove(c->buf, c->buf + at, c->len);
	return false;
}

static void readable(struct crowd *w, struct client *c)
{
	/* By step; whether what has come may be for the next one, too. */
	static bool (*const take[])(struct crowd *w, struct client *c) = { has_made, has_connected,
									   has_heard };
	size_t got = recv_some(c->fd, c->buf + c->len, ANSWER_MAX - 1 - c->len, 0);

	if (got == 0 && c->step != STEP_OVER)
		over(w, c, "the connection was closed");
	if (c->step == STEP_OVER) {
		if (got == 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL) < 0)
			die("epoll: %s", strerror(errno));
		c->len = 0;
		return;
	}
	c->len += got;
	c->buf[c->len] = '\0';
	if (c->len == ANSWER_MAX - 1)
		die("a large answer");
	while (c->step != STEP_OVER && take[c->step](w, c))
		;
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
	static const char request[] = "GET /api HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
	struct answer a;
	size_t got;

	c->fd = connect_to(port);
	c->buf = malloc(ANSWER_MAX);
	if (c->buf == NULL || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0)
		die("out of memory");
	if (!send_all(c->fd, request, sizeof(request) - 1))
		die("send: %s", strerror(errno));
	do {
		got = recv_some(c->fd, c->buf + c->len, ANSWER_MAX - 1 - c->len, 0);
		if (got == 0)
			die("the connection was closed");
		c->len += got;
	} while (!parse_answer(c->buf, c->len, &a));
	c->len = 0;
}

int do_kernels(char **arg)
{
	static struct crowd w;
	uint64_t start, wall;

	w.create = map(arg[1], &w.create_len);
	w.path = arg[2];
	w.work = take_work(arg + 3);
	w.total = (unsigned int)number(arg[7]);
	w.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w.total == 0 || w.total > CONNECTIONS_MAX)
		die("kernels are a number above 0");
	if (strstr(w.path, "{id}") == NULL)
		die("the path of channels has {id} in it");
	for (unsigned int i = 0; i < w.total; i++)
		open_client(&w, &w.clients[i], arg[0]);
	start = now_ns();
	for (w.busy = 0; w.busy < w.total; w.busy++) {
		struct client *c = &w.clients[w.busy];

		c->sent_ns = now_ns();
		ask(c, STEP_CREATE, w.create, w.create_len);
	}
	turn(&w);
	wall = now_ns() - start;
	(void)printf("{\"count\": %u, \"failed\": %u, \"error\": \"", w.count, w.failed);
	print_text(w.error);
	(void)printf("\", \"wall_ns\": %llu, ", (unsigned long long)wall);
	print_list("made_ns", w.made_ns, w.count);
	(void)printf(", ");
	print_list("ns", w.ns, w.count);
	(void)printf("}\n");
	return 0;
}
