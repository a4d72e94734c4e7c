/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that must not show some texts. Input: one byte, how many texts (modulo 4) beside the first; each text as one byte, its length, and its bytes; one byte, the size of
 * pieces; then the stream.
 *
 * Claims: what comes out is what went in, with asterisks where a text stands, found by looking at every place; at every moment no more is held back than the longest
 * beginning of a text that the stream ends with.
 */
#include "wire/redact.h"

#include "fuzz_input.h"

static void look_everywhere(const struct redact *r, const uint8_t *p, size_t n, uint8_t *out)
{
	if (n > 0)
		(void)memcpy(out, p, n);
	for (unsigned int k = 0; k < r->n; k++)
		for (size_t i = 0; i + r->v[k].n <= n; i++)
			if (memcmp(p + i, r->v[k].p, r->v[k].n) == 0)
				(void)memset(out + i, '*', r->v[k].n);
}

/* The longest beginning of a text, and not all of it, that the stream ends with. */
static size_t begun(const struct redact *r, const uint8_t *p, size_t n)
{
	size_t most = 0;

	for (unsigned int k = 0; k < r->n; k++)
		for (size_t len = r->v[k].n - 1; len > most; len--)
			if (len <= n && memcmp(p + n - len, r->v[k].p, len) == 0)
				most = len;
	return most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	unsigned int texts = 1 + take_u8(&in) % 4;
	uint8_t *out, *want;
	size_t piece, told = 0;
	struct redact r;

	if (size > 4096)
		return 0;
	redact_init(&r);
	for (unsigned int i = 0; i < texts; i++) {
		size_t n;
		const uint8_t *p = take_bytes(&in, take_u8(&in), &n);
		uint8_t *copy = exact_copy(p, n);

		MUST(redact_add(&r, copy, n) == 0);
		free(copy);
	}
	piece = 1 + take_u8(&in);
	out = malloc(in.n + 1);
	want = malloc(in.n + 1);
	MUST(out != NULL && want != NULL);
	look_everywhere(&r, in.p, in.n, want);
	for (size_t i = 0; i < in.n; i += piece) {
		size_t n = in.n - i < piece ? in.n - i : piece, got;
		uint8_t *copy = exact_copy(in.p + i, n);

		MUST(redact_feed(&r, copy, n, out + told, &got) == 0);
		free(copy);
		told += got;
		MUST(i + n - told == begun(&r, in.p, i + n));
	}
	told += redact_end(&r, out + told);
	MUST(told == in.n && memcmp(out, want, told) == 0);
	free(out);
	free(want);
	redact_done(&r);
	return 0;
}
