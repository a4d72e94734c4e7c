// SPDX-License-Identifier: Apache-2.0
/*
 * One value: what each type takes, and how it is written in its plainest form, which is the only
 * one that config_restore() takes. Errors say "SUBJECT 'VALUE' WHY", where the subject is the flag,
 * the variable, or file, line and key; the value of a secret is never said.
 */
#include "base/config_impl.h"
#include "base/layers.h"
#include "base/own.h"
#include "base/str.h"
#include "base/utf8.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

__attribute__((format(printf, 2, 3))) static int because(char why[CONF_WHY], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, CONF_WHY, fmt, ap);
	va_end(ap);
	return -1;
}

static int copy(const char *in, char *ret, size_t size, char why[CONF_WHY])
{
	size_t n = strlen(in);

	if (n >= size) {
		(void)because(why, "is too long");
		return -1;
	}
	(void)memcpy(ret, in, n + 1);
	return 0;
}

const char *conf_shown(const char *s, size_t n, bool tail, char buf[CONF_SHOWN])
{
	static const char mark[] = "\xe2\x80\xa6";
	size_t len = strlen(s);

	if (n > CONF_SHOWN - sizeof(mark))
		n = CONF_SHOWN - sizeof(mark);
	if (len <= n) {
		(void)memcpy(buf, s, len + 1);
		return buf;
	}
	if (tail)
		s += len - n;
	/* The rest of a character whose start is missing; or a start whose rest is. */
	for (; tail && n > 0 && (*s & 0xc0) == 0x80; n--)
		s++;
	while (!tail && n > 0 && (s[n] & 0xc0) == 0x80)
		n--;
	(void)snprintf(buf, CONF_SHOWN, "%s%.*s%s", tail ? mark : "", (int)n, s, tail ? "" : mark);
	return buf;
}

int conf_clean(const char *s, char why[CONF_WHY])
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n = strlen(s);

	while (n > 0) {
		uint32_t c = 0;
		size_t len = utf8_next(p, n, &c);

		if (len == 0)
			return because(why, "is not UTF-8");
		if (utf8_is_tricky(c))
			return because(why, "has a character that cannot be seen (U+%04X)", c);
		p += len;
		n -= len;
	}
	return 0;
}

/* --- numbers and words ------------------------------------------------------------------------ */

static const char *show_number(enum config_type type, uint64_t v, char *buf, size_t size)
{
	unsigned long long n = v;

	switch (type) {
	case CONFIG_BYTES:
		return str_from_bytes(v, buf, size);
	case CONFIG_DURATION:
		if (n % 1000000 == 0)
			(void)snprintf(buf, size, "%llus", n / 1000000);
		else
			(void)snprintf(buf, size, "%llums", n / 1000);
		return buf;
	case CONFIG_MILLI:
		(void)snprintf(buf, size, "%llu.%03llu", n / 1000, n % 1000);
		return buf;
	case CONFIG_INTEGER:
	case CONFIG_STRING:
	case CONFIG_PATH:
	case CONFIG_BOOL:
	case CONFIG_ENUM:
	case CONFIG_LISTEN:
	case CONFIG_TOKEN:
	case CONFIG_HOST:
	case CONFIG_ORIGIN:
	case CONFIG_LAYER:
	case CONFIG_TYPE_MAX:
		break;
	}
	(void)snprintf(buf, size, "%llu", n);
	return buf;
}

static int parse_number(const struct config_row *row, const char *in, uint64_t *ret,
			char why[CONF_WHY])
{
	const char *what = "number";
	char low[32], high[32];
	uint64_t v = 0;
	int r;

	if (row->type == CONFIG_BYTES) {
		what = "number of bytes such as 65536, 256M or 1.5G";
		r = str_to_bytes(in, &v);
	} else if (row->type == CONFIG_DURATION) {
		what = "duration such as 30s, 500ms or 2m";
		r = str_to_duration_us(in, &v);
	} else if (row->type == CONFIG_MILLI) {
		what = "number such as 2 or 0.5";
		r = str_to_milli(in, &v);
	} else {
		r = str_to_u64(in, UINT64_MAX, &v);
	}
	if (r == -EINVAL)
		return because(why, "is no %s", what);
	if (r < 0 || v < row->min || v > row->max)
		return because(why, "is not between %s and %s",
			       show_number(row->type, row->min, low, sizeof(low)),
			       show_number(row->type, row->max, high, sizeof(high)));
	*ret = v;
	return 0;
}

