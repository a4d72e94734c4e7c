// SPDX-License-Identifier: Apache-2.0
/*
 * A fork on its way: IMAGE_NEW, BOX_COPY, a request to the kernel, IMAGE_SEAL; then for each copy a box, its files, its kernel.
 *
 * Who asked may leave, the box may end, a gate may die: what was made until then goes (a box that is being filled says so in its record). A copy is
 * looked up by its id whenever it is needed, for it may have ended meanwhile.
 */
#include "gate/box_fork.h"

#include "base/own.h"
#include "gate/box_carry.h"
#include "gate/kernels.h"
#include "gate/mcp_work.h"
#include "gate/pool.h"
#include "wire/json_text.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A session of some gigabytes takes a few seconds. */
#define ASK_US      (UINT64_C(30) * 1000000)
#define ROOM_BESIDE (UINT64_C(1) << 20)

struct fork_in {
	struct field_str name;
	int64_t count, ttl_seconds, idle_seconds;
	bool count_set, ttl_set, idle_set, metadata_set;
	struct field_list metadata;
};

/* clang-format off */
static const struct field fork_rows[] = {
	{ "name", FIELD_STRING, FIELD_NULLABLE, 1, BOX_NAME - 1, 0, offsetof(struct fork_in, name), .doc = "of the new box, as of one that is made; not with count" },
	{ "count", FIELD_INT, FIELD_NULLABLE, 1, FORK_MAX, 1, offsetof(struct fork_in, count), .doc = "how many; the answer is a list then", .set_at = offsetof(struct fork_in, count_set) },
	{ "ttl_seconds", FIELD_INT, FIELD_NULLABLE, 1, FIELD_NO_MAX, 0, offsetof(struct fork_in, ttl_seconds), .doc = "how long it lives, whatever happens; null: as this one, from now on", .set_at = offsetof(struct fork_in, ttl_set) },
	{ "idle_seconds", FIELD_INT, FIELD_NULLABLE, 0, FIELD_NO_MAX, -1, offsetof(struct fork_in, idle_seconds), .doc = "how long it lives without a command; null: as this one", .set_at = offsetof(struct fork_in, idle_set) },
	{ "metadata", FIELD_MAP, FIELD_NULLABLE, 0, 64, 0, offsetof(struct fork_in, metadata), .doc = "yours; null: as of this one", .set_at = offsetof(struct fork_in, metadata_set) },
};
/* clang-format on */

const struct fields box_fork_fields = { "ForkRequest", fork_rows, ARRAY_LEN(fork_rows),
					sizeof(struct fork_in), FIELDS_CLOSED };

static const char *const dirs_of_workspace[] = { "/workspace", "/home/box", "/tmp", NULL };
static const char *const dirs_of_app[] = { "/app", "/home/box", "/tmp", NULL };

struct fork_one {
	struct req inner; /* by which its box is made */
	struct forking *f;
	char id[OWN_ID]; /* "": there is none yet */
	struct carry carry;
	struct run_reader rd; /* of a question to its kernel: who answers is there */
};

struct forking {
	struct gate *g;
	struct req *r;     /* NULL: who asked has left */
	struct abox *from; /* NULL: it has ended */
	const struct tenant *tenant;
	struct run_reader rd; /* of the request to freeze */
	uint32_t image;       /* 0: there is none */
	uint64_t room;        /* that it is to have; 0: as the keeper thinks */
	uint64_t bytes;       /* of it that are used */
	bool state;           /* there is a kernel to be copied */
	bool list, over;
	char name[BOX_NAME];
	uint64_t ttl_us, idle_us;
	struct texts metadata;
	struct json lost; /* elements of a list */
	int64_t count;    /* execution_count of its kernel */
	unsigned int n, left;
	unsigned int asked; /* of the keeper, which has not answered */
	struct deferred deferred;
	struct fork_one ones[];
};

/* --- the end -------------------------------------------------------------------------------------- */

