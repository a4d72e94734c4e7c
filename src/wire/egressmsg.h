/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the keeper and egress: messages of wire/chan.h. Policies are bytes that the keeper does not read (wire/netrule.h).
 */
#pragma once

#include "wire/netrule.h"

#include <stddef.h>
#include <stdint.h>

/* Listeners of a box, in this order; a machine without IPv6 has no TCP6. */
enum { EGRESS_TCP4, EGRESS_TCP6, EGRESS_PROXY, EGRESS_DNS, EGRESS_DNS_TCP, EGRESS_LISTENERS };

/* And what else it has of a box: the file with certificates that the box trusts, which it writes. */
enum { EGRESS_TRUST = EGRESS_LISTENERS, EGRESS_FDS };

enum egress_type {
	EGRESS_BOX =
		224, /* to egress: u8 bit per descriptor that is there, net_figures so far; then descriptors. Answered by DONE */
	EGRESS_POLICY,  /* to egress: u64 box, policy. Answered by DONE when it is in force */
	EGRESS_END,     /* to egress: u64 box, which is gone */
	EGRESS_DONE,    /* from egress, with the request's number: u32 errno, 0 */
	EGRESS_RECORD,  /* from egress: an egress_record */
	EGRESS_SECRETS, /* to egress, one descriptor: other secrets, see src/egress/secrets.c */
	EGRESS_FIGURES, /* from egress: a net_figures for each box that did something, NET_FIGURES_AT_ONCE at most */
};

/* How a connection, or a question, ended. */
enum egress_why {
	EGRESS_CLOSED,         /* both sides had finished */
	EGRESS_NOT_ALLOWED,    /* no rule, or one that denies */
	EGRESS_NOT_PUBLIC,     /* the name leads to addresses that no rule names */
	EGRESS_NO_ADDRESS,     /* the name leads nowhere */
	EGRESS_UNREACHABLE,    /* nobody answers there */
	EGRESS_OTHER_NAME,     /* it asked for another name than it was connected to */
	EGRESS_OTHER_PROTOCOL, /* it spoke what its rule does not allow, or what nobody can read */
	EGRESS_REQUEST,        /* no rule allows what it asked for, by method and path */
	EGRESS_BROKEN,         /* one side went away */
	EGRESS_IDLE,
	EGRESS_CUT,      /* the rules changed */
	EGRESS_TOO_MANY, /* connections, or names */
	EGRESS_BOX_GONE,
	EGRESS_LIMIT, /* the box has sent and received what it may */
	EGRESS_CLIENT_TLS, /* the program does not trust the authority of its box, or does not speak TLS */
	EGRESS_SERVER_TLS, /* the server cannot be trusted */
	EGRESS_ANSWER,     /* an answer that could not be looked through for a secret */
	EGRESS_LEARNED, /* it begins, and no rule allows it: NET_LEARN. Its end is told as well */
	EGRESS_WHY_MAX,
};

extern const char *const egress_why_str[EGRESS_WHY_MAX];

struct egress_record {
	uint64_t box;
	bool question;       /* for a name; there was no connection */
	char name[NET_NAME]; /* "": it went to an address */
	bool has_address;
	struct net_address address;
	uint16_t port;
	int32_t rule; /* as of net_verdict */
	enum egress_why why;
	uint64_t sent, received, us;
};

/* Of a box, since it was made. */
struct net_figures {
	uint64_t box;
	uint64_t open;        /* connections, now */
	uint64_t connections; /* that reached somebody */
	uint64_t refused;     /* connections, and questions for names */
	uint64_t questions;
	uint64_t sent, received; /* bytes */
};

enum { NET_FIGURES_BYTES = 7 * 8, NET_FIGURES_AT_ONCE = 256 };

struct msg_in;
struct msg_out;
void net_figures_put(struct msg_out *m, const struct net_figures *f);
void net_figures_get(struct msg_in *m, struct net_figures *f);

/* The rule that would allow it, as a text. -ENOENT: no further rule would. */
int egress_record_rule(const struct egress_record *r, char text[NET_RULE_TEXT]);
ptrdiff_t egress_record_encode(const struct egress_record *r, void *buf, size_t cap);
int egress_record_decode(const void *buf, size_t n, struct egress_record *ret);
