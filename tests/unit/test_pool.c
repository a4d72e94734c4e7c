/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/pool.c: boxes made ahead, and how one becomes somebody's. Keeper and init are sockets of the test. */
#include "base/clock.h"
#include "gate/boxes.h"
#include "wire/msg.h"
#include "wire/rlimits.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_config.h"
#include "test_gate.h"

enum { IMAGE = 3, BOXES = 64 };

static int streams[BOXES]; /* the end of each box's init, by its number */
static uint64_t last_box;

/* What somebody hears who has or wants a box. */
static struct {
	unsigned int ready, failed, gone, lost, ended, output;
	struct gbox *box;
} heard;

static void on_ready(void *arg, struct gbox *b)
{
	(void)arg;
	heard.ready++;
	heard.box = b;
}

static void on_failed(void *arg, const struct err *e)
{
	(void)arg;
	(void)e;
	heard.failed++;
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	(void)arg;
	(void)why;
	(void)f;
	heard.gone++;
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	(void)arg;
	(void)number;
	(void)stream;
	(void)p;
	(void)n;
	heard.output++;
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	(void)arg;
	(void)x;
	(void)number;
	heard.ended++;
}

static void on_job_failed(void *arg, int error, const char *why)
{
	(void)arg;
	(void)error;
	(void)why;
	heard.ended++;
}

static void on_lost(void *arg)
{
	(void)arg;
	heard.lost++;
}

static const struct gbox_ops box_ops = { .ready = on_ready, .failed = on_failed, .gone = on_gone };
static const struct gjob_ops job_ops = {
	.output = on_output, .ended = on_ended, .failed = on_job_failed, .lost = on_lost
};

static void refuse(uint64_t request, enum err_kind kind);

static uint64_t unanswered[BOXES]; /* what the keeper was asked; 0: nothing */

static void note(uint64_t request, bool answered)
{
	for (size_t i = 0; i < ARRAY_LEN(unanswered); i++)
		if (unanswered[i] == (answered ? request : 0)) {
			unanswered[i] = answered ? 0 : request;
			return;
		}
}

/* --- the keeper and init ------------------------------------------------------------------------------------- */

static void open_with(const char *const *words)
{
	gate_open();
	config_done(&g.config);
	must_load(&g.config, words, no_env);
	log_init(&g.log, open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_ERROR, LOG_TEXT);
	memset(streams, -1, sizeof(streams));
	memset(&heard, 0, sizeof(heard));
	last_box = 0;
}

/* Whoever still waits for the keeper is answered: then nothing is left. */
static void close_all(void)
{
	static struct chan_msg m;

	pool_stop(&g);
	g.stopping = may_log = true;
	turn();
	for (size_t i = 0; i < ARRAY_LEN(unanswered); i++)
		if (unanswered[i] != 0)
			refuse(unanswered[i], ERR_INPUT);
	while (chan_recv(keeper, &m) == 1)
		refuse(m.request, ERR_INPUT);
	CHECK_EQ_INT(g.nboxes, 0);
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		if (streams[i] >= 0)
			(void)close(streams[i]);
	(void)close(g.log.fd);
	gate_close();
}

/* The next thing that the keeper is asked, which must be this. */
static const struct chan_msg *asked(unsigned int type)
{
	static struct chan_msg m;

	CHECK_EQ_INT(chan_recv(keeper, &m), 1);
	CHECK_EQ_INT(m.type, type);
	note(m.request, false);
	return &m;
}

static void asked_nothing(void)
{
	static struct chan_msg m;

	CHECK_EQ_INT(chan_recv(keeper, &m), -EAGAIN);
}

static uint64_t asked_about(unsigned int type)
{
	const struct chan_msg *m = asked(type);
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	return msg_get_u64(&in);
}

static const struct box_request *asked_for_a_box(uint64_t *ret_request)
{
	static struct box_request q;
	const struct chan_msg *m = asked(OP_BOX_NEW);
	struct err e;

	*ret_request = m->request;
	CHECK_EQ_INT(box_request_decode(m->body, m->len, &q, &e), 0);
	return &q;
}

