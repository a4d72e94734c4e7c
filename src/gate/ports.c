// SPDX-License-Identifier: Apache-2.0
#include "gate/ports.h"

#include "base/own.h"
#include "gate/tool_calls.h"
#include "wire/msg.h"

#include <stdio.h>

/* Of a listener that code in a box can reach: what it takes is taken from others. */
enum { INSIDE_CONNS = 8, INSIDE_PAUSE_US = 5 * 1000, TOOLS_PAUSE_US = 1000 };

struct port {
	struct listener l;
	struct abox *a; /* NULL: it has ended */
	enum box_port which;
	bool asked;
	uint16_t number; /* of one of this machine's: as it is asked for, and then as it is */
	port_fn opened;  /* NULL: the box itself is being made, or was taken over */
	void *arg;
	struct deferred deferred;
};

/* clang-format off */
static const struct kind {
	const char *name; /* of those on this machine: the member of a request, and of an answer */
	unsigned int place;
	bool inside;
} kinds[] = {
	[PORT_EXECUTOR] = { "executor", ROUTE_EXECUTOR, false },
	[PORT_RESOURCE] = { "resource", ROUTE_RESOURCE, false },
	[PORT_INSIDE_EXECUTOR] = { NULL, ROUTE_EXECUTOR, true },
	[PORT_INSIDE_RESOURCE] = { NULL, ROUTE_RESOURCE, true },
	[PORT_TOOLS] = { NULL, ROUTE_TOOLS, true },
	[PORT_PUBLISHED] = { NULL, ROUTE_PUBLISHED, false },
};
/* clang-format on */
_Static_assert(ARRAY_LEN(kinds) == PORT_PUBLISHED + 1, "a row for every port");

static const struct kind *kind_of(enum box_port which)
{
	return &kinds[which < PORT_PUBLISHED ? which : PORT_PUBLISHED];
}

/* --- birth -------------------------------------------------------------------------------------- */

static void port_free(void *arg)
{
	free(arg);
}

/* Its last connection has ended, and nobody accepts. */
static void on_over(struct listener *l)
{
	struct port *p = (struct port *)l; /* its first member */

	loop_defer(&l->g->loop, &p->deferred, port_free, p);
}

static struct port *port_new(struct abox *a, enum box_port which)
{
	struct port *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->a = a;
	p->which = which;
	p->l = (struct listener){ .g = a->g,
				  .fd = -1,
				  .local = true,
				  .inside = kind_of(which)->inside,
				  .place = kind_of(which)->place,
				  .box = a,
				  .over = on_over };
	if (p->l.inside) {
		p->l.most = INSIDE_CONNS;
		p->l.pause_us = which == PORT_TOOLS ? TOOLS_PAUSE_US : INSIDE_PAUSE_US;
	}
	return p;
}

/* --- asking ------------------------------------------------------------------------------------- */

static bool all_answered(const struct abox *a)
{
	for (unsigned int i = 0; i < BOX_PORTS_MAX; i++)
		if (a->ports[i] != NULL && a->ports[i]->asked)
			return false;
	return true;
}

/* The keeper does not open it: because somebody else has it, because it may not, or because this machine cannot. */
static void refused(struct port *p, const struct err *e)
{
	struct abox *a = p->a;
	const char *name = kind_of(p->which)->name;
	char field[32];

	(void)snprintf(field, sizeof(field), "ports%s%s", name != NULL ? "." : "",
		       name != NULL ? name : "");
	if (e->sys == EADDRINUSE)
		making_failed(a, OWN_PORT_TAKEN, field, "port %u of 127.0.0.1 is taken", p->number);
	else if (e->kind == ERR_USAGE)
		making_failed(a, OWN_INVALID_FIELD, field, "'%s' is refused: %s", field, e->text);
	else
		making_failed(a, OWN_UNSCHEDULABLE, NULL, "the box has no port: %s", e->text);
}

/* What the keeper has answered. -1: *ret says why there is no listener. */
static int take(struct port *p, struct chan_msg *m, const struct err *e, struct err *ret)
{
	struct msg_in in;
	uint16_t number;

	if (m == NULL) {
		*ret = *e;
		return -1;
	}
	msg_in_init(&in, m->body, m->len);
	number = msg_get_u16(&in);
	if (m->nfds != 1 || msg_end(&in) < 0) {
		chan_msg_close(m);
		return err_set(ret, ERR_PROTO, 0, "the keeper opened nothing");
	}
	p->l.fd = m->fds[0];
	p->number = number;
	if ((unsigned int)p->which < PORTS_OUTSIDE)
		p->a->port[p->which] = number;
	return 0;
}

/* One that was asked for by itself. */
static void tell(struct port *p, int failed, const struct err *e)
{
	struct abox *a = p->a;
	port_fn opened = p->opened;

	p->opened = NULL;
	if (failed < 0) {
		void *arg = p->arg;

		ports_end_one(a, p->which);
		opened(arg, 0, e);
		return;
	}
	ports_accept(a);
	opened(p->arg, p->number, NULL);
}

