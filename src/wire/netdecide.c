// SPDX-License-Identifier: Apache-2.0
/*
 * What a policy says of a name, an address, or a request.
 *
 * Every rule that is about what was asked has its say: what those that allow leave together, less what those that deny take away. A connection whose
 * requests rules tell apart must be one whose requests can be read, and each of them is asked about.
 */
#include "wire/netrule.h"

#include "base/own.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool has_port(const struct net_rule *r, uint16_t port)
{
	for (unsigned int i = 0; i < r->nports; i++)
		if (port >= r->ports[i].first && port <= r->ports[i].last)
			return true;
	return r->nports == 0;
}

static bool is_below(const char *name, const char *above)
{
	size_t n = strlen(name), len = strlen(above);

	return n > len + 1 && name[n - len - 1] == '.' && strcmp(name + n - len, above) == 0;
}

static bool has_name(const struct net_rule *r, const char *name)
{
	switch (r->kind) {
	case NET_EXACT:
		return strcmp(r->name, name) == 0;
	case NET_BELOW:
		return is_below(name, r->name);
	case NET_CIDR:
	case NET_KIND_MAX:
		break;
	}
	return false;
}

/* What is asked about: a name or an address, on a port or (0) on any. */
struct asked {
	const char *name;
	const struct net_address *address;
	uint16_t port;
	bool otherwise; /* where no rule says anything */
	int by;         /* who says so then */
};

static bool is_about(const struct net_rule *r, const struct asked *q)
{
	/* On some port: a rule that denies a few of them leaves others. */
	if (q->port == 0 ? r->deny && r->nports > 0 : !has_port(r, q->port))
		return false;
	if (q->name != NULL)
		return has_name(r, q->name);
	return r->kind == NET_CIDR && net_address_is_in(q->address, &r->address, r->bits);
}

static int by_mode(const struct net_policy *p)
{
	return p->mode == NET_LEARN ? NET_BY_LEARN : NET_BY_MODE;
}

static struct asked about_name(const struct net_policy *p, const char *name, uint16_t port)
{
	return (struct asked){
		.name = name, .port = port, .otherwise = net_mode_is_open(p->mode), .by = by_mode(p)
	};
}

static struct asked about_address(const struct net_policy *p, const struct net_address *a,
				  uint16_t port, bool named)
{
	bool enough = net_address_is_public(a) && (named || net_mode_is_open(p->mode));

	return (struct asked){ .address = a, .port = port, .otherwise = enough, .by = by_mode(p) };
}

/* --- connections ------------------------------------------------------------------------------ */

static unsigned int spoken_of(const struct net_rule *r)
{
	static const unsigned int bits[NET_PROTOCOL_MAX] = {
		[NET_ANY] = NET_SPOKEN_ALL, [NET_TLS] = NET_SPOKEN_TLS, [NET_HTTP] = NET_SPOKEN_HTTP
	};

	return bits[r->protocol];
}

struct sum {
	unsigned int readable;    /* its requests can be told apart */
	unsigned int whole, some; /* allowed: all of it, and some requests of it */
	unsigned int denied;
	bool looked; /* some requests are denied */
	int allows, denies;
};

static void add_allow(struct sum *s, const struct net_rule *r, int number)
{
	if (net_rule_is_narrow(r))
		s->some |= spoken_of(r) & s->readable;
	else
		s->whole |= spoken_of(r);
	if (s->allows < 0)
		s->allows = number;
}

static void add_deny(struct sum *s, const struct net_rule *r, int number)
{
	if (net_rule_is_narrow(r)) {
		/* What is inside of TLS nobody can tell apart, unless it is opened: so it is all denied, or the rule would be none. */
		s->denied |= spoken_of(r) & NET_SPOKEN_TLS & ~s->readable;
		s->looked = true;
	} else {
		s->denied |= spoken_of(r);
	}
	if (s->denies < 0 && s->denied != 0)
		s->denies = number;
}