static void answer(uint64_t request, const void *body, size_t n, const int *fd)
{
	note(request, true);
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, request, body, n, fd, fd != NULL), 0);
	turn();
}

static void refuse(uint64_t request, enum err_kind kind)
{
	uint8_t body[512];
	struct err e;
	ptrdiff_t n;

	note(request, true);
	(void)err_set(&e, kind, 0, "no");
	n = failed_encode(&e, body, sizeof(body));
	CHECK_EQ_INT(chan_send(keeper, REPLY_FAILED, request, body, (size_t)n, NULL, 0), 0);
	turn();
}

/* The keeper makes the box that it was asked for. Its number. */
static uint64_t make_box(uint64_t request, uint32_t image)
{
	struct box_info info = { .box = ++last_box, .image = image };
	uint8_t body[1024];
	ptrdiff_t n = box_info_encode(&info, body, sizeof(body));
	int s[2];

	CHECK(last_box < BOXES);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	answer(request, body, (size_t)n, &s[1]);
	(void)close(s[1]);
	streams[last_box] = s[0];
	say_hello(s[0]);
	turn();
	return last_box;
}

/* What init was sent, one letter per frame; the limits of the last LIMITS are kept. */
static struct rlimits limits_sent;

static const char *frames_of(uint64_t box)
{
	static uint8_t buf[1 << 16];
	static char text[64];
	ssize_t n = recv(streams[box], buf, sizeof(buf), MSG_DONTWAIT);
	size_t at = 0;

	for (ssize_t done = 0; done < n;) {
		struct frame f;
		ptrdiff_t used = frame_parse(buf + done, (size_t)(n - done), FRAME_TO_BOX, &f);

		CHECK(used > 0 && at < sizeof(text) - 1);
		if (f.type == FRAME_LIMITS)
			CHECK_EQ_INT(rlimits_decode(f.payload, f.len, &limits_sent), 0);
		text[at++] = f.type == FRAME_HELLO    ? 'H'
			     : f.type == FRAME_RUN    ? 'R'
			     : f.type == FRAME_LIMITS ? 'L'
						      : '?';
		done += used;
	}
	text[at] = '\0';
	return text;
}

static void say_ready(uint64_t box, enum warm_kind kind)
{
	say(streams[box], FRAME_READY, kind == WARM_KERNEL ? POOL_KERNEL_JOB : PROGRAM_JOB, 0, "",
	    0);
	turn();
}

/* The pool makes members of one kind, as many as it likes at once; their numbers follow one another. */
static unsigned int fill(enum warm_kind kind)
{
	static struct chan_msg m;
	unsigned int n = 0;

	pool_turn(&g);
	turn();
	while (chan_recv(keeper, &m) == 1) {
		CHECK_EQ_INT(m.type, OP_BOX_NEW);
		(void)make_box(m.request, IMAGE);
		CHECK_STR(frames_of(last_box), "HR");
		say_ready(last_box, kind);
		turn();
		n++;
	}
	return n;
}

/* A pool with two kernels that wait, boxes 1 and 2, and that makes no others for the time being. */
static void open_pool(void)
{
	open_with(WORDS("--state-dir=/s", "--session-pool-size=2"));
	g.envs->warm.images[WARM_KERNEL].id = IMAGE;
	CHECK_EQ_INT(fill(WARM_KERNEL), 2);
	g.pool.rests_until_us = UINT64_MAX;
}

static struct gbox *take(struct box_request *q, struct gjob *job)
{
	return pool_take(&g, WARM_KERNEL, q, job, &box_ops, &job_ops, NULL);
}

static void standard(struct box_request *q)
{
	box_standard(&g, q);
	q->image = IMAGE;
}

/* --- members ------------------------------------------------------------------------------------------------- */

