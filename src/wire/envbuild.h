/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client wants done with environments: from the gate to the supervisor, who starts `glovebox env` for it, and what came of that. The keeper passes both on unread.
 */
#pragma once

#include "wire/envtable.h"

enum {
	ENVBUILD_WORDS = 256,
	ENVBUILD_WORD = 512, /* with its NUL */
	ENVBUILD_BYTES = 14000,
	ENVBUILD_LOG = 8192, /* the end of what was said on the way */
};

enum envbuild_act { ENVBUILD_BUILD, ENVBUILD_REMOVE, ENVBUILD_ACT_MAX };

struct envbuild {
	enum envbuild_act act;
	char name[ENV_NAME];
	char imports[ENV_IMPORTS];
	uint32_t pool;
	unsigned int nwords; /* requirements */
	const char *words[ENVBUILD_WORDS];
	char text[ENVBUILD_BYTES]; /* that they point into */
	size_t ntext;
};

void envbuild_init(struct envbuild *b, enum envbuild_act act, const char *name);
/* One requirement more. 0; -EINVAL: it would be an option, or is none; -E2BIG. */
int envbuild_add(struct envbuild *b, const char *word, size_t n);
ptrdiff_t envbuild_encode(const struct envbuild *b, void *buf, size_t cap);
/* 0 or -EPROTO. */
int envbuild_decode(const void *buf, size_t len, struct envbuild *ret);

/* What came of it. */
struct envbuilt {
	char name[ENV_NAME];
	uint32_t status; /* as a process has it; ENVBUILT_BUSY, ENVBUILT_FORBIDDEN */
	char log[ENVBUILD_LOG];
};

enum { ENVBUILT_BUSY = 1000, ENVBUILT_FORBIDDEN };

ptrdiff_t envbuilt_encode(const struct envbuilt *b, void *buf, size_t cap);
int envbuilt_decode(const void *buf, size_t len, struct envbuilt *ret);
