// SPDX-License-Identifier: Apache-2.0
/* What all routes of the dialect have in common: how they answer, and what their paths and queries mean. */
#include "gate/se.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- answers ---------------------------------------------------------------------------------- */

static const struct {
	int status;
	const char *message;
} errors[] = {
#define SE_ERROR(id, status, message) { status, message },
#include "gate/se_errors.tbl"
#undef SE_ERROR
};

int se_status_of(enum se_error e)
{
	return errors[e].status;
}

const char *se_message_of(enum se_error e)
{
	return errors[e].message;
}

void se_put_error(struct json *j, const char *message, const char *detail)
{
	json_open(j, "detail", '{');
	json_str(j, "type", "SandboxError");
	json_str(j, "message", message);
	json_str(j, "detail", detail);
	json_close(j, '}');
}

void se_refuse(struct req *r, enum se_error e, const char *fmt, ...)
{
	const struct config *c = &r->g->config;
	char text[1024];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (errors[e].status == 429)
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(c, CONF_EXECUTION_RETRY_AFTER) / US_PER_S));
	json_init(&j);
	json_open(&j, NULL, '{');
	se_put_error(&j, errors[e].message, text);
	json_close(&j, '}');
	req_json(r, errors[e].status, &j);
}

void se_answer(struct req *r, struct json *j)
{
	struct json all;

	json_init(&all);
	if (j->failed) {
		all.failed = true;
	} else {
		json_raw(&all, j->buf, j->len - 1);
		json_raw(&all, ",\"result\":", 10);
		json_raw(&all, j->buf, j->len);
		json_raw(&all, "}", 1);
	}
	json_done(j);
	req_json(r, 200, &all);
}

/* --- paths ------------------------------------------------------------------------------------ */

const char *se_join(const char *from, size_t n, char to[PATH_MAX])
{
	const char *end = from + n;
	bool first = true;
	size_t len = 0;

	if (n > 0 && memchr(from, '\0', n) != NULL)
		return "it has a NUL";
	while (from < end) {
		const char *slash = memchr(from, '/', (size_t)(end - from));
		size_t part = (size_t)((slash != NULL ? slash : end) - from);
		bool here = part == 1 && from[0] == '.';

		if (part == 2 && from[0] == '.' && from[1] == '.')
			return "a part of it is '..'";
		if (here && first)
			return "its first part is '.'";
		if (part > NAME_MAX)
			return "a part of it has more than 255 bytes";
		if (len + part + 2 > PATH_MAX)
			return "it has more than 4095 bytes";
		if (part > 0 && !here) {
			if (len > 0)
				to[len++] = '/';
			(void)memcpy(to + len, from, part);
			len += part;
		}
		first = first && part == 0;
		from += part + (slash != NULL);
	}
	to[len] = '\0';
	return NULL;
}

/* For people; any bytes. */
static void refuse_path(struct req *r, const char *text, size_t n, const char *why)
{
	se_refuse(r, SE_PATH, "'%.*s': %s", (int)(n < 256 ? n : 256), n > 0 ? text : "", why);
}

static bool is_directory_name(const char *text, size_t n)
{
	return n > 0 && (text[n - 1] == '/' || (n > 1 && text[n - 1] == '.' && text[n - 2] == '/'));
}

int se_take_filename(struct req *r, const char *text, size_t n, char path[PATH_MAX])
{
	const char *why = se_join(text, n, path);

	if (why == NULL && (path[0] == '\0' || is_directory_name(text, n)))
		why = "it is no name of a file";
	if (why == NULL)
		return 0;
	refuse_path(r, text, n, why);
	return -1;
}

/* The session, which is the first part of the rest of the path; *ret is what follows it and a slash, p is NULL where there is no slash. */
static int take_name(struct req *r, char name[SE_NAME], struct http_slice *ret)
{
	struct http_slice all = r->param[0], part = all;
	const char *slash = all.n > 0 ? memchr(all.p, '/', all.n) : NULL;
	char text[3 * SE_NAME];
	struct http_refusal why;
	ptrdiff_t n;

	if (slash != NULL)
		part.n = (size_t)(slash - all.p);
	*ret = slash != NULL ? (struct http_slice){ slash + 1, all.n - part.n - 1 }
			     : (struct http_slice){ NULL, 0 };
	if (part.n == 0) {
		se_refuse(r, SE_NOT_HERE, "the path names no session");
		return -1;
	}
	n = http_path_decode(part, text, sizeof(text), &why);
	if (n > 0 && n < SE_NAME && http_is_text((struct http_slice){ text, (size_t)n })) {
		(void)memcpy(name, text, (size_t)n + 1);
		return 0;
	}
	se_refuse(r, SE_SESSION_NAME,
		  "a session id is text of at most %d bytes, without control characters",
		  SE_NAME - 1);
	return -1;
}