TEST(pool_hands_out_who_has_answered)
{
	static struct box_request q;
	struct gjob job = { 0 };
	const struct box_request *want;
	uint64_t request;

	open_with(WORDS("--state-dir=/s", "--session-pool-size=1"));
	g.envs->warm.images[WARM_KERNEL].id = IMAGE;
	pool_turn(&g);
	turn();
	want = asked_for_a_box(&request);
	standard(&q);
	CHECK_EQ_INT(want->flags, q.flags | BOX_SPARE);
	CHECK_EQ_INT(want->image, IMAGE);
	CHECK_MEM(&want->limits, &q.limits, sizeof(q.limits));
	CHECK(take(&q, &job) == NULL); /* it is being made */
	(void)make_box(request, IMAGE);
	CHECK_STR(frames_of(1), "HR");
	CHECK(take(&q, &job) == NULL); /* it is there, and says nothing */
	say_ready(1, WARM_KERNEL);
	CHECK(take(&q, &job) != NULL);
	CHECK_EQ_INT(job.id, POOL_KERNEL_JOB);
	CHECK_EQ_INT(g.pool.hits[WARM_KERNEL], 1);
	CHECK_EQ_INT(g.pool.misses[WARM_KERNEL], 2);
	CHECK_EQ_INT(g.pool.misses[WARM_LEAN], 0);
	turn();
	CHECK(take(&q, &job) == NULL); /* there was one */
	gbox_end(heard.box, NULL, NULL);
	close_all();
}

/* The limits that it has are those that are wanted: nothing is asked, and init hears first of all what holds. */
TEST(pool_hands_out_at_once_what_fits)
{
	static struct box_request q;
	struct gjob job = { 0 };
	struct rlimits want;
	struct gbox *b;

	open_pool();
	standard(&q);
	b = take(&q, &job);
	CHECK(b != NULL && b->id == 1 && job.box == b); /* the oldest one */
	CHECK_EQ_INT(heard.ready, 0);                   /* not from within */
	turn();
	CHECK_EQ_INT(heard.ready, 1);
	CHECK(heard.box == b && b->made_ahead && b->request == NULL);
	CHECK_STR(frames_of(1), "L");
	rlimits_of(&q.limits, &want);
	CHECK_MEM(&limits_sent, &want, sizeof(want));
	asked_nothing();
	g.pool.rests_until_us = 0;
	pool_turn(&g);
	turn();
	(void)asked(OP_BOX_NEW); /* the pool is filled again */
	gbox_end(b, NULL, NULL);
	CHECK_EQ_INT(heard.lost, 1);
	close_all();
}

/* The next one is made a little later, and not put off by others that are taken meanwhile. */
TEST(pool_lets_one_run_before_it_makes_another)
{
	static struct box_request q;
	struct gjob first = { 0 }, second = { 0 };
	struct gbox *a, *b;
	uint64_t at_us;

	open_pool();
	g.pool.rests_until_us = 0;
	timer_clear(&g.loop, &g.pool.later);
	standard(&q);
	a = take(&q, &first);
	CHECK(a != NULL && g.pool.later.place != 0);
	at_us = g.pool.later.at_us;
	CHECK(at_us >= g.loop.now_us + 1000 && at_us < g.loop.now_us + 1000 * 1000);
	g.loop.now_us += 500;
	b = take(&q, &second);
	CHECK(b != NULL && b != a);
	CHECK_EQ_INT(g.pool.later.at_us, at_us);
	asked_nothing();
	pass(1000 * 1000);
	(void)asked(OP_BOX_NEW);
	gbox_end(a, NULL, NULL);
	gbox_end(b, NULL, NULL);
	close_all();
}

TEST(pool_asks_for_the_limits_that_are_wanted)
{
	static struct box_request q;
	const struct chan_msg *m;
	struct gjob job = { 0 };
	struct limits got;
	struct rlimits want;
	uint64_t box;
	struct gbox *b;
	struct err e;

	open_pool();
	standard(&q);
	q.limits.v[LIMIT_OPEN_FILES] = 99;
	q.limits.v[LIMIT_MEMORY] += 4096;
	b = take(&q, &job);
	turn();
	CHECK_EQ_INT(heard.ready, 0);
	m = asked(OP_BOX_LIMITS);
	CHECK_EQ_INT(box_limits_decode(m->body, m->len, &box, &got, &e), 0);
	CHECK_EQ_INT(box, 1);
	CHECK_MEM(&got, &q.limits, sizeof(got));
	answer(m->request, NULL, 0, NULL);
	CHECK_EQ_INT(heard.ready, 1);
	CHECK(heard.box == b && job.box == b && b->made_ahead);
	CHECK_STR(frames_of(1), "L");
	rlimits_of(&q.limits, &want);
	CHECK_MEM(&limits_sent, &want, sizeof(want));
	gbox_end(b, NULL, NULL);
	close_all();
}

