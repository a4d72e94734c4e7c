// SPDX-License-Identifier: Apache-2.0
#include "gate/tool_link.h"

#include "base/own.h"
#include "base/str.h"
#include "gate/boxes.h"
#include "gate/gate.h"
#include "gate/tool_calls.h"
#include "gate/tool_rules.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>

enum { AGAIN_US = 500 * 1000, SOON_US = 20 * 1000, BOXES_MOST = 64, HEAD_MAX = 1024 };

struct tool_ask {
	struct tool_ask *next;
	struct gate *g;
	uint64_t id;
	uint16_t type;
	bool sent;
	uint8_t head[HEAD_MAX];
	size_t nhead;
	char *body; /* until it is sent */
	size_t nbody;
	tool_fn *fn;
	void *arg;
};

/* A box that a server runs in. */
struct tool_box {
	struct tool_box *next;
	struct gate *g;
	uint64_t id; /* the tools process's */
	struct gbox *box;
	char server[80];
};

static void connect_tools(struct gate *g);

/* --- what is asked ------------------------------------------------------------------------------------ */

static void unlink_ask(struct tool_link *l, const struct tool_ask *a)
{
	struct tool_ask **at = &l->asks;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	l->nasks--;
}

static void free_ask(struct tool_ask *a)
{
	free(a->body);
	free(a);
}

static void finish(struct tool_link *l, struct tool_ask *a, enum tool_outcome how, uint64_t code,
		   const char *text, size_t n)
{
	unlink_ask(l, a);
	a->fn(a->arg, how, code, text, n);
	free_ask(a);
}

static void finish_text(struct tool_link *l, struct tool_ask *a, enum tool_outcome how,
			const char *text)
{
	finish(l, a, how, 0, text, strlen(text));
}

/* 0, or -1: it has failed. */
static int send_ask(struct tool_link *l, struct tool_ask *a)
{
	int r;

	if (a->sent || l->s.fd < 0 || !l->hello)
		return 0;
	r = toolmsg_put(&l->s, a->type, a->id, a->head, a->nhead, a->body, a->nbody, -1);
	if (r < 0) {
		finish_text(l, a, TOOL_BUSY, "the tools process is busy");
		return -1;
	}
	a->sent = true;
	free(a->body);
	a->body = NULL;
	return 0;
}

static void send_all(struct gate *g)
{
	struct tool_ask *a = g->tools.asks;

	while (a != NULL) {
		struct tool_ask *next = a->next;

		if (send_ask(&g->tools, a) < 0)
			next = g->tools.asks; /* others may have gone with it */
		a = next;
	}
}

static void begin(struct gate *g)
{
	if (g->tools.g != NULL)
		return;
	g->tools.g = g;
	toolmsg_open(&g->tools.s, -1);
	g->tools.watch.fd = -1;
}

void tools_resume(struct gate *g)
{
	begin(g);
	connect_tools(g);
}

static struct tool_ask *ask_new(struct gate *g, uint16_t type, const struct msg_out *head,
				const char *body, size_t n, tool_fn *fn, void *arg)
{
	struct tool_link *l = &g->tools;
	struct tool_ask *a =
		l->nasks < TOOL_ASKS_MAX && !head->failed ? calloc(1, sizeof(*a)) : NULL;
	struct tool_ask **at;

	begin(g);
	if (a != NULL && n > 0) {
		a->body = malloc(n);
		if (a->body == NULL) {
			free(a);
			a = NULL;
		}
	}
	if (a == NULL)
		return NULL;
	a->g = g;
	a->id = ++l->next;
	a->type = type;
	a->fn = fn;
	a->arg = arg;
	(void)memcpy(a->head, head->buf, head->len);
	a->nhead = head->len;
	if (n > 0)
		(void)memcpy(a->body, body, n);
	a->nbody = n;
	for (at = &l->asks; *at != NULL;)
		at = &(*at)->next;
	*at = a;
	l->nasks++;
	if (l->s.fd < 0)
		connect_tools(g);
	return a;
}

struct tool_ask *tools_call(struct gate *g, const char *owner, const char *server, const char *tool,
			    const char *arguments, size_t n, uint64_t timeout_us, tool_fn *fn,
			    void *arg)
{
	uint8_t head[HEAD_MAX];
	struct msg_out m;

	msg_out_init(&m, head, sizeof(head));
	msg_put_str(&m, owner);
	msg_put_str(&m, server);
	msg_put_str(&m, tool);
	msg_put_u64(&m, timeout_us);
	return ask_new(g, TOOLMSG_CALL, &m, arguments, n, fn, arg);
}

