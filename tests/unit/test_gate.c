/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/gate: what a new gate makes of what the last one had. Keeper, store and init are sockets whose other ends the test
 * holds; the loop is turned by hand.
 */
#include "gate/commands.h"
#include "gate/record.h"
#include "wire/frame.h"
#include "wire/job.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "test_config.h"
#include "test_gate.h"

struct gate g;
int keeper, store; /* their ends */
bool may_log;
static int to_keeper, to_store;

/* Of main.c, which has another main(). */
const char *gate_date(struct gate *gate)
{
	return gate->date;
}

void gate_request_id(struct gate *gate, char id[REQ_ID])
{
	(void)gate;
	id[0] = '\0';
}

void gate_log_err(struct gate *gate, const char *event, const struct err *e)
{
	(void)gate;
	if (!may_log)
		test_fail(__FILE__, __LINE__, "%s: %s", event, e->text);
}

void gate_log_request(struct gate *gate, const struct req *r, const char *how, uint64_t us)
{
	(void)gate;
	(void)r;
	(void)how;
	(void)us;
}

static void on_keeper_event(struct gate *gate, struct chan_msg *m)
{
	(void)gate;
	chan_msg_close(m);
}

static void connect_to(int *ret_other, int *ret_ours)
{
	int s[2];

	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[0], F_SETFL, O_NONBLOCK) == 0);
	*ret_other = s[0];
	*ret_ours = s[1];
}

void gate_open(void)
{
	struct err e;

	memset(&g, 0, sizeof(g));
	must_load(&g.config, WORDS("--state-dir=/s", "--max-concurrent-executions=1"), no_env);
	own_node(&g);
	CHECK_EQ_INT(loop_init(&g.loop), 0);
	connect_to(&keeper, &to_keeper);
	connect_to(&store, &to_store);
	CHECK_EQ_INT(keeper_link_start(&g, &g.keeper, to_keeper, on_keeper_event, &e), 0);
	CHECK_EQ_INT(store_link_start(&g, &g.store, to_store, &e), 0);
	CHECK_EQ_INT(auth_start(&g, &e), 0);
	CHECK_EQ_INT(genvs_start(&g, &e), 0);
}

/* Items are the first members of what they are part of. */
static void free_all(struct table *t)
{
	while (t->oldest != NULL) {
		struct table_item *i = t->oldest;

		table_remove(t, i);
		free(i);
	}
	table_done(t);
}

void gate_close(void)
{
	const int fds[] = { keeper, store, to_keeper, to_store, g.loop.epoll_fd };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	free(g.loop.heap);
	free_all(&g.tombs);
	free_all(&g.idems);
	table_done(&g.abox_table);
	table_done(&g.kernel_table);
	config_done(&g.config);
	free(g.envs);
}

static void stop_after_one(void *arg)
{
	unsigned int *turns = arg;

	aboxes_save(&g);
	gboxes_flush(&g);
	g.loop.stop = ++*turns == 2;
}

static void nothing(void *arg)
{
	(void)arg;
}

void turn(void)
{
	struct timer soon = { 0 };
	unsigned int turns = 0;

	g.loop.now_us = clock_us();
	g.loop.stop = false;
	g.loop.each_turn = stop_after_one;
	g.loop.arg = &turns;
	CHECK_EQ_INT(timer_set(&g.loop, &soon, clock_us() + 1000, nothing, NULL), 0);
	loop_run(&g.loop);
	timer_clear(&g.loop, &soon);
}

void pass(uint64_t us)
{
	unsigned int turns = 1;

	g.loop.now_us = clock_us() + us;
	g.loop.stop = false;
	g.loop.each_turn = stop_after_one;
	g.loop.arg = &turns;
	loop_run(&g.loop);
}

/* --- admission ---------------------------------------------------------------------------------------------- */

static unsigned int turns_had;

static void on_turn(void *arg)
{
	(void)arg;
	turns_had++;
}

