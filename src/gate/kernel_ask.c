// SPDX-License-Identifier: Apache-2.0
/*
 * Questions to a kernel: what a name could become, whether a cell is complete, what something is. They wait for their turn as
 * cells do, are in no list, and are gone when they were answered. A kernel that is busy answers when it is not: so does an
 * IPython.
 */
#include "gate/kernels.h"

#include "base/own.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>

enum { ASK_TIMEOUT_US = 10 * 1000 * 1000 };

struct ask_in {
	struct field_str code, kernel;
	int64_t cursor, detail;
	bool cursor_set;
};

/* clang-format off */
#define CODE   { "code", FIELD_STRING, FIELD_REQUIRED, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct ask_in, code), .doc = "a cell, as far as it was typed" }
#define KERNEL { "kernel", FIELD_STRING, 0, 1, KERNEL_NAME - 1, 0, offsetof(struct ask_in, kernel), .doc = "who is asked; made on first use", .text = "main" }
#define CURSOR { "cursor", FIELD_INT, FIELD_NULLABLE, 0, FIELD_NO_MAX, -1, offsetof(struct ask_in, cursor), .doc = "where in it, in characters; null: at its end", .set_at = offsetof(struct ask_in, cursor_set) }
static const struct field complete_rows[] = { CODE, CURSOR, KERNEL };
static const struct field is_complete_rows[] = { CODE, KERNEL };
static const struct field inspect_rows[] = {
	CODE, CURSOR, KERNEL,
	{ "detail", FIELD_INT, 0, 0, 1, 0, offsetof(struct ask_in, detail), .doc = "0: what it is; 1: its source, too" },
};
/* clang-format on */

const struct fields kernel_complete_fields = { "CompleteRequest", complete_rows,
					       ARRAY_LEN(complete_rows), sizeof(struct ask_in),
					       FIELDS_CLOSED };
const struct fields kernel_is_complete_fields = { "IsCompleteRequest", is_complete_rows,
						  ARRAY_LEN(is_complete_rows),
						  sizeof(struct ask_in), FIELDS_CLOSED };
const struct fields kernel_inspect_fields = { "InspectRequest", inspect_rows,
					      ARRAY_LEN(inspect_rows), sizeof(struct ask_in),
					      FIELDS_CLOSED };

/* What is asked, and which members of the reply are the answer, under which names. */
struct question {
	const char *type;
	const struct fields *in;
	bool cursor;
	struct {
		const char *from, *to;
	} members[3];
};

static const struct question complete = {
	"complete",
	&kernel_complete_fields,
	true,
	{ { "matches", "matches" }, { "cursor_start", "start" }, { "cursor_end", "end" } }
};
static const struct question is_complete = { "is_complete",
					     &kernel_is_complete_fields,
					     false,
					     { { "status", "status" }, { "indent", "indent" } } };
static const struct question inspect = {
	"inspect", &kernel_inspect_fields, true, { { "found", "found" }, { "data", "data" } }
};

struct ask {
	struct run_reader rd;
	struct gate *g;
	struct req *r;
	const struct question *q;
	struct timer late;
	struct deferred deferred;
};

static void ask_free(void *arg)
{
	free(arg);
}

static void ask_end(struct ask *a)
{
	timer_clear(&a->g->loop, &a->late);
	run_detach(&a->rd);
	loop_defer(&a->g->loop, &a->deferred, ask_free, a);
}

static void on_gone(struct req *r)
{
	ask_end(r->work);
}