/* What cannot be changed afterwards has to be right: flags, layers that may be missing, the image, mounts. */
TEST(pool_gives_nothing_that_does_not_fit)
{
	static struct box_request q;
	struct gjob job = { 0 };

	open_pool();
	for (int i = 0; i < 4; i++) {
		standard(&q);
		q.flags ^= i == 0 ? BOX_HEARD : 0;
		q.waived ^= i == 1;
		q.image += i == 2;
		q.nmounts = i == 3;
		CHECK(take(&q, &job) == NULL);
	}
	standard(&q);
	CHECK(pool_take(&g, WARM_LEAN, &q, &job, &box_ops, &job_ops, NULL) == NULL);
	CHECK_EQ_INT(g.pool.n, 2);
	close_all();
}

/* --- a hand-out that fails ----------------------------------------------------------------------------------- */

/* Box 1 is of no use: it is ended, and the owner gets a box of its own by the same handle, without the job. */
static void check_replaced(struct gbox *b, const struct gjob *job, const struct limits *want)
{
	const struct box_request *q;
	uint64_t request;

	CHECK_EQ_INT(heard.ready + heard.failed + heard.gone, 0);
	CHECK_EQ_INT(asked_about(OP_BOX_END), 1);
	q = asked_for_a_box(&request);
	CHECK_EQ_INT(q->flags & BOX_SPARE, 0);
	CHECK_EQ_INT(q->image, IMAGE);
	CHECK_MEM(&q->limits, want, sizeof(*want));
	CHECK(heard.lost == 1 && job->box == NULL);
	(void)make_box(request, IMAGE);
	CHECK_EQ_INT(heard.ready, 1);
	CHECK(heard.box == b && b->id == last_box && !b->made_ahead && b->request == NULL);
	CHECK_EQ_INT(g.pool.replaced, 1);
	CHECK_STR(frames_of(last_box), "H");
}

TEST(pool_replaces_a_box_that_cannot_be_changed)
{
	static struct box_request q;
	struct gjob job = { 0 };
	struct gbox *b;

	open_pool();
	standard(&q);
	q.limits.v[LIMIT_MEMORY] += 4096;
	b = take(&q, &job);
	turn();
	refuse(asked(OP_BOX_LIMITS)->request, ERR_SYS);
	check_replaced(b, &job, &q.limits);
	gbox_end(b, NULL, NULL);
	close_all();
}

TEST(pool_replaces_a_box_that_dies_on_the_way)
{
	for (int equal = 0; equal <= 1; equal++) {
		static struct box_request q;
		struct box_figures f = { 0 };
		struct gjob job = { 0 };
		uint64_t request = 0;
		struct gbox *b;

		open_pool();
		standard(&q);
		q.limits.v[LIMIT_MEMORY] += equal ? 0 : 4096;
		b = take(&q, &job);
		if (!equal) {
			turn();
			request = asked(OP_BOX_LIMITS)->request;
		}
		gboxes_gone(&g, 1, GONE_INIT, &f);
		if (equal)
			turn();
		else
			refuse(request, ERR_INPUT);
		check_replaced(b, &job, &q.limits);
		gbox_end(b, NULL, NULL);
		close_all();
	}
}

