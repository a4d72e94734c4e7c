/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/http_client.c and follow.c: connections that are kept, lost and made anew, with a server that plays a script. */
#include "cli/follow.h"
#include "cli/http_client.h"
#include "cli/wake.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_help.h"

enum { CLOSE = 1, SILENT = 2, LEFT = 4 }; /* LEFT: the client closes it */

/* One request, and what is answered; an accepted connection lasts until a step with CLOSE. */
struct step {
	const char *wants; /* what the request must have in it */
	const char *says;
	unsigned int flags;
};

struct stage {
	char dir[32], path[64];
	pid_t server;
	struct client c;
};

/* --- the server, a process of its own ---------------------------------------------------------------- */

static void read_request(int fd, char *buf, size_t size)
{
	size_t n = 0;
	const char *end, *length;

	for (;;) {
		ssize_t got;

		buf[n] = '\0';
		end = strstr(buf, "\r\n\r\n");
		length = strstr(buf, "Content-Length: ");
		if (end != NULL &&
		    n >= (size_t)(end + 4 - buf) +
				    (length != NULL ? strtoul(length + 16, NULL, 10) : 0))
			return;
		got = read(fd, buf + n, size - 1 - n);
		if (got <= 0)
			_exit(10);
		n += (size_t)got;
	}
}

static void play(int listener, const struct step *steps, unsigned int n)
{
	static char buf[65536];
	int fd = -1;

	(void)signal(SIGPIPE, SIG_IGN);
	for (unsigned int i = 0; i < n; i++) {
		if (fd < 0)
			fd = accept(listener, NULL, NULL);
		if (fd < 0)
			_exit(11);
		read_request(fd, buf, sizeof(buf));
		if (strstr(buf, steps[i].wants) == NULL) {
			(void)fprintf(stderr, "# wanted '%s' in\n%s\n", steps[i].wants, buf);
			_exit(12);
		}
		if (steps[i].flags & SILENT)
			(void)!read(fd, buf, 1); /* until the client has gone */
		if (write(fd, steps[i].says, strlen(steps[i].says)) < 0 &&
		    !(steps[i].flags & SILENT))
			_exit(13);
		if ((steps[i].flags & LEFT) && read(fd, buf, 1) != 0)
			_exit(14);
		if (steps[i].flags & (CLOSE | LEFT)) {
			(void)close(fd);
			fd = -1;
		}
	}
	if (fd >= 0)
		(void)!read(fd, buf, 1);
	_exit(0);
}

static void set_stage(struct stage *s, const struct step *steps, unsigned int n)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[80];
	struct url u;
	struct err e;

	(void)strcpy(s->dir, "/tmp/unit-http-XXXXXX");
	CHECK(mkdtemp(s->dir) != NULL);
	(void)snprintf(s->path, sizeof(s->path), "%s/socket", s->dir);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", s->path);
	CHECK_EQ_INT(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
	CHECK_EQ_INT(listen(listener, 10), 0);
	s->server = fork();
	CHECK(s->server >= 0);
	if (s->server == 0)
		play(listener, steps, n);
	(void)close(listener);
	(void)snprintf(text, sizeof(text), "unix:%s", s->path);
	CHECK_EQ_INT(url_parse(text, &u, &e), 0);
	client_init(&s->c, &u, "a-token");
}

/* The whole script was played. */
static void strike(struct stage *s)
{
	int status;

	client_done(&s->c);
	CHECK_EQ_INT(waitpid(s->server, &status, 0), s->server);
	CHECK_EQ_INT(WEXITSTATUS(status), 0);
	(void)unlink(s->path);
	CHECK_EQ_INT(rmdir(s->dir), 0);
}

#define STAGE(s, steps) set_stage(s, steps, sizeof(steps) / sizeof((steps)[0]))
#define OK(body)        "HTTP/1.1 200 OK\r\nContent-Length: " body

