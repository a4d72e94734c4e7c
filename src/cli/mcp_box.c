// SPDX-License-Identifier: Apache-2.0
/*
 * The box of a connection: made when something needs it for the first time, kept alive, ended with us. One that was named is only used.
 * When it has gone another one is made for whoever needs it next.
 */
#include "cli/mcp.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/box_api.h"
#include "cli/box_body.h"
#include "cli/ipybox.h"
#include "cli/say.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { ALIVE_MAX_S = 60, MAKE_MS = 120000, ALIVE_MS = 15000, END_MS = 15000 };

/* --- making --------------------------------------------------------------------------------------- */

static int put_box(const struct bridge *b, struct json *j, struct err *e)
{
	const struct bridge_opts *o = b->o;

	json_open(j, NULL, '{');
	json_open(j, "metadata", '{');
	if (o->as_ipybox)
		json_str(j, IPYBOX_MARK);
	else
		json_str(j, "made_by", "mcp");
	json_close(j, '}');
	if (o->as_ipybox)
		json_str(j, "workdir", "/app");
	json_i64(j, "idle_seconds", 0);
	if (o->environment != NULL)
		json_str(j, "environment", o->environment);
	box_put_limits(j, &o->limits, o->limit_set);
	box_put_env(j, o->env, o->nenv);
	if (o->nbinds > 0 &&
	    box_put_binds(j, o->binds, o->nbinds, bridge_workdir(o), b->near.life >= 0, e) < 0)
		return -1;
	net_words_put(&o->net, j);
	json_close(j, '}');
	return j->failed ? err_set(e, ERR_SYS, ENOMEM, "ask for a box") : 0;
}

/* How often to say that it is still needed. */
static void take_times(struct bridge *b, struct json_text ttl, struct json_text idle)
{
	int64_t each = ALIVE_MAX_S, v;

	b->box_ttl_s = 0;
	if (json_text_i64(idle, &v) && v > 0 && v / 3 < each)
		each = v / 3;
	if (json_text_i64(ttl, &v) && v > 0 && b->box_made) {
		b->box_ttl_s = v;
		each = v / 3 < each ? v / 3 : each;
	}
	b->box_alive_each_us = (uint64_t)(each > 0 ? each : 1) * US_PER_S;
	b->box_alive_us = clock_us() + b->box_alive_each_us;
}

static int take_box(struct bridge *b, const struct exchange *x, struct err *e)
{
	struct json_member m[] = { { .key = "id" },
				   { .key = "ttl_seconds" },
				   { .key = "idle_seconds" } };
	struct json_text root;
	char text[ERR_TEXT];

	if (x->answer.status != 200 && x->answer.status != 201) {
		bridge_refusal(x, &b->box_answer, text, sizeof(text));
		return err_set(e, ERR_INPUT, 0, "%s", text);
	}
	if (json_text_read(bytes_str(&b->box_answer), b->box_answer.n, &root) < 0)
		return err_set(e, ERR_PROTO, 0, "what the server answered cannot be read");
	json_text_find(root, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, b->box, sizeof(b->box)) || box_name_check(b->box, e) < 0)
		return err_set(e, ERR_PROTO, 0, "the server answered without an id");
	b->box_made = b->o->box == NULL;
	take_times(b, m[1].value, m[2].value);
	return 0;
}

static int on_body(struct exchange *x, const char *p, size_t n)
{
	bytes_put(&((struct bridge *)x->arg)->box_answer, p, n);
	return 0;
}

static void on_made(struct exchange *x, const struct err *e)
{
	struct bridge *b = x->arg;
	struct err own;

	bridge_heard(b, e);
	b->box_state = BRIDGE_BOX_NONE;
	if (e == NULL && take_box(b, x, &own) == 0) {
		b->box_state = BRIDGE_BOX_THERE;
		b->box_key[0] = '\0';
		if (b->over)
			bridge_box_end(b);
	} else {
		bridge_fail_for_box(b, e != NULL ? e->text : own.text);
	}
	bytes_done(&b->box_answer);
}

/* A request that was lost may have made one: with the same key the next gets that one. */
static void make_key(struct bridge *b)
{
	uint64_t random[2] = { 0 };

	if (b->box_key[0] == '\0' && getrandom(random, sizeof(random), 0) == sizeof(random))
		(void)snprintf(b->box_key, sizeof(b->box_key), "mcp-%016llx%016llx",
			       (unsigned long long)random[0], (unsigned long long)random[1]);
}

