/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/run.c: the log of a run. The loop is turned by hand. */
#include "gate/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "test_help.h"

static struct loop loop;
static struct runs all;
static struct run_share share;
static struct run run;
static unsigned int alone, freed, evicted;
static bool can_evict;

static void put(void *arg, struct json *j)
{
	(void)arg;
	json_str(j, "status", "ok");
}

static void on_alone(void *arg)
{
	(void)arg;
	alone++;
}

static void on_free(void *arg)
{
	(void)arg;
	freed++;
}

static bool evict(void *arg)
{
	(void)arg;
	evicted++;
	if (!can_evict)
		return false;
	all.max += 1 << 20;
	return true;
}

static const struct run_ops ops = { .put = put, .alone = on_alone };

static void stop_now(void *arg)
{
	(void)arg;
	loop.stop = true;
}

/* What was put off until the end of the turn. */
static void turn(void)
{
	loop.stop = false;
	loop.each_turn = stop_now;
	loop_run(&loop);
}

static void begin(size_t max)
{
	memset(&loop, 0, sizeof(loop));
	CHECK_EQ_INT(loop_init(&loop), 0);
	loop.now_us = 1000000;
	all = (struct runs){ .max = 64 << 20, .evict = evict };
	alone = freed = evicted = 0;
	can_evict = false;
	share = (struct run_share){ 0 };
	run_init(&run, &loop, &all, &share, "command", max, &ops, NULL);
	strcpy(run.id, "x");
	run_event(&run, 1, RUN_START, NULL, 0);
}

static void done(void)
{
	run_done(&run, on_free, NULL);
	turn();
	CHECK_EQ_INT(freed, 1);
	CHECK_EQ_INT(all.bytes, 0);
	CHECK_EQ_INT(share.bytes, 0);
	free(loop.heap);
	(void)close(loop.epoll_fd);
}

/* A reader that writes down what it reads: "name seq json\n". */
struct diary {
	struct run_reader rd;
	char text[1 << 16];
	size_t n;
	unsigned int calls, most;
	bool leaves;
};

static void read_all(struct run_reader *rd)
{
	struct diary *d = (struct diary *)rd;
	struct run_told told;
	struct json j;

	d->calls++;
	for (unsigned int i = 0; d->most == 0 || i < d->most; i++) {
		json_init(&j);
		if (!run_read(rd, &j, &told)) {
			json_done(&j);
			break;
		}
		CHECK(!j.failed);
		d->n += (size_t)snprintf(d->text + d->n, sizeof(d->text) - d->n, "%s %llu %.*s\n",
					 run_event_str(told.event), (unsigned long long)told.seq,
					 (int)j.len, j.buf);
		json_done(&j);
	}
	if (d->leaves)
		run_detach(rd);
}

static void follow(struct diary *d, uint64_t after)
{
	memset(d, 0, sizeof(*d));
	run_attach(&run, &d->rd, after, read_all);
}

static void check_answer(const char *want)
{
	struct json j;

	json_init(&j);
	run_answer(&run, &j, RUN_OUTPUT);
	CHECK(!j.failed);
	json_raw(&j, "", 1);
	CHECK_STR(j.buf, want);
	json_done(&j);
}

static struct diary a, b;

