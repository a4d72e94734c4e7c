// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/boxes/{box_id}/tools: from now on code in this box may call the tools of a server. Either one that the operator configured, or one of the client's own, which runs in a
 * box of its own and is this box's alone; it goes with it.
 */
#include "gate/tool_calls.h"

#include "base/own.h"
#include "gate/ports.h"
#include "gate/tool_link.h"
#include "gate/tool_rules.h"
#include "mcp/gen.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>

enum {
	KEPT_MAX = 16
}; /* of a box: the tools process takes no more, but it may be taken over one day */

#define LIST_US (60ull * 1000 * 1000)

struct registering {
	struct req *r;
	struct gate *g;
	char box[OWN_ID]; /* which may go meanwhile */
	char server[TOOL_SERVER_MAX + 1];
	struct tool_ask *ask;
	struct abox *waits; /* for its socket; NULL: no longer */
	struct registering *next;
	char *params; /* NULL: it is the operator's */
	size_t n;
};

static void release(struct registering *w)
{
	free(w->params);
	free(w);
}

static void wait_no_more(struct registering *w)
{
	struct registering **at = &w->waits->registering;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->waits = NULL;
}

static void on_gone(struct req *r)
{
	struct registering *w = r->work;

	if (w->waits != NULL)
		wait_no_more(w);
	tools_cancel(w->ask);
	release(w);
}

/* It is over: whoever waits is the caller's to answer. */
static struct req *leave(struct registering *w)
{
	struct req *r = w->r;

	r->work = NULL;
	r->gone = NULL;
	return r;
}

static void fail(struct registering *w, enum tool_outcome how, const char *text, size_t n)
{
	own_refuse(leave(w),
		   how == TOOL_UNKNOWN ? OWN_NOT_FOUND
		   : how == TOOL_BUSY  ? OWN_TOO_MANY
				       : OWN_TOOL_SERVER,
		   "server", "the MCP server '%s' cannot be used: %.*s", w->server,
		   (int)(n < 500 ? n : 500), text);
	release(w);
}

/* --- its tools ------------------------------------------------------------------------------------------- */

static void on_listed(void *arg, enum tool_outcome how, uint64_t code, const char *text, size_t n)
{
	struct registering *w = arg;
	struct gen_names names = { 0 };
	char package[GEN_NAME];
	struct json_text all;
	struct json j;

	(void)code;
	if (how != TOOL_DONE) {
		fail(w, how, text, n);
		return;
	}
	if (json_text_read(text, n, &all) < 0 || gen_names(all, &names) < 0) {
		fail(w, TOOL_FAILED, "what it says of its tools makes no sense", 40);
		return;
	}
	gen_module_name(w->server, strlen(w->server), package);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "server", w->server);
	json_str(&j, "package", package);
	json_open(&j, "tools", '[');
	for (size_t i = 0; i < names.n; i++)
		json_str(&j, NULL, names.v[i].module);
	json_close(&j, ']');
	json_close(&j, '}');
	gen_names_done(&names);
	req_json(leave(w), 200, &j);
	release(w);
}

static void list(struct registering *w)
{
	w->ask = tools_list(w->g, w->box, w->server, LIST_US, on_listed, w);
	if (w->ask == NULL)
		fail(w, TOOL_BUSY, "too much is asked at once", 25);
}

/* --- the box --------------------------------------------------------------------------------------------- */

static struct tool_server *find(const struct abox *a, const char *name)
{
	struct tool_server *s = a->servers;

	while (s != NULL && strcmp(s->name, name) != 0)
		s = s->next;
	return s;
}

static struct tool_server *add(struct abox *a, const char *name)
{
	struct tool_server *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	s->next = a->servers;
	a->servers = s;
	return s;
}

/* It is to be there again when the tools process is. 0 or -ENOMEM. */
static int remember(struct abox *a, struct registering *w)
{
	struct tool_server *s = find(a, w->server);

	if (s == NULL)
		s = add(a, w->server);
	if (s == NULL)
		return -ENOMEM;
	free(s->params);
	s->params = w->params;
	s->n = w->n;
	w->params = NULL;
	return 0;
}

