// SPDX-License-Identifier: Apache-2.0
#include "gate/own.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

#include <openssl/sha.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* --- refusals --------------------------------------------------------------------------------- */

static const struct {
	int status;
	const char *code, *hint;
} errors[] = {
#define ERROR(id, status, code, hint) { status, code, hint },
#include "gate/errors.tbl"
#undef ERROR
};

int own_status(enum own_error code)
{
	return errors[code].status;
}

static void put(struct json *j, const char *key, const char *value)
{
	if (value != NULL)
		json_str(j, key, value);
	else
		json_null(j, key);
}

static void refuse(struct req *r, enum own_error code, const char *field, const char *const *pairs,
		   const char *text)
{
	struct json j;

	if (errors[code].status == 429)
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(&r->g->config, CONF_EXECUTION_RETRY_AFTER) /
					     US_PER_S));
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "error", '{');
	json_str(&j, "code", errors[code].code);
	json_str(&j, "message", text);
	put(&j, "field", field);
	put(&j, "hint", errors[code].hint);
	json_str(&j, "request_id", r->id);
	for (; *pairs != NULL; pairs += 2)
		put(&j, pairs[0], pairs[1]);
	json_close(&j, '}');
	json_close(&j, '}');
	if (j.failed) {
		json_done(&j);
		req_abort(r);
	} else {
		req_json(r, errors[code].status, &j);
	}
}

void own_refuse(struct req *r, enum own_error code, const char *field, const char *fmt, ...)
{
	static const char *const none[] = { NULL };
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	refuse(r, code, field, none, text);
}

void own_refuse_with(struct req *r, enum own_error code, const char *field,
		     const char *const *pairs, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	refuse(r, code, field, pairs, text);
}

/* --- requests --------------------------------------------------------------------------------- */

static bool is_json(const struct req *r)
{
	struct http_slice type = req_get(r, "Content-Type");
	const char *end = type.n > 0 ? memchr(type.p, ';', type.n) : NULL;

	if (end != NULL)
		type.n = (size_t)(end - type.p);
	while (type.n > 0 && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
		type.n--;
	return http_slice_is_nocase(type, "application/json");
}

int own_decode(struct req *r, const struct fields *table, struct ci_body *b, void *out)
{
	static struct field_errors errs;
	char nothing[] = "{}";
	struct jsonr_error bad = { 0 };
	bool empty = r->body_len == 0;
	struct json j;
	int rc;

	(void)memset(b, 0, sizeof(*b));
	(void)memset(&errs, 0, sizeof(errs));
	if (!empty && r->via == NULL && !is_json(r)) {
		own_refuse(r, OWN_MEDIA_TYPE, "Content-Type", "the body must be JSON");
		return -1;
	}
	rc = jsonr_parse(&b->doc, empty ? nothing : r->body, empty ? 2 : r->body_len, &bad);
	if (rc == -EILSEQ) {
		own_refuse(r, OWN_INVALID_JSON, NULL, "the body is not UTF-8");
		return -1;
	}
	if (rc < 0 && rc != -ENOMEM)
		field_errors_json(&errs, &bad);
	if (rc == 0)
		rc = fields_decode(table, &b->doc, out, &errs, &b->mem);
	if (rc == 0)
		return 0;
	if (rc == -ENOMEM) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
	} else {
		json_init(&j);
		field_errors_own(&errs, r->id, &j);
		req_json(r, errs.v[0].fault == FAULT_JSON ? 400 : 422, &j);
	}
	ci_body_done(b);
	return -1;
}

int own_query_u64(struct req *r, const char *key, uint64_t min, uint64_t max, uint64_t *ret)
{
	struct http_slice v = req_query(r, key);
	uint64_t n;

	if (http_query(&r->target, key) == NULL)
		return 0;
	if (v.n > 0 && v.n < 20 && str_to_u64(v.p, max, &n) == 0 && n >= min) {
		*ret = n;
		return 0;
	}
	own_refuse(r, OWN_INVALID_FIELD, key, "'%s' must be a number from %llu to %llu", key,
		   (unsigned long long)min, (unsigned long long)max);
	return -1;
}

/* --- ids -------------------------------------------------------------------------------------- */

enum { NODE = 4, TIME_DIGITS = 10, JOB_DIGITS = 13 };

/* Base32 in the order of ASCII, so that texts sort as their numbers do. */
static const char alphabet[] = "234567abcdefghijklmnopqrstuvwxyz";

/* The last n digits of a number. */
static char *put_digits(char *at, uint64_t v, unsigned int n)
{
	for (unsigned int i = n; i-- > 0; v >>= 5)
		at[i] = alphabet[v & 31];
	return at + n;
}

static void put_random(char *at, const uint8_t *bytes, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		at[i] = alphabet[bytes[i] & 31];
	at[n] = '\0';
}

void own_node(struct gate *g)
{
	const char *name = config_str(&g->config, CONF_NODE);
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	char host[256] = "";

	if (strlen(name) == NODE && strspn(name, alphabet) == NODE) {
		(void)memcpy(g->node, name, NODE + 1);
		return;
	}
	if (name[0] == '\0')
		(void)gethostname(host, sizeof(host) - 1);
	else
		(void)snprintf(host, sizeof(host), "%s", name);
	(void)SHA256((const unsigned char *)host, strlen(host), sha256);
	put_random(g->node, sha256, NODE);
}

int own_id(struct gate *g, char id[OWN_ID])
{
	uint8_t random[OWN_ID - 1 - NODE - TIME_DIGITS];
	char *at = id + NODE;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	(void)memcpy(id, g->node, NODE);
	at = put_digits(at, own_now_ms(), TIME_DIGITS);
	put_random(at, random, sizeof(random));
	return 0;
}

void own_job_id(const struct gate *g, const char *box, uint64_t job, char id[OWN_ID])
{
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	char text[64], *at = id + NODE;
	int n = snprintf(text, sizeof(text), "%s %llx", box, (unsigned long long)job);

	(void)SHA256((const unsigned char *)text, (size_t)n, sha256);
	(void)memcpy(id, g->node, NODE);
	at = put_digits(at, job, JOB_DIGITS);
	put_random(at, sha256, OWN_ID - 1 - NODE - JOB_DIGITS);
}

/* --- times ------------------------------------------------------------------------------------ */

uint64_t own_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void own_time_text(char text[OWN_TIME], uint64_t unix_ms)
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;
	size_t n;

	(void)gmtime_r(&s, &tm);
	n = strftime(text, OWN_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text + n, OWN_TIME - n, ".%03uZ", (unsigned int)(unix_ms % 1000));
}

void own_time(struct json *j, const char *key, uint64_t unix_ms)
{
	char text[OWN_TIME];

	own_time_text(text, unix_ms);
	json_str(j, key, text);
}
