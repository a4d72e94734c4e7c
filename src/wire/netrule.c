// SPDX-License-Identifier: Apache-2.0
/* One rule: its text, its parts. */
#include "wire/netrule.h"

#include "base/own.h"
#include "base/str.h"
#include "wire/dnsname.h"
#include "wire/http1.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const net_mode_str[] = { "none", "allow", "open", "learn" };
_Static_assert(ARRAY_LEN(net_mode_str) == NET_MODE_MAX, "a mode lacks its word");

const char *const net_protocol_str[] = { "any", "tls", "http" };
_Static_assert(ARRAY_LEN(net_protocol_str) == NET_PROTOCOL_MAX, "a protocol lacks its word");

const char *const net_method_str[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };
_Static_assert(ARRAY_LEN(net_method_str) == NET_METHOD_MAX, "a method lacks its word");

/* Clears what no address of this network has. */
static void cut_bits(struct net_address *a, unsigned int bits)
{
	for (unsigned int i = 0; i < sizeof(a->a); i++) {
		unsigned int left = bits > i * 8 ? bits - i * 8 : 0;

		if (left < 8)
			a->a[i] &= (uint8_t)(0xff00u >> left);
	}
}

/* An address of IPv4 that is written as one of IPv6 has its bits counted there. */
static int set_bits(struct net_rule *r, bool written_v6, uint64_t bits)
{
	unsigned int all = r->address.v6 ? 128 : 32, more = written_v6 && !r->address.v6 ? 96 : 0;
	struct net_address before = r->address;

	if (bits < more || bits - more > all)
		return -ERANGE;
	r->bits = (uint8_t)(bits - more);
	cut_bits(&r->address, r->bits);
	return memcmp(&before, &r->address, sizeof(before)) == 0 ? 0 : -EDOM;
}

static int bad(struct err *e, const char *text, const char *why)
{
	return err_set(e, ERR_INPUT, 0, "rule '%.200s': %s", text, why);
}

/* "ADDRESS", with "/bits" or nothing behind it. 1: it is none. */
static int take_address(const char *host, const char *bits_text, bool bracketed,
			struct net_rule *ret, const char **why)
{
	bool written_v6 = strchr(host, ':') != NULL;
	uint64_t bits = written_v6 ? 128 : 32;
	int r = net_address_read(host, &ret->address);

	if (r < 0 && !bracketed && bits_text == NULL)
		return 1;
	*why = "it has no valid address";
	if (r < 0 || bracketed != written_v6)
		return -1;
	ret->kind = NET_CIDR;
	*why = "the number of bits behind '/' is not one of the address";
	if (bits_text != NULL && str_to_u64(bits_text, 128, &bits) < 0)
		return -1;
	r = set_bits(ret, written_v6, bits);
	if (r == -EDOM)
		*why = "the address has bits behind those of the network";
	return r;
}

/* All digits and dots, or with a colon: what wants to be an address and is none must not be taken for a name. */
static int take_host(const char *host, const char *bits_text, bool bracketed, struct net_rule *ret,
		     const char **why)
{
	const char *name = host;
	int r = take_address(host, bits_text, bracketed, ret, why);

	if (r <= 0)
		return r;
	ret->kind = NET_EXACT;
	if (strncmp(host, "*.", 2) == 0) {
		ret->kind = NET_BELOW;
		name += 2;
	}
	*why = strchr(name, '*') != NULL ? "'*' stands for all names below one: '*.example.org'"
					 : "it is no name (of letters, digits, '-' and '_'; others "
					   "as 'xn--…') and no "
					   "address (IPv6 in brackets)";
	return dnsname_read(name, strlen(name), ret->name) < 0 ? -1 : 0;
}

int net_rule_host(const char *host, struct net_rule *ret, struct err *e)
{
	char copy[NET_RULE_TEXT];
	const char *why = "";
	char *slash, *at = copy;
	bool bracketed = host[0] == '[';

	if (strlen(host) >= sizeof(copy))
		return bad(e, host, "it is too long");
	(void)snprintf(copy, sizeof(copy), "%s", host);
	slash = strrchr(copy, '/');
	if (slash != NULL)
		*slash++ = '\0';
	if (bracketed) {
		size_t n = strlen(copy);

		if (n < 2 || copy[n - 1] != ']')
			return bad(e, host, "it has no valid address");
		copy[n - 1] = '\0';
		at++;
	}
	return take_host(at, slash, bracketed, ret, &why) < 0 ? bad(e, host, why) : 0;
}

