// SPDX-License-Identifier: Apache-2.0
#include "gate/published.h"

#include "base/own.h"
#include "base/str.h"
#include "gate/gate.h"
#include "gate/ports.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>

/* --- the table of a box ----------------------------------------------------------------------------- */

static struct published *find(const struct abox *a, uint16_t port)
{
	struct published *p = a->published;

	while (p != NULL && p->port != port)
		p = p->next;
	return p;
}

static struct published *find_slot(const struct abox *a, unsigned int slot)
{
	struct published *p = a->published;

	while (p != NULL && p->slot != slot)
		p = p->next;
	return p;
}

/* A slot that nobody has; PUBLISHED_NOWHERE: there is none. */
static uint8_t free_slot(const struct abox *a)
{
	for (unsigned int i = 0; i < PUBLISHED_MAX; i++)
		if (find_slot(a, i) == NULL && a->ports[PORT_PUBLISHED + i] == NULL)
			return (uint8_t)i;
	return PUBLISHED_NOWHERE;
}

static struct published *add(struct abox *a, uint16_t port)
{
	struct published **at = &a->published, *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	while (*at != NULL && (*at)->port < port)
		at = &(*at)->next;
	*p = (struct published){ .next = *at, .a = a, .port = port, .slot = PUBLISHED_NOWHERE };
	*at = p;
	a->npublished++;
	return p;
}

static void drop(struct published *p)
{
	struct published **at = &p->a->published;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->a->npublished--;
	inbound_end_all(p);
	free(p);
}

/* --- what is told of them --------------------------------------------------------------------------- */

static void put_one(const struct published *p, struct json *j)
{
	char text[128];

	json_u64(j, "port", p->port);
	(void)snprintf(text, sizeof(text), "/v1/boxes/%s/ports/%u/", p->a->id, p->port);
	json_str(j, "path", text);
	if (p->loopback == 0) {
		json_null(j, "loopback");
		json_null(j, "url");
		return;
	}
	json_u64(j, "loopback", p->loopback);
	(void)snprintf(text, sizeof(text), "http://127.0.0.1:%u/", p->loopback);
	json_str(j, "url", text);
}

