// SPDX-License-Identifier: Apache-2.0
/*
 * A directory of a box as an archive, and back. The box packs and unpacks; here bytes go by.
 *
 * How long an archive is nobody knows before its end: it is sent in chunks, and one that fails on the way is cut.
 */
#include "base/own.h"
#include "gate/file_head.h"
#include "gate/files.h"

#include <errno.h>
#include <stdio.h>

/* --- out ------------------------------------------------------------------------------------------ */

struct packing {
	struct file_call call;
	const struct file_archive *as; /* lives as long as we do */
};

static void begin_answer(struct packing *k)
{
	const struct file_path *p = &k->call.path;
	const char *base = file_path_name(p);
	char name[NAME_MAX + 16];

	if (base[0] == '\0')
		base = p->from_root ? "root" : file_call_cwd(&k->call) + 1;
	(void)snprintf(name, sizeof(name), "%s.%s", base, k->as->format);
	req_header(k->call.r, "Cache-Control", "private, no-cache");
	file_head_hostile(k->call.r, name);
	req_begin(k->call.r, 200, k->as->type, -1);
}

static int on_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	if (!c->r->begun)
		begin_answer((struct packing *)c);
	(void)req_write(c->r, p, n); /* after a failure gone() comes */
	return 0;
}

static void on_packed(struct file_call *c)
{
	struct req *r = c->r;

	if (!r->begun) { /* the shortest archive has some bytes */
		file_call_fail(c, FILE_BROKEN);
		return;
	}
	file_call_close(c);
	req_end(r);
}

/* HEAD: whether there is a directory. */
static void on_stat_end(struct file_call *c)
{
	struct req *r = c->r;

	if (c->entry->type != 'd') {
		file_call_fail(c, ENOTDIR);
		return;
	}
	begin_answer((struct packing *)c);
	file_call_close(c);
	req_end(r);
}

void file_pack(struct req *r, struct abox *a, const struct file_shape *s, const struct file_path *p,
	       const struct file_archive *as)
{
	static const struct file_ops pack_ops = { .bytes = on_bytes, .end = on_packed };
	static const struct file_ops stat_ops = { .end = on_stat_end };
	struct packing *k = (struct packing *)file_call_new(
		r, a, s, p, r->head_only ? &stat_ops : &pack_ops, sizeof(*k));

	if (k == NULL)
		return;
	k->as = as;
	if (r->head_only)
		(void)file_call_run(&k->call, FILEOP_STAT, (const char *const[]){ "follow", NULL });
	else
		(void)file_call_run(&k->call, FILEOP_PACK,
				    (const char *const[]){ as->format, as->what, NULL });
}

/* --- in ------------------------------------------------------------------------------------------- */

static void on_unpacked(struct file_call *c)
{
	struct req *r = c->r;

	file_audit(c);
	file_call_close(c);
	c->shape->done(r, c->op, &c->path, c->entry);
}

/* How much it may be is for the box to say: what does not fit there is not unpacked. */
void file_unpack(struct req *r, struct abox *a, const struct file_shape *s,
		 const struct file_path *p)
{
	static const struct file_ops ops = { .end = on_unpacked };
	struct file_call *c;

	if (!file_may_change(r, s, p))
		return;
	c = file_call_new(r, a, s, p, &ops, sizeof(*c));
	if (c != NULL &&
	    file_call_run(c, FILEOP_UNPACK, (const char *const[]){ "auto", "0", "0", NULL }) == 0)
		file_call_take_body(c);
}

/* --- calls of the own API ------------------------------------------------------------------------- */

void box_archive_get(struct req *r)
{
	static const struct file_archive kinds[] = { { "tar.gz", "all", "application/gzip" },
						     { "tar", "all", "application/x-tar" } };
	const struct http_slice *format = http_query(&r->target, "format");
	struct file_path p;
	struct abox *a = own_find_path(r, &p);

	if (a == NULL)
		return;
	for (unsigned int i = 0; i < ARRAY_LEN(kinds); i++)
		if (format == NULL || http_slice_is(*format, kinds[i].format)) {
			file_pack(r, a, &own_shape, &p, &kinds[i]);
			return;
		}
	own_refuse(r, OWN_INVALID_FIELD, "format", "'format' must be 'tar.gz' or 'tar'");
}

void box_archive_put(struct req *r)
{
	struct file_path p;
	struct abox *a = own_find_path(r, &p);

	if (a != NULL)
		file_unpack(r, a, &own_shape, &p);
}