void bridge_box_want(struct bridge *b)
{
	static const struct exchange_ops ops = { .body = on_body, .end = on_made };
	char path[BOX_PATH] = "/v1/boxes";
	struct exchange *x;
	struct json j;
	struct err e;

	if (b->box_state != BRIDGE_BOX_NONE || b->over)
		return;
	json_init(&j);
	if (b->o->box != NULL)
		api_path(path, b->o->box, "%s", "");
	else if (put_box(b, &j, &e) < 0) {
		json_done(&j);
		bridge_fail_for_box(b, e.text);
		return;
	}
	x = exchange_new(&b->all, b->o->box != NULL ? "GET" : "POST", path, &ops, b);
	if (x == NULL) {
		json_done(&j);
		bridge_fail_for_box(b, "out of memory");
		return;
	}
	if (b->o->box == NULL) {
		make_key(b);
		exchange_header(x, "Idempotency-Key", b->box_key);
		exchange_body(x, "application/json", j.buf, j.len); /* takes it */
	}
	bytes_init(&b->box_answer, BRIDGE_ERROR_MAX);
	x->answer_ms = MAKE_MS;
	b->box_state = BRIDGE_BOX_MAKING;
	exchange_start(x);
}

/* --- as long as it is there ----------------------------------------------------------------------- */

void bridge_box_gone(struct bridge *b)
{
	if (b->box_state != BRIDGE_BOX_THERE)
		return;
	say("the box %s has ended%s", b->box,
	    b->o->box == NULL ? ": another one is made when it is needed" : "");
	b->box_state = BRIDGE_BOX_NONE;
}

static void on_alive(struct exchange *x, const struct err *e)
{
	struct bridge *b = x->arg;

	b->box_asking = false;
	bridge_heard(b, e);
	if (e == NULL && (x->answer.status == 404 || x->answer.status == 410))
		bridge_box_gone(b);
}

static void keep_alive(struct bridge *b)
{
	static const struct exchange_ops ops = { .end = on_alive };
	char path[BOX_PATH];
	struct exchange *x;
	struct json j;

	b->box_alive_us = clock_us() + b->box_alive_each_us;
	api_path(path, b->box, "%s", "");
	x = exchange_new(&b->all, "PATCH", path, &ops, b);
	if (x == NULL)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	if (b->box_ttl_s > 0)
		json_i64(&j, "ttl_seconds", b->box_ttl_s);
	json_close(&j, '}');
	if (j.failed) {
		json_done(&j);
		exchange_drop(x);
		return;
	}
	exchange_body(x, "application/json", j.buf, j.len);
	x->answer_ms = ALIVE_MS;
	b->box_asking = true;
	exchange_start(x);
}

void bridge_box_tick(struct bridge *b, uint64_t *deadline_us)
{
	if (b->box_state != BRIDGE_BOX_THERE || b->box_asking)
		return;
	if (clock_us() >= b->box_alive_us)
		keep_alive(b);
	else if (b->box_alive_us < *deadline_us)
		*deadline_us = b->box_alive_us;
}

/* --- its end -------------------------------------------------------------------------------------- */

static void on_ended(struct exchange *x, const struct err *e)
{
	const struct bridge *b = x->arg;
	int status = x->answer.status;

	if (e != NULL)
		say("the box %s could not be ended: %s", b->box, e->text);
	else if (status >= 300 && status != 404 && status != 410)
		say("the box %s could not be ended: the server answered with status %d", b->box,
		    status);
}

void bridge_box_end(struct bridge *b)
{
	static const struct exchange_ops ops = { .end = on_ended };
	char path[BOX_PATH];
	struct exchange *x;

	if (b->box_state != BRIDGE_BOX_THERE || !b->box_made)
		return;
	b->box_state = BRIDGE_BOX_NONE;
	api_path(path, b->box, "%s", "");
	x = exchange_new(&b->all, "DELETE", path, &ops, b);
	if (x == NULL) {
		say("the box %s could not be ended: out of memory", b->box);
		return;
	}
	x->answer_ms = END_MS;
	exchange_start(x);
}
