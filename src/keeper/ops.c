// SPDX-License-Identifier: Apache-2.0
/*
 * The keeper's surface: one row per operation, checked before its handler sees the message.
 *
 * The gate parses what clients send and is assumed to be compromised one day. Above each handler
 * stands why it is safe then.
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/msg.h"

#include <stdlib.h>
#include <string.h>

enum state_bits { ST_HELLO = 1, ST_READY = 2 };

enum { LAST_WORDS = 65536 }; /* messages: more than a socket holds */

struct op {
	const char *name;
	unsigned int states;
	size_t min, max;
	unsigned int fds;
	int (*run)(struct keeper *k, struct chan_msg *m);
};

#define OP(id, state, min, max, fds, doc) static int op_##id(struct keeper *k, struct chan_msg *m);
#include "wire/ops.tbl"
#undef OP

static const struct op ops[] = {
	[OP_NONE] = { 0 },
#define OP(id, state, min, max, fds, doc) [OP_##id] = { #id, state, min, max, fds, op_##id },
#include "wire/ops.tbl"
#undef OP
};

void ops_tell(struct keeper *k, uint16_t type, uint64_t request, const void *body, size_t len,
	      const int *fd)
{
	int r = 0;

	if (!k->gate_gone && !k->hearing_out)
		r = chan_send(k->gate_fd, type, request, body, len, fd, fd != NULL ? 1 : 0);
	/* A gate that does not read is as good as dead; nobody waits for it. Of one that is dead there may be more to read. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		keeper_drop_gate(k);
}

void ops_mention(struct keeper *k, uint16_t type, const void *body, size_t len)
{
	if (!k->gate_gone && chan_has_room(k->gate_fd))
		ops_tell(k, type, 0, body, len, NULL);
}

void ops_ok(struct keeper *k, uint64_t request, const void *body, size_t len, const int *fd)
{
	ops_tell(k, REPLY_OK, request, body, len, fd);
}

void ops_failed(struct keeper *k, uint64_t request, const struct err *e)
{
	uint8_t body[ERR_TEXT + ERR_HINT + 32];
	ptrdiff_t n = failed_encode(e, body, sizeof(body));

	if (n > 0)
		ops_tell(k, REPLY_FAILED, request, body, (size_t)n, NULL);
}

void ops_hear_out(struct keeper *k)
{
	static struct chan_msg m;

	k->hearing_out = true;
	for (int i = 0; i < LAST_WORDS && !k->gate_gone && chan_recv(k->gate_fd, &m) > 0; i++) {
		if (m.type == OP_BOX_NEW) /* nobody would have it */
			chan_msg_close(&m);
		else if (ops_handle(k, &m) < 0)
			break;
	}
	k->hearing_out = false;
}

int ops_handle(struct keeper *k, struct chan_msg *m)
{
	unsigned int state = k->hello ? ST_READY : ST_HELLO;
	const struct op *op = m->type > OP_NONE && m->type < OP_TYPE_MAX ? &ops[m->type] : NULL;

	if (op == NULL || (op->states & state) == 0 || m->len < op->min || m->len > op->max ||
	    m->nfds != op->fds) {
		chan_msg_close(m);
		return -1;
	}
	k->server.gate.asked = false; /* whatever it says, it lives */
	return op->run(k, m);
}

static struct box *ready_box(struct keeper *k, struct chan_msg *m, struct msg_in *in)
{
	struct box *b;
	struct err e;

	msg_in_init(in, m->body, m->len);
	b = box_find(k, msg_get_u64(in));
	if (b != NULL && b->state == BOX_READY)
		return b;
	(void)err_set(&e, ERR_INPUT, 0, "there is no such box");
	ops_failed(k, m->request, &e);
	return NULL;
}

/* Two numbers, once. */
static int op_HELLO(struct keeper *k, struct chan_msg *m)
{
	uint8_t body[8];
	struct msg_in in;
	struct msg_out out;
	uint32_t version, oldest;

	msg_in_init(&in, m->body, m->len);
	version = msg_get_u32(&in);
	oldest = msg_get_u32(&in);
	if (msg_end(&in) < 0 || version < KEEPER_PROTO_OLDEST || oldest > KEEPER_PROTO_VERSION)
		return -1;
	k->hello = true;
	msg_out_init(&out, body, sizeof(body));
	msg_put_u32(&out, KEEPER_PROTO_VERSION);
	msg_put_u32(&out, KEEPER_PROTO_OLDEST);
	ops_ok(k, m->request, body, out.len, NULL);
	refusals_new_gate(k);
	return 0;
}