struct tool_ask *tools_list(struct gate *g, const char *owner, const char *server,
			    uint64_t timeout_us, tool_fn *fn, void *arg)
{
	uint8_t head[HEAD_MAX];
	struct msg_out m;

	msg_out_init(&m, head, sizeof(head));
	msg_put_str(&m, owner);
	msg_put_str(&m, server);
	msg_put_u64(&m, timeout_us);
	return ask_new(g, TOOLMSG_LIST, &m, NULL, 0, fn, arg);
}

static void put_server(struct msg_out *m, uint8_t *head, const char *owner, const char *server)
{
	msg_out_init(m, head, HEAD_MAX);
	msg_put_str(m, owner);
	msg_put_str(m, server);
}

struct tool_ask *tools_register(struct gate *g, const char *owner, const char *server,
				const char *params, size_t n, tool_fn *fn, void *arg)
{
	uint8_t head[HEAD_MAX];
	struct msg_out m;

	put_server(&m, head, owner, server);
	return ask_new(g, TOOLMSG_SERVER, &m, params, n, fn, arg);
}

void tools_forget(struct gate *g, const char *owner)
{
	uint8_t body[HEAD_MAX];
	struct msg_out m;

	if (g->tools.g == NULL || g->tools.s.fd < 0)
		return;
	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, owner);
	(void)toolmsg_put(&g->tools.s, TOOLMSG_FORGET, 0, body, m.len, NULL, 0, -1);
}

/* What another one was told of servers is told to this one. */
static void tell_servers(struct gate *g)
{
	g->tools.hello = true;
	for (const struct abox *a = g->aboxes; a != NULL; a = a->next)
		for (const struct tool_server *s = a->servers; s != NULL; s = s->next) {
			uint8_t head[HEAD_MAX];
			struct msg_out m;

			put_server(&m, head, a->id, s->name);
			(void)toolmsg_put(&g->tools.s, TOOLMSG_SERVER, 0, head, m.len, s->params,
					  s->n, -1);
		}
}

void tools_cancel(struct tool_ask *a)
{
	struct tool_link *l = &a->g->tools;

	if (a->sent && l->s.fd >= 0)
		(void)toolmsg_put(&l->s, TOOLMSG_CANCEL, a->id, NULL, 0, NULL, 0, -1);
	unlink_ask(l, a);
	free_ask(a);
}

/* --- boxes for servers -------------------------------------------------------------------------------- */

static void drop_box(struct tool_link *l, struct tool_box *b)
{
	struct tool_box **at = &l->boxes;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	free(b);
}

static void no_box(struct gate *g, uint64_t id, const char *why)
{
	uint8_t body[512];
	struct msg_out m;
	char cut[400];

	(void)snprintf(cut, sizeof(cut), "%s", why);
	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, cut);
	(void)toolmsg_put(&g->tools.s, TOOLMSG_NO_BOX, id, body, m.len, NULL, 0, -1);
}

static void on_box_ready(void *arg, struct gbox *box)
{
	struct tool_box *b = arg;

	audit(b->g, "box_made", NULL, "for", "mcp_server", "server", b->server, "policy",
	      "network none", NULL);
	if (toolmsg_put(&b->g->tools.s, TOOLMSG_BOX, b->id, NULL, 0, NULL, 0,
			gbox_give_stream(box)) < 0) {
		gbox_end(box, NULL, NULL);
		drop_box(&b->g->tools, b);
	}
}

static void on_box_failed(void *arg, const struct err *e)
{
	struct tool_box *b = arg;

	no_box(b->g, b->id, e->text);
	drop_box(&b->g->tools, b);
}

static void on_box_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	struct tool_box *b = arg;

	(void)f;
	no_box(b->g, b->id,
	       why == BOX_END_INIT ? "its box has ended: out of memory, or killed"
				   : "its box has ended");
	drop_box(&b->g->tools, b);
}

static const struct gbox_ops box_ops = { .ready = on_box_ready,
					 .failed = on_box_failed,
					 .gone = on_box_gone };

