/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box may reach: a policy, which is a mode and rules. Read from what clients and operators write, told to egress as bytes, and asked there
 * for every name and every connection.
 *
 * A rule is a text, "[!]HOST[:PORT]": HOST is a name, "*.name" (every name below it, not itself), an IPv4 address, "a.b.c.d/bits", or
 * an IPv6 address in brackets, "[v6]" or "[v6]/bits"; PORT is a number or "first-last"; "!" makes it a rule that denies.
 *
 * (1) Deny wins, whatever else allows it. (2) Without a rule that allows it nothing is, but in NET_OPEN and NET_LEARN, where names and public addresses are.
 * (3) An address that is not public needs a rule that has the address: a name that leads there is not enough. (4) An address has one form: dotted
 * quads without leading zeros; IPv4 in IPv6 is IPv4. (5) Names are compared in lower case without a dot at the end.
 *
 * A rule that is an object may also say what must be spoken, and of HTTP which requests: by method and by path. Such a rule is narrow. A connection for which only narrow
 * rules speak, or of which a narrow one denies something, must be one whose requests can be read; each of them is asked about.
 *
 * A rule for a name may also have a header with a secret put into requests (net_rule_inject()): into those in TLS, or, if its protocol is HTTP, into those in the
 * clear. TLS to that name is opened then, on that rule's ports, and rules tell requests in it apart as they do those of plain HTTP.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NET_LEARN: as NET_OPEN, and what only that has allowed is told, as a rule that would. */
enum net_mode { NET_NONE, NET_ALLOW, NET_OPEN, NET_LEARN, NET_MODE_MAX };

enum {
	NET_NAME = 254,               /* with its NUL */
	NET_RULES_MAX = 256,          /* of one policy */
	NET_RULE_TEXT = 320,          /* with its NUL */
	NET_PORTS_MAX = 8,            /* ranges of one rule */
	NET_PATHS_MAX = 8,            /* of one rule */
	NET_PATHS_BYTES = 512,        /* all of them, each with its NUL */
	NET_PATH_TEXT = 8193,         /* of a request, with its NUL */
	NET_POLICY_BYTES = 12 * 1024, /* as told to egress */
	NET_CONNS_MAX = 512,          /* of one box at once */
	NET_RATE_MIN = 1024,          /* what is slower is none */
	NET_ADDRESS_TEXT = 48,
	NET_HEADER = 64,      /* of a header that is put in: its name, with its NUL */
	NET_PREFIX = 32,      /* what stands in front of the secret there */
	NET_SECRET_NAME = 64, /* of a secret: its name, with its NUL */
	NET_SECRET = 130, /* "name", or "tenant/name": which one of those that have it is meant */
};

#define NET_RATE_MAX (1ull << 40) /* bytes a second: what is more is no bound */

struct net_address {
	bool v6;
	uint8_t a[16]; /* in network order; of IPv4 the first four bytes, the others 0 */
};

struct net_ports {
	uint16_t first, last;
};

enum net_kind {
	NET_EXACT, /* this name */
	NET_BELOW, /* names below it */
	NET_CIDR,  /* addresses */
	NET_KIND_MAX,
};

/* What must be spoken; NET_ANY: whatever. */
enum net_protocol { NET_ANY, NET_TLS, NET_HTTP, NET_PROTOCOL_MAX };

/* What can be told apart of what is spoken; bits. */
enum { NET_SPOKEN_TLS = 1, NET_SPOKEN_HTTP = 2, NET_SPOKEN_OTHER = 4, NET_SPOKEN_ALL = 7 };

/* Methods of HTTP that a rule can name, as bits of their number. */
enum net_method {
	NET_GET,
	NET_HEAD,
	NET_POST,
	NET_PUT,
	NET_PATCH,
	NET_DELETE,
	NET_OPTIONS,
	NET_METHOD_MAX,
};

