/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in front of a library that reads tar archives (src/archive).
 *
 * Such a library knows every dialect, makes the best of what is odd, and gives a header the memory that it asks for. The
 * guard knows what an archive is made of and nothing else: it goes from header to header, bounds what stands in
 * front of a member, and refuses what two readers of tar would understand differently. Names, times and the maps of sparse
 * files are left to the library.
 *
 * It hands the archive on in pieces that end where a header or the contents of a member do. So who reads through it
 * can ask at any time how many members there were, and of what size the last one is: a library that has another opinion
 * has lost its way.
 *
 * Nothing is allocated and nothing kept. Who was refused stays refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TAR_GUARD_BLOCK = 512,
	TAR_GUARD_HEADER = 64 * 1024,        /* bytes of one header in front of a member */
	TAR_GUARD_CHAIN = 16,                /* such headers of one member */
	TAR_GUARD_CHAIN_BYTES = 1024 * 1024, /* of all of them, and of its map */
	TAR_GUARD_PARTS = 32768, /* of a sparse file whose map is in front of its contents */
	TAR_GUARD_TAIL = 16 * 1024 * 1024, /* zeros behind the end */
	TAR_GUARD_WANTS_MAX = TAR_GUARD_HEADER,
};

enum tar_guard_state {
	TAR_GUARD_HEAD,  /* a header comes, or the end */
	TAR_GUARD_EXTRA, /* what a header in front of a member says */
	TAR_GUARD_MAP,   /* the rest of a map of a sparse file */
	TAR_GUARD_COUNT, /* contents, which begin with a map of a sparse file */
	TAR_GUARD_DATA,  /* contents, and what fills up their last block */
	TAR_GUARD_END,   /* zeros */
	TAR_GUARD_REFUSED,
};

struct tar_guard {
	enum tar_guard_state state;
	uint64_t left; /* of contents or of zeros */
	size_t extra;  /* bytes of what EXTRA expects */
	char extra_type;
	unsigned int seen; /* what was in front of the member that comes */
	uint64_t pax_size;
	unsigned int chain;
	size_t chain_bytes;
	uint64_t about; /* the number of the member that a refusal speaks of; 0: of the archive */
	/* Of the member that came last: */
	uint64_t members; /* its number */
	uint64_t size;    /* of what the archive has of it */
	bool sparse;      /* it may be larger than that */
};

void tar_guard_init(struct tar_guard *g);

/* How many bytes tar_guard_take() must see at once, TAR_GUARD_WANTS_MAX at most. */
size_t tar_guard_wants(const struct tar_guard *g);

/* The next n bytes of the archive: how many of them may go on, 1 at least; or -EBADMSG with *why. */
ptrdiff_t tar_guard_take(struct tar_guard *g, const uint8_t *p, size_t n, const char **why);

/* That was all, with so many bytes left over: 0, or -EBADMSG with *why. */
int tar_guard_end(const struct tar_guard *g, size_t left_over, const char **why);