static int parse_bool(const char *in, uint64_t *ret, char why[CONF_WHY])
{
	static const char *const words[] = { "false", "true", "no", "yes", "0", "1", "off", "on" };

	for (unsigned int i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(in, words[i]) == 0) {
			*ret = i % 2;
			return 0;
		}
	return because(why, "is neither true nor false");
}

/* Index of a word in "a|b|c", or -1. */
static int find_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (int i = 0; *words != '\0'; i++) {
		size_t len = strcspn(words, "|");

		if (len == n && memcmp(words, word, n) == 0)
			return i;
		words += len + (words[len] == '|');
	}
	return -1;
}

static int parse_enum(const struct config_row *row, const char *in, uint64_t *ret,
		      char why[CONF_WHY])
{
	int i = find_word(row->words, in);

	if (i < 0)
		return because(why, "is none of %s", row->words);
	*ret = (uint64_t)i;
	return 0;
}

/* --- texts ------------------------------------------------------------------------------------ */

/* A path may have a slash too many where no component is missing. */
static int parse_path(const struct config_row *row, const char *in, char *ret, size_t size,
		      char why[CONF_WHY])
{
	size_t n = 0;

	if (*in == '\0' || find_word(row->words, in) >= 0)
		return copy(in, ret, size, why);
	if (*in != '/')
		return because(why, "is no absolute path%s%s",
			       *row->words != '\0' ? " and not " : "", row->words);
	if (strlen(in) >= size || strlen(in) >= PATH_MAX)
		return because(why, "is too long");
	for (; *in != '\0'; in++)
		if (*in != '/' || (in[1] != '/' && in[1] != '\0'))
			ret[n++] = *in;
	ret[n] = '\0';
	if (!path_is_plain_abs(ret))
		return because(why,
			       "is no plain path: '.', '..' and the root directory are not taken");
	return 0;
}

static bool parse_port(const char *in, in_port_t *ret)
{
	uint64_t port;

	if (str_to_u64(in, 65535, &port) < 0)
		return false;
	*ret = htons((uint16_t)port);
	return true;
}

static int listen_unix(const char *path, struct config_listen *ret)
{
	size_t n = strlen(path);

	if (!path_is_plain_abs(path) || n >= sizeof(ret->addr.un.sun_path))
		return -EINVAL;
	ret->addr.un.sun_family = AF_UNIX;
	(void)memcpy(ret->addr.un.sun_path, path, n + 1);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	ret->local = true;
	return 0;
}

static bool is_loopback6(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

int config_listen_parse(const char *text, struct config_listen *ret)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	struct config_listen l;
	size_t n;

	(void)memset(&l, 0, sizeof(l));
	if (strncmp(text, "unix:", 5) == 0) {
		if (listen_unix(text + 5, &l) < 0)
			return -EINVAL;
		*ret = l;
		return 0;
	}
	n = colon != NULL ? (size_t)(colon - text) : sizeof(host);
	if (n >= sizeof(host))
		return -EINVAL;
	(void)memcpy(host, text, n);
	host[n] = '\0';
	if (n == 0 || (host[0] == '[' && host[n - 1] == ']')) {
		if (n > 0) {
			host[n - 1] = '\0';
			if (inet_pton(AF_INET6, host + 1, &l.addr.in6.sin6_addr) != 1)
				return -EINVAL;
		}
		l.addr.in6.sin6_family = AF_INET6;
		l.len = sizeof(l.addr.in6);
		l.any = n == 0;
		l.local = is_loopback6(&l.addr.in6.sin6_addr);
		if (!parse_port(colon + 1, &l.addr.in6.sin6_port))
			return -EINVAL;
	} else {
		const char *name = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;

		if (inet_pton(AF_INET, name, &l.addr.in.sin_addr) != 1)
			return -EINVAL;
		l.addr.in.sin_family = AF_INET;
		l.len = sizeof(l.addr.in);
		l.local = ntohl(l.addr.in.sin_addr.s_addr) >> 24 == 127;
		if (!parse_port(colon + 1, &l.addr.in.sin_port))
			return -EINVAL;
	}
	*ret = l;
	return 0;
}

