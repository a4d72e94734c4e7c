// SPDX-License-Identifier: Apache-2.0
/*
 * The gate, the tools process and egress give up everything, before they read a byte of anybody's. Egress keeps the network: it is there
 * to connect.
 *
 * Comes in as root, or as root of the keeper's user namespace. Order matters:
 *   namespaces and the empty root (need privileges) → ids → capabilities → no_new_privs → seccomp.
 * Must not: go on when one of these fails.
 */
#include "base/own.h"
#include "gate/gate.h"
#include "wire/control.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int fail(struct err *e, const char *what)
{
	return err_set(e, ERR_SYS, errno, "confine the gate: %s", what);
}

/* A root directory that has nothing in it, on a file system that nobody can write to. */
static int empty_root(struct err *e)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return fail(e, "make mounts private");
	if (mount("none", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "size=4k,nr_inodes=1,mode=0555") < 0)
		return fail(e, "mount an empty root");
	if (mount("none", "/proc", NULL,
		  MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return fail(e, "make the root read-only");
	if (chdir("/proc") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return fail(e, "change the root");
	return 0;
}

static int become(uint32_t uid, uint32_t gid, struct err *e)
{
	/* Not allowed in a namespace of one id; then there are no groups of ours to lose. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return fail(e, "drop groups");
	if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
		return fail(e, "change ids");
	if (getuid() != uid || geteuid() != uid || getgid() != gid || getegid() != gid) {
		errno = EPERM;
		return fail(e, "change ids");
	}
	return 0;
}

static int drop_capabilities(struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (syscall(SYS_capset, &h, none) < 0)
		return fail(e, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(e, "no_new_privs");
	return 0;
}

static int drop_bounding(struct err *e)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0)
			return fail(e, "empty the bounding set");
	return 0;
}

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

struct confine_row {
	unsigned int nr, arg;
	uint32_t bits;    /* that this argument may not have; 0: any */
	uint32_t only[2]; /* what it may be; 0: anything */
};

enum { CODE_PER_ROW = 7, CODE_MAX = 8 + CODE_PER_ROW * 96 };

struct code {
	struct sock_filter at[CODE_MAX];
	unsigned short n;
};

static void emit(struct code *c, struct sock_filter instruction)
{
	c->at[c->n++] = instruction;
}

static void emit_row(struct code *c, const struct confine_row *r)
{
	const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	const struct sock_filter load = BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, args) + 8 * r->arg);

	if (r->bits == 0 && r->only[0] == 0) {
		emit(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, 1));
		emit(c, allow);
		return;
	}
	emit(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0,
					     r->bits != 0 ? 4 : 5));
	emit(c, load);
	if (r->bits != 0) {
		emit(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, r->bits, 1, 0));
	} else {
		emit(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->only[0], 1, 0));
		emit(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->only[1], 0, 1));
	}
	emit(c, allow);
	emit(c, refuse);
}

/* One comparison per row; the kernel remembers per call what the answer is. */
static int filter(const struct confine_row *rows, size_t n, struct err *e)
{
	static struct code c;
	struct sock_fprog prog = { .filter = c.at };

	c.n = 0;
	emit(&c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					      offsetof(struct seccomp_data, arch)));
	emit(&c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0));
	emit(&c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	emit(&c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					      offsetof(struct seccomp_data, nr)));
	for (size_t i = 0; i < n; i++)
		emit_row(&c, &rows[i]);
	emit(&c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	prog.len = c.n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
		return fail(e, "load the filter");
	return 0;
}

struct confinement {
	int namespaces;
	rlim_t file_bytes; /* to which a file that it is given can be written; none can be opened */
	const struct confine_row *rows;
	size_t n;
};

static int confine(uint32_t uid, uint32_t gid, const struct confinement *c, struct err *e)
{
	const struct rlimit none = { 0 };

	if (unshare(c->namespaces) < 0)
		return fail(e, "make namespaces");
	if (empty_root(e) < 0 || drop_bounding(e) < 0 || become(uid, gid, e) < 0 ||
	    drop_capabilities(e) < 0)
		return -1;
	(void)setrlimit(RLIMIT_CORE, &none);
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return fail(e, "close the process to others");
#if defined(__SANITIZE_ADDRESS__)
	(void)filter; /* the sanitizer's own calls are not in the table */
	return 0;
#else
	(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){ c->file_bytes, c->file_bytes });
	return filter(c->rows, c->n, e);
#endif
}

#define GATE(name)                         { SYS_##name, 0, 0, { 0 } },
#define GATE_WITHOUT(name, arg, bits)      { SYS_##name, arg, bits, { 0 } },
#define EGRESS(name)                       { SYS_##name, 0, 0, { 0 } },
#define EGRESS_ONLY(name, arg, one, other) { SYS_##name, arg, 0, { one, other } },

int confine_gate(uint32_t uid, uint32_t gid, struct err *e)
{
	static const struct confine_row rows[] = {
#include "policy/gate.tbl"
	};
	_Static_assert(ARRAY_LEN(rows) * CODE_PER_ROW + 8 <= CODE_MAX, "no room for the filter");

	return confine(
		uid, gid,
		&(struct confinement){
			.namespaces = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
			.rows = rows,
			.n = ARRAY_LEN(rows),
		},
		e);
}

int confine_egress(uint32_t uid, uint32_t gid, struct err *e)
{
	static const struct confine_row rows[] = {
#include "policy/egress.tbl"
#include "policy/gate.tbl"
	};
	_Static_assert(ARRAY_LEN(rows) * CODE_PER_ROW + 8 <= CODE_MAX, "no room for the filter");

	return confine(uid, gid,
		       &(struct confinement){
			       .namespaces = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS,
			       .file_bytes = BOX_TRUST_BYTES,
			       .rows = rows,
			       .n = ARRAY_LEN(rows),
		       },
		       e);
}