TEST(run_tells_events_in_order_and_answers_in_one_piece)
{
	begin(100);
	follow(&a, 0);
	run_output(&run, 2, 1, "one", 3);
	loop.now_us += 5000;
	run_output(&run, 3, 2, "bad", 3);
	run_output(&run, 4, 1, "two", 3);
	CHECK_EQ_INT(a.calls, 0); /* at the end of the turn, once */
	turn();
	CHECK_EQ_INT(a.calls, 1);
	run_end(&run, 5);
	turn();
	CHECK_STR(a.text, "start 1 {\"command\":\"x\",\"seq\":1,\"t_ms\":0}\n"
			  "stdout 2 {\"command\":\"x\",\"seq\":2,\"t_ms\":0,\"data\":\"one\"}\n"
			  "stderr 3 {\"command\":\"x\",\"seq\":3,\"t_ms\":5,\"data\":\"bad\"}\n"
			  "stdout 4 {\"command\":\"x\",\"seq\":4,\"t_ms\":5,\"data\":\"two\"}\n"
			  "end 5 {\"command\":\"x\",\"seq\":5,\"t_ms\":5,\"status\":\"ok\","
			  "\"truncated\":{\"stdout\":false,\"stderr\":false}}\n");
	check_answer("{\"status\":\"ok\",\"stdout\":\"onetwo\",\"stderr\":\"bad\","
		     "\"truncated\":{\"stdout\":false,\"stderr\":false}}");
	run_end(&run, 6);
	CHECK_EQ_INT(run.seq, 5); /* once */
	run_output(&run, 6, 1, "late", 4);
	turn();
	CHECK(strstr(a.text, "stdout 6 ") != NULL);
	check_answer("{\"status\":\"ok\",\"stdout\":\"onetwolate\",\"stderr\":\"bad\","
		     "\"truncated\":{\"stdout\":false,\"stderr\":false}}");
	run_detach(&a.rd);
	CHECK_EQ_INT(alone, 1);
	done();
}

/* Frames that say nothing have no number; those that are missing have one each, unless it is known better. */
TEST(run_numbers_events_and_not_frames)
{
	begin(100);
	run_nothing(&run, 2);
	run_output(&run, 3, 1, "x", 1);
	run_nothing(&run, 4);
	run_nothing(&run, 5);
	run_output(&run, 6, 1, "y", 1);
	follow(&a, 1);
	turn();
	CHECK_STR(a.text, "stdout 2 {\"command\":\"x\",\"seq\":2,\"t_ms\":0,\"data\":\"x\"}\n"
			  "stdout 3 {\"command\":\"x\",\"seq\":3,\"t_ms\":0,\"data\":\"y\"}\n");
	run_output(&run, 9, 1, "z", 1);
	turn();
	CHECK(strstr(a.text, "gap 5 ") != NULL && strstr(a.text, "\"from\":4,\"to\":5") != NULL);
	run.known_frame = 20;
	run.known_seq = 10;
	run_output(&run, 21, 1, "a", 1);
	CHECK_EQ_INT(run.seq, 11);
	run_detach(&a.rd);
	done();
}

TEST(run_can_be_followed_from_anywhere)
{
	begin(100);
	for (uint64_t seq = 2; seq <= 5; seq++)
		run_output(&run, seq, 1, "x", 1);
	run_end(&run, 6);
	follow(&a, 4);
	turn();
	CHECK(strncmp(a.text, "stdout 5 ", 9) == 0);
	CHECK(strstr(a.text, "\nend 6 ") != NULL);
	run_detach(&a.rd);
	follow(&a, 6);
	turn();
	CHECK_STR(a.text, "");
	run_detach(&a.rd);
	follow(&a, 7777);
	turn();
	CHECK_STR(a.text, "");
	run_detach(&a.rd);
	done();
}

TEST(run_readers_are_independent_of_each_other)
{
	begin(100);
	follow(&a, 0);
	follow(&b, 0);
	a.most = 1; /* slow */
	b.leaves = true;
	run_output(&run, 2, 1, "x", 1);
	turn();
	CHECK(strncmp(a.text, "start 1 ", 8) == 0 && strstr(a.text, "stdout") == NULL);
	CHECK(strstr(b.text, "stdout 2 ") != NULL);
	CHECK(b.rd.run == NULL);
	CHECK_EQ_INT(alone, 0);
	run_output(&run, 3, 1, "y", 1);
	turn();
	CHECK(strstr(a.text, "stdout 2 ") != NULL && strstr(a.text, "stdout 3") == NULL);
	CHECK(strstr(b.text, "stdout 3") == NULL);
	run_detach(&a.rd);
	CHECK_EQ_INT(alone, 1);
	done();
}

