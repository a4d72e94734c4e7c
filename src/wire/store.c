// SPDX-License-Identifier: Apache-2.0
#include "wire/store.h"

#include "wire/msg.h"

#include <errno.h>
#include <string.h>

static const struct store_op_row rows[] = {
	[STORE_OP_NONE] = { 0 },
#define STORE_OP(id, min, max, fds, doc) [STORE_OP_##id] = { #id, min, max, fds, doc },
#include "wire/store.tbl"
#undef STORE_OP
};

static const char *const reason_str[] = {
	[STORE_NOT_FOUND] = "not found", [STORE_TOO_LARGE] = "too large", [STORE_FULL] = "full",
	[STORE_SAME] = "same",           [STORE_BROKEN] = "broken",       [STORE_BUSY] = "busy",
};
_Static_assert(sizeof(reason_str) / sizeof(reason_str[0]) == STORE_REASON_MAX,
	       "a reason lacks its name");

const struct store_op_row *store_op_row(unsigned int type)
{
	return type > STORE_OP_NONE && type < STORE_OP_MAX ? &rows[type] : NULL;
}

const char *store_reason_str(enum store_reason reason)
{
	return (unsigned int)reason < STORE_REASON_MAX ? reason_str[reason] : "?";
}

static bool is_lower_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool store_id_is_valid(const char *id)
{
	for (unsigned int i = 0; i < STORE_ID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		/* A string that is too short fails here, at its end. */
		if (dash ? id[i] != '-' : !is_lower_hex(id[i]))
			return false;
	}
	return id[STORE_ID_LEN] == '\0' && id[14] == '4' &&
	       (id[19] == '8' || id[19] == '9' || id[19] == 'a' || id[19] == 'b');
}

static ptrdiff_t out_len(const struct msg_out *m)
{
	return m->failed ? -EMSGSIZE : (ptrdiff_t)m->len;
}

/* --- requests ------------------------------------------------------------------------------- */

ptrdiff_t store_put_encode(const struct store_put *p, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_str(&m, p->tenant);
	msg_put_str(&m, p->filename);
	msg_put_u64(&m, p->max_bytes);
	msg_put_bytes(&m, p->unless_sha256, p->has_unless ? STORE_SHA256 : 0);
	return out_len(&m);
}

int store_put_decode(const void *buf, size_t len, struct store_put *p)
{
	struct msg_in m;
	const uint8_t *hash;
	size_t n;

	msg_in_init(&m, buf, len);
	(void)msg_get_str(&m, p->tenant, sizeof(p->tenant));
	(void)msg_get_str(&m, p->filename, sizeof(p->filename));
	p->max_bytes = msg_get_u64(&m);
	hash = msg_get_bytes(&m, STORE_SHA256, &n);
	if (msg_end(&m) < 0 || (n != 0 && n != STORE_SHA256))
		return -EPROTO;
	p->has_unless = n != 0;
	(void)memset(p->unless_sha256, 0, STORE_SHA256);
	if (p->has_unless)
		(void)memcpy(p->unless_sha256, hash, STORE_SHA256);
	return 0;
}

ptrdiff_t store_commit_encode(const struct store_commit *c, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, c->put);
	msg_put_u64(&m, c->size);
	return out_len(&m);
}

int store_commit_decode(const void *buf, size_t len, struct store_commit *c)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	c->put = msg_get_u64(&m);
	c->size = msg_get_u64(&m);
	return msg_end(&m);
}

ptrdiff_t store_abort_encode(uint64_t put, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, put);
	return out_len(&m);
}

int store_abort_decode(const void *buf, size_t len, uint64_t *ret_put)
{
	struct msg_in m;
	uint64_t put;

	msg_in_init(&m, buf, len);
	put = msg_get_u64(&m);
	if (msg_end(&m) < 0)
		return -EPROTO;
	*ret_put = put;
	return 0;
}

static void put_name(struct msg_out *m, const struct store_name *n)
{
	msg_put_str(m, n->tenant);
	msg_put_str(m, n->id);
}

static void get_name(struct msg_in *m, struct store_name *n)
{
	(void)msg_get_str(m, n->tenant, sizeof(n->tenant));
	(void)msg_get_str(m, n->id, sizeof(n->id));
}

ptrdiff_t store_get_encode(const struct store_get *g, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	put_name(&m, &g->name);
	msg_put_u64(&m, g->offset);
	msg_put_u64(&m, g->length);
	return out_len(&m);
}

int store_get_decode(const void *buf, size_t len, struct store_get *g)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	get_name(&m, &g->name);
	g->offset = msg_get_u64(&m);
	g->length = msg_get_u64(&m);
	return msg_end(&m);
}

ptrdiff_t store_name_encode(const struct store_name *n, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	put_name(&m, n);
	return out_len(&m);
}

int store_name_decode(const void *buf, size_t len, struct store_name *n)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	get_name(&m, n);
	return msg_end(&m);
}

static bool is_one_line(const void *p, size_t n)
{
	return n > 0 && n <= STORE_LINE_MAX && memchr(p, '\n', n) == NULL &&
	       memchr(p, '\0', n) == NULL;
}

