/* SPDX-License-Identifier: Apache-2.0 */
/* src/box/ring.c: a job's frames, kept until they are acknowledged. */
#include "box/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/frame.h"

#include "test_help.h"

enum { ID = 77 };

/* All bytes that are still to be sent, as one run; how many. */
static size_t unsent(const struct ring *r, uint8_t *buf)
{
	struct iovec iov[2];
	int n = ring_unsent(r, r->head, iov);
	size_t len = 0;

	CHECK(n >= 0 && n <= 2);
	for (int i = 0; i < n; i++) {
		CHECK(iov[i].iov_len > 0);
		CHECK((uint8_t *)iov[i].iov_base >= r->buf);
		CHECK((uint8_t *)iov[i].iov_base + iov[i].iov_len <= r->buf + r->size);
		memcpy(buf + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	CHECK_EQ_INT(len, r->head - r->sent);
	return len;
}

/* Bytes from a program through a pipe into the ring. */
static ssize_t read_bytes(struct ring *r, const void *p, size_t n, size_t max)
{
	int fds[2];
	ssize_t got;

	CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
	CHECK(n <= 65536);
	CHECK_EQ_INT(write(fds[1], p, n), n);
	got = ring_read_from(r, fds[0], FRAME_OUTPUT, 1, ID, max);
	(void)close(fds[0]);
	(void)close(fds[1]);
	return got;
}

static void fill(struct ring *r)
{
	static const uint8_t zero[RING_READ_MAX];

	while (ring_has_room(r))
		CHECK(read_bytes(r, zero, sizeof(zero), sizeof(zero)) > 0);
}

TEST(ring_starts_empty_and_numbers_from_one)
{
	static uint8_t buf[RING_BYTES];
	struct ring r;
	struct frame f;

	CHECK_EQ_INT(ring_init(&r), 0);
	CHECK(ring_has_room(&r));
	CHECK_EQ_INT(unsent(&r, buf), 0);
	ring_ack(&r, UINT64_MAX);
	ring_rewind(&r);
	CHECK_EQ_INT(unsent(&r, buf), 0);
	CHECK_EQ_INT(ring_put(&r, FRAME_STARTED, 0, ID, "pid!", 4), 0);
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 2, ID, "x", 1), 0);
	CHECK_EQ_INT(unsent(&r, buf), 2 * FRAME_HEADER + 5);
	CHECK_EQ_INT(frame_parse(buf, FRAME_HEADER + 4, FRAME_FROM_BOX, &f), FRAME_HEADER + 4);
	CHECK(f.type == FRAME_STARTED && f.id == ID && f.number == 1 && f.flags == 0);
	CHECK_MEM(f.payload, "pid!", 4);
	CHECK_EQ_INT(frame_parse(buf + FRAME_HEADER + 4, FRAME_HEADER + 1, FRAME_FROM_BOX, &f),
		     FRAME_HEADER + 1);
	CHECK(f.type == FRAME_OUTPUT && f.number == 2 && f.flags == 2 && f.payload[0] == 'x');
	ring_done(&r);
	ring_done(&r);
}

TEST(ring_reads_what_there_is)
{
	static uint8_t data[RING_READ_MAX], buf[RING_BYTES];
	uint64_t seed = 9;
	struct ring r;
	struct frame f;
	int fds[2];

	rnd_fill(&seed, data, sizeof(data));
	CHECK_EQ_INT(ring_init(&r), 0);
	CHECK_EQ_INT(read_bytes(&r, data, 10, RING_READ_MAX), 10);
	CHECK_EQ_INT(read_bytes(&r, data, 10, 3), 3); /* no more than asked for */
	CHECK_EQ_INT(read_bytes(&r, data, sizeof(data), SIZE_MAX), RING_READ_MAX);
	CHECK_EQ_INT(read_bytes(&r, data, 0, RING_READ_MAX), -EAGAIN);
	CHECK_EQ_INT(unsent(&r, buf), 3 * FRAME_HEADER + 13 + RING_READ_MAX);
	CHECK(frame_parse(buf, RING_BYTES, FRAME_FROM_BOX, &f) > 0);
	CHECK(f.number == 1 && f.len == 10 && memcmp(f.payload, data, 10) == 0);
	CHECK(frame_parse(buf + 37 + 24, RING_BYTES - 61, FRAME_FROM_BOX, &f) > 0);
	CHECK(f.number == 3 && f.len == RING_READ_MAX);
	CHECK_MEM(f.payload, data, RING_READ_MAX);

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	(void)close(fds[1]);
	CHECK_EQ_INT(ring_read_from(&r, fds[0], FRAME_OUTPUT, 1, ID, 100), 0);
	(void)close(fds[0]);
	CHECK_EQ_INT(ring_read_from(&r, -1, FRAME_OUTPUT, 1, ID, 100), -EBADF);
	CHECK_EQ_INT(r.next_number, 4); /* neither the end nor an error makes a frame */
	CHECK_EQ_INT(r.head, 3 * FRAME_HEADER + 13 + RING_READ_MAX);
	ring_done(&r);
}