/* What a server is to have: limits and directories, which the keeper checks as it does those of every box. */
static int take_wish(struct gate *g, struct msg_in *in, struct box_request *q, struct err *e)
{
	uint32_t n;

	box_standard(g, q);
	q->flags &= ~(uint32_t)(BOX_KIT | BOX_TOOLS);
	n = msg_get_u32(in);
	for (uint32_t i = 0; i < n && !in->failed; i++) {
		uint16_t which = msg_get_u16(in);
		uint64_t v = msg_get_u64(in);

		if (which >= LIMIT_ID_MAX)
			return err_set(e, ERR_PROTO, 0, "an unknown limit");
		q->limits.v[which] = v;
	}
	n = msg_get_u32(in);
	if (n > BOX_MOUNTS_MAX)
		return err_set(e, ERR_PROTO, 0, "too many directories");
	for (uint32_t i = 0; i < n && !in->failed; i++) {
		struct box_mount *m = &q->mounts[q->nmounts];
		char root[PATH_MAX];
		int which;

		(void)msg_get_str(in, root, sizeof(root));
		(void)msg_get_str(in, m->path, sizeof(m->path));
		(void)msg_get_str(in, m->at, sizeof(m->at));
		m->read_only = msg_get_u8(in) != 0;
		which = box_find_root(g, root);
		if (which < 0)
			return err_set(e, ERR_INPUT, 0,
				       "'%.200s' is no directory that may be mounted (mount_root)",
				       root);
		m->root = (uint16_t)which;
		q->nmounts++;
	}
	return msg_end(in) < 0 ? err_set(e, ERR_PROTO, 0, "a malformed wish") : 0;
}

static void take_want(struct gate *g, const struct toolmsg *m)
{
	static struct box_request q;
	struct tool_box *b = calloc(1, sizeof(*b));
	unsigned int n = 0;
	struct msg_in in;
	struct err e;

	for (const struct tool_box *other = g->tools.boxes; other != NULL; other = other->next)
		n++;
	if (b == NULL || n >= BOXES_MOST) {
		free(b);
		no_box(g, m->id, "there are as many boxes of servers as there may be");
		return;
	}
	b->g = g;
	b->id = m->id;
	msg_in_init(&in, m->body, m->len);
	(void)msg_get_str(&in, b->server, sizeof(b->server));
	if (take_wish(g, &in, &q, &e) == 0)
		b->box = gbox_new(g, &q, &box_ops, b, &e);
	if (b->box == NULL) {
		no_box(g, m->id, e.text);
		free(b);
		return;
	}
	b->next = g->tools.boxes;
	g->tools.boxes = b;
}

static void end_box(struct gate *g, uint64_t id)
{
	struct tool_box *b = g->tools.boxes;

	while (b != NULL && b->id != id)
		b = b->next;
	if (b == NULL)
		return;
	gbox_end(b->box, NULL, NULL);
	drop_box(&g->tools, b);
}

/* --- what it says --------------------------------------------------------------------------------------- */

static int take_result(struct gate *g, const struct toolmsg *m)
{
	struct tool_ask *a = g->tools.asks;
	struct msg_in in;
	uint64_t code;
	uint8_t how;

	msg_in_init(&in, m->body, m->len);
	how = msg_get_u8(&in);
	code = msg_get_u64(&in);
	if (in.failed || how >= TOOL_OUTCOME_MAX)
		return -EPROTO;
	while (a != NULL && (a->id != m->id || !a->sent))
		a = a->next;
	if (a != NULL)
		finish(&g->tools, a, (enum tool_outcome)how, code, (const char *)m->body + in.at,
		       m->len - in.at);
	return 0;
}

/* Of a server that another gate has registered. */
static int take_kept(struct gate *g, const struct toolmsg *m)
{
	char owner[OWN_ID], name[TOOL_SERVER_MAX + 1];
	struct abox *a = g->aboxes;
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	(void)msg_get_str(&in, owner, sizeof(owner));
	(void)msg_get_str(&in, name, sizeof(name));
	if (in.failed)
		return -EPROTO;
	while (a != NULL && strcmp(a->id, owner) != 0)
		a = a->next;
	if (a == NULL || a->state == ABOX_ENDING)
		tools_forget(g, owner);
	else
		tool_server_kept(a, name, (const char *)m->body + in.at, m->len - in.at);
	return 0;
}

