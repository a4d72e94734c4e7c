// SPDX-License-Identifier: Apache-2.0
/* The file store over HTTP: /v1/files. */
#include "gate/ci.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/file_head.h"
#include "wire/multipart.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { LIST_FILES_MAX = 100000, PUMP = 256 * 1024 };

static void store_failed(struct req *r, const struct store_failure *f, const char *id)
{
	const struct config *c = &r->g->config;

	if (f != NULL && f->reason == STORE_NOT_FOUND) {
		ci_detail(r, 404, "File with ID '%s' not found", id);
		return;
	}
	if (f != NULL && f->reason == STORE_TOO_LARGE) {
		ci_detail(r, 413, "File size exceeds maximum of %llu MB",
			  (unsigned long long)(config_u64(c, CONF_FILE_MAX_BYTES) >> 20));
		return;
	}
	req_header(r, "Retry-After", "%llu",
		   (unsigned long long)(config_u64(c, CONF_CAPACITY_RETRY_AFTER) / US_PER_S));
	ci_detail(r, 503, "the file store: %s",
		  f != NULL ? store_reason_str(f->reason) : "cannot be asked");
}

/* --- upload ----------------------------------------------------------------------------------- */

struct upload {
	struct req *r;
	struct multipart mp;
	struct store_upload up;
	struct buf rest; /* of a run that the store's pipe did not take whole */
	bool started, in_part, done_part;
	struct deferred deferred;
};

/* Its watch may be named by an event of this turn. */
static void upload_free(struct upload *u)
{
	struct loop *l = &u->r->g->loop;

	if (u->started)
		store_upload_abort(&u->up);
	buf_done(&u->rest);
	loop_defer(l, &u->deferred, free, u);
}

static void upload_gone(struct req *r)
{
	upload_free(r->work);
}

static bool write_rest(struct upload *u);

static void upload_want(void *arg)
{
	struct upload *u = arg;

	if (write_rest(u) || u->up.failed)
		req_body_more(u->r);
}

static void upload_done(void *arg, const struct store_meta *meta, const struct store_failure *f)
{
	struct upload *u = arg;
	struct req *r = u->r;
	struct json j;

	r->gone = NULL;
	r->take_body = NULL;
	u->started = false;
	upload_free(u);
	if (meta == NULL) {
		store_failed(r, f, "");
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "file_id", meta->id);
	json_str(&j, "filename", meta->filename);
	json_u64(&j, "size_bytes", meta->size);
	json_close(&j, '}');
	req_json(r, 201, &j);
}

static ptrdiff_t upload_refuse(struct upload *u, int status, const char *why)
{
	struct req *r = u->r;

	r->gone = NULL;
	r->take_body = NULL;
	upload_free(u);
	ci_detail(r, status, "%s", why);
	return -1;
}

static int begin_part(struct upload *u)
{
	struct store_put put = { .max_bytes = config_u64(&u->r->g->config, CONF_FILE_MAX_BYTES) };
	const char *name = u->mp.filename;

	u->in_part = !u->done_part && strcmp(u->mp.name, "file") == 0;
	if (!u->in_part)
		return 0;
	(void)snprintf(put.tenant, sizeof(put.tenant), "%s", u->r->tenant->name);
	(void)snprintf(put.filename, sizeof(put.filename), "%s",
		       name != NULL && *name != '\0' ? name : "unnamed");
	if (store_upload_start(u->r->g, &u->up, &put, upload_want, upload_done, u) < 0)
		return -1;
	u->started = true;
	return 0;
}

/* Whether nothing waits for the store's pipe any more. */
static bool write_rest(struct upload *u)
{
	if (buf_len(&u->rest) > 0)
		buf_take(&u->rest,
			 store_upload_write(&u->up, buf_head(&u->rest), buf_len(&u->rest)));
	return buf_len(&u->rest) == 0;
}

static int take_data(struct upload *u, struct http_slice data)
{
	size_t took = store_upload_write(&u->up, data.p, data.n);

	return took < data.n ? buf_put(&u->rest, data.p + took, data.n - took) : 0;
}