/* An image that was made anew meanwhile: the new box starts cold, and starts. */
TEST(pool_replaces_without_an_image_that_has_gone)
{
	static struct box_request q;
	const struct box_request *want;
	struct gjob job = { 0 };
	uint64_t request;
	struct gbox *b;

	open_pool();
	standard(&q);
	q.limits.v[LIMIT_MEMORY] += 4096;
	b = take(&q, &job);
	turn();
	request = asked(OP_BOX_LIMITS)->request;
	g.envs->warm.images[WARM_KERNEL].id = 0;
	refuse(request, ERR_SYS);
	CHECK_EQ_INT(asked_about(OP_BOX_END), 1);
	want = asked_for_a_box(&request);
	CHECK_EQ_INT(want->image, 0);
	refuse(request, ERR_INPUT);
	CHECK(heard.failed == 1 && heard.ready == 0);
	(void)b;
	close_all();
}

/* Who lets go of a box on the way hears nothing of it any more. */
TEST(pool_hand_out_can_be_given_up)
{
	for (int equal = 0; equal <= 1; equal++) {
		static struct box_request q;
		struct gjob job = { 0 };
		uint64_t request = 0;
		struct gbox *b;

		open_pool();
		standard(&q);
		q.limits.v[LIMIT_MEMORY] += equal ? 0 : 4096;
		b = take(&q, &job);
		if (!equal) {
			turn();
			request = asked(OP_BOX_LIMITS)->request;
		}
		gbox_end(b, NULL, NULL);
		turn();
		if (!equal)
			answer(request, NULL, 0, NULL);
		CHECK_EQ_INT(asked_about(OP_BOX_END), 1);
		CHECK_EQ_INT(heard.ready + heard.failed + heard.gone, 0);
		CHECK_EQ_INT(heard.lost, 1);
		close_all();
	}
}

/* --- room ---------------------------------------------------------------------------------------------------- */

TEST(pool_makes_room_for_who_waits)
{
	static const enum err_kind kinds[] = { ERR_LIMIT, ERR_INPUT };
	static struct box_request q;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct box_figures f = { 0 };
		const struct chan_msg *m;
		uint8_t body[128];
		uint64_t request;
		struct gbox *b;
		struct err e;

		open_pool();
		standard(&q);
		q.limits.v[LIMIT_MEMORY] += 4096;
		b = gbox_new(&g, &q, &box_ops, NULL, &e);
		CHECK(b != NULL);
		turn();
		(void)asked_for_a_box(&request);
		refuse(request, kinds[i]);
		if (kinds[i] == ERR_INPUT) { /* another box fewer would not help */
			CHECK(heard.failed == 1 && g.pool.n == 2);
			asked_nothing();
			close_all();
			continue;
		}
		CHECK_EQ_INT(heard.failed, 0);
		m = asked(OP_BOX_END); /* the oldest member */
		CHECK(m->body[0] == 1 && g.pool.n == 1 && g.pool.yielded == 1);
		asked_nothing();
		answer(m->request, body, (size_t)box_figures_encode(&f, body, sizeof(body)), NULL);
		CHECK_MEM(&asked_for_a_box(&request)->limits, &q.limits, sizeof(q.limits));
		pool_turn(&g); /* it does not take the place itself */
		turn();
		asked_nothing();
		refuse(request, kinds[i]); /* once is enough */
		CHECK(heard.failed == 1 && g.pool.n == 1);
		close_all();
	}
}

/* A member that cannot be made is not made at the cost of another one. */
TEST(pool_makes_no_room_for_itself)
{
	uint64_t request;

	open_with(WORDS("--state-dir=/s", "--session-pool-size=2", "--pool-refill=1"));
	g.envs->warm.images[WARM_KERNEL].id = IMAGE;
	pool_turn(&g);
	turn();
	(void)asked_for_a_box(&request);
	(void)make_box(request, IMAGE);
	say_ready(1, WARM_KERNEL);
	(void)asked_for_a_box(&request);
	may_log = true;
	refuse(request, ERR_LIMIT);
	CHECK(g.pool.n == 1 && g.pool.lost[WARM_KERNEL] == 1 && g.pool.yielded == 0);
	pool_turn(&g); /* not at once */
	turn();
	asked_nothing();
	pass(2 * US_PER_S);
	turn();
	(void)asked_for_a_box(&request);
	close_all();
}