TEST(ring_put_fits_or_fails)
{
	static const uint8_t zero[RING_BYTES];
	struct ring r, before;

	CHECK_EQ_INT(ring_init(&r), 0);
	before = r;
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, zero, RING_BYTES - FRAME_HEADER + 1),
		     -ENOBUFS);
	CHECK_MEM(&r, &before, sizeof(r));
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, zero, RING_BYTES - FRAME_HEADER), 0);
	CHECK_EQ_INT(r.head - r.tail, RING_BYTES);
	before = r;
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, zero, 0), -ENOBUFS);
	CHECK_MEM(&r, &before, sizeof(r));
	CHECK(!ring_has_room(&r));
	ring_done(&r);
}

/* However the program's bytes fall, EXIT finds its place. */
TEST(ring_keeps_its_reserve_for_the_exit)
{
	static const uint8_t exit_body[512], data[RING_READ_MAX];
	uint64_t seed = 10;

	CHECK(FRAME_HEADER + frame_row(FRAME_EXIT)->max <= RING_RESERVE);
	for (int round = 0; round < 300; round++) {
		struct ring r;

		CHECK_EQ_INT(ring_init(&r), 0);
		/* Start anywhere: the reserve may lie across the seam. */
		r.head = r.sent = r.tail = rnd_below(&seed, RING_BYTES);
		while (ring_has_room(&r)) {
			size_t n = round < 10 ? RING_READ_MAX : 1 + rnd_below(&seed, 20000);

			CHECK(read_bytes(&r, data, n, SIZE_MAX) > 0);
			CHECK(RING_BYTES - (r.head - r.tail) >= RING_RESERVE);
		}
		CHECK_EQ_INT(ring_put(&r, FRAME_EXIT, 0, ID, exit_body, sizeof(exit_body)), 0);
		ring_done(&r);
	}
}

/* ring_has_room() is what callers ask first, but the frames that are kept must not depend on it. */
TEST(ring_read_into_a_full_ring_damages_nothing)
{
	static uint8_t before[RING_BYTES], after[RING_BYTES];
	uint8_t junk[4096];
	struct ring r;
	size_t n;

	memset(junk, 'j', sizeof(junk));
	CHECK_EQ_INT(ring_init(&r), 0);
	fill(&r);
	CHECK_EQ_INT(ring_put(&r, FRAME_EXIT, 0, ID, before, 512), 0);
	n = unsent(&r, before);
	(void)read_bytes(&r, junk, sizeof(junk), sizeof(junk));
	CHECK(r.head - r.tail <= RING_BYTES);
	CHECK(unsent(&r, after) >= n);
	CHECK_MEM(after, before, n);
	ring_done(&r);
}

TEST(ring_ack_drops_only_what_was_sent)
{
	struct ring r;

	CHECK_EQ_INT(ring_init(&r), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, "abc", 3), 0);
	ring_ack(&r, 4); /* nothing has been sent: a lie, or an old gate's word */
	CHECK_EQ_INT(r.tail, 0);
	r.sent += 27 + 27 + 26; /* two frames and all but the last byte of the third */
	ring_ack(&r, 0);
	CHECK_EQ_INT(r.tail, 0);
	ring_ack(&r, 1);
	CHECK_EQ_INT(r.tail, 27);
	ring_ack(&r, 1);
	CHECK_EQ_INT(r.tail, 27);
	ring_ack(&r, UINT64_MAX);
	CHECK_EQ_INT(r.tail, 2 * 27);
	r.sent++;
	ring_ack(&r, 2);
	CHECK_EQ_INT(r.tail, 2 * 27);
	ring_ack(&r, 3);
	CHECK_EQ_INT(r.tail, 3 * 27);
	r.sent = r.head;
	ring_ack(&r, 4);
	CHECK_EQ_INT(r.tail, r.head);
	ring_ack(&r, UINT64_MAX);
	CHECK_EQ_INT(r.tail, r.head);
	ring_done(&r);
}

