// SPDX-License-Identifier: Apache-2.0
#include "gate/mcp_work.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_US = 250 * 1000 };

/* --- its end ---------------------------------------------------------------------------------- */

static void work_free(void *arg)
{
	struct mcp_work *w = arg;

	ci_body_done(&w->body);
	free(w->r.body);
	free(w->args);
	free(w->in);
	free(w->extra);
	free(w);
}

struct mcp_call *mcp_work_end(struct mcp_work *w)
{
	struct mcp_call *c = w->c;

	w->c = NULL;
	if (c != NULL) {
		c->work = NULL;
		c->cancel = NULL;
	}
	if (w->rd.run != NULL)
		run_leave(&w->rd);
	loop_defer(&w->g->loop, &w->deferred, work_free, w);
	return c;
}

/* Nobody waits any more: as if the client of the request had left. */
static void on_cancel(struct mcp_call *c)
{
	struct mcp_work *w = c->work;
	bool runs = w->rd.run != NULL;

	if (runs && w->left != NULL)
		w->left(w->left_arg);
	if (!runs && w->r.gone != NULL)
		w->r.gone(&w->r);
	(void)mcp_work_end(w);
}

void mcp_work_fail(struct mcp_work *w, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mcp_text(mcp_work_end(w), true, text, strlen(text));
}

struct json_text mcp_get(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

void mcp_put_text(struct json *j, const char *p, size_t n)
{
	json_open(j, NULL, '{');
	json_str(j, "type", "text");
	json_bytes(j, "text", p, n);
	json_close(j, '}');
}

void mcp_work_put_box(const struct mcp_work *w, struct json *j)
{
	char text[256];

	if (!w->made || (w->c != NULL && w->c->session != NULL))
		return;
	(void)snprintf(text, sizeof(text),
		       "[This ran in a new box, '%s'. Pass it as 'box' to go on with its variables "
		       "and files.]",
		       w->box);
	mcp_put_text(j, text, strlen(text));
}

/* --- answers of handlers ---------------------------------------------------------------------- */

/* A refusal of the own API, in its words. */
static void pass_refusal(struct mcp_work *w, int status, const char *body, size_t n)
{
	struct json_member error = { .key = "error" }, message = { .key = "message" };
	struct json_text root;
	struct mcp_call *c;
	char *text;

	if (json_text_read(body, n, &root) == 0)
		json_text_find(root, &error, 1);
	json_text_find(error.value, &message, 1);
	text = malloc(message.value.n + 1);
	if (text == NULL || !json_text_str(message.value, text, message.value.n + 1)) {
		free(text);
		mcp_work_fail(w, "the server refused: %d %s", status, req_reason(status));
		return;
	}
	c = mcp_work_end(w);
	mcp_text(c, true, text, strlen(text));
	free(text);
}

static void wake_others(struct mcp_work *w, const struct mcp_session *se);

static void on_reply(struct req *r, int status, const void *body, size_t n)
{
	struct mcp_work *w = (struct mcp_work *)r;
	const struct mcp_session *se = w->c != NULL ? w->c->session : NULL;
	bool making = w->making;

	r->gone = NULL;
	w->making = false;
	if (w->c == NULL)
		return;
	if (status >= 400)
		pass_refusal(w, status, body, n);
	else if (w->replied != NULL)
		w->replied(w, body, n);
	if (making && se != NULL)
		wake_others(w, se);
}

static void on_more(struct run_reader *rd)
{
	struct mcp_work *w = (struct mcp_work *)((char *)rd - offsetof(struct mcp_work, rd));
	struct run *run = rd->run;

	if (run->lost) {
		mcp_work_fail(w, "it has ended, and nobody knows how");
	} else if (run->ended) {
		w->ran(w, run);
	} else if (w->g->loop.now_us >= w->told_us + PROGRESS_US) {
		w->told_us = w->g->loop.now_us;
		mcp_progress(w->c, run->seq * 1000, 0, NULL);
	}
}

static void on_follow(struct req *r, struct run *run, uint64_t after, void (*left)(void *arg),
		      void *arg)
{
	struct mcp_work *w = (struct mcp_work *)r;

	if (w->c == NULL)
		return;
	w->left = left;
	w->left_arg = arg;
	run_attach(run, &w->rd, after, on_more);
}

void mcp_work_ask(struct mcp_work *w, void (*handler)(struct req *r), struct json *body)
{
	if (body != NULL) {
		json_raw(body, "", 1); /* its NUL */
		if (body->failed) {
			json_done(body);
			mcp_work_fail(w, "out of memory");
			return;
		}
		free(w->r.body);
		w->r.body = body->buf;
		w->r.body_len = body->len - 1;
	}
	w->r.param[0] = (struct http_slice){ w->box, strlen(w->box) };
	handler(&w->r);
}

/* --- which box -------------------------------------------------------------------------------- */

/* In any state. */
static struct abox *find_box(const struct gate *g, const struct tenant *t, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(name, "name:", 5) == 0)
		return abox_named(g, t, name + 5, n - 5);
	return abox_with_id(g, t, name, n);
}

static bool is_usable(const struct abox *a)
{
	return a != NULL && a->state == ABOX_READY;
}

struct abox *mcp_box(const struct gate *g, const struct tenant *t, const char *name)
{
	struct abox *a = find_box(g, t, name);

	return is_usable(a) ? a : NULL;
}

bool mcp_work_has_box(const struct mcp_work *w)
{
	return mcp_box(w->g, w->r.tenant, w->box) != NULL;
}

