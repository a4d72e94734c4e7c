// SPDX-License-Identifier: Apache-2.0
/*
 * What a box may reach: `network` of a box, PUT /v1/boxes/{box_id}/network, and what became of it.
 *
 * Rules are read here, to tell who wrote them what is wrong with them; the keeper puts them into force, and egress reads them again. Boxes have a policy from their
 * birth only if it is not "none"; until it is in force nobody hears that the box is there.
 */
#include "gate/box_net.h"

#include "base/own.h"
#include "gate/boxes.h"
#include "gate/net_default.h"
#include "gate/net_rules.h"
#include "wire/control.h"
#include "wire/egressmsg.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct field rows[] = {
	{ "policy", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct box_network, policy), .doc = "what it may reach: nothing, what rules allow, or public addresses (and what rules allow); learn: as open, and the answers say which rules it would need", .text = "none", .words = "none allow open learn" },
	{ "rules", FIELD_LIST, 0, 0, NET_RULES_MAX, 0, offsetof(struct box_network, rules), .doc = "what it may reach, or (deny) may not: texts, or objects that can say more", .sub = &net_rule_fields },
	{ "max_connections", FIELD_INT, FIELD_NULLABLE, 1, NET_CONNS_MAX, 0, offsetof(struct box_network, connections), .doc = "connections at once; null: box_net_connections" },
	{ "max_bytes", FIELD_INT, FIELD_NULLABLE, 1, FIELD_NO_MAX, 0, offsetof(struct box_network, bytes), .doc = "bytes that it may send and receive in all, since it was made; null: box_net_bytes" },
	{ "bytes_per_second", FIELD_INT, FIELD_NULLABLE, NET_RATE_MIN, NET_RATE_MAX, 0, offsetof(struct box_network, rate), .doc = "bytes that it may send, and receive, in a second; null: box_net_rate" },
};
/* clang-format on */

const struct fields box_network_fields = { "BoxNetwork", rows, ARRAY_LEN(rows),
					   sizeof(struct box_network), FIELDS_CLOSED };

/* One that the keeper takes. */
static bool fits(const struct net_policy *p)
{
	static uint8_t body[CHAN_MAX - CHAN_HEADER];

	return box_net_of_policy(0, p, body, sizeof(body)) > 0;
}

/* One of the bounds: what is said, but no more than every box may have. */
static int take_bound(struct req *r, const char *prefix, const char *name, enum config_key key,
		      int64_t said, uint64_t *ret)
{
	char field[64];

	if (said == 0)
		return 0;
	if (*ret != 0 && (uint64_t)said > *ret) {
		(void)snprintf(field, sizeof(field), "%s%s", prefix, name);
		own_refuse(r, OWN_INVALID_FIELD, field, "'%s' must be at most %llu (%s)", field,
			   (unsigned long long)*ret, config_row(key)->key);
		return -1;
	}
	*ret = (uint64_t)said;
	return 0;
}

static int take_bounds(struct req *r, const char *prefix, const struct box_network *in,
		       struct net_bounds *ret)
{
	uint64_t connections;

	*ret = net_bounds_default(r->g);
	connections = ret->connections;
	if (take_bound(r, prefix, "max_connections", CONF_BOX_NET_CONNECTIONS, in->connections,
		       &connections) < 0 ||
	    take_bound(r, prefix, "max_bytes", CONF_BOX_NET_BYTES, in->bytes, &ret->bytes) < 0 ||
	    take_bound(r, prefix, "bytes_per_second", CONF_BOX_NET_RATE, in->rate, &ret->rate) < 0)
		return -1;
	ret->connections = (uint32_t)connections;
	return 0;
}

int box_net_take(struct req *r, const char *prefix, const struct box_network *in,
		 struct net_policy *ret)
{
	char field[32];

	net_policy_init(ret);
	for (int i = 0; i < NET_MODE_MAX; i++)
		if (strcmp(net_mode_str[i], in->policy.p) == 0)
			ret->mode = (enum net_mode)i;
	(void)snprintf(field, sizeof(field), "%srules", prefix);
	if (take_bounds(r, prefix, in, &ret->bounds) < 0 ||
	    net_rules_take(r, field, &in->rules, ret) < 0) {
		net_policy_done(ret);
		return -1;
	}
	if (ret->mode != NET_NONE || ret->nrules == 0) {
		if (fits(ret))
			return 0;
		own_refuse(r, OWN_INVALID_FIELD, field, "'%s' is too long in all", field);
	} else {
		own_refuse(r, OWN_INVALID_FIELD, field,
			   "'%s' must be empty with the policy 'none', which lets nothing through",
			   field);
	}
	net_policy_done(ret);
	return -1;
}

static void put_wanted(struct json *j, const char *name, const struct abox *a)
{
	const char *text, *none;
	size_t at = 0;

	json_open(j, name, '[');
	while (texts_next(&a->wanted, &at, &text, &none))
		json_str(j, NULL, text);
	json_close(j, ']');
}