void published_put(const struct abox *a, struct json *j)
{
	json_open(j, "published_ports", '[');
	for (const struct published *p = a->published; p != NULL; p = p->next) {
		json_open(j, NULL, '{');
		put_one(p, j);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void answer(struct req *r, const struct published *p, int status)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	put_one(p, &j);
	json_close(&j, '}');
	req_json(r, status, &j);
}

/* --- another gate ------------------------------------------------------------------------------------ */

void published_save(const struct abox *a, struct msg_out *m)
{
	msg_put_u8(m, (uint8_t)a->npublished);
	for (const struct published *p = a->published; p != NULL; p = p->next) {
		msg_put_u16(m, p->port);
		msg_put_u8(m, p->slot);
	}
}

int published_load(struct abox *a, struct msg_in *in)
{
	for (unsigned int n = msg_get_u8(in); n > 0; n--) {
		uint16_t port = msg_get_u16(in);
		uint8_t slot = msg_get_u8(in);
		struct published *p = in->failed || find(a, port) != NULL ? NULL : add(a, port);

		if (p == NULL)
			return -EPROTO;
		if (slot < PUBLISHED_MAX)
			p->slot = slot;
	}
	return 0;
}

static void on_adopted(void *arg, uint16_t number, const struct err *e)
{
	struct published *p = arg;

	p->loopback = number;
	if (e == NULL)
		return;
	p->slot = PUBLISHED_NOWHERE;
	gate_log_err(p->a->g, "port_failed", e);
}

void published_adopt(struct abox *a)
{
	for (struct published *p = a->published; p != NULL; p = p->next)
		if (p->slot != PUBLISHED_NOWHERE &&
		    ports_open_one(a, PORT_PUBLISHED + p->slot, 0, on_adopted, p) < 0)
			p->slot = PUBLISHED_NOWHERE;
}

void published_end(struct abox *a)
{
	while (a->published != NULL) {
		struct published *p = a->published;
		struct req *r = p->waits;

		if (r != NULL) {
			p->waits = NULL;
			r->gone = NULL;
			own_refuse(r, OWN_GONE, NULL, "the box '%s' has ended", a->id);
		}
		drop(p);
	}
}

/* --- POST --------------------------------------------------------------------------------------------- */

struct publish {
	int64_t port, loopback;
	bool loopback_set;
};

/* clang-format off */
static const struct field rows[] = {
	{ "port", FIELD_INT, FIELD_REQUIRED, 1, 65535, 0, offsetof(struct publish, port), .doc = "of the box, where a program of it listens or will listen" },
	{ "loopback", FIELD_INT, FIELD_NULLABLE, 0, 65535, 0, offsetof(struct publish, loopback), .doc = "a port of 127.0.0.1 for it, from 1024 on; 0: a free one; null: it has its path on this server only", .set_at = offsetof(struct publish, loopback_set) },
};
/* clang-format on */
const struct fields published_fields = { "PublishPortRequest", rows, ARRAY_LEN(rows),
					 sizeof(struct publish), FIELDS_CLOSED };

static void on_publisher_gone(struct req *r)
{
	struct published *p = r->work;

	p->waits = NULL;
}

static void published_done(struct req *r, struct published *p)
{
	char port[16];

	(void)snprintf(port, sizeof(port), "%u", p->port);
	audit(r->g, "port_published", r, "tenant", p->a->tenant->name, "box", p->a->id, "port",
	      port, "on", p->loopback != 0 ? "loopback" : "path", NULL);
	abox_changed(p->a);
	answer(r, p, 201);
}

/* What was there before stays; what was made for this request goes. */
static void not_published(struct req *r, struct published *p, const struct err *e)
{
	uint16_t wanted = p->loopback;
	bool fresh = p->fresh;

	p->slot = PUBLISHED_NOWHERE;
	p->loopback = 0;
	if (fresh)
		drop(p);
	if (r == NULL)
		return;
	if (e->sys == EADDRINUSE)
		own_refuse(r, OWN_PORT_TAKEN, "loopback", "port %u of 127.0.0.1 is taken", wanted);
	else if (e->kind == ERR_USAGE)
		own_refuse(r, OWN_INVALID_FIELD, "loopback", "'loopback' is refused: %s", e->text);
	else
		own_refuse(r, OWN_UNSCHEDULABLE, NULL, "the port cannot be opened: %s", e->text);
}

static void on_opened(void *arg, uint16_t number, const struct err *e)
{
	struct published *p = arg;
	struct req *r = p->waits;

	p->waits = NULL;
	if (r != NULL)
		r->gone = NULL;
	if (e != NULL) {
		not_published(r, p, e);
		return;
	}
	p->loopback = number;
	p->fresh = false;
	if (r != NULL)
		published_done(r, p);
	else
		abox_changed(p->a);
}

static void open_port(struct req *r, struct published *p, uint16_t number)
{
	struct err e;
	int failed;

	p->slot = free_slot(p->a);
	if (p->slot == PUBLISHED_NOWHERE) {
		(void)err_set(&e, ERR_LIMIT, 0, "a box has %d ports of this machine at most",
			      PUBLISHED_MAX);
		not_published(r, p, &e);
		return;
	}
	p->loopback = number;
	failed = ports_open_one(p->a, PORT_PUBLISHED + p->slot, number, on_opened, p);
	if (failed < 0) {
		(void)err_set(&e, ERR_SYS, -failed, "ask the keeper");
		not_published(r, p, &e);
		return;
	}
	p->waits = r;
	r->work = p;
	r->gone = on_publisher_gone;
}

void published_create(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct publish in;
	struct ci_body body;
	struct published *p;

	if (a == NULL || own_decode(r, &published_fields, &body, &in) < 0)
		return;
	ci_body_done(&body);
	p = find(a, (uint16_t)in.port);
	if (p != NULL && p->waits != NULL) {
		own_refuse(r, OWN_WRONG_STATE, "port", "port %u is being published", p->port);
		return;
	}
	if (p == NULL && a->npublished >= PUBLISHED_PER_BOX) {
		own_refuse(r, OWN_TOO_MANY, "port", "a box has %d published ports at most",
			   PUBLISHED_PER_BOX);
		return;
	}
	if (p == NULL) {
		p = add(a, (uint16_t)in.port);
		if (p == NULL) {
			own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
			return;
		}
		p->fresh = true;
	}
	if (!in.loopback_set || (p->loopback != 0 && in.loopback == 0) ||
	    (p->loopback != 0 && in.loopback == p->loopback)) {
		p->fresh = false;
		published_done(r, p);
	} else if (p->loopback != 0) {
		own_refuse(r, OWN_WRONG_STATE, "loopback",
			   "port %u is published on port %u of 127.0.0.1", p->port, p->loopback);
	} else {
		open_port(r, p, (uint16_t)in.loopback);
	}
}

/* --- GET, DELETE -------------------------------------------------------------------------------------- */

/* 0: there is none of that name. */
static uint16_t port_of(struct http_slice s)
{
	uint64_t port;
	char text[8];

	if (s.n >= sizeof(text))
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s", (int)s.n, s.p);
	return str_to_u64(text, UINT16_MAX, &port) < 0 ? 0 : (uint16_t)port;
}

static struct published *find_for(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct http_slice s = r->param[1];
	struct published *p = a != NULL ? find(a, port_of(s)) : NULL;

	if (a != NULL && p == NULL)
		own_refuse(r, OWN_NOT_FOUND, "port", "port '%.*s' of this box is not published",
			   (int)(s.n < 32 ? s.n : 32), s.p);
	return p;
}

void published_list(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct json j;

	if (a == NULL)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	published_put(a, &j);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void published_get(struct req *r)
{
	const struct published *p = find_for(r);

	if (p != NULL)
		answer(r, p, 200);
}

static void withdrawn(struct req *r)
{
	req_reply(r, 204, NULL, "", 0);
}

/* Who waits for the keeper. */
struct withdrawal {
	struct req *r; /* NULL: gone */
};

static void on_withdrawer_gone(struct req *r)
{
	struct withdrawal *w = r->work;

	w->r = NULL;
}

static void on_closed(void *arg, struct chan_msg *m, const struct err *e)
{
	struct withdrawal *w = arg;
	struct req *r = w->r;

	(void)m;
	(void)e; /* the box ends, and the port with it */
	free(w);
	if (r == NULL)
		return;
	r->gone = NULL;
	withdrawn(r);
}

/* Answered when it is closed: who connects from then on is refused by the system. */
static int close_port(struct req *r, struct published *p)
{
	struct withdrawal *w = calloc(1, sizeof(*w));
	struct abox *a = p->a;
	struct msg_out m;
	uint8_t body[9];

	if (w == NULL)
		return -ENOMEM;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, a->box->id);
	msg_put_u8(&m, (uint8_t)(PORT_PUBLISHED + p->slot));
	if (keeper_ask(&a->g->keeper, OP_BOX_PORT_END, body, m.len, on_closed, w) < 0) {
		free(w);
		return -ENOMEM;
	}
	w->r = r;
	r->work = w;
	r->gone = on_withdrawer_gone;
	ports_end_one(a, PORT_PUBLISHED + p->slot);
	return 0;
}

void published_delete(struct req *r)
{
	struct published *p = find_for(r);
	struct abox *a;
	char port[16];
	bool opened;

	if (p == NULL)
		return;
	a = p->a;
	if (p->waits != NULL) {
		own_refuse(r, OWN_WRONG_STATE, "port", "port %u is being published", p->port);
		return;
	}
	opened = p->slot != PUBLISHED_NOWHERE;
	if (opened && close_port(r, p) < 0) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	(void)snprintf(port, sizeof(port), "%u", p->port);
	drop(p);
	abox_changed(a);
	audit(r->g, "port_withdrawn", r, "tenant", a->tenant->name, "box", a->id, "port", port,
	      NULL);
	if (!opened)
		withdrawn(r);
}

struct published *published_find(struct req *r, struct http_slice *ret_rest)
{
	const struct listener *l = r->conn->listener;
	struct published *p = NULL;

	if ((l->place & ROUTE_PUBLISHED) == 0) {
		*ret_rest = r->param[2];
		return find_for(r);
	}
	*ret_rest = r->param[0];
	if (l->box != NULL && l->box->state == ABOX_READY && l->box->tenant == r->tenant)
		p = find_slot(l->box, ports_which(l) - PORT_PUBLISHED);
	if (p == NULL)
		own_refuse(r, OWN_NOT_FOUND, NULL, "there is nothing here");
	return p;
}
