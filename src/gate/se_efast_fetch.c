// SPDX-License-Identifier: Apache-2.0
/*
 * One document of a store: the store is asked where it is, and says so in its "authrequest": a method, a URL, header lines. That is
 * fetched, if it is at a place that the operator named, and written into the session as it comes. What is not whole is not there.
 */
#include "gate/se_efast.h"

#include "base/own.h"
#include "gate/gate.h"
#include "wire/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
	SAID_MAX = 256 * 1024, /* of the store about one document */
	URL_MAX = 16 * 1024,
	LINE_MAX_LEN = 4096,
	HEADERS_MAX_BYTES = 64 * 1024,
};

#define OSDOWNLOAD "/api/efast/v1/file/osdownload/"

struct writing {
	struct file_call call;
	struct efast *e;
};

/* --- the end ---------------------------------------------------------------------------------- */

void efast_stop(struct efast *e)
{
	timer_clear(&e->g->loop, &e->soon);
	if (e->way != NULL)
		way_close(e->way);
	if (e->call != NULL)
		file_call_close(e->call);
	free(e->said);
	e->way = NULL;
	e->call = NULL;
	e->said = NULL;
	e->nsaid = 0;
}

static void failed(struct efast *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void failed(struct efast *e, const char *fmt, ...)
{
	char why[EFAST_WHY];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	efast_stop(e);
	efast_failed(e, why);
}

static void way_failed(void *arg, const char *why)
{
	struct efast *e = arg;

	e->way = NULL;
	failed(e, "the store cannot be spoken to: %s", why);
}

static void on_head(void *arg, const struct http_answer *a)
{
	struct efast *e = arg;

	e->status = a->status;
}

/* --- into the session ------------------------------------------------------------------------- */

static void write_want(struct file_call *c)
{
	struct efast *e = ((struct writing *)c)->e;

	if (e->way != NULL)
		way_more(e->way);
}

static void write_end(struct file_call *c)
{
	struct efast *e = ((struct writing *)c)->e;
	const uint64_t size = c->entry->size;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s", c->path.text);
	file_audit(c);
	efast_stop(e);
	efast_fetched(e, path, size);
}

static void write_fail(struct file_call *c, int error)
{
	struct efast *e = ((struct writing *)c)->e;
	char text[SE_FILE_TEXT];

	(void)se_file_error(error, c->path.text, c->why, text);
	failed(e, "%s", text);
}

static void write_gone(struct req *r)
{
	efast_gone(((struct writing *)r->work)->e);
}

/* Before there is a call; r->work is ours then. */
static void write_refuse(struct req *r, int error, const char *path, const char *why)
{
	struct efast *e = r->work;

	(void)se_file_error(error, path, why, e->why);
}

/* What it is called: as the request says, else as the store does, else as its number is. */
static const char *path_of(const struct efast *e, char path[PATH_MAX])
{
	const char *name = e->file->savename.n > 0 ? e->file->savename.p
			   : e->title[0] != '\0'   ? e->title
						   : e->file->docid.p;
	char joined[2 * PATH_MAX];
	int n;

	if (e->file->savename.n == 0 && strrchr(name, '/') != NULL)
		name = strrchr(name, '/') + 1;
	if (name[0] == '\0' || strcmp(name, ".") == 0)
		return "it has no name";
	n = snprintf(joined, sizeof(joined), "%s/%s",
		     e->in.save_path.n > 0 ? e->in.save_path.p : "", name);
	return n > 0 && (size_t)n < sizeof(joined) ? se_join(joined, (size_t)n, path)
						   : "its path is too long";
}

static void begin_write(struct efast *e)
{
	static const struct file_shape shape = { .cwd = SE_MOUNT_POINT,
						 .beneath = true,
						 .refuse = write_refuse };
	static const struct file_ops ops = { .want = write_want,
					     .end = write_end,
					     .fail = write_fail };
	struct abox *a = se_find(e->g, e->r->tenant, e->name);
	struct file_path path = { 0 };
	const char *why = path_of(e, path.text);
	struct writing *w;

	if (a == NULL)
		why = "the session has ended";
	else if (why == NULL && !audit_allows(e->g))
		why = "the audit file cannot be written";
	if (why != NULL) {
		failed(e, "%s", why);
		return;
	}
	w = (struct writing *)file_call_new(e->r, a, &shape, &path, &ops, sizeof(*w));
	if (w == NULL) {
		failed(e, "%s", e->why);
		return;
	}
	w->e = e;
	e->call = &w->call;
	e->r->gone = write_gone;
	(void)file_call_run(&w->call, FILEOP_WRITE, (const char *const[]){ "644", "", "", NULL });
}

/* --- fetching --------------------------------------------------------------------------------- */

static void fetch_head(void *arg, const struct http_answer *a)
{
	struct efast *e = arg;

	if (a->status != 200)
		failed(e, "it cannot be fetched: status %d", a->status);
	else
		begin_write(e);
}

static size_t fetch_body(void *arg, const char *p, size_t n)
{
	struct efast *e = arg;

	return file_call_feed(e->call, p, n);
}

static void fetch_end(void *arg)
{
	struct efast *e = arg;

	e->way = NULL;
	file_call_fed(e->call);
}

/* A header line of the store's, into the request. What frames a message is ours. */
static int put_header(struct json *out, const char *line)
{
	static const char *const ours[] = {
		"host:",    "connection:", "content-length:", "transfer-encoding:", "expect:",
		"upgrade:", "te:",         "trailer:"
	};
	size_t name = strcspn(line, ":");

	if (name == 0 || line[name] != ':')
		return -1;
	for (const char *p = line; *p != '\0'; p++)
		if (*p < ' ' || *p > '~' || (*p == ' ' && p < line + name))
			return -1;
	for (unsigned int i = 0; i < ARRAY_LEN(ours); i++)
		if (strncasecmp(line, ours[i], strlen(ours[i])) == 0)
			return 0;
	json_raw(out, line, strlen(line));
	json_raw(out, "\r\n", 2);
	return out->len <= HEADERS_MAX_BYTES ? 0 : -1;
}

static void put_line(struct json *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put_line(struct json *out, const char *fmt, ...)
{
	char line[URL_MAX + 64];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < sizeof(line))
		json_raw(out, line, (size_t)n);
	else
		out->failed = true;
}

/* Hands over what was written. */
static void ask(struct efast *e, int which, struct json *request, const struct way_ops *ops)
{
	e->status = 0;
	e->way = request->failed ? NULL
				 : way_ask(e->g, (unsigned int)which, request->buf, request->len,
					   e->deadline_us, ops, e);
	if (request->failed)
		json_done(request);
	if (e->way == NULL)
		failed(e, "out of memory");
}

/* The rest of the list are header lines. */
static void fetch(struct efast *e, const char *url, struct json_walk *lines)
{
	static const struct way_ops ops = {
		.head = fetch_head, .body = fetch_body, .end = fetch_end, .fail = way_failed
	};
	char host[ENDPOINT_HOST + 10], line[LINE_MAX_LEN];
	struct json_text key, value;
	struct endpoint at;
	struct json out;
	const char *rest;
	int which;

	if (endpoint_of_url(url, &at, &rest) < 0) {
		failed(e, "the store says where it is, but not by http://");
		return;
	}
	endpoint_text(&at, host);
	which = way_find(e->g, &at);
	if (which < 0) {
		failed(e, "it is at %s, from where nothing may be fetched (efast_host)", host);
		return;
	}
	json_init(&out);
	put_line(&out, "GET %s%.*s HTTP/1.1\r\n", rest[0] == '/' ? "" : "/",
		 (int)strcspn(rest, "#"), rest);
	put_line(&out, "Host: %s\r\nConnection: close\r\n", host);
	while (json_walk_next(lines, &key, &value))
		if (!json_text_str(value, line, sizeof(line)) || put_header(&out, line) < 0) {
			json_done(&out);
			failed(e, "the store wants a header that cannot be");
			return;
		}
	put_line(&out, "\r\n");
	ask(e, which, &out, &ops);
}

/* --- asking the store ------------------------------------------------------------------------- */

static size_t store_body(void *arg, const char *p, size_t n)
{
	struct efast *e = arg;
	char *more = e->nsaid + n <= SAID_MAX ? realloc(e->said, e->nsaid + n) : NULL;

	if (more == NULL) {
		failed(e, "the store says more than can be read");
		return 0;
	}
	e->said = more;
	(void)memcpy(e->said + e->nsaid, p, n);
	e->nsaid += n;
	return n;
}

/* Into url; the walk goes on behind it. */
static bool take_request(struct json_text list, char *url, size_t size, struct json_walk *w)
{
	struct json_text key, value;
	char method[8];

	*w = json_walk(list);
	return json_text_kind(list) == '[' && json_walk_next(w, &key, &value) &&
	       json_text_str(value, method, sizeof(method)) && strcmp(method, "GET") == 0 &&
	       json_walk_next(w, &key, &value) && json_text_str(value, url, size);
}

static void store_end(void *arg)
{
	struct json_member m[] = { { .key = "authrequest" }, { .key = "name" } };
	struct efast *e = arg;
	struct json_text text;
	struct json_walk lines;
	char url[URL_MAX], *said = e->said;
	size_t n = e->nsaid;

	e->way = NULL;
	e->said = NULL; /* what is walked through must not go meanwhile */
	e->nsaid = 0;
	e->title[0] = '\0';
	if (e->status != 200) {
		failed(e, "the store answers with status %d", e->status);
	} else if (n == 0 || json_text_read(said, n, &text) < 0) {
		failed(e, "the store answers with what is not JSON");
	} else {
		json_text_find(text, m, ARRAY_LEN(m));
		if (!json_text_str(m[1].value, e->title, sizeof(e->title)))
			e->title[0] = '\0';
		if (take_request(m[0].value, url, sizeof(url), &lines))
			fetch(e, url, &lines);
		else
			failed(e, "the store does not say how to fetch it (authrequest)");
	}
	free(said);
}

static void put_question(const struct efast_file *f, struct json *j)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_str(j, "docid", f->docid.p);
	if (f->rev.n > 0)
		json_str(j, "rev", f->rev.p);
	if (f->savename.n > 0)
		json_str(j, "savename", f->savename.p);
	json_str(j, "authtype", "QUERY_STRING");
	json_close(j, '}');
}

void efast_fetch(struct efast *e, const struct efast_file *f)
{
	static const struct way_ops ops = {
		.head = on_head, .body = store_body, .end = store_end, .fail = way_failed
	};
	int which = way_find(e->g, &e->store);
	char host[ENDPOINT_HOST + 10];
	struct json question, out;

	e->file = f;
	if (se_find(e->g, e->r->tenant, e->name) == NULL) {
		failed(e, "the session has ended");
		return;
	}
	if (e->g->loop.now_us >= e->deadline_us) {
		failed(e, "it takes too long");
		return;
	}
	endpoint_text(&e->store, host);
	put_question(f, &question);
	json_init(&out);
	put_line(&out, "POST %.*s" OSDOWNLOAD " HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n",
		 (int)(strlen(e->prefix) -
		       (strlen(e->prefix) > 0 && e->prefix[strlen(e->prefix) - 1] == '/')),
		 e->prefix, host);
	put_line(&out, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n", e->token);
	put_line(&out, "Content-Length: %zu\r\n\r\n", question.len);
	json_raw(&out, question.buf, question.len);
	out.failed = out.failed || question.failed || which < 0;
	json_done(&question);
	ask(e, which, &out, &ops);
}
