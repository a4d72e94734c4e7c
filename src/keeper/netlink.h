/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the kernel's network configuration: written into a buffer with a bound, sent together, answered before nl_send() returns.
 *
 *	nl_begin(&nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, &header, sizeof(header));
 *	nl_u32(&nl, RTA_OIF, 1);
 *	at = nl_nest(&nl, RTA_METRICS);
 *	...
 *	nl_nest_end(&nl, at);
 *	r = nl_send(&nl, 0);
 *
 * What does not fit is remembered, and nl_send() then sends nothing: only its result has to be looked at.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NL_BYTES_MAX = 8192,
	NL_MESSAGES_MAX =
		64, /* as many answers fit into a socket's buffer whatever its default is */
};

struct nl {
	int fd;
	uint32_t seq;           /* of the last message */
	unsigned int nmessages; /* in the buffer */
	unsigned int nacks;     /* how many of them ask for an answer */
	size_t message;         /* where the last one begins */
	size_t len;
	bool full;
	uint8_t buf[NL_BYTES_MAX];
};

/* NETLINK_ROUTE, NETLINK_NETFILTER. The socket belongs to the network namespace that we are in now. */
int nl_open(struct nl *nl, int protocol);
void nl_close(struct nl *nl);

/* A message: its type, NLM_F_* (NLM_F_REQUEST is always among them), and what comes before its attributes. */
void nl_begin(struct nl *nl, uint16_t type, uint16_t flags, const void *header, size_t size);

/* Attributes of the last message. Numbers are as this machine has them; those named be as a network does, which is what netfilter wants. */
void nl_put(struct nl *nl, uint16_t type, const void *value, size_t size);
void nl_str(struct nl *nl, uint16_t type, const char *s);
void nl_u8(struct nl *nl, uint16_t type, uint8_t n);
void nl_u32(struct nl *nl, uint16_t type, uint32_t n);
void nl_be16(struct nl *nl, uint16_t type, uint16_t n);
void nl_be32(struct nl *nl, uint16_t type, uint32_t n);

/* An attribute that consists of attributes: everything up to the end that is given what the beginning returned. */
size_t nl_nest(struct nl *nl, uint16_t type);
void nl_nest_end(struct nl *nl, size_t at);

/*
 * Sends what is in the buffer, which is empty then. 0, or -errno of the first message that failed; `tolerated` is an errno that is no failure, or 0.
 * -EMSGSIZE: it did not fit, and nothing was sent.
 */
int nl_send(struct nl *nl, int tolerated);
