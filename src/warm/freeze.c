// SPDX-License-Identifier: Apache-2.0
/*
 * freeze: this process, as an image that others go on from.
 *
 * A shared object that a zygote loads (by ctypes, so that it fits every Python). It uses the C library of the process where that
 * must be told something, and otherwise makes system calls itself.
 *
 *   gb_prepare()            before the imports: the heap is to do without a program break
 *   gb_freeze(fd, taken, n) write the image, and which pages whoever thaws it is going to use; 0 in the process that froze, the
 *                           address of argc, argv, envp in one that thawed, -errno when this process cannot be frozen
 *   gb_freeze_again(fd)     the same of a process that was thawed: an image which refers to the one that this process came from. It is written to memory
 *                           of the file, as far as that reaches: who may write no large files may be frozen all the same
 *   gb_bytes                how many that takes, also where there are not so many (EFBIG)
 *   gb_why()                what stood in the way
 *   gb_stops                not 0: the process stops itself when it has frozen, and when it was thawed: for who wants to compare them
 *
 * Should: refuse what cannot be carried.
 * Must not: allocate; leave a mapping behind.
 */
#include "warm/bare.h"
#include "warm/image.h"

#include <asm/prctl.h>
#include <asm/stat.h>
#include <errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/signal.h>
#include <sys/prctl.h>

enum {
	TEXT_BYTES = 4 << 20,
	PAGEMAP_PAGES = 1 << 16,
	GAP_PAGES = 32, /* a shorter stretch of untouched pages is stored, to save an entry */
	MMAP_THRESHOLD = -3,
	MMAP_THRESHOLD_DEFAULT = 128 << 10,
	MMAP_THRESHOLD_MOST = 32 << 20,
	ONE_CHUNK = 8 << 20,
	LARGE_PAGE = 2 << 20,
	ADVICE_COLLAPSE = 25, /* MADV_COLLAPSE, Linux 6.1 */
};

/* Of a word of pagemap: in memory, or swapped; a page of its file, and not of this process. */
#define PRESENT (UINT64_C(3) << 62)
#define OF_FILE (UINT64_C(1) << 61)
/* Of an entry of pages, while it is only planned: they are of a file, and there may be less of them. */
#define OF_A_FILE UINT64_C(1)

/* Of the process's C library; a library without them cannot be frozen. */
extern void *__curbrk __attribute__((weak));
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
int mallopt(int param, int value) __attribute__((weak));
void *malloc(size_t n) __attribute__((weak));
void free(void *p) __attribute__((weak));

/* Everything that is needed while freezing, in a place of its own that is not part of the image. */
struct scratch {
	struct image image;
	uint64_t pagemap[PAGEMAP_PAGES];
	char text[TEXT_BYTES];
	uint64_t offset; /* where in the image the next page goes */
	uint64_t
		window; /* where the file is mapped, and is filled in the end; 0: it is written as it comes */
	uint64_t size;          /* of the file */
	uint64_t device, inode; /* of the image that this one refers to; 0: of none */
	int again;
	int fd, pagemap_fd, mem_fd;
};

static struct scratch *const scratch = (struct scratch *)THAW_HOLE;
static uint64_t regs[REG_MAX];
__attribute__((visibility("default"))) extern uint64_t gb_bytes;
uint64_t gb_bytes;
static const char *why = "";

/* As setjmp: 0 now, and another value when thaw jumps here. */
__attribute__((naked, noinline, returns_twice)) static uint64_t save(uint64_t *r
								     __attribute__((unused)))
{
	__asm__("mov %rbx, 0(%rdi)\n\t"
		"mov %rbp, 8(%rdi)\n\t"
		"mov %r12, 16(%rdi)\n\t"
		"mov %r13, 24(%rdi)\n\t"
		"mov %r14, 32(%rdi)\n\t"
		"mov %r15, 40(%rdi)\n\t"
		"lea 8(%rsp), %rax\n\t"
		"mov %rax, 48(%rdi)\n\t"
		"mov (%rsp), %rax\n\t"
		"mov %rax, 56(%rdi)\n\t"
		"xor %eax, %eax\n\t"
		"ret");
}

static int fail(int error, const char *text)
{
	why = text;
	return -error;
}

/* --- pages ------------------------------------------------------------------------------------ */