TEST(admission_counts_what_runs_already)
{
	struct ticket old[3], fresh;

	gate_open();
	turns_had = 0;
	for (size_t i = 0; i < ARRAY_LEN(old); i++) /* more than may be: they run */
		admit_hold(&g, &old[i], OPERATION_STREAM);
	CHECK_EQ_INT(g.admit.active, 3);
	CHECK_EQ_INT(g.admit.by_operation[OPERATION_STREAM], 3);
	CHECK_EQ_INT(g.metrics.waited[OPERATION_STREAM].count, 0); /* not for this gate */
	admit_ask(&g, &fresh, OPERATION_EXECUTE, on_turn, on_turn, NULL);
	for (size_t i = 0; i < ARRAY_LEN(old); i++) {
		CHECK_EQ_INT(turns_had, 0);
		admit_done(&old[i]);
		admit_done(&old[i]); /* once is enough */
	}
	CHECK_EQ_INT(turns_had, 1);
	CHECK_EQ_INT(g.admit.active, 1);
	admit_done(&fresh);
	CHECK_EQ_INT(g.admit.active, 0);
	gate_close();
}

/* --- a session that was taken over --------------------------------------------------------------------------- */

static size_t session_record(uint8_t *buf, size_t size, unsigned int commands, uint64_t late_us)
{
	struct msg_out m;

	msg_out_init(&m, buf, size);
	msg_put_u8(&m, RECORD_SESSION);
	msg_put_str(&m, "code-session-00000000000000000000000000000000");
	msg_put_str(&m, "local");
	msg_put_u64(&m, UINT64_MAX / 2);
	msg_put_u16(&m, (uint16_t)commands);
	for (unsigned int i = 0; i < commands; i++) {
		msg_put_u64(&m, JOB + i);
		msg_put_u64(&m, late_us);
	}
	CHECK(!m.failed);
	return m.len;
}

/* The keeper is asked for the box, and gives it: our end of its stream. */
static int give_box(void)
{
	static struct chan_msg m;
	struct box_info info = { .box = BOX };
	uint8_t body[1024];
	int s[2];

	CHECK_EQ_INT(chan_recv(keeper, &m), 1);
	CHECK_EQ_INT(m.type, OP_BOX_ATTACH);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m.request, body,
			       (size_t)box_info_encode(&info, body, sizeof(body)), &s[1], 1),
		     0);
	(void)close(s[1]);
	turn();
	turn();
	return s[0];
}

static int adopt(unsigned int commands, uint64_t late_us)
{
	struct box_info info = { .box = BOX };
	uint8_t record[1024];
	size_t n = session_record(record, sizeof(record), commands, late_us);

	CHECK_EQ_INT(ci_session_adopt(&g, &info, record, n), 0);
	CHECK_EQ_INT(g.admit.active, commands); /* from the first moment */
	CHECK_EQ_INT(g.admit.by_operation[OPERATION_BASH], commands);
	return give_box();
}

/* How many jobs init is asked for. */
static unsigned int jobs_asked(int box)
{
	static uint8_t buf[1 << 16];
	ssize_t n = recv(box, buf, sizeof(buf), MSG_DONTWAIT);
	unsigned int jobs = 0;

	for (ssize_t at = 0; at < n;) {
		struct frame f;
		ptrdiff_t used = frame_parse(buf + at, (size_t)(n - at), FRAME_TO_BOX, &f);

		CHECK(used > 0);
		if (f.type == FRAME_RUN) {
			CHECK(f.id >= JOB && f.id < JOB + 64);
			jobs++;
		}
		at += used;
	}
	return jobs;
}

void say(int box, uint16_t type, uint64_t id, uint64_t number, const void *p, size_t n)
{
	uint8_t header[FRAME_HEADER];

	frame_put_header(header, type, 0, id, number, n);
	CHECK_EQ_INT(send(box, header, sizeof(header), 0), sizeof(header));
	CHECK_EQ_INT(send(box, p, n, 0), n);
}

void say_hello(int box)
{
	uint8_t body[16];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, BOX_PROTO_VERSION);
	msg_put_u32(&m, BOX_PROTO_OLDEST);
	msg_put_u64(&m, 0);
	say(box, FRAME_HELLO, 0, 0, body, m.len);
}

void say_refused(int box, uint64_t id)
{
	uint8_t body[64];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, EALREADY);
	msg_put_str(&m, "this job has run already");
	say(box, FRAME_REFUSED, id, 0, body, m.len);
}

