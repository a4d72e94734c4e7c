// SPDX-License-Identifier: Apache-2.0
#include "gate/oneshot.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "gate/record.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	ENTRIES_MAX = 200000,
	RETURNED_MAX = 10000,
	BEFORE_SAVED_MAX = 120,  /* entries of the first listing that fit into a record */
	GRACE_US = 60 * 1000000, /* for files in and out, beside the program's own time */
};

#define MAIN_JOB (UINT64_MAX / 2) /* other ids are times */

enum phase {
	PHASE_STAT,
	PHASE_ADMIT,
	PHASE_BOX,
	PHASE_STAGE,
	PHASE_BEFORE,
	PHASE_RECORD,
	PHASE_RUN,
	PHASE_AFTER,
	PHASE_FETCH,
	PHASE_DONE,
};

struct entry {
	uint64_t path_hash, state_hash; /* of the first listing only these are kept */
	char *path;
	uint64_t size;
};

struct oneshot {
	struct gate *g;
	struct oneshot_spec spec;
	const struct oneshot_ops *ops;
	void *arg;
	enum phase phase;
	struct deferred deferred;
	struct ticket ticket;
	struct gbox *box;
	struct gjob program; /* its end stays unacknowledged until the owner has delivered it */
	struct gjob job;     /* a file or a listing under way */
	uint64_t born_us;
	char request[REQ_ID];
	bool counted; /* against max_boxes */
	bool told, ended, adopted;
	size_t at; /* file that is being fetched */
	struct stage stage;
	struct listing_reader *reader;
	struct entry *before, *after;
	size_t nbefore, nafter, cap;

	/* a file on its way from the box to the store */
	struct store_upload upload;
	bool uploading;
	struct buf fetched;
	uint64_t fetched_number;
	bool fetch_ended;
	struct oneshot_result result;
};

static void next_fetch(struct oneshot *o);
static void start_run(struct oneshot *o);
static void save_record(struct oneshot *o);

/* --- the end ------------------------------------------------------------------------------------ */

static void free_entries(struct entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

static void oneshot_free(void *arg)
{
	struct oneshot *o = arg;

	free_entries(o->before, o->nbefore);
	free_entries(o->after, o->nafter);
	for (size_t i = 0; i < o->result.nfiles; i++)
		free(o->result.files[i].path);
	free(o->result.files);
	free(o->reader);
	buf_done(&o->fetched);
	free(o);
}

/* Nothing of it is left: so the slot is free. */
static void box_ended(void *arg, const struct box_figures *f)
{
	struct oneshot *o = arg;

	if (f != NULL && f->oom_kills > 0) {
		o->g->metrics.boxes_oom++;
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "memory", "tenant",
		      o->spec.tenant->name, NULL);
	}
	if (o->counted)
		quota_give(o->g, o->spec.tenant);
	admit_done(&o->ticket);
	loop_defer(&o->g->loop, &o->deferred, oneshot_free, o);
}

void oneshot_end(struct oneshot *o)
{
	if (o->ended)
		return;
	o->ended = true;
	if (o->phase == PHASE_RECORD)
		keeper_forget(&o->g->keeper, o);
	o->phase = PHASE_DONE;
	stage_end(&o->stage);
	if (o->uploading)
		store_upload_abort(&o->upload);
	if (o->box != NULL)
		gbox_end(o->box, box_ended, o);
	else
		box_ended(o, NULL);
	o->box = NULL;
}