static int parse_listen(const char *in, char *ret, size_t size, char why[CONF_WHY])
{
	char host[INET6_ADDRSTRLEN] = "";
	struct config_listen l;

	if (config_listen_parse(in, &l) < 0)
		return because(why, "is no listener: 127.0.0.1:8000, [::1]:8000, :8000 and "
				    "unix:/run/x.sock are");
	if (l.addr.sa.sa_family == AF_UNIX)
		return copy(in, ret, size, why);
	if (l.addr.sa.sa_family == AF_INET)
		(void)inet_ntop(AF_INET, &l.addr.in.sin_addr, host, sizeof(host));
	else if (!l.any)
		(void)inet_ntop(AF_INET6, &l.addr.in6.sin6_addr, host, sizeof(host));
	(void)snprintf(ret, size, l.addr.sa.sa_family == AF_INET || l.any ? "%s:%u" : "[%s]:%u",
		       host,
		       (unsigned int)ntohs(l.addr.sa.sa_family == AF_INET ? l.addr.in.sin_port
									  : l.addr.in6.sin6_port));
	return 0;
}

static bool is_tenant_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

static int parse_token(const char *in, char *ret, size_t size, char why[CONF_WHY])
{
	const char *colon = strchr(in, ':'), *token = colon != NULL ? colon + 1 : in;
	size_t n = strlen(token);

	for (const char *c = in; colon != NULL && c < colon; c++)
		if (!is_tenant_char(*c))
			return because(
				why, "has a tenant before its colon that is not made of a-z, 0-9, "
				     "'-', '_' and '.'");
	if (colon == in || (colon != NULL && colon - in > CONFIG_TENANT_MAX))
		return because(why, "has a tenant before its colon that is empty or longer than %d",
			       CONFIG_TENANT_MAX);
	if (n < CONFIG_TOKEN_MIN)
		return because(why, "has a token of less than %d characters", CONFIG_TOKEN_MIN);
	if (n > CONFIG_TOKEN_MAX)
		return because(why, "has a token of more than %d characters", CONFIG_TOKEN_MAX);
	for (const char *c = token; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~')
			return because(why,
				       "has a token with a character that is not visible ASCII");
	if ((size_t)snprintf(ret, size, "%s%s", colon != NULL ? "" : "default:", in) >= size)
		return because(why, "is too long");
	return 0;
}

/* A name or address as in the Host header, IPv6 in brackets; of an origin, perhaps with a port.
 * Case means nothing in it. */
static int parse_host(const char *in, bool port, char *ret, size_t size, char why[CONF_WHY])
{
	size_t n = strlen(in);

	if (n == 0 || n > 255 || n >= size)
		return because(why, "is no name of a host");
	if (!port && in[0] != '[' && strchr(in, ':') != NULL)
		return because(why, "is no name of a host: any port of it is meant");
	for (size_t i = 0; i <= n; i++) {
		ret[i] = in[i] >= 'A' && in[i] <= 'Z' ? (char)(in[i] + 'a' - 'A') : in[i];
		if (i < n && !is_tenant_char(ret[i]) && strchr("[]:", ret[i]) == NULL)
			return because(why, "is no name of a host");
	}
	return 0;
}

static int parse_origin(const char *in, char *ret, size_t size, char why[CONF_WHY])
{
	const char *sep = strstr(in, "://");

	for (const char *c = in; sep != NULL && c < sep; c++)
		if (!is_tenant_char(*c) && *c != '+')
			sep = NULL;
	if (sep == NULL || sep == in || strlen(in) >= size ||
	    parse_host(sep + 3, true, ret + (sep + 3 - in), size - (size_t)(sep + 3 - in), why) < 0)
		return because(why, "is no origin such as https://app.example.org");
	(void)memcpy(ret, in, (size_t)(sep + 3 - in));
	return 0;
}

static int parse_layer(const char *in, char *ret, size_t size, char why[CONF_WHY])
{
	int layer = layer_find(in);

	if (layer < 0)
		return because(why, "is no layer; 'glovebox doctor' lists them");
	if (layer_row((enum layer)layer)->need == LAYER_ALWAYS)
		return because(why, "is a layer that no box is made without");
	return copy(in, ret, size, why);
}

static int parse_length(const struct config_row *row, const char *text, char why[CONF_WHY])
{
	if ((row->flags & CONFIG_LIST) != 0)
		return *text != '\0' ? 0 : because(why, "is empty");
	if (strlen(text) < row->min)
		return because(why, "must not be empty");
	return strlen(text) <= row->max ? 0 : because(why, "is too long");
}

int conf_parse(const struct config_row *row, const char *in, uint64_t *ret_num, char *ret_text,
	       size_t size, char why[CONF_WHY])
{
	int r = conf_clean(in, why);

	*ret_num = 0;
	*ret_text = '\0';
	if (r < 0)
		return r;
	switch (row->type) {
	case CONFIG_INTEGER:
	case CONFIG_BYTES:
	case CONFIG_DURATION:
	case CONFIG_MILLI:
		r = parse_number(row, in, ret_num, why);
		return r < 0 ? r : copy(in, ret_text, size, why);
	case CONFIG_BOOL:
		r = parse_bool(in, ret_num, why);
		return r < 0 ? r : copy(*ret_num != 0 ? "true" : "false", ret_text, size, why);
	case CONFIG_ENUM:
		r = parse_enum(row, in, ret_num, why);
		return r < 0 ? r : copy(in, ret_text, size, why);
	case CONFIG_STRING:
		r = copy(in, ret_text, size, why);
		return r < 0 ? r : parse_length(row, ret_text, why);
	case CONFIG_PATH:
		r = parse_path(row, in, ret_text, size, why);
		return r < 0 ? r : parse_length(row, ret_text, why);
	case CONFIG_LISTEN:
		return parse_listen(in, ret_text, size, why);
	case CONFIG_TOKEN:
		return parse_token(in, ret_text, size, why);
	case CONFIG_HOST:
		return parse_host(in, false, ret_text, size, why);
	case CONFIG_ORIGIN:
		return parse_origin(in, ret_text, size, why);
	case CONFIG_LAYER:
		return parse_layer(in, ret_text, size, why);
	case CONFIG_TYPE_MAX:
		break;
	}
	return because(why, "has no type");
}

/* --- into the configuration ------------------------------------------------------------------- */

/* What the value is of, as a person gave it: "--key", "NAME", "FILE:LINE: key". */
static const char *subject(const struct config_row *row, const struct conf_source *s, char *buf,
			   size_t size)
{
	char shown[CONF_SHOWN];

	switch (s->from) {
	case CONFIG_FROM_FLAG:
		(void)snprintf(buf, size, "--%s", row->key);
		for (char *c = buf; *c != '\0'; c++)
			*c = *c == '_' ? '-' : *c;
		return buf;
	case CONFIG_FROM_ENV:
	case CONFIG_FROM_DIALECT:
		(void)snprintf(buf, size, "%s", s->name);
		return buf;
	case CONFIG_FROM_FILE:
		(void)snprintf(buf, size, "%s:%u: %s", conf_shown(s->name, 200, true, shown),
			       s->line, row->key);
		return buf;
	case CONFIG_FROM_SAVED:
	case CONFIG_FROM_DEFAULT:
		break;
	}
	(void)snprintf(buf, size, "%s", row->key);
	return buf;
}

int conf_refuse(const struct config_row *row, const struct conf_source *s, const char *value,
		const char *why, struct err *e)
{
	enum err_kind kind = s->from == CONFIG_FROM_FLAG ? ERR_USAGE : ERR_INPUT;
	char who[CONF_SHOWN + 64], shown[CONF_SHOWN], unused[CONF_WHY];

	if (s->given != NULL)
		value = s->given;
	(void)subject(row, s, who, sizeof(who));
	/* What cannot be seen is not shown either. */
	if ((row->flags & CONFIG_SECRET) != 0 || conf_clean(value, unused) < 0)
		return err_set(e, kind, 0, "%s %s", who, why);
	return err_set(e, kind, 0, "%s '%s' %s", who, conf_shown(value, 80, false, shown), why);
}

static int set_where(const struct config_row *row, struct config_value *v,
		     const struct conf_source *s, struct err *e)
{
	char who[CONF_SHOWN];
	int r = 0;

	free(v->where);
	v->where = NULL;
	v->from = s->from;
	if (s->from == CONFIG_FROM_FILE)
		r = asprintf(&v->where, "%s:%u", s->name, s->line);
	else if (s->from == CONFIG_FROM_FLAG)
		r = asprintf(&v->where, "flag %s", subject(row, s, who, sizeof(who)));
	else if (s->from == CONFIG_FROM_ENV || s->from == CONFIG_FROM_DIALECT)
		r = asprintf(&v->where, "environment %s", s->name);
	if (r < 0) {
		v->where = NULL;
		return err_set(e, ERR_SYS, ENOMEM, "keep the configuration");
	}
	return 0;
}

/* One item more; the array grows by powers of two. */
static int add_item(struct config_value *v, const char *text, struct err *e)
{
	char *own;

	if ((v->n & (v->n - 1)) == 0) {
		char **list = reallocarray(v->list, v->n == 0 ? 1 : v->n * 2u, sizeof(*list));

		if (list == NULL)
			return err_set(e, ERR_SYS, ENOMEM, "keep the configuration");
		v->list = list;
	}
	own = strdup(text);
	if (own == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "keep the configuration");
	v->list[v->n++] = own;
	return 0;
}

/* The first item of *rest without the blanks around it, and *rest moved behind it and its comma. */
static void next_item(const char **rest, bool whole, char *ret, size_t size)
{
	const char *start = *rest;
	size_t n = whole ? strlen(start) : strcspn(start, ",");

	*rest = start + n + (start[n] == ',');
	while (!whole && n > 0 && start[n - 1] == ' ')
		n--;
	for (; !whole && n > 0 && *start == ' '; n--)
		start++;
	(void)snprintf(ret, size, "%.*s", (int)n, start);
}

static int set_list(const struct config_row *row, struct config_value *v, const char *value,
		    unsigned int how, const struct conf_source *s, struct err *e)
{
	char item[CONFIG_LINE_MAX + 16], text[CONFIG_LINE_MAX + 16], why[CONF_WHY];
	bool whole = (how & CONF_WHOLE) != 0;
	size_t len = strlen(value);
	const char *rest = value;
	uint64_t num;
	int r = 0;

	if (!whole && len > 0 && value[len - 1] == ',')
		r = conf_refuse(row, s, value, "has an empty item", e);
	while (r == 0 && *rest != '\0') {
		next_item(&rest, whole, item, sizeof(item));
		if (item[0] == '\0')
			r = conf_refuse(row, s, value, "has an empty item", e);
		else if (conf_parse(row, item, &num, text, sizeof(text), why) < 0)
			r = conf_refuse(row, s, item, why, e);
		else if (v->n >= row->max)
			r = conf_refuse(row, s, item, "is one too many", e);
		else
			r = add_item(v, text, e);
	}
	if ((row->flags & CONFIG_SECRET) != 0) {
		explicit_bzero(item, sizeof(item));
		explicit_bzero(text, sizeof(text));
	}
	if (r == 0 && v->n < row->min)
		r = conf_refuse(row, s, value, "must not be empty", e);
	return r;
}

static int set_scalar(const struct config_row *row, struct config_value *v, const char *value,
		      const struct conf_source *s, struct err *e)
{
	char text[CONFIG_LINE_MAX + 16], why[CONF_WHY];

	if (conf_parse(row, value, &v->num, text, sizeof(text), why) < 0)
		return conf_refuse(row, s, value, why, e);
	v->text = strdup(text);
	return v->text != NULL ? 0 : err_set(e, ERR_SYS, ENOMEM, "keep the configuration");
}

int conf_set(struct config *c, enum config_key key, const char *value, unsigned int how,
	     const struct conf_source *s, struct err *e)
{
	const struct config_row *row = config_row(key);
	struct config_value *v = &c->v[key];
	bool list = (row->flags & CONFIG_LIST) != 0;

	if (strlen(value) > CONFIG_LINE_MAX)
		return conf_refuse(row, s, value, "is too long", e);
	if (!list || (how & CONF_ADD) == 0)
		conf_clear(key, v);
	if (set_where(row, v, s, e) < 0)
		return -1;
	return list ? set_list(row, v, value, how, s, e) : set_scalar(row, v, value, s, e);
}