void say_exit(int box, uint64_t id)
{
	struct job_exit x = { .how = JOB_EXITED };
	uint8_t body[256];

	say(box, FRAME_EXIT, id, 9, body, (size_t)job_exit_encode(&x, body, sizeof(body)));
}

/* How many commands the record has that the keeper was given last. */
static int commands_recorded(void)
{
	static struct chan_msg m;
	int n = -1;

	while (chan_recv(keeper, &m) == 1)
		if (m.type == OP_BOX_RECORD) {
			struct msg_in in;
			char text[128];

			msg_in_init(&in, m.body, m.len);
			CHECK_EQ_INT(msg_get_u64(&in), BOX);
			(void)msg_get_u32(&in); /* the length of the record */
			CHECK_EQ_INT(msg_get_u8(&in), RECORD_SESSION);
			(void)msg_get_str(&in, text, sizeof(text));
			(void)msg_get_str(&in, text, sizeof(text));
			(void)msg_get_u64(&in);
			n = msg_get_u16(&in);
			CHECK(!in.failed);
		}
	return n;
}

static void end_box(int box)
{
	struct box_figures f = { 0 };

	gboxes_gone(&g, BOX, GONE_INIT, &f);
	turn();
	CHECK_EQ_INT(g.nsessions, 0);
	CHECK_EQ_INT(g.admit.active, 0);
	(void)close(box);
}

TEST(adopted_commands_hold_slots_until_they_end)
{
	int box;

	gate_open();
	box = adopt(3, clock_us() + 60 * US_PER_S);
	CHECK_EQ_INT(jobs_asked(box), 3);
	say_hello(box);
	say_exit(box, JOB + 1);
	turn();
	CHECK_EQ_INT(g.admit.active, 2);
	CHECK_EQ_INT(commands_recorded(), 2);
	say_refused(box, JOB); /* it ended while there was no gate */
	turn();
	CHECK_EQ_INT(g.admit.active, 1);
	CHECK_EQ_INT(commands_recorded(), 1);
	say_exit(box, JOB + 2);
	turn();
	CHECK_EQ_INT(g.admit.active, 0);
	CHECK_EQ_INT(commands_recorded(), 0);
	CHECK_EQ_INT(g.nsessions, 1);
	end_box(box);
	gate_close();
}

TEST(adopted_commands_give_their_slots_back_with_the_box)
{
	int box;

	gate_open();
	box = adopt(2, clock_us() + 60 * US_PER_S);
	CHECK_EQ_INT(g.admit.active, 2);
	end_box(box);
	gate_close();
}

TEST(adopted_commands_do_not_hold_slots_for_ever)
{
	int box;

	gate_open();
	box = adopt(2, clock_us()); /* init should have ended them by now */
	turn();
	CHECK_EQ_INT(g.admit.active, 0);
	CHECK_EQ_INT(g.nsessions, 1);
	end_box(box);
	gate_close();
}

TEST(adopted_sessions_without_commands_hold_no_slot)
{
	int box;

	gate_open();
	box = adopt(0, 0);
	CHECK_EQ_INT(jobs_asked(box), 0);
	end_box(box);
	gate_close();
}

TEST(a_session_of_a_record_that_is_cut_is_not_adopted)
{
	struct box_info info = { .box = BOX };
	uint8_t record[1024];
	size_t n;

	gate_open();
	n = session_record(record, sizeof(record), 3, clock_us() + US_PER_S);
	for (size_t len = 1; len < n; len++) {
		CHECK_EQ_INT(ci_session_adopt(&g, &info, record, len), -1);
		turn();
		CHECK_EQ_INT(g.nsessions, 0);
		CHECK_EQ_INT(g.admit.active, 0);
	}
	gate_close();
}

/* --- a run that was taken over ------------------------------------------------------------------------------- */