TEST(run_events_end_with_whole_characters)
{
	begin(100);
	follow(&a, 0);
	run_output(&run, 2, 1, "a\xe2\x82", 3);
	CHECK(run.taken[0] < buf_len(&run.out[0])); /* what is open must come again with its rest */
	run_output(&run, 3, 2, "\xc3", 1);
	run_output(&run, 4, 1, "\xac!", 2);
	run_output(&run, 5, 1, "\xff", 1);
	run_end(&run, 6);
	turn();
	CHECK(strstr(a.text, "stdout 2 {\"command\":\"x\",\"seq\":2,\"t_ms\":0,\"data\":\"a\"}") !=
	      NULL);
	CHECK(strstr(a.text, "stderr 3 {\"command\":\"x\",\"seq\":3,\"t_ms\":0,\"data\":\"\"}") !=
	      NULL);
	CHECK(strstr(a.text, "\"seq\":4,\"t_ms\":0,\"data\":\"\xe2\x82\xac!\"}") != NULL);
	CHECK(strstr(a.text, "\"seq\":5,\"t_ms\":0,\"data\":\"\xef\xbf\xbd\"}") != NULL);
	/* Half a character at the end has a number of its own. */
	CHECK(strstr(a.text, "stderr 6 {\"command\":\"x\",\"seq\":6,\"t_ms\":0,"
			     "\"data\":\"\xef\xbf\xbd\"}\nend 7 ") != NULL);
	run_detach(&a.rd);
	done();
}

TEST(run_tells_bytes_in_base64)
{
	begin(100);
	run.base64 = true;
	follow(&a, 1);
	run_output(&run, 2, 1, "\xe2\x82", 2);
	run_output(&run, 3, 1, "\x00\xff", 2);
	turn();
	CHECK(strstr(a.text, "\"data\":\"4oI=\"") != NULL);
	CHECK(strstr(a.text, "\"data\":\"AP8=\"") != NULL);
	check_answer("{\"status\":\"ok\",\"stdout\":\"4oIA/w==\",\"stderr\":\"\","
		     "\"truncated\":{\"stdout\":false,\"stderr\":false}}");
	run_detach(&a.rd);
	done();
}

TEST(run_keeps_to_the_limit_of_a_stream)
{
	begin(4);
	run_output(&run, 2, 1, "abc", 3);
	run_output(&run, 3, 1, "def", 3);
	run_output(&run, 4, 1, "g", 1);
	run_output(&run, 5, 2, "wxyz", 4);
	run_end(&run, 6);
	check_answer("{\"status\":\"ok\",\"stdout\":\"abcd\",\"stderr\":\"wxyz\","
		     "\"truncated\":{\"stdout\":true,\"stderr\":false}}");
	done();
}

TEST(run_tells_a_gap_where_numbers_are_missing)
{
	begin(100);
	run_output(&run, 7, 1, "x", 1); /* of another gate: 2 to 6 were acknowledged */
	follow(&a, 0);
	turn();
	CHECK(strstr(a.text, "gap 6 {\"command\":\"x\",\"seq\":6,\"t_ms\":0,\"from\":2,\"to\":6}\n"
			     "stdout 7 ") != NULL);
	run_detach(&a.rd);
	follow(&a, 4);
	turn();
	CHECK(strncmp(a.text, "gap 6 ", 6) == 0 && strstr(a.text, "\"from\":5,\"to\":6}") != NULL);
	run_detach(&a.rd);
	done();
}

TEST(run_holds_so_many_events)
{
	begin(1 << 20);
	for (uint64_t seq = 2; seq <= RUN_MARKS_MAX + 10; seq++)
		run_output(&run, seq, 1, "x", 1);
	follow(&a, 0);
	a.most = 2;
	turn();
	CHECK(strncmp(a.text, "gap ", 4) == 0);
	CHECK(strstr(a.text, "\"from\":1,") != NULL);
	CHECK_EQ_INT(buf_len(&run.out[0]),
		     RUN_MARKS_MAX + 9); /* the answer is whole all the same */
	CHECK(!run.cut[0]);
	run_detach(&a.rd);
	done();
}