struct abox *mcp_session_box(const struct gate *g, const struct mcp_session *se)
{
	struct abox *a = se->work[0] != '\0' ? mcp_box(g, se->owner, se->work) : NULL;

	return a != NULL ? a : mcp_box_of_session(g, se->owner, se->id);
}

struct abox *mcp_box_of_session(const struct gate *g, const struct tenant *t, const char *id)
{
	for (struct abox *a = g->aboxes; a != NULL; a = a->next) {
		const char *of = a->tenant == t ? texts_get(&a->metadata, MCP_BOX_KEY) : NULL;

		if (of != NULL && strcmp(of, id) == 0 && is_usable(a))
			return a;
	}
	return NULL;
}

bool mcp_work_find_box(struct mcp_work *w)
{
	struct mcp_session *se = w->c->session;
	const struct abox *a;

	if (w->box_in != NULL && w->box_in->set) {
		(void)snprintf(w->box, sizeof(w->box), "%s", w->box_in->p);
		return true;
	}
	if (w->c->context[0] != '\0') {
		(void)snprintf(w->box, sizeof(w->box), "%s", w->c->context);
		return true;
	}
	a = se != NULL ? mcp_session_box(w->g, se) : NULL;
	if (a == NULL)
		return false;
	(void)snprintf(w->box, sizeof(w->box), "%s", a->id);
	(void)snprintf(se->work, sizeof(se->work), "%s", a->id);
	return true;
}

static void on_made(struct mcp_work *w, const char *body, size_t n)
{
	struct json_member id = { .key = "id" };
	struct mcp_session *se = w->c->session;
	struct json_text root;

	w->replied = NULL;
	if (json_text_read(body, n, &root) == 0)
		json_text_find(root, &id, 1);
	if (!json_text_str(id.value, w->box, sizeof(w->box))) {
		mcp_work_fail(w, "a box was made, and nobody knows which");
		return;
	}
	if (se != NULL)
		(void)snprintf(se->work, sizeof(se->work), "%s", w->box);
	w->made = true;
	w->go(w);
}

static void make_box(struct mcp_work *w)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	if (w->c->session != NULL) {
		json_open(&j, "metadata", '{');
		json_str(&j, MCP_BOX_KEY, w->c->session->id);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	w->making = true;
	w->replied = on_made;
	mcp_work_ask(w, box_create, &j);
}

/* Whether another call makes the box of this session already. */
static bool is_being_made(const struct mcp_work *w)
{
	for (const struct mcp_call *c = w->c->s->calls; c != NULL; c = c->next) {
		const struct mcp_work *other = c->work;

		if (c->session == w->c->session && other != NULL && other != w && other->making)
			return true;
	}
	return false;
}

void mcp_work_begin(struct mcp_work *w)
{
	w->waits = false;
	if (mcp_work_find_box(w)) {
		w->go(w);
		return;
	}
	w->waits = w->c->session != NULL && is_being_made(w);
	if (!w->waits)
		make_box(w);
}

/* One after the other: each may end, and with it others. */
static void wake_others(struct mcp_work *w, const struct mcp_session *se)
{
	struct mcp_call *c = w->g->mcp.calls;

	while (c != NULL) {
		struct mcp_work *other = c->work;

		if (c->session == se && other != NULL && other->waits) {
			mcp_work_begin(other);
			if (other->waits)
				return; /* somebody else makes it now */
			c = w->g->mcp.calls;
		} else {
			c = c->next;
		}
	}
}

/* --- its beginning ---------------------------------------------------------------------------- */

/* The arguments as the body of a request. */
static int take_args(struct mcp_work *w)
{
	const struct mcp_call *c = w->c;
	struct json j;

	json_init(&j);
	if (c->args != NULL)
		jsonr_write(&c->doc, c->args, &j, NULL);
	else
		json_raw(&j, "{}", 2);
	json_raw(&j, "", 1);
	if (j.failed) {
		json_done(&j);
		return -ENOMEM;
	}
	w->r.body = j.buf;
	w->r.body_len = j.len - 1;
	return 0;
}

struct mcp_work *mcp_work_new(struct mcp_call *c, const struct fields *table, size_t box_at,
			      void (*go)(struct mcp_work *w))
{
	static const struct req_via via = { .reply = on_reply, .follow = on_follow };
	const struct req *http = mcp_http_req(c);
	struct mcp_work *w = calloc(1, sizeof(*w));

	if (w != NULL && table != NULL)
		w->in = calloc(1, table->size);
	if (w == NULL || (table != NULL && w->in == NULL)) {
		free(w);
		mcp_error(c, MCP_INTERNAL, NULL, "out of memory");
		return NULL;
	}
	w->g = http->g;
	w->c = c;
	w->go = go;
	w->r.g = http->g;
	w->r.tenant = http->tenant;
	w->r.route = http->route; /* for the audit */
	w->r.via = &via;
	(void)memcpy(w->r.id, http->id, sizeof(w->r.id));
	(void)memcpy(w->r.trace, http->trace, sizeof(w->r.trace));
	c->work = w;
	c->cancel = on_cancel;
	if (table == NULL)
		return w;
	if (take_args(w) < 0) {
		mcp_work_fail(w, "out of memory");
		return NULL;
	}
	if (own_decode(&w->r, table, &w->body, w->in) < 0)
		return NULL;
	w->box_in = (const struct field_str *)((const char *)w->in + box_at);
	w->args = w->r.body; /* what was decoded points into it */
	w->r.body = NULL;
	w->r.body_len = 0;
	return w;
}