static int get(struct stage *s, const char *path, struct reply *r, struct err *e)
{
	struct call q = { .method = "GET", .path = path };

	return client_call(&s->c, &q, r, e);
}

static int post(struct stage *s, const char *key, struct reply *r, struct err *e)
{
	struct call q = { .method = "POST", .path = "/p", .key = key };
	struct json j;
	int rc;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_close(&j, '}');
	q.body = &j;
	rc = client_call(&s->c, &q, r, e);
	json_done(&j);
	return rc;
}

TEST(client_keeps_its_connection)
{
	static const struct step steps[] = {
		{ "GET /a HTTP/1.1\r\nHost: localhost\r\n", OK("7\r\n\r\n{\"a\":1}"), 0 },
		{ "Authorization: Bearer a-token\r\n",
		  "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n2}\r\n0\r\n\r\n",
		  0 },
		{ "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		  "HTTP/1.1 429 No\r\nRetry-After: 3\r\nContent-Length: 63\r\n\r\n"
		  "{\"error\":{\"code\":\"too_many\",\"message\":\"enough\",\"hint\":\"wait\"}}\n",
		  0 },
		{ "DELETE /a", "HTTP/1.1 204 No Content\r\n\r\n", 0 },
	};
	struct call delete = { .method = "DELETE", .path = "/a" };
	struct stage s;
	struct reply r;
	struct err e;
	int fd;

	STAGE(&s, steps);
	CHECK_EQ_INT(get(&s, "/a", &r, &e), 0);
	CHECK_EQ_INT(r.status, 200);
	CHECK_EQ_INT(node_int(&r.doc, reply_root(&r), "a", 0), 1);
	reply_free(&r);
	fd = s.c.fd;
	CHECK(fd >= 0);
	CHECK_EQ_INT(get(&s, "/a", &r, &e), 0);
	CHECK_EQ_INT(node_int(&r.doc, reply_root(&r), "a", 0), 2);
	reply_free(&r);
	CHECK_EQ_INT(post(&s, NULL, &r, &e), 0);
	CHECK_EQ_INT(r.status, 429);
	CHECK_EQ_INT(r.retry_after_s, 3);
	CHECK_STR(reply_code(&r), "too_many");
	CHECK_EQ_INT(reply_refused(&r, &e), -1);
	CHECK_STR(e.text, "enough");
	CHECK_STR(e.hint, "wait");
	reply_free(&r);
	CHECK_EQ_INT(client_call(&s.c, &delete, &r, &e), 0);
	CHECK_EQ_INT(r.status, 204);
	reply_free(&r);
	CHECK_EQ_INT(s.c.fd, fd);
	strike(&s);
}

TEST(client_comes_back_to_a_server_that_closed)
{
	static const struct step steps[] = {
		{ "GET /1", OK("2\r\n\r\n{}"), CLOSE },
		{ "GET /2", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
		  CLOSE },
		{ "POST /p", OK("2\r\n\r\n{}"), 0 },
	};
	struct stage s;
	struct reply r;
	struct err e;

	STAGE(&s, steps);
	CHECK_EQ_INT(get(&s, "/1", &r, &e), 0);
	reply_free(&r);
	CHECK_EQ_INT(get(&s, "/2", &r, &e), 0);
	reply_free(&r);
	CHECK_EQ_INT(s.c.fd, -1);
	CHECK_EQ_INT(post(&s, NULL, &r, &e), 0);
	reply_free(&r);
	strike(&s);
}

