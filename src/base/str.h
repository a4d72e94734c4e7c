/* SPDX-License-Identifier: Apache-2.0 */
/* Text to numbers, strictly: no sign, no space, no rest, no silent overflow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only. -EINVAL when it is no number, -ERANGE above max. */
int str_to_u64(const char *s, uint64_t max, uint64_t *ret);

/* "512", "64k", "1.5G", "256MiB": bytes, powers of 1024. */
int str_to_bytes(const char *s, uint64_t *ret);

/* "2", "0.5s", "250ms", "3m", "1h": microseconds; a bare number is seconds. */
int str_to_duration_us(const char *s, uint64_t *ret);

/* "0.5", "2": thousandths. */
int str_to_milli(const char *s, uint64_t *ret);

/* Bytes as "256 MiB", "1.5 GiB" into buf; returns buf. */
const char *str_from_bytes(uint64_t bytes, char *buf, size_t size);

/* A relative path that stays below where it begins: not empty, not absolute, no "." or ".." or empty
 * component, no component over 255 bytes, 4095 bytes at most. Names are any other bytes. */
bool path_is_below(const char *path);

/* The same without control characters: one that can be shown, and made elsewhere. */
bool path_is_plain(const char *path);

/* An absolute path with plain components. */
bool path_is_plain_abs(const char *path);