ptrdiff_t store_audit_encode(const void *line, size_t n, void *buf, size_t cap)
{
	struct msg_out m;

	if (!is_one_line(line, n))
		return -EMSGSIZE;
	msg_out_init(&m, buf, cap);
	msg_put_bytes(&m, line, n);
	return out_len(&m);
}

int store_audit_decode(const void *buf, size_t len, const uint8_t **ret_line, size_t *ret_n)
{
	struct msg_in m;
	const uint8_t *line;
	size_t n;

	msg_in_init(&m, buf, len);
	line = msg_get_bytes(&m, STORE_LINE_MAX, &n);
	if (msg_end(&m) < 0 || !is_one_line(line, n))
		return -EPROTO;
	*ret_line = line;
	*ret_n = n;
	return 0;
}

/* --- answers -------------------------------------------------------------------------------- */

static void put_meta(struct msg_out *m, const struct store_meta *f)
{
	msg_put_str(m, f->id);
	msg_put_str(m, f->filename);
	msg_put_u64(m, f->size);
	msg_put_u64(m, f->upload_time_us);
	msg_put_bytes(m, f->sha256, STORE_SHA256);
}

static int get_meta(struct msg_in *m, struct store_meta *f)
{
	const uint8_t *hash;
	size_t n;

	(void)msg_get_str(m, f->id, sizeof(f->id));
	(void)msg_get_str(m, f->filename, sizeof(f->filename));
	f->size = msg_get_u64(m);
	f->upload_time_us = msg_get_u64(m);
	hash = msg_get_bytes(m, STORE_SHA256, &n);
	if (m->failed || n != STORE_SHA256 || !store_id_is_valid(f->id))
		return -EPROTO;
	(void)memcpy(f->sha256, hash, STORE_SHA256);
	return 0;
}

ptrdiff_t store_meta_encode(const struct store_meta *f, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	put_meta(&m, f);
	return out_len(&m);
}

int store_meta_decode(const void *buf, size_t len, struct store_meta *f)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	return get_meta(&m, f) < 0 ? -EPROTO : msg_end(&m);
}

ptrdiff_t store_figures_encode(const struct store_figures *f, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, f->files);
	msg_put_u64(&m, f->bytes);
	msg_put_u64(&m, f->puts);
	msg_put_u64(&m, f->gets);
	msg_put_u64(&m, f->audit_lines);
	msg_put_u64(&m, f->audit_failures);
	return out_len(&m);
}

int store_figures_decode(const void *buf, size_t len, struct store_figures *f)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	f->files = msg_get_u64(&m);
	f->bytes = msg_get_u64(&m);
	f->puts = msg_get_u64(&m);
	f->gets = msg_get_u64(&m);
	f->audit_lines = msg_get_u64(&m);
	f->audit_failures = msg_get_u64(&m);
	return msg_end(&m);
}

ptrdiff_t store_failure_encode(const struct store_failure *f, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u32(&m, (uint32_t)f->reason);
	msg_put_str(&m, f->text);
	return out_len(&m);
}

int store_failure_decode(const void *buf, size_t len, struct store_failure *f)
{
	struct msg_in m;
	uint32_t reason;

	msg_in_init(&m, buf, len);
	reason = msg_get_u32(&m);
	(void)msg_get_str(&m, f->text, sizeof(f->text));
	if (msg_end(&m) < 0 || reason >= STORE_REASON_MAX)
		return -EPROTO;
	f->reason = (enum store_reason)reason;
	return 0;
}

/* --- lists ---------------------------------------------------------------------------------- */

enum { LIST_HEAD = 3 }; /* u8 more, u16 count */

void store_list_start(struct store_list_out *l, void *buf, size_t cap)
{
	*l = (struct store_list_out){ .buf = buf, .cap = cap, .len = LIST_HEAD };
}

bool store_list_add(struct store_list_out *l, const struct store_meta *f)
{
	struct msg_out m;

	if (l->len > l->cap || l->count == UINT16_MAX)
		return false;
	msg_out_init(&m, l->buf + l->len, l->cap - l->len);
	put_meta(&m, f);
	if (m.failed)
		return false;
	l->len += m.len;
	l->count++;
	return true;
}

ptrdiff_t store_list_end(struct store_list_out *l, bool more)
{
	struct msg_out m;

	msg_out_init(&m, l->buf, l->cap);
	msg_put_u8(&m, more);
	msg_put_u16(&m, l->count);
	return m.failed ? -EMSGSIZE : (ptrdiff_t)l->len;
}

int store_list_open(struct store_list_in *l, const void *buf, size_t len)
{
	struct msg_in m;
	uint8_t more;

	msg_in_init(&m, buf, len);
	more = msg_get_u8(&m);
	*l = (struct store_list_in){ .buf = buf, .len = len, .left = msg_get_u16(&m) };
	if (m.failed || more > 1)
		return -EPROTO;
	l->more = more != 0;
	l->at = m.at;
	return 0;
}

int store_list_next(struct store_list_in *l, struct store_meta *f)
{
	struct msg_in m;

	if (l->left == 0)
		return l->at == l->len ? 0 : -EPROTO;
	msg_in_init(&m, l->buf + l->at, l->len - l->at);
	if (get_meta(&m, f) < 0)
		return -EPROTO;
	l->at += m.at;
	l->left--;
	return 1;
}