/* A connection that ends behind a request: it may have been done. */
TEST(client_repeats_only_what_is_harmless)
{
	static const struct step steps[] = {
		{ "GET /1", OK("2\r\n\r\n{}"), 0 },
		{ "POST /p", "", CLOSE }, /* without a key: not again */
		{ "GET /1", OK("2\r\n\r\n{}"), 0 },
		{ "Idempotency-Key: k", "", CLOSE },
		{ "Idempotency-Key: k", OK("2\r\n\r\n{}"), 0 },
		{ "GET /2", "", CLOSE },
		{ "GET /2", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", CLOSE },
	};
	struct stage s;
	struct reply r;
	struct err e;

	STAGE(&s, steps);
	CHECK_EQ_INT(get(&s, "/1", &r, &e), 0);
	reply_free(&r);
	CHECK_EQ_INT(post(&s, NULL, &r, &e), -1);
	CHECK_EQ_INT(e.kind, ERR_SYS);
	CHECK_EQ_INT(e.sys, ECONNRESET);
	CHECK(s.c.unsure && s.c.status == 0);
	CHECK_EQ_INT(get(&s, "/1", &r, &e), 0);
	reply_free(&r);
	CHECK_EQ_INT(post(&s, "k", &r, &e), 0);
	reply_free(&r);
	CHECK(!s.c.unsure && s.c.status == 200);
	CHECK_EQ_INT(get(&s, "/2", &r, &e), -1); /* half an answer is none */
	strike(&s);
}

TEST(client_does_not_wait_for_ever)
{
	static const struct step steps[] = { { "GET /1", "", SILENT | CLOSE } };
	struct call q = { .method = "GET", .path = "/1", .timeout_ms = 50 };
	struct stage s;
	struct reply r;
	struct err e;

	STAGE(&s, steps);
	CHECK_EQ_INT(client_call(&s.c, &q, &r, &e), -1);
	CHECK_EQ_INT(e.sys, ETIMEDOUT);
	strike(&s);
}

TEST(client_tells_why_there_is_nobody)
{
	struct client c;
	struct url u;
	struct reply r;
	struct err e;
	struct call q = { .method = "GET", .path = "/" };

	CHECK_EQ_INT(url_parse("unix:/nonexistent/socket", &u, &e), 0);
	client_init(&c, &u, "");
	CHECK_EQ_INT(client_call(&c, &q, &r, &e), -1);
	CHECK_EQ_INT(e.sys, ENOENT);
	CHECK(!c.unsure && c.status == 0);
}

/* What has been idle for long may be closed while a request is under way, and nobody could tell whether it was done. */
TEST(client_trusts_no_old_connection_with_what_it_cannot_repeat)
{
	static const struct step steps[] = {
		{ "GET /1", OK("2\r\n\r\n{}"), 0 },
		{ "GET /2", OK("2\r\n\r\n{}"), LEFT },
		{ "POST /p", OK("2\r\n\r\n{}"), 0 },
	};
	struct stage s;
	struct reply r;
	struct err e;

	STAGE(&s, steps);
	CHECK_EQ_INT(get(&s, "/1", &r, &e), 0);
	reply_free(&r);
	s.c.used_us -= 60 * 1000000;
	CHECK_EQ_INT(get(&s, "/2", &r, &e), 0); /* on the same connection */
	reply_free(&r);
	s.c.used_us -= 60 * 1000000;
	CHECK_EQ_INT(post(&s, NULL, &r, &e), 0); /* on a new one */
	reply_free(&r);
	strike(&s);
}

/* A server that hangs: who is asked to end does not wait for it, but for a moment. */
TEST(client_hears_a_signal_while_nobody_answers)
{
	static const struct {
		unsigned int wake, flags;
		int sig;
	} rows[] = {
		{ WAKE_INT, CALL_INT, SIGINT },
		{ WAKE_PASS_ON, CALL_LATE, SIGTERM },
		{ 0, 0, SIGTERM },
	};
	static const struct step steps[] = { { "GET /1", "", SILENT | CLOSE } };

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct call q = { .method = "GET", .path = "/1", .flags = rows[i].flags };
		struct stage s;
		struct reply r;
		struct wake w;
		struct err e;

		STAGE(&s, steps);
		CHECK_EQ_INT(wake_start(rows[i].wake), 0);
		wake_take(&w);
		CHECK_EQ_INT(raise(rows[i].sig), 0);
		CHECK_EQ_INT(client_call(&s.c, &q, &r, &e), -1);
		CHECK_EQ_INT(e.sys, EINTR);
		strike(&s);
	}
	(void)close(wake_fd()); /* which a program never does */
	(void)close(wake_fd() + 1);
}