static void fail(struct oneshot *o, int status, int why, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void fail(struct oneshot *o, int status, int why, const char *fmt, ...)
{
	struct oneshot_failure f = { .status = status, .file = o->stage.at };
	va_list ap;

	if (o->told || o->ended)
		return;
	o->told = true;
	f.why = (unsigned int)why;
	f.ran = o->phase >= PHASE_RUN;
	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	o->ops->failed(o->arg, &f);
}

static void box_lost(struct oneshot *o)
{
	fail(o, 500, ONESHOT_BOX_GONE, "the box ended unexpectedly");
}

/* --- listings ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ c[i]) * 0x100000001b3u;
	return h;
}

static uint64_t hash_path(const char *path)
{
	return mix(0xcbf29ce484222325u, path, strlen(path));
}

static uint64_t hash_state(const struct listing_entry *e)
{
	uint64_t h = mix(0xcbf29ce484222325u, &e->inode, sizeof(e->inode));

	h = mix(h, &e->ctime_ns, sizeof(e->ctime_ns));
	return mix(h, &e->size, sizeof(e->size));
}

static int grow(struct entry **v, size_t n, size_t *cap)
{
	struct entry *more;

	if (n < *cap)
		return 0;
	if (n >= ENTRIES_MAX)
		return -EFBIG;
	more = reallocarray(*v, *cap * 2 + 64, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	*v = more;
	*cap = *cap * 2 + 64;
	return 0;
}

static int add_before(void *arg, const struct listing_entry *e)
{
	struct oneshot *o = arg;

	if (e->type != 'f')
		return 0;
	if (grow(&o->before, o->nbefore, &o->cap) < 0)
		return -EFBIG;
	o->before[o->nbefore++] =
		(struct entry){ .path_hash = hash_path(e->path), .state_hash = hash_state(e) };
	return 0;
}

static bool is_ignored(const struct oneshot *o, const char *path)
{
	const char *slash = strrchr(path, '/');

	return o->spec.ignore != NULL &&
	       strcmp(slash != NULL ? slash + 1 : path, o->spec.ignore) == 0;
}

static bool is_unchanged(const struct oneshot *o, const struct listing_entry *e)
{
	uint64_t path = hash_path(e->path), state = hash_state(e);

	for (size_t i = 0; i < o->nbefore; i++)
		if (o->before[i].path_hash == path)
			return o->before[i].state_hash == state;
	return false;
}

static int add_after(void *arg, const struct listing_entry *e)
{
	struct oneshot *o = arg;
	char *path;

	if (e->type != 'f' || is_ignored(o, e->path) || is_unchanged(o, e))
		return 0;
	if (o->nafter >= RETURNED_MAX)
		return 0; /* the rest stays where it is */
	if (grow(&o->after, o->nafter, &o->cap) < 0)
		return -EFBIG;
	path = strdup(e->path);
	if (path == NULL)
		return -ENOMEM;
	o->after[o->nafter++] = (struct entry){ .path = path, .size = e->size };
	return 0;
}

static void list_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct oneshot *o = arg;
	int r = stream != 1 ? 0
			    : listing_feed(o->reader, p, n,
					   o->phase == PHASE_BEFORE ? add_before : add_after, o);

	gjob_ack(&o->job, number);
	if (r < 0)
		fail(o, 500, ONESHOT_BOX_GONE,
		     r == -EFBIG ? "the workspace has too many files"
				 : "the workspace cannot be listed");
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

/* Holes take no room in a box but would in the store: all files together are returned up to the size of a workspace. */
static void drop_excess(struct oneshot *o)
{
	uint64_t left = o->spec.box.limits.v[LIMIT_WORKSPACE];
	size_t kept = 0;

	for (size_t i = 0; i < o->nafter; i++) {
		if (o->after[i].size > left) {
			free(o->after[i].path);
			continue;
		}
		left -= o->after[i].size;
		o->after[kept++] = o->after[i];
	}
	o->nafter = kept;
}

static void list_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct oneshot *o = arg;

	(void)x; /* what cannot be read is passed over */
	gjob_ack(&o->job, number);
	if (o->told)
		return;
	if (o->phase == PHASE_BEFORE) {
		save_record(o);
		return;
	}
	if (o->nafter > 0)
		qsort(o->after, o->nafter, sizeof(*o->after), by_path);
	drop_excess(o);
	o->phase = PHASE_FETCH;
	o->at = 0;
	next_fetch(o);
}

