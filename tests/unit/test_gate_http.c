/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/gate: the own API from a client's bytes to what keeper and init are asked, and back. The test holds all their ends, so
 * it can say in which order things happen.
 */
#include "gate/boxes.h"
#include "wire/frame.h"
#include "wire/job.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "test_config.h"
#include "test_gate_http.h"

static struct listener unix_listener = {
	.g = &g, .local = true, .unix_socket = true, .place = ROUTE_MAIN
};
char answer[1 << 20];

/* --- a client ------------------------------------------------------------------------------------------------- */

int client(void)
{
	int s[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	conn_new(&g, &unix_listener, s[1], "test");
	return s[0];
}

static void send_request(int c, const char *line, const char *headers, char *body)
{
	char head[1024];

	for (char *p = body; *p != '\0'; p++)
		if (*p == '`')
			*p = '"';
	(void)snprintf(head, sizeof(head),
		       "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		       "%sContent-Length: %zu\r\n\r\n",
		       line, headers, strlen(body));
	CHECK_EQ_INT(send(c, head, strlen(head), 0), strlen(head));
	CHECK_EQ_INT(send(c, body, strlen(body), 0), strlen(body));
	turn();
}

void ask(int c, const char *line, const char *fmt, ...)
{
	char body[8192];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(body, sizeof(body), fmt, ap);
	va_end(ap);
	send_request(c, line, "", body);
}

void ask_with_key(int c, const char *line, const char *key, const char *text)
{
	char body[8192], header[512];

	(void)snprintf(body, sizeof(body), "%s", text);
	(void)snprintf(header, sizeof(header), "Idempotency-Key: %s\r\n", key);
	send_request(c, line, header, body);
}

int heard(int c)
{
	ssize_t n;

	turn();
	n = recv(c, answer, sizeof(answer) - 1, 0);
	answer[n > 0 ? n : 0] = '\0';
	return n > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

bool says(const char *text)
{
	char want[512];

	(void)snprintf(want, sizeof(want), "%s", text);
	for (char *p = want; *p != '\0'; p++)
		if (*p == '`')
			*p = '"';
	return strstr(answer, want) != NULL;
}

/* --- a keeper, and an init ------------------------------------------------------------------------------------ */

/* The next message of that type; others are answered. */
bool keeper_gets(uint16_t type, struct chan_msg *m)
{
	while (chan_recv(keeper, m) == 1) {
		if (m->type == type)
			return true;
		CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m->request, NULL, 0, NULL, 0), 0);
	}
	return false;
}

struct chan_msg message;

/* A box for who asked; init's end of its stream. */
int make_box(void)
{
	struct box_info info = { .box = BOX, .layers = 1 };
	uint8_t body[1024];
	int s[2];

	CHECK(keeper_gets(OP_BOX_NEW, &message));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, body,
			       (size_t)box_info_encode(&info, body, sizeof(body)), &s[1], 1),
		     0);
	(void)close(s[1]);
	turn();
	turn();
	return s[0];
}

int ready_box(int c, const char *body)
{
	int box;

	ask(c, "POST /v1/boxes", "%s", body);
	box = make_box();
	say_hello(box);
	CHECK(keeper_gets(OP_BOX_RECORD, &message));
	CHECK_EQ_INT(heard(c), 0); /* not before the keeper has its record */
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(heard(c), 201);
	return box;
}

uint64_t asked_to_run(int box, const char *program)
{
	static uint8_t buf[1 << 18];
	ssize_t n;
	uint64_t id = 0;

	turn();
	n = recv(box, buf, sizeof(buf), MSG_DONTWAIT);
	for (ssize_t at = 0; at < n;) {
		struct job_spec spec;
		void *block = NULL;
		struct frame f;
		ptrdiff_t used = frame_parse(buf + at, (size_t)(n - at), FRAME_TO_BOX, &f);

		CHECK(used > 0);
		at += used;
		if (f.type != FRAME_RUN)
			continue;
		CHECK_EQ_INT(job_spec_decode(f.payload, f.len, &spec, &block), 0);
		CHECK_STR(spec.argv[0], program);
		free(block);
		id = f.id;
	}
	return id;
}