static ptrdiff_t upload_body(struct req *r, const char *p, size_t n)
{
	enum multipart_event event = MULTIPART_DATA;
	struct upload *u = r->work;
	size_t at = 0;

	while (write_rest(u) && event != MULTIPART_MORE) {
		struct http_refusal why;
		struct http_slice data;
		ptrdiff_t used;

		if (u->started && u->up.failed) { /* too large, or no room: no need to read on */
			store_upload_commit(&u->up);
			return -1;
		}
		used = multipart_feed(&u->mp, p + at, n - at, &event, &data, &why);
		if (used < 0)
			return upload_refuse(u, why.status, why.why);
		at += (size_t)used;
		if (event == MULTIPART_PART && begin_part(u) < 0)
			return upload_refuse(u, 503, "the file store is busy");
		if (event == MULTIPART_DATA && u->in_part && take_data(u, data) < 0)
			return upload_refuse(u, 503, "out of memory");
		if (event == MULTIPART_PART_END && u->in_part) {
			u->in_part = false;
			u->done_part = true;
		}
	}
	return (ptrdiff_t)at;
}

static void missing_file(struct req *r)
{
	static const char text[] = "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"file\"],"
				   "\"msg\":\"Field required\",\"input\":null}]}";

	req_reply(r, 422, "application/json", text, sizeof(text) - 1);
}

static void upload_end(struct req *r)
{
	struct upload *u = r->work;
	struct http_refusal why;

	if (multipart_end(&u->mp, &why) < 0) {
		(void)upload_refuse(u, why.status, why.why);
	} else if (!u->done_part) {
		r->gone = NULL;
		upload_free(u);
		missing_file(r);
	} else {
		store_upload_commit(&u->up);
	}
}

void ci_file_upload(struct req *r)
{
	struct upload *u = calloc(1, sizeof(*u));
	struct http_refusal why;

	if (u == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	u->r = r;
	buf_init(&u->rest, GATE_SCRATCH);
	/* A part has some headers beside its content; the store counts exactly. */
	if (r->head.framing == HTTP_LENGTH &&
	    r->head.length > config_u64(&r->g->config, CONF_FILE_MAX_BYTES) + 65536) {
		const struct store_failure large = { .reason = STORE_TOO_LARGE };

		free(u);
		store_failed(r, &large, "");
		return;
	}
	if (multipart_init(&u->mp, req_get(r, "Content-Type"), &why) < 0) {
		free(u);
		if (r->head.framing == HTTP_NO_BODY || req_get(r, "Content-Type").n == 0)
			missing_file(r);
		else
			ci_detail(r, why.status, "%s", why.why);
		return;
	}
	r->work = u;
	r->gone = upload_gone;
	r->take_body = upload_body;
	r->body_end = upload_end;
}

/* --- download --------------------------------------------------------------------------------- */

struct download {
	struct req *r;
	struct watch pipe;
	int fd;
	uint64_t left;
	char id[STORE_ASKED_ID_MAX + 1];
	struct deferred deferred;
};

static void download_free(struct download *d)
{
	loop_unwatch(&d->r->g->loop, &d->pipe);
	fd_close(&d->fd);
	store_forget(&d->r->g->store, d);
	loop_defer(&d->r->g->loop, &d->deferred, free, d); /* as upload_free() */
}

static void download_gone(struct req *r)
{
	download_free(r->work);
}

static void download_pump(struct download *d)
{
	struct req *r = d->r;

	while (d->left > 0 && req_queued(r) < REQ_HIGH) {
		ssize_t n = read(d->fd, r->g->scratch, PUMP);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_change(&r->g->loop, &d->pipe, EPOLLIN);
			return;
		}
		if (n <= 0 || (uint64_t)n > d->left) { /* shorter than promised */
			r->gone = NULL;
			download_free(d);
			req_abort(r);
			return;
		}
		d->left -= (uint64_t)n;
		if (req_write(r, r->g->scratch, (size_t)n) < 0)
			return; /* gone() will be called */
	}
	if (d->left > 0) {
		loop_change(&r->g->loop, &d->pipe, 0);
		return;
	}
	r->gone = NULL;
	download_free(d);
	req_end(r);
}

static void download_event(void *arg, uint32_t events)
{
	(void)events;
	download_pump(arg);
}

static void download_drained(struct req *r)
{
	download_pump(r->work);
}

static void on_content(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct download *d = arg;
	struct req *r = d->r;
	struct store_meta meta;

	if (m == NULL || m->nfds != 1 || store_meta_decode(m->body, m->len, &meta) < 0) {
		char id[sizeof(d->id)];

		(void)memcpy(id, d->id, sizeof(id));
		if (m != NULL)
			chan_msg_close(m);
		r->gone = NULL;
		download_free(d);
		store_failed(r, f, id);
		return;
	}
	d->fd = m->fds[0];
	d->left = meta.size;
	(void)fcntl(d->fd, F_SETFL, O_NONBLOCK);
	file_head_hostile(r, meta.filename);
	req_begin(r, 200, "application/octet-stream", (int64_t)meta.size);
	r->drained = download_drained;
	if (r->head_only)
		d->left = 0;
	if (loop_watch(&r->g->loop, &d->pipe, d->fd, 0, download_event, d) < 0) {
		r->gone = NULL;
		download_free(d);
		req_abort(r);
		return;
	}
	download_pump(d);
}