int se_take_name(struct req *r, char name[SE_NAME])
{
	struct http_slice rest;

	if (take_name(r, name, &rest) < 0)
		return -1;
	if (rest.p == NULL)
		return 0;
	se_refuse(r, SE_NOT_HERE, "nothing is below a session here");
	return -1;
}

/* Decode the rest of the path. The number of its bytes, or -1: answered. */
static ptrdiff_t take_rest(struct req *r, char name[SE_NAME], char text[HTTP_TARGET_MAX + 1])
{
	struct http_refusal why;
	struct http_slice rest;
	ptrdiff_t n;

	if (take_name(r, name, &rest) < 0)
		return -1;
	text[0] = '\0';
	if (rest.n == 0)
		return 0;
	n = http_path_decode(rest, text, HTTP_TARGET_MAX + 1, &why);
	if (n < 0)
		refuse_path(r, rest.p, rest.n, why.why);
	return n;
}

int se_take_directory(struct req *r, char name[SE_NAME], char path[PATH_MAX])
{
	char text[HTTP_TARGET_MAX + 1];
	ptrdiff_t n = take_rest(r, name, text);
	const char *why;

	if (n < 0)
		return -1;
	why = se_join(text, (size_t)n, path);
	if (why == NULL)
		return 0;
	refuse_path(r, text, (size_t)n, why);
	return -1;
}

int se_take_file(struct req *r, char name[SE_NAME], char path[PATH_MAX])
{
	char text[HTTP_TARGET_MAX + 1];
	ptrdiff_t n = take_rest(r, name, text);

	return n < 0 ? -1 : se_take_filename(r, text, (size_t)n, path);
}

const char *se_extension(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *dot;

	name += strspn(name, ".");
	dot = strrchr(name, '.');
	return dot != NULL && dot[1] != '\0' ? dot + 1 : NULL;
}

/* --- other words of a request ----------------------------------------------------------------- */

int se_size(const char *text, uint64_t max, uint64_t *ret)
{
	static const char units[] = "kKmMgG";
	size_t n = strspn(text, "0123456789");
	const char *unit = text[n] != '\0' ? strchr(units, text[n]) : NULL;
	char digits[20];
	uint64_t v;

	if (n == 0 || n >= sizeof(digits) || (text[n] != '\0' && text[n + 1] != '\0'))
		return -EINVAL;
	(void)memcpy(digits, text, n);
	digits[n] = '\0';
	if (str_to_u64(digits, INT64_MAX, &v) < 0)
		return -EINVAL;
	if (text[n] == '%')
		return v <= 100 ? (*ret = max / 100 * v, 0) : -EINVAL;
	if (text[n] != '\0' && unit == NULL)
		return -EINVAL;
	if (unit != NULL) {
		unsigned int shift = 10 * (unsigned int)((unit - units) / 2 + 1);

		if (v > (uint64_t)INT64_MAX >> shift)
			return -EINVAL;
		v <<= shift;
	}
	*ret = v;
	return 0;
}

int se_query_u64(struct req *r, const char *key, uint64_t *ret)
{
	const struct http_slice *v = http_query(&r->target, key);

	if (v == NULL || (v->n > 0 && str_to_u64(v->p, INT64_MAX, ret) == 0))
		return 0;
	se_refuse(r, SE_PARAMETER, "'%s' must be a number that is not negative", key);
	return -1;
}

int se_query_bool(struct req *r, const char *key, bool *ret)
{
	static const char *const words[2][6] = { { "false", "0", "no", "off", "f", "n" },
						 { "true", "1", "yes", "on", "t", "y" } };
	const struct http_slice *v = http_query(&r->target, key);

	if (v == NULL)
		return 0;
	for (unsigned int value = 0; value < 2; value++)
		for (unsigned int i = 0; i < ARRAY_LEN(words[value]); i++)
			if (http_slice_is_nocase(*v, words[value][i])) {
				*ret = value != 0;
				return 0;
			}
	se_refuse(r, SE_PARAMETER, "'%s' must be true or false", key);
	return -1;
}
