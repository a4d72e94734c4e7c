// SPDX-License-Identifier: Apache-2.0
/*
 * thaw: become the process that froze into the image on descriptor 4. One that refers to another image finds that on descriptor 5.
 *
 * Started by exec, as the program of a job, in a box that is complete. Static, linked to an address that no image uses, without a C
 * library: there is nothing under it that could be mapped away. Its file cannot be read by who executes it, so it is not dumpable, and
 * nobody else of its box gets at the image's descriptor.
 *
 * Should: end with a thaw_status when anything is not as it must be.
 * Must not: touch its first stack after the switch (it stays mapped: arguments and environment are there).
 */
#include "warm/bare.h"
#include "warm/image.h"

#include <asm/prctl.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <sys/prctl.h>

#define PROT_RW 3u /* PROT_READ | PROT_WRITE */

enum { IMAGE_FD = 4, BASE_FD = 5, RSEQ_SIGNATURE = 0x53053053, SLOT = 1 << 20 };

static struct image image;
static char text[32768];
__attribute__((used)) char thaw_stack[65536] __attribute__((aligned(64)));

static _Noreturn void end(enum thaw_status status)
{
	for (;;)
		(void)CALL1(SYS_exit_group, status);
}

static void read_at(uint64_t to, uint64_t n, uint64_t offset)
{
	while (n > 0) {
		long r = CALL4(SYS_pread64, IMAGE_FD, to, n, offset);

		if (r <= 0)
			end(THAW_READ);
		to += (uint64_t)r;
		n -= (uint64_t)r;
		offset += (uint64_t)r;
	}
}

static void read_image(void)
{
	uint64_t head = offsetof(struct image, entries);

	read_at((uint64_t)&image, head, 0);
	if (image.magic != IMAGE_MAGIC || image.nentries > IMAGE_ENTRIES ||
	    image.nspecials > IMAGE_SPECIALS || image.ntaken > IMAGE_TAKEN)
		end(THAW_MAGIC);
	read_at((uint64_t)image.entries, image.nentries * sizeof(image.entries[0]), head);
	read_at((uint64_t)image.taken, image.ntaken * sizeof(image.taken[0]),
		offsetof(struct image, taken));
}

static size_t read_maps(void)
{
	long fd = CALL3(SYS_open, "/proc/self/maps", O_RDONLY, 0), r;
	size_t n = 0;

	if (fd < 0)
		end(THAW_MAPS);
	while ((r = CALL3(SYS_read, fd, text + n, sizeof(text) - n)) > 0)
		n += (size_t)r;
	if (r < 0 || n == sizeof(text))
		end(THAW_MAPS);
	(void)CALL1(SYS_close, fd);
	return n;
}

/* Nothing of the image where the kernel put our arguments, now and as far as that stack may grow for a signal. */
static void check_stack(const struct bare_map *m)
{
	for (uint32_t i = 0; i < image.nentries; i++)
		if (image.entries[i].start < m->end && image.entries[i].end > m->start - SLOT)
			end(THAW_COLLIDES);
	for (uint32_t i = 0; i < image.nspecials; i++)
		if (image.specials[i].start < m->end && image.specials[i].end > m->start - SLOT)
			end(THAW_COLLIDES);
}

/* vDSO and its data out of the way. */
static void set_aside(void)
{
	const char *p = text, *const text_end = text + read_maps();
	struct bare_map m;
	uint32_t n = 0;

	while (bare_map_next(&p, text_end, &m)) {
		uint64_t len = m.end - m.start;

		if (bare_starts(&m, "[stack]"))
			check_stack(&m);
		if (!bare_is_special(&m))
			continue;
		if (n == image.nspecials ||
		    len != image.specials[n].end - image.specials[n].start || len > SLOT)
			end(THAW_SPECIALS);
		if (CALL6(SYS_mremap, m.start, len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
			  THAW_HOLE + (uint64_t)n * SLOT, 0) < 0)
			end(THAW_MOVE);
		n++;
	}
	if (p != text_end)
		end(THAW_MAPS);
	if (n != image.nspecials)
		end(THAW_SPECIALS);
}

static void put_back(void)
{
	for (uint32_t i = 0; i < image.nspecials; i++) {
		uint64_t len = image.specials[i].end - image.specials[i].start;

		if (CALL6(SYS_mremap, THAW_HOLE + (uint64_t)i * SLOT, len, len,
			  MREMAP_MAYMOVE | MREMAP_FIXED, image.specials[i].start, 0) < 0)
			end(THAW_MOVE);
	}
}