TEST(run_forgets_its_output_but_not_its_end)
{
	begin(100);
	run_output(&run, 2, 1, "secret", 6);
	run_end(&run, 3);
	run_forget(&run);
	follow(&a, 0);
	turn();
	CHECK(strncmp(a.text, "gap 2 ", 6) == 0 && strstr(a.text, "\nend 3 ") != NULL);
	CHECK(strstr(a.text, "secret") == NULL);
	check_answer("{\"status\":\"ok\",\"stdout\":\"\",\"stderr\":\"\","
		     "\"truncated\":{\"stdout\":true,\"stderr\":false}}");
	run_detach(&a.rd);
	done();
}

TEST(run_lets_go_of_what_was_heard)
{
	begin(10);
	follow(&a, 0);
	run_output(&run, 2, 1, "12345", 5);
	run_event(&run, 3, RUN_DISPLAY, "\"n\":1", 5);
	run_output(&run, 4, 2, "e", 1);
	run_output(&run, 5, 1, "6789\xc3", 5);
	turn();
	CHECK(run_is_crowded(&run));
	run_trim(&run, 0);
	CHECK_EQ_INT(buf_len(&run.out[0]), 10);
	run_trim(&run, 3);
	CHECK_EQ_INT(buf_len(&run.out[0]), 5);
	CHECK_EQ_INT(buf_len(&run.out[1]), 1);
	CHECK_EQ_INT(buf_len(&run.other), 0);
	CHECK(!run_is_crowded(&run));
	run_trim(&run, 5); /* all that there is, but for half a character */
	CHECK_EQ_INT(buf_len(&run.out[0]), 1);
	CHECK_EQ_INT(buf_len(&run.out[1]), 0);
	run_output(&run, 6, 1,
		   "\xa4"
		   "bc",
		   3);
	run_event(&run, 7, RUN_DISPLAY, "\"n\":2", 5);
	follow(&b, 0); /* too late */
	turn();
	CHECK(strstr(a.text, "\"data\":\"12345\"") != NULL);
	CHECK(strstr(a.text, "\"data\":\"6789\"") != NULL);
	CHECK(strstr(a.text, "\"data\":\"\xc3\xa4"
			     "bc\"") != NULL);
	CHECK(strstr(a.text, "gap") == NULL && strstr(a.text, "\"n\":2") != NULL);
	CHECK(strncmp(b.text, "gap 5 ", 6) == 0 &&
	      strstr(b.text, "\xc3\xa4"
			     "bc") != NULL &&
	      strstr(b.text, "\"n\":2") != NULL);
	check_answer("{\"status\":\"ok\",\"stdout\":\"\xc3\xa4"
		     "bc\",\"stderr\":\"\","
		     "\"truncated\":{\"stdout\":true,\"stderr\":true}}");
	CHECK(!run.cut[0] && !run.cut[1]);
	run_detach(&a.rd);
	run_detach(&b.rd);
	done();
}

TEST(run_lets_go_of_nothing_while_somebody_tells_from_it)
{
	begin(10);
	follow(&a, 0);
	run_output(&run, 2, 1, "12345", 5);
	turn();
	a.rd.inside = true;
	run_trim(&run, 2);
	CHECK_EQ_INT(buf_len(&run.out[0]), 5);
	a.rd.inside = false;
	run_trim(&run, 2);
	CHECK_EQ_INT(buf_len(&run.out[0]), 0);
	run_trim(&run, 99);
	run_detach(&a.rd);
	done();
}

TEST(run_asks_for_room_and_goes_on_without)
{
	static char big[1 << 16];

	begin(1 << 20);
	memset(big, 'x', sizeof(big));
	all.max = all.bytes + 1000;
	run_output(&run, 2, 1, big, sizeof(big));
	CHECK_EQ_INT(evicted, 1);
	CHECK(run.cut[0]);
	CHECK_EQ_INT(buf_len(&run.out[0]), 0);
	can_evict = true;
	run_output(&run, 3, 2, big, sizeof(big));
	CHECK(evicted == 1 && run.cut[1]); /* it was just looked for */
	run.cut[1] = false;
	loop.now_us += 1000000;
	run_output(&run, 4, 2, big, sizeof(big));
	CHECK(evicted > 1 && !run.cut[1]);
	CHECK_EQ_INT(buf_len(&run.out[1]), sizeof(big));
	CHECK(all.bytes >= sizeof(big) && all.bytes <= all.max && share.bytes == all.bytes);
	run_end(&run, 5);
	done();
}