static size_t run_record(uint8_t *buf, size_t size)
{
	static const uint8_t hash[32];
	uint8_t owner[256];
	struct msg_out m;
	size_t n;

	msg_out_init(&m, owner, sizeof(owner));
	msg_put_str(&m, "local");
	msg_put_bytes(&m, hash, sizeof(hash));
	msg_put_bytes(&m, hash, sizeof(hash));
	msg_put_u64(&m, US_PER_S);
	msg_put_u8(&m, 0);
	n = m.len;
	msg_out_init(&m, buf, size);
	msg_put_u8(&m, RECORD_ONESHOT);
	msg_put_bytes(&m, owner, n);
	msg_put_u16(&m, 0);
	CHECK(!m.failed);
	return m.len;
}

TEST(adopted_runs_hold_a_slot_until_they_are_over)
{
	struct box_info info = { .box = BOX };
	struct box_figures f = { 0 };
	uint8_t record[512];
	int box;

	gate_open();
	CHECK_EQ_INT(ci_stream_adopt(&g, &info, record, run_record(record, sizeof(record))), 0);
	CHECK_EQ_INT(g.admit.active, 1);
	CHECK_EQ_INT(g.admit.by_operation[OPERATION_STREAM], 1);
	box = give_box();
	gboxes_gone(&g, BOX, GONE_INIT, &f);
	pass(60 * US_PER_S); /* nobody came back for it */
	CHECK_EQ_INT(g.admit.active, 0);
	CHECK_EQ_INT(g.counted_boxes, 0);
	(void)close(box);
	gate_close();
}

TEST(a_run_of_a_record_that_is_cut_is_not_adopted)
{
	struct box_info info = { .box = BOX };
	uint8_t record[512];
	size_t n;

	gate_open();
	n = run_record(record, sizeof(record));
	for (size_t len = 1; len < n; len++) {
		CHECK_EQ_INT(ci_stream_adopt(&g, &info, record, len), -1);
		turn();
		CHECK_EQ_INT(g.admit.active, 0);
		CHECK_EQ_INT(g.counted_boxes, 0);
	}
	gate_close();
}

/* --- a box of the own API that was taken over ----------------------------------------------------------------- */

static size_t box_record(uint8_t *buf, size_t size, unsigned int commands, uint64_t ends_us,
			 uint64_t idle_us)
{
	static const uint8_t hash[32] = { 1 };
	struct msg_out m;

	msg_out_init(&m, buf, size);
	msg_put_u8(&m, RECORD_BOX);
	msg_put_u8(&m, 7);
	msg_put_str(&m, "aaaabbbbbbbbbbbbbbbbbbbbbb");
	msg_put_str(&m, "name");
	msg_put_str(&m, "local");
	msg_put_str(&m, "default");
	msg_put_u64(&m, own_now_ms());
	msg_put_u64(&m, own_now_ms() + 1000);
	msg_put_u64(&m, ends_us);
	msg_put_u64(&m, US_PER_S);
	msg_put_u64(&m, idle_us);
	msg_put_u64(&m, 0);
	msg_put_u8(&m, 0); /* not /app */
	msg_put_u8(&m, 0); /* no mounts, not a copy that is being made */
	msg_put_u8(&m, 0); /* no ports */
	msg_put_u32(&m, 0);
	for (int i = 0; i < LIMIT_ID_MAX; i++)
		msg_put_u64(&m, limit_row((enum limit_id)i)->def);
	msg_put_bytes(&m, hash, sizeof(hash));
	msg_put_bytes(&m, hash, sizeof(hash));
	msg_put_bytes(&m, "A\0b", 4);
	msg_put_bytes(&m, "k\0v", 4);
	msg_put_bytes(&m, NULL, 0); /* no tools */
	msg_put_u8(&m, 1);          /* published ports */
	msg_put_u16(&m, 8080);
	msg_put_u8(&m, UINT8_MAX); /* not on the machine */
	msg_put_u8(&m, 0);         /* kernels */
	msg_put_u16(&m, (uint16_t)commands);
	for (unsigned int i = 0; i < commands; i++) {
		msg_put_u8(&m, 0);
		msg_put_u64(&m, JOB + i);
		msg_put_u64(&m, own_now_ms());
		msg_put_u16(&m, 0);
		msg_put_u8(&m, 0);
	}
	msg_put_u16(&m, 0); /* terminals */
	msg_put_u16(&m, 0); /* keys */
	CHECK(!m.failed);
	return m.len;
}

