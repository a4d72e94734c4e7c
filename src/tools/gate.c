// SPDX-License-Identifier: Apache-2.0
/*
 * What the gate says, and what it is told. It reads what strangers send and may be taken over one day: what it says is checked, and nothing
 * that it can ask for tells it a secret.
 */
#include "tools/tools.h"

#include "base/own.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MAX_US = 24u * 3600 };

/* --- what it is told ---------------------------------------------------------------------------------- */

void gate_result(struct tools *t, uint64_t id, enum tool_outcome how, uint64_t code,
		 const char *text, size_t n)
{
	static const char full[] = "the gate does not take the result";
	uint8_t head[9];
	struct msg_out m;

	msg_out_init(&m, head, sizeof(head));
	msg_put_u8(&m, (uint8_t)how);
	msg_put_u64(&m, code);
	if (toolmsg_put(&t->gate, TOOLMSG_RESULT, id, head, m.len, text, n, -1) == 0)
		return;
	head[0] = TOOL_FAILED;
	(void)toolmsg_put(&t->gate, TOOLMSG_RESULT, id, head, m.len, full, sizeof(full) - 1, -1);
}

void gate_say(struct tools *t, const char *event, const char *server, const char *text)
{
	uint8_t body[1024];
	struct msg_out m;
	char cut[512];

	(void)snprintf(cut, sizeof(cut), "%s", text);
	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, event);
	msg_put_str(&m, server);
	msg_put_str(&m, cut);
	if (!m.failed)
		(void)toolmsg_put(&t->gate, TOOLMSG_SAY, 0, body, m.len, NULL, 0, -1);
}

int gate_want_box(struct tools *t, struct server *s)
{
	static uint8_t body[16384];
	struct msg_out m;
	uint32_t n = 0;

	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, s->name);
	for (int i = 0; i < LIMIT_ID_MAX; i++)
		n += s->spec.limited >> i & 1;
	msg_put_u32(&m, n);
	for (int i = 0; i < LIMIT_ID_MAX; i++)
		if ((s->spec.limited >> i & 1) != 0) {
			msg_put_u16(&m, (uint16_t)i);
			msg_put_u64(&m, s->spec.limits[i]);
		}
	msg_put_u32(&m, s->spec.nmounts);
	for (unsigned int i = 0; i < s->spec.nmounts; i++) {
		msg_put_str(&m, s->spec.mounts[i].root);
		msg_put_str(&m, s->spec.mounts[i].path);
		msg_put_str(&m, s->spec.mounts[i].at);
		msg_put_u8(&m, !s->spec.mounts[i].writable);
	}
	if (m.failed)
		return -E2BIG;
	s->box = ++t->next_box;
	return toolmsg_put(&t->gate, TOOLMSG_BOX_WANT, s->box, body, m.len, NULL, 0, -1);
}

void gate_end_box(struct tools *t, uint64_t box)
{
	(void)toolmsg_put(&t->gate, TOOLMSG_BOX_END, box, NULL, 0, NULL, 0, -1);
}

/* What clients have registered, for a gate that does not know of it. One that cannot be told of would never be forgotten. */
static void tell_kept(struct tools *t)
{
	for (struct server *s = t->servers; s != NULL; s = s->next) {
		uint8_t head[OWNER_MAX + SPEC_NAME + 8];
		struct msg_out m;

		if (s->params == NULL || s->gone)
			continue;
		msg_out_init(&m, head, sizeof(head));
		msg_put_str(&m, s->owner);
		msg_put_str(&m, s->name);
		if (toolmsg_put(&t->gate, TOOLMSG_KEPT, 0, head, m.len, s->params, s->nparams, -1) <
		    0)
			s->gone = true;
	}
}

/* --- what it says ------------------------------------------------------------------------------------- */

static void unknown(struct tools *t, uint64_t id, const char *server)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "there is no server '%.64s'", server);
	gate_result(t, id, TOOL_UNKNOWN, 0, text, strlen(text));
}

/* CALL and LIST. 0 or -EPROTO. */
static int take_call(struct tools *t, const struct toolmsg *g)
{
	bool is_list = g->type == TOOLMSG_LIST;
	char owner[OWNER_MAX], name[SPEC_NAME], tool[TOOL_NAME];
	struct server *s;
	struct msg_in in;
	uint64_t us;

	msg_in_init(&in, g->body, g->len);
	(void)msg_get_str(&in, owner, sizeof(owner));
	(void)msg_get_str(&in, name, sizeof(name));
	if (!is_list)
		(void)msg_get_str(&in, tool, sizeof(tool));
	us = msg_get_u64(&in);
	if (in.failed || us > TIMEOUT_MAX_US * 1000000ull || (is_list && msg_end(&in) < 0))
		return -EPROTO;
	s = server_find(t, owner, name);
	if (s == NULL)
		unknown(t, g->id, name);
	else
		tool_call_new(t, g->id, s, is_list ? NULL : tool, (const char *)g->body + in.at,
			      g->len - in.at, us);
	return 0;
}

