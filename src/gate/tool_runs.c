// SPDX-License-Identifier: Apache-2.0
#include "gate/tool_runs.h"

#include "base/own.h"
#include "gate/tool_approvals.h"
#include "gate/tool_rules.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>

enum { RUNS_OF_BOX = 64, ARGUMENTS_SHOWN = 2048, SECOND_US = 1000000 };

/* --- the audit ------------------------------------------------------------------------------------------ */

static void write_audit(const struct tool_run *t, const char *outcome, size_t nresult)
{
	struct gate *g = t->a->g;
	bool told = t->arguments != NULL && config_bool(&g->config, CONF_AUDIT_TOOL_ARGUMENTS);
	bool cut = t->narguments > ARGUMENTS_SHOWN;
	uint64_t us = g->loop.now_us > t->began_us ? g->loop.now_us - t->began_us : 0;
	char in[24], out[24], ms[24], shown[ARGUMENTS_SHOWN + 4];

	(void)snprintf(in, sizeof(in), "%zu", t->narguments);
	(void)snprintf(out, sizeof(out), "%zu", nresult);
	(void)snprintf(ms, sizeof(ms), "%llu", (unsigned long long)(us / 1000));
	if (told)
		(void)snprintf(shown, sizeof(shown), "%.*s%s",
			       (int)(cut ? ARGUMENTS_SHOWN : t->narguments), t->arguments,
			       cut ? "…" : "");
	audit(g, "tool_call", t->r, "tenant", t->a->tenant->name, "box", t->a->id, "server",
	      t->server, "tool", t->tool, "outcome", outcome, "argument_bytes", in, "result_bytes",
	      out, "ms", ms, told ? "arguments" : NULL, shown, NULL);
}

/* --- the end -------------------------------------------------------------------------------------------- */

static void run_free(struct tool_run *t)
{
	struct tool_run **at = &t->a->calls;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->a->ncalls--;
	abox_touch(t->a);
	timer_clear(&t->a->g->loop, &t->slow);
	if (t->approval != NULL)
		approval_drop(t->approval);
	free(t->arguments);
	free(t);
}

/* Nobody hears of its client any more: it is being answered. */
static void detach(const struct tool_run *t)
{
	t->r->work = NULL;
	t->r->gone = NULL;
}

void tool_run_done(struct tool_run *t, const char *text, size_t n)
{
	static const char large[] = "the result is larger than it may be (tool_result_bytes)";

	detach(t);
	if (n > config_u64(&t->a->g->config, CONF_TOOL_RESULT_BYTES)) {
		write_audit(t, "too_large", n);
		t->shape->failed(t, 502, "too_large", 0, large, sizeof(large) - 1);
	} else {
		write_audit(t, t->shape->asks_only ? "approved" : "done", n);
		t->shape->done(t, text, n);
	}
	run_free(t);
}

void tool_run_failed(struct tool_run *t, int status, const char *type, uint64_t code,
		     const char *text, size_t n)
{
	detach(t);
	write_audit(t, type, 0);
	t->shape->failed(t, status, type, code, text, n);
	run_free(t);
}

static void fail(struct tool_run *t, int status, const char *type, const char *text)
{
	tool_run_failed(t, status, type, 0, text, strlen(text));
}

void tool_run_refused(struct tool_run *t, int status, const char *type, const char *text)
{
	detach(t);
	t->shape->failed(t, status, type, 0, text, strlen(text));
	run_free(t);
}

static void on_gone(struct req *r)
{
	struct tool_run *t = r->work;

	write_audit(t, "cancelled", 0);
	if (t->under_way != NULL)
		t->shape->stop(t);
	run_free(t);
}

void tool_runs_end(struct abox *a)
{
	while (a->calls != NULL) {
		struct tool_run *t = a->calls;

		if (t->under_way != NULL)
			t->shape->stop(t);
		fail(t, 503, "cancelled", "the box has ended");
	}
}

/* --- the way ---------------------------------------------------------------------------------------------- */

struct tool_run *tool_run_new(struct req *r, struct abox *a, const struct tool_shape *shape)
{
	struct tool_run *t = a->ncalls < RUNS_OF_BOX ? calloc(1, sizeof(*t)) : NULL;

	if (t == NULL)
		return NULL;
	t->a = a;
	t->r = r;
	t->shape = shape;
	t->began_us = a->g->loop.now_us;
	t->next = a->calls;
	a->calls = t;
	a->ncalls++;
	r->work = t;
	r->gone = on_gone;
	return t;
}

uint64_t tool_runs_wait(struct abox *a)
{
	uint64_t most = config_u64(&a->g->config, CONF_TOOL_RATE), now = a->g->loop.now_us;

	if (most == 0)
		return 0;
	if (a->calls_at_us == 0 || now >= a->calls_at_us + SECOND_US) {
		a->calls_at_us = now;
		a->calls_left = (unsigned int)most;
	}
	if (a->calls_left == 0)
		return a->calls_at_us + SECOND_US - now;
	a->calls_left--;
	return 0;
}

static void on_answered(void *arg, enum approval_answer how)
{
	struct tool_run *t = arg;

	t->approval = NULL;
	if (how == APPROVAL_DENIED)
		fail(t, 403, "rejected", "the call was not allowed");
	else if (how == APPROVAL_TIMED_OUT)
		fail(t, 403, "not_answered", "nobody said whether the call is allowed");
	else if (t->shape->asks_only)
		tool_run_done(t, "", 0);
	else
		t->shape->call(t);
}

/* In one line. 0 or -1. */
static int keep_arguments(struct tool_run *t, struct json_text arguments)
{
	struct json j;

	json_init(&j);
	if (json_text_kind(arguments) == '{') {
		json_text_put(arguments, &j, NULL);
	} else {
		json_open(&j, NULL, '{');
		json_close(&j, '}');
	}
	if (j.failed) {
		json_done(&j);
		return -1;
	}
	t->arguments = j.buf;
	t->narguments = j.len;
	free(t->r->body); /* it may wait for long */
	t->r->body = NULL;
	return 0;
}

/* It may be called: when its turn has come, and if somebody allows it. */
static void take_turn(void *arg)
{
	struct tool_run *t = arg;
	struct abox *a = t->a;
	uint64_t wait_us = tool_runs_wait(a);

	if (wait_us > 0) {
		if (timer_set(&a->g->loop, &t->slow, a->g->loop.now_us + wait_us, take_turn, t) < 0)
			tool_run_refused(t, 503, "no_memory", "out of memory");
		return;
	}
	if (!tool_rules_ask(&a->tools, t->server, t->tool)) {
		on_answered(t, APPROVAL_ALLOWED);
		return;
	}
	t->approval =
		approval_ask(a, t->server, t->tool, t->arguments, t->narguments, on_answered, t);
	if (t->approval == NULL)
		on_answered(t, APPROVAL_TIMED_OUT);
}

void tool_run_go(struct tool_run *t, struct json_text arguments)
{
	struct abox *a = t->a;
	char text[1024];

	if (keep_arguments(t, arguments) < 0) {
		tool_run_refused(t, 503, "no_memory", "out of memory");
	} else if (!tool_rules_allow(&a->tools, t->server, t->tool)) {
		(void)snprintf(text, sizeof(text), "this box may not call '%s/%s'", t->server,
			       t->tool);
		fail(t, 403, "denied", text);
	} else if (!audit_allows(a->g)) {
		tool_run_refused(t, 503, "audit", "the audit file cannot be written");
	} else {
		take_turn(t);
	}
}
