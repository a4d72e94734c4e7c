/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64. Input: taken as text, and as bytes.
 *
 * Claims: text that is taken has a length and characters that it may have, and comes out the same when its bytes
 * are encoded again: there is one text for a run of bytes; bytes come back from their text, in place too; nothing is
 * written beyond the room that the header asks for.
 */
#include "base/base64.h"

#include <errno.h>

#include "fuzz_input.h"

static void fuzz_text(const char *text, size_t n)
{
	uint8_t *bytes = malloc(BASE64_BYTES_MAX(n) + (n < 4));
	size_t len = SIZE_MAX;
	char *again;
	int r;

	MUST(bytes != NULL);
	r = base64_decode(text, n, bytes, &len);
	if (r < 0) {
		MUST(r == -EINVAL && len == SIZE_MAX);
		free(bytes);
		return;
	}
	MUST(n % 4 == 0 && BASE64_TEXT_LEN(len) == n);
	again = malloc(n + 1);
	MUST(again != NULL);
	MUST(base64_encode(bytes, len, again) == n);
	MUST(memcmp(again, text, n) == 0);
	free(again);
	free(bytes);
}

static void fuzz_bytes(const uint8_t *bytes, size_t n)
{
	size_t len = BASE64_TEXT_LEN(n), got = 0;
	char *text = malloc(len + (len == 0));

	MUST(text != NULL);
	MUST(base64_encode(bytes, n, text) == len);
	for (size_t i = 0; i < len; i++)
		MUST(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=",
			    text[i]) != NULL);
	MUST(base64_decode(text, len, (uint8_t *)text, &got) == 0);
	MUST(got == n && memcmp(text, bytes, n) == 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size);

	fuzz_text((const char *)copy, size);
	fuzz_bytes(copy, size);
	free(copy);
	return 0;
}
