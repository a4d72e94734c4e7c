/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gate and keeper send each other. Input: one byte that picks the decoder, then the body.
 *
 * Claims: what is decoded passes every check that its header promises; encoded again it is the same bytes (a box
 * request: the same request).
 */
#include "wire/ops.h"

#include <errno.h>

#include "base/layers.h"
#include "base/str.h"

#include "fuzz_input.h"

static void fuzz_request(const uint8_t *data, size_t size)
{
	static struct box_request q, q2;
	struct err e = { .kind = ERR_NONE };
	uint8_t *first, *second;
	enum limit_id bad;
	ptrdiff_t n;

	if (box_request_decode(data, size, &q, &e) < 0) {
		MUST(e.kind == ERR_PROTO || e.kind == ERR_INPUT);
		MUST(e.text[0] != '\0' && strnlen(e.text, sizeof(e.text)) < sizeof(e.text));
		return;
	}
	MUST((q.flags & ~(uint32_t)BOX_FLAGS_ALL) == 0);
	for (unsigned int i = 0; i < 64; i++)
		MUST((q.waived >> i & 1) == 0 ||
		     (i < LAYER_MAX && layer_row((enum layer)i)->need != LAYER_ALWAYS));
	MUST(limits_check(&q.limits, &bad) == 0);
	MUST(q.nmounts <= BOX_MOUNTS_MAX);
	for (unsigned int i = 0; i < q.nmounts; i++) {
		MUST(q.mounts[i].path[0] == '\0' || path_is_plain(q.mounts[i].path));
		MUST(path_is_plain_abs(q.mounts[i].at));
	}
	first = malloc(size);
	second = malloc(size);
	MUST(first != NULL && second != NULL);
	n = box_request_encode(&q, first, size);
	MUST(n == (ptrdiff_t)size);
	MUST(box_request_decode(first, size, &q2, &e) == 0);
	MUST(box_request_encode(&q2, second, size) == n && memcmp(first, second, size) == 0);
	MUST(box_request_encode(&q, second, size - 1) == -EMSGSIZE);
	free(first);
	free(second);
}

static void fuzz_info(const uint8_t *data, size_t size)
{
	uint8_t again[1024];
	struct box_info b;

	if (box_info_decode(data, size, &b) < 0)
		return;
	MUST(box_info_encode(&b, again, sizeof(again)) == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
	MUST(box_info_encode(&b, again, size - 1) == -EMSGSIZE);
}

static void fuzz_figures(const uint8_t *data, size_t size)
{
	uint8_t again[128];
	struct box_figures f;

	if (box_figures_decode(data, size, &f) < 0)
		return;
	MUST(box_figures_encode(&f, again, sizeof(again)) == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
	MUST(box_figures_encode(&f, again, size - 1) == -EMSGSIZE);
}

static void fuzz_failed(const uint8_t *data, size_t size)
{
	uint8_t again[ERR_TEXT + ERR_HINT + 32];
	struct err e;

	if (failed_decode(data, size, &e) < 0)
		return;
	MUST((unsigned int)e.kind < ERR_KIND_MAX);
	MUST(failed_encode(&e, again, sizeof(again)) == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
	MUST(failed_encode(&e, again, size - 1) == -EMSGSIZE);
}

static void fuzz_limits(const uint8_t *data, size_t size)
{
	struct err e = { .kind = ERR_NONE };
	uint8_t again[128];
	enum limit_id bad;
	struct limits l;
	uint64_t box;

	if (box_limits_decode(data, size, &box, &l, &e) < 0) {
		MUST(e.kind == ERR_PROTO || e.kind == ERR_INPUT);
		return;
	}
	MUST(limits_check(&l, &bad) == 0);
	MUST(box_limits_encode(box, &l, again, sizeof(again)) == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
	MUST(box_limits_encode(box, &l, again, size - 1) == -EMSGSIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const targets[])(const uint8_t *, size_t) = { fuzz_request, fuzz_info,
								    fuzz_figures, fuzz_failed,
								    fuzz_limits };
	struct input in = { data, size };

	targets[take_u8(&in) % 5](in.p, in.n);
	return 0;
}
