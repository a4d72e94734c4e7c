/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static init of every box, carried inside the program as plain read-only bytes, so that one file is
 * the whole product. The keeper copies [glovebox_init_start, glovebox_init_end) into a sealed memfd and runs
 * that. The build gives INIT_PATH; the header makes this file depend on what it embeds.
 */
#include "box/init_blob.gen.h"

	.section .rodata.glovebox_init, "a", %progbits
	.balign 16
	.globl glovebox_init_start
	.hidden glovebox_init_start
	.type glovebox_init_start, %object
glovebox_init_start:
	.incbin INIT_PATH
	.globl glovebox_init_end
	.hidden glovebox_init_end
	.type glovebox_init_end, %object
glovebox_init_end:
	/* One zero byte beyond the end keeps the end symbol inside the section. */
	.byte 0
	.size glovebox_init_start, glovebox_init_end - glovebox_init_start

	.section .note.GNU-stack, "", %progbits
#if defined(__x86_64__) && defined(__CET__)
#include <cet.h>
#endif
