/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/gate: what the next gate knows of a box, by the record that the last one left, and by what init still has. A gate dies here
 * between two turns of its loop; its box is the same socket of the test again.
 */
#include "gate/tasks.h"
#include "wire/frame.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "test_gate_http.h"
#include "test_help.h"

enum { GATES = 4 };

static uint8_t record[BOX_RECORD_MAX];
static size_t record_len;
static struct gate dead[GATES]; /* so that nobody takes for lost what they had */
static unsigned int ndead;
static int c, box; /* a client, and the end of init */

static void take_record(const struct chan_msg *m)
{
	const uint8_t *p;
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	CHECK_EQ_INT(msg_get_u64(&in), BOX);
	p = msg_get_bytes(&in, sizeof(record), &record_len);
	CHECK_EQ_INT(msg_end(&in), 0);
	memcpy(record, p, record_len);
}

static void give_box(const struct chan_msg *m)
{
	struct box_info info = { .box = BOX };
	uint8_t body[1024];
	int s[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m->request, body,
			       (size_t)box_info_encode(&info, body, sizeof(body)), &s[1], 1),
		     0);
	(void)close(s[1]);
	box = s[0];
	say_hello(box);
}

/* The keeper answers whatever it is asked, also in a while; it has the last record. */
static void keep(void)
{
	static struct chan_msg m;

	for (unsigned int i = 0; i < 3; i++) {
		pass(1000000);
		while (chan_recv(keeper, &m) == 1) {
			if (m.type == OP_BOX_ATTACH) {
				give_box(&m);
				continue;
			}
			if (m.type == OP_BOX_RECORD)
				take_record(&m);
			CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m.request, NULL, 0, NULL, 0), 0);
		}
		turn();
	}
}