/* A header that requests get on their way out. */
struct net_inject {
	char header[NET_HEADER];
	char prefix[NET_PREFIX]; /* "Bearer " */
	char secret[NET_SECRET]; /* its key; "": none */
	bool redact;             /* what answers say of the secret is made unreadable */
};

struct net_rule {
	enum net_kind kind;
	enum net_protocol protocol;
	bool deny;
	char name[NET_NAME];        /* NET_EXACT, NET_BELOW (without "*.") */
	struct net_address address; /* NET_CIDR; bits behind `bits` are 0 */
	uint8_t bits;
	struct net_ports ports[NET_PORTS_MAX];
	unsigned int nports; /* 0: all */
	uint8_t methods;     /* bits of enum net_method; 0: all */
	uint8_t npaths;      /* 0: all */
	char paths
		[NET_PATHS_BYTES]; /* what the path of a request begins with, one text behind the other */
	struct net_inject inject;
};

/* How much of the network a box may have; 0: as much as there is. */
struct net_bounds {
	uint32_t connections; /* at once, NET_CONNS_MAX at most */
	uint64_t bytes;       /* both ways together, since it was made */
	uint64_t rate;        /* bytes a second, each way */
};

struct net_policy {
	enum net_mode mode;
	struct net_bounds bounds;
	struct net_rule *rules; /* its own */
	unsigned int nrules;
};

extern const char *const net_mode_str[NET_MODE_MAX];         /* "none", "allow", "open", "learn" */
extern const char *const net_protocol_str[NET_PROTOCOL_MAX]; /* "any", "tls", "http" */
extern const char *const net_method_str[NET_METHOD_MAX];     /* "GET" */

/* --- one rule --- */

/* From its text. 0 or -1: e names the rule and says what is wrong with it. */
int net_rule_read(const char *text, struct net_rule *ret, struct err *e);
/* The parts of a rule that is an object. host: a name, "*.name", or an address without a port. */
int net_rule_host(const char *host, struct net_rule *ret, struct err *e);
/* One more port or range of ports. */
int net_rule_port(struct net_rule *r, uint16_t first, uint16_t last, struct err *e);
/* One more port or range of ports, as text: "443", "8000-8080". */
int net_rule_port_text(struct net_rule *r, const char *text, struct err *e);
/* One more method of HTTP, or path that requests must begin with: "/api" is "/api" and what is below it, "/api/" what is below it. */
int net_rule_method(struct net_rule *r, const char *method, struct err *e);
int net_rule_path(struct net_rule *r, const char *path, struct err *e);
/* Requests that it is about get this header. e says what is wrong with it, e->hint which part: "header", "prefix" or "secret". */
int net_rule_inject(struct net_rule *r, const struct net_inject *i, struct err *e);
/* Whether a text can be the name of a secret, or its key. */
bool net_secret_is_name(const char *text);
bool net_secret_is_key(const char *text);
/* The name in a key. */
const char *net_secret_name(const char *key);
/* Whether it speaks of some requests only. */
bool net_rule_is_narrow(const struct net_rule *r);
/* As net_rule_read() would take it again, as far as it can be a text. */
void net_rule_text(const struct net_rule *r, char text[NET_RULE_TEXT]);
/* Whether it can be. */
bool net_rule_has_text(const struct net_rule *r);

/* --- addresses --- */

/* "10.0.0.1" or "fe80::1", strictly. 0 or -EINVAL. */
int net_address_read(const char *text, struct net_address *ret);
void net_address_text(const struct net_address *a, char text[NET_ADDRESS_TEXT]);
/* As the kernel hands it out; IPv4 in IPv6 becomes IPv4. */
void net_address_v4(const uint8_t a[4], struct net_address *ret);
void net_address_v6(const uint8_t a[16], struct net_address *ret);
/* Whether it is one of the public network's: not of this machine, a private or a shared network, a link, a group, a metadata service, documentation, a test. */
bool net_address_is_public(const struct net_address *a);
bool net_address_is_in(const struct net_address *a, const struct net_address *net,
		       unsigned int bits);