static void forking_free(void *arg)
{
	struct forking *f = arg;

	f->g->nforking--;
	texts_done(&f->metadata);
	json_done(&f->lost);
	free(f);
}

static void drop_image(struct forking *f)
{
	uint8_t body[4];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, f->image);
	if (f->image != 0)
		(void)keeper_ask(&f->g->keeper, OP_IMAGE_DROP, body, m.len, NULL, NULL);
	f->image = 0;
}

static struct abox *box_of(const struct fork_one *o)
{
	return o->id[0] != '\0' ? abox_with_id(o->f->g, o->f->tenant, o->id, strlen(o->id)) : NULL;
}

/* Memory and files are to be of one moment: nobody else of the box goes on while they are taken. The kernel does, until it has been copied. */
static void hold(struct forking *f, bool kernel_too)
{
	struct kernel *k = kernel_named(f->from, "main", 4);

	f->from->held = true;
	abox_changed(f->from);
	gbox_signal(f->from->box, SIGSTOP);
	if (!kernel_too && k != NULL)
		gjob_signal(&k->job, SIGCONT, 1);
}

static void let_go_on(struct forking *f)
{
	struct abox *a = f->from;

	if (a == NULL || !a->held)
		return;
	a->held = false;
	abox_changed(a);
	if (a->box != NULL)
		gbox_signal(a->box, SIGCONT);
}

/* Nothing of it goes on; boxes that were made stay. */
static void close_all(struct forking *f)
{
	f->over = true;
	let_go_on(f);
	run_detach(&f->rd);
	for (unsigned int i = 0; i < f->n; i++) {
		struct fork_one *o = &f->ones[i];

		if (o->inner.gone != NULL)
			o->inner.gone(&o->inner);
		carry_end(&o->carry);
		run_detach(&o->rd);
	}
	drop_image(f);
	if (f->from != NULL)
		f->from->forking = NULL;
	f->from = NULL;
	if (f->r != NULL)
		f->r->gone = NULL;
	if (f->asked == 0)
		loop_defer(&f->g->loop, &f->deferred, forking_free, f);
}

/* The keeper has answered. false: nobody waits for it any more. */
static bool is_heard(struct forking *f)
{
	f->asked--;
	if (!f->over)
		return true;
	drop_image(f);
	if (f->asked == 0)
		loop_defer(&f->g->loop, &f->deferred, forking_free, f);
	return false;
}

static int ask_keeper(struct forking *f, uint16_t op, const struct msg_out *m, keeper_fn fn)
{
	int r = keeper_ask(&f->g->keeper, op, m->buf, m->len, fn, f);

	f->asked += r == 0;
	return r;
}

static void end_copies(struct forking *f)
{
	for (unsigned int i = 0; i < f->n; i++) {
		struct abox *a = box_of(&f->ones[i]);

		if (a != NULL)
			abox_end(a, REASON_DELETED);
	}
}

static void fail(struct forking *f, enum own_error code, const char *why)
{
	struct req *r = f->r;
	char text[512];

	if (f->over)
		return;
	(void)snprintf(text, sizeof(text), "%s", why);
	close_all(f);
	end_copies(f);
	if (r != NULL)
		own_refuse(r, code, NULL, "%s", text);
}

void forking_end(struct abox *a)
{
	if (a->forking != NULL)
		fail(a->forking, OWN_GONE, "the box has ended while it was copied");
}

static void on_left(struct req *r)
{
	struct forking *f = r->work;

	f->r = NULL;
	fail(f, OWN_GONE, "");
}

static void succeed(struct forking *f)
{
	struct req *r = f->r;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	if (f->list)
		json_open(&j, "boxes", '[');
	for (unsigned int i = 0; i < f->n; i++) {
		struct abox *a = box_of(&f->ones[i]);

		if (a == NULL) {
			json_done(&j);
			fail(f, OWN_BOX_LOST, "a copy has ended before it was complete");
			return;
		}
		a->filling = false;
		abox_changed(a);
		if (f->list)
			json_open(&j, NULL, '{');
		abox_put(a, &j);
		if (f->list)
			json_close(&j, '}');
	}
	if (f->list)
		json_close(&j, ']');
	json_open(&j, "lost", '[');
	if (f->lost.len > 0)
		json_raw(&j, f->lost.buf, f->lost.len);
	json_close(&j, ']');
	json_close(&j, '}');
	close_all(f);
	req_json(r, 201, &j);
}