/* What was heard of boxes, which are all the gate's. */
static int op_REFUSALS(struct keeper *k, struct chan_msg *m)
{
	static uint8_t body[REFUSALS_MAX * 12];

	ops_ok(k, m->request, body, refusals_take(k, body, sizeof(body)), NULL);
	return 0;
}

/* What a box writes there is its own, and read by boxes only; how much that may be follows from what its programs have, which its limit of memory bounds. */
static int op_BOX_COPY(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct box *b = ready_box(k, m, &in);
	uint32_t image = msg_get_u32(&in);
	uint64_t bytes = msg_get_u64(&in);
	struct err e;

	if (msg_end(&in) < 0)
		return -1;
	if (b == NULL)
		return 0;
	box_taken(b);
	if (image_copy(k, b, image, bytes, m->request, &e) < 0)
		ops_failed(k, m->request, &e);
	return 0;
}

/* Names of the gate's own, bounded in number and length. */
static int op_IMAGE_NEW(struct keeper *k, struct chan_msg *m)
{
	char label[IMAGE_LABEL_MAX];
	uint8_t body[4];
	struct msg_in in;
	struct msg_out out;
	uint32_t id;
	struct err e;

	msg_in_init(&in, m->body, m->len);
	(void)msg_get_str(&in, label, sizeof(label));
	if (msg_end(&in) < 0)
		return -1;
	if (image_new(k, label, &id, &e) < 0) {
		ops_failed(k, m->request, &e);
		return 0;
	}
	msg_out_init(&out, body, sizeof(body));
	msg_put_u32(&out, id);
	ops_ok(k, m->request, body, out.len, NULL);
	return 0;
}

/* What is in it is for boxes; sealed or not, it is never looked at here. */
static int op_IMAGE_SEAL(struct keeper *k, struct chan_msg *m)
{
	uint8_t body[8];
	struct msg_in in;
	struct msg_out out;
	uint64_t bytes, used;
	struct err e;
	uint32_t id;

	msg_in_init(&in, m->body, m->len);
	id = msg_get_u32(&in);
	used = msg_get_u64(&in);
	if (image_seal(k, id, used, &bytes, &e) < 0) {
		ops_failed(k, m->request, &e);
		return 0;
	}
	msg_out_init(&out, body, sizeof(body));
	msg_put_u64(&out, bytes);
	ops_ok(k, m->request, body, out.len, NULL);
	return 0;
}

