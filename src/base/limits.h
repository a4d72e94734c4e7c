/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a box, from policy/limits.tbl. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum limit_id {
#define LIMIT(id, key, option, unit, def, min, max, doc) LIMIT_##id,
#include "policy/limits.tbl"
#undef LIMIT
	LIMIT_ID_MAX,
};

enum limit_unit { LIMIT_BYTES, LIMIT_COUNT, LIMIT_MILLI, LIMIT_SECONDS };

struct limit_row {
	const char *key;    /* in requests and answers */
	const char *option; /* on the command line */
	enum limit_unit unit;
	uint64_t def, min, max;
	const char *doc;
};

struct limits {
	uint64_t v[LIMIT_ID_MAX];
};

const struct limit_row *limit_row(enum limit_id id);

/* Every limit at its default. */
void limits_init(struct limits *l);

/* Parse one value in its unit. 0; -EINVAL: no number; -ERANGE: outside the row's bounds. */
int limit_parse(enum limit_id id, const char *text, uint64_t *ret);

/* 0 when every value lies within its row; else -ERANGE and *ret_bad names the first that does not. */
int limits_check(const struct limits *l, enum limit_id *ret_bad);

/* A value as a person writes it: "256 MiB", "0.5", "10 s". Returns buf. */
const char *limit_format(enum limit_id id, uint64_t v, char *buf, size_t size);