/* The gate goes away in the middle of a frame: the next one gets the same bytes from a frame boundary on. */
TEST(ring_sends_the_same_bytes_to_the_next_gate)
{
	static uint8_t first[RING_BYTES], second[RING_BYTES];
	uint64_t seed = 11;
	struct ring r;

	CHECK_EQ_INT(ring_init(&r), 0);
	r.head = r.sent = r.tail = RING_BYTES - 1000; /* so that it wraps */
	for (int i = 0; i < 20; i++) {
		uint8_t data[500];

		rnd_fill(&seed, data, sizeof(data));
		CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, data, sizeof(data)), 0);
	}
	CHECK_EQ_INT(unsent(&r, first), 20 * 524);
	r.sent += 5 * 524 + 100;
	ring_ack(&r, 3);
	ring_rewind(&r);
	CHECK_EQ_INT(unsent(&r, second), 17 * 524);
	CHECK_MEM(second, first + 3 * 524, 17 * 524);
	/* The new gate knows more than the old one said; it is believed when the bytes went out again. */
	ring_ack(&r, 5);
	CHECK_EQ_INT(unsent(&r, second), 17 * 524);
	r.sent += 2 * 524;
	ring_ack(&r, 5);
	ring_rewind(&r);
	CHECK_EQ_INT(unsent(&r, second), 15 * 524);
	CHECK_MEM(second, first + 5 * 524, 15 * 524);
	ring_done(&r);
}

TEST(ring_pauses_between_frames)
{
	static const uint8_t zero[1000];
	struct ring r;
	uint64_t size = FRAME_HEADER + sizeof(zero);

	CHECK_EQ_INT(ring_init(&r), 0);
	CHECK_EQ_INT(ring_pause(&r, 4096), 0);
	for (int round = 0; round < 3; round++) { /* the third goes round the end of the buffer */
		for (int i = 0; i < 100; i++)
			CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, zero, sizeof(zero)), 0);
		CHECK_EQ_INT(ring_pause(&r, 1), r.sent + size);
		CHECK_EQ_INT(ring_pause(&r, size), r.sent + size);
		CHECK_EQ_INT(ring_pause(&r, size + 1), r.sent + 2 * size);
		CHECK_EQ_INT(ring_pause(&r, 1u << 20), r.head);
		while (r.sent < r.head)
			r.sent = ring_pause(&r, 5000);
		CHECK_EQ_INT(r.sent, r.head);
		ring_ack(&r, r.next_number - 1 - 10); /* not empty: it does not begin anew */
	}
	ring_done(&r);
}

TEST(ring_unsent_stops_at_the_end_that_is_asked_for)
{
	struct iovec iov[2];
	struct ring r;
	uint64_t end;

	CHECK_EQ_INT(ring_init(&r), 0);
	r.head = r.sent = r.tail = RING_BYTES - 30;
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, "abc", 3), 0);
	end = r.head;
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, "defg", 4), 0);
	CHECK_EQ_INT(ring_unsent(&r, end, iov), 1);
	CHECK_EQ_INT(iov[0].iov_len, 27);
	CHECK_EQ_INT(ring_unsent(&r, r.head, iov), 2);
	CHECK_EQ_INT(iov[0].iov_len, 30);
	CHECK_EQ_INT(iov[1].iov_len, 25);
	r.sent = end;
	CHECK_EQ_INT(ring_unsent(&r, end, iov), 0);
	ring_done(&r);
}

/* --- against a model: every byte that was ever put, in a row ----------------------------------------------- */

enum { MODEL_BYTES = 8 << 20, MODEL_FRAMES = 200000 };

struct model {
	uint8_t *bytes;
	uint64_t *ends; /* where frame number i + 1 ends */
	uint64_t nframes, head, sent, tail;
};