static void say_started(int box, uint64_t id)
{
	uint8_t pid[4] = { 7 };

	say(box, FRAME_STARTED, id, 1, pid, sizeof(pid));
}

void finish(int c, int box)
{
	struct box_figures f = { 0 };

	(void)close(c);
	turn();
	gboxes_gone(&g, BOX, GONE_INIT, &f);
	turn();
	CHECK_EQ_INT(g.naboxes, 0);
	CHECK_EQ_INT(g.nconns, 0);
	CHECK_EQ_INT(g.counted_boxes, 0);
	CHECK_EQ_INT(g.admit.active, 0);
	CHECK_EQ_INT(g.runs.bytes, 0);
	if (box >= 0)
		(void)close(box);
	gate_close();
}

/* --- boxes ---------------------------------------------------------------------------------------------------- */

TEST(http_a_box_is_made_and_looked_at)
{
	struct box_figures f = { .wall_us = 5000, .cpu_us = 3000, .has = FIGURE_CPU };
	uint8_t body[128];
	int c, box;

	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`,`metadata`:{`a`:`b`},`limits`:{`cpus`:0.5}}");
	CHECK_SAYS("`name`:`n`,`state`:`ready`,`environment`:`default`,`backend`:`native`,");
	CHECK_SAYS("`cpus`:0.500,");
	CHECK_SAYS("`metadata`:{`a`:`b`}");
	ask(c, "GET /v1/boxes/name:n", "%s", "");
	CHECK(keeper_gets(OP_BOX_FIGURES, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, body,
			       (size_t)box_figures_encode(&f, body, sizeof(body)), NULL, 0),
		     0);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`figures`:{`wall_ms`:5,`cpu_ms`:3,`peak_memory_bytes`:null,`oom_kills`:null,`"
		   "network`:null}");
	ask(c, "GET /v1/boxes?metadata.a=b", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`next`:null");
	CHECK_SAYS("`name`:`n`");
	ask(c, "GET /v1/boxes?metadata.a=c", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`boxes`:[],`next`:null}");
	ask(c, "POST /v1/boxes", "{`name`:`n`}");
	CHECK_EQ_INT(heard(c), 409);
	CHECK_SAYS("`code`:`name_taken`");
	finish(c, box);
}

TEST(http_what_is_wrong_makes_no_box)
{
	static const struct {
		const char *body, *field;
		int status;
	} rows[] = {
		{ "{", "null", 400 },
		{ "{`x`:1}", "`x`", 422 },
		{ "{`name`:`A`}", "`name`", 422 },
		{ "{`limits`:{`memory_bytes`:99999999999}}", "`limits.memory_bytes`", 422 },
		{ "{`limits`:{`output_bytes`:0}}", "`limits.output_bytes`", 422 },
		{ "{`env`:{`a b`:`x`}}", "`env.a b`", 422 },
		{ "{`mounts`:[{`root`:`/x`}]}", "`mounts[0].root`", 422 },
		{ "{`files`:[{`path`:`../x`,`content`:``}]}", "`files[0].path`", 422 },
		{ "{`files`:[{`path`:`x`,`content_base64`:`?`}]}", "`files[0].content_base64`",
		  422 },
		{ "{`files`:[{`path`:`x`,`file_id`:`?`}]}", "`files[0].file_id`", 404 },
		{ "{`network`:{`policy`:`some`}}", "`network.policy`", 422 },
		{ "{`network`:{`policy`:`allow`,`rules`:[`a b`]}}", "`network.rules[0]`", 422 },
		{ "{`ttl_seconds`:86401}", "`ttl_seconds`", 422 },
		{ "{`idle_seconds`:86401}", "`idle_seconds`", 422 },
	};
	int c;

	gate_open();
	c = client();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char want[128];

		ask(c, "POST /v1/boxes", "%s", rows[i].body);
		CHECK_EQ_INT(heard(c), rows[i].status);
		(void)snprintf(want, sizeof(want), "`field`:%s,", rows[i].field);
		CHECK_SAYS(want);
		CHECK_EQ_INT(g.naboxes, 0);
	}
	CHECK(chan_recv(keeper, &message) != 1);
	(void)close(c);
	turn();
	gate_close();
}

