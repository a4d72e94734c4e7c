// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_END(a) ((a) + sizeof(a) / sizeof((a)[0]))

struct unit {
	const char *suffix;
	uint64_t factor;
};

int str_to_u64(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (*s == '\0')
		return -EINVAL;
	for (; *s != '\0'; s++) {
		uint64_t digit;

		if (*s < '0' || *s > '9')
			return -EINVAL;
		digit = (uint64_t)(*s - '0');
		if (v > (UINT64_MAX - digit) / 10)
			return -ERANGE;
		v = v * 10 + digit;
	}
	if (v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

/* Decimal with an optional fraction of up to 6 digits and a unit: value * factor. The fraction is
 * kept as millionths, so that no floating point is involved. */
static int parse_scaled(const char *s, const struct unit *units, const struct unit *end,
			uint64_t *ret)
{
	uint64_t whole = 0, fraction = 0, scale = 100000;
	const char *start = s;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (whole > (UINT64_MAX - 9) / 10)
			return -ERANGE;
		whole = whole * 10 + (uint64_t)(*s - '0');
	}
	if (s == start)
		return -EINVAL;
	if (*s == '.') {
		for (s++, start = s; *s >= '0' && *s <= '9'; s++) {
			fraction += (uint64_t)(*s - '0') * scale;
			scale /= 10;
		}
		if (s == start)
			return -EINVAL;
	}
	for (const struct unit *u = units; u < end; u++) {
		if (strcmp(s, u->suffix) != 0)
			continue;
		if (whole > (UINT64_MAX / 2) / u->factor)
			return -ERANGE;
		*ret = whole * u->factor + (uint64_t)((__uint128_t)fraction * u->factor / 1000000u);
		return 0;
	}
	return -EINVAL;
}

int str_to_bytes(const char *s, uint64_t *ret)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "k", 1ULL << 10 },
		{ "K", 1ULL << 10 },
		{ "KiB", 1ULL << 10 },
		{ "KB", 1ULL << 10 },
		{ "m", 1ULL << 20 },
		{ "M", 1ULL << 20 },
		{ "MiB", 1ULL << 20 },
		{ "MB", 1ULL << 20 },
		{ "g", 1ULL << 30 },
		{ "G", 1ULL << 30 },
		{ "GiB", 1ULL << 30 },
		{ "GB", 1ULL << 30 },
		{ "T", 1ULL << 40 },
		{ "TiB", 1ULL << 40 },
	};

	return parse_scaled(s, units, ARRAY_END(units), ret);
}

int str_to_duration_us(const char *s, uint64_t *ret)
{
	static const struct unit units[] = {
		{ "", 1000000 },
		{ "s", 1000000 },
		{ "ms", 1000 },
		{ "us", 1 },
		{ "m", 60ULL * 1000000 },
		{ "min", 60ULL * 1000000 },
		{ "h", 3600ULL * 1000000 },
	};

	return parse_scaled(s, units, ARRAY_END(units), ret);
}

int str_to_milli(const char *s, uint64_t *ret)
{
	static const struct unit units[] = { { "", 1000 } };

	return parse_scaled(s, units, ARRAY_END(units), ret);
}

const char *str_from_bytes(uint64_t bytes, char *buf, size_t size)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int n = 0;
	uint64_t rest = 0;

	while (bytes >= 1024 && n + 1 < sizeof(names) / sizeof(names[0])) {
		rest = bytes % 1024;
		bytes /= 1024;
		n++;
	}
	if (rest * 10 / 1024 > 0)
		(void)snprintf(buf, size, "%llu.%llu %s", (unsigned long long)bytes,
			       (unsigned long long)(rest * 10 / 1024), names[n]);
	else
		(void)snprintf(buf, size, "%llu %s", (unsigned long long)bytes, names[n]);
	return buf;
}

static bool component_is_plain(const char *c, size_t n)
{
	if (n == 0 || n > NAME_MAX)
		return false;
	return !(n == 1 && c[0] == '.') && !(n == 2 && c[0] == '.' && c[1] == '.');
}

bool path_is_below(const char *path)
{
	size_t len = strnlen(path, PATH_MAX);

	if (len == 0 || len >= PATH_MAX)
		return false;
	for (;;) {
		size_t n = strcspn(path, "/");

		if (!component_is_plain(path, n))
			return false;
		if (path[n] == '\0')
			return true;
		path += n + 1;
	}
}

bool path_is_plain(const char *path)
{
	if (!path_is_below(path))
		return false;
	for (const char *c = path; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return false;
	return true;
}

bool path_is_plain_abs(const char *path)
{
	return path[0] == '/' && path_is_plain(path + 1) && strnlen(path, PATH_MAX) < PATH_MAX;
}