static void model_add(struct model *m, uint16_t type, uint16_t flags, const void *p, size_t n)
{
	frame_put_header(m->bytes + m->head, type, flags, ID, m->nframes + 1, n);
	memcpy(m->bytes + m->head + FRAME_HEADER, p, n);
	m->head += FRAME_HEADER + n;
	m->ends[m->nframes++] = m->head;
}

static void model_ack(struct model *m, uint64_t number)
{
	for (uint64_t i = 0; i < m->nframes && i < number; i++)
		if (m->ends[i] > m->tail && m->ends[i] <= m->sent)
			m->tail = m->ends[i];
}

static void compare(const struct ring *r, const struct model *m, uint64_t shift)
{
	static uint8_t buf[MODEL_BYTES];
	size_t n;

	CHECK(r->head - shift == m->head && r->sent - shift == m->sent);
	CHECK(r->tail - shift == m->tail);
	CHECK(r->tail <= r->sent && r->sent <= r->head && r->head - r->tail <= r->limit);
	CHECK(r->next_number == m->nframes + 1);
	n = unsent(r, buf);
	if (memcmp(buf, m->bytes + m->sent, n) != 0)
		CHECK_MEM(buf, m->bytes + m->sent, n);
}

static void random_step(struct ring *r, struct model *m, uint64_t *seed)
{
	static uint8_t data[RING_READ_MAX];
	size_t n = rnd_below(seed, rnd_below(seed, 8) == 0 ? 60000 : 600);
	uint64_t room = r->limit - (m->head - m->tail);

	switch (rnd_below(seed, 8)) {
	case 0:
	case 1:
		rnd_fill(seed, data, n);
		CHECK_EQ_INT(ring_put(r, FRAME_OUTPUT, 1, ID, data, n),
			     room < FRAME_HEADER + n ? -ENOBUFS : 0);
		if (room >= FRAME_HEADER + n)
			model_add(m, FRAME_OUTPUT, 1, data, n);
		break;
	case 2:
	case 3:
		n++;
		if (!ring_has_room(r))
			break;
		rnd_fill(seed, data, n);
		{
			ssize_t got = read_bytes(r, data, n, SIZE_MAX);

			CHECK(got > 0 && (size_t)got <= n);
			/* It reads less than there is only when the reserve is what is left. */
			CHECK((size_t)got == n ||
			      room - FRAME_HEADER - (size_t)got == RING_RESERVE);
			model_add(m, FRAME_OUTPUT, 1, data, (size_t)got);
		}
		break;
	case 4:
	case 5: /* the socket takes some, anywhere in a frame */
		n = rnd_below(seed, m->head - m->sent + 1);
		r->sent += n;
		m->sent += n;
		break;
	case 6:
		n = rnd_below(seed, m->nframes + 3);
		ring_ack(r, n);
		model_ack(m, n);
		break;
	default:
		if (rnd_below(seed, 4) == 0) {
			ring_rewind(r);
			m->sent = m->tail;
		} else {
			r->sent = r->head;
			m->sent = m->head;
		}
	}
}

static struct model model_new(void)
{
	struct model m = { .bytes = malloc(MODEL_BYTES),
			   .ends = malloc(MODEL_FRAMES * sizeof(*m.ends)) };

	CHECK(m.bytes != NULL && m.ends != NULL);
	return m;
}

/* From shift on, until the model is full. */
static void compare_all_along(struct ring *r, struct model *m, uint64_t shift, uint64_t *seed)
{
	r->head = r->sent = r->tail = shift;
	m->nframes = m->head = m->sent = m->tail = 0;
	while (m->head + RING_READ_MAX + FRAME_HEADER < MODEL_BYTES && m->nframes < MODEL_FRAMES) {
		random_step(r, m, seed);
		compare(r, m, shift);
	}
}

TEST(ring_behaves_like_its_model)
{
	struct model m = model_new();
	uint64_t seed = 12;

	for (int round = 0; round < 6; round++) {
		/* Running counts far from 0 as well: a job may print for years. */
		uint64_t shift = round % 2 == 0 ? 0 : ((uint64_t)RING_BYTES << 40) + RING_BYTES / 3;
		struct ring r;

		CHECK_EQ_INT(ring_init(&r), 0);
		compare_all_along(&r, &m, shift, &seed);
		CHECK(m.head > 20ull * RING_BYTES);
		ring_done(&r);
	}
	free(m.bytes);
	free(m.ends);
}