/* In the clear only where the rule says that it is HTTP: who may choose could choose to have it sent so. */
static bool injects(const struct net_rule *r, const struct asked *q, bool tls)
{
	return r->inject.secret[0] != '\0' && is_about(r, q) && (r->protocol != NET_HTTP) == tls;
}

/* Whether a rule puts a header into requests inside of TLS. */
static bool has_to_open(const struct net_policy *p, const struct asked *q)
{
	for (unsigned int i = 0; i < p->nrules; i++)
		if (injects(&p->rules[i], q, true))
			return true;
	return false;
}

static struct net_verdict decide(const struct net_policy *p, const struct asked *q)
{
	bool opens = has_to_open(p, q);
	struct sum s = { .allows = q->otherwise ? q->by : NET_BY_NONE,
			 .denies = NET_BY_NONE,
			 .readable = NET_SPOKEN_HTTP | (opens ? NET_SPOKEN_TLS : 0),
			 .whole = q->otherwise ? NET_SPOKEN_ALL : 0 };
	unsigned int spoken;

	if (p->mode == NET_NONE)
		return (struct net_verdict){ .rule = NET_BY_NONE };
	for (unsigned int i = 0; i < p->nrules; i++) {
		const struct net_rule *r = &p->rules[i];

		if (!is_about(r, q))
			continue;
		if (r->deny)
			add_deny(&s, r, (int)i);
		else
			add_allow(&s, r, (int)i);
	}
	spoken = (s.whole | s.some) & ~s.denied;
	return (struct net_verdict){
		.allowed = spoken != 0,
		.narrow = (spoken & s.readable & (s.looked ? NET_SPOKEN_ALL : ~s.whole)) != 0,
		.opens = opens,
		.rule = spoken != 0 ? s.allows : s.denies,
		.spoken = spoken,
	};
}

struct net_verdict net_decide_name_port(const struct net_policy *p, const char *name, uint16_t port)
{
	struct asked q = about_name(p, name, port);

	return decide(p, &q);
}

struct net_verdict net_decide_name(const struct net_policy *p, const char *name)
{
	return net_decide_name_port(p, name, 0);
}