/* --- a copy --------------------------------------------------------------------------------------- */

static void one_done(struct fork_one *o)
{
	if (--o->f->left == 0)
		succeed(o->f);
}

/* A request to a kernel that is no cell: who answers it is there. One that takes too long is interrupted. -errno. */
static int ask_kernel(struct kernel *k, const char *text, unsigned int flags, struct run_reader *rd,
		      void (*more)(struct run_reader *rd))
{
	static const struct idem_key no_key;
	struct cell_spec spec = { .code = "",
				  .flags = TASK_WHOLE | TASK_ASIDE | flags,
				  .timeout_us = ASK_US };
	struct cell *c;
	struct json j;
	int error;

	json_init(&j);
	json_raw(&j, text, strlen(text));
	spec.request = &j;
	c = cell_new(k, &spec, &no_key, &error);
	json_done(&j);
	if (c == NULL)
		return error;
	if (c->t.released)
		return -ENOMEM;
	run_attach(&c->t.run, rd, 0, more);
	return 0;
}

static void on_kernel_says(struct run_reader *rd)
{
	struct fork_one *o = (struct fork_one *)((char *)rd - offsetof(struct fork_one, rd));
	struct run_told told;
	const char *p;
	size_t n;

	while (run_take(rd, &told, &p, &n)) {
		if (told.event == RUN_REPLY) {
			run_detach(rd);
			one_done(o);
			return;
		}
		if (told.event == RUN_END) {
			fail(o->f, OWN_BOX_LOST, "a copy of the kernel could not go on");
			return;
		}
	}
}

static void thaw(struct fork_one *o)
{
	struct forking *f = o->f;
	struct abox *a = box_of(o);
	struct kernel *k = a != NULL && f->state ? kernel_new(a, "main") : NULL;

	if (a != NULL && !f->state) {
		one_done(o);
		return;
	}
	if (k == NULL) {
		fail(f, OWN_BOX_LOST, "a copy has ended before it was complete");
		return;
	}
	k->copy = true;
	k->count = f->count;
	if (ask_kernel(k, "{\"type\":\"comm_info\",\"content\":{}}", 0, &o->rd, on_kernel_says) < 0)
		fail(f, OWN_NO_MEMORY, "out of memory");
}

static void on_carried(void *arg, const char *why)
{
	struct fork_one *o = arg;
	char text[256];

	if (why == NULL) {
		thaw(o);
		return;
	}
	(void)snprintf(text, sizeof(text), "its files could not be copied: %.180s", why);
	fail(o->f, OWN_BOX_LOST, text);
}

static void take_id(struct fork_one *o, const void *body, size_t n)
{
	struct json_member m = { .key = "id" };
	struct json_text text;

	if (json_text_read(body, n, &text) < 0)
		return;
	json_text_find(text, &m, 1);
	if (!json_text_str(m.value, o->id, sizeof(o->id)))
		o->id[0] = '\0';
}

/* In the words in which the box was refused. */
static void pass_refusal(struct forking *f, int status, const void *body, size_t n)
{
	struct req *r = f->r;
	char *copy = malloc(n + 1);

	if (f->over)
		free(copy);
	else if (copy == NULL || r == NULL) {
		free(copy);
		fail(f, OWN_NO_MEMORY, "out of memory");
	} else {
		(void)memcpy(copy, body, n);
		close_all(f);
		end_copies(f);
		if (status == 429 || status == 503)
			req_header(r, "Retry-After", "1");
		req_reply(r, status, "application/json", copy, n);
		free(copy);
	}
}