static int adopt_box(unsigned int commands, uint64_t ends_us, uint64_t idle_us)
{
	struct box_info info = { .box = BOX };
	uint8_t record[2048];
	size_t n = box_record(record, sizeof(record), commands, ends_us, idle_us);

	CHECK_EQ_INT(abox_adopt(&g, &info, record, n), 0);
	CHECK_EQ_INT(g.naboxes, 1);
	CHECK_EQ_INT(g.counted_boxes, 1);
	CHECK_EQ_INT(g.aboxes->running, commands);
	CHECK_EQ_INT(g.aboxes->npublished, 1);
	return give_box();
}

static void lose_abox(int box)
{
	struct box_figures f = { 0 };

	gboxes_gone(&g, BOX, GONE_INIT, &f);
	turn();
	CHECK_EQ_INT(g.naboxes, 0);
	CHECK_EQ_INT(g.counted_boxes, 0);
	CHECK_EQ_INT(g.tombs.n, 1);
	CHECK_EQ_INT(g.runs.bytes, 0);
	(void)close(box);
}

void say_output(int box, uint64_t id, uint64_t number, const char *text)
{
	uint8_t header[FRAME_HEADER];
	size_t n = strlen(text);

	frame_put_header(header, FRAME_OUTPUT, 1, id, number, n);
	CHECK_EQ_INT(send(box, header, sizeof(header), 0), sizeof(header));
	CHECK_EQ_INT(send(box, text, n, 0), n);
}

/* The highest number that was acknowledged of a job. */
static uint64_t acknowledged(int box, uint64_t id)
{
	static uint8_t buf[1 << 16];
	ssize_t n = recv(box, buf, sizeof(buf), MSG_DONTWAIT);
	uint64_t number = 0;

	for (ssize_t at = 0; at < n;) {
		struct frame f;
		ptrdiff_t used = frame_parse(buf + at, (size_t)(n - at), FRAME_TO_BOX, &f);

		CHECK(used > 0);
		if (f.type == FRAME_ACK && f.id == id)
			number = f.number;
		at += used;
	}
	return number;
}

TEST(adopted_boxes_hear_of_their_commands)
{
	const struct task *c;
	int box;

	gate_open();
	box = adopt_box(3, clock_us() + 60 * US_PER_S, 0);
	CHECK_STR(g.aboxes->name, "name");
	CHECK_EQ_INT(jobs_asked(box), 3);
	say_hello(box);
	say_output(box, JOB, 2, "two ");
	say_output(box, JOB, 3, "three");
	say_output(box, JOB + 1, 7, "seven");
	say_refused(box, JOB + 2); /* it ended, and somebody had its answer */
	turn();
	c = g.aboxes->tasks;
	CHECK_EQ_INT(g.aboxes->running, 2);
	CHECK_EQ_INT(c->run.seq, 3);
	CHECK_MEM(buf_head(&c->run.out[0]), "two three", 9);
	CHECK(!c->run.cut[0]);
	CHECK(c->next->run.cut[0]);              /* what was before it is gone */
	CHECK_EQ_INT(acknowledged(box, JOB), 0); /* for the next gate */
	say_exit(box, JOB);                      /* number 9: of what lies between nobody knows */
	turn();
	CHECK_EQ_INT(c->status, TASK_OK);
	CHECK(c->run.ended && c->run.seq == 9 && c->held);
	CHECK_EQ_INT(acknowledged(box, JOB), 0);
	task_told(g.aboxes->tasks);
	turn();
	CHECK_EQ_INT(acknowledged(box, JOB), 9);
	CHECK(!c->held);
	lose_abox(box);
	gate_close();
}