int net_rule_port(struct net_rule *r, uint16_t first, uint16_t last, struct err *e)
{
	if (first == 0 || last < first)
		return err_set(e, ERR_INPUT, 0, "ports '%u-%u' are none", first, last);
	if (r->nports == NET_PORTS_MAX)
		return err_set(e, ERR_INPUT, 0, "a rule can have %d ports", NET_PORTS_MAX);
	r->ports[r->nports++] = (struct net_ports){ first, last };
	return 0;
}

/* "443" or "8000-8080". */
static int take_ports(struct net_rule *r, char *text)
{
	char *dash = strchr(text, '-');
	uint64_t first, last;
	struct err e;

	if (dash != NULL)
		*dash = '\0';
	if (str_to_u64(text, UINT16_MAX, &first) < 0)
		return -1;
	last = first;
	if (dash != NULL && str_to_u64(dash + 1, UINT16_MAX, &last) < 0)
		return -1;
	return net_rule_port(r, (uint16_t)first, (uint16_t)last, &e);
}

int net_rule_port_text(struct net_rule *r, const char *text, struct err *e)
{
	char copy[16];

	if (r->nports == NET_PORTS_MAX)
		return net_rule_port(r, 1, 1, e);
	if (strlen(text) < sizeof(copy)) {
		(void)snprintf(copy, sizeof(copy), "%s", text);
		if (take_ports(r, copy) == 0)
			return 0;
	}
	return err_set(e, ERR_INPUT, 0, "'%.32s' is no port, 1 to 65535, and no 'first-last'",
		       text);
}

/* --- requests --------------------------------------------------------------------------------- */

int net_rule_method(struct net_rule *r, const char *method, struct err *e)
{
	for (unsigned int i = 0; i < NET_METHOD_MAX; i++)
		if (strcmp(method, net_method_str[i]) == 0) {
			r->methods |= (uint8_t)(1u << i);
			return 0;
		}
	return err_set(e, ERR_INPUT, 0,
		       "'%.32s' is no method that a rule can name: GET, HEAD, POST, PUT, PATCH, "
		       "DELETE, OPTIONS",
		       method);
}

static size_t paths_bytes(const struct net_rule *r)
{
	size_t n = 0;

	for (unsigned int i = 0; i < r->npaths; i++)
		n += strlen(r->paths + n) + 1;
	return n;
}

int net_rule_path(struct net_rule *r, const char *path, struct err *e)
{
	size_t at = paths_bytes(r), n = strlen(path) + 1;
	char plain[NET_PATH_TEXT];

	if (r->npaths == NET_PATHS_MAX || n > sizeof(r->paths) - at)
		return err_set(e, ERR_INPUT, 0, "a rule can have %d paths, of %d bytes in all",
			       NET_PATHS_MAX, NET_PATHS_BYTES);
	/* As it is compared: decoded. */
	if (path[0] != '/' || strpbrk(path, "%?#") != NULL ||
	    net_path_plain(path, n - 1, plain) < 0)
		return err_set(e, ERR_INPUT, 0,
			       "'%.200s' is no path: it begins with '/', and has no '%%', '?', "
			       "'#', '\\', spaces, "
			       "empty parts, '.' or '..'",
			       path);
	(void)memcpy(r->paths + at, path, n);
	r->npaths++;
	return 0;
}

/* --- headers that are put in ------------------------------------------------------------------ */

static size_t word(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-.");
}

bool net_secret_is_name(const char *text)
{
	size_t n = word(text);

	return n > 0 && n < NET_SECRET_NAME && text[n] == '\0';
}

const char *net_secret_name(const char *key)
{
	const char *slash = strchr(key, '/');

	return slash != NULL ? slash + 1 : key;
}

bool net_secret_is_key(const char *text)
{
	size_t n = word(text);

	return strlen(text) < NET_SECRET && net_secret_is_name(net_secret_name(text)) &&
	       (text[n] == '\0' || (n > 0 && text[n] == '/'));
}

/* Those that say where a request ends, whom it is for and what becomes of its connection are not to be given twice, or by somebody else. */
static bool is_ours(const char *header)
{
	static const char *const names[] = {
		"Host",           "Connection",    "Content-Length",  "Transfer-Encoding", "TE",
		"Trailer",        "Upgrade",       "Expect",          "Keep-Alive",        "Range",
		"X-Original-URL", "X-Rewrite-URL", "Accept-Encoding",
	};

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(header, names[i]) == 0)
			return true;
	return strncasecmp(header, "Proxy-", 6) == 0 ||
	       strncasecmp(header, "Sec-WebSocket-", 14) == 0;
}

