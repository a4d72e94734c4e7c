// SPDX-License-Identifier: Apache-2.0
#include "gate/tool_approvals.h"

#include "base/own.h"
#include "gate/ports.h"
#include "gate/tasks.h"
#include "gate/ws.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>

enum { APPROVERS_MAX = 8, MESSAGE_MAX = 65536 };

struct approval {
	struct approval *next; /* of its box, the oldest first */
	struct abox *a;
	char id[OWN_ID];
	char server[80], tool[260];
	char *arguments;
	size_t n;
	uint64_t asked_ms;
	struct timer late;
	approval_fn *fn;
	void *arg;
};

/* Somebody who is told as they come. */
struct approver {
	struct approver *next;
	struct abox *a; /* NULL: it has ended */
	struct ws *ws;
};

/* --- what waits ----------------------------------------------------------------------------------------- */

void approval_drop(struct approval *p)
{
	struct abox *a = p->a;
	struct approval **at = &a->approvals;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	timer_clear(&a->g->loop, &p->late);
	free(p->arguments);
	free(p);
	if (a->approvals == NULL)
		tasks_clock(a, true);
}

static void answer(struct approval *p, enum approval_answer how)
{
	approval_fn *fn = p->fn;
	void *arg = p->arg;

	approval_drop(p);
	fn(arg, how);
}

static void on_late(void *arg)
{
	answer(arg, APPROVAL_TIMED_OUT);
}

static struct approval *find(const struct abox *a, const char *id)
{
	struct approval *p = a->approvals;

	while (p != NULL && strcmp(p->id, id) != 0)
		p = p->next;
	return p;
}

/* --- who is asked --------------------------------------------------------------------------------------- */

static void tell(const struct approver *w, const struct approval *p)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	json_str(&j, "method", "approve");
	json_open(&j, "params", '{');
	json_str(&j, "server_name", p->server);
	json_str(&j, "tool_name", p->tool);
	json_value(&j, "tool_args");
	json_raw(&j, p->arguments, p->n);
	j.comma = true;
	json_close(&j, '}');
	json_str(&j, "id", p->id);
	json_close(&j, '}');
	if (!j.failed)
		ws_send(w->ws, false, j.buf, j.len);
	json_done(&j);
}

/* {"jsonrpc": "2.0", "id": …, "result": true}; anything else is passed over. */
static void on_message(void *arg, bool binary, const uint8_t *p, size_t n)
{
	struct json_member m[] = { { .key = "id" }, { .key = "result" } };
	struct approver *w = arg;
	struct approval *waits;
	struct json_text all;
	char id[OWN_ID];

	if (binary || w->a == NULL || json_text_read((const char *)p, n, &all) < 0)
		return;
	json_text_find(all, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, id, sizeof(id)) || json_text_kind(m[1].value) != 't')
		return;
	waits = find(w->a, id);
	if (waits != NULL)
		answer(waits, m[1].value.p[0] == 't' ? APPROVAL_ALLOWED : APPROVAL_DENIED);
}

static void on_closed(void *arg)
{
	struct approver *w = arg;

	if (w->a != NULL) {
		struct approver **at = &w->a->approvers;

		while (*at != w)
			at = &(*at)->next;
		*at = w->next;
	}
	free(w);
}

static const struct ws_ops ops = { .message = on_message, .closed = on_closed };

static void listen_to(struct req *r, struct abox *a)
{
	struct approver *w;
	unsigned int n = 0;

	for (w = a->approvers; w != NULL; w = w->next)
		n++;
	w = n < APPROVERS_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (w == NULL) {
		own_refuse(r, OWN_TOO_MANY, NULL, "%u clients are asked already", n);
		return;
	}
	abox_touch(a);
	w->ws = ws_accept(r, MESSAGE_MAX, &ops, w);
	if (w->ws == NULL) {
		free(w);
		return;
	}
	w->a = a;
	w->next = a->approvers;
	a->approvers = w;
	for (const struct approval *p = a->approvals; p != NULL; p = p->next)
		tell(w, p);
}