const char *const *box_net_variables(const struct abox *a)
{
	static const char *const none[] = { NULL };
	static const char *const trust[] = { "SSL_CERT_FILE=" BOX_TRUST,
					     "CURL_CA_BUNDLE=" BOX_TRUST,
					     "REQUESTS_CA_BUNDLE=" BOX_TRUST,
					     "PIP_CERT=" BOX_TRUST,
					     "GIT_SSL_CAINFO=" BOX_TRUST,
					     "NODE_EXTRA_CA_CERTS=" BOX_TRUST,
					     NULL };

	return net_policy_opens(&a->net) ? trust : none;
}

void box_net_put(const struct abox *a, struct json *j)
{
	const struct net_policy *p = &a->net;

	json_str(j, "policy", net_mode_str[p->mode]);
	json_open(j, "rules", '[');
	for (unsigned int i = 0; i < p->nrules; i++)
		net_rule_put(&p->rules[i], j);
	json_close(j, ']');
	if (p->bounds.connections != NET_CONNS_MAX)
		json_u64(j, "max_connections", p->bounds.connections);
	if (p->bounds.bytes != 0)
		json_u64(j, "max_bytes", p->bounds.bytes);
	if (p->bounds.rate != 0)
		json_u64(j, "bytes_per_second", p->bounds.rate);
	if (p->mode == NET_LEARN)
		put_wanted(j, "learned", a);
}

const char *box_net_audit(const struct net_policy *p)
{
	static const char *const words[NET_MODE_MAX] = { "network none", "network allow",
							 "network open", "network learn" };

	return words[p->mode];
}

int box_net_ask(struct gbox *b, const struct net_policy *p, keeper_fn fn, void *arg)
{
	static uint8_t body[CHAN_MAX - CHAN_HEADER];
	ptrdiff_t n = box_net_of_policy(b->id, p, body, sizeof(body));

	return n < 0 ? (int)n : keeper_ask(&b->g->keeper, OP_BOX_NET, body, (size_t)n, fn, arg);
}

/* --- whose they are ---------------------------------------------------------------------------------- */

void box_net_owner(struct gbox *b, const struct tenant *t, const char *what, const char *id)
{
	b->owner.tenant = t;
	b->owner.what = what;
	(void)snprintf(b->owner.id, sizeof(b->owner.id), "%s", id);
}

void box_net_gone(const struct gbox *b)
{
	struct net_gone *v = b->g->net_gone;

	if (b->owner.what == NULL)
		return;
	(void)memmove(v + 1, v, sizeof(*v) * (GATE_NET_GONE - 1));
	v[0] = (struct net_gone){ .box = b->id, .owner = b->owner };
}

/* NULL: nobody that is known. */
static struct gbox_owner *owner_of(struct gate *g, uint64_t box)
{
	struct gbox *b = g->boxes;

	while (b != NULL && b->id != box)
		b = b->next;
	if (b != NULL)
		return &b->owner;
	for (unsigned int i = 0; i < GATE_NET_GONE; i++)
		if (g->net_gone[i].box == box && g->net_gone[i].owner.what != NULL)
			return &g->net_gone[i].owner;
	return NULL;
}

/* --- a gate that takes over -------------------------------------------------------------------------- */

static void on_policy(void *arg, struct chan_msg *m, const struct err *e)
{
	struct abox *a = arg;

	(void)e;
	if (m == NULL)
		return;
	net_policy_done(&a->net);
	if (m->len > 0 && net_policy_decode(m->body, m->len, &a->net) < 0)
		net_policy_done(&a->net);
	chan_msg_close(m);
}

void box_net_adopt(struct abox *a)
{
	box_net_owner(a->box, a->tenant, "box", a->id);
	(void)keeper_ask_box(&a->g->keeper, OP_NET_POLICY, a->box->id, on_policy, a);
}

/* --- PUT --------------------------------------------------------------------------------------------- */

/* A change that is under way; the box or who asked may go meanwhile. */
struct changing {
	struct req *r; /* NULL: it has gone */
	struct gate *g;
	const struct tenant *tenant;
	char box[OWN_ID];
	struct net_policy net;
};

static void on_gone(struct req *r)
{
	struct changing *w = r->work;

	w->r = NULL;
}

static void on_changed(void *arg, struct chan_msg *m, const struct err *e)
{
	struct changing *w = arg;
	struct abox *a = abox_with_id(w->g, w->tenant, w->box, strlen(w->box));
	struct req *r = w->r;

	if (m != NULL) {
		chan_msg_close(m);
		if (a != NULL) {
			net_policy_done(&a->net);
			a->net = w->net;
			net_policy_init(&w->net);
			texts_done(&a->wanted);
		}
	}
	net_policy_done(&w->net);
	free(w);
	if (r == NULL)
		return;
	r->work = NULL;
	r->gone = NULL;
	if (m == NULL && e->sys == EBUSY)
		own_refuse(r, OWN_WRONG_STATE, NULL, "%s", e->text);
	else if (m == NULL)
		own_refuse(r, OWN_UNSCHEDULABLE, NULL, "the network cannot be changed: %s",
			   e->text);
	else
		box_get(r);
}