static void begin(void)
{
	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`}");
	take_record(&message);
	keep();
}

/* The next gate, with such a record. */
static void use_record(const uint8_t *p, size_t n)
{
	struct box_info info = { .box = BOX };

	(void)close(c);
	turn();
	(void)close(box);
	(void)close(g.boxes->fd);
	CHECK(ndead < GATES);
	dead[ndead++] = g;
	gate_close();
	gate_open();
	CHECK_EQ_INT(abox_adopt(&g, &info, p, n), 0);
	keep();
	c = client();
}

static void next_gate(void)
{
	keep();
	use_record(record, record_len);
}

/* --- kernels and cells ---------------------------------------------------------------------------------------- */

/* A cell of a kernel that is made for it; their jobs. */
static uint64_t start_cell(const char *kernel, uint64_t *ret_kernel)
{
	char job[32];

	ask(c, "POST /v1/boxes/name:n/cells", "{`code`:`1`,`kernel`:`%s`,`detach`:true}", kernel);
	CHECK_EQ_INT(heard(c), 202);
	*ret_kernel = asked_to_run(box, "/usr/bin/python3");
	CHECK(*ret_kernel != 0);
	say(box, FRAME_MESSAGE, *ret_kernel, 1, "{}", 2); /* it is there */
	(void)snprintf(job, sizeof(job), "%llu", (unsigned long long)*ret_kernel);
	return asked_to_run(box, job);
}

TEST(next_gate_names_the_kernels_of_cells_right)
{
	uint64_t kernel, cell, other;

	begin();
	cell = start_cell("gone", &kernel);
	CHECK(cell != 0);
	say_exit(box, cell); /* nobody has asked for it: init keeps its end */
	turn();
	ask(c, "DELETE /v1/boxes/name:n/kernels/gone", "%s", "");
	CHECK_EQ_INT(heard(c), 0);
	say_exit(box, kernel);
	CHECK_EQ_INT(heard(c), 204);
	CHECK(start_cell("b", &other) != 0); /* with the number that the other one had */
	next_gate();
	CHECK(asked_to_run(box, "/nonexistent") != 0);
	say_exit(box, cell);
	ask(c, "GET /v1/boxes/name:n/cells", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`status`:`error`,`kernel`:`gone`");
	CHECK_SAYS("`status`:`running`,`kernel`:`b`");
	next_gate(); /* it has not been asked for since */
	say_exit(box, cell);
	ask(c, "GET /v1/boxes/name:n/cells", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`kernel`:`gone`");
	finish(c, box);
}

/* A thread of a cell whose end was heard prints, and init says that before it hears what the new gate wants to know. */
TEST(next_gate_sees_that_the_end_of_a_cell_was_heard)
{
	static const char text[] = "late";
	static uint8_t before[BOX_RECORD_MAX];
	uint8_t header[FRAME_HEADER];
	uint64_t kernel, cell;
	size_t n;

	for (unsigned int late = 0; late <= 1; late++) {
		begin();
		cell = start_cell("k", &kernel);
		keep();
		memcpy(before, record, n = record_len);
		say_exit(box, cell);
		use_record(before, n);
		CHECK(asked_to_run(box, "/nonexistent") != 0);
		ask(c, "GET /v1/boxes/name:n/kernels/k", "%s", "");
		CHECK_EQ_INT(heard(c), 200);
		CHECK_SAYS("`state`:`busy`");
		frame_put_header(header, FRAME_OUTPUT, 1 | FRAME_LATE, cell, 12, strlen(text));
		if (late != 0) {
			CHECK_EQ_INT(send(box, header, sizeof(header), 0), sizeof(header));
			CHECK_EQ_INT(send(box, text, strlen(text), 0), strlen(text));
		}
		say_refused(box, cell);
		turn();
		ask(c, "GET /v1/boxes/name:n/kernels/k", "%s", "");
		CHECK_EQ_INT(heard(c), 200);
		CHECK_SAYS("`state`:`idle`");
		ask(c, "GET /v1/boxes/name:n/cells", "%s", "");
		CHECK_EQ_INT(heard(c), 200);
		CHECK_SAYS("{`cells`:[]}");
		finish(c, box);
	}
}

/* --- keys ----------------------------------------------------------------------------------------------------- */

static void post(const char *key, const char *body)
{
	ask_with_key(c, "POST /v1/boxes/name:n/commands", key, body);
}

/* A command that has ended, and whose client was told; its id is in `id`. */
static uint64_t run_keyed(const char *key, char id[OWN_ID])
{
	uint64_t job;

	post(key, "{`shell`:`x`}");
	job = asked_to_run(box, "/bin/bash");
	CHECK(job != 0);
	CHECK_EQ_INT(heard(c), 0);
	say_exit(box, job);
	CHECK_EQ_INT(heard(c), 200);
	(void)snprintf(id, OWN_ID, "%s", strstr(answer, "{\"id\":\"") + 7);
	return job;
}

/* Not a second time: its answer has gone. */
static void check_gone(const char *key, const char *id, const char *status)
{
	char want[128];

	post(key, "{`shell`:`x`}");
	CHECK_EQ_INT(heard(c), 410);
	CHECK_SAYS("`code`:`answer_gone`");
	(void)snprintf(want, sizeof(want), "`id`:`%s`,`status`:%s}", id, status);
	CHECK_SAYS(want);
	post(key, "{`shell`:`y`}");
	CHECK_EQ_INT(heard(c), 409);
	CHECK_SAYS("`code`:`idempotency_key_reused`");
	CHECK_EQ_INT(asked_to_run(box, ""), 0);
}

TEST(next_gate_runs_nothing_twice)
{
	char told[OWN_ID], untold[OWN_ID];
	uint64_t job;

	begin();
	(void)run_keyed("told", told);
	post("told", "{`shell`:`x`}"); /* as long as it is held it is given again */
	CHECK_EQ_INT(heard(c), 200);
	next_gate();
	check_gone("told", told, "`ok`");
	ask(c, "GET /v1/boxes/name:n/commands", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`commands`:[]}");
	/* One that nobody has heard of is still there. */
	post("untold", "{`shell`:`x`,`detach`:true}");
	CHECK_EQ_INT(heard(c), 202);
	(void)snprintf(untold, OWN_ID, "%s", strstr(answer, "{\"id\":\"") + 7);
	job = asked_to_run(box, "/bin/bash");
	say_exit(box, job);
	turn();
	next_gate();
	CHECK_EQ_INT(asked_to_run(box, "/nonexistent"), job);
	check_gone("told", told, "`ok`"); /* every gate takes it along */
	say_exit(box, job);
	turn();
	post("untold", "{`shell`:`x`,`detach`:true}");
	CHECK_EQ_INT(heard(c), 202);
	CHECK_SAYS(untold);
	CHECK_EQ_INT(asked_to_run(box, ""), 0);
	finish(c, box);
}

/* The gate died when a client had the answer and init had let go, but before the keeper had heard of that. */
TEST(next_gate_keeps_the_key_of_what_init_has_let_go)
{
	static uint8_t before[BOX_RECORD_MAX];
	char id[OWN_ID], line[128];
	int others[2];
	uint64_t job;
	size_t n;

	begin();
	post("k", "{`shell`:`x`}");
	job = asked_to_run(box, "/bin/bash");
	keep();
	memcpy(before, record, n = record_len);
	say_exit(box, job);
	CHECK_EQ_INT(heard(c), 200);
	(void)snprintf(id, OWN_ID, "%s", strstr(answer, "{\"id\":\"") + 7);
	use_record(before, n);
	CHECK_EQ_INT(asked_to_run(box, "/nonexistent"), job);
	/* Who comes before init has said so waits, and is not forgotten. */
	for (unsigned int i = 0; i < ARRAY_LEN(others); i++)
		others[i] = client();
	post("k", "{`shell`:`x`}");
	(void)snprintf(line, sizeof(line), "GET /v1/boxes/name:n/commands/%s?wait_ms=9000", id);
	ask(others[0], line, "%s", "");
	(void)snprintf(line, sizeof(line), "GET /v1/boxes/name:n/commands/%s/events", id);
	ask(others[1], line, "%s", "");
	CHECK(heard(c) == 0 && heard(others[0]) == 0 && heard(others[1]) == 200);
	say_refused(box, job);
	CHECK_EQ_INT(heard(c), 410);
	CHECK_SAYS("`status`:null}");
	CHECK_EQ_INT(heard(others[0]), 404);
	(void)heard(others[1]);
	CHECK_STR(answer, "0\r\n\r\n");
	for (unsigned int i = 0; i < ARRAY_LEN(others); i++)
		(void)close(others[i]);
	check_gone("k", id, "null");
	next_gate();
	check_gone("k", id, "null");
	finish(c, box);
}

/* Of more than there is room for the newest are known. */
TEST(next_gate_has_as_many_keys_as_fit)
{
	enum { KEYS = 3000, HELD = 1024, SAVED = 290 };
	struct task t = { .idem.set = true, .started_ms = own_now_ms(), .status = TASK_OK };
	unsigned int known = 0;
	char id[OWN_ID];
	bool same;

	begin();
	t.a = g.aboxes;
	for (unsigned int i = 0; i < KEYS; i++) {
		memcpy(t.idem.key, &i, sizeof(i));
		t.job_id = i;
		task_remember(&t);
	}
	CHECK_EQ_INT(t.a->keys.n, HELD);
	CHECK(task_ran(t.a, &t.idem, &same) != NULL && same);
	(void)run_keyed("last", id);
	next_gate();
	check_gone("last", id, "`ok`");
	for (unsigned int i = 0; i < KEYS; i++) {
		const struct task_ran *ran;

		memcpy(t.idem.key, &i, sizeof(i));
		ran = task_ran(g.aboxes, &t.idem, &same);
		CHECK(known == 0 || ran != NULL);
		CHECK(ran == NULL || (ran->job == i && ran->status == TASK_OK && same));
		known += ran != NULL;
	}
	CHECK(known > SAVED && known < HELD);
	finish(c, box);
}