static void job_failed(void *arg, int error, const char *why)
{
	struct oneshot *o = arg;

	fail(o, error == EAGAIN || error == ENOMEM || error == EMFILE ? 503 : 500, ONESHOT_BOX_GONE,
	     "the box refused a job: %s", why);
}

static void start_listing(struct oneshot *o, enum phase phase)
{
	static const struct gjob_ops ops = { .output = list_output,
					     .ended = list_ended,
					     .failed = job_failed };
	static const char *const argv[] = { ".", NULL }, *const envp[] = { NULL };
	struct job_spec spec = {
		.kind = JOB_LIST, .cwd = "/workspace", .argv = argv, .envp = envp
	};

	o->phase = phase;
	o->cap = 0;
	if (o->reader == NULL)
		o->reader = malloc(sizeof(*o->reader));
	if (o->reader == NULL) {
		fail(o, 503, ONESHOT_NO_BOX, "out of memory");
		return;
	}
	o->reader->len = 0;
	if (gjob_start(o->box, &o->job, 0, &spec, &ops, o) < 0)
		box_lost(o);
}

/* --- files in ----------------------------------------------------------------------------------- */

static void on_staged(void *arg)
{
	struct oneshot *o = arg;

	/* The program itself, which is not returned, needs no listing. */
	if (o->spec.nfiles > 1)
		start_listing(o, PHASE_BEFORE);
	else
		save_record(o);
}

static void on_not_staged(void *arg, const struct stage_failure *f)
{
	struct oneshot *o = arg;

	fail(o, f->status, f->status == 404 ? ONESHOT_NO_FILE : ONESHOT_NO_STORE, "%s", f->text);
}

/* --- the program -------------------------------------------------------------------------------- */

static void main_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct oneshot *o = arg;

	o->ops->output(o->arg, number, stream, p, n);
}

static void main_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct oneshot *o = arg;

	o->result.exit = *x;
	o->result.number = number;
	if ((x->flags & JOB_TIMED_OUT) != 0)
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "timeout", "tenant",
		      o->spec.tenant->name, NULL);
	if ((x->flags & (JOB_CUT_STDOUT | JOB_CUT_STDERR)) != 0)
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "output", "tenant",
		      o->spec.tenant->name, NULL);
	if (x->how == JOB_SIGNALED && x->code == SIGXCPU)
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "cpu_seconds",
		      "tenant", o->spec.tenant->name, NULL);
	if (x->how == JOB_FAILED)
		fail(o, 500, ONESHOT_BOX_GONE, "the program could not be started: %s", x->stage);
	else
		start_listing(o, PHASE_AFTER);
}

static void start_run(struct oneshot *o)
{
	static const struct gjob_ops ops = { .output = main_output,
					     .ended = main_ended,
					     .failed = job_failed };
	struct job_spec spec = {
		.kind = JOB_EXEC,
		.flags = JOB_SWEEP | (o->spec.input != NULL ? JOB_STDIN : 0),
		.timeout_us = o->spec.timeout_us,
		.output_max = o->spec.output_max,
		.cwd = "/workspace",
		.argv = o->spec.argv,
		.envp = o->spec.envp,
	};

	o->phase = PHASE_RUN;
	if (gjob_start(o->box, &o->program, MAIN_JOB, &spec, &ops, o) < 0) {
		box_lost(o);
		return;
	}
	if (o->spec.input != NULL)
		gjob_input_all(&o->program, o->spec.input, o->spec.input_len);
	if (o->ops->running != NULL)
		o->ops->running(o->arg);
}

void oneshot_ack(struct oneshot *o, uint64_t number)
{
	gjob_ack(&o->program, number);
}

bool oneshot_is_running(const struct oneshot *o)
{
	return o->phase >= PHASE_RUN && !o->ended;
}

/* --- files out ---------------------------------------------------------------------------------- */

static void tell_result(struct oneshot *o)
{
	if (o->told)
		return;
	o->told = true;
	o->result.duration_us = clock_us() - o->born_us;
	o->ops->result(o->arg, &o->result);
}