TEST(adopted_boxes_end_when_their_time_is_over)
{
	static struct chan_msg m;
	bool ended = false;
	int box;

	gate_open();
	box = adopt_box(1, clock_us() + US_PER_S, 0);
	pass(2 * US_PER_S);
	CHECK_EQ_INT(g.aboxes->state, ABOX_ENDING);
	while (chan_recv(keeper, &m) == 1)
		if (m.type == OP_BOX_END) {
			struct box_figures f = { 0 };
			uint8_t body[128];

			ended = true;
			CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m.request, body,
					       (size_t)box_figures_encode(&f, body, sizeof(body)),
					       NULL, 0),
				     0);
		}
	CHECK(ended);
	turn();
	CHECK_EQ_INT(g.naboxes, 0);
	CHECK_EQ_INT(g.tombs.n, 1);
	CHECK_EQ_INT(g.runs.bytes, 0);
	(void)close(box);
	gate_close();
}

TEST(adopted_boxes_are_idle_only_without_commands)
{
	int box;

	gate_open();
	box = adopt_box(1, clock_us() + 60 * US_PER_S, US_PER_S);
	pass(10 * US_PER_S);
	CHECK_EQ_INT(g.aboxes->state, ABOX_READY);
	say_hello(box);
	say_exit(box, JOB);
	turn();
	CHECK_EQ_INT(g.aboxes->running, 0);
	CHECK_EQ_INT(g.aboxes->state, ABOX_READY);
	pass(10 * US_PER_S);
	CHECK_EQ_INT(g.aboxes->state, ABOX_ENDING);
	(void)close(box);
	gate_close();
}

TEST(a_box_of_a_record_that_is_cut_is_not_adopted)
{
	struct box_info info = { .box = BOX };
	uint8_t record[2048];
	size_t n;

	gate_open();
	n = box_record(record, sizeof(record), 3, clock_us() + US_PER_S, 0);
	for (size_t len = 1; len < n; len++) {
		CHECK_EQ_INT(abox_adopt(&g, &info, record, len), -1);
		turn();
		CHECK_EQ_INT(g.naboxes, 0);
		CHECK_EQ_INT(g.counted_boxes, 0);
		CHECK_EQ_INT(g.runs.bytes, 0);
	}
	gate_close();
}

/* --- keys ---------------------------------------------------------------------------------------------------- */

static bool is_known(unsigned int i)
{
	struct idem_key k = { .set = true };
	const struct idem *found;
	char want[16];
	size_t n;

	memcpy(k.key, &i, sizeof(i));
	found = idem_find(&g, &k);
	if (found == NULL)
		return false;
	(void)snprintf(want, sizeof(want), "%u", i);
	CHECK_STR(idem_answer(found, &n), want);
	return true;
}

TEST(keys_are_known_in_number_and_for_a_day)
{
	enum { DAY_MS = 24 * 3600 * 1000, MOST = 8192, MORE = 500 };

	gate_open();
	g.loop.now_us = clock_us();
	for (unsigned int i = 0; i < MOST + MORE; i++) {
		struct idem_key k = { .set = true };
		char text[16];

		memcpy(k.key, &i, sizeof(i));
		(void)snprintf(text, sizeof(text), "%u", i);
		/* The last one is nearly a day old. */
		idem_add(&g, &k, text, strlen(text), i < MOST + MORE - 1 ? 0 : DAY_MS - 1000);
	}
	CHECK_EQ_INT(g.idems.n, MOST);
	CHECK(!is_known(0) && !is_known(MORE - 1) && is_known(MORE) && is_known(MOST + MORE - 1));
	g.loop.now_us += US_PER_S;
	CHECK(is_known(MORE) && !is_known(MOST + MORE - 1));
	g.loop.now_us += DAY_MS * 1000ull;
	CHECK(!is_known(MOST));
	gate_close();
}

/* --- logs of several tenants ---------------------------------------------------------------------------------- */

static struct abox *box_of(unsigned int tenant)
{
	struct abox *a = abox_new(&g, &g.tenants[tenant]);

	CHECK(a != NULL);
	a->limits.v[LIMIT_OUTPUT] = 16 << 20;
	return a;
}

/* A command that says so many KiB, and ends or does not. */
static struct task *say_much(struct abox *a, size_t kib, bool ends)
{
	static char text[4 << 20];
	struct task *t = command_load(a, 0);

	CHECK(t != NULL && kib << 10 <= sizeof(text));
	task_begin(t);
	run_output(&t->run, 2, 1, text, kib << 10);
	if (ends)
		task_finish(t, TASK_OK);
	return t;
}

