/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/toolmsg.c: messages between gate and tools process, and their stream. */
#include "wire/toolmsg.h"

#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_help.h"

static void put_header(uint8_t *buf, uint16_t type, uint16_t zero, uint64_t id, uint32_t len)
{
	struct msg_out m;

	msg_out_init(&m, buf, TOOLMSG_HEADER);
	msg_put_u32(&m, len);
	msg_put_u16(&m, type);
	msg_put_u16(&m, zero);
	msg_put_u64(&m, id);
}

TEST(toolmsg_rows_keep_to_their_bounds)
{
	uint8_t buf[TOOLMSG_HEADER];

	for (unsigned int type = 1; type < TOOLMSG_TYPE_MAX; type++) {
		const struct toolmsg_row *row = toolmsg_row(type);
		const size_t lengths[] = { row->min, row->max, row->min - 1, row->max + 1 };

		for (unsigned int i = 0; i < 4; i++)
			for (unsigned int dir = TO_TOOLS; dir <= FROM_TOOLS; dir <<= 1) {
				size_t n = lengths[i];
				bool good = n >= row->min && n <= row->max && (row->dir & dir) != 0;
				struct toolmsg m;

				put_header(buf, (uint16_t)type, 0, 7, (uint32_t)n);
				CHECK_EQ_INT(toolmsg_parse(buf, sizeof(buf), dir, &m),
					     !good    ? -EPROTO
					     : n == 0 ? TOOLMSG_HEADER
						      : 0);
			}
	}
}

TEST(toolmsg_refuses_what_is_none)
{
	static const unsigned int types[] = { TOOLMSG_NONE, TOOLMSG_TYPE_MAX,
					      0x100 + TOOLMSG_CANCEL, 65535 };
	uint8_t buf[TOOLMSG_HEADER];
	struct toolmsg m;

	for (unsigned int i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		put_header(buf, (uint16_t)types[i], 0, 0, 0);
		CHECK_EQ_INT(toolmsg_parse(buf, sizeof(buf), TO_TOOLS | FROM_TOOLS, &m), -EPROTO);
	}
	put_header(buf, TOOLMSG_CANCEL, 1, 0, 0);
	CHECK_EQ_INT(toolmsg_parse(buf, sizeof(buf), TO_TOOLS, &m), -EPROTO);
	put_header(buf, TOOLMSG_CANCEL, 0, 0, 0);
	for (size_t n = 0; n < sizeof(buf); n++)
		CHECK_EQ_INT(toolmsg_parse(buf, n, TO_TOOLS, &m), 0);
	CHECK_EQ_INT(toolmsg_parse(buf, sizeof(buf), TO_TOOLS, &m), TOOLMSG_HEADER);
	CHECK(m.type == TOOLMSG_CANCEL && m.len == 0 && m.fd == -1);
}

static void open_pair(struct toolmsg_stream s[2])
{
	int fds[2];

	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	toolmsg_open(&s[0], fds[0]);
	toolmsg_open(&s[1], fds[1]);
}

/* Until the other side has nothing more to take. */
static int next(struct toolmsg_stream *from, struct toolmsg_stream *to, unsigned int dir,
		struct toolmsg *m)
{
	for (unsigned int i = 0; i < 100000; i++) {
		int r = toolmsg_next(to, dir, m);

		if (r != 0)
			return r;
		CHECK_EQ_INT(toolmsg_flush(from), 0);
		r = toolmsg_fill(to);
		if (r < 0 || (r == 0 && toolmsg_queued(from) == 0))
			return r;
	}
	return 0;
}

TEST(toolmsg_streams_carry_large_messages_in_their_order)
{
	enum { LARGE = 11 * 1024 * 1024 };
	struct toolmsg_stream s[2];
	char *large = malloc(LARGE);
	struct toolmsg m;

	CHECK(large != NULL);
	memset(large, 'x', LARGE);
	open_pair(s);
	for (uint64_t id = 1; id <= 4; id++)
		CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_CALL, id, "0123456789012345678901234567890",
					 31, large, id * LARGE / 4, -1),
			     0);
	for (uint64_t id = 1; id <= 4; id++) {
		CHECK_EQ_INT(next(&s[0], &s[1], TO_TOOLS, &m), 1);
		CHECK(m.type == TOOLMSG_CALL && m.id == id && m.len == 31 + id * LARGE / 4);
		CHECK(memcmp(m.body, "0123456789012345678901234567890xxxx", 35) == 0);
	}
	CHECK_EQ_INT(next(&s[0], &s[1], TO_TOOLS, &m), 0);
	CHECK(s[0].out_cap <= 1024 * 1024 && s[1].in_cap <= 1024 * 1024);
	toolmsg_close(&s[0]);
	CHECK_EQ_INT(toolmsg_fill(&s[1]), -EPIPE);
	toolmsg_close(&s[1]);
	free(large);
}