static int add_returned(struct oneshot *o, const char *path, const char *id)
{
	struct oneshot_file *v = reallocarray(o->result.files, o->result.nfiles + 1, sizeof(*v));
	char *copy = strdup(path);

	if (v != NULL)
		o->result.files = v;
	if (v == NULL || copy == NULL) {
		free(copy);
		return -ENOMEM;
	}
	v[o->result.nfiles].path = copy;
	(void)snprintf(v[o->result.nfiles].id, sizeof(v->id), "%s", id);
	o->result.nfiles++;
	return 0;
}

static void stored(void *arg, const struct store_meta *meta, const struct store_failure *f)
{
	struct oneshot *o = arg;

	o->uploading = false;
	if (meta != NULL && add_returned(o, o->after[o->at].path, meta->id) < 0) {
		fail(o, 503, ONESHOT_NO_STORE, "out of memory");
		return;
	}
	if (meta == NULL && f->reason != STORE_SAME) {
		fail(o, 503, ONESHOT_NO_STORE, "a file could not be stored: %s",
		     store_reason_str(f->reason));
		return;
	}
	o->at++;
	next_fetch(o);
}

/* Move on what came from the box; acknowledged when the store's pipe has it. */
static void move_fetched(void *arg)
{
	struct oneshot *o = arg;

	if (!o->uploading)
		return;
	if (buf_len(&o->fetched) > 0)
		buf_take(&o->fetched, store_upload_write(&o->upload, buf_head(&o->fetched),
							 buf_len(&o->fetched)));
	if (buf_len(&o->fetched) > 0)
		return;
	if (o->fetched_number > 0)
		gjob_ack(&o->job, o->fetched_number);
	o->fetched_number = 0;
	if (o->fetch_ended)
		store_upload_commit(&o->upload);
}

static void get_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct oneshot *o = arg;

	if (stream != 1) {
		gjob_ack(&o->job, number);
		return;
	}
	o->fetched_number = number;
	if (buf_put(&o->fetched, p, n) < 0)
		fail(o, 503, ONESHOT_NO_STORE, "out of memory");
	else
		move_fetched(o);
}

static void get_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct oneshot *o = arg;

	if (x->how == JOB_EXITED && x->code == 0) {
		o->fetched_number = number;
		o->fetch_ended = true;
		move_fetched(o);
		return;
	}
	/* It went away, or may not be read: then it is not returned. */
	gjob_ack(&o->job, number);
	store_upload_abort(&o->upload);
	o->uploading = false;
	buf_done(&o->fetched);
	o->at++;
	next_fetch(o);
}

static const struct stage_file *staged(const struct oneshot *o, const char *path)
{
	for (size_t i = 0; i < o->spec.nfiles; i++)
		if (strcmp(o->spec.files[i].path, path) == 0 && o->spec.files[i].has_sha)
			return &o->spec.files[i];
	return NULL;
}

static void next_fetch(struct oneshot *o)
{
	static const struct gjob_ops ops = { .output = get_output,
					     .ended = get_ended,
					     .failed = job_failed };
	static const char *const envp[] = { NULL };
	const char *path = o->at < o->nafter ? o->after[o->at].path : NULL;
	const char *const argv[] = { path, NULL };
	struct job_spec spec = { .kind = JOB_GET, .cwd = "/workspace", .argv = argv, .envp = envp };
	struct store_put put = { .max_bytes = UINT64_MAX / 2 };
	const struct stage_file *same;

	if (o->told)
		return;
	if (path == NULL) {
		tell_result(o);
		return;
	}
	(void)snprintf(put.tenant, sizeof(put.tenant), "%s", o->spec.tenant->name);
	(void)snprintf(put.filename, sizeof(put.filename), "%s", path);
	same = staged(o, path);
	if (same != NULL) {
		put.has_unless = true;
		(void)memcpy(put.unless_sha256, same->sha256, sizeof(put.unless_sha256));
	}
	buf_init(&o->fetched, 2 * FRAME_PAYLOAD_MAX);
	o->fetched_number = 0;
	o->fetch_ended = false;
	if (store_upload_start(o->g, &o->upload, &put, move_fetched, stored, o) < 0) {
		fail(o, 503, ONESHOT_NO_STORE, "the file store is busy");
		return;
	}
	o->uploading = true;
	if (gjob_start(o->box, &o->job, 0, &spec, &ops, o) < 0)
		box_lost(o);
}

