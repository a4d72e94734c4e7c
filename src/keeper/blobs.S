/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that go into boxes, carried inside the program as plain read-only bytes, so that one file is the whole
 * product: the static init of every box, what Python is started with, and what makes archives. blobs.c makes sealed memfds of them. The
 * build gives the paths; the headers make this file depend on what it embeds.
 */
#include "box/init_blob.gen.h"
#include "kernel_blob.gen.h"
#ifdef ARCHIVE_PATH
#include "archive/archive_blob.gen.h"
#endif
#ifdef THAW_PATH
#include "warm/freeze_blob.gen.h"
#include "warm/thaw_blob.gen.h"
#endif

/* One zero byte beyond the end keeps the end symbol inside the section. */
#define START(name) \
	.balign 16; \
	.globl glovebox_##name##_start; .hidden glovebox_##name##_start; \
	.type glovebox_##name##_start, %object; \
	glovebox_##name##_start:
#define END(name) \
	.globl glovebox_##name##_end; .hidden glovebox_##name##_end; \
	.type glovebox_##name##_end, %object; \
	glovebox_##name##_end: .byte 0; \
	.size glovebox_##name##_start, glovebox_##name##_end - glovebox_##name##_start

	.section .rodata.glovebox_blobs, "a", %progbits
	START(init)
	.incbin INIT_PATH
	END(init)
	START(kernel)
	.incbin KERNEL_PATH
	END(kernel)
	START(thaw)
#ifdef THAW_PATH
	.incbin THAW_PATH
#endif
	END(thaw)
	START(freeze)
#ifdef FREEZE_PATH
	.incbin FREEZE_PATH
#endif
	END(freeze)
	START(archive)
#ifdef ARCHIVE_PATH
	.incbin ARCHIVE_PATH
#endif
	END(archive)

	.section .note.GNU-stack, "", %progbits
#if defined(__x86_64__) && defined(__CET__)
#include <cet.h>
#endif