static void on_opened(void *arg, struct chan_msg *m, const struct err *e)
{
	struct port *p = arg;
	struct abox *a = p->a;
	struct err why;
	int failed = take(p, m, e, &why);

	p->asked = false;
	if (p->opened != NULL) {
		tell(p, failed, &why);
		return;
	}
	if (failed < 0) {
		if (a->making != NULL) {
			refused(p, &why);
			return;
		}
		gate_log_err(a->g, "port_failed", &why); /* it was taken over, and lives without */
	}
	if (p->which == PORT_TOOLS)
		tool_servers_open(a);
	if (!all_answered(a))
		return;
	if (a->making != NULL)
		making_listens(a);
	else
		ports_accept(a);
}

static int ask(struct port *p)
{
	struct abox *a = p->a;
	struct msg_out m;
	uint8_t body[11];

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, a->box->id);
	msg_put_u8(&m, (uint8_t)p->which);
	msg_put_u16(&m, p->number);
	p->asked = keeper_ask(&a->g->keeper, OP_BOX_PORT, body, m.len, on_opened, p) == 0;
	return p->asked ? 0 : -ENOMEM;
}

/* Which of them it is to have. */
static bool is_wanted(const struct abox *a, unsigned int which)
{
	return which == PORT_TOOLS ? a->tools.n > 0 : a->listens;
}

static int open_all(struct abox *a)
{
	for (unsigned int i = 0; i < PORT_PUBLISHED; i++) {
		if (!is_wanted(a, i))
			continue;
		a->ports[i] = port_new(a, (enum box_port)i);
		if (a->ports[i] == NULL)
			return -ENOMEM;
		if (i < PORTS_OUTSIDE)
			a->ports[i]->number = a->port[i];
		if (ask(a->ports[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

int ports_open_one(struct abox *a, unsigned int which, uint16_t number, port_fn opened, void *arg)
{
	struct port *p = port_new(a, (enum box_port)which);

	if (p == NULL)
		return -ENOMEM;
	p->number = number;
	p->opened = opened;
	p->arg = arg;
	a->ports[which] = p;
	if (ask(p) == 0)
		return 0;
	ports_end_one(a, which);
	return -ENOMEM;
}

unsigned int ports_which(const struct listener *l)
{
	return ((const struct port *)l)->which; /* its first member */
}

void ports_open(struct abox *a)
{
	if (open_all(a) < 0)
		making_failed(a, OWN_NO_MEMORY, NULL, "out of memory");
}

bool ports_open_tools(struct abox *a)
{
	struct err e;

	if (a->ports[PORT_TOOLS] != NULL)
		return !a->ports[PORT_TOOLS]->asked;
	a->ports[PORT_TOOLS] = port_new(a, PORT_TOOLS);
	if (a->ports[PORT_TOOLS] != NULL && ask(a->ports[PORT_TOOLS]) == 0)
		return false;
	(void)err_set(&e, ERR_SYS, ENOMEM, "open the socket for tools of a box");
	gate_log_err(a->g, "port_failed", &e);
	return true; /* there will be no other */
}

void ports_adopt(struct abox *a)
{
	struct err e;

	if (open_all(a) == 0)
		return;
	(void)err_set(&e, ERR_SYS, ENOMEM, "open the ports of a box");
	gate_log_err(a->g, "port_failed", &e);
}

/* --- life and end --------------------------------------------------------------------------------- */

void ports_accept(struct abox *a)
{
	for (unsigned int i = 0; i < BOX_PORTS_MAX; i++) {
		struct port *p = a->ports[i];
		struct err e;
		bool fresh = p != NULL && p->l.fd >= 0 && !p->l.accepting;
		int r = fresh ? listener_add(a->g, &p->l) : 0;

		if (r < 0) {
			(void)err_set(&e, ERR_SYS, -r, "watch a port of a box");
			gate_log_err(a->g, "port_failed", &e);
		}
	}
}

void ports_end_one(struct abox *a, unsigned int which)
{
	struct port *p = a->ports[which];

	if (p == NULL)
		return;
	a->ports[which] = NULL;
	keeper_forget(&a->g->keeper, p);
	p->a = NULL;
	p->l.box = NULL;
	listener_end(&p->l);
}

void ports_end(struct abox *a)
{
	for (unsigned int i = 0; i < BOX_PORTS_MAX; i++)
		ports_end_one(a, i);
}

void ports_put(const struct abox *a, struct json *j)
{
	if (!a->listens) {
		json_null(j, "ports");
		return;
	}
	json_open(j, "ports", '{');
	for (unsigned int i = 0; i < PORTS_OUTSIDE; i++)
		json_u64(j, kinds[i].name, a->port[i]);
	json_close(j, '}');
}

/* --- requests ------------------------------------------------------------------------------------- */

int req_box(struct req *r, struct abox **ret)
{
	const struct listener *l = r->conn != NULL ? r->conn->listener : NULL;

	*ret = NULL;
	if ((r->route->flags & ROUTE_IN_BOX) != 0) {
		*ret = abox_find(r, true);
		return *ret != NULL ? 0 : -1;
	}
	if (l == NULL || (l->place & ROUTE_MAIN) != 0)
		return 0;
	if (l->box != NULL && l->box->state == ABOX_READY && l->box->tenant == r->tenant) {
		*ret = l->box;
		return 0;
	}
	req_refuse(r, 404, "not_found", NULL, "Not Found"); /* to others it does not exist */
	return -1;
}

struct http_slice req_param(const struct req *r)
{
	return r->param[(r->route->flags & ROUTE_IN_BOX) != 0 ? 1 : 0];
}
