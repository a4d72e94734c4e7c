// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <errno.h>
#include <string.h>

enum { BLOCK = 64, LENGTH_AT = BLOCK - 8, ROUNDS = 64 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned int n)
{
	return x >> n | x << (32 - n);
}

static void expand(const uint8_t *p, uint32_t w[ROUNDS])
{
	for (unsigned int t = 0; t < 16; t++)
		w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 |
		       (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
	for (unsigned int t = 16; t < ROUNDS; t++) {
		uint32_t a = w[t - 15], b = w[t - 2];

		w[t] = w[t - 16] + w[t - 7] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) +
		       (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
	}
}

/* s: a to h of the standard, in order. */
static void compress(uint32_t h[8], const uint8_t *p)
{
	uint32_t w[ROUNDS], s[8];

	expand(p, w);
	(void)memcpy(s, h, sizeof(s));
	for (unsigned int t = 0; t < ROUNDS; t++) {
		uint32_t a = s[0], e = s[4];
		uint32_t t1 = s[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
			      ((e & s[5]) ^ (~e & s[6])) + k[t] + w[t];
		uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
			      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

		(void)memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (unsigned int i = 0; i < 8; i++)
		h[i] += s[i];
	explicit_bzero(w, sizeof(w));
	explicit_bzero(s, sizeof(s));
}

void sha256_sum(const void *p, size_t n, uint8_t ret[SHA256_BYTES])
{
	uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const uint8_t *in = p;
	uint64_t bits = (uint64_t)n * 8;
	uint8_t last[2 * BLOCK] = { 0 };
	size_t blocks;

	for (; n >= BLOCK; n -= BLOCK, in += BLOCK)
		compress(h, in);
	if (n > 0)
		(void)memcpy(last, in, n);
	last[n] = 0x80;
	blocks = n < LENGTH_AT ? 1 : 2;
	for (unsigned int i = 0; i < 8; i++)
		last[blocks * BLOCK - 1 - i] = (uint8_t)(bits >> 8 * i);
	for (size_t i = 0; i < blocks; i++)
		compress(h, last + i * BLOCK);
	for (unsigned int i = 0; i < SHA256_BYTES; i++)
		ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
	explicit_bzero(last, sizeof(last));
}

void sha256_hex(const void *p, size_t n, char ret[SHA256_HEX])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t hash[SHA256_BYTES];

	sha256_sum(p, n, hash);
	for (unsigned int i = 0; i < SHA256_BYTES; i++) {
		ret[2 * i] = digits[hash[i] >> 4];
		ret[2 * i + 1] = digits[hash[i] & 15];
	}
	ret[SHA256_HEX - 1] = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sha256_from_hex(const char *text, uint8_t ret[SHA256_BYTES])
{
	uint8_t hash[SHA256_BYTES];

	if (strlen(text) != SHA256_HEX - 1)
		return -EINVAL;
	for (unsigned int i = 0; i < SHA256_BYTES; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		hash[i] = (uint8_t)(high << 4 | low);
	}
	(void)memcpy(ret, hash, sizeof(hash));
	return 0;
}