struct net_verdict net_decide_address(const struct net_policy *p, const struct net_address *a,
				      uint16_t port, bool named)
{
	struct asked q = about_address(p, a, port, named);

	return decide(p, &q);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Who denies a path denies it also to servers for which large and small letters are the same. */
static bool begins_with(const char *path, const char *with, bool any_case)
{
	size_t n = strlen(with);

	if ((any_case ? strncasecmp(path, with, n) : strncmp(path, with, n)) != 0)
		return false;
	return with[n - 1] == '/' || path[n] == '\0' || path[n] == '/';
}

static bool has_path(const struct net_rule *r, const char *path)
{
	const char *with = r->paths;

	for (unsigned int i = 0; i < r->npaths; i++, with += strlen(with) + 1)
		if (begins_with(path, with, r->deny))
			return true;
	return r->npaths == 0;
}

static bool has_method(const struct net_rule *r, const char *method)
{
	for (unsigned int i = 0; i < NET_METHOD_MAX; i++)
		if (strcmp(method, net_method_str[i]) == 0)
			return r->methods == 0 || (r->methods & 1u << i) != 0;
	return r->methods == 0;
}

static unsigned int spoken_in(const struct net_request *what)
{
	return what->tls ? NET_SPOKEN_TLS : NET_SPOKEN_HTTP;
}

static struct net_verdict decide_request(const struct net_policy *p, const struct asked *q,
					 const struct net_request *what)
{
	struct net_verdict v = { .allowed = q->otherwise,
				 .rule = q->otherwise ? q->by : NET_BY_NONE,
				 .spoken = spoken_in(what) };

	if (p->mode == NET_NONE)
		return (struct net_verdict){ .rule = NET_BY_NONE };
	for (unsigned int i = 0; i < p->nrules; i++) {
		const struct net_rule *r = &p->rules[i];

		if (!is_about(r, q) || (spoken_of(r) & v.spoken) == 0 ||
		    !has_method(r, what->method) || !has_path(r, what->path))
			continue;
		if (r->deny)
			return (struct net_verdict){ .rule = (int)i };
		if (v.rule < 0)
			v.rule = (int)i;
		v.allowed = true;
	}
	return v;
}

struct net_verdict net_decide_request(const struct net_policy *p, const struct net_request *what)
{
	struct asked q = about_address(p, what->address, what->port, what->name != NULL);
	struct net_verdict v = decide_request(p, &q, what);

	if (!v.allowed || what->name == NULL)
		return v;
	q = about_name(p, what->name, what->port);
	return decide_request(p, &q, what);
}

const struct net_rule *net_decide_inject(const struct net_policy *p, const struct net_request *what)
{
	struct asked q = about_name(p, what->name, what->port);

	for (unsigned int i = 0; i < p->nrules; i++) {
		const struct net_rule *r = &p->rules[i];

		if (!injects(r, &q, what->tls))
			continue;
		if (!net_rule_is_narrow(r) ||
		    (what->path != NULL && has_method(r, what->method) && has_path(r, what->path)))
			return r;
	}
	return NULL;
}

bool net_policy_opens(const struct net_policy *p)
{
	for (unsigned int i = 0; p->mode != NET_NONE && i < p->nrules; i++)
		if (p->rules[i].inject.secret[0] != '\0' && p->rules[i].protocol != NET_HTTP)
			return true;
	return false;
}

const struct net_rule *net_injects(const struct net_policy *p, const char *name, uint16_t port,
				   bool tls, unsigned int nth)
{
	struct asked q = about_name(p, name, port);

	for (unsigned int i = 0; i < p->nrules; i++)
		if (injects(&p->rules[i], &q, tls) && nth-- == 0)
			return &p->rules[i];
	return NULL;
}

/* --- paths ------------------------------------------------------------------------------------ */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character at *at, which moves on. -1: one that servers read differently. */
static int take_char(const char *p, size_t n, size_t *at)
{
	char c = p[(*at)++];
	int v;

	if (c == '\\' || (unsigned char)c <= ' ' || c == 0x7f)
		return -1;
	if (c != '%')
		return (unsigned char)c;
	if (n - *at < 2 || hex(p[*at]) < 0 || hex(p[*at + 1]) < 0)
		return -1;
	v = hex(p[*at]) << 4 | hex(p[*at + 1]);
	*at += 2;
	if (v == '/' || v == '\\' || v == '\0')
		return -1;
	/* "%252e": a dot for who decodes twice. */
	if (v == '%' && n - *at >= 2 && hex(p[*at]) >= 0 && hex(p[*at + 1]) >= 0)
		return -1;
	return v;
}

/* A part of a path that leads up or nowhere, also for servers that cut what follows ';' in it. */
static bool is_dots(const char *part, size_t n)
{
	size_t dots = 0;

	while (dots < n && part[dots] == '.')
		dots++;
	return (dots == 1 || dots == 2) && (dots == n || part[dots] == ';');
}

int net_path_plain(const char *target, size_t n, char ret[NET_PATH_TEXT])
{
	const char *query = memchr(target, '?', n);
	size_t end = query == NULL ? n : (size_t)(query - target), len = 0, part = 1;

	if (end == 1 && target[0] == '*') {
		ret[0] = '\0';
		return 0;
	}
	if (end == 0 || target[0] != '/' || end >= NET_PATH_TEXT)
		return -EINVAL;
	for (size_t at = 0; at < end;) {
		int c = take_char(target, end, &at);

		if (c < 0)
			return -EINVAL;
		if (c == '/' && len > 0) {
			if (len == part || is_dots(ret + part, len - part))
				return -EINVAL;
			part = len + 1;
		}
		ret[len++] = (char)c;
	}
	ret[len] = '\0';
	return is_dots(ret + part, len - part) ? -EINVAL : 0;
}
