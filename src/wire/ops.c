// SPDX-License-Identifier: Apache-2.0
#include "wire/ops.h"

#include "base/layers.h"
#include "base/str.h"
#include "wire/msg.h"

#include <errno.h>
#include <string.h>

static ptrdiff_t out_len(const struct msg_out *m)
{
	return m->failed ? -EMSGSIZE : (ptrdiff_t)m->len;
}

static void put_limits(struct msg_out *m, const struct limits *l)
{
	msg_put_u16(m, LIMIT_ID_MAX);
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		msg_put_u64(m, l->v[i]);
}

static int get_limits(struct msg_in *m, struct limits *l, struct err *e)
{
	uint16_t n = msg_get_u16(m);

	if (n != LIMIT_ID_MAX)
		return err_set(e, ERR_PROTO, 0, "a box has %u limits", n);
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		l->v[i] = msg_get_u64(m);
	return 0;
}

static int check_limits(const struct limits *l, struct err *e)
{
	enum limit_id bad;

	if (limits_check(l, &bad) < 0)
		return err_set(e, ERR_INPUT, 0, "limit '%s' is out of range", limit_row(bad)->key);
	return 0;
}

ptrdiff_t box_request_encode(const struct box_request *q, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u32(&m, q->flags);
	msg_put_u64(&m, q->waived);
	put_limits(&m, &q->limits);
	msg_put_u32(&m, q->image);
	msg_put_u32(&m, q->env);
	msg_put_u16(&m, q->nmounts);
	for (unsigned int i = 0; i < q->nmounts; i++) {
		msg_put_u16(&m, q->mounts[i].root);
		msg_put_u8(&m, q->mounts[i].read_only);
		msg_put_str(&m, q->mounts[i].path);
		msg_put_str(&m, q->mounts[i].at);
	}
	return out_len(&m);
}

static int check_request(const struct box_request *q, struct err *e)
{
	if ((q->flags & ~(uint32_t)BOX_FLAGS_ALL) != 0)
		return err_set(e, ERR_PROTO, 0, "unknown flag of a box");
	if ((q->waived & ~layers_of(LAYER_REQUIRED) & ~layers_of(LAYER_EXTRA)) != 0)
		return err_set(e, ERR_PROTO, 0, "a layer waived that no box is without");
	if (check_limits(&q->limits, e) < 0)
		return -1;
	for (unsigned int i = 0; i < q->nmounts; i++) {
		const struct box_mount *m = &q->mounts[i];

		if (m->path[0] != '\0' && !path_is_plain(m->path))
			return err_set(e, ERR_INPUT, 0, "mount path '%s' is not plain", m->path);
		if (!path_is_plain_abs(m->at))
			return err_set(e, ERR_INPUT, 0, "mount place '%s' is no absolute path",
				       m->at);
	}
	return 0;
}

int box_request_decode(const void *buf, size_t len, struct box_request *q, struct err *e)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	q->flags = msg_get_u32(&m);
	q->waived = msg_get_u64(&m);
	if (get_limits(&m, &q->limits, e) < 0)
		return -1;
	q->image = msg_get_u32(&m);
	q->env = msg_get_u32(&m);
	q->nmounts = msg_get_u16(&m);
	if (q->nmounts > BOX_MOUNTS_MAX)
		return err_set(e, ERR_PROTO, 0, "a box request has %u mounts", q->nmounts);
	for (unsigned int i = 0; i < q->nmounts; i++) {
		struct box_mount *b = &q->mounts[i];

		b->root = msg_get_u16(&m);
		b->read_only = msg_get_u8(&m) != 0; /* anything but 0 takes the safer meaning */
		(void)msg_get_str(&m, b->path, sizeof(b->path));
		(void)msg_get_str(&m, b->at, sizeof(b->at));
	}
	if (msg_end(&m) < 0)
		return err_set(e, ERR_PROTO, 0, "a box request is malformed");
	return check_request(q, e);
}

ptrdiff_t box_limits_encode(uint64_t box, const struct limits *l, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, box);
	put_limits(&m, l);
	return out_len(&m);
}

int box_limits_decode(const void *buf, size_t len, uint64_t *ret_box, struct limits *l,
		      struct err *e)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	*ret_box = msg_get_u64(&m);
	if (get_limits(&m, l, e) < 0)
		return -1;
	if (msg_end(&m) < 0)
		return err_set(e, ERR_PROTO, 0, "limits of a box are malformed");
	return check_limits(l, e);
}

ptrdiff_t box_info_encode(const struct box_info *b, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, b->box);
	msg_put_u64(&m, b->layers);
	msg_put_u64(&m, b->setup_us);
	msg_put_u32(&m, b->image);
	msg_put_u32(&m, b->env);
	for (unsigned int i = 0; i < PLAN_STEPS; i++)
		msg_put_u32(&m, b->step_us[i]);
	return out_len(&m);
}