static void keeper_refuses(int sys, const char *text)
{
	uint8_t body[1024];
	struct err e;

	(void)err_set(&e, ERR_INPUT, sys, "%s", text);
	CHECK_EQ_INT(chan_send(keeper, REPLY_FAILED, message.request, body,
			       (size_t)failed_encode(&e, body, sizeof(body)), NULL, 0),
		     0);
	turn();
}

/* What a BOX_NEW asks for; NULL: there is none. */
static const struct box_request *asked_for_box(void)
{
	static struct box_request q;
	struct err e;

	if (!keeper_gets(OP_BOX_NEW, &message))
		return NULL;
	CHECK_EQ_INT(box_request_decode(message.body, message.len, &q, &e), 0);
	return &q;
}

/* A box whose image has gone starts cold. If that fails, too, its client is not to blame, with mounts or without. */
TEST(http_a_box_whose_image_has_gone_is_made_without_it)
{
	static const char *const bodies[] = { "{}", "{`mounts`:[{`root`:`/m`}]}" };
	int c;

	gate_open();
	config_done(&g.config);
	must_load(&g.config, WORDS("--state-dir=/s", "--mount-root=/m"), no_env);
	g.envs->warm.images[WARM_KERNEL].id = 3;
	may_log = true;
	c = client();
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		ask(c, "POST /v1/boxes", "%s", bodies[i]);
		CHECK_EQ_INT(asked_for_box()->image, 3);
		keeper_refuses(ESTALE, "there is no such image");
		CHECK_EQ_INT(heard(c), 0);
		CHECK_EQ_INT(asked_for_box()->image, 0);
		keeper_refuses(ESTALE, "there is no such image");
		CHECK(asked_for_box() == NULL);
		CHECK_EQ_INT(heard(c), 503);
		CHECK_SAYS("Retry-After: ");
		CHECK_SAYS("`code`:`unschedulable`");
		CHECK_SAYS("`field`:null");
		CHECK_EQ_INT(g.naboxes, 0);
	}
	finish(c, -1);
}

TEST(http_a_box_is_refused_for_its_mounts_if_it_has_some)
{
	static const struct {
		const char *body, *field;
		int status;
	} rows[] = {
		{ "{`mounts`:[{`root`:`/m`,`path`:`x`}]}", "`field`:`mounts`", 422 },
		{ "{}", "`field`:null", 503 },
	};
	int c;

	gate_open();
	config_done(&g.config);
	must_load(&g.config, WORDS("--state-dir=/s", "--mount-root=/m"), no_env);
	may_log = true;
	c = client();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ask(c, "POST /v1/boxes", "%s", rows[i].body);
		CHECK(asked_for_box() != NULL);
		keeper_refuses(ENOENT, "no");
		CHECK(asked_for_box() == NULL);
		CHECK_EQ_INT(heard(c), rows[i].status);
		CHECK_SAYS(rows[i].field);
	}
	finish(c, -1);
}