/* --- the record --------------------------------------------------------------------------------- */

static void on_recorded(void *arg, struct chan_msg *m, const struct err *e)
{
	struct oneshot *o = arg;

	(void)e;
	if (m == NULL) {
		fail(o, 503, ONESHOT_NO_BOX, "the keeper has no memory");
		return;
	}
	chan_msg_close(m);
	if (!o->told)
		start_run(o);
}

static void save_record(struct oneshot *o)
{
	static uint8_t record[BOX_RECORD_MAX], body[BOX_RECORD_MAX + 16];
	size_t saved = o->nbefore;
	struct msg_out m;

	if (o->spec.owner == NULL) {
		start_run(o);
		return;
	}
	o->phase = PHASE_RECORD;
	if (saved > BEFORE_SAVED_MAX)
		saved = BEFORE_SAVED_MAX;
	msg_out_init(&m, record, sizeof(record));
	msg_put_u8(&m, RECORD_ONESHOT);
	msg_put_bytes(&m, o->spec.owner, o->spec.owner_len);
	msg_put_u16(&m, (uint16_t)saved);
	for (size_t i = 0; i < saved; i++) {
		msg_put_u64(&m, o->before[i].path_hash);
		msg_put_u64(&m, o->before[i].state_hash);
	}
	if (m.failed ||
	    record_save(o->g, o->box->id, record, m.len, body, sizeof(body), on_recorded, o) < 0)
		fail(o, 503, ONESHOT_NO_BOX, "the keeper cannot be asked");
}

int oneshot_record_owner(const uint8_t *record, size_t n, const uint8_t **ret, size_t *ret_n)
{
	struct msg_in in;

	msg_in_init(&in, record, n);
	if (msg_get_u8(&in) != RECORD_ONESHOT)
		return -EPROTO;
	*ret = msg_get_bytes(&in, ONESHOT_OWNER_MAX, ret_n);
	return in.failed ? -EPROTO : 0;
}

static int load_before(struct oneshot *o, const uint8_t *record, size_t n)
{
	struct msg_in in;
	size_t len, count;

	msg_in_init(&in, record, n);
	(void)msg_get_u8(&in);
	(void)msg_get_bytes(&in, ONESHOT_OWNER_MAX, &len);
	count = msg_get_u16(&in);
	for (size_t i = 0; i < count && !in.failed; i++) {
		if (grow(&o->before, o->nbefore, &o->cap) < 0)
			return -ENOMEM;
		o->before[o->nbefore] = (struct entry){ .path_hash = msg_get_u64(&in) };
		o->before[o->nbefore++].state_hash = msg_get_u64(&in);
	}
	return msg_end(&in);
}

/* --- the box ------------------------------------------------------------------------------------ */

static void on_ready(void *arg, struct gbox *b)
{
	struct oneshot *o = arg;

	o->box = b;
	if (!o->adopted) {
		uint8_t body[16];
		struct msg_out m;

		metrics_box(&o->g->metrics, b->info.setup_us);
		audit(o->g, "box_made", NULL, "request", o->request, "tenant", o->spec.tenant->name,
		      "for", operation_str(o->spec.operation), "policy", "network none", NULL);
		/* Should this gate hang, the keeper ends the box. */
		msg_out_init(&m, body, sizeof(body));
		msg_put_u64(&m, b->id);
		msg_put_u64(&m, o->spec.timeout_us + GRACE_US);
		(void)keeper_ask(&o->g->keeper, OP_BOX_DEADLINE, body, m.len, NULL, NULL);
		o->phase = PHASE_STAGE;
		stage_run(&o->stage, b);
	} else {
		start_run(o);
	}
}

