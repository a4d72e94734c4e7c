/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/sha256.c: against what NIST publishes (FIPS 180-4 examples, CAVP, "SHA-256 test vectors"). */
#include "base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

/* The bytes lie at a forbidden page: none beyond them is read. */
static void check_hash(const void *p, size_t n, const char *want)
{
	struct fence in = fence_open(n + 1);
	char text[SHA256_HEX];

	sha256_hex(fence_copy(&in, p, n), n, text);
	CHECK_STR(text, want);
	fence_close(&in);
}

TEST(sha256_of_the_examples)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijk"
		  "lmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
		{ "\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b" },
		{ "\xc9\x8c\x8e\x55",
		  "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_hash(rows[i].text, strlen(rows[i].text), rows[i].want);
}

/* The lengths at which padding takes another block, and long ones. */
TEST(sha256_of_many_equal_bytes)
{
	static const struct {
		char byte;
		size_t n;
		const char *want;
	} rows[] = {
		{ 0, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7" },
		{ 0, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb" },
		{ 0, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785" },
		{ 0, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b" },
		{ 0, 1000, "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53" },
		{ 0, 1000000, "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025" },
		{ 'A', 1000, "c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4" },
		{ 'U', 1005, "f4d62ddec0f3dd90ea1380fa16a5ff8dc4c54b21740650f24afc4120903552b0" },
		{ 'a', 1000000,
		  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *p = malloc(rows[i].n);

		CHECK(p != NULL);
		memset(p, rows[i].byte, rows[i].n);
		check_hash(p, rows[i].n, rows[i].want);
		free(p);
	}
}

/* 0, 0 1, 0 1 2, … up to 255 bytes: the hash of all their hashes, as another program has it. */
TEST(sha256_of_every_length)
{
	static uint8_t all[256 * SHA256_BYTES];
	uint8_t bytes[256];

	for (unsigned int n = 0; n < 256; n++) {
		bytes[n] = (uint8_t)n;
		sha256_sum(bytes, n, all + (size_t)n * SHA256_BYTES);
	}
	check_hash(all, sizeof(all),
		   "b93dd1116d1648691c732d2011543b161309b842afef7ecb6f17adf2ebbd3426");
}

TEST(sha256_from_hex_takes_nothing_else)
{
	char good[SHA256_HEX], bad[SHA256_HEX + 1];
	uint8_t want[SHA256_BYTES], got[SHA256_BYTES] = { 7 };

	sha256_sum("abc", 3, want);
	sha256_hex("abc", 3, good);
	for (unsigned int i = 0; i < SHA256_HEX - 1; i++) {
		static const char others[] = { '/', ':', '@', 'A',    'F', 'G',
					       '`', 'g', ' ', '\xff', '\0' };

		for (size_t o = 0; o < sizeof(others); o++) {
			memcpy(bad, good, sizeof(good));
			bad[i] = others[o];
			CHECK_EQ_INT(sha256_from_hex(bad, got), -EINVAL);
		}
	}
	(void)snprintf(bad, sizeof(bad), "%s0", good);
	CHECK_EQ_INT(sha256_from_hex(bad, got), -EINVAL);
	CHECK_EQ_INT(sha256_from_hex("", got), -EINVAL);
	CHECK_EQ_INT(got[0], 7);
	CHECK_EQ_INT(sha256_from_hex(good, got), 0);
	CHECK_MEM(got, want, sizeof(want));
}