void approvals_end(struct abox *a)
{
	while (a->approvals != NULL)
		answer(a->approvals, APPROVAL_DENIED);
	while (a->approvers != NULL) {
		struct approver *w = a->approvers;

		a->approvers = w->next;
		w->a = NULL;
		ws_close(w->ws, 1001, "the box has ended");
	}
}

/* --- asking --------------------------------------------------------------------------------------------- */

struct approval *approval_ask(struct abox *a, const char *server, const char *tool,
			      const char *arguments, size_t n, approval_fn *fn, void *arg)
{
	struct approval *p = calloc(1, sizeof(*p)), **at = &a->approvals;
	struct gate *g = a->g;

	if (p == NULL)
		return NULL;
	p->arguments = malloc(n + 1);
	if (p->arguments == NULL || own_id(g, p->id) < 0 ||
	    timer_set(&g->loop, &p->late,
		      g->loop.now_us + config_u64(&g->config, CONF_TOOL_APPROVAL_TIMEOUT), on_late,
		      p) < 0) {
		free(p->arguments);
		free(p);
		return NULL;
	}
	p->a = a;
	(void)snprintf(p->server, sizeof(p->server), "%s", server);
	(void)snprintf(p->tool, sizeof(p->tool), "%s", tool);
	(void)memcpy(p->arguments, arguments, n);
	p->n = n;
	p->asked_ms = own_now_ms();
	p->fn = fn;
	p->arg = arg;
	if (a->approvals == NULL)
		tasks_clock(a, false);
	while (*at != NULL)
		at = &(*at)->next;
	*at = p;
	for (const struct approver *w = a->approvers; w != NULL; w = w->next)
		tell(w, p);
	return p;
}

/* --- requests of clients ---------------------------------------------------------------------------------- */

void approvals_get(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct json j;

	if (a == NULL)
		return;
	if (r->head.upgrade_websocket) {
		listen_to(r, a);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "approvals", '[');
	for (const struct approval *p = a->approvals; p != NULL; p = p->next) {
		json_open(&j, NULL, '{');
		json_str(&j, "id", p->id);
		json_str(&j, "server", p->server);
		json_str(&j, "tool", p->tool);
		json_value(&j, "arguments");
		json_raw(&j, p->arguments, p->n);
		j.comma = true;
		own_time(&j, "asked_at", p->asked_ms);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

struct answer_in {
	struct field_str id;
	bool approved;
};

/* clang-format off */
static const struct field answer_rows[] = {
	{ "id", FIELD_STRING, FIELD_REQUIRED, 1, OWN_ID - 1, 0, offsetof(struct answer_in, id), .doc = "which call" },
	{ "approved", FIELD_BOOL, FIELD_REQUIRED, 0, 0, 0, offsetof(struct answer_in, approved), .doc = "whether it may be made" },
};
/* clang-format on */
const struct fields approvals_post_fields = { "ApprovalRequest", answer_rows,
					      ARRAY_LEN(answer_rows), sizeof(struct answer_in),
					      FIELDS_CLOSED };

void approvals_post(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct approval *p;
	struct answer_in in;
	struct ci_body body;
	bool approved;
	struct json j;

	if (a == NULL || own_decode(r, &approvals_post_fields, &body, &in) < 0)
		return;
	p = find(a, in.id.p);
	approved = in.approved;
	ci_body_done(&body);
	if (p == NULL) {
		own_refuse(r, OWN_NOT_FOUND, "id",
			   "no such call waits: it was answered, or given up");
		return;
	}
	answer(p, approved ? APPROVAL_ALLOWED : APPROVAL_DENIED);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_bool(&j, "approved", approved);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

/* Who is in the box is not asked what the box may do. */
void ipy_approval(struct req *r)
{
	struct abox *a;

	if (req_box(r, &a) < 0)
		return;
	if (a == NULL || r->conn->listener->inside)
		req_refuse(r, 403, "not_permitted", NULL, "from inside a box nobody is asked");
	else
		listen_to(r, a);
}