/* The rule, and the socket; then its tools: who is told of them can call them. */
static void allow(struct abox *a, struct registering *w)
{
	size_t had = a->tools.n;

	if (!tool_rules_whole(&a->tools, w->server)) {
		if (texts_add(&a->tools, w->server, strlen(w->server), "allow", 5) < 0 ||
		    !abox_fits(a)) {
			a->tools.n = had; /* what was refused is not allowed either */
			own_refuse(leave(w), OWN_INVALID_FIELD, "server",
				   "'env', 'metadata' and 'tools' of the box have no room for it");
			release(w);
			return;
		}
		abox_changed(a);
	}
	if (ports_open_tools(a)) {
		list(w);
		return;
	}
	w->waits = a;
	w->next = a->registering;
	a->registering = w;
}

void tool_servers_open(struct abox *a)
{
	for (struct registering *w = a->registering; w != NULL; w = a->registering) {
		a->registering = w->next;
		w->waits = NULL;
		list(w);
	}
}

static void on_registered(void *arg, enum tool_outcome how, uint64_t code, const char *text,
			  size_t n)
{
	struct registering *w = arg;
	struct abox *a = abox_with_id(w->g, w->r->tenant, w->box, strlen(w->box));

	(void)code;
	w->ask = NULL;
	if (how != TOOL_DONE) {
		fail(w, how, text, n);
	} else if (a == NULL || a->state != ABOX_READY) {
		own_refuse(leave(w), OWN_GONE, NULL, "the box has ended");
		release(w);
	} else if (remember(a, w) < 0) {
		own_refuse(leave(w), OWN_NO_MEMORY, NULL, "out of memory");
		release(w);
	} else {
		allow(a, w);
	}
}

/* --- the request ------------------------------------------------------------------------------------------ */

/* NULL, or what is wrong. */
static const char *take_body(struct req *r, struct registering *w)
{
	struct json_member m[] = { { .key = "server" }, { .key = "params" } };
	struct json_text all;
	struct json j;

	if (json_text_read(r->body != NULL ? r->body : "", r->body_len, &all) < 0 ||
	    json_text_kind(all) != '{')
		return "the body is no JSON object";
	json_text_find(all, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, w->server, sizeof(w->server)) ||
	    !tool_rules_is_server(w->server))
		return "'server' is no name: a-z, 0-9, '_', '-', '.'";
	if (json_text_kind(m[1].value) == '\0' || json_text_kind(m[1].value) == 'n')
		return NULL;
	if (json_text_kind(m[1].value) != '{')
		return "'params' is no object with 'command' or 'url'";
	json_init(&j);
	json_text_put(m[1].value, &j, NULL);
	w->params = j.buf;
	w->n = j.len;
	return j.failed ? "out of memory" : NULL;
}

void box_tools_post(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct registering *w = a != NULL ? calloc(1, sizeof(*w)) : NULL;
	const char *wrong;

	if (a == NULL)
		return;
	if (w == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	w->r = r;
	w->g = r->g;
	(void)memcpy(w->box, a->id, sizeof(w->box));
	wrong = take_body(r, w);
	if (wrong != NULL) {
		own_refuse(r, OWN_INVALID_FIELD, NULL, "%s", wrong);
		release(w);
		return;
	}
	r->work = w;
	r->gone = on_gone;
	if (w->params != NULL) {
		w->ask = tools_register(w->g, w->box, w->server, w->params, w->n, on_registered, w);
		if (w->ask == NULL)
			fail(w, TOOL_BUSY, "too much is asked at once", 25);
	} else {
		allow(a, w);
	}
}

/* Whether it may be called is by the rules of the box, which are in its record. Where there is no memory for it now, it is there until the tools process dies. */
void tool_server_kept(struct abox *a, const char *name, const char *params, size_t n)
{
	struct tool_server *s;
	unsigned int have = 0;
	char *copy;

	for (s = a->servers; s != NULL; s = s->next)
		have++;
	if (have >= KEPT_MAX || find(a, name) != NULL)
		return;
	copy = malloc(n + 1);
	s = copy != NULL ? add(a, name) : NULL;
	if (s == NULL) {
		free(copy);
		return;
	}
	(void)memcpy(copy, params, n);
	s->params = copy;
	s->n = n;
}

void tool_servers_end(struct abox *a)
{
	for (struct registering *w = a->registering; w != NULL; w = a->registering) {
		a->registering = w->next;
		w->waits = NULL;
		own_refuse(leave(w), OWN_GONE, NULL, "the box has ended");
		release(w);
	}
	if (a->servers != NULL)
		tools_forget(a->g, a->id);
	while (a->servers != NULL) {
		struct tool_server *s = a->servers;

		a->servers = s->next;
		free(s->params);
		free(s);
	}
}
