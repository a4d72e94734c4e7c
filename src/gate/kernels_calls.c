// SPDX-License-Identifier: Apache-2.0
/* The calls about kernels of a box: list, look, interrupt, restart, end. */
#include "gate/kernels.h"

#include "base/own.h"

#include <string.h>

struct which {
	struct field_str kernel;
};

static const struct field which_rows[] = {
	{ .name = "kernel",
	  .type = FIELD_STRING,
	  .min = 1,
	  .max = KERNEL_NAME - 1,
	  .at = offsetof(struct which, kernel),
	  .doc = "which one",
	  .text = "main" },
};

const struct fields kernel_fields = { "KernelRequest", which_rows, ARRAY_LEN(which_rows),
				      sizeof(struct which), FIELDS_CLOSED };

static void put(const struct kernel *k, struct json *j)
{
	json_open(j, NULL, '{');
	json_str(j, "name", k->name);
	json_str(j, "state", kernel_state_str(k));
	if (k->count > 0)
		json_i64(j, "execution_count", k->count);
	else
		json_null(j, "execution_count");
	json_u64(j, "queued", k->nqueued);
	if (k->running != NULL)
		json_str(j, "cell", k->running->t.run.id);
	else
		json_null(j, "cell");
	if (k->started_ms != 0)
		own_time(j, "started_at", k->started_ms);
	else
		json_null(j, "started_at");
	json_close(j, '}');
}

static struct kernel *find(struct req *r, const struct abox *a, const char *name, size_t n)
{
	struct kernel *k = kernel_named(a, name, n);

	if (k == NULL || k->unwanted) {
		own_refuse(r, OWN_NOT_FOUND, NULL, "there is no kernel '%.*s'",
			   (int)(n < KERNEL_NAME ? n : KERNEL_NAME), name);
		return NULL;
	}
	return k;
}

void kernel_list(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct json j;

	if (a == NULL)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "kernels", '[');
	for (const struct kernel *k = a->kernels; k != NULL; k = k->next)
		put(k, &j);
	json_close(&j, ']');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void kernel_get(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct kernel *k = a != NULL ? find(r, a, r->param[1].p, r->param[1].n) : NULL;
	struct json j;

	if (k == NULL)
		return;
	json_init(&j);
	put(k, &j);
	req_json(r, 200, &j);
}

/* The kernel of the body; one that was never used is "main" only. NULL: answered. */
static struct kernel *take_kernel(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct kernel *k = NULL;
	struct ci_body body;
	struct which in;

	if (a == NULL || own_decode(r, &kernel_fields, &body, &in) < 0)
		return NULL;
	abox_touch(a);
	if (strcmp(in.kernel.p, "main") == 0 && kernel_named(a, "main", 4) == NULL) {
		k = kernel_new(a, "main");
		if (k == NULL)
			own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
	} else {
		k = find(r, a, in.kernel.p, in.kernel.n);
	}
	ci_body_done(&body);
	return k;
}

void kernel_interrupt(struct req *r)
{
	struct kernel *k = take_kernel(r);

	if (k == NULL)
		return;
	if (k->running != NULL)
		cell_interrupt(k->running, 0);
	req_reply(r, 204, NULL, "", 0);
}

void kernel_restart(struct req *r)
{
	struct kernel *k = take_kernel(r);

	if (k == NULL)
		return;
	audit(r->g, "kernel_restarted", r, "tenant", k->a->tenant->name, "box", k->a->id, NULL);
	kernel_await(k, r);
	kernel_end(k, true);
}

void kernel_delete(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct kernel *k = a != NULL ? find(r, a, r->param[1].p, r->param[1].n) : NULL;

	if (k == NULL)
		return;
	abox_touch(a);
	kernel_await(k, r);
	kernel_end(k, false);
}
