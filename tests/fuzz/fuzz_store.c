/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gate and store send each other. Input: one byte that picks the decoder, then the body.
 *
 * Claims: what is decoded is within the bounds that its header promises, ids of answers are ids; encoded again it
 * is the same bytes.
 */
#include "wire/store.h"

#include <errno.h>
#include <stdbool.h>

#include "wire/chan.h"

#include "fuzz_input.h"

static uint8_t again[CHAN_MAX];

/* What an encoder made of what a decoder made of data is data. */
static void must_be_same(const uint8_t *data, size_t size, ptrdiff_t n)
{
	MUST(n == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
}

#define AGAIN(encode, what, data, size)                                                    \
	do {                                                                               \
		if ((size) <= sizeof(again)) {                                             \
			must_be_same(data, size, encode(what, again, size));               \
			MUST((size) == 0 || encode(what, again, (size) - 1) == -EMSGSIZE); \
		}                                                                          \
	} while (0)

static void fuzz_put(const uint8_t *data, size_t size)
{
	struct store_put p;

	if (store_put_decode(data, size, &p) < 0)
		return;
	MUST(strlen(p.tenant) <= STORE_TENANT_MAX && strlen(p.filename) <= STORE_FILENAME_MAX);
	MUST(size >= store_op_row(STORE_OP_PUT)->min && size <= store_op_row(STORE_OP_PUT)->max);
	AGAIN(store_put_encode, &p, data, size);
}

static void fuzz_commit(const uint8_t *data, size_t size)
{
	struct store_commit c;

	if (store_commit_decode(data, size, &c) == 0)
		AGAIN(store_commit_encode, &c, data, size);
}

static void fuzz_abort(const uint8_t *data, size_t size)
{
	uint64_t put;

	if (store_abort_decode(data, size, &put) == 0)
		AGAIN(store_abort_encode, put, data, size);
}

static void fuzz_get(const uint8_t *data, size_t size)
{
	struct store_get g;

	if (store_get_decode(data, size, &g) < 0)
		return;
	MUST(strlen(g.name.tenant) <= STORE_TENANT_MAX && strlen(g.name.id) <= STORE_ASKED_ID_MAX);
	MUST(size >= store_op_row(STORE_OP_GET)->min && size <= store_op_row(STORE_OP_GET)->max);
	AGAIN(store_get_encode, &g, data, size);
}

static void fuzz_name(const uint8_t *data, size_t size)
{
	struct store_name n;

	if (store_name_decode(data, size, &n) < 0)
		return;
	MUST(strlen(n.tenant) <= STORE_TENANT_MAX && strlen(n.id) <= STORE_ASKED_ID_MAX);
	MUST(size >= store_op_row(STORE_OP_STAT)->min && size <= store_op_row(STORE_OP_STAT)->max);
	AGAIN(store_name_encode, &n, data, size);
}

static void fuzz_audit(const uint8_t *data, size_t size)
{
	const uint8_t *line;
	size_t n;

	if (store_audit_decode(data, size, &line, &n) < 0)
		return;
	MUST(n > 0 && n <= STORE_LINE_MAX && line >= data && line + n == data + size);
	MUST(memchr(line, '\n', n) == NULL && memchr(line, '\0', n) == NULL);
	must_be_same(data, size, store_audit_encode(line, n, again, size));
}

static void fuzz_meta(const uint8_t *data, size_t size)
{
	struct store_meta m;

	if (store_meta_decode(data, size, &m) < 0)
		return;
	MUST(store_id_is_valid(m.id) && strlen(m.id) == STORE_ID_LEN);
	MUST(strlen(m.filename) <= STORE_FILENAME_MAX);
	AGAIN(store_meta_encode, &m, data, size);
}

static void fuzz_figures(const uint8_t *data, size_t size)
{
	struct store_figures f;

	if (store_figures_decode(data, size, &f) == 0)
		AGAIN(store_figures_encode, &f, data, size);
}

static void fuzz_failure(const uint8_t *data, size_t size)
{
	struct store_failure f;

	if (store_failure_decode(data, size, &f) < 0)
		return;
	MUST((unsigned int)f.reason < STORE_REASON_MAX && strlen(f.text) <= STORE_TEXT_MAX);
	AGAIN(store_failure_encode, &f, data, size);
}

static void fuzz_list(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);
	struct store_list_out out;
	struct store_list_in in;
	struct store_meta m;
	int r;

	MUST(copy != NULL);
	store_list_start(&out, copy, size);
	r = store_list_open(&in, data, size);
	while (r >= 0 && (r = store_list_next(&in, &m)) > 0) {
		MUST(store_id_is_valid(m.id));
		MUST(store_list_add(&out, &m));
	}
	if (r == 0) {
		MUST(store_list_end(&out, in.more) == (ptrdiff_t)size);
		MUST(memcmp(copy, data, size) == 0);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const targets[])(const uint8_t *, size_t) = {
		fuzz_put,   fuzz_commit, fuzz_abort,   fuzz_get,     fuzz_name,
		fuzz_audit, fuzz_meta,   fuzz_figures, fuzz_failure, fuzz_list,
	};
	struct input in = { data, size };

	targets[take_u8(&in) % 10](in.p, in.n);
	return 0;
}