static int add(struct image_entry e)
{
	struct image *im = &scratch->image;
	struct image_entry *last = im->nentries > 0 ? &im->entries[im->nentries - 1] : NULL;

	if (last != NULL && last->end == e.start && last->prot == e.prot && last->kind == e.kind &&
	    last->from == e.from &&
	    (e.kind == IMAGE_ZERO ||
	     (e.kind != IMAGE_TOP && last->offset + (last->end - last->start) == e.offset))) {
		last->end = e.end;
		return 0;
	}
	if (im->nentries == IMAGE_ENTRIES)
		return fail(E2BIG, "too many mappings");
	im->entries[im->nentries++] = e;
	return 0;
}

static int write_pages(uint64_t from, uint64_t to)
{
	if (scratch->again) {
		scratch->offset += to - from;
		return 0;
	}
	while (from < to) {
		long r = CALL4(SYS_pwrite64, scratch->fd, from, to - from, scratch->offset);

		if (r == -EFAULT)
			r = IMAGE_PAGE; /* beyond the end of its file: nobody can have touched it */
		if (r <= 0)
			return fail(r == 0 ? EIO : (int)-r, "the image cannot be written");
		from += (uint64_t)r;
		scratch->offset += (uint64_t)r;
	}
	return 0;
}

/* of_file: there may be less of them than is mapped. */
static int add_pages(uint64_t start, uint64_t end, uint32_t prot, int of_file)
{
	struct image_entry e = { .start = start,
				 .end = end,
				 .offset = scratch->offset,
				 .from = of_file != 0 ? OF_A_FILE : 0,
				 .prot = prot,
				 .kind = IMAGE_PAGES };
	int r = write_pages(start, end);

	return r < 0 ? r : add(e);
}

static int add_zero(uint64_t start, uint64_t end, uint32_t prot)
{
	return add((struct image_entry){
		.start = start, .end = end, .prot = prot, .kind = IMAGE_ZERO });
}

/* Whether a page is to be written: it was touched, and is not one of the image that we came from. */
static int is_own(uint64_t word, int based)
{
	return (word & PRESENT) != 0 && !(based && (word & OF_FILE) != 0);
}

/* How many of n pages from i on are of one kind; own ones bridge short gaps. */
static size_t stretch(const uint64_t *pages, size_t i, size_t n, int own, int based)
{
	size_t end = i, gap = 0;

	for (; i < n && gap < GAP_PAGES; i++) {
		if (is_own(pages[i], based) == own) {
			end = i + 1;
			gap = 0;
		} else {
			gap = own ? gap + 1 : GAP_PAGES;
		}
	}
	return end;
}

/* Pages that are as they were: never touched, or those of the image that we came from. */
static int add_rest(const struct bare_map *m, uint64_t from, uint64_t to, int based)
{
	return add((struct image_entry){ .start = from,
					 .end = to,
					 .offset = based ? m->offset + (from - m->start) : 0,
					 .prot = m->prot,
					 .kind = based ? IMAGE_BASE : IMAGE_ZERO });
}

/* Memory of which only a part is written. based: the rest is that of the image that we came from, else it was never touched. */
static int add_touched(const struct bare_map *m, int based)
{
	for (uint64_t at = m->start; at < m->end;) {
		size_t n = (m->end - at) / IMAGE_PAGE;
		int r = 0;

		if (n > PAGEMAP_PAGES)
			n = PAGEMAP_PAGES;
		if (CALL4(SYS_pread64, scratch->pagemap_fd, scratch->pagemap, n * 8,
			  at / IMAGE_PAGE * 8) != (long)(n * 8))
			return fail(EIO, "/proc/self/pagemap cannot be read");
		for (size_t i = 0; i < n && r == 0;) {
			int own = is_own(scratch->pagemap[i], based);
			size_t end = stretch(scratch->pagemap, i, n, own, based);
			uint64_t from = at + i * IMAGE_PAGE, to = at + end * IMAGE_PAGE;

			r = own ? add_pages(from, to, m->prot, 0) : add_rest(m, from, to, based);
			i = end;
		}
		if (r < 0)
			return r;
		at += n * IMAGE_PAGE;
	}
	return 0;
}

/* From some way below where we stand, so that what the last functions do does not matter. */
static int add_stack(const struct bare_map *m)
{
	uint64_t from = regs[REG_RSP] - 4096;
	struct image_entry e = { .start = m->end - IMAGE_STACK,
				 .end = m->end,
				 .offset = scratch->offset,
				 .prot = m->prot,
				 .kind = IMAGE_TOP };

	from -= from % IMAGE_PAGE;
	e.from = from < m->start ? m->start : from;
	if (e.from <= e.start)
		return fail(E2BIG, "the stack is too deep");
	if (add(e) < 0)
		return -E2BIG;
	return write_pages(e.from, e.end);
}