/* Pages that are memory of this process alone, and not of who wrote the image: the address, or -errno. */
static long take_copy(const struct image_entry *e)
{
	uint64_t len = e->end - e->start;
	long r = CALL6(SYS_mmap, e->start, len, PROT_RW,
		       MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (r < 0)
		return r;
	read_at(e->start, len, e->offset);
	if (e->prot != PROT_RW && CALL3(SYS_mprotect, e->start, len, e->prot) < 0)
		end(THAW_MAP);
	return r;
}

static void map(const struct image_entry *e)
{
	uint64_t len = e->end - e->start;
	long flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE, r;

	if (e->end <= e->start || e->start < THAW_TEXT_END)
		end(THAW_MAP);
	if (e->kind == IMAGE_BASE && image.refers == 0)
		end(THAW_MAP);
	if (e->kind == IMAGE_BASE || (e->kind == IMAGE_PAGES && image.refers == 0))
		r = CALL6(SYS_mmap, e->start, len, e->prot, flags,
			  e->kind == IMAGE_BASE ? BASE_FD : IMAGE_FD, e->offset);
	else if (e->kind == IMAGE_PAGES)
		r = take_copy(e);
	else
		r = CALL6(SYS_mmap, e->start, len, e->prot, flags | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);
	if (r < 0)
		end(THAW_MAP);
	if (e->kind != IMAGE_TOP)
		return;
	if (e->from < e->start || e->from >= e->end || e->prot != PROT_RW)
		end(THAW_MAP);
	read_at(e->from, e->end - e->from, e->offset);
}

/* Without it, on an older kernel or where memory is short, each page is taken when it is first used. */
static void take_pages(void)
{
	for (uint32_t i = 0; i < image.ntaken; i++)
		(void)CALL3(SYS_madvise, image.taken[i].start, image.taken[i].len,
			    image.taken[i].advice);
}

static void take_thread(void)
{
	if (CALL2(SYS_arch_prctl, ARCH_SET_FS, image.thread) < 0)
		end(THAW_THREAD);
	*(uint32_t *)image.tid = (uint32_t)CALL1(SYS_set_tid_address, image.tid);
	if (image.robust != 0 && CALL2(SYS_set_robust_list, image.robust, image.robust_len) < 0)
		end(THAW_THREAD);
	if (image.rseq != 0 && CALL4(SYS_rseq, image.rseq, image.rseq_len, 0, RSEQ_SIGNATURE) < 0)
		end(THAW_THREAD);
	for (int s = 1; s <= IMAGE_SIGNALS; s++)
		if (image.signals[s - 1].handler != 0)
			(void)CALL4(SYS_rt_sigaction, s, &image.signals[s - 1], 0, 8);
	if (image.altstack.size != 0)
		(void)CALL2(SYS_sigaltstack, &image.altstack, 0);
	(void)CALL4(SYS_rt_sigprocmask, /* set */ 2, &image.mask, 0, 8);
	(void)CALL2(SYS_prctl, PR_SET_NAME, "python3");
}

/* On a stack of our own. `arguments` is what gb_freeze returns this time. */
__attribute__((used)) _Noreturn void thaw_run(uint64_t arguments)
{
	read_image();
	set_aside();
	for (uint32_t i = 0; i < image.nentries; i++)
		map(&image.entries[i]);
	put_back();
	take_pages();
	take_thread();
	(void)CALL1(SYS_close, IMAGE_FD);
	if (image.refers != 0)
		(void)CALL1(SYS_close, BASE_FD);
	/* From here on as any program. */
	if (CALL2(SYS_prctl, PR_SET_DUMPABLE, 1) < 0)
		end(THAW_THREAD);
	__asm__ volatile("ldmxcsr %0" ::"m"(image.mxcsr));
	__asm__ volatile("fldcw %0" ::"m"(image.fpu));
	__asm__ volatile("mov 0(%0), %%rbx\n\t"
			 "mov 8(%0), %%rbp\n\t"
			 "mov 16(%0), %%r12\n\t"
			 "mov 24(%0), %%r13\n\t"
			 "mov 32(%0), %%r14\n\t"
			 "mov 40(%0), %%r15\n\t"
			 "mov 48(%0), %%rsp\n\t"
			 "jmp *56(%0)"
			 :
			 : "D"(image.regs), "a"(arguments)
			 : "memory");
	__builtin_unreachable();
}

__attribute__((naked, used)) void _start(void)
{
	__asm__("mov %rsp, %rdi\n\t"
		"lea thaw_stack+65536(%rip), %rsp\n\t"
		"xor %ebp, %ebp\n\t"
		"call thaw_run");
}
