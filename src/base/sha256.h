/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for the program that links no library. The others have libcrypto's, which is faster. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 2 * SHA256_BYTES + 1 };

void sha256_sum(const void *p, size_t n, uint8_t ret[SHA256_BYTES]);

/* The same in small letters. */
void sha256_hex(const void *p, size_t n, char ret[SHA256_HEX]);

/* The 64 digits of sha256_hex() back into bytes. 0 or -EINVAL. */
int sha256_from_hex(const char *text, uint8_t ret[SHA256_BYTES]);