/* Boxes that were made from it keep it. */
static int op_IMAGE_DROP(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	image_drop(k, msg_get_u32(&in));
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* A compromised gate could speak to what the operator named, and to nothing else. How many of them there are is bounded by its
 * descriptors. */
static int op_WAY_OPEN(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	own_fd fd = -1;
	struct err e;
	uint8_t which;

	msg_in_init(&in, m->body, m->len);
	which = msg_get_u8(&in);
	fd = way_open(&k->ways, which, &e);
	if (fd < 0)
		ops_failed(k, m->request, &e);
	else
		ops_ok(k, m->request, NULL, 0, &fd);
	return msg_end(&in);
}

/* A process of ours that has secrets of the operator's, and does with them what its servers are there for. What a gate that was taken over could ask of it
 * is what boxes ask of it. */
static int op_TOOLS(struct keeper *k, struct chan_msg *m)
{
	own_fd fd = -1;
	struct err e;

	if (server_tools(k, &fd, &e) < 0)
		ops_failed(k, m->request, &e);
	else
		ops_ok(k, m->request, NULL, 0, &fd);
	return 0;
}

/* Tells a new gate what the old one had. */
static int op_IMAGE_LIST(struct keeper *k, struct chan_msg *m)
{
	uint8_t body[IMAGES_MAX * (IMAGE_LABEL_MAX + 32)];
	struct msg_out out;

	msg_out_init(&out, body, sizeof(body));
	for (unsigned int i = 0; i < IMAGES_MAX; i++) {
		const struct image_slot *s = &k->images[i];

		if (s->id == 0 || s->dropped)
			continue;
		msg_put_u32(&out, s->id);
		msg_put_u8(&out, s->sealed);
		msg_put_u64(&out, clock_us() - s->born_us);
		msg_put_str(&out, s->label);
	}
	ops_ok(k, m->request, body, out.len, NULL);
	return 0;
}

/* Names and numbers, and nothing of where they lie. */
static int op_ENV_LIST(struct keeper *k, struct chan_msg *m)
{
	own_fd fd = envs_list(k);
	uint8_t body[4];
	struct msg_out out;
	struct err e;

	msg_out_init(&out, body, sizeof(body));
	msg_put_u32(&out, k->env_tables);
	if (fd >= 0) {
		ops_ok(k, m->request, body, out.len, &fd);
		return 0;
	}
	(void)err_set(&e, ERR_SYS, -fd, "list the environments");
	ops_failed(k, m->request, &e);
	return 0;
}

static int op_ENV_TAKEN(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	envs_are_taken(k, msg_get_u32(&in));
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* Passed on unread. What the supervisor does about it is what the operator allows it to. */
static int op_ENV_BUILD(struct keeper *k, struct chan_msg *m)
{
	struct err e;

	if (server_build(k, m) == 0) {
		ops_ok(k, m->request, NULL, 0, NULL);
		return 0;
	}
	(void)err_set(&e, ERR_INPUT, 0, "nobody is there to build environments");
	ops_failed(k, m->request, &e);
	return 0;
}

/* A word to the operator. */
static int op_SERVING(struct keeper *k, struct chan_msg *m)
{
	server_serving(k);
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* That it came is all. A gate that was taken over can say so and do nothing else: it could do nothing anyway. */
static int op_ALIVE(struct keeper *k, struct chan_msg *m)
{
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* Passed on unread; the supervisor decodes it as it does every message. */
static int op_TRIED(struct keeper *k, struct chan_msg *m)
{
	server_tried(k, m);
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* Limits are checked against policy/limits.tbl, mounts are opened beneath the operator's roots,
 * and a waiver takes no layer away: it accepts that this machine lacks one. A box made by a
 * compromised gate is as sealed as this machine can make it. */
static int op_BOX_NEW(struct keeper *k, struct chan_msg *m)
{
	static struct box_request q;
	struct err e;

	if (box_request_decode(m->body, m->len, &q, &e) < 0 || box_new(k, &q, m->request, &e) < 0) {
		if (e.kind == ERR_PROTO)
			return -1;
		ops_failed(k, m->request, &e);
	}
	return 0;
}

/* A gate owns its boxes' streams anyway; the old one is dropped by init. */
static int op_BOX_ATTACH(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct box *b = ready_box(k, m, &in);
	struct box_info info;
	uint8_t body[1024];
	own_fd stream = -1;
	struct err e;
	ptrdiff_t n;

	if (b == NULL)
		return msg_end(&in);
	box_taken(b);
	if (box_attach(b, &stream, &e) < 0) {
		ops_failed(k, m->request, &e);
		return 0;
	}
	info = (struct box_info){ .box = b->id,
				  .layers = b->layers,
				  .setup_us = b->setup_us,
				  .image = b->image,
				  .env = b->env };
	(void)memcpy(info.step_us, b->step_us, sizeof(info.step_us));
	n = box_info_encode(&info, body, sizeof(body));
	ops_ok(k, m->request, body, (size_t)n, &stream);
	return msg_end(&in);
}

/* Reads the box's own counters. */
static int op_BOX_FIGURES(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	const struct box *b = ready_box(k, m, &in);
	struct box_figures f;
	uint8_t body[128];
	ptrdiff_t n;

	if (b == NULL)
		return msg_end(&in);
	box_figures(k, b, &f);
	n = box_figures_encode(&f, body, sizeof(body));
	ops_ok(k, m->request, body, (size_t)n, NULL);
	return msg_end(&in);
}

/* Limits are checked as those of BOX_NEW are, and a box could have been made with them. What is written to is its own cgroup
 * and three file systems of its own, by descriptors that were there before init: nothing in the box can put another thing in
 * their place, whatever runs there. */
static int op_BOX_LIMITS(struct keeper *k, struct chan_msg *m)
{
	struct limits l;
	struct msg_in in;
	struct box *b;
	uint64_t id;
	struct err e;

	if (box_limits_decode(m->body, m->len, &id, &l, &e) < 0) {
		if (e.kind == ERR_PROTO)
			return -1;
		ops_failed(k, m->request, &e);
		return 0;
	}
	b = ready_box(k, m, &in);
	if (b == NULL)
		return 0;
	if (box_limit(k, b, &l, &e) < 0)
		ops_failed(k, m->request, &e);
	else
		ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* A number; the worst is a box that lives longer or shorter than its client wanted. */
static int op_BOX_DEADLINE(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct box *b = ready_box(k, m, &in);
	uint64_t us = msg_get_u64(&in);

	if (msg_end(&in) < 0)
		return -1;
	if (b == NULL)
		return 0;
	box_taken(b);
	b->deadline_us = us == 0 || us > UINT64_MAX / 2 ? UINT64_MAX : clock_us() + us;
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* Bytes that are stored and given back unread, bounded per box. */
static int op_BOX_RECORD(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct box *b = ready_box(k, m, &in);
	size_t n;
	const uint8_t *p = msg_get_bytes(&in, BOX_RECORD_MAX, &n);
	uint8_t *copy;

	if (msg_end(&in) < 0)
		return -1;
	if (b == NULL)
		return 0;
	box_taken(b);
	copy = malloc(n + 1);
	if (copy == NULL) {
		struct err e;

		(void)err_set(&e, ERR_SYS, ENOMEM, "keep a record");
		ops_failed(k, m->request, &e);
		return 0;
	}
	(void)memcpy(copy, p, n);
	free(b->record);
	b->record = copy;
	b->record_len = n;
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* A listener on loopback is what every user of this machine can have; ports that are root's are refused, how many there are is
 * bounded, and it goes with its box. Which port is an operator's word more than a gate's (box_ports). */
static int op_BOX_PORT(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct msg_out out;
	struct box *b = ready_box(k, m, &in);
	uint8_t which = msg_get_u8(&in), body[2];
	uint16_t port = msg_get_u16(&in);
	struct err e;

	if (msg_end(&in) < 0 || which >= BOX_PORTS_MAX)
		return -1;
	if (b == NULL)
		return 0;
	box_taken(b);
	if (port_open(k, b, (enum box_port)which, port, &e) < 0) {
		ops_failed(k, m->request, &e);
		return 0;
	}
	msg_out_init(&out, body, sizeof(body));
	msg_put_u16(&out, b->port[which]);
	ops_ok(k, m->request, body, out.len, &b->port_fd[which]);
	return 0;
}

static int op_BOX_PORT_END(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct box *b = ready_box(k, m, &in);
	uint8_t which = msg_get_u8(&in);

	if (msg_end(&in) < 0 || which < PORT_PUBLISHED || which >= BOX_PORTS_MAX)
		return -1;
	if (b == NULL)
		return 0;
	port_close(k, b, (enum box_port)which);
	ops_ok(k, m->request, NULL, 0, NULL);
	return 0;
}

/* Routes of a namespace that has no interface, and bytes for egress, which reads them as what a stranger sends. A gate that was taken over lets its boxes reach what egress can
 * reach, as every client could ask it to. */
static int op_BOX_NET(struct keeper *k, struct chan_msg *m)
{
	static struct box_net q;
	struct msg_in in;
	struct box *b;
	struct err e;

	if (box_net_decode(m->body, m->len, &q) < 0)
		return -1;
	b = ready_box(k, m, &in);
	if (b == NULL)
		return 0;
	box_taken(b);
	if (boxnet_set(k, b, &q, m->request, &e) < 0)
		ops_failed(k, m->request, &e);
	return 0;
}

/* Tells a new gate what the old one said. */
static int op_NET_POLICY(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	const struct box *b = ready_box(k, m, &in);
	const uint8_t *p;
	size_t n;

	if (b == NULL)
		return msg_end(&in);
	p = boxnet_policy(b, &n);
	ops_ok(k, m->request, p, n, NULL);
	return msg_end(&in);
}

/* Tells a new gate what the old one had. */
static int op_BOX_LIST(struct keeper *k, struct chan_msg *m)
{
	static uint8_t body[BOX_RECORD_MAX + 1024];
	const struct box *next = NULL;
	struct box_info info;
	struct msg_out out;
	struct msg_in in;
	uint64_t after;
	ptrdiff_t n;

	msg_in_init(&in, m->body, m->len);
	after = msg_get_u64(&in);
	for (unsigned int i = 0; i < k->nboxes; i++) {
		const struct box *b = &k->boxes[i];

		if (b->state == BOX_READY && b->id > after && (next == NULL || b->id < next->id))
			next = b;
	}
	if (next == NULL) {
		ops_ok(k, m->request, NULL, 0, NULL);
		return msg_end(&in);
	}
	info = (struct box_info){ .box = next->id,
				  .layers = next->layers,
				  .setup_us = next->setup_us,
				  .image = next->image,
				  .env = next->env };
	(void)memcpy(info.step_us, next->step_us, sizeof(info.step_us));
	n = box_info_encode(&info, body, sizeof(body));
	msg_out_init(&out, body + n, sizeof(body) - (size_t)n);
	msg_put_bytes(&out, next->record, next->record_len);
	ops_ok(k, m->request, body, (size_t)n + out.len, NULL);
	return msg_end(&in);
}

/* A gate may end its boxes. */
static int op_BOX_END(struct keeper *k, struct chan_msg *m)
{
	struct msg_in in;
	struct box *b = ready_box(k, m, &in);

	if (b != NULL) {
		b->asked_to_end = true;
		b->request = m->request;
		box_end(k, b);
	}
	return msg_end(&in);
}
