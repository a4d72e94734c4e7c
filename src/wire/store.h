/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a gate and the store: types, and the contents that both sides share.
 *
 * A file is named by its tenant and its id. The id is a version 4 UUID in lower case that the store
 * made; the filename is a label and never a path. Encoders return the length or -EMSGSIZE, decoders
 * 0 or -EPROTO; none allocates.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_op {
	STORE_OP_NONE,
#define STORE_OP(id, min, max, fds, doc) STORE_OP_##id,
#include "wire/store.tbl"
#undef STORE_OP
	STORE_OP_MAX,
};

/* From the store. Request 0: it could not start. */
enum store_reply {
	STORE_OK = 128,
	STORE_FAILED, /* a store_failure */
};

/* Why a request failed. The text beside it is for a log. */
enum store_reason {
	STORE_NOT_FOUND, /* no such file of this tenant (also: expired), or no such PUT */
	STORE_TOO_LARGE, /* more than the max_bytes of the PUT */
	STORE_FULL,      /* the disk, or a quota */
	STORE_SAME,      /* the content is what unless_sha256 says: nothing was stored */
	STORE_BROKEN,    /* a size that does not fit, a disk that fails */
	STORE_BUSY,      /* too many open at once; later it may work */
	STORE_REASON_MAX,
};

enum {
	STORE_TENANT_MAX = 64, /* bytes, as all of these */
	STORE_FILENAME_MAX = 1024,
	STORE_ID_LEN = 36,       /* of an id that exists */
	STORE_ASKED_ID_MAX = 64, /* of one that is asked for */
	STORE_SHA256 = 32,
	STORE_LINE_MAX = 8192, /* of an audit line, its newline not counted */
	STORE_TEXT_MAX = 255,
	STORE_PUTS_MAX = 256, /* open at once; one more is BUSY */
	STORE_GETS_MAX = 256,
};

/* A file as it is stored. */
struct store_meta {
	char id[STORE_ID_LEN + 1];
	char filename[STORE_FILENAME_MAX + 1];
	uint64_t size;
	uint64_t upload_time_us; /* since 1970 */
	uint8_t sha256[STORE_SHA256];
};

struct store_put {
	char tenant[STORE_TENANT_MAX + 1];
	char filename[STORE_FILENAME_MAX + 1];
	uint64_t max_bytes; /* as it says: 0 admits an empty file only */
	bool has_unless;
	uint8_t unless_sha256[STORE_SHA256];
};

struct store_commit {
	uint64_t put;
	uint64_t size;
};

struct store_name {
	char tenant[STORE_TENANT_MAX + 1];
	char id[STORE_ASKED_ID_MAX + 1];
};

struct store_get {
	struct store_name name;
	uint64_t offset; /* beyond the end: nothing comes */
	uint64_t length; /* 0: to the end */
};

struct store_figures {
	uint64_t files, bytes; /* stored */
	uint64_t puts, gets;   /* open */
	uint64_t audit_lines, audit_failures;
};

struct store_failure {
	enum store_reason reason;
	char text[STORE_TEXT_MAX + 1];
};

/* A row of store.tbl, NULL for a type that has none. */
struct store_op_row {
	const char *name;
	size_t min, max;
	unsigned int fds;
	const char *doc;
};

const struct store_op_row *store_op_row(unsigned int type);

const char *store_reason_str(enum store_reason reason);

/* Is this how an id of ours looks: a version 4 UUID, lower case. */
bool store_id_is_valid(const char *id);

/* --- requests ------------------------------------------------------------------------------- */

/* str tenant, str filename, u64 max_bytes, bytes unless_sha256 (0 or 32) */
ptrdiff_t store_put_encode(const struct store_put *p, void *buf, size_t cap);
int store_put_decode(const void *buf, size_t len, struct store_put *p);

/* u64 put, u64 size */
ptrdiff_t store_commit_encode(const struct store_commit *c, void *buf, size_t cap);
int store_commit_decode(const void *buf, size_t len, struct store_commit *c);

/* u64 put */
ptrdiff_t store_abort_encode(uint64_t put, void *buf, size_t cap);
int store_abort_decode(const void *buf, size_t len, uint64_t *ret_put);

/* str tenant, str id, u64 offset, u64 length */
ptrdiff_t store_get_encode(const struct store_get *g, void *buf, size_t cap);
int store_get_decode(const void *buf, size_t len, struct store_get *g);

/* str tenant, str id: STAT, DELETE, LIST */
ptrdiff_t store_name_encode(const struct store_name *n, void *buf, size_t cap);
int store_name_decode(const void *buf, size_t len, struct store_name *n);

/* bytes line: 1 to STORE_LINE_MAX bytes without newline or NUL. *ret_line points into buf. */
ptrdiff_t store_audit_encode(const void *line, size_t n, void *buf, size_t cap);
int store_audit_decode(const void *buf, size_t len, const uint8_t **ret_line, size_t *ret_n);

/* --- answers -------------------------------------------------------------------------------- */

/* str id, str filename, u64 size, u64 upload_time_us, bytes sha256 (32) */
ptrdiff_t store_meta_encode(const struct store_meta *f, void *buf, size_t cap);
int store_meta_decode(const void *buf, size_t len, struct store_meta *f);

/* u64 files, bytes, puts, gets, audit_lines, audit_failures */
ptrdiff_t store_figures_encode(const struct store_figures *f, void *buf, size_t cap);
int store_figures_decode(const void *buf, size_t len, struct store_figures *f);

/* u32 reason, str text */
ptrdiff_t store_failure_encode(const struct store_failure *f, void *buf, size_t cap);
int store_failure_decode(const void *buf, size_t len, struct store_failure *f);

/*
 * A list: u8 more (0 or 1), u16 count, then that many metas as above, ordered by id.
 *
 * Written piece by piece: start, add until it returns false (no room, nothing of it was written),
 * end with whether more files follow. Read the same way: open, then next until it returns 0.
 */
struct store_list_out {
	uint8_t *buf;
	size_t cap, len;
	uint16_t count;
};

void store_list_start(struct store_list_out *l, void *buf, size_t cap);
bool store_list_add(struct store_list_out *l, const struct store_meta *f);
ptrdiff_t store_list_end(struct store_list_out *l, bool more);

struct store_list_in {
	const uint8_t *buf;
	size_t len, at;
	uint16_t left;
	bool more;
};

int store_list_open(struct store_list_in *l, const void *buf, size_t len);

/* 1: *f is the next; 0: that was all; -EPROTO. */
int store_list_next(struct store_list_in *l, struct store_meta *f);