/* The box that waited for room is given up meanwhile. */
TEST(pool_makes_room_for_nobody)
{
	static struct box_request q;
	struct box_figures f = { 0 };
	const struct chan_msg *m;
	uint8_t body[128];
	uint64_t request;
	struct gbox *b;
	struct err e;

	open_pool();
	standard(&q);
	b = gbox_new(&g, &q, &box_ops, NULL, &e);
	turn();
	(void)asked_for_a_box(&request);
	refuse(request, ERR_LIMIT);
	m = asked(OP_BOX_END);
	gbox_end(b, NULL, NULL);
	answer(m->request, body, (size_t)box_figures_encode(&f, body, sizeof(body)), NULL);
	asked_nothing();
	CHECK_EQ_INT(heard.ready + heard.failed + heard.gone, 0);
	CHECK_EQ_INT(g.nboxes, 1); /* the other member */
	close_all();
}

/* --- how many ------------------------------------------------------------------------------------------------ */

static unsigned int waiting(enum warm_kind kind)
{
	unsigned int n, making;
	uint64_t oldest_us;

	pool_count(&g, kind, &n, &making, &oldest_us);
	return n + making;
}

/* A ceiling over all: each kind has its share of it. */
TEST(pool_has_a_ceiling)
{
	open_with(WORDS("--state-dir=/s", "--session-pool-size=4", "--pool-size=4", "--pool-max=5",
			"--pool-refill=64"));
	for (int i = 0; i < WARM_MAX; i++)
		g.envs->warm.images[i].id = IMAGE + (uint32_t)i;
	g.envs->warm.images[WARM_KERNEL].id = 0; /* the last one to come: its share is kept */
	pool_turn(&g);
	CHECK(g.pool.n == 3 && waiting(WARM_KERNEL) == 0);
	g.envs->warm.images[WARM_KERNEL].id = IMAGE;
	pool_turn(&g);
	CHECK_EQ_INT(g.pool.n, 5);
	for (int i = 0; i < WARM_MAX; i++)
		CHECK(waiting((enum warm_kind)i) >= 1 && waiting((enum warm_kind)i) <= 2);
	close_all();
}

TEST(pool_sizes_are_per_image)
{
	open_with(WORDS("--state-dir=/s", "--session-pool-size=1", "--pool-size=3",
			"--pool-refill=64"));
	for (int i = 0; i < WARM_MAX; i++)
		g.envs->warm.images[i].id = IMAGE + (uint32_t)i;
	pool_turn(&g);
	CHECK_EQ_INT(waiting(WARM_LEAN), 3);
	CHECK_EQ_INT(waiting(WARM_FULL), 3);
	CHECK_EQ_INT(waiting(WARM_KERNEL), 1);
	g.envs->warm.images[WARM_FULL].id =
		77; /* made anew: those of the old one go, others come */
	pool_turn(&g);
	CHECK_EQ_INT(waiting(WARM_FULL), 3);
	CHECK_EQ_INT(g.pool.n, 7);
	for (const struct pool_member *m = g.pool.members; m != NULL; m = m->next)
		CHECK(m->is.kind != WARM_FULL || m->is.image == 77);
	config_done(&g.config); /* as a reload does */
	must_load(&g.config, WORDS("--state-dir=/s", "--session-pool-size=0", "--pool-size=1"),
		  no_env);
	pool_turn(&g);
	CHECK_EQ_INT(g.pool.n, 2);
	CHECK_EQ_INT(waiting(WARM_KERNEL), 0);
	close_all();
}

TEST(pool_makes_a_few_at_once)
{
	open_with(WORDS("--state-dir=/s", "--session-pool-size=8", "--pool-refill=3"));
	g.envs->warm.images[WARM_KERNEL].id = IMAGE;
	pool_turn(&g);
	CHECK(g.pool.n == 3 && g.pool.making == 3);
	pool_turn(&g);
	CHECK_EQ_INT(g.pool.n, 3);
	close_all();
}