/* What a client wrote, for the next gate. 0 or -ENOMEM. */
static int keep_params(struct server *s, const uint8_t *p, size_t n)
{
	s->params = malloc(n + 1);
	if (s->params == NULL)
		return -ENOMEM;
	(void)memcpy(s->params, p, n);
	s->nparams = n;
	return 0;
}

/* A server of a client's: its variables are those that the operator lent. */
static int take_server(struct tools *t, const struct toolmsg *g)
{
	char owner[OWNER_MAX], name[SPEC_NAME];
	own_free char *text = NULL;
	struct server *old, *s;
	struct msg_in in;
	struct jsonr d;
	struct err e;
	size_t n;

	msg_in_init(&in, g->body, g->len);
	(void)msg_get_str(&in, owner, sizeof(owner));
	(void)msg_get_str(&in, name, sizeof(name));
	if (in.failed || owner[0] == '\0')
		return -EPROTO;
	n = g->len - in.at;
	text = malloc(n + 1);
	if (text == NULL) {
		gate_result(t, g->id, TOOL_FAILED, 0, "out of memory", 13);
		return 0;
	}
	(void)memcpy(text, g->body + in.at, n); /* which is read in place */
	old = server_find(t, owner, name);
	if (old != NULL && old->owner[0] == '\0')
		old = NULL;
	if (jsonr_parse(&d, text, n, NULL) < 0) {
		gate_result(t, g->id, TOOL_FAILED, 0, "it is no JSON", 13);
		return 0;
	}
	s = server_new(t, owner, name, &d, jsonr_root(&d), settings_lent, &e);
	if (s == NULL) {
		gate_result(t, g->id, TOOL_FAILED, 0, e.text, strlen(e.text));
	} else if (keep_params(s, g->body + in.at, n) < 0) {
		s->gone = true;
		gate_result(t, g->id, TOOL_FAILED, 0, "out of memory", 13);
	} else {
		if (old != NULL)
			old->gone = true; /* it was registered anew */
		gate_result(t, g->id, TOOL_DONE, 0, "", 0);
	}
	jsonr_done(&d);
	return 0;
}

static int take_text(struct tools *t, const struct toolmsg *g)
{
	char text[1024];
	struct msg_in in;

	msg_in_init(&in, g->body, g->len);
	(void)msg_get_str(&in, text, sizeof(text));
	if (msg_end(&in) < 0)
		return -EPROTO;
	if (g->type == TOOLMSG_FORGET)
		servers_forget(t, text);
	else
		server_no_box(t, g->id, text);
	return 0;
}

static int take(struct tools *t, struct toolmsg *g)
{
	switch ((enum toolmsg_type)g->type) {
	case TOOLMSG_CALL:
	case TOOLMSG_LIST:
		return take_call(t, g);
	case TOOLMSG_CANCEL:
		tool_call_cancel(t, g->id);
		return 0;
	case TOOLMSG_SERVER:
		return take_server(t, g);
	case TOOLMSG_FORGET:
	case TOOLMSG_NO_BOX:
		return take_text(t, g);
	case TOOLMSG_BOX:
		server_box(t, g->id, g->fd);
		return 0;
	case TOOLMSG_NONE:
	case TOOLMSG_HELLO:
	case TOOLMSG_KEPT:
	case TOOLMSG_RESULT:
	case TOOLMSG_BOX_WANT:
	case TOOLMSG_BOX_END:
	case TOOLMSG_SAY:
	case TOOLMSG_TYPE_MAX:
		break;
	}
	return -EPROTO;
}

static void gone(struct tools *t)
{
	toolmsg_close(&t->gate);
	servers_stop(t);
}

void gate_open(struct tools *t, int fd)
{
	if (t->gate.fd >= 0)
		gone(t);
	toolmsg_open(&t->gate, fd);
	(void)toolmsg_put(&t->gate, TOOLMSG_HELLO, 0, NULL, 0, NULL, 0, -1);
	tell_kept(t);
}

void gate_event(struct tools *t, short events)
{
	struct toolmsg g;
	int r = 0;

	if ((events & ~POLLOUT) != 0)
		r = toolmsg_fill(&t->gate);
	while (r >= 0) {
		r = toolmsg_next(&t->gate, TO_TOOLS, &g);
		if (r <= 0)
			break;
		r = take(t, &g);
	}
	if (r < 0)
		gone(t);
}
