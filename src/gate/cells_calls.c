// SPDX-License-Identifier: Apache-2.0
/* The calls about cells of a box: run, list, look, follow, cancel or interrupt, answer input(). */
#include "gate/kernels.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/job.h"

#include <stdio.h>
#include <string.h>

enum {
	GRACE_MS = 5000,
	GRACE_MAX_MS = 60000,
	BOX_QUEUED_MAX = 128, /* cells that wait in a box: what its record has room for */
};

/* In which a box has repeated what it said to the gate before this one, and how often that is looked at. */
#define CATCH_UP_US (2 * US_PER_S)
#define LOOK_US     (10 * US_PER_MS)

/* --- fields --------------------------------------------------------------------------------------- */

struct create {
	struct field_str code, kernel, encoding, on_disconnect;
	int64_t timeout_ms;
	bool timeout_set, stream, detach, allow_stdin, spill;
};

struct input {
	struct field_str text;
	bool eof;
};

/* clang-format off */
static const struct field create_rows[] = {
	{ "code", FIELD_STRING, FIELD_REQUIRED, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct create, code), .doc = "what is run: Python as IPython takes it" },
	{ "kernel", FIELD_STRING, 0, 1, KERNEL_NAME - 1, 0, offsetof(struct create, kernel), .doc = "whose variables it has; made on first use", .text = "main" },
	{ "timeout_ms", FIELD_INT, FIELD_NULLABLE, 1, FIELD_NO_MAX, -1, offsetof(struct create, timeout_ms), .doc = "wall clock from its start, then it is interrupted, and killed if it goes on; null: until the box ends; absent: box_timeout_ms", .set_at = offsetof(struct create, timeout_set) },
	{ "stream", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, stream), .doc = "answer with its events as they come" },
	{ "detach", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, detach), .doc = "answer at once (202); it is looked at by its id" },
	{ "stdin", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, allow_stdin), .doc = "whether input() waits for the call input; otherwise it raises at once" },
	{ "spill", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, spill), .doc = "whether what is more than output_bytes goes into a file of the box" },
	{ "output_encoding", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct create, encoding), .doc = "of stdout and stderr: text, in which what is not UTF-8 becomes U+FFFD, or all bytes", .text = "utf-8", .words = "utf-8 base64" },
	{ "on_disconnect", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct create, on_disconnect), .doc = "what a client that leaves means for it: nothing, or an interrupt", .text = "continue", .words = "continue interrupt" },
};
const struct fields cell_create_fields = { "CreateCellRequest", create_rows, ARRAY_LEN(create_rows), sizeof(struct create), FIELDS_CLOSED };

static const struct field input_rows[] = {
	{ "text", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, CHANNEL_PAYLOAD_MAX, 0, offsetof(struct input, text), .doc = "what input() returns: a line without its end" },
	{ "eof", FIELD_BOOL, 0, 0, 0, false, offsetof(struct input, eof), .doc = "there is nothing: EOFError" },
};
const struct fields cell_input_fields = { "CellInput", input_rows, ARRAY_LEN(input_rows), sizeof(struct input), FIELDS_CLOSED };
/* clang-format on */

/* --- POST ----------------------------------------------------------------------------------------- */

static unsigned int queued(const struct abox *a)
{
	unsigned int n = 0;

	for (const struct kernel *k = a->kernels; k != NULL; k = k->next)
		n += k->nqueued;
	return n;
}

struct kernel *cell_kernel(struct req *r, struct abox *a, const struct field_str *name)
{
	struct kernel *k;

	if (!kernel_name_ok(name->p, name->n)) {
		own_refuse(r, OWN_INVALID_FIELD, "kernel",
			   "'kernel' is made of a-z, 0-9, '-' and '_'");
		return NULL;
	}
	k = kernel_named(a, name->p, name->n);
	if (queued(a) >= BOX_QUEUED_MAX) {
		own_refuse(r, OWN_TOO_MANY, NULL, "%u cells wait in this box", queued(a));
		return NULL;
	}
	if (k == NULL) {
		k = kernel_new(a, name->p);
		if (k == NULL)
			own_refuse(r, OWN_TOO_MANY, "kernel", "a box has at most %d kernels",
				   BOX_KERNELS_MAX);
		return k;
	}
	if (k->unwanted) {
		own_refuse(r, OWN_WRONG_STATE, "kernel", "the kernel '%s' is ending", k->name);
		return NULL;
	}
	if (k->nqueued >= KERNEL_QUEUE_MAX) {
		own_refuse(r, OWN_TOO_MANY, NULL, "%u cells wait for this kernel", k->nqueued);
		return NULL;
	}
	return k;
}