TEST(http_a_client_that_leaves_takes_its_box_along)
{
	int c, box;

	gate_open();
	c = client();
	ask(c, "POST /v1/boxes", "{}");
	(void)close(c);
	turn();
	CHECK_EQ_INT(g.naboxes, 0);
	CHECK_EQ_INT(g.counted_boxes, 0);
	box = make_box(); /* and is ended at once */
	CHECK(keeper_gets(OP_BOX_END, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	turn();
	(void)close(box);
	gate_close();
}

TEST(http_the_same_key_waits_for_the_same_box)
{
	static const char line[] =
		"POST /v1/boxes HTTP/1.1\r\nIdempotency-Key: k\r\nHost: localhost\r\n"
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
	static const char other[] =
		"POST /v1/boxes HTTP/1.1\r\nIdempotency-Key: k\r\nHost: localhost\r\n"
		"Content-Type: application/json\r\nContent-Length: 3\r\n\r\n{ }";
	char first[4096];
	int c[3], box;

	gate_open();
	for (int i = 0; i < 3; i++) {
		c[i] = client();
		CHECK_EQ_INT(send(c[i], line, strlen(line), 0), strlen(line));
		turn();
	}
	CHECK_EQ_INT(g.naboxes, 1);
	(void)close(c[0]); /* the one that began it */
	turn();
	CHECK_EQ_INT(g.naboxes, 1);
	box = make_box();
	CHECK(keeper_gets(OP_BOX_RECORD, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(heard(c[1]), 201);
	(void)snprintf(first, sizeof(first), "%s", strstr(answer, "{\""));
	CHECK_EQ_INT(heard(c[2]), 201);
	CHECK_STR(strstr(answer, "{\""), first);
	CHECK_EQ_INT(send(c[2], line, strlen(line), 0), strlen(line));
	CHECK_EQ_INT(heard(c[2]), 201);
	CHECK_STR(strstr(answer, "{\""), first);
	CHECK_EQ_INT(send(c[2], other, strlen(other), 0), strlen(other));
	CHECK_EQ_INT(heard(c[2]), 409);
	CHECK_SAYS("`code`:`idempotency_key_reused`");
	(void)close(c[1]);
	finish(c[2], box);
}

/* --- commands ------------------------------------------------------------------------------------------------- */

TEST(http_a_command_is_answered_when_it_has_ended)
{
	char path[128], more[160];
	int c, box;
	uint64_t job;

	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`}");
	ask(c, "POST /v1/boxes/name:n/commands", "{`argv`:[`prog`,`a`],`stdin`:`in`}");
	job = asked_to_run(box, "prog");
	CHECK(job != 0);
	say_started(box, job);
	say_output(box, job, 2, "some ");
	say_output(box, job, 3, "output");
	CHECK_EQ_INT(heard(c), 0);
	say_exit(box, job); /* number 9 is no hole here: gaps are told of frames that were missed */
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`status`:`ok`,`exit_code`:0,`signal`:null,`error`:null");
	CHECK_SAYS("`stdout`:`some output`,`stderr`:``");
	CHECK_SAYS("`summary`:`prog a`");
	ask(c, "GET /v1/boxes/name:n/commands", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	(void)snprintf(path, sizeof(path), "GET /v1/boxes/name:n/commands/%.26s/events",
		       strstr(answer, "{\"id\":\"") + 7);
	ask(c, path, "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("id: 1\nevent: start\ndata: {");
	CHECK_SAYS("id: 2\nevent: stdout\ndata: {");
	CHECK_SAYS("id: 8\nevent: gap\ndata: {");
	CHECK_SAYS("id: 9\nevent: end\ndata: {");
	(void)snprintf(more, sizeof(more), "%s?after=3", path);
	ask(c, more, "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK(!says("event: stdout"));
	(void)snprintf(more, sizeof(more), "%s?after=9", path);
	ask(c, more, "%s", "");
	CHECK_EQ_INT(heard(c), 204);
	finish(c, box);
}

/* After the events of a turn, before what is left for its end. */
static bool was_begun, was_told;
static int turned_client, turned_box;

static void look_between(void *arg)
{
	unsigned int *turns = arg;
	char byte;

	if ((*turns)++ == 0)
		return;
	was_told = recv(turned_client, &byte, 1, MSG_PEEK) == 1;
	was_begun = recv(turned_box, &byte, 1, MSG_PEEK) == 1;
	g.loop.stop = true;
}

/* A gate may die at any moment: who was told that something was begun would wait for it for ever. */
TEST(http_what_a_client_was_told_init_knows)
{
	static const char request[] =
		"POST /v1/boxes/name:n/commands HTTP/1.1\r\nHost: localhost\r\n"
		"Content-Type: application/json\r\nContent-Length: 31\r\n\r\n"
		"{\"argv\":[\"prog\"],\"detach\":true}";
	unsigned int turns = 0;
	int c, box;

	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`}");
	(void)asked_to_run(box, "");
	CHECK_EQ_INT(send(c, request, strlen(request), 0), strlen(request));
	turned_client = c;
	turned_box = box;
	g.loop.now_us = clock_us();
	g.loop.stop = false;
	g.loop.each_turn = look_between;
	g.loop.arg = &turns;
	loop_run(&g.loop);
	CHECK(was_told && was_begun);
	CHECK_EQ_INT(heard(c), 202);
	CHECK(asked_to_run(box, "prog") != 0);
	finish(c, box);
}

TEST(http_a_command_whose_box_goes_is_answered)
{
	struct box_figures f = { 0 };
	int c[4], box;
	uint64_t job;

	gate_open();
	c[0] = client();
	box = ready_box(c[0], "{`name`:`n`}");
	ask(c[0], "POST /v1/boxes/name:n/commands", "{`shell`:`x`}");
	job = asked_to_run(box, "/bin/bash");
	say_started(box, job);
	say_output(box, job, 2, "begun");
	turn();
	c[1] = client();
	ask(c[1], "POST /v1/boxes/name:n/commands", "{`shell`:`y`,`stream`:true}");
	c[2] = client();
	ask(c[2], "POST /v1/boxes/name:n/commands", "{`shell`:`z`,`detach`:true}");
	CHECK_EQ_INT(heard(c[2]), 202);
	CHECK_SAYS("`status`:`running`");
	c[3] = client(); /* one that leaves */
	ask(c[3], "POST /v1/boxes/name:n/commands", "{`shell`:`w`,`stream`:true}");
	CHECK_EQ_INT(heard(c[3]), 200);
	(void)close(c[3]);
	turn();
	CHECK_EQ_INT(g.aboxes->running, 4);
	gboxes_gone(&g, BOX, GONE_INIT, &f);
	CHECK_EQ_INT(heard(c[0]), 200);
	CHECK_SAYS("`status`:`cancelled`");
	CHECK_SAYS("`error`:`the box has ended: crashed`");
	CHECK_SAYS("`stdout`:`begun`");
	CHECK_EQ_INT(heard(c[1]), 200);
	CHECK_SAYS("event: end\ndata: {");
	ask(c[0], "GET /v1/boxes/name:n", "%s", "");
	CHECK_EQ_INT(heard(c[0]), 404);
	(void)close(c[1]);
	(void)close(c[2]);
	finish(c[0], box);
}

TEST(http_what_is_wrong_starts_no_command)
{
	static const struct {
		const char *body, *field;
	} rows[] = {
		{ "{}", "null" },
		{ "{`shell`:`a`,`argv`:[`a`]}", "null" },
		{ "{`argv`:[]}", "`argv`" },
		{ "{`shell`:`a`,`env`:{``:`x`}}", "`env.`" },
		{ "{`shell`:`a`,`timeout_ms`:0}", "`timeout_ms`" },
		{ "{`shell`:`a`,`timeout_ms`:86400001}", "`timeout_ms`" },
		{ "{`shell`:`a`,`stream`:true,`detach`:true}", "`detach`" },
		{ "{`shell`:`a`,`output_encoding`:`x`}", "`output_encoding`" },
		{ "{`shell`:`a`,`on_disconnect`:`x`}", "`on_disconnect`" },
	};
	int c, box;

	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char want[128];

		ask(c, "POST /v1/boxes/name:n/commands", "%s", rows[i].body);
		CHECK_EQ_INT(heard(c), 422);
		(void)snprintf(want, sizeof(want), "`field`:%s,", rows[i].field);
		CHECK_SAYS(want);
		CHECK_EQ_INT(g.aboxes->running, 0);
	}
	CHECK_EQ_INT(asked_to_run(box, ""), 0);
	finish(c, box);
}

TEST(http_deleting_a_box_answers_everybody_when_it_is_gone)
{
	struct box_figures f = { 0 };
	uint8_t body[128];
	int c[3], box;

	gate_open();
	for (int i = 0; i < 3; i++)
		c[i] = client();
	box = ready_box(c[0], "{`name`:`n`}");
	ask(c[2], "POST /v1/boxes/name:n/commands", "{`shell`:`x`}");
	ask(c[0], "DELETE /v1/boxes/name:n", "%s", "");
	CHECK_EQ_INT(heard(c[2]), 200); /* its command was ended with it */
	CHECK_SAYS("`status`:`cancelled`");
	CHECK_EQ_INT(heard(c[0]), 0);
	ask(c[2], "GET /v1/boxes?state=ending", "%s", "");
	CHECK_EQ_INT(heard(c[2]), 200);
	CHECK_SAYS("`state`:`ending`");
	CHECK(keeper_gets(OP_BOX_END, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, body,
			       (size_t)box_figures_encode(&f, body, sizeof(body)), NULL, 0),
		     0);
	CHECK_EQ_INT(heard(c[0]), 204);
	CHECK_EQ_INT(g.naboxes, 0);
	(void)close(c[1]);
	(void)close(c[2]);
	finish(c[0], box);
}

/* --- ports ----------------------------------------------------------------------------------------------------- */

/* A listener as the keeper hands it over, and where it can be reached. */
struct port_end {
	int fd;
	struct sockaddr_un at;
	socklen_t len;
};

static void open_port(struct port_end *p)
{
	*p = (struct port_end){ .at = { .sun_family = AF_UNIX }, .len = sizeof(p->at) };
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(p->fd >= 0);
	CHECK_EQ_INT(bind(p->fd, (struct sockaddr *)&p->at, sizeof(sa_family_t)), 0);
	CHECK_EQ_INT(listen(p->fd, 8), 0);
	CHECK_EQ_INT(getsockname(p->fd, (struct sockaddr *)&p->at, &p->len), 0);
}

/* A connection to it; -1: nobody listens. */
static int reach(const struct port_end *p)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&p->at, p->len) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* What the keeper is asked for: which port, and its number. */
static uint16_t asked_for_port(unsigned int which)
{
	struct msg_in in;
	uint16_t number;

	CHECK(keeper_gets(OP_BOX_PORT, &message));
	msg_in_init(&in, message.body, message.len);
	CHECK_EQ_INT(msg_get_u64(&in), BOX);
	CHECK_EQ_INT(msg_get_u8(&in), which);
	number = msg_get_u16(&in);
	CHECK_EQ_INT(msg_end(&in), 0);
	return number;
}

static void give_port(struct port_end *p, uint16_t number)
{
	uint8_t body[2] = { (uint8_t)number, (uint8_t)(number >> 8) };

	open_port(p);
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, body, sizeof(body), &p->fd, 1),
		     0);
	(void)close(p->fd); /* the gate has the only one */
}