/* --- mappings --------------------------------------------------------------------------------- */

static int add_map(const struct bare_map *m)
{
	struct image *im = &scratch->image;

	if (bare_starts(m, "[vsyscall]") || m->start == THAW_HOLE || m->start == scratch->window)
		return 0;
	if (bare_is_special(m)) {
		if (im->nspecials == IMAGE_SPECIALS)
			return fail(E2BIG, "too many mappings of the kernel");
		im->specials[im->nspecials++] = (struct image_range){ m->start, m->end };
		return 0;
	}
	if (m->start < THAW_TEXT_END || (m->start < THAW_HOLE_END && m->end > THAW_HOLE))
		return fail(EBUSY, "a mapping where thaw lives");
	if (m->shared && (m->prot & PROT_WRITE) != 0)
		return fail(EBUSY, "a writable shared mapping");
	if (m->start <= regs[REG_RSP] && m->end > regs[REG_RSP])
		return add_stack(m);
	/* Of a process that was thawed: where thaw stood. It got its arguments there. */
	if (bare_starts(m, "[stack]"))
		return 0;
	if ((m->prot & PROT_READ) == 0) {
		if (!scratch->again)
			return add_zero(m->start, m->end, m->prot);
		/* What is in it may be wanted again; who froze for a copy has no further use for its own rights. */
		(void)CALL3(SYS_mprotect, m->start, m->end - m->start, PROT_READ);
	}
	if (m->inode == 0)
		return add_touched(m, /* based= */ 0);
	if (scratch->inode != 0 && m->inode == scratch->inode && m->device == scratch->device)
		return add_touched(m, /* based= */ 1);
	return add_pages(m->start, m->end, m->prot, 1);
}

/* The length of the text, or -errno. */
static long read_maps(void)
{
	long fd = CALL3(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), r;
	size_t n = 0;

	if (fd < 0)
		return fail((int)-fd, "/proc/self/maps cannot be read");
	while ((r = CALL3(SYS_read, fd, scratch->text + n, TEXT_BYTES - n)) > 0)
		n += (size_t)r;
	(void)CALL1(SYS_close, fd);
	return n == TEXT_BYTES ? fail(E2BIG, "too many mappings") : (long)n;
}

static int each_map(int (*fn)(const struct bare_map *m), long n)
{
	const char *p = scratch->text;
	struct bare_map m;

	while (bare_map_next(&p, scratch->text + n, &m)) {
		int e = fn(&m);

		if (e < 0)
			return e;
	}
	return p == scratch->text + n ? 0 : fail(EIO, "/proc/self/maps makes no sense");
}

/* Where this code is in memory of a file, that file is the image that we came from: a process that is frozen for the first time has it from elsewhere. */
static int find_base(const struct bare_map *m)
{
	if (m->start <= (uint64_t)&find_base && m->end > (uint64_t)&find_base && !m->shared) {
		scratch->device = m->device;
		scratch->inode = m->inode;
	}
	return 0;
}