static void start(struct req *r, struct abox *a, const struct create *in,
		  const struct idem_key *key)
{
	struct cell_spec spec = { .code = in->code.p,
				  .code_len = in->code.n,
				  .allow_stdin = in->allow_stdin,
				  .spill = in->spill };
	uint64_t outputs = 0;
	struct kernel *k;
	struct cell *c;
	int error;

	if (task_take_timeout(r, in->timeout_set, in->timeout_ms, &spec.timeout_us) < 0 ||
	    task_take_flags(r, in->stream, in->detach, in->encoding.p, in->on_disconnect.p,
			    &spec.flags) < 0 ||
	    own_query_u64(r, "outputs", 0, 1, &outputs) < 0)
		return;
	k = cell_kernel(r, a, &in->kernel);
	if (k == NULL)
		return;
	if (outputs != 0)
		spec.flags |= TASK_OUTPUTS;
	c = cell_new(k, &spec, key, &error);
	if (c == NULL && error == -ENOBUFS) {
		own_refuse(r, OWN_TOO_MANY, NULL,
			   "the cells that wait in this box are too large together");
		return;
	}
	if (c == NULL || c->t.released) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "the cell cannot be started");
		return;
	}
	audit(r->g, "cell", r, "tenant", a->tenant->name, "box", a->id, NULL);
	task_follow(&c->t, r);
}

void cell_create(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct ci_body body;
	struct idem_key key;
	struct create in;
	char scope[64];

	if (a == NULL)
		return;
	(void)snprintf(scope, sizeof(scope), "cells of %s", a->id);
	if (idem_take(r, scope, &key) < 0)
		return;
	task_key(&key);
	if (key.set && task_repeat(r, a, &cell_kind, &key) < 0)
		return;
	if (own_decode(r, &cell_create_fields, &body, &in) < 0)
		return;
	if (!audit_allows(r->g))
		own_refuse(r, OWN_AUDIT, NULL, "the audit file cannot be written");
	else if (a->box == NULL)
		own_refuse(r, OWN_WRONG_STATE, NULL, "the box cannot be reached yet");
	else
		start(r, a, &in, &key);
	ci_body_done(&body);
}

/* --- looking -------------------------------------------------------------------------------------- */

void cell_list(struct req *r)
{
	task_list(r, &cell_kind, "cells");
}

void cell_get(struct req *r)
{
	task_get(r, &cell_kind);
}

void cell_events(struct req *r)
{
	task_events(r, &cell_kind);
}

/* --- acting on one -------------------------------------------------------------------------------- */

void cell_delete(struct req *r)
{
	struct task *t = task_find(r, &cell_kind);
	uint64_t grace_ms = GRACE_MS;

	if (t == NULL || own_query_u64(r, "grace_ms", 1, GRACE_MAX_MS, &grace_ms) < 0)
		return;
	if (!t->run.ended) {
		abox_touch(t->a);
		cell_interrupt((struct cell *)t, grace_ms * 1000);
	}
	if (t->run.ended)
		req_reply(r, 204, NULL, "", 0);
	else
		run_wait(&t->run, r, 0, 0, NULL, NULL);
}

static void answer(struct req *r, struct task *t, const struct input *in)
{
	struct cell *c = (struct cell *)t;
	bool eof = in->eof || !in->text.set;

	if (!in->text.set && !in->eof)
		own_refuse(r, OWN_INVALID_FIELD, "text", "the body must have 'text' or 'eof'");
	else if (t->run.ended || t->has_exit)
		own_refuse(r, OWN_CELL_ENDED, NULL, "the cell '%s' has ended", t->run.id);
	else if (t->status == TASK_QUEUED || c->asked == 0)
		own_refuse(r, OWN_NO_INPUT, NULL, "the cell '%s' does not wait for input",
			   t->run.id);
	else if (cell_answer(c, eof ? "" : in->text.p, eof ? 0 : in->text.n, eof) < 0)
		own_refuse(r, OWN_INPUT_FULL, NULL, "the box does not listen: nothing was taken");
	else
		req_reply(r, 204, NULL, "", 0);
}

/* --- input for a cell of which the gate before this one has heard more than this one --------------- */

/* Who was asked, and answers while one gate follows another, must not hear that nobody asked: so he waits until the box has said again what it said. */
struct late_input {
	struct req *r;
	struct timer timer;
};

static void on_look(void *arg)
{
	struct late_input *w = arg;
	struct req *r = w->r;

	r->work = NULL;
	r->gone = NULL;
	free(w);
	cell_input(r);
}

static void on_left(struct req *r)
{
	struct late_input *w = r->work;

	timer_clear(&r->g->loop, &w->timer);
	free(w);
}

/* True: it is looked at again in a moment. */
static bool waits(struct req *r, const struct task *t)
{
	struct loop *l = &r->g->loop;
	struct late_input *w;

	if (!t->adopted || l->now_us > t->adopted_us + CATCH_UP_US || t->run.ended || t->has_exit ||
	    t->status == TASK_QUEUED || ((const struct cell *)t)->asked > 0)
		return false;
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return false;
	w->r = r;
	if (timer_set(l, &w->timer, l->now_us + LOOK_US, on_look, w) < 0) {
		free(w);
		return false;
	}
	r->work = w;
	r->gone = on_left;
	return true;
}

void cell_input(struct req *r)
{
	struct task *t = task_find(r, &cell_kind);
	struct ci_body body;
	struct input in;

	if (t == NULL || waits(r, t) || own_decode(r, &cell_input_fields, &body, &in) < 0)
		return;
	abox_touch(t->a);
	answer(r, t, &in);
	ci_body_done(&body);
}
