/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image: a head, its entries, then pages. Written by freeze.c, read by thaw.c of the same build; never stored longer
 * than a server runs, so there is one version.
 *
 * A whole image needs nothing else, and its pages are mapped. One of a process that was thawed itself has only what became of that process:
 * for the rest it refers to the image that it was thawed from, and its own pages are read into memory of whoever thaws it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAGIC UINT64_C(0x31676d6978766c67)

enum {
	IMAGE_SPECIALS = 8,
	IMAGE_SIGNALS = 64,
	IMAGE_ENTRIES = 8192,
	IMAGE_TAKEN = 8192,
	IMAGE_PAGE = 4096,
	IMAGE_STACK = 8 << 20, /* room for the stack of a thawed process */
};

/* Addresses that belong to thaw: it is linked to the first range, and moves what the kernel gave it to the second
 * while it maps. A process that uses one of them cannot freeze. */
#define THAW_TEXT     UINT64_C(0x100000)
#define THAW_TEXT_END UINT64_C(0x300000)
#define THAW_HOLE     UINT64_C(0x100000000000)
#define THAW_HOLE_END UINT64_C(0x100010000000)

enum image_kind {
	IMAGE_PAGES, /* pages of the image */
	IMAGE_BASE,  /* pages of the image that it refers to */
	IMAGE_ZERO,  /* memory that was never touched */
	IMAGE_TOP,   /* the stack: pages of the image are copied to its upper end */
};

struct image_entry {
	uint64_t start, end;
	uint64_t offset; /* in its image */
	uint64_t from;   /* IMAGE_TOP: where the copied part begins */
	uint32_t prot;
	uint32_t kind;
};

struct image_range {
	uint64_t start, end;
};

/* Pages that whoever thaws is going to use: one call of madvise(2) for all of them costs less than a fault for each. */
struct image_taken {
	uint64_t start, len;
	uint64_t advice;
};

struct image_signal { /* as rt_sigaction(2) has it */
	uint64_t handler, flags, restorer, mask;
};

enum image_reg { REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15, REG_RSP, REG_RIP, REG_MAX };

struct image_altstack {
	uint64_t sp;
	uint32_t flags, unused;
	uint64_t size;
};

struct image {
	uint64_t magic;
	uint64_t refers; /* 0: it is whole */
	uint64_t regs[REG_MAX];
	uint64_t thread; /* FS base */
	uint64_t tid;    /* address of the thread's id */
	uint64_t robust, robust_len;
	uint64_t rseq;
	uint32_t rseq_len;
	uint32_t mxcsr, fpu;
	uint32_t nspecials, nentries, ntaken;
	uint64_t mask; /* blocked signals */
	struct image_altstack altstack;
	struct image_signal signals[IMAGE_SIGNALS];
	struct image_range specials[IMAGE_SPECIALS]; /* vDSO and its data */
	struct image_entry entries[IMAGE_ENTRIES];
	struct image_taken taken[IMAGE_TAKEN];
};

/* How thaw ends when it cannot go on. Statuses that no shell uses. */
enum thaw_status {
	THAW_READ = 90, /* the image cannot be read */
	THAW_MAGIC,     /* it is none */
	THAW_MAPS,      /* /proc/self/maps cannot be read or understood */
	THAW_COLLIDES,  /* the kernel put the stack where the image has something: try again */
	THAW_SPECIALS,  /* another kernel: its vDSO has another shape */
	THAW_MOVE,      /* the vDSO cannot be moved */
	THAW_MAP,       /* no memory, or an entry that makes no sense */
	THAW_THREAD,    /* the kernel does not take the thread's state */
};