static bool is_whole(const struct task *t)
{
	return !t->run.cut[0];
}

TEST(logs_make_room_at_the_cost_of_who_holds_most)
{
	struct task *small, *other, *large[3], *fresh;
	struct abox *a[3];

	gate_open();
	config_done(&g.config);
	must_load(&g.config, WORDS("--state-dir=/s", "--log-bytes=8M"), no_env);
	g.ntenants = 3;
	g.loop.now_us = clock_us();
	for (unsigned int i = 0; i < 3; i++)
		a[i] = box_of(i);
	small = say_much(a[0], 512, true);
	large[0] = say_much(a[1], 1024, true);
	large[1] = say_much(a[1], 2048, true);
	large[2] = say_much(a[1], 3072, false);
	/* One who holds most and says more: what it has said before goes, the largest first. */
	fresh = say_much(a[1], 2048, false);
	CHECK(is_whole(fresh) && is_whole(small) && is_whole(large[0]) && is_whole(large[2]));
	CHECK(!is_whole(large[1]));
	CHECK_EQ_INT(g.runs.bytes, g.tenants[0].log.bytes + g.tenants[1].log.bytes);
	/* Another one says something: at the cost of who holds most. */
	other = say_much(a[2], 1024, true);
	CHECK(is_whole(other) && is_whole(small) && !is_whole(large[0]));
	/* All that is left there runs: it is not let go of, and others that hold less do not have to go for it. */
	fresh = say_much(a[1], 2048, true);
	CHECK(!is_whole(fresh) && is_whole(small) && is_whole(other));
	/* That there was nothing to be had for one says nothing about others, who have their own. */
	fresh = say_much(a[2], 1024, false);
	CHECK(is_whole(fresh) && is_whole(small) && !is_whole(other));
	CHECK(g.runs.bytes <= g.runs.max);
	for (unsigned int i = 0; i < 3; i++) {
		tasks_end(a[i], false, "");
		abox_drop(a[i]);
	}
	turn();
	CHECK_EQ_INT(g.runs.bytes, 0);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ_INT(g.tenants[i].log.bytes, 0);
	gate_close();
}

/* --- routes -------------------------------------------------------------------------------------------------- */