static bool is_printable(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			return false;
	return true;
}

static int no_inject(struct err *e, const char *part, const char *why)
{
	(void)err_set(e, ERR_INPUT, 0, "%s", why);
	return err_hint(e, "%s", part);
}

int net_rule_inject(struct net_rule *r, const struct net_inject *i, struct err *e)
{
	if (!http_is_token((struct http_slice){ i->header, strlen(i->header) }) ||
	    is_ours(i->header))
		return no_inject(e, "header", "it is no header that can be put into a request");
	if (!is_printable(i->prefix) || i->prefix[0] == ' ')
		return no_inject(e, "prefix",
				 "it is of printable ASCII, and does not begin with a space");
	if (!net_secret_is_key(i->secret))
		return no_inject(e, "secret",
				 "it is the name of a secret: a-z, 0-9, '_', '-', '.'");
	if (r->deny)
		return no_inject(e, "", "a rule that denies puts nothing into requests");
	if (r->kind == NET_CIDR)
		return no_inject(e, "",
				 "a secret is for a name: an address does not say who is there");
	r->inject = *i;
	return 0;
}

bool net_rule_is_narrow(const struct net_rule *r)
{
	return r->methods != 0 || r->npaths > 0;
}

bool net_rule_has_text(const struct net_rule *r)
{
	return r->protocol == NET_ANY && r->nports <= 1 && !net_rule_is_narrow(r) &&
	       r->inject.secret[0] == '\0';
}

/* --- text --------------------------------------------------------------------------------------- */

/* Where ":PORT" begins; NULL: there is none. An address of IPv6 has its colons in brackets. */
static char *find_port(char *text)
{
	char *bracket = strrchr(text, ']');

	return strchr(bracket != NULL ? bracket : text, ':');
}

int net_rule_read(const char *text, struct net_rule *ret, struct err *e)
{
	char copy[NET_RULE_TEXT], *at = copy, *colon;

	*ret = (struct net_rule){ .kind = NET_EXACT };
	if (strlen(text) >= sizeof(copy))
		return bad(e, text, "it is too long");
	(void)snprintf(copy, sizeof(copy), "%s", text);
	if (at[0] == '!') {
		ret->deny = true;
		at++;
	}
	colon = find_port(at);
	if (colon != NULL) {
		*colon = '\0';
		if (take_ports(ret, colon + 1) < 0)
			return bad(e, text,
				   strchr(colon + 1, ':') != NULL
					   ? "an address of IPv6 needs brackets: '[2001:db8::1]'"
					   : "behind ':' must be a port, 1 to 65535, or two of "
					     "them as 'first-last'");
	}
	if (net_rule_host(at, ret, e) < 0) {
		char why[ERR_TEXT];
		const char *reason = strstr(e->text, "': ");

		(void)snprintf(why, sizeof(why), "%s", reason != NULL ? reason + 3 : e->text);
		return bad(e, text, why);
	}
	return 0;
}

void net_rule_text(const struct net_rule *r, char text[NET_RULE_TEXT])
{
	char address[NET_ADDRESS_TEXT];
	unsigned int all = r->address.v6 ? 128 : 32;
	size_t n;

	if (r->kind == NET_CIDR) {
		net_address_text(&r->address, address);
		(void)snprintf(text, NET_RULE_TEXT, r->address.v6 ? "%s[%s]" : "%s%s",
			       r->deny ? "!" : "", address);
		n = strlen(text);
		if (r->bits != all)
			(void)snprintf(text + n, NET_RULE_TEXT - n, "/%u", r->bits);
	} else {
		(void)snprintf(text, NET_RULE_TEXT, "%s%s%s", r->deny ? "!" : "",
			       r->kind == NET_BELOW ? "*." : "", r->name);
	}
	n = strlen(text);
	if (r->nports != 1)
		return;
	if (r->ports[0].first == r->ports[0].last)
		(void)snprintf(text + n, NET_RULE_TEXT - n, ":%u", r->ports[0].first);
	else
		(void)snprintf(text + n, NET_RULE_TEXT - n, ":%u-%u", r->ports[0].first,
			       r->ports[0].last);
}