static int box_on_its_way(int c, const char *body)
{
	int box;

	ask(c, "POST /v1/boxes", "%s", body);
	box = make_box();
	say_hello(box);
	return box;
}

TEST(http_a_box_has_ports)
{
	struct port_end ports[PORT_TOOLS];
	int c, box, at;

	gate_open();
	g.listening = true;
	c = client();
	box = box_on_its_way(c, "{`ports`:{`executor`:2000}}");
	for (unsigned int i = 0; i < PORT_TOOLS; i++) {
		CHECK_EQ_INT(asked_for_port(i), i == PORT_EXECUTOR ? 2000 : 0);
		CHECK_EQ_INT(heard(c), 0);
		give_port(&ports[i], (uint16_t)(2000 + i));
	}
	turn();
	at = reach(&ports[PORT_RESOURCE]);
	CHECK(at >= 0);
	ask(at, "GET /status/", "%s", "");
	CHECK_EQ_INT(heard(at), 0); /* nothing is accepted before there is a record */
	CHECK(keeper_gets(OP_BOX_RECORD, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(heard(c), 201);
	CHECK_SAYS("`workdir`:`/app`,`ports`:{`executor`:2000,`resource`:2001}");
	turn();
	CHECK_EQ_INT(heard(at), 200);
	CHECK_SAYS("{`status`:`ok`}");
	ask(at, "GET /api/kernels", "%s", ""); /* of the other port */
	CHECK_EQ_INT(heard(at), 404);
	CHECK_SAYS("{`detail`:`Not Found`}");
	ask(c, "GET /status/", "%s", "");
	CHECK_EQ_INT(heard(c), 404);
	(void)close(c);
	turn();
	gboxes_gone(&g, BOX, GONE_INIT, &(struct box_figures){ 0 });
	turn();
	CHECK_EQ_INT(recv(at, answer, 1, 0), 0); /* closed with the box */
	(void)close(at);
	for (unsigned int i = 0; i < PORT_TOOLS; i++)
		CHECK_EQ_INT(reach(&ports[i]), -1);
	finish(client(), box);
}

/* A port that is taken, or not to be had: no box, and nothing of one. */
TEST(http_a_port_that_is_not_there)
{
	static const struct {
		struct err e;
		int status;
		const char *says;
	} cases[] = {
		{ { .kind = ERR_INPUT, .sys = EADDRINUSE, .text = "x" },
		  409,
		  "`code`:`port_taken`" },
		{ { .kind = ERR_USAGE, .text = "not here" }, 422, "not here" },
		{ { .kind = ERR_SYS, .sys = EMFILE, .text = "none left" }, 503, "none left" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t body[ERR_TEXT + ERR_HINT + 32];
		struct port_end port;
		int c, box;

		gate_open();
		c = client();
		box = box_on_its_way(c, "{`ports`:true}");
		(void)asked_for_port(PORT_EXECUTOR);
		give_port(&port, 2000);
		(void)asked_for_port(PORT_RESOURCE);
		CHECK_EQ_INT(chan_send(keeper, REPLY_FAILED, message.request, body,
				       (size_t)failed_encode(&cases[i].e, body, sizeof(body)), NULL,
				       0),
			     0);
		CHECK_EQ_INT(heard(c), cases[i].status);
		CHECK_SAYS(cases[i].says);
		CHECK_EQ_INT(reach(&port), -1);
		CHECK(keeper_gets(OP_BOX_END, &message)); /* the others were answered, for nobody */
		CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
		turn();
		finish(c, box);
	}
}

/* From inside: a few at a time, one request each, and no token. */
TEST(http_who_is_inside_a_box_has_to_wait)
{
	enum { MANY = 40, MOST = 8 };
	struct port_end ports[PORT_TOOLS];
	int c, box, at[MANY];

	gate_open();
	g.listening = true;
	c = client();
	box = box_on_its_way(c, "{`ports`:true}");
	for (unsigned int i = 0; i < PORT_TOOLS; i++) {
		(void)asked_for_port(i);
		give_port(&ports[i], (uint16_t)(2000 + i));
	}
	turn();
	CHECK(keeper_gets(OP_BOX_RECORD, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(heard(c), 201);
	for (unsigned int i = 0; i < MANY; i++) {
		at[i] = reach(&ports[PORT_INSIDE_RESOURCE]);
		for (unsigned int k = 0; k < 3; k++) {
			pass(10000);
			turn();
		}
	}
	CHECK_EQ_INT(g.nconns, 1 + MOST);
	ask(at[0], "GET /status/", "%s", "");
	CHECK_EQ_INT(heard(at[0]), 200);
	CHECK(strstr(answer, "Connection: close") != NULL);
	for (unsigned int i = 0; i < MANY; i++)
		if (at[i] >= 0)
			(void)close(at[i]);
	for (unsigned int k = 0; k < 3 * MANY; k++) {
		pass(10000);
		turn();
	}
	CHECK_EQ_INT(g.nconns, 1);
	finish(c, box);
}