TEST(routes_have_sound_tables)
{
	for (unsigned int i = 0; i < nroutes; i++) {
		const char *wrong = routes[i].in != NULL ? fields_check(routes[i].in) : NULL;

		if (wrong != NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", routes[i].path, wrong);
		test_count();
	}
}

/* --- figures ------------------------------------------------------------------------------------------------- */

static bool metrics_say(const char *line)
{
	struct json j;
	bool found;

	json_init(&j);
	metrics_print(&g, &j);
	CHECK(!j.failed);
	found = memmem(j.buf, j.len, line, strlen(line)) != NULL;
	json_done(&j);
	return found;
}

TEST(metrics_show_what_was_taken_over)
{
	struct box_info info = { .box = BOX };
	struct box_figures f = { 0 };
	uint8_t record[512];
	int box;

	gate_open();
	CHECK(metrics_say("\nglovebox_boxes_adopted_total{what=\"session\"} 0\n"));
	CHECK(metrics_say("\nglovebox_boxes_adopted_total{what=\"run\"} 0\n"));
	end_box(adopt(0, 0));
	CHECK(metrics_say("\nglovebox_boxes_adopted_total{what=\"session\"} 1\n"));
	CHECK_EQ_INT(ci_stream_adopt(&g, &info, record, run_record(record, sizeof(record))), 0);
	box = give_box();
	CHECK(metrics_say("\nglovebox_boxes_adopted_total{what=\"run\"} 1\n"));
	CHECK(metrics_say("\nglovebox_boxes_adopted_total{what=\"session\"} 1\n"));
	gboxes_gone(&g, BOX, GONE_INIT, &f);
	pass(60 * US_PER_S);
	(void)close(box);
	gate_close();
}

TEST(metrics_show_every_figure)
{
	gate_open();
	g.figures = (struct figures){ .timeouts = 3, .malformed = 4, .accepted = 5, .paused = 6 };
	CHECK(metrics_say("\nglovebox_connections_timed_out_total 3\n"));
	CHECK(metrics_say("\nglovebox_requests_malformed_total 4\n"));
	CHECK(metrics_say("\nglovebox_connections_accepted_total 5\n"));
	CHECK(metrics_say("\nglovebox_accepts_paused_total 6\n"));
	gate_close();
}

/* --- tokens -------------------------------------------------------------------------------------------------- */

TEST(auth_takes_hashes_of_tokens_and_nothing_else)
{
	uint8_t want[SHA256_BYTES];
	struct config plain_config = { 0 };
	char hash[SHA256_HEX], word[128];
	struct err e;

	gate_open();
	sha256_hex(TOKEN_A, strlen(TOKEN_A), hash);
	sha256_sum(TOKEN_A, strlen(TOKEN_A), want);
	(void)snprintf(word, sizeof(word), "--token=one:%s", hash);
	must_load(&plain_config, WORDS("--state-dir=/s", FLAG_A), no_env);
	config_done(&g.config);
	must_load(&g.config, WORDS("--state-dir=/s", word), no_env);
	CHECK_EQ_INT(auth_start(&g, &e), 0);
	CHECK_EQ_INT(g.ntokens, 1);
	CHECK_MEM(g.tokens[0].sha256, want, sizeof(want));
	CHECK_STR(g.tokens[0].tenant->name, "one");
	config_done(&g.config);
	g.config = plain_config;
	CHECK_EQ_INT(auth_start(&g, &e), -1);
	CHECK(strstr(e.text, TOKEN_A) == NULL);
	gate_close();
}

/* --- the audit ----------------------------------------------------------------------------------------------- */

/* What the store is asked to write: how many lines, and the refusals that the last one sums up. */
static unsigned int lines_written(unsigned int *ret_count)
{
	static struct chan_msg m;
	unsigned int n = 0;

	*ret_count = 0;
	for (; chan_recv(store, &m) == 1; n++) {
		static const char key[] = "\"why\":\"many\",\"count\":\"";
		const uint8_t *line;
		const char *at;
		size_t len;

		CHECK_EQ_INT(m.type, STORE_OP_AUDIT);
		CHECK_EQ_INT(store_audit_decode(m.body, m.len, &line, &len), 0);
		CHECK(memmem(line, len, "\"event\":\"token_refused\"", 23) != NULL);
		at = memmem(line, len, key, strlen(key));
		*ret_count = at != NULL ? (unsigned int)strtoul(at + strlen(key), NULL, 10) : 0;
		CHECK_EQ_INT(at == NULL, memmem(line, len, "\"peer\":\"him\"", 12) != NULL);
		CHECK_EQ_INT(chan_send(store, STORE_OK, m.request, NULL, 0, NULL, 0), 0);
	}
	turn();
	return n;
}

TEST(audit_sums_up_refused_tokens)
{
	static struct conn c = { .peer = "him" };
	static struct req r;
	unsigned int count;

	gate_open();
	r = (struct req){ .g = &g, .conn = &c };
	g.loop.now_us = clock_us();
	for (unsigned int minute = 0; minute < 3; minute++) {
		for (unsigned int i = 0; i < 1000; i++)
			audit_token_refused(&r, "wrong");
		CHECK_EQ_INT(lines_written(&count), 60);
		CHECK_EQ_INT(count, 0);
		pass(61 * US_PER_S);
		CHECK_EQ_INT(lines_written(&count), 1);
		CHECK_EQ_INT(count, 940);
	}
	/* As many as have lines, and one: when the server stops. */
	for (unsigned int i = 0; i < 60; i++)
		audit_token_refused(&r, "missing");
	audit_sum_refused(&g);
	CHECK_EQ_INT(lines_written(&count), 60);
	for (unsigned int i = 0; i < 61; i++)
		audit_token_refused(&r, "missing");
	audit_sum_refused(&g);
	audit_sum_refused(&g);
	CHECK_EQ_INT(lines_written(&count), 61);
	CHECK_EQ_INT(count, 1);
	pass(61 * US_PER_S); /* nothing is left over */
	CHECK_EQ_INT(lines_written(&count), 0);
	gate_close();
}