/* Who makes room for a run must not take it from that run: what is being written lies there. */
static bool evict_none_of_its_own(void *arg)
{
	(void)arg;
	CHECK(all.writing == &run);
	return evict(NULL);
}

TEST(run_says_for_whom_room_is_made)
{
	static char big[100000];

	begin(1 << 20);
	all.evict = evict_none_of_its_own;
	all.max = all.bytes + 1000;
	can_evict = true;
	run_end(&run, 2);
	run_event(&run, 3, RUN_DISPLAY, "\"late\":true", 11);
	memset(big, 'x', sizeof(big));
	run_output(&run, 4, 1, big, sizeof(big));
	CHECK(evicted > 0 && all.writing == NULL);
	CHECK_EQ_INT(buf_len(&run.out[0]), sizeof(big));
	done();
}

/* A reader that ends everything as soon as it hears of anything. */
static void end_it(struct run_reader *rd)
{
	run_detach(rd);
	run_detach(&b.rd);
	run_done(&run, on_free, NULL);
}

TEST(run_may_end_while_it_tells)
{
	begin(100);
	follow(&b, 0);
	memset(&a, 0, sizeof(a));
	run_attach(&run, &a.rd, 0, end_it);
	run_output(&run, 2, 1, "x", 1);
	turn();
	CHECK_EQ_INT(freed, 1);
	CHECK_EQ_INT(b.calls, 0);
	CHECK_EQ_INT(all.bytes, 0);
	free(loop.heap);
	(void)close(loop.epoll_fd);
}

TEST(run_has_other_events)
{
	begin(100);
	follow(&a, 1);
	run_event(&run, 0, RUN_DISPLAY, "\"data\":{\"text/plain\":\"3\"}", 25);
	run_event(&run, 0, RUN_CLEAR, NULL, 0);
	turn();
	CHECK_STR(a.text, "display 2 {\"command\":\"x\",\"seq\":2,\"t_ms\":0,\"data\":"
			  "{\"text/plain\":\"3\"}}\n"
			  "clear 3 {\"command\":\"x\",\"seq\":3,\"t_ms\":0}\n");
	run_detach(&a.rd);
	done();
}

/* --- in pieces ------------------------------------------------------------------------------------------ */

static char noise[300000];

/* Characters of every length, bytes that are none, and such as JSON has six of. */
static void make_noise(unsigned int seed)
{
	static const char *const some[] = { "a",
					    "\"",
					    "\\",
					    "\n",
					    "\xc3\xa4",
					    "\xe2\x82\xac",
					    "\xf0\x9f\x98\x80",
					    "\xff",
					    "\xe2\x82",
					    "\xf0\x9f",
					    "\x7f",
					    "plain text" };
	size_t n = 0;

	while (n < sizeof(noise) - 16) {
		seed = seed * 1103515245u + 12345u;
		for (const char *s = some[(seed >> 16) % ARRAY_LEN(some)]; *s != '\0'; s++)
			noise[n++] = *s;
	}
	memset(noise + n, 0, sizeof(noise) - n);
}

/* All pieces of a text that is being told, joined; none is so long that others would notice. */
static char *join(struct run_pieces *p, size_t *ret_n)
{
	struct json all_of_it;
	bool more = true;

	json_init(&all_of_it);
	while (more) {
		size_t before = all_of_it.len;

		more = run_pieces_next(&run, p, &all_of_it);
		CHECK(all_of_it.len > before && all_of_it.len - before <= 6 * 16384);
		if (all_of_it.len < 600000 && before >= 500000)
			run_output(&run, 0, 1, noise, 1000); /* what comes late moves the log */
	}
	CHECK(!all_of_it.failed);
	run_pieces_done(p);
	*ret_n = all_of_it.len;
	return all_of_it.buf;
}