/* The id of the path, if it is one of ours. -1: answered. */
static int take_id(struct req *r, char *id, size_t size)
{
	struct http_slice s = r->param[0];

	(void)snprintf(id, size, "%.*s", (int)(s.n < size ? s.n : size - 1), s.p);
	if (s.n < size && store_id_is_valid(id))
		return 0;
	ci_detail(r, 404, "File with ID '%.*s' not found", (int)(s.n < 256 ? s.n : 256), s.p);
	return -1;
}

void ci_file_get(struct req *r)
{
	struct download *d = calloc(1, sizeof(*d));
	struct store_get get = { 0 };
	uint8_t body[256];
	ptrdiff_t n;

	if (d == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	d->r = r;
	d->fd = -1;
	if (take_id(r, d->id, sizeof(d->id)) < 0) {
		free(d);
		return;
	}
	(void)snprintf(get.name.tenant, sizeof(get.name.tenant), "%s", r->tenant->name);
	(void)snprintf(get.name.id, sizeof(get.name.id), "%s", d->id);
	n = store_get_encode(&get, body, sizeof(body));
	if (n < 0 ||
	    store_ask(&r->g->store, STORE_OP_GET, body, (size_t)n, -1, on_content, d) < 0) {
		free(d);
		store_failed(r, NULL, "");
		return;
	}
	r->work = d;
	r->gone = download_gone;
}

/* --- delete, list ------------------------------------------------------------------------------- */

static void forget_store(struct req *r)
{
	store_forget(&r->g->store, r);
}

static void on_deleted(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct req *r = arg;
	char id[STORE_ASKED_ID_MAX + 1];

	if (m == NULL) {
		(void)snprintf(id, sizeof(id), "%.*s", (int)r->param[0].n, r->param[0].p);
		store_failed(r, f, id);
		return;
	}
	chan_msg_close(m);
	req_reply(r, 204, NULL, "", 0);
}

void ci_file_delete(struct req *r)
{
	char id[STORE_ASKED_ID_MAX + 1];

	if (take_id(r, id, sizeof(id)) < 0)
		return;
	r->gone = forget_store;
	if (store_ask_name(&r->g->store, STORE_OP_DELETE, r->tenant->name, id, on_deleted, r) < 0)
		store_failed(r, NULL, "");
}

struct list {
	struct req *r;
	struct json j;
	size_t n;
};

static void list_gone(struct req *r)
{
	struct list *l = r->work;

	store_forget(&r->g->store, l);
	json_done(&l->j);
	free(l);
}

static void on_list(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct list *l = arg;
	struct req *r = l->r;
	struct store_list_in in;
	struct store_meta meta = { 0 };
	int rc = m == NULL ? -1 : store_list_open(&in, m->body, m->len);

	if (rc == 0)
		while ((rc = store_list_next(&in, &meta)) > 0) {
			json_open(&l->j, NULL, '{');
			json_str(&l->j, "file_id", meta.id);
			json_str(&l->j, "filename", meta.filename);
			json_u64(&l->j, "size_bytes", meta.size);
			json_milli(&l->j, "upload_time", meta.upload_time_us / 1000);
			json_close(&l->j, '}');
			l->n++;
		}
	if (m != NULL)
		chan_msg_close(m);
	if (rc == 0 && in.more && l->n < LIST_FILES_MAX &&
	    store_ask_name(&r->g->store, STORE_OP_LIST, r->tenant->name, meta.id, on_list, l) >= 0)
		return;
	r->gone = NULL;
	if (rc < 0) {
		store_failed(r, f, "");
		json_done(&l->j);
	} else {
		json_close(&l->j, ']');
		json_close(&l->j, '}');
		req_json(r, 200, &l->j);
	}
	free(l);
}

void ci_file_list(struct req *r)
{
	struct list *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	l->r = r;
	json_init(&l->j);
	json_open(&l->j, NULL, '{');
	json_open(&l->j, "files", '[');
	r->work = l;
	r->gone = list_gone;
	if (store_ask_name(&r->g->store, STORE_OP_LIST, r->tenant->name, "", on_list, l) < 0) {
		r->gone = NULL;
		json_done(&l->j);
		free(l);
		store_failed(r, NULL, "");
	}
}
