/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/netlink.h"

#include "test.h"

#include "base/own.h"

#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct nl nl;

/* Not a socket: what is written is looked at, and not sent. */
static void start(void)
{
	memset(&nl, 0xee, sizeof(nl));
	nl = (struct nl){ .fd = -1 };
}

static struct nlmsghdr message(size_t at)
{
	struct nlmsghdr h;

	memcpy(&h, nl.buf + at, sizeof(h));
	return h;
}

TEST(netlink_writes_what_the_kernel_reads)
{
	static const uint8_t attributes[] = {
		5,  0, 1, 0,    7,   0,   0, 0,             /* u8, padded */
		7,  0, 2, 0,    'h', 'i', 0, 0,             /* a string with its end */
		24, 0, 3, 0x80,                             /* nested: two more, and one in one */
		8,  0, 4, 0,    1,   2,   3, 4,             /* be32 */
		12, 0, 5, 0x80, 6,   0,   6, 0, 1, 2, 0, 0, /* be16 */
	};
	const uint32_t header = 0x01010101;
	size_t outer, inner;

	start();
	nl_begin(&nl, 77, NLM_F_ACK, &header, sizeof(header));
	nl_u8(&nl, 1, 7);
	nl_str(&nl, 2, "hi");
	outer = nl_nest(&nl, 3);
	nl_be32(&nl, 4, 0x01020304);
	inner = nl_nest(&nl, 5);
	nl_be16(&nl, 6, 0x0102);
	nl_nest_end(&nl, inner);
	nl_nest_end(&nl, outer);
	CHECK_EQ_INT(nl.len, 16 + 4 + sizeof(attributes));
	CHECK_EQ_INT(message(0).nlmsg_len, nl.len);
	CHECK_EQ_INT(message(0).nlmsg_type, 77);
	CHECK_EQ_INT(message(0).nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
	CHECK_EQ_INT(message(0).nlmsg_seq, 1);
	CHECK_MEM(nl.buf + 16, &header, 4);
	CHECK_MEM(nl.buf + 20, attributes, sizeof(attributes));
	CHECK_EQ_INT(nl.nacks, 1);
}

TEST(netlink_measures_each_message_by_itself)
{
	const uint32_t header = 0;
	size_t first;

	start();
	nl_begin(&nl, 1, 0, &header, sizeof(header));
	nl_u32(&nl, 1, 1);
	first = nl.len;
	nl_begin(&nl, 2, NLM_F_ACK, &header, 3);
	nl_put(&nl, 1, NULL, 0);
	CHECK_EQ_INT(message(0).nlmsg_len, first);
	CHECK_EQ_INT(message(first).nlmsg_len, 16 + 4 + 4);
	CHECK_EQ_INT(message(first).nlmsg_seq, 2);
	CHECK_EQ_INT(nl.nmessages, 2);
	CHECK_EQ_INT(nl.nacks, 1);
}

/* Up to the last byte, and not one more; what did not fit changes nothing of what did. */
TEST(netlink_has_a_bound)
{
	static const uint8_t zeros[NL_BYTES_MAX];
	const uint32_t header = 0;
	size_t left = NL_BYTES_MAX - 20 - 4;

	start();
	nl_begin(&nl, 1, NLM_F_ACK, &header, sizeof(header));
	nl_put(&nl, 1, zeros, left);
	CHECK(!nl.full);
	CHECK_EQ_INT(nl.len, NL_BYTES_MAX);
	nl_put(&nl, 2, NULL, 0);
	CHECK(nl.full);
	CHECK_EQ_INT(message(0).nlmsg_len, NL_BYTES_MAX);
	CHECK_EQ_INT(nl_send(&nl, 0), -EMSGSIZE);

	nl_begin(&nl, 1, NLM_F_ACK, &header, sizeof(header));
	nl_put(&nl, 1, zeros, left + 1);
	nl_nest_end(&nl, nl_nest(&nl, 2));
	CHECK_EQ_INT(nl_send(&nl, 0), -EMSGSIZE);
	nl_begin(&nl, 1, NLM_F_ACK, &header, sizeof(header));
	nl_put(&nl, 1, zeros, SIZE_MAX - 4);
	CHECK_EQ_INT(nl_send(&nl, 0), -EMSGSIZE);
	CHECK_EQ_INT(nl.len, 0);
	CHECK_EQ_INT(nl_send(&nl, 0), 0); /* nothing to send needs no socket */
}

TEST(netlink_bounds_the_answers_too)
{
	const uint32_t header = 0;

	start();
	for (unsigned int i = 0; i < NL_MESSAGES_MAX; i++)
		nl_begin(&nl, 1, NLM_F_ACK, &header, sizeof(header));
	CHECK(!nl.full);
	nl_begin(&nl, 1, NLM_F_ACK, &header, sizeof(header));
	CHECK_EQ_INT(nl_send(&nl, 0), -EMSGSIZE);
}

/* A question that changes nothing, and that anybody may ask: is there an interface of this index? */
static void ask(int index)
{
	struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = index };

	nl_begin(&nl, RTM_GETLINK, NLM_F_ACK, &header, sizeof(header));
}

TEST(netlink_tells_the_first_failure)
{
	CHECK_EQ_INT(nl_open(&nl, NETLINK_ROUTE), 0);
	ask(1);
	CHECK_EQ_INT(nl_send(&nl, 0), 0);
	for (unsigned int i = 0; i < NL_MESSAGES_MAX; i++)
		ask(i == 40 ? 0x7ffffff0 : 1);
	CHECK_EQ_INT(nl_send(&nl, 0), -ENODEV);

	/* Tolerated, it is none, but another one is. */
	ask(0x7ffffff0);
	CHECK_EQ_INT(nl_send(&nl, ENODEV), 0);
	ask(0x7ffffff0);
	ask(0);
	ask(0x7ffffff0);
	CHECK_EQ_INT(nl_send(&nl, ENODEV), -EINVAL);

	/* What was answered before does not count for what is asked now. */
	ask(1);
	CHECK_EQ_INT(nl_send(&nl, 0), 0);
	nl_close(&nl);
	CHECK_EQ_INT(nl.fd, -1);
}

/* Nobody listens for this: no answer is a failure, and not a success that nobody heard of. */
TEST(netlink_misses_an_answer)
{
	const uint32_t header = 0;

	CHECK_EQ_INT(nl_open(&nl, NETLINK_USERSOCK), 0);
	nl_begin(&nl, 1, NLM_F_ACK, &header, sizeof(header));
	CHECK(nl_send(&nl, 0) < 0);
	nl_close(&nl);
}