void box_network_put(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct changing *w;
	struct ci_body body;
	struct box_network in;
	struct net_policy p;
	int failed;

	if (a == NULL || own_decode(r, &box_network_fields, &body, &in) < 0)
		return;
	failed = box_net_take(r, "", &in, &p);
	ci_body_done(&body);
	if (failed < 0)
		return;
	w = calloc(1, sizeof(*w));
	if (w == NULL) {
		net_policy_done(&p);
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	*w = (struct changing){ .r = r, .g = a->g, .tenant = a->tenant, .net = p };
	(void)memcpy(w->box, a->id, sizeof(w->box));
	r->work = w;
	r->gone = on_gone;
	box_net_owner(a->box, a->tenant, "box", a->id);
	if (box_net_ask(a->box, &p, on_changed, w) < 0) {
		r->work = NULL;
		r->gone = NULL;
		net_policy_done(&w->net);
		free(w);
		own_refuse(r, OWN_UNSCHEDULABLE, NULL, "the keeper cannot be asked");
		return;
	}
	audit(r->g, "network_changed", r, "tenant", a->tenant->name, "box", a->id, "policy",
	      box_net_audit(&p), NULL);
}

/* --- what became of connections ------------------------------------------------------------------------ */

static struct abox *abox_of(struct gate *g, uint64_t box)
{
	for (struct abox *a = g->aboxes; a != NULL; a = a->next)
		if (a->box != NULL && a->box->id == box)
			return a;
	return NULL;
}

/* What no rule allows, once each. What a box asks for is without end. */
static void learn(struct abox *a, const struct egress_record *r)
{
	char text[NET_RULE_TEXT];
	size_t n = 0, at = 0;
	const char *key, *none;

	if (a == NULL || egress_record_rule(r, text) < 0 || texts_get(&a->wanted, text) != NULL)
		return;
	while (texts_next(&a->wanted, &at, &key, &none))
		n++;
	if (n < NET_RULES_MAX)
		(void)texts_add(&a->wanted, text, strlen(text), "", 0);
}

void box_net_event(struct gate *g, const struct chan_msg *m)
{
	char place[NET_NAME + 64], address[NET_ADDRESS_TEXT] = "", bytes[64], rule[16] = "none";
	static const struct gbox_owner nobody;
	const struct gbox_owner *o;
	struct egress_record r;

	if (egress_record_decode(m->body, m->len, &r) < 0)
		return;
	o = owner_of(g, r.box);
	if (o == NULL)
		o = &nobody;
	if (r.has_address)
		net_address_text(&r.address, address);
	(void)snprintf(place, sizeof(place), "%s:%u", r.name[0] != '\0' ? r.name : address, r.port);
	(void)snprintf(bytes, sizeof(bytes), "%llu/%llu", (unsigned long long)r.sent,
		       (unsigned long long)r.received);
	if (r.rule >= 0)
		(void)snprintf(rule, sizeof(rule), "%d", r.rule);
	else if (r.rule == NET_BY_MODE || r.rule == NET_BY_LEARN)
		(void)snprintf(rule, sizeof(rule), r.rule == NET_BY_MODE ? "mode" : "learn");
	learn(abox_of(g, r.box), &r);
	if (r.why == EGRESS_LEARNED)
		return; /* its end will be told */
	audit(g, r.question ? "network_name" : "network_connection", NULL, "tenant",
	      o->tenant != NULL ? o->tenant->name : "", o->what != NULL ? o->what : "box", o->id,
	      "to", place, "address", address, "rule", rule, "end", egress_why_str[r.why], "bytes",
	      bytes, NULL);
}

/* --- figures -------------------------------------------------------------------------------------------- */

static void count(struct metrics *m, struct net_figures *before, const struct net_figures *now)
{
	if (before->box != 0) {
		m->net.connections += now->connections - before->connections;
		m->net.refused += now->refused - before->refused;
		m->net.questions += now->questions - before->questions;
		m->net.sent += now->sent - before->sent;
		m->net.received += now->received - before->received;
	}
	*before = *now;
}

void box_net_figures(struct gate *g, const struct chan_msg *m)
{
	struct net_figures f;
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	while (in.at < m->len) {
		struct gbox_owner *o;

		net_figures_get(&in, &f);
		if (in.failed)
			return;
		o = owner_of(g, f.box);
		if (o != NULL)
			count(&g->metrics, &o->counted, &f);
	}
}

void box_net_put_figures(const struct abox *a, struct json *j, const struct box_figures *f)
{
	if ((f->has & FIGURE_NET) == 0) {
		json_null(j, "network");
		return;
	}
	json_open(j, "network", '{');
	json_u64(j, "open", f->net.open);
	json_u64(j, "connections", f->net.connections);
	json_u64(j, "refused", f->net.refused);
	json_u64(j, "questions", f->net.questions);
	json_u64(j, "sent_bytes", f->net.sent);
	json_u64(j, "received_bytes", f->net.received);
	if (a->net.mode != NET_LEARN)
		put_wanted(j, "refused_rules", a);
	json_close(j, '}');
}