static void on_made(struct req *inner, int status, const void *body, size_t n)
{
	struct fork_one *o = (struct fork_one *)inner; /* its first member */
	struct forking *f = o->f;
	struct abox *a;

	if (status != 201) {
		pass_refusal(f, status, body, n);
		return;
	}
	take_id(o, body, n);
	a = box_of(o);
	if (a == NULL || a->box == NULL || f->from == NULL || f->from->box == NULL)
		fail(f, OWN_BOX_LOST, "a copy has ended before it was complete");
	else
		carry_begin(&o->carry, f->from->box, a->box,
			    f->from->app ? dirs_of_app : dirs_of_workspace, on_carried, o);
}

static int copy_texts(const struct texts *from, struct texts *to)
{
	const char *key, *value;
	size_t at = 0;

	while (texts_next(from, &at, &key, &value))
		if (texts_add(to, key, strlen(key), value, strlen(value)) < 0)
			return -ENOMEM;
	return 0;
}

static void make(struct fork_one *o)
{
	static const struct req_via via = { .reply = on_made };
	struct forking *f = o->f;
	const struct abox *a = f->from;
	struct box_wish w = { .like = a,
			      .name = f->name[0] != '\0' ? f->name : NULL,
			      .image = f->image,
			      .limits = a->limits,
			      .ttl_us = f->ttl_us,
			      .idle_us = f->idle_us };

	if (copy_texts(&a->env, &w.env) < 0 || copy_texts(&f->metadata, &w.metadata) < 0 ||
	    copy_texts(&a->tools, &w.tools) < 0 || net_policy_copy(&a->net, &w.net) < 0) {
		texts_done(&w.env);
		texts_done(&w.metadata);
		texts_done(&w.tools);
		net_policy_done(&w.net);
		fail(f, OWN_NO_MEMORY, "out of memory");
		return;
	}
	o->inner.g = f->g;
	o->inner.tenant = f->tenant;
	o->inner.route = f->r->route; /* for the audit */
	(void)memcpy(o->inner.id, f->r->id, sizeof(o->inner.id));
	o->inner.via = &via;
	box_make(&o->inner, &w);
}

static void make_all(struct forking *f)
{
	hold(f, /* kernel_too= */ true);
	for (unsigned int i = 0; i < f->n && !f->over; i++)
		make(&f->ones[i]);
}

/* --- the image ------------------------------------------------------------------------------------ */

static void on_sealed(void *arg, struct chan_msg *m, const struct err *e)
{
	struct forking *f = arg;

	char why[sizeof(e->text)] = "";

	if (m != NULL)
		chan_msg_close(m);
	else
		(void)snprintf(why, sizeof(why), "%s", e->text);
	if (!is_heard(f))
		return;
	if (m == NULL)
		fail(f, OWN_NOT_COPIED, why);
	else
		make_all(f);
}

static int ask_about_image(struct forking *f, uint16_t op, keeper_fn fn)
{
	uint8_t body[20];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	if (op == OP_BOX_COPY)
		msg_put_u64(&m, f->from->box->id);
	msg_put_u32(&m, f->image);
	msg_put_u64(&m, op == OP_BOX_COPY ? f->room : f->bytes);
	return ask_keeper(f, op, &m, fn);
}