/* The stack gets more room than it has; nothing else may be there. */
static int check_room(void)
{
	const struct image *im = &scratch->image;

	for (uint32_t i = 0; i < im->nentries; i++)
		for (uint32_t k = 0; im->entries[i].kind == IMAGE_TOP && k < im->nentries; k++)
			if (k != i && im->entries[k].start < im->entries[i].end &&
			    im->entries[k].end > im->entries[i].start)
				return fail(EBUSY, "no room for the stack");
	return 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static int count_threads(void)
{
	long fd = CALL3(SYS_open, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	long r = fd < 0 ? fd : CALL3(SYS_getdents64, fd, scratch->text, TEXT_BYTES);
	int n = 0;

	if (fd >= 0)
		(void)CALL1(SYS_close, fd);
	for (long at = 0; at < r; n++)
		at += *(const uint16_t *)(const void *)(scratch->text + at + 16); /* d_reclen */
	return n - 2;
}

static int take_thread(void)
{
	struct image *im = &scratch->image;

	if (count_threads() != 1)
		return fail(EBUSY, "more than one thread");
	if (CALL2(SYS_arch_prctl, ARCH_GET_FS, &im->thread) < 0 ||
	    CALL2(SYS_prctl, PR_GET_TID_ADDRESS, &im->tid) < 0 || im->tid == 0)
		return fail(ENOSYS, "the kernel does not tell the thread's state");
	(void)CALL3(SYS_get_robust_list, 0, &im->robust, &im->robust_len);
	if (&__rseq_size != NULL && __rseq_size != 0) {
		im->rseq = im->thread + (uint64_t)__rseq_offset;
		im->rseq_len = 32;
	}
	for (int s = 1; s <= IMAGE_SIGNALS; s++)
		(void)CALL4(SYS_rt_sigaction, s, 0, &im->signals[s - 1], 8);
	(void)CALL4(SYS_rt_sigprocmask, 0, 0, &im->mask, 8);
	(void)CALL2(SYS_sigaltstack, 0, &im->altstack);
	__asm__ volatile("stmxcsr %0" : "=m"(im->mxcsr));
	__asm__ volatile("fnstcw %0" : "=m"(im->fpu));
	for (int i = 0; i < REG_MAX; i++)
		im->regs[i] = regs[i];
	return 0;
}

/* --- entry points ----------------------------------------------------------------------------- */

#define VISIBLE __attribute__((visibility("default")))

extern VISIBLE int gb_stops;
VISIBLE const char *gb_why(void);
VISIBLE int gb_prepare(void);
VISIBLE long gb_freeze(int fd, const struct image_taken *taken, size_t n);
VISIBLE long gb_freeze_again(int fd);

int gb_stops;

static void be_looked_at(void)
{
	if (gb_stops != 0)
		(void)CALL2(SYS_kill, CALL0(SYS_getpid), SIGSTOP);
}

const char *gb_why(void)
{
	return why;
}

/*
 * A thawed process has another program break than the C library remembers. So a page behind the heap keeps it from growing here, and one
 * allocation makes malloc notice: from then on it takes what it needs by mmap and never again relies on a contiguous heap.
 */
int gb_prepare(void)
{
	uint64_t brk = (uint64_t)CALL1(SYS_brk, 0);
	void *p;

	if (&__curbrk == NULL || mallopt == NULL || malloc == NULL || free == NULL)
		return fail(ENOSYS, "this C library is not known");
	brk = (brk + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
	if (CALL6(SYS_mmap, brk, IMAGE_PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		  -1, 0) < 0)
		return fail(EBUSY, "the page behind the heap is taken");
	(void)mallopt(MMAP_THRESHOLD, MMAP_THRESHOLD_MOST);
	p = malloc(ONE_CHUNK);
	__asm__ volatile("" : : "r"(p) : "memory"); /* the pair is not to be optimised away */
	free(p);
	(void)mallopt(MMAP_THRESHOLD, MMAP_THRESHOLD_DEFAULT);
	return p != NULL ? 0 : fail(ENOMEM, "no memory");
}

/*
 * The image in large pages, where the kernel does that: whoever thaws maps and unmaps small ones, but of one large page many at a
 * time. It is about time only, so nothing of it need succeed.
 */
static void make_large(int fd, uint64_t bytes)
{
	uint64_t room = bytes + LARGE_PAGE;
	long at = CALL6(SYS_mmap, 0, room, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t aligned = ((uint64_t)at + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;

	if (at < 0)
		return;
	if (CALL6(SYS_mmap, aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		  0) == (long)aligned)
		(void)CALL3(SYS_madvise, aligned, bytes / LARGE_PAGE * LARGE_PAGE, ADVICE_COLLAPSE);
	(void)CALL2(SYS_munmap, at, room);
}

/* A list that is too long is cut: it is about time, not about what happens. */
static void add_taken(const struct image_taken *taken, size_t n)
{
	struct image *im = &scratch->image;

	for (size_t i = 0; i < n && i < IMAGE_TAKEN; i++)
		im->taken[im->ntaken++] = taken[i];
}

static int add_everything(int again)
{
	long n = read_maps();
	int r = n < 0 ? (int)n : 0;

	if (r == 0 && again)
		r = each_map(find_base, n);
	if (r == 0 && again && scratch->inode == 0)
		r = fail(EINVAL, "this process was not thawed");
	scratch->image.refers = scratch->inode;
	if (r == 0)
		r = take_thread();
	if (r < 0)
		return r;
	n = read_maps(); /* whose text take_thread() has used */
	r = n < 0 ? (int)n : each_map(add_map, n);
	return r == 0 ? check_room() : r;
}

static void copy(uint64_t to, uint64_t from, uint64_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* Of a file there may be less than is mapped, and to touch the rest would end us. The kernel looks, and leaves zeros. */
static void copy_of_file(uint64_t to, uint64_t from, uint64_t n)
{
	while (n > 0) {
		long r = CALL4(SYS_pread64, scratch->mem_fd, to, n, from);

		if (r <= 0)
			r = IMAGE_PAGE;
		to += (uint64_t)r;
		from += (uint64_t)r;
		n -= (uint64_t)r;
	}
}

/* Everything that was planned, to where it belongs; then the head: half an image is none. */
static void copy_everything(void)
{
	const struct image *im = &scratch->image;

	(void)CALL3(SYS_madvise, scratch->window, scratch->offset, MADV_POPULATE_WRITE);
	for (uint32_t i = 0; i < im->nentries; i++) {
		const struct image_entry *e = &im->entries[i];

		if (e->kind == IMAGE_TOP)
			copy(scratch->window + e->offset, e->from, e->end - e->from);
		else if (e->kind == IMAGE_PAGES && e->from == OF_A_FILE)
			copy_of_file(scratch->window + e->offset, e->start, e->end - e->start);
		else if (e->kind == IMAGE_PAGES)
			copy(scratch->window + e->offset, e->start, e->end - e->start);
	}
	copy(scratch->window, (uint64_t)im, sizeof(*im));
}

static int open_window(void)
{
	struct stat st;
	long at, mem = CALL3(SYS_open, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);

	if (mem < 0 || CALL2(SYS_fstat, scratch->fd, &st) < 0)
		return fail(EIO, "the image cannot be looked at");
	scratch->mem_fd = (int)mem;
	scratch->size = (uint64_t)st.st_size;
	if (scratch->size == 0)
		return 0;
	at = CALL6(SYS_mmap, 0, scratch->size, PROT_READ | PROT_WRITE, MAP_SHARED, scratch->fd, 0);
	if (at < 0)
		return fail((int)-at, "the image cannot be mapped");
	scratch->window = (uint64_t)at;
	return 0;
}

static int freeze_again(void)
{
	int r = open_window();

	if (r == 0)
		r = add_everything(1);
	gb_bytes = scratch->offset;
	if (r == 0 && scratch->offset > scratch->size)
		r = fail(EFBIG, "it has more memory than there is room for in the image");
	if (r == 0)
		copy_everything();
	if (scratch->window != 0)
		(void)CALL2(SYS_munmap, scratch->window, scratch->size);
	return r;
}

static int freeze(int fd, const struct image_taken *taken, size_t n, int again)
{
	uint64_t head = (sizeof(struct image) + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
	long pagemap = CALL3(SYS_open, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
	int r;

	if (pagemap < 0)
		return fail((int)-pagemap, "/proc/self/pagemap cannot be opened");
	scratch->fd = fd;
	scratch->pagemap_fd = (int)pagemap;
	scratch->offset = head;
	scratch->again = again;
	scratch->image.magic = IMAGE_MAGIC;
	add_taken(taken, n);
	r = again ? freeze_again() : add_everything(0);
	(void)CALL1(SYS_close, pagemap);
	if (again)
		return r;
	/* The head comes last: half an image is none. */
	if (r == 0 && CALL4(SYS_pwrite64, fd, &scratch->image, sizeof(struct image), 0) !=
			      (long)sizeof(struct image))
		r = fail(EIO, "the image cannot be written");
	if (r == 0)
		make_large(fd, scratch->offset);
	return r;
}

static long freeze_or_thaw(int fd, const struct image_taken *taken, size_t n, int again)
{
	uint64_t thawed = save(regs);
	long r;

	if (thawed != 0) {
		__curbrk = (void *)CALL1(SYS_brk, 0);
		(void)CALL2(SYS_munmap, THAW_TEXT, THAW_TEXT_END - THAW_TEXT);
		be_looked_at();
		return (long)thawed;
	}
	r = CALL6(SYS_mmap, THAW_HOLE, sizeof(struct scratch), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (r != (long)THAW_HOLE)
		return fail(EBUSY, "no room to work in");
	r = freeze(fd, taken, n, again);
	(void)CALL2(SYS_munmap, THAW_HOLE, sizeof(struct scratch));
	be_looked_at();
	return r;
}

long gb_freeze(int fd, const struct image_taken *taken, size_t n)
{
	return freeze_or_thaw(fd, taken, n, /* again= */ 0);
}

long gb_freeze_again(int fd)
{
	return freeze_or_thaw(fd, 0, 0, /* again= */ 1);
}
