/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/redact.c: texts that a stream must not show. */
#include "wire/redact.h"

#include "base/base64.h"

#include <errno.h>
#include <stdio.h>

#include "test_help.h"

/* The stream in pieces of `piece` bytes; what came out, which has as many bytes. */
static void pass(struct redact *r, const void *p, size_t n, size_t piece, uint8_t *out)
{
	const uint8_t *from = p;
	size_t told = 0;

	for (size_t i = 0; i < n; i += piece) {
		size_t len = n - i < piece ? n - i : piece, got;

		CHECK_EQ_INT(redact_feed(r, from + i, len, out + told, &got), 0);
		told += got;
		CHECK_EQ_INT(r->nheld, i + len - told);
	}
	told += redact_end(r, out + told);
	CHECK_EQ_INT(told, n);
	CHECK_EQ_INT(r->nheld, 0);
}

/* The same by looking for each pattern at each place. */
static void pass_slowly(const struct redact *r, const uint8_t *p, size_t n, uint8_t *out)
{
	if (n > 0)
		memcpy(out, p, n);
	for (unsigned int k = 0; k < r->n; k++)
		for (size_t i = 0; i + r->v[k].n <= n; i++)
			if (memcmp(p + i, r->v[k].p, r->v[k].n) == 0)
				memset(out + i, '*', r->v[k].n);
}

TEST(redact_hides_a_text_however_it_is_cut)
{
	static const struct {
		const char *text, *out;
	} rows[] = {
		{ "", "" },
		{ "nothing", "nothing" },
		{ "secret99", "********" },
		{ "a secret99 b", "a ******** b" },
		{ "secret9", "secret9" },
		{ "secretsecret99", "secret********" },
		{ "secret99secret99", "****************" },
		{ "secresecret9secret99s", "secresecret9********s" },
		{ "SECRET99", "SECRET99" },
	};
	char out[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t piece = 1; piece < 24; piece++) {
			struct redact r;
			size_t n = strlen(rows[i].text);

			redact_init(&r);
			CHECK_EQ_INT(redact_add(&r, "secret99", 8), 0);
			pass(&r, rows[i].text, n, piece, (uint8_t *)out);
			out[n] = '\0';
			CHECK_STR(out, rows[i].out);
			redact_done(&r);
		}
}

/* Ends of one that are beginnings of another, and one in another. */
TEST(redact_hides_texts_that_overlap)
{
	static const struct {
		const char *text, *out;
	} rows[] = {
		{ "aaaaaaa", "*******" },     { "aaab", "aaab" },
		{ "abababa", "******a" },     { "xabaBAabab", "xabaBA****" },
		{ "aababab", "a******" },     { "long-abab-tail", "**************" },
		{ "long-abab", "long-****" },
	};
	char out[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t piece = 1; piece < 16; piece++) {
			static const char *const hidden[] = { "aaaa", "abab", "long-abab-tail" };
			struct redact r;
			size_t n = strlen(rows[i].text);

			redact_init(&r);
			for (size_t k = 0; k < 3; k++)
				CHECK_EQ_INT(redact_add(&r, hidden[k], strlen(hidden[k])), 0);
			pass(&r, rows[i].text, n, piece, (uint8_t *)out);
			out[n] = '\0';
			CHECK_STR(out, rows[i].out);
			redact_done(&r);
		}
}

/* Wherever it stands in a longer text, with either alphabet. */
TEST(redact_hides_base64)
{
	static const uint8_t secret[] = "k\xc3\xbf?>~y/+token/0123456789";
	const size_t len = sizeof(secret) - 1;
	struct redact r;

	redact_init(&r);
	CHECK_EQ_INT(redact_add(&r, secret, len), 0);
	for (size_t before = 0; before < 7; before++)
		for (size_t after = 0; after < 7; after++)
			for (int url = 0; url < 2; url++) {
				uint8_t plain[64];
				char text[128];
				uint8_t out[128];
				size_t n, first = (before * 8 + 5) / 6,
					  last = (before + len) * 8 / 6;

				memset(plain, 0xb7, sizeof(plain));
				memcpy(plain + before, secret, len);
				n = base64_encode(plain, before + len + after, text);
				for (size_t i = 0; url && i < n; i++)
					text[i] = text[i] == '+'   ? '-'
						  : text[i] == '/' ? '_'
								   : text[i];
				pass(&r, text, n, 5, out);
				for (size_t i = 0; i < n; i++)
					CHECK_EQ_INT(out[i],
						     i >= first && i < last ? '*' : text[i]);
			}
	redact_done(&r);
}

TEST(redact_hides_other_forms)
{
	static const char *const rows[] = { "a/b\"c\\d%e f", "a%2Fb%22c%5Cd%25e%20f",
					    "a%2fb%22c%5cd%25e%20f", "a/b\\\"c\\\\d%e f",
					    "a\\/b\\\"c\\\\d%e f" };
	struct redact r;

	redact_init(&r);
	CHECK_EQ_INT(redact_add(&r, rows[0], strlen(rows[0])), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[64];
		uint8_t out[64];
		int n = snprintf(text, sizeof(text), "<%s>", rows[i]);

		pass(&r, text, (size_t)n, 3, out);
		CHECK(out[0] == '<' && out[n - 1] == '>');
		for (int k = 1; k < n - 1; k++)
			CHECK_EQ_INT(out[k], '*');
	}
	redact_done(&r);
}

TEST(redact_is_the_same_as_looking_everywhere)
{
	uint64_t state = 7;

	for (int round = 0; round < 400; round++) {
		uint8_t text[700], want[700], out[700], secret[40];
		/* Few letters, so that there is much that begins like one. */
		unsigned int letters = 1 + (unsigned int)(rnd(&state) % 3);
		size_t n = rnd(&state) % sizeof(text), len;
		struct redact r;

		redact_init(&r);
		for (int k = 0; k < 3; k++) {
			len = 4 + rnd(&state) % (sizeof(secret) - 4);
			for (size_t i = 0; i < len; i++)
				secret[i] = (uint8_t)('a' + rnd(&state) % letters);
			CHECK_EQ_INT(redact_add(&r, secret, len), 0);
		}
		for (size_t i = 0; i < n; i++)
			text[i] = (uint8_t)('a' + rnd(&state) % letters);
		for (int k = 0; k < 3 && n > sizeof(secret); k++)
			memcpy(text + rnd(&state) % (n - r.v[0].n), r.v[0].p, r.v[0].n);
		pass_slowly(&r, text, n, want);
		pass(&r, text, n, 1 + rnd(&state) % 64, out);
		CHECK_MEM(out, want, n);
		redact_done(&r);
	}
}

TEST(redact_is_bounded)
{
	static uint8_t secret[REDACT_HELD + 1];
	struct redact r;
	uint64_t state = 1;
	int failed = 0;

	redact_init(&r);
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)('a' + rnd(&state) % 26);
	CHECK_EQ_INT(redact_add(&r, secret, sizeof(secret)), -E2BIG);
	CHECK_EQ_INT(redact_add(&r, secret, 3), 0); /* in every text */
	redact_done(&r);
	for (size_t i = 0; i < 400 && failed == 0; i++)
		failed = redact_add(&r, secret + i, 20);
	CHECK_EQ_INT(failed, -E2BIG);
	CHECK_EQ_INT(r.n, REDACT_MAX);
	redact_done(&r);
}