static struct json_text member(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

static void begin_image(struct forking *f);

/* There was too little room: once more, with what it says that it needs. */
static bool try_again(struct forking *f, struct json_text content)
{
	int64_t needs;

	if (f->room != 0 || !json_text_i64(member(content, "needs"), &needs) || needs <= 0)
		return false;
	f->room = (uint64_t)needs + (uint64_t)needs / 16 + ROOM_BESIDE;
	drop_image(f);
	begin_image(f);
	return true;
}

/* What the kernel says of its copies is hostile; it is passed on to who owns it. */
static void take_reply(struct forking *f, const char *p, size_t n)
{
	struct json_walk w = { p, p + n };
	struct json_text key, value, content = { 0 }, lost;
	char name[16] = "", why[256] = "";
	int64_t bytes;

	while (json_walk_next(&w, &key, &value))
		if (json_text_str(key, name, sizeof(name)) && strcmp(name, "content") == 0)
			content = value;
	if (!json_text_str(member(content, "status"), name, sizeof(name)) ||
	    strcmp(name, "ok") != 0) {
		if (try_again(f, content))
			return;
		(void)json_text_str(member(content, "evalue"), why, sizeof(why));
		fail(f, OWN_NOT_COPIED, why[0] != '\0' ? why : "the kernel could not be copied");
		return;
	}
	if (json_text_i64(member(content, "bytes"), &bytes) && bytes > 0)
		f->bytes = (uint64_t)bytes;
	lost = member(content, "lost");
	w = json_walk(lost);
	while (json_text_kind(lost) == '[' && json_walk_next(&w, &key, &value))
		if (json_text_kind(value) == '"')
			json_text_put(value, &f->lost, NULL);
	if (f->lost.failed || ask_about_image(f, OP_IMAGE_SEAL, on_sealed) < 0)
		fail(f, OWN_NO_MEMORY, "out of memory");
}

static void on_frozen(struct run_reader *rd)
{
	struct forking *f = (struct forking *)((char *)rd - offsetof(struct forking, rd));
	struct run_told told;
	const char *p;
	size_t n;

	while (run_take(rd, &told, &p, &n)) {
		if (told.event == RUN_REPLY) {
			take_reply(f, p, n);
			run_detach(rd);
			return;
		}
		if (told.event == RUN_END) {
			fail(f, OWN_NOT_COPIED, "the kernel ended before it was copied");
			return;
		}
	}
}

static void on_lent(void *arg, struct chan_msg *m, const struct err *e)
{
	struct forking *f = arg;
	struct kernel *k;

	if (m != NULL)
		chan_msg_close(m);
	if (!is_heard(f))
		return;
	if (m == NULL) {
		fail(f, OWN_NOT_COPIED, e->text);
		return;
	}
	k = kernel_named(f->from, "main", 4);
	hold(f, /* kernel_too= */ false);
	if (k == NULL || ask_kernel(k, "{\"type\":\"freeze\",\"content\":{}}", TASK_COPIES, &f->rd,
				    on_frozen) < 0)
		fail(f, OWN_NOT_COPIED, "the kernel cannot be asked now");
}

static void on_image(void *arg, struct chan_msg *m, const struct err *e)
{
	struct forking *f = arg;
	struct msg_in in;

	if (m != NULL) {
		msg_in_init(&in, m->body, m->len);
		f->image = msg_get_u32(&in);
		chan_msg_close(m);
	}
	if (!is_heard(f))
		return;
	if (m == NULL)
		fail(f, OWN_UNSCHEDULABLE, e->text);
	else if (ask_about_image(f, OP_BOX_COPY, on_lent) < 0)
		fail(f, OWN_UNSCHEDULABLE, "the keeper cannot be asked");
}

static void begin_image(struct forking *f)
{
	static const char label[] = "copy";
	uint8_t body[IMAGE_LABEL_MAX + 8];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, label);
	if (ask_keeper(f, OP_IMAGE_NEW, &m, on_image) < 0)
		fail(f, OWN_UNSCHEDULABLE, "the keeper cannot be asked");
}

/* --- what is asked for ------------------------------------------------------------------------------ */