static void check_same(const struct json *want, struct run_pieces *p)
{
	size_t n;
	char *got = join(p, &n);

	CHECK(!want->failed);
	CHECK_EQ_INT(n, want->len);
	CHECK(memcmp(got, want->buf, n) == 0);
	free(got);
}

static void begin_noisy(bool base64)
{
	begin(1 << 20);
	run.base64 = base64;
	make_noise(base64);
	run_output(&run, 2, 1, noise, sizeof(noise));
	run_output(&run, 3, 2, noise + 1, sizeof(noise) - 1);
}

TEST(run_tells_a_long_answer_in_pieces_as_in_one)
{
	for (unsigned int base64 = 0; base64 < 2; base64++) {
		struct run_pieces p = { 0 };
		struct json want;

		begin_noisy(base64 != 0);
		CHECK(run_is_long(&run));
		json_init(&want);
		run_answer(&run, &want, RUN_OUTPUT);
		run.pieces = &p;
		run_answer(&run, &p.j, RUN_OUTPUT);
		run.pieces = NULL;
		CHECK_EQ_INT(p.nholes, 2);
		CHECK(p.j.len < 1000);
		check_same(&want, &p);
		json_done(&want);
		done();
	}
}

TEST(run_tells_a_long_event_in_pieces_as_in_one)
{
	static char members[200000] = "\"data\":\"";
	struct run_pieces p = { 0 };
	struct run_reader rd;
	struct run_told told, next;
	struct json want;

	begin_noisy(false);
	memset(members + 8, 'x', sizeof(members) - 8);
	members[sizeof(members) - 1] = '"';
	run_event(&run, 4, RUN_DISPLAY, members, sizeof(members));
	follow(&a, 0);
	rd = a.rd;
	for (unsigned int i = 1; i <= 4; i++) {
		uint64_t after = rd.after;

		CHECK(run_next(&rd, &next));
		json_init(&want);
		CHECK(run_read(&rd, &want, &told));
		CHECK(told.seq == next.seq && told.event == next.event && told.seq == i);
		rd.after = after;
		run.pieces = &p;
		CHECK(run_read(&rd, &p.j, &told));
		run.pieces = NULL;
		CHECK_EQ_INT(p.nholes, i > 1);
		check_same(&want, &p);
		json_done(&want);
	}
	run_detach(&a.rd);
	done();
}

TEST(run_that_is_short_is_told_in_one_piece)
{
	begin(1 << 20);
	make_noise(1);
	run_output(&run, 2, 1, noise, 1000);
	CHECK(!run_is_long(&run));
	run_event(&run, 3, RUN_DISPLAY, noise, 130 * 1024);
	CHECK(run_is_long(&run));
	done();
}

/* --- who has much to do ------------------------------------------------------------------------------------- */

static struct timer busy;
static struct watch heard;
static unsigned int times_busy, times_heard;

static void on_busy(void *arg)
{
	times_busy++;
	CHECK(times_heard >= times_busy); /* somebody was, in between */
	if (times_busy < 5)
		CHECK_EQ_INT(timer_soon(&loop, &busy, on_busy, arg), 0);
	else
		loop.stop = true;
}

static void on_heard(void *arg, uint32_t events)
{
	(void)arg;
	CHECK(events & EPOLLIN);
	times_heard++;
}

TEST(loop_hears_others_before_it_goes_on)
{
	int fds[2];

	memset(&loop, 0, sizeof(loop));
	times_busy = times_heard = 0;
	CHECK_EQ_INT(loop_init(&loop), 0);
	CHECK_EQ_INT(pipe(fds), 0);
	CHECK_EQ_INT(write(fds[1], "x", 1), 1); /* and nobody reads it: it is heard in every turn */
	CHECK_EQ_INT(loop_watch(&loop, &heard, fds[0], EPOLLIN, on_heard, NULL), 0);
	CHECK_EQ_INT(timer_soon(&loop, &busy, on_busy, NULL), 0);
	loop_run(&loop);
	CHECK_EQ_INT(times_busy, 5);
	(void)close(fds[0]);
	(void)close(fds[1]);
	(void)close(loop.epoll_fd);
	free(loop.heap);
}
