// SPDX-License-Identifier: Apache-2.0
/*
 * The gate gives up everything, before it reads a byte of a client.
 *
 * Comes in as root, or as root of the keeper's user namespace. Order matters:
 *   namespaces and the empty root (need privileges) → ids → capabilities → no_new_privs → seccomp.
 * Must not: go on when one of these fails.
 */
#include "base/own.h"
#include "gate/gate.h"

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

/* One comparison per row; the kernel remembers per call what the answer is. */
static int filter(struct err *e)
{
	static const struct {
		unsigned int nr, arg;
		uint32_t bits; /* that this argument may not have; 0: any */
	} rows[] = {
#define GATE(name)                    { SYS_##name, 0, 0 },
#define GATE_WITHOUT(name, arg, bits) { SYS_##name, arg, bits },
#include "policy/gate.tbl"
#undef GATE
#undef GATE_WITHOUT
	};
	static struct sock_filter code[8 + 6 * ARRAY_LEN(rows)];
	struct sock_fprog prog = { .filter = code };
	unsigned short n = 0;

#define EMIT(...) code[n++] = (struct sock_filter)__VA_ARGS__
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].bits == 0) {
			EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rows[i].nr, 0, 1));
			EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
			continue;
		}
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rows[i].nr, 0, 4));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			      offsetof(struct seccomp_data, args) + 8 * rows[i].arg));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, rows[i].bits, 1, 0));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	}
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
#undef EMIT
	prog.len = n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
		return fail(e, "load the filter");
	return 0;
}

int confine_gate(uint32_t uid, uint32_t gid, struct err *e)
{
	const struct rlimit none = { 0 };

	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
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
	(void)setrlimit(RLIMIT_FSIZE, &none);
	return filter(e);
#endif
}