TEST(toolmsg_queues_are_bounded)
{
	enum { PIECE = 8 * 1024 * 1024 };
	struct toolmsg_stream s[2];
	char *piece = calloc(1, PIECE);
	unsigned int n = 0;

	CHECK(piece != NULL);
	open_pair(s);
	while (toolmsg_put(&s[0], TOOLMSG_CALL, n, piece, PIECE, NULL, 0, -1) == 0)
		n++;
	CHECK(n > 0 && (size_t)n * PIECE <= TOOLMSG_QUEUE);
	CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_CALL, n, piece, PIECE, NULL, 0, -1), -ENOBUFS);
	CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_CALL, 0, piece, 1, NULL, 0, -1), -EMSGSIZE);
	CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_BOX, 0, NULL, 0, NULL, 0, -1), -EMSGSIZE);
	toolmsg_close(&s[0]);
	CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_CANCEL, 0, NULL, 0, NULL, 0, -1), -EPIPE);
	toolmsg_close(&s[1]);
	free(piece);
}

/* Each with its own message, however much stands before it; none is left open. */
TEST(toolmsg_descriptors_come_with_their_message)
{
	static char before[300000];
	struct toolmsg_stream s[2];
	struct toolmsg m;
	int lowest = dup(0);

	(void)close(lowest);
	open_pair(s);
	for (uint64_t id = 1; id <= 5; id++) {
		int pair[2];

		CHECK_EQ_INT(pipe2(pair, O_CLOEXEC), 0);
		CHECK(write(pair[1], &id, sizeof(id)) == sizeof(id));
		(void)close(pair[1]);
		CHECK_EQ_INT(
			toolmsg_put(&s[0], TOOLMSG_CALL, id, before, sizeof(before), NULL, 0, -1),
			0);
		CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_BOX, id, NULL, 0, NULL, 0, pair[0]), 0);
	}
	for (uint64_t id = 1; id <= 5; id++) {
		uint64_t got = 0;

		CHECK_EQ_INT(next(&s[0], &s[1], TO_TOOLS, &m), 1);
		CHECK(m.type == TOOLMSG_CALL && m.fd == -1);
		CHECK_EQ_INT(next(&s[0], &s[1], TO_TOOLS, &m), 1);
		CHECK(m.type == TOOLMSG_BOX && m.id == id && m.fd >= 0);
		CHECK(read(m.fd, &got, sizeof(got)) == sizeof(got) && got == id);
		(void)close(m.fd);
	}
	/* One that is never asked for goes with the stream. */
	CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_BOX, 9, NULL, 0, NULL, 0, dup(0)), 0);
	CHECK_EQ_INT(toolmsg_flush(&s[0]), 0);
	CHECK_EQ_INT(toolmsg_fill(&s[1]), 1);
	CHECK_EQ_INT(toolmsg_put(&s[0], TOOLMSG_BOX, 9, NULL, 0, NULL, 0, dup(0)), 0);
	toolmsg_close(&s[0]);
	toolmsg_close(&s[1]);
	CHECK_EQ_INT(dup(0), lowest);
	(void)close(lowest);
}

TEST(toolmsg_a_message_without_its_descriptor_is_none)
{
	uint8_t buf[TOOLMSG_HEADER];
	struct toolmsg_stream s[2];
	struct toolmsg m;

	open_pair(s);
	put_header(buf, TOOLMSG_BOX, 0, 1, 0);
	CHECK(write(s[0].fd, buf, sizeof(buf)) == sizeof(buf));
	CHECK_EQ_INT(toolmsg_fill(&s[1]), 1);
	CHECK_EQ_INT(toolmsg_next(&s[1], TO_TOOLS, &m), -EPROTO);
	toolmsg_close(&s[0]);
	toolmsg_close(&s[1]);
}