/* --- large rings -------------------------------------------------------------------------------------------- */

/* How many bytes of it are in memory. */
static size_t resident(const struct ring *r)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = r->size / page, n = 0;
	unsigned char *in = malloc(pages);

	CHECK(in != NULL && mincore(r->buf, r->size, in) == 0);
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	free(in);
	return n * page;
}

/* Small enough to go round many times within the model, and still one that gives pages back. */
TEST(ring_that_gives_pages_back_behaves_like_its_model)
{
	enum { SIZE = RING_BYTES + 4 * RING_GIVE_BYTES };
	struct model m = model_new();
	uint64_t seed = 13;

	for (int round = 0; round < 6; round++) {
		struct ring r;

		CHECK_EQ_INT(ring_init_large(&r), 0);
		CHECK_EQ_INT(r.size, RING_LARGE_BYTES);
		CHECK(munmap(r.buf + SIZE, r.size - SIZE) == 0);
		r.size = SIZE;
		ring_limit(&r, UINT64_MAX);
		CHECK_EQ_INT(r.limit, SIZE - RING_GIVE_BYTES);
		if (round % 2 == 0)
			r.base = r.given = ((uint64_t)SIZE << 40) + SIZE / 3;
		compare_all_along(&r, &m, r.base, &seed);
		ring_done(&r);
	}
	free(m.bytes);
	free(m.ends);
}

TEST(ring_limit_is_within_its_size)
{
	struct ring r;

	CHECK_EQ_INT(ring_init(&r), 0);
	ring_limit(&r, UINT64_MAX);
	CHECK_EQ_INT(r.limit, RING_BYTES);
	ring_done(&r);
	CHECK_EQ_INT(ring_init_large(&r), 0);
	CHECK_EQ_INT(r.limit, RING_BYTES);
	ring_limit(&r, 0);
	CHECK_EQ_INT(r.limit, RING_BYTES);
	ring_limit(&r, 40 << 20);
	CHECK_EQ_INT(r.limit, 40 << 20);
	ring_limit(&r, UINT64_MAX);
	CHECK_EQ_INT(r.limit, RING_LARGE_BYTES - RING_GIVE_BYTES);
	fill(&r);
	CHECK(r.head - r.tail > RING_LARGE_BYTES - RING_GIVE_BYTES - RING_READ_MAX);
	ring_limit(&r, 0); /* less than there is: nothing more, and nothing is lost */
	CHECK(!ring_has_room(&r) && !ring_fits(&r, 0));
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, "x", 1), -ENOBUFS);
	ring_done(&r);
}

/* What is acknowledged is memory no more, whether or not the ring ever gets empty. */
TEST(ring_gives_memory_back)
{
	static const uint8_t zero[RING_READ_MAX];
	struct ring r;

	CHECK_EQ_INT(ring_init_large(&r), 0);
	ring_limit(&r, 32 << 20);
	fill(&r);
	CHECK(resident(&r) > (31 << 20));
	r.sent = r.head;
	ring_ack(&r, r.next_number - 2);
	CHECK(r.tail < r.head);
	CHECK(resident(&r) <= 3 * RING_GIVE_BYTES);
	for (int i = 0; i < 1000; i++) {
		CHECK(read_bytes(&r, zero, sizeof(zero), sizeof(zero)) > 0);
		r.sent = r.head;
		ring_ack(&r, r.next_number - 2);
	}
	CHECK(r.tail < r.head && resident(&r) <= 4 * RING_GIVE_BYTES);
	fill(&r);
	r.sent = r.head;
	ring_ack(&r, r.next_number);
	CHECK(resident(&r) == 0);
	CHECK_EQ_INT(ring_put(&r, FRAME_OUTPUT, 1, ID, "x", 1), 0);
	r.sent = r.head;
	ring_rest(&r); /* not empty */
	CHECK(resident(&r) > 0);
	ring_ack(&r, r.next_number);
	CHECK(resident(&r) > 0);
	ring_rest(&r);
	CHECK(resident(&r) == 0);
	ring_done(&r);
}
