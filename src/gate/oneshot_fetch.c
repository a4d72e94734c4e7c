// SPDX-License-Identifier: Apache-2.0
/* What a one-shot returns: files that are new or changed, by listings before and after, and their way to the store. */
#include "gate/oneshot_impl.h"

#include "base/own.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { ENTRIES_MAX = 200000, RETURNED_MAX = 10000 };

static void next_fetch(struct oneshot *o);

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

int oneshot_add_before(struct oneshot *o, uint64_t path_hash, uint64_t state_hash)
{
	if (grow(&o->before, o->nbefore, &o->cap) < 0)
		return -EFBIG;
	o->before[o->nbefore++] =
		(struct entry){ .path_hash = path_hash, .state_hash = state_hash };
	return 0;
}

static int add_before(void *arg, const struct listing_entry *e)
{
	struct oneshot *o = arg;

	if (e->type != 'f')
		return 0;
	return oneshot_add_before(o, hash_path(e->path), hash_state(e));
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

	/* A name that cannot be shown is none that could be returned. */
	if (e->type != 'f' || !path_is_plain(e->path) || is_ignored(o, e->path) ||
	    is_unchanged(o, e))
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
		oneshot_fail(o, 500, ONESHOT_BOX_GONE,
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
		oneshot_save_record(o);
		return;
	}
	if (o->nafter > 0)
		qsort(o->after, o->nafter, sizeof(*o->after), by_path);
	drop_excess(o);
	o->phase = PHASE_FETCH;
	o->at = 0;
	next_fetch(o);
}

void oneshot_list(struct oneshot *o, enum phase phase)
{
	static const struct gjob_ops ops = { .output = list_output,
					     .ended = list_ended,
					     .failed = oneshot_job_failed };
	static const char *const argv[] = { "tree", ".", NULL }, *const envp[] = { NULL };
	struct job_spec spec = {
		.kind = JOB_FILE, .cwd = "/workspace", .argv = argv, .envp = envp
	};

	o->phase = phase;
	o->cap = 0;
	if (o->reader == NULL)
		o->reader = malloc(sizeof(*o->reader));
	if (o->reader == NULL) {
		oneshot_fail(o, 503, ONESHOT_NO_BOX, "out of memory");
		return;
	}
	o->reader->len = 0;
	if (gjob_start(o->box, &o->job, 0, &spec, &ops, o) < 0)
		oneshot_box_lost(o);
}

/* --- files out ---------------------------------------------------------------------------------- */

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
		oneshot_fail(o, 503, ONESHOT_NO_STORE, "out of memory");
		return;
	}
	if (meta == NULL && f->reason != STORE_SAME) {
		oneshot_fail(o, 503, ONESHOT_NO_STORE, "a file could not be stored: %s",
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

/* The record of the file is in front of its bytes, and not needed. */
static void get_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct oneshot *o = arg;

	if (stream != 1) {
		gjob_ack(&o->job, number);
		return;
	}
	if (!o->fetch_headed) {
		const struct listing_entry *e;
		ptrdiff_t used = listing_first(o->reader, p, n, &e);

		if (used < 0) {
			oneshot_fail(o, 500, ONESHOT_BOX_GONE, "a file cannot be read");
			return;
		}
		o->fetch_headed = e != NULL;
		p += used;
		n -= (size_t)used;
	}
	o->fetched_number = number;
	if (n > 0 && buf_put(&o->fetched, p, n) < 0)
		oneshot_fail(o, 503, ONESHOT_NO_STORE, "out of memory");
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
					     .failed = oneshot_job_failed };
	static const char *const envp[] = { NULL };
	const char *path = o->at < o->nafter ? o->after[o->at].path : NULL;
	const char *const argv[] = { "read", path != NULL ? path : "", "nofollow", "0", "", "", "",
				     NULL };
	struct job_spec spec = {
		.kind = JOB_FILE, .cwd = "/workspace", .argv = argv, .envp = envp
	};
	struct store_put put = { .max_bytes = UINT64_MAX / 2 };
	const struct stage_file *same;

	if (o->told)
		return;
	if (path == NULL) {
		oneshot_tell_result(o);
		return;
	}
	(void)snprintf(put.tenant, sizeof(put.tenant), "%s", o->spec.tenant->name);
	(void)snprintf(put.filename, sizeof(put.filename), "%s", path);
	same = staged(o, path);
	if (same != NULL) {
		put.has_unless = true;
		(void)memcpy(put.unless_sha256, same->sha256, sizeof(put.unless_sha256));
	}
	buf_done(&o->fetched); /* of the file before */
	buf_init(&o->fetched, 2 * FRAME_PAYLOAD_MAX);
	o->fetched_number = 0;
	o->fetch_ended = o->fetch_headed = false;
	o->reader->len = 0;
	if (store_upload_start(o->g, &o->upload, &put, move_fetched, stored, o) < 0) {
		oneshot_fail(o, 503, ONESHOT_NO_STORE, "the file store is busy");
		return;
	}
	o->uploading = true;
	if (gjob_start(o->box, &o->job, 0, &spec, &ops, o) < 0)
		oneshot_box_lost(o);
}