int box_info_decode(const void *buf, size_t len, struct box_info *b)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	b->box = msg_get_u64(&m);
	b->layers = msg_get_u64(&m);
	b->setup_us = msg_get_u64(&m);
	b->image = msg_get_u32(&m);
	b->env = msg_get_u32(&m);
	for (unsigned int i = 0; i < PLAN_STEPS; i++)
		b->step_us[i] = msg_get_u32(&m);
	return msg_end(&m);
}

ptrdiff_t box_figures_encode(const struct box_figures *f, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, f->wall_us);
	msg_put_u64(&m, f->cpu_us);
	msg_put_u64(&m, f->peak_memory_bytes);
	msg_put_u64(&m, f->memory_limit_bytes);
	msg_put_u64(&m, f->oom_kills);
	msg_put_u64(&m, f->has);
	if ((f->has & FIGURE_NET) != 0)
		net_figures_put(&m, &f->net);
	return out_len(&m);
}

int box_figures_decode(const void *buf, size_t len, struct box_figures *f)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	f->wall_us = msg_get_u64(&m);
	f->cpu_us = msg_get_u64(&m);
	f->peak_memory_bytes = msg_get_u64(&m);
	f->memory_limit_bytes = msg_get_u64(&m);
	f->oom_kills = msg_get_u64(&m);
	f->has = msg_get_u64(&m);
	f->net = (struct net_figures){ 0 };
	if ((f->has & FIGURE_NET) != 0)
		net_figures_get(&m, &f->net);
	return msg_end(&m);
}

ptrdiff_t box_net_encode(const struct box_net *n, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, n->box);
	msg_put_u16(&m, (uint16_t)n->nroutes);
	for (unsigned int i = 0; i < n->nroutes; i++) {
		const struct net_route *r = &n->routes[i];

		msg_put_u8(&m, (uint8_t)((r->address.v6 ? 1 : 0) | (r->refused ? 2 : 0)));
		msg_put_u8(&m, r->bits);
		msg_put_bytes(&m, r->address.a, r->address.v6 ? 16 : 4);
	}
	msg_put_bytes(&m, n->policy, n->policy_len);
	return out_len(&m);
}

static int get_route(struct msg_in *m, struct net_route *r)
{
	uint8_t flags = msg_get_u8(m);
	const uint8_t *a;
	size_t n;

	*r = (struct net_route){ .refused = (flags & 2) != 0, .bits = msg_get_u8(m) };
	r->address.v6 = (flags & 1) != 0;
	a = msg_get_bytes(m, 16, &n);
	if (a == NULL || flags > 3 || n != (r->address.v6 ? 16u : 4u) || r->bits > n * 8)
		return -EPROTO;
	(void)memcpy(r->address.a, a, n);
	return 0;
}

int box_net_decode(const void *buf, size_t len, struct box_net *ret)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	ret->box = msg_get_u64(&m);
	ret->nroutes = msg_get_u16(&m);
	if (m.failed || ret->nroutes > NET_ROUTES_MAX)
		return -EPROTO;
	for (unsigned int i = 0; i < ret->nroutes; i++)
		if (get_route(&m, &ret->routes[i]) < 0)
			return -EPROTO;
	ret->policy = msg_get_bytes(&m, NET_POLICY_BYTES, &ret->policy_len);
	return msg_end(&m);
}

ptrdiff_t box_net_of_policy(uint64_t box, const struct net_policy *p, void *buf, size_t cap)
{
	static struct box_net n;
	static uint8_t bytes[NET_POLICY_BYTES];
	ptrdiff_t len = net_policy_encode(p, bytes, sizeof(bytes));
	int routes = net_policy_routes(p, n.routes);

	if (len < 0 || routes < 0)
		return -E2BIG;
	n.box = box;
	n.nroutes = (unsigned int)routes;
	n.policy = bytes;
	n.policy_len = (size_t)len;
	return box_net_encode(&n, buf, cap);
}

ptrdiff_t failed_encode(const struct err *e, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u32(&m, (uint32_t)e->kind);
	msg_put_u32(&m, (uint32_t)e->sys);
	msg_put_str(&m, e->text);
	msg_put_str(&m, e->hint);
	return out_len(&m);
}

int failed_decode(const void *buf, size_t len, struct err *e)
{
	struct msg_in m;
	uint32_t kind;

	msg_in_init(&m, buf, len);
	kind = msg_get_u32(&m);
	e->sys = (int)msg_get_u32(&m);
	(void)msg_get_str(&m, e->text, sizeof(e->text));
	(void)msg_get_str(&m, e->hint, sizeof(e->hint));
	if (msg_end(&m) < 0 || kind >= ERR_KIND_MAX)
		return -EPROTO;
	e->kind = (enum err_kind)kind;
	return 0;
}
