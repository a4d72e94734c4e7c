// SPDX-License-Identifier: Apache-2.0
#include "cli/box_api.h"

#include "base/own.h"
#include "cli/wake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int api(struct client *c, const char *method, const char *path, const struct json *body,
	struct reply *r, struct err *e)
{
	struct call q = { .method = method, .path = path, .body = body };

	if (client_call(c, &q, r, e) < 0)
		return -1;
	if (r->status >= 200 && r->status < 300 && (r->body.n == 0 || reply_root(r) != NULL))
		return 0;
	if (r->status >= 200 && r->status < 300)
		(void)err_set(e, ERR_PROTO, 0, "what the server answered cannot be read");
	else
		(void)reply_refused(r, e);
	reply_free(r);
	return -1;
}

bool api_is_gone(const struct client *c)
{
	return c->status == 404 || c->status == 410;
}

void api_path(char path[BOX_PATH], const char *box, const char *fmt, ...)
{
	int n = snprintf(path, BOX_PATH, "/v1/boxes/%s", box);
	va_list ap;

	va_start(ap, fmt);
	if (n > 0 && n < BOX_PATH)
		(void)vsnprintf(path + n, (size_t)(BOX_PATH - n), fmt, ap);
	va_end(ap);
}

int64_t api_time_ms(const char *text)
{
	struct tm t = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
	int64_t ms = 0;

	if (rest == NULL)
		return -1;
	if (*rest == '.')
		for (unsigned int i = 1; i <= 3 && rest[i] >= '0' && rest[i] <= '9'; i++)
			ms = ms * 10 + (rest[i] - '0');
	return (int64_t)timegm(&t) * 1000 + ms;
}

int64_t api_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *api_age(int64_t ms, char *buf, size_t size)
{
	static const struct {
		int64_t s, up_to;
		char unit;
	} units[] = { { 1, 120, 's' },
		      { 60, 120 * 60, 'm' },
		      { 3600, 48 * 3600, 'h' },
		      { 86400, INT64_MAX, 'd' } };
	int64_t s = ms / 1000;

	(void)snprintf(buf, size, "-");
	for (unsigned int i = 0; i < ARRAY_LEN(units) && ms >= 0; i++)
		if (s < units[i].up_to) {
			(void)snprintf(buf, size, "%lld%c", (long long)(s / units[i].s),
				       units[i].unit);
			break;
		}
	return buf;
}

int api_open(const struct client_opts *o, struct client *c, struct err *e)
{
	bool nobody;

	return client_find(o, c, &nobody, e);
}

int api_print_json(struct json *j)
{
	int r = -ENOMEM;

	json_raw(j, "\n", 1);
	if (!j->failed)
		r = wake_write(STDOUT_FILENO, j->buf, j->len, NULL, NULL);
	json_done(j);
	return r;
}

void api_put_members(const struct jsonr *d, const struct jsonr_node *object, struct json *j)
{
	for (const struct jsonr_node *n = jsonr_first(d, object); n != NULL; n = jsonr_next(d, n))
		jsonr_write(d, n, j, n->key);
}