/* --- a policy --- */

/* Whether names and public addresses need no rule. */
bool net_mode_is_open(enum net_mode mode);

void net_policy_init(struct net_policy *p);
void net_policy_done(struct net_policy *p);
/* One more rule. 0, or -1: e. */
int net_policy_add(struct net_policy *p, const struct net_rule *r, struct err *e);
/* The same once more. 0 or -ENOMEM. */
int net_policy_copy(const struct net_policy *from, struct net_policy *ret);

/* As bytes: how many, or -ENOBUFS. And back: 0, or -EPROTO; net_policy_done() in any case. */
ptrdiff_t net_policy_encode(const struct net_policy *p, void *buf, size_t cap);
int net_policy_decode(const void *buf, size_t n, struct net_policy *ret);

/* --- routes of a box, by which the kernel decides first --- */

enum { NET_ROUTES_MAX = 320 };

struct net_route {
	struct net_address address;
	uint8_t bits;
	bool refused; /* unreachable: an exception from a wider one */
};

/* Those that the policy needs: how many, or -E2BIG. Addresses that stand for names are among them unless it is NET_NONE. */
int net_policy_routes(const struct net_policy *p, struct net_route v[NET_ROUTES_MAX]);
/* The nth network that is not public; false: there are no more. */
bool net_special(unsigned int n, struct net_address *ret, uint8_t *ret_bits);

/* --- decisions --- */

/* Which rule decided; there are others, too. */
enum {
	NET_BY_NONE = -1,  /* no rule allows it */
	NET_BY_MODE = -2,  /* NET_OPEN */
	NET_BY_LEARN = -3, /* NET_LEARN, and no rule */
};

struct net_verdict {
	bool allowed;
	bool narrow;         /* each request is to be asked about: net_decide_request() */
	bool opens;          /* TLS is to be opened: requests in it get headers */
	int rule;            /* its number, or NET_BY_… */
	unsigned int spoken; /* where it is allowed: bits of NET_SPOKEN_… */
};

/* May this name have an address, because it may be connected to on some port? */
struct net_verdict net_decide_name(const struct net_policy *p, const char *name);
/* May it be connected to on this port? What it leads to is asked by net_decide_address(). */
struct net_verdict net_decide_name_port(const struct net_policy *p, const char *name,
					uint16_t port);
/* May this address be connected to, by a name that was allowed, or (named false) by itself? */
struct net_verdict net_decide_address(const struct net_policy *p, const struct net_address *a,
				      uint16_t port, bool named);

struct net_request {
	const char *name; /* NULL: it was connected to by its address */
	const struct net_address *address;
	uint16_t port;
	bool tls;           /* it is in TLS that was opened */
	const char *method; /* any, not only those that rules can name */
	const char
		*path; /* as net_path_plain() gives it; "" for OPTIONS *, which is nobody's path */
};

/* May this be asked for on a connection that was allowed? */
struct net_verdict net_decide_request(const struct net_policy *p, const struct net_request *q);
/* The first rule that puts a header into this request, or NULL. path NULL: servers could differ in what they take it for, and only rules for all requests count. */
const struct net_rule *net_decide_inject(const struct net_policy *p, const struct net_request *q);
/* Whether there is TLS that it wants opened: whoever speaks it must trust somebody else then. */
bool net_policy_opens(const struct net_policy *p);
/* The nth rule that has a header for a name, on this port, in TLS or without; NULL: there are no more. */
const struct net_rule *net_injects(const struct net_policy *p, const char *name, uint16_t port,
				   bool tls, unsigned int nth);

/* The path of a target, decoded once, as every server reads it. -EINVAL: servers could differ in what they take it for (dots, slashes or backslashes that are encoded,
 * empty parts, what would be something else if it were decoded twice). */
int net_path_plain(const char *target, size_t n, char ret[NET_PATH_TEXT]);
