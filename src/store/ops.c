// SPDX-License-Identifier: Apache-2.0
/*
 * The store's surface: one row per operation, checked before its handler sees the message.
 *
 * A gate that is compromised can read, make and remove the files of every tenant, which is what
 * it is there for, and write lines to the audit file. It names files by ids that are looked up
 * and never by paths; it cannot change or remove a line, or reach any file that is not in the
 * index.
 */
#include "store/store.h"

#include <string.h>

struct op {
	size_t min, max;
	unsigned int fds;
	int (*run)(struct store *s, struct chan_msg *m);
};

#define STORE_OP(id, min, max, fds, doc) static int op_##id(struct store *s, struct chan_msg *m);
#include "wire/store.tbl"
#undef STORE_OP

static const struct op ops[] = {
	[STORE_OP_NONE] = { 0 },
#define STORE_OP(id, min, max, fds, doc) [STORE_OP_##id] = { min, max, fds, op_##id },
#include "wire/store.tbl"
#undef STORE_OP
};

int store_handle(struct store *s, struct chan_msg *m)
{
	const struct op *op =
		m->type > STORE_OP_NONE && m->type < STORE_OP_MAX ? &ops[m->type] : NULL;

	if (op == NULL || m->len < op->min || m->len > op->max || m->nfds != op->fds) {
		chan_msg_close(m);
		return -1;
	}
	return op->run(s, m);
}

static void fail_errno(struct store *s, uint64_t request, int err, const char *what)
{
	struct store_failure f;

	failure_set(&f, err, what);
	reply_failure(s, request, &f);
}

static int op_PUT(struct store *s, struct chan_msg *m)
{
	struct store_put p;

	if (store_put_decode(m->body, m->len, &p) < 0) {
		chan_msg_close(m);
		return -1;
	}
	m->nfds = 0; /* its descriptor is the put's now */
	return put_start(s, m->request, &p, m->fds[0]);
}

static int op_COMMIT(struct store *s, struct chan_msg *m)
{
	struct store_commit c;

	if (store_commit_decode(m->body, m->len, &c) < 0)
		return -1;
	put_commit(s, m->request, &c);
	return 0;
}

static int op_ABORT(struct store *s, struct chan_msg *m)
{
	uint64_t put;

	if (store_abort_decode(m->body, m->len, &put) < 0)
		return -1;
	put_abort(s, m->request, put);
	return 0;
}

static int op_GET(struct store *s, struct chan_msg *m)
{
	struct store_get g;

	if (store_get_decode(m->body, m->len, &g) < 0)
		return -1;
	get_start(s, m->request, &g);
	return 0;
}

static int op_STAT(struct store *s, struct chan_msg *m)
{
	struct store_meta meta;
	struct store_name n;
	int r;

	if (store_name_decode(m->body, m->len, &n) < 0)
		return -1;
	r = files_find(&s->files, n.tenant, n.id, &meta);
	if (r < 0)
		fail_errno(s, m->request, r, "find a file");
	else
		reply_meta(s, m->request, &meta, NULL);
	return 0;
}

static int op_DELETE(struct store *s, struct chan_msg *m)
{
	struct store_name n;
	int r;

	if (store_name_decode(m->body, m->len, &n) < 0)
		return -1;
	r = files_remove(&s->files, n.tenant, n.id);
	if (r < 0)
		fail_errno(s, m->request, r, "remove a file");
	else
		reply_ok(s, m->request, NULL, 0, NULL);
	return 0;
}

struct listing {
	struct store_list_out out;
	bool more;
};

static bool add_to_list(void *ctx, const struct store_meta *m)
{
	struct listing *l = ctx;

	l->more = !store_list_add(&l->out, m);
	return !l->more;
}

static int op_LIST(struct store *s, struct chan_msg *m)
{
	static uint8_t body[CHAN_MAX - CHAN_HEADER];
	struct listing l = { .more = false };
	struct store_name n;
	int r;

	if (store_name_decode(m->body, m->len, &n) < 0)
		return -1;
	store_list_start(&l.out, body, sizeof(body));
	r = files_list(&s->files, n.tenant, n.id, add_to_list, &l);
	if (r < 0)
		fail_errno(s, m->request, r, "list files");
	else
		reply_ok(s, m->request, body, (size_t)store_list_end(&l.out, l.more), NULL);
	return 0;
}

static void audit_answer(void *ctx, uint64_t request, int r)
{
	struct store *s = ctx;
	struct store_failure f;

	if (r == 0) {
		reply_ok(s, request, NULL, 0, NULL);
		return;
	}
	failure_set(&f, r, "write to the audit file");
	if (f.reason != STORE_FULL)
		f.reason = STORE_BROKEN;
	reply_failure(s, request, &f);
}

/* Only gathered here: store_flush() writes, when all of this turn was read. */
static int op_AUDIT(struct store *s, struct chan_msg *m)
{
	const uint8_t *line;
	size_t n;

	if (store_audit_decode(m->body, m->len, &line, &n) < 0)
		return -1;
	if (audit_is_full(&s->audit))
		store_flush(s);
	audit_add(&s->audit, m->request, line, n);
	return 0;
}

void store_flush(struct store *s)
{
	audit_flush(&s->audit, audit_answer, s);
}

static int op_FIGURES(struct store *s, struct chan_msg *m)
{
	const struct store_figures f = {
		.files = s->files.count,
		.bytes = s->files.bytes,
		.puts = s->nputs,
		.gets = s->ngets,
		.audit_lines = s->audit.lines,
		.audit_failures = s->audit.failures,
	};
	uint8_t body[sizeof(f)];
	ptrdiff_t n = store_figures_encode(&f, body, sizeof(body));

	reply_ok(s, m->request, body, (size_t)n, NULL);
	return 0;
}