/* Whether this box can be copied now; -1: answered. */
static int check_box(struct req *r, const struct abox *a)
{
	const struct kernel *k = kernel_named(a, "main", 4);

	if (a->mounted)
		own_refuse(r, OWN_NOT_COPIED, NULL,
			   "it shows directories of the host, which a copy would change, too");
	else if (a->forking != NULL)
		own_refuse(r, OWN_BUSY, NULL, "it is being copied already");
	else if (a->box == NULL)
		own_refuse(r, OWN_WRONG_STATE, NULL, "the box cannot be reached yet");
	else if (r->g->nforking >= FORKS_AT_ONCE)
		own_refuse(r, OWN_TOO_MANY, NULL, "%d boxes are being copied already",
			   FORKS_AT_ONCE);
	else if (k != NULL && k->state != KERNEL_IDLE && k->state != KERNEL_NONE)
		own_refuse(r, OWN_BUSY, NULL,
			   "its kernel is at work: wait until the cell has ended");
	else
		return 0;
	return -1;
}

/* What a dialect knows its own boxes by: a copy is nobody's session. */
static bool is_of_dialect(const char *key)
{
	return strcmp(key, BOX_SESSION_KEY) == 0 || strcmp(key, MCP_BOX_KEY) == 0 ||
	       strncmp(key, "jupyter.", 8) == 0;
}

static int take_metadata(struct req *r, const struct abox *a, const struct fork_in *in,
			 struct forking *f)
{
	const char *key, *value;
	size_t at = 0;
	int rc = 0;

	if (in->metadata_set) {
		rc = box_take_texts(r, "metadata", &in->metadata, false, &f->metadata);
		if (rc < 0 || texts_get(&f->metadata, BOX_SESSION_KEY) == NULL)
			return rc;
		own_refuse(r, OWN_INVALID_FIELD, "metadata",
			   "'metadata." BOX_SESSION_KEY "' is set by the Sandbox Runtime dialect");
		return -1;
	}
	while (rc == 0 && texts_next(&a->metadata, &at, &key, &value))
		if (!is_of_dialect(key))
			rc = texts_add(&f->metadata, key, strlen(key), value, strlen(value));
	if (rc < 0)
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
	return rc;
}

static int take(struct req *r, const struct abox *a, const struct fork_in *in, struct forking *f)
{
	if (in->name.set && in->count_set) {
		own_refuse(r, OWN_INVALID_FIELD, "name", "several boxes cannot have one name");
		return -1;
	}
	if (box_check_times(r, in->ttl_set, in->ttl_seconds, in->idle_set, in->idle_seconds) < 0)
		return -1;
	if (box_take_name(r, &in->name, f->name) < 0)
		return -1;
	f->ttl_us = in->ttl_set ? (uint64_t)in->ttl_seconds * 1000000u : a->ttl_us;
	f->idle_us = in->idle_set ? (uint64_t)in->idle_seconds * 1000000u : a->idle_us;
	f->list = in->count_set;
	return take_metadata(r, a, in, f);
}

static struct forking *forking_new(struct req *r, struct abox *a, unsigned int n)
{
	struct forking *f = calloc(1, sizeof(*f) + n * sizeof(f->ones[0]));

	if (f == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	f->g = r->g;
	f->g->nforking++;
	f->tenant = r->tenant;
	f->n = f->left = n;
	json_init(&f->lost);
	for (unsigned int i = 0; i < n; i++)
		f->ones[i].f = f;
	f->r = r;
	f->from = a;
	return f;
}

void box_fork(struct req *r)
{
	struct abox *a = abox_find(r, true);
	const struct kernel *k;
	struct forking *f;
	struct ci_body text;
	struct fork_in in;

	if (a == NULL || own_decode(r, &box_fork_fields, &text, &in) < 0)
		return;
	f = check_box(r, a) == 0 ? forking_new(r, a, in.count_set ? (unsigned int)in.count : 1)
				 : NULL;
	if (f == NULL || take(r, a, &in, f) < 0) {
		if (f != NULL)
			forking_free(f);
		ci_body_done(&text);
		return;
	}
	ci_body_done(&text);
	abox_touch(a);
	a->forking = f;
	r->work = f;
	r->gone = on_left;
	k = kernel_named(a, "main", 4);
	f->state = k != NULL && k->state == KERNEL_IDLE;
	f->count = k != NULL ? k->count : 0;
	if (f->state)
		begin_image(f);
	else
		make_all(f);
}
