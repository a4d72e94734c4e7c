// SPDX-License-Identifier: Apache-2.0
#include "base/limits.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)
#define TIB(n) ((uint64_t)(n) << 40)

static const struct limit_row rows[] = {
#define LIMIT(id, key, option, unit, def, min, max, doc) \
	[LIMIT_##id] = { #key, option, LIMIT_##unit, def, min, max, doc },
#include "policy/limits.tbl"
#undef LIMIT
};

const struct limit_row *limit_row(enum limit_id id)
{
	return &rows[id];
}

void limits_init(struct limits *l)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		l->v[i] = rows[i].def;
}

int limit_parse(enum limit_id id, const char *text, uint64_t *ret)
{
	const struct limit_row *row = &rows[id];
	uint64_t v;
	int r;

	switch (row->unit) {
	case LIMIT_BYTES:
		r = str_to_bytes(text, &v);
		break;
	case LIMIT_MILLI:
		r = str_to_milli(text, &v);
		break;
	case LIMIT_COUNT:
	case LIMIT_SECONDS:
	default:
		r = str_to_u64(text, UINT64_MAX, &v);
		break;
	}
	if (r < 0)
		return r;
	if (v < row->min || v > row->max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int limits_check(const struct limits *l, enum limit_id *ret_bad)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		if (l->v[i] < rows[i].min || l->v[i] > rows[i].max) {
			*ret_bad = (enum limit_id)i;
			return -ERANGE;
		}
	return 0;
}

const char *limit_format(enum limit_id id, uint64_t v, char *buf, size_t size)
{
	unsigned long long n = v;

	switch (rows[id].unit) {
	case LIMIT_BYTES:
		return str_from_bytes(v, buf, size);
	case LIMIT_MILLI:
		if (n % 1000 == 0)
			(void)snprintf(buf, size, "%llu", n / 1000);
		else
			(void)snprintf(buf, size, "%llu.%03llu", n / 1000, n % 1000);
		for (size_t i = strlen(buf); n % 1000 != 0 && buf[i - 1] == '0'; i--)
			buf[i - 1] = '\0';
		return buf;
	case LIMIT_SECONDS:
		(void)snprintf(buf, size, "%llu s", n);
		return buf;
	case LIMIT_COUNT:
	default:
		(void)snprintf(buf, size, "%llu", n);
		return buf;
	}
}