TEST(client_takes_nul_for_a_replacement)
{
	char text[] = "[\"a\\u0000b\",\"\\\\u0000\",\"\\\\\\u0000\"]";

	client_no_nul(text, strlen(text));
	CHECK_STR(text, "[\"a\\ufffdb\",\"\\\\u0000\",\"\\\\\\ufffd\"]");
}

/* --- events ------------------------------------------------------------------------------------------- */

struct seen {
	char text[256];
	size_t n;
	int stop_at;
};

static int on_event(void *arg, const struct follow_event *e)
{
	struct seen *s = arg;

	s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, "%s%llu ", e->name,
				 (unsigned long long)e->seq);
	CHECK(e->data != NULL || strcmp(e->name, "odd") == 0);
	return s->stop_at != 0 && e->seq == (uint64_t)s->stop_at;
}

static int follow_all(struct follow *f, struct err *e)
{
	int r = 1;

	while (r > 0) {
		struct pollfd p = { .fd = follow_fd(f), .events = POLLIN };

		(void)poll(&p, 1, follow_wait_ms(f, 1000));
		r = follow_turn(f, e);
	}
	return r;
}

#define STREAM          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
#define EVENT(id, name) "id: " id "\nevent: " name "\ndata: {\"cell\":\"c1\"}\n\n"

/* Lost before it began, lost in the middle of an event, closed for no reason: each event is seen once. */
TEST(follow_sees_each_event_once)
{
	static const struct step steps[] = {
		{ "POST /cells", "", CLOSE },
		{ "POST /cells",
		  "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: "
		  "11\r\n\r\n{\"id\":\"c1\"}",
		  CLOSE },
		{ "GET /cells/c1/events",
		  STREAM EVENT("1", "start") EVENT("2", "stdout") "id: 3\nev", CLOSE },
		{ "Last-Event-ID: 2\r\n", STREAM, CLOSE },
		{ "Last-Event-ID: 2\r\n",
		  STREAM EVENT("2", "stdout") EVENT(
			  "3",
			  "stdout") ": still there\n\nid: 4\nevent: odd\ndata: {]\n\n" EVENT("5",
											     "end")
			  EVENT("6", "stdout"),
		  CLOSE },
	};
	struct seen seen = { .n = 0 };
	struct stage s;
	struct follow f;
	struct json j;
	struct err e;

	STAGE(&s, steps);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_close(&j, '}');
	follow_start(&f, &s.c, "/cells", &j);
	f.event = on_event;
	f.arg = &seen;
	CHECK_EQ_INT(follow_all(&f, &e), 0);
	CHECK_STR(seen.text, "start1 stdout2 stdout3 odd4 end5 stdout6 ");
	CHECK_STR(f.id, "c1");
	follow_done(&f);
	json_done(&j);
	strike(&s);
}

TEST(follow_ends_when_it_is_told_to)
{
	static const struct step steps[] = {
		{ "GET /cells/c1/events",
		  STREAM EVENT("1", "start") EVENT("2", "stdout") EVENT("3", "end"), CLOSE },
	};
	struct seen seen = { .stop_at = 2 };
	struct stage s;
	struct follow f;
	struct err e;

	STAGE(&s, steps);
	follow_run(&f, &s.c, "/cells", "c1", 0);
	f.event = on_event;
	f.arg = &seen;
	CHECK_EQ_INT(follow_all(&f, &e), 0);
	CHECK_STR(seen.text, "start1 stdout2 ");
	follow_done(&f);
	strike(&s);
}

