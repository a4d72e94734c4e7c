/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-seccomp: policy/syscalls.tbl in, the filter of a box out. A build tool; nothing of it is
 * shipped, and nothing it reads is untrusted.
 *
 *   gen-seccomp                  the header seccomp.gen.h, for all machines
 *   gen-seccomp --expect MACHINE one JSON line per call of x86_64 or aarch64, for tests
 *
 * Four steps, each of which ends the build with file:line when it finds a mistake:
 *
 *   check     the rows: names and numbers unique, groups sorted and of one verdict, clauses below
 *             the call they belong to, none that cannot be reached
 *   compile   the numbers fall into ranges of one verdict each, a balanced binary search finds the
 *             range. Classic BPF only jumps forward, by at most 255 when conditional; so the
 *             program is written from its end: what is jumped to is already there, its distance is
 *             known, and what lies too far gets a stepping stone (BPF_JA) close by
 *   validate  the program as the kernel would: known instructions, jumps inside, ends in a return;
 *             besides, that it returns nothing but allow and errno (and notify, where the keeper
 *             listens)
 *   simulate  run the program on every number and on the edges of every clause, and compare with
 *             the rows themselves
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define TABLE        "policy/syscalls.tbl"
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum {
	X32_BIT = 0x40000000, /* of a number: the x32 entry of x86-64 */
	NR_MAX = 1024,        /* the simulation runs 0..NR_MAX - 1; a row must stay below */
	ARGS_MAX = 6,
	CONDS_MAX = 3,
	REACH = 255, /* of a conditional jump */
	SAMPLES_MAX = 512,
};

/*
 * Verdicts
 */
enum verdict {
	V_ALLOW,
	V_NOSYS,
	V_CLAUSES,
	V_TOLD,
	V_EPERM, /* those below are for clauses only */
	V_UNHEARD,
	V_EAFNOSUPPORT,
	V_EINVAL,
	V_ENOENT,
	V_ENOMEM,
	V_EPROTONOSUPPORT,
	V_MAX,
};

/* Two filters: for boxes to which nobody listens, and for those to which the keeper does. */
enum variant {
	PLAIN,
	HEARD,
	VARIANT_MAX,
};

static enum variant variant; /* which one is made */

/* clang-format off */
#define BOTH(e) { SECCOMP_RET_ERRNO | (e), SECCOMP_RET_ERRNO | (e) }
static const struct {
	const char *name;
	uint32_t ret[VARIANT_MAX];
} verdicts[] = {
	[V_ALLOW]           = { "ALLOW",           { SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW } },
	[V_NOSYS]           = { "NOSYS",           BOTH(ENOSYS) },
	[V_CLAUSES]         = { "CLAUSES",         BOTH(EPERM) },
	[V_TOLD]            = { "TOLD",            { SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_USER_NOTIF } },
	[V_EPERM]           = { "EPERM",           BOTH(EPERM) },
	[V_UNHEARD]         = { "UNHEARD",         { SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EBUSY } },
	[V_EAFNOSUPPORT]    = { "EAFNOSUPPORT",    BOTH(EAFNOSUPPORT) },
	[V_EINVAL]          = { "EINVAL",          BOTH(EINVAL) },
	[V_ENOENT]          = { "ENOENT",          BOTH(ENOENT) },
	[V_ENOMEM]          = { "ENOMEM",          BOTH(ENOMEM) },
	[V_EPROTONOSUPPORT] = { "EPROTONOSUPPORT", BOTH(EPROTONOSUPPORT) },
};
/* clang-format on */
_Static_assert(ARRAY_LEN(verdicts) == V_MAX, "a verdict without a name");

static uint32_t answer(enum verdict v)
{
	return verdicts[v].ret[variant];
}

/*
 * The table, read three times: its constants, their proof against the system's headers, its rows
 */
#define GROUP(title, why)
#define SYSCALL(name, x86, arm, verdict)
#define CLAUSE(...)
#define CONSTANT(name, value) K_##name = (int)(value),
enum {
#include "../policy/syscalls.tbl"
};
#undef CONSTANT