static struct json_text member(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

/* Of the members type and content of a reply's event. */
static struct json_text content_of(const char *p, size_t n)
{
	struct json_walk w = { p, p + n };
	struct json_text key, value;
	char name[16];

	while (json_walk_next(&w, &key, &value))
		if (json_text_str(key, name, sizeof(name)) && strcmp(name, "content") == 0)
			return value;
	return (struct json_text){ 0 };
}

static void answer(struct ask *a, struct json_text content)
{
	const struct question *q = a->q;
	struct req *r = a->r;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	for (unsigned int i = 0; i < ARRAY_LEN(q->members) && q->members[i].from != NULL; i++)
		json_text_put(member(content, q->members[i].from), &j, q->members[i].to);
	json_close(&j, '}');
	r->gone = NULL;
	ask_end(a);
	req_json(r, 200, &j);
}

static void refuse(struct ask *a, const char *why)
{
	struct req *r = a->r;

	r->gone = NULL;
	ask_end(a);
	own_refuse(r, OWN_WRONG_STATE, "kernel", "%s", why);
}

/* The question goes on: to end it would be to end what the kernel has. */
static void on_late(void *arg)
{
	refuse(arg, "the kernel did not answer in time");
}

static void on_more(struct run_reader *rd)
{
	struct ask *a = (struct ask *)rd; /* its first member */
	struct run_told told;
	const char *p;
	size_t n;

	while (run_take(rd, &told, &p, &n)) {
		if (told.event == RUN_REPLY) {
			answer(a, content_of(p, n));
			return;
		}
		if (told.event == RUN_START)
			(void)timer_set(&a->g->loop, &a->late, a->g->loop.now_us + ASK_TIMEOUT_US,
					on_late, a);
		if (told.event != RUN_END)
			continue;
		refuse(a, "the kernel did not answer");
		return;
	}
}

static int put_request(const struct question *q, const struct ask_in *in, struct json *j)
{
	json_open(j, NULL, '{');
	json_str(j, "type", q->type);
	json_open(j, "content", '{');
	json_bytes(j, "code", in->code.p, in->code.n);
	if (q->cursor) {
		size_t chars = 0;

		for (size_t i = 0; i < in->code.n; i++)
			chars += ((unsigned char)in->code.p[i] & 0xc0) != 0x80;
		json_i64(j, "cursor_pos",
			 in->cursor_set && in->cursor < (int64_t)chars ? in->cursor
								       : (int64_t)chars);
	}
	json_i64(j, "detail_level", in->detail);
	json_close(j, '}');
	json_close(j, '}');
	return j->failed ? -ENOMEM : 0;
}

static void ask(struct req *r, const struct question *q, struct abox *box, const struct ask_in *in)
{
	static const struct idem_key no_key;
	struct kernel *k = cell_kernel(r, box, &in->kernel);
	struct cell_spec spec = { .code = "", .flags = TASK_WHOLE | TASK_ASIDE };
	struct ask *a = k != NULL ? calloc(1, sizeof(*a)) : NULL;
	struct cell *c = NULL;
	struct json j;
	int error = -ENOMEM;

	if (k == NULL)
		return;
	json_init(&j);
	spec.request = &j;
	if (a != NULL && put_request(q, in, &j) == 0)
		c = cell_new(k, &spec, &no_key, &error);
	json_done(&j);
	if (c == NULL || c->t.released) {
		free(a);
		own_refuse(r, error == -ENOBUFS ? OWN_TOO_MANY : OWN_NO_MEMORY, NULL,
			   "the kernel cannot be asked now");
		return;
	}
	a->g = r->g;
	a->r = r;
	a->q = q;
	r->work = a;
	r->gone = on_gone;
	run_attach(&c->t.run, &a->rd, 0, on_more);
}

static void take(struct req *r, const struct question *q)
{
	struct abox *box = abox_find(r, true);
	struct ci_body body;
	struct ask_in in;

	if (box == NULL || own_decode(r, q->in, &body, &in) < 0)
		return;
	if (box->box == NULL)
		own_refuse(r, OWN_WRONG_STATE, NULL, "the box cannot be reached yet");
	else
		ask(r, q, box, &in);
	ci_body_done(&body);
}

void kernel_complete(struct req *r)
{
	take(r, &complete);
}

void kernel_is_complete(struct req *r)
{
	take(r, &is_complete);
}

void kernel_inspect(struct req *r)
{
	take(r, &inspect);
}