/* What ran already is read on behind its end, over another connection too: threads may have said something since. */
TEST(follow_reads_what_came_late)
{
	static const struct step steps[] = {
		{ "GET /cells/c1/events",
		  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: "
		  "9999\r\n\r\n" EVENT("1", "start") EVENT("2", "end"),
		  CLOSE },
		{ "Last-Event-ID: 2\r\n", STREAM EVENT("3", "stdout"), CLOSE },
	};
	struct seen seen = { .n = 0 };
	struct stage s;
	struct follow f;
	struct err e;

	STAGE(&s, steps);
	follow_run(&f, &s.c, "/cells", "c1", 0);
	f.event = on_event;
	f.arg = &seen;
	CHECK_EQ_INT(follow_all(&f, &e), 0);
	CHECK_STR(seen.text, "start1 end2 stdout3 ");
	follow_done(&f);
	strike(&s);
}

/* A server that takes connections and says nothing in them is one that is away. */
TEST(follow_gives_up_on_a_server_that_only_hangs_up)
{
	static const struct step steps[] = {
		{ "GET /cells/c1/events", STREAM, CLOSE },
		{ "GET /cells/c1/events", STREAM, CLOSE },
	};
	struct seen seen = { .n = 0 };
	struct stage s;
	struct follow f;
	struct err e;

	STAGE(&s, steps);
	follow_run(&f, &s.c, "/cells", "c1", 0);
	f.event = on_event;
	f.arg = &seen;
	while (f.futile_us == 0 || f.stream.fd < 0)
		CHECK_EQ_INT(follow_turn(&f, &e), 1);
	f.futile_us -= (FOLLOW_PATIENCE_S + 1) * 1000000; /* so long ago */
	CHECK_EQ_INT(follow_all(&f, &e), -1);
	CHECK_EQ_INT(e.sys, ECONNRESET);
	follow_done(&f);
	strike(&s);
}

TEST(follow_is_told_what_is_gone)
{
	static const struct step steps[] = {
		{ "GET /cells/c1/events", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
		  CLOSE },
		{ "GET /cells/c2/events",
		  "HTTP/1.1 410 Gone\r\nConnection: close\r\nContent-Length: 65\r\n\r\n"
		  "{\"error\":{\"code\":\"gone\",\"message\":\"it has ended\",\"reason\":\"ttl\"}}",
		  CLOSE },
		{ "GET /cells/c3/events", "SSH-2.0-OpenSSH\r\n", CLOSE },
	};
	static const int want[] = { 0, -1, -1 };
	struct seen seen = { .n = 0 };
	struct stage s;
	struct err e;

	STAGE(&s, steps);
	for (unsigned int i = 0; i < 3; i++) {
		struct follow f;
		char id[4];

		(void)snprintf(id, sizeof(id), "c%u", i + 1);
		follow_run(&f, &s.c, "/cells", id, 7);
		f.event = on_event;
		f.arg = &seen;
		CHECK_EQ_INT(follow_all(&f, &e), want[i]);
		CHECK_EQ_INT(f.gone, i == 1);
		if (i == 1)
			CHECK_STR(e.text, "it has ended: ttl");
		if (i == 2)
			CHECK_EQ_INT(e.kind, ERR_PROTO);
		follow_done(&f);
	}
	strike(&s);
}

TEST(follow_takes_no_id_that_is_none)
{
	static const struct step steps[] = {
		{ "POST /cells",
		  "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: "
		  "18\r\n\r\n{\"id\":\"../../etc\"} ",
		  CLOSE },
	};
	struct seen seen = { .n = 0 };
	struct stage s;
	struct follow f;
	struct json j;
	struct err e;

	STAGE(&s, steps);
	json_init(&j);
	follow_start(&f, &s.c, "/cells", &j);
	f.event = on_event;
	f.arg = &seen;
	CHECK_EQ_INT(follow_all(&f, &e), -1);
	follow_done(&f);
	json_done(&j);
	strike(&s);
}