/* Names that are the table's own, or younger than the oldest headers that we build with. */
#define SOCK_TYPE  0xf
#define IOC_TYPE   (_IOC_TYPEMASK << _IOC_TYPESHIFT)
#define BTRFS_TYPE (0x94 << _IOC_TYPESHIFT)
#define S_IFNONE   0
#define INIT_PID   1
#define O_MAKES    (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define S_SETID    (S_ISUID | S_ISGID)
#define PER_QUERY  0xffffffff
#define CLONE_NEW_ANY                                                                  \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#ifndef PR_GET_SHADOW_STACK_STATUS
#define PR_GET_SHADOW_STACK_STATUS  74
#define PR_SET_SHADOW_STACK_STATUS  75
#define PR_LOCK_SHADOW_STACK_STATUS 76
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif

#define CONSTANT(name, value) \
	_Static_assert((uint32_t)(value) == (uint32_t)(name), TABLE ": wrong value of " #name);
#include "../policy/syscalls.tbl"
#undef CONSTANT
#undef GROUP
#undef SYSCALL
#undef CLAUSE

enum cond_kind {
	COND_NONE,
	COND_ALWAYS,
	COND_BITS, /* (arg & mask) == value */
	COND_ANY,  /* (arg & mask) != 0 */
};

struct cond {
	enum cond_kind kind;
	unsigned arg;
	uint32_t mask;
	uint32_t value;
};

enum row_kind {
	ROW_GROUP,
	ROW_SYSCALL,
	ROW_CLAUSE,
};

enum arch {
	ARCH_X86_64,
	ARCH_AARCH64,
	ARCH_MAX,
};

struct row {
	enum row_kind kind;
	enum verdict verdict;
	int line;
	const char *name; /* of the group, or of the call */
	const char *why;
	int nr[ARCH_MAX];
	struct cond conds[CONDS_MAX + 1]; /* the last is COND_NONE */
};

/* clang-format off */
#define CONSTANT(name, value)
#define GROUP(title, reason) { .kind = ROW_GROUP, .line = __LINE__, .name = (title), .why = (reason) },
#define SYSCALL(n, x86, arm, v) \
	{ .kind = ROW_SYSCALL, .verdict = V_##v, .line = __LINE__, .name = #n, .nr = { (x86), (arm) } },
#define CLAUSE(n, v, ...) \
	{ .kind = ROW_CLAUSE, .verdict = V_##v, .line = __LINE__, .name = #n, .conds = { __VA_ARGS__ } },
#define EQ(n, c)      { COND_BITS, (n), UINT32_MAX, (uint32_t)K_##c }
#define BITS(n, m, c) { COND_BITS, (n), (uint32_t)K_##m, (uint32_t)K_##c }
#define ANY(n, m)     { COND_ANY, (n), (uint32_t)K_##m, 0 }
#define ALWAYS        { COND_ALWAYS, 0, 0, 0 }
/* clang-format on */

static const struct row rows[] = {
#include "../policy/syscalls.tbl"
};

static const size_t rows_len = ARRAY_LEN(rows);

static const struct {
	const char *name;
	const char *macro; /* predefined by the compiler that builds for it */
	uint32_t audit;
	uint32_t foreign; /* the 32-bit entry that the same kernel may offer */
} arches[] = {
	[ARCH_X86_64] = { "x86_64", "__x86_64__", AUDIT_ARCH_X86_64, AUDIT_ARCH_I386 },
	[ARCH_AARCH64] = { "aarch64", "__aarch64__", AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM },
};
_Static_assert(ARRAY_LEN(arches) == ARCH_MAX, "a machine without a name");

__attribute__((noreturn, format(printf, 2, 3))) static void die(int line, const char *fmt, ...)
{
	va_list ap;

	if (line > 0)
		fprintf(stderr, TABLE ":%d: ", line);
	else
		fputs("gen-seccomp: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

/*
 * Check
 */
static void check_conds(const struct row *r)
{
	if (r->conds[0].kind == COND_NONE)
		die(r->line, "clause of '%s' has no condition; say ALWAYS", r->name);
	if (r->conds[CONDS_MAX].kind != COND_NONE)
		die(r->line, "clause of '%s' has more than %d conditions", r->name, CONDS_MAX);
	for (size_t i = 0; i < CONDS_MAX && r->conds[i].kind != COND_NONE; i++) {
		const struct cond *c = &r->conds[i];

		if (c->kind == COND_ALWAYS && (i > 0 || r->conds[1].kind != COND_NONE))
			die(r->line, "ALWAYS of '%s' beside another condition", r->name);
		if (c->arg >= ARGS_MAX)
			die(r->line, "argument %u of '%s' does not exist", c->arg, r->name);
		if (c->kind != COND_ALWAYS && c->mask == 0)
			die(r->line, "an empty mask for '%s'", r->name);
		if (c->value & ~c->mask)
			die(r->line, "a value outside its mask can never match ('%s')", r->name);
	}
}

/* owner: the last SYSCALL row; above: the row directly above this one */
static void check_clause(const struct row *r, const struct row *owner, const struct row *above)
{
	if (!owner || strcmp(owner->name, r->name) != 0)
		die(r->line, "clause of '%s' is not below its call", r->name);
	if (owner->verdict != V_CLAUSES)
		die(r->line, "clause of '%s', whose verdict is not CLAUSES", r->name);
	if (r->verdict == V_CLAUSES)
		die(r->line, "a clause of '%s' must decide", r->name);
	if (above->kind == ROW_CLAUSE && above->conds[0].kind == COND_ALWAYS)
		die(r->line, "clause of '%s' below ALWAYS is never reached", r->name);
	check_conds(r);
}

static void check_unique(const struct row *r)
{
	for (const struct row *o = rows; o < r; o++) {
		if (o->kind != ROW_SYSCALL)
			continue;
		if (strcmp(o->name, r->name) == 0)
			die(r->line, "'%s' is already in line %d", r->name, o->line);
		for (int a = 0; a < ARCH_MAX; a++) {
			if (r->nr[a] >= 0 && r->nr[a] == o->nr[a])
				die(r->line, "number %d of '%s' on %s belongs to '%s' in line %d",
				    r->nr[a], r->name, arches[a].name, o->name, o->line);
		}
	}
}

/* first: the group's first plain verdict so far, or V_MAX */
static void check_syscall(const struct row *r, const struct row *group, const struct row *before,
			  enum verdict *first)
{
	if (!group)
		die(r->line, "'%s' is in no group", r->name);
	if (before && strcmp(before->name, r->name) >= 0)
		die(r->line, "'%s' must stand before '%s'", r->name, before->name);
	if (r->verdict > V_EPERM)
		die(r->line, "'%s' is refused by a verdict that only clauses have", r->name);
	if (r->verdict != V_CLAUSES) {
		if (*first != V_MAX && *first != r->verdict)
			die(r->line, "'%s' has another verdict than its group", r->name);
		*first = r->verdict;
	}
	for (int a = 0; a < ARCH_MAX; a++) {
		if (r->nr[a] < -1 || r->nr[a] >= NR_MAX)
			die(r->line, "number %d of '%s' is out of range", r->nr[a], r->name);
	}
	if (r->nr[ARCH_X86_64] < 0 && r->nr[ARCH_AARCH64] < 0)
		die(r->line, "'%s' has no number", r->name);
	check_unique(r);
}

static void check_table(void)
{
	const struct row *group = NULL, *call = NULL, *in_group = NULL;
	enum verdict first = V_MAX;

	for (size_t i = 0; i < rows_len; i++) {
		const struct row *r = &rows[i];
		const struct row *above = i ? r - 1 : NULL;

		if (r->kind != ROW_CLAUSE && above && above->kind == ROW_SYSCALL &&
		    above->verdict == V_CLAUSES)
			die(above->line, "'%s' has no clauses", above->name);
		switch (r->kind) {
		case ROW_GROUP:
			if (!*r->name || !*r->why)
				die(r->line, "a group needs a name and a reason");
			if (above && above->kind == ROW_GROUP)
				die(above->line, "group '%s' is empty", above->name);
			group = r;
			in_group = NULL;
			first = V_MAX;
			break;
		case ROW_SYSCALL:
			check_syscall(r, group, in_group, &first);
			call = in_group = r;
			break;
		case ROW_CLAUSE:
			check_clause(r, call, above);
			break;
		}
	}
	if (rows_len == 0 || rows[rows_len - 1].kind == ROW_GROUP)
		die(0, "the table ends in an empty group");
	if (rows[rows_len - 1].verdict == V_CLAUSES)
		die(rows[rows_len - 1].line, "'%s' has no clauses", rows[rows_len - 1].name);
}

/*
 * What the rows say, evaluated directly: the oracle of the simulation
 */
static const struct row *find_call(enum arch arch, uint32_t nr)
{
	for (size_t i = 0; i < rows_len; i++) {
		if (rows[i].kind == ROW_SYSCALL && rows[i].nr[arch] >= 0 &&
		    (uint32_t)rows[i].nr[arch] == nr)
			return &rows[i];
	}
	return NULL;
}

/* The clauses of a call are the *n rows after it. */
static const struct row *clauses_of(const struct row *call, size_t *n)
{
	const struct row *c = call + 1;

	for (*n = 0; c + *n < rows + rows_len && c[*n].kind == ROW_CLAUSE;)
		++*n;
	return c;
}

static int cond_holds(const struct cond *c, const uint64_t *args)
{
	uint32_t low = (uint32_t)args[c->arg];

	switch (c->kind) {
	case COND_BITS:
		return (low & c->mask) == c->value;
	case COND_ANY:
		return (low & c->mask) != 0;
	case COND_NONE:
	case COND_ALWAYS:
		break;
	}
	return 1;
}

static uint32_t decide(enum arch arch, const struct seccomp_data *d)
{
	const struct row *call, *clause;
	size_t n;

	if (d->arch != arches[arch].audit)
		return answer(V_NOSYS);
	call = find_call(arch, (uint32_t)d->nr);
	if (!call)
		return answer(V_NOSYS);
	if (call->verdict != V_CLAUSES)
		return answer(call->verdict);
	clause = clauses_of(call, &n);
	for (size_t i = 0; i < n; i++) {
		int all = 1;

		for (size_t c = 0; c < CONDS_MAX; c++)
			all &= cond_holds(&clause[i].conds[c], (const uint64_t *)d->args);
		if (all)
			return answer(clause[i].verdict);
	}
	return answer(V_EPERM);
}

/*
 * Compile. A place is counted from the end of the program: the last instruction is place 1. Later
 * written means further from the end, that is, executed earlier.
 */
struct prog {
	struct sock_filter code[BPF_MAXINSNS]; /* backwards until prog_finish() */
	size_t len;
};

static size_t emit(struct prog *p, unsigned code, size_t jt, size_t jf, uint32_t k)
{
	if (p->len == BPF_MAXINSNS)
		die(0, "the filter is longer than %d instructions", BPF_MAXINSNS);
	if (jt > REACH || jf > REACH)
		die(0, "a conditional jump over %zu instructions", jt > jf ? jt : jf);
	p->code[p->len] = (struct sock_filter){ (uint16_t)code, (uint8_t)jt, (uint8_t)jf, k };
	return ++p->len;
}

/* A return of this value within reach of a jump written soon, an earlier one if possible. */
static size_t emit_ret(struct prog *p, uint32_t value)
{
	for (size_t i = p->len; i > 0 && p->len - i < REACH - 4; i--) {
		if (p->code[i - 1].code == (BPF_RET | BPF_K) && p->code[i - 1].k == value)
			return i;
	}
	return emit(p, BPF_RET | BPF_K, 0, 0, value);
}

/* Execution that is about to fall out of the code written next continues at place. */
static void emit_goto(struct prog *p, size_t place)
{
	if (place != p->len)
		emit(p, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(p->len - place));
}

/* Two places may need a stone each, and the first stone pushes the second place further away. */
static size_t emit_branch(struct prog *p, unsigned op, uint32_t k, size_t yes, size_t no)
{
	if (p->len - yes > REACH - 2)
		yes = emit(p, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(p->len - yes));
	if (p->len - no > REACH - 2)
		no = emit(p, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(p->len - no));
	return emit(p, BPF_JMP | op | BPF_K, p->len - yes, p->len - no, k);
}

static size_t emit_cond(struct prog *p, const struct cond *c, size_t yes, size_t no)
{
	/* The low half of an argument comes first: both machines are little-endian. */
	uint32_t low = (uint32_t)(offsetof(struct seccomp_data, args) + c->arg * sizeof(uint64_t));

	if (c->kind == COND_ALWAYS)
		return yes;
	if (c->kind == COND_ANY) {
		emit_branch(p, BPF_JSET, c->mask, yes, no);
	} else {
		emit_branch(p, BPF_JEQ, c->value, yes, no);
		if (c->mask != UINT32_MAX)
			emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, c->mask);
	}
	return emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, low);
}

static size_t emit_clauses(struct prog *p, const struct row *call)
{
	size_t n;
	const struct row *clause = clauses_of(call, &n);
	size_t next = emit_ret(p, answer(V_EPERM));

	for (size_t i = n; i-- > 0;) {
		size_t no = next;

		next = emit_ret(p, answer(clause[i].verdict));
		for (size_t c = CONDS_MAX; c-- > 0;) {
			if (clause[i].conds[c].kind != COND_NONE)
				next = emit_cond(p, &clause[i].conds[c], next, no);
		}
	}
	return next;
}

/* Numbers from first up to the next range's first have one verdict; call is set for clauses. */
struct range {
	uint32_t first;
	enum verdict verdict;
	const struct row *call;
};

static size_t make_ranges(enum arch arch, struct range *out)
{
	size_t n = 0;

	for (uint32_t nr = 0; nr <= NR_MAX; nr++) {
		const struct row *call = find_call(arch, nr);
		enum verdict v = call ? call->verdict : V_NOSYS;

		if (n == 0 || v == V_CLAUSES || v != out[n - 1].verdict)
			out[n++] = (struct range){ nr, v, call };
	}
	return n;
}

static size_t emit_search(struct prog *p, const struct range *r, size_t n)
{
	size_t low, high;

	if (n == 1 && r->verdict == V_CLAUSES)
		return emit_clauses(p, r->call);
	if (n == 1)
		return emit_ret(p, answer(r->verdict));
	high = emit_search(p, r + n / 2, n - n / 2);
	low = emit_search(p, r, n / 2);
	return emit_branch(p, BPF_JGE, r[n / 2].first, high, low);
}

static void prog_finish(struct prog *p)
{
	for (size_t i = 0; i < p->len / 2; i++) {
		struct sock_filter t = p->code[i];

		p->code[i] = p->code[p->len - 1 - i];
		p->code[p->len - 1 - i] = t;
	}
}

static void compile(struct prog *p, enum arch arch)
{
	static struct range ranges[NR_MAX + 1];
	size_t start, refuse;

	start = emit_search(p, ranges, make_ranges(arch, ranges));
	refuse = emit_ret(p, answer(V_NOSYS));
	/* A number with bit 30 or above is past every row; x32 gets its own test all the same, so
	 * that it does not hang on how the search ends. */
	if (arch == ARCH_X86_64)
		start = emit_branch(p, BPF_JGE, X32_BIT, refuse, start);
	emit_goto(p, start);
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	start = p->len;
	emit_branch(p, BPF_JEQ, arches[arch].audit, start, refuse);
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	prog_finish(p);
}

/*
 * Validate and run
 */
static void validate_insn(const struct prog *p, size_t i)
{
	const struct sock_filter *f = &p->code[i];
	size_t left = p->len - i - 1;

	switch (f->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		if (f->k % 4 || f->k + 4 > sizeof(struct seccomp_data))
			die(0, "instruction %zu loads from %u", i, f->k);
		break;
	case BPF_ALU | BPF_AND | BPF_K:
		break;
	case BPF_JMP | BPF_JA:
		if (f->k >= left)
			die(0, "instruction %zu jumps out", i);
		return;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_K:
		if (f->jt >= left || f->jf >= left)
			die(0, "instruction %zu jumps out", i);
		return;
	case BPF_RET | BPF_K:
		if (f->k != SECCOMP_RET_ALLOW &&
		    !(variant == HEARD && f->k == SECCOMP_RET_USER_NOTIF) &&
		    ((f->k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO ||
		     (f->k & SECCOMP_RET_DATA) == 0))
			die(0, "instruction %zu returns %#x", i, f->k);
		return;
	default:
		die(0, "instruction %zu has the code %#x", i, f->code);
	}
	if (left == 0)
		die(0, "the filter does not end in a return");
}

static uint32_t run(const struct prog *p, const struct seccomp_data *d, size_t *steps)
{
	uint32_t a = 0;

	*steps = 0;
	for (size_t pc = 0;; pc++) {
		const struct sock_filter *f = &p->code[pc];

		++*steps;
		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)d + f->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += (a & f->k) != 0 ? f->jt : f->jf;
			break;
		default:
			return f->k; /* BPF_RET: validate_insn() knows no other */
		}
	}
}

/*
 * Simulate
 */
struct figures {
	size_t cases;
	size_t longest_plain;  /* instructions for a call without clauses */
	size_t longest_clause; /* ... with */
};

static void compare(const struct prog *p, enum arch arch, const struct seccomp_data *d,
		    struct figures *fig)
{
	const struct row *call = find_call(arch, (uint32_t)d->nr);
	size_t steps, *longest;
	uint32_t want = decide(arch, d), got = run(p, d, &steps);

	if (want != got)
		die(call ? call->line : 0,
		    "the filter is wrong: %s, arch %#x, number %#x, arguments %#llx %#llx %#llx "
		    "%#llx: is %#x, must be %#x",
		    arches[arch].name, d->arch, (unsigned)d->nr, d->args[0], d->args[1], d->args[2],
		    d->args[3], got, want);
	longest = call && call->verdict == V_CLAUSES ? &fig->longest_clause : &fig->longest_plain;
	if (steps > *longest)
		*longest = steps;
	fig->cases++;
}

static void simulate_numbers(const struct prog *p, enum arch arch, struct figures *fig)
{
	const uint32_t entries[] = { arches[ARCH_X86_64].audit,
				     arches[ARCH_X86_64].foreign,
				     arches[ARCH_AARCH64].audit,
				     arches[ARCH_AARCH64].foreign,
				     0,
				     UINT32_MAX };
	const uint32_t tops[] = { 0,          0x400,      0x20000000, X32_BIT - NR_MAX, X32_BIT,
				  0x7ffffc00, 0x80000000, 0xc0000000, 0xfffffc00 };

	for (size_t e = 0; e < ARRAY_LEN(entries); e++) {
		for (size_t t = 0; t < ARRAY_LEN(tops); t++) {
			for (uint32_t nr = 0; nr < NR_MAX; nr++) {
				struct seccomp_data d = { .nr = (int)(tops[t] + nr),
							  .arch = entries[e] };

				compare(p, arch, &d, fig);
				memset(d.args, 0xff, sizeof(d.args));
				compare(p, arch, &d, fig);
			}
		}
	}
}

struct samples {
	uint64_t v[SAMPLES_MAX];
	size_t len;
};

/* Each value with and without bits that the kernel does not look at. */
static void sample(struct samples *s, uint32_t value)
{
	const uint64_t both[] = { value, value | 0xdeadbeef00000000 };

	for (size_t b = 0; b < ARRAY_LEN(both); b++) {
		size_t i = 0;

		while (i < s->len && s->v[i] != both[b])
			i++;
		if (i < s->len)
			continue;
		if (s->len == SAMPLES_MAX)
			die(0, "more than %d samples of one argument", SAMPLES_MAX);
		s->v[s->len++] = both[b];
	}
}

static void sample_cond(struct samples *s, const struct cond *c)
{
	sample(s, c->value);
	sample(s, c->value - 1);
	sample(s, c->value + 1);
	sample(s, c->value | ~c->mask);
	sample(s, c->mask);
	if (c->kind == COND_ANY) {
		for (unsigned bit = 0; bit < 32; bit++)
			sample(s, UINT32_C(1) << bit);
		sample(s, ~c->mask);
	}
}

/* All combinations of the samples of the arguments from arg on. */
static void simulate_args(const struct prog *p, enum arch arch, const struct samples *s,
			  unsigned arg, struct seccomp_data *d, struct figures *fig)
{
	if (arg == ARGS_MAX) {
		compare(p, arch, d, fig);
		return;
	}
	for (size_t i = 0; i < s[arg].len; i++) {
		d->args[arg] = s[arg].v[i];
		simulate_args(p, arch, s, arg + 1, d, fig);
	}
}

static void simulate_clauses(const struct prog *p, enum arch arch, const struct row *call,
			     struct figures *fig)
{
	struct samples s[ARGS_MAX] = { 0 };
	struct seccomp_data d = { .nr = call->nr[arch], .arch = arches[arch].audit };
	size_t n;
	const struct row *clause = clauses_of(call, &n);

	for (size_t i = 0; i < n; i++) {
		for (size_t c = 0; c < CONDS_MAX; c++) {
			if (clause[i].conds[c].kind > COND_ALWAYS)
				sample_cond(&s[clause[i].conds[c].arg], &clause[i].conds[c]);
		}
	}
	for (unsigned a = 0; a < ARGS_MAX; a++) {
		if (s[a].len == 0)
			s[a].v[s[a].len++] = UINT64_MAX;
	}
	simulate_args(p, arch, s, 0, &d, fig);
}

static void simulate(const struct prog *p, enum arch arch, struct figures *fig)
{
	simulate_numbers(p, arch, fig);
	for (size_t i = 0; i < rows_len; i++) {
		if (rows[i].kind == ROW_SYSCALL && rows[i].verdict == V_CLAUSES &&
		    rows[i].nr[arch] >= 0)
			simulate_clauses(p, arch, &rows[i], fig);
	}
}

/*
 * Output
 */
static void print_filter(const struct prog *p, const struct figures *fig)
{
	printf("/* %zu instructions; at most %zu run for a call without clauses, %zu with; "
	       "%zu cases simulated */\n",
	       p->len, fig->longest_plain, fig->longest_clause, fig->cases);
	printf("static const struct sock_filter policy_seccomp_%s[] = {\n",
	       variant == HEARD ? "heard" : "plain");
	for (size_t i = 0; i < p->len; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", p->code[i].code, p->code[i].jt,
		       p->code[i].jf, p->code[i].k);
	puts("};");
}

static void make_filter(enum arch arch)
{
	static struct prog p;
	struct figures fig = { 0 };

	p.len = 0;
	compile(&p, arch);
	for (size_t i = 0; i < p.len; i++)
		validate_insn(&p, i);
	simulate(&p, arch, &fig);
	print_filter(&p, &fig);
}

static void print_header(void)
{
	puts("/* Generated by tools/gen-seccomp from " TABLE ". Do not edit. */");
	puts("#ifndef POLICY_SECCOMP_GEN_H\n#define POLICY_SECCOMP_GEN_H\n");
	puts("#include <linux/filter.h>\n");
	puts("#if defined(__ILP32__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__");
	puts("#error \"no seccomp filter for this machine\"\n#endif\n");
	for (int a = 0; a < ARCH_MAX; a++) {
		printf("#%s defined(%s)\n", a == 0 ? "if" : "elif", arches[a].macro);
		for (variant = PLAIN; variant < VARIANT_MAX; variant++)
			make_filter((enum arch)a);
	}
	puts("#else\n#error \"no seccomp filter for this machine\"\n#endif\n\n#endif");
}

static void print_expect(enum arch arch)
{
	for (uint32_t nr = 0; nr < NR_MAX; nr++) {
		const struct row *call = find_call(arch, nr);

		if (call)
			printf("{\"nr\": %u, \"name\": \"%s\", \"verdict\": \"%s\"}\n", nr,
			       call->name, verdicts[call->verdict].name);
	}
}

int main(int argc, char **argv)
{
	check_table();
	if (argc == 1) {
		print_header();
	} else if (argc == 3 && strcmp(argv[1], "--expect") == 0) {
		int a = 0;

		while (a < ARCH_MAX && strcmp(argv[2], arches[a].name) != 0)
			a++;
		if (a == ARCH_MAX)
			die(0, "unknown machine '%s'", argv[2]);
		print_expect((enum arch)a);
	} else {
		die(0, "usage: gen-seccomp [--expect MACHINE]");
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		die(0, "write: %s", strerror(errno));
	return EXIT_SUCCESS;
}