static void on_failed(void *arg, const struct err *e)
{
	struct oneshot *o = arg;

	o->box = NULL;
	o->g->metrics.boxes_failed++;
	metrics_rejected(&o->g->metrics, o->spec.operation, REJECT_UNSCHEDULABLE);
	gate_log_err(o->g, "box_failed", e);
	fail(o, 503, ONESHOT_NO_BOX, "unschedulable: %s", e->text);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	struct oneshot *o = arg;

	o->box = NULL;
	if (f != NULL && f->oom_kills > 0)
		fail(o, 500, ONESHOT_BOX_GONE, "the box ran out of memory");
	else
		fail(o, 500, ONESHOT_BOX_GONE,
		     why == BOX_END_DEADLINE ? "the box took too long"
					     : "the box ended unexpectedly");
}

static void on_refused(void *arg, const char *call)
{
	struct oneshot *o = arg;

	audit(o->g, "syscall_refused", NULL, "request", o->request, "syscall", call, "tenant",
	      o->spec.tenant->name, NULL);
}

static const struct gbox_ops box_ops = {
	.ready = on_ready, .failed = on_failed, .gone = on_gone, .refused = on_refused
};

static void on_turn(void *arg)
{
	struct oneshot *o = arg;
	struct err e;

	o->phase = PHASE_BOX;
	o->born_us = clock_us();
	if (!audit_allows(o->g)) {
		fail(o, 503, ONESHOT_AUDIT, "the audit file cannot be written");
		return;
	}
	o->counted = quota_take(o->g, o->spec.tenant);
	if (!o->counted) {
		metrics_rejected(&o->g->metrics, o->spec.operation, REJECT_QUOTA);
		fail(o, 503, ONESHOT_NO_BOX,
		     "quota_exceeded: there are as many boxes as there may be");
		return;
	}
	o->box = gbox_new(o->g, &o->spec.box, &box_ops, o, &e);
	if (o->box == NULL)
		on_failed(o, &e);
}

static void on_sent_away(void *arg)
{
	fail(arg, 429, ONESHOT_BUSY, "saturated");
}

/* --- life --------------------------------------------------------------------------------------- */

static void on_checked(void *arg)
{
	struct oneshot *o = arg;

	o->phase = PHASE_ADMIT;
	admit_ask(o->g, &o->ticket, o->spec.operation, on_turn, on_sent_away, o);
}

void oneshot_start(struct oneshot *o)
{
	static const struct stage_ops ops = { .checked = on_checked,
					      .staged = on_staged,
					      .failed = on_not_staged };

	stage_check(o->g, &o->stage, o->spec.tenant, o->spec.files, o->spec.nfiles, &ops, o);
}

struct oneshot *oneshot_new(struct gate *g, const struct oneshot_spec *spec,
			    const struct oneshot_ops *ops, void *arg)
{
	struct oneshot *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->g = g;
	o->spec = *spec;
	(void)snprintf(o->request, sizeof(o->request), "%s",
		       spec->request != NULL ? spec->request : "");
	o->ops = ops;
	o->arg = arg;
	o->born_us = clock_us();
	return o;
}

struct oneshot *oneshot_resume(struct gate *g, const struct box_info *info, const uint8_t *record,
			       size_t n, const struct oneshot_spec *spec,
			       const struct oneshot_ops *ops, void *arg)
{
	struct oneshot *o = oneshot_new(g, spec, ops, arg);
	struct err e;

	if (o == NULL)
		return NULL;
	o->adopted = true;
	o->counted = quota_take(g, spec->tenant);
	o->phase = PHASE_BOX;
	if (load_before(o, record, n) == 0)
		o->box = gbox_adopt(g, info, &box_ops, o, &e);
	if (o->box == NULL) {
		oneshot_free(o);
		return NULL;
	}
	return o;
}