static int take_say(struct gate *g, const struct toolmsg *m)
{
	char event[64], server[80], text[1024];
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	(void)msg_get_str(&in, event, sizeof(event));
	(void)msg_get_str(&in, server, sizeof(server));
	(void)msg_get_str(&in, text, sizeof(text));
	if (msg_end(&in) < 0)
		return -EPROTO;
	log_line(&g->log, LOG_INFO, "tool_server", log_str("what", event),
		 log_str("server", server), log_str("text", text));
	return 0;
}

static int take(struct gate *g, const struct toolmsg *m)
{
	if (m->type == TOOLMSG_RESULT)
		return take_result(g, m);
	if (m->type == TOOLMSG_SAY)
		return take_say(g, m);
	if (m->type == TOOLMSG_KEPT)
		return take_kept(g, m);
	if (m->type == TOOLMSG_HELLO)
		tell_servers(g);
	else if (m->type == TOOLMSG_BOX_WANT)
		take_want(g, m);
	else
		end_box(g, m->id);
	return 0;
}

/* --- the stream ------------------------------------------------------------------------------------------ */

static void on_again(void *arg)
{
	struct gate *g = arg;

	if (g->tools.asks != NULL)
		connect_tools(g);
}

static void lost(struct gate *g)
{
	struct tool_link *l = &g->tools;
	struct tool_ask *a;

	loop_unwatch(&g->loop, &l->watch);
	toolmsg_close(&l->s);
	while (l->boxes != NULL)
		end_box(g, l->boxes->id);
	log_line(&g->log, LOG_WARN, "tools_lost");
	do {
		for (a = l->asks; a != NULL && !a->sent;)
			a = a->next;
		if (a != NULL)
			finish_text(l, a, TOOL_FAILED, "the tools process has ended");
	} while (a != NULL);
	if (l->asks != NULL &&
	    timer_set(&g->loop, &l->again, g->loop.now_us + SOON_US, on_again, g) < 0)
		connect_tools(g);
}

void tools_flush(struct gate *g)
{
	struct tool_link *l = &g->tools;

	if (l->g == NULL || l->s.fd < 0)
		return;
	send_all(g);
	if (toolmsg_flush(&l->s) < 0) {
		lost(g);
		return;
	}
	loop_change(&g->loop, &l->watch, toolmsg_queued(&l->s) > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_event(void *arg, uint32_t events)
{
	struct gate *g = arg;
	struct toolmsg m;
	int r = 0;

	if ((events & ~(uint32_t)EPOLLOUT) != 0)
		r = toolmsg_fill(&g->tools.s);
	while (r >= 0) {
		r = toolmsg_next(&g->tools.s, FROM_TOOLS, &m);
		if (r <= 0)
			break;
		r = take(g, &m);
	}
	if (r < 0)
		lost(g);
}

static void fail_all(struct gate *g, const char *why)
{
	while (g->tools.asks != NULL)
		finish_text(&g->tools, g->tools.asks, TOOL_FAILED, why);
}

static void on_stream(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gate *g = arg;
	struct tool_link *l = &g->tools;

	l->asking = false;
	if (m == NULL || m->nfds != 1) {
		if (m != NULL)
			chan_msg_close(m);
		/* It ends soon after it begins, say: those who wait are told, and the next one tries again. */
		if (m == NULL && e->sys == EAGAIN &&
		    timer_set(&g->loop, &l->again, g->loop.now_us + AGAIN_US, on_again, g) == 0)
			return;
		fail_all(g, m == NULL ? e->text : "there is no tools process");
		return;
	}
	toolmsg_open(&l->s, m->fds[0]);
	l->hello = false;
	if (loop_watch(&g->loop, &l->watch, l->s.fd, EPOLLIN, on_event, g) < 0) {
		toolmsg_close(&l->s);
		fail_all(g, "the tools process cannot be watched");
	}
}

static void connect_tools(struct gate *g)
{
	struct tool_link *l = &g->tools;

	if (l->asking || l->again.place != 0 || g->adopting)
		return;
	l->asking = keeper_ask(&g->keeper, OP_TOOLS, NULL, 0, on_stream, g) == 0;
	if (!l->asking)
		(void)timer_set(&g->loop, &l->again, g->loop.now_us + AGAIN_US, on_again, g);
}
