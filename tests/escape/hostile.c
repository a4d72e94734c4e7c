/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile: one hostile act per call, tried for real, inside a box. Static, for tests/escape.
 *
 *   hostile [SCRIPT] ACT [argument ...]
 *
 * A first argument with a slash or a dot in it is passed over: so can a box start this program itself, as
 * the interpreter of a script, and the act is its first instruction.
 *
 * What happened is printed as one JSON object on one line: a name for each thing that was tried, and the
 * number that came back or the name of the errno. Never run it outside a box: it means it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Numbers that older headers lack; the same on every machine. */
enum {
	NR_open_tree = 428,
	NR_move_mount = 429,
	NR_fsopen = 430,
	NR_fsconfig = 431,
	NR_fsmount = 432,
	NR_fspick = 433,
	NR_clone3 = 435,
	NR_pidfd_open = 434,
	NR_pidfd_getfd = 438,
	NR_mount_setattr = 442,
	NR_memfd_secret = 447,
	NR_io_uring_setup = 425,
	NR_io_uring_enter = 426,
	NR_io_uring_register = 427,
};

static bool first = true;

/* --- what is told ---------------------------------------------------------------------------------- */

static const char *errno_str(int e)
{
	static char number[16];
	static const struct {
		int e;
		const char *name;
	} names[] = {
#define E(x) { x, #x }
		E(EPERM),      E(ENOENT),       E(ESRCH),           E(EINTR),      E(EIO),
		E(ENXIO),      E(E2BIG),        E(ENOEXEC),         E(EBADF),      E(ECHILD),
		E(EAGAIN),     E(ENOMEM),       E(EACCES),          E(EFAULT),     E(ENOTBLK),
		E(EBUSY),      E(EEXIST),       E(EXDEV),           E(ENODEV),     E(ENOTDIR),
		E(EISDIR),     E(EINVAL),       E(ENFILE),          E(EMFILE),     E(ENOTTY),
		E(ETXTBSY),    E(EFBIG),        E(ENOSPC),          E(ESPIPE),     E(EROFS),
		E(EMLINK),     E(EPIPE),        E(ERANGE),          E(ENOSYS),     E(ELOOP),
		E(EOPNOTSUPP), E(EAFNOSUPPORT), E(EPROTONOSUPPORT), E(EADDRINUSE), E(ENOTSOCK),
		E(EUSERS),     E(ENOKEY),       E(ENOTEMPTY),       E(ENOTCONN),   E(ECONNREFUSED),
#undef E
	};

	for (size_t i = 0; i < COUNT(names); i++)
		if (names[i].e == e)
			return names[i].name;
	(void)snprintf(number, sizeof(number), "errno %d", e);
	return number;
}

static void key(const char *name)
{
	(void)printf("%s\"%s\": ", first ? "" : ", ", name);
	first = false;
}

/* The result of a call: what it returned, or the name of its errno. */
static void told(const char *name, long r)
{
	int e = errno;

	key(name);
	if (r < 0)
		(void)printf("\"%s\"", errno_str(e));
	else
		(void)printf("%ld", r);
}

static void told_text(const char *name, const char *text)
{
	key(name);
	(void)putchar('"');
	for (; *text != '\0'; text++)
		if (*text == '"' || *text == '\\')
			(void)printf("\\%c", *text);
		else if ((unsigned char)*text >= 0x20)
			(void)putchar(*text);
	(void)putchar('"');
}

static void told_about(const char *what, const char *which, long r)
{
	int e = errno;
	char name[160];

	(void)snprintf(name, sizeof(name), "%s %s", what, which);
	errno = e;
	told(name, r);
}

/* Open a file and write a text into it. */
static long open_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long r = fd < 0 ? -1 : (long)write(fd, text, strlen(text));
	int e = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = e;
	return r;
}

/* --- how it was started ---------------------------------------------------------------------------- */

/* What is open, without opening anything to find out; then what it is. */
static void act_inherited(char **args)
{
	char name[32], path[64], target[256];

	(void)args;
	for (int fd = 0; fd < 65536; fd++) {
		struct stat st;
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0 || fstat(fd, &st) < 0)
			continue;
		(void)snprintf(name, sizeof(name), "fd %d", fd);
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		told_text(name, target);
	}
	told_text("cwd", getcwd(target, sizeof(target)) != NULL ? target : "none");
	told("parent", getppid());
	told("session", getsid(0) == getpid());
	told("pending signals", sigpending(&(sigset_t){ 0 }));
}

/* --- namespaces and mounts --------------------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned long flag;
} namespaces[] = {
	{ "time", 0x80 },      { "mnt", 0x20000 },         { "cgroup", 0x2000000 },
	{ "uts", 0x4000000 },  { "ipc", 0x8000000 },       { "user", 0x10000000 },
	{ "pid", 0x20000000 }, { "net", 0x40000000 },      { "user+mnt", 0x10020000 },
	{ "all", 0x7e020000 }, { "user+net", 0x50000000 },
};

static void act_namespaces(char **args)
{
	char path[64];

	(void)args;
	for (size_t i = 0; i < COUNT(namespaces); i++) {
		unsigned long flag = namespaces[i].flag;
		struct {
			uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack,
				stack_size, tls;
		} c3 = { .flags = flag, .exit_signal = SIGCHLD };
		long r = syscall(SYS_unshare, flag);

		told_about("unshare", namespaces[i].name, r);
		if (flag != 0x80) {
			r = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);
			if (r == 0)
				_exit(0);
			told_about("clone", namespaces[i].name, r);
			/* Bits above the 32 that the kernel looks at must not hide the others. */
			r = syscall(SYS_clone, flag | SIGCHLD | 0xffffffff00000000ul, 0, 0, 0, 0);
			if (r == 0)
				_exit(0);
			told_about("clone, high bits,", namespaces[i].name, r);
		}
		r = syscall(NR_clone3, &c3, sizeof(c3));
		if (r == 0)
			_exit(0);
		told_about("clone3", namespaces[i].name, r);
		if (strchr(namespaces[i].name, '+') != NULL || flag == 0x7e020000)
			continue;
		for (int other = 0; other < 2; other++) {
			int fd;

			(void)snprintf(path, sizeof(path), "/proc/%s/ns/%s", other ? "1" : "self",
				       namespaces[i].name);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0) {
				told_about("open", path, -1);
				continue;
			}
			told_about("setns", path, syscall(SYS_setns, fd, 0));
			(void)close(fd);
		}
	}
}

extern int mount(const char *, const char *, const char *, unsigned long, const void *);
extern int umount2(const char *, int);
enum { MS_REMOUNT_ = 32, MS_BIND_ = 4096, MS_MOVE_ = 8192, MNT_FORCE_ = 1, MNT_DETACH_ = 2 };

static void act_mounts(char **args)
{
	static const char *const types[] = { "tmpfs",   "proc",        "sysfs",   "cgroup",
					     "cgroup2", "overlay",     "debugfs", "bpf",
					     "tracefs", "securityfs",  "devpts",  "devtmpfs",
					     "mqueue",  "binfmt_misc", "ext4",    "fuse",
					     "ramfs" };
	static const char *const covered[] = { "/proc/sys",
					       "/proc/kcore",
					       "/proc/keys",
					       "/proc/irq",
					       "/proc/bus",
					       "/proc/timer_list",
					       "/proc/cmdline",
					       "/usr",
					       "/workspace",
					       "/dev/null",
					       "/dev/pts",
					       "/proc",
					       "/proc/sys/kernel/random/boot_id",
					       "/" };
	uint64_t attr[4] = { 0, 1 /* take MOUNT_ATTR_RDONLY away */, 0, 0 };

	(void)args;
	(void)mkdir("/tmp/at", 0700);
	for (size_t i = 0; i < COUNT(types); i++) {
		told_about("mount", types[i], mount("none", "/tmp/at", types[i], 0, NULL));
		told_about("fsopen", types[i], syscall(NR_fsopen, types[i], 0));
	}
	for (size_t i = 0; i < COUNT(covered); i++) {
		told_about("umount", covered[i], umount2(covered[i], 0));
		told_about("umount detach", covered[i], umount2(covered[i], MNT_DETACH_));
		told_about("remount rw", covered[i],
			   mount(NULL, covered[i], NULL, MS_REMOUNT_ | MS_BIND_, NULL));
		told_about("bind", covered[i], mount(covered[i], "/tmp/at", NULL, MS_BIND_, NULL));
		told_about("move", covered[i], mount(covered[i], "/tmp/at", NULL, MS_MOVE_, NULL));
		told_about("cover", covered[i], mount("/tmp/at", covered[i], NULL, MS_BIND_, NULL));
		told_about("open_tree", covered[i], syscall(NR_open_tree, AT_FDCWD, covered[i], 1));
		told_about("mount_setattr", covered[i],
			   syscall(NR_mount_setattr, AT_FDCWD, covered[i], 0, attr, sizeof(attr)));
		told_about("fspick", covered[i], syscall(NR_fspick, AT_FDCWD, covered[i], 0));
	}
	told("move_mount", syscall(NR_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/usr", 0));
	told("fsconfig", syscall(NR_fsconfig, 0, 6, NULL, NULL, 0));
	told("fsmount", syscall(NR_fsmount, 0, 0, 0));
	told("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp/at"));
	told("chroot", chroot("/tmp"));
}

/* --- the kernel's large interfaces -------------------------------------------------------------------- */

static void act_rings(char **args)
{
	static char params[256];

	(void)args;
	told("io_uring_setup", syscall(NR_io_uring_setup, 8, params));
	told("io_uring_enter", syscall(NR_io_uring_enter, 0, 1, 1, 1, NULL, 0));
	told("io_uring_register", syscall(NR_io_uring_register, -1, 0, NULL, 0));
}

static void act_kernel(char **args)
{
	static char zero[256];
	static uint32_t attr[32] = { 1 /* PERF_TYPE_SOFTWARE */, 128 };
	struct {
		unsigned int bytes;
		int type;
		unsigned char handle[128];
	} handle = { .bytes = 128 };
	int id = 0;
	struct sched_param rt = { .sched_priority = 50 };

	(void)args;
	told("bpf", syscall(SYS_bpf, 0, zero, sizeof(zero)));
	told("perf_event_open", syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
	told("userfaultfd", syscall(SYS_userfaultfd, 1 /* user mode only */));
	told("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
	told("init_module", syscall(SYS_init_module, zero, sizeof(zero), ""));
	told("finit_module", syscall(SYS_finit_module, 0, "", 0));
	told("delete_module", syscall(SYS_delete_module, "x", O_NONBLOCK));
	told("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -5 /* user session keyring */));
	told("keyctl", syscall(SYS_keyctl, 0, -3, 1, 0, 0));
	told("request_key", syscall(SYS_request_key, "user", "x", NULL, -5));
	told("name_to_handle_at",
	     syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &handle, &id, 0));
	handle.bytes = 8;
	handle.type = 1;
	handle.handle[0] = 2; /* inode 2: the root of most file systems */
	told("open_by_handle_at",
	     syscall(SYS_open_by_handle_at, open("/usr", O_RDONLY), &handle, 0));
	told("quotactl", syscall(SYS_quotactl, 0x80000100u, NULL, 0, NULL));
	told("swapon", syscall(SYS_swapon, "/workspace/x", 0));
	told("swapoff", syscall(SYS_swapoff, "/dev/vda"));
	told("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
	told("syslog", syscall(SYS_syslog, 3, zero, sizeof(zero)));
	told("acct", syscall(SYS_acct, NULL));
#ifdef SYS_iopl
	told("iopl", syscall(SYS_iopl, 3));
	told("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
	told("modify_ldt", syscall(SYS_modify_ldt, 0, zero, sizeof(zero)));
#endif
	told("personality", syscall(SYS_personality, 0x0040000ul));
	told("vmsplice", syscall(SYS_vmsplice, 1, NULL, 0, 0));
	told("fanotify_init", syscall(SYS_fanotify_init, 0x200, 0));
	told("memfd_secret", syscall(NR_memfd_secret, 0));
	told("set_mempolicy", syscall(SYS_set_mempolicy, 0, NULL, 0));
	told("move_pages", syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0));
	told("sethostname", syscall(SYS_sethostname, "owned", 5));
	told("settimeofday", syscall(SYS_settimeofday, NULL, (int[2]){ 0, 0 }));
	told("sync", syscall(SYS_sync));
	told("sched_setscheduler fifo", syscall(SYS_sched_setscheduler, 0, 1, &rt));
	told("sched_setscheduler rr", syscall(SYS_sched_setscheduler, 0, 2, &rt));
	told("nice -20", setpriority(PRIO_PROCESS, 0, -20));
	told("mknod block", mknod("/tmp/disk", S_IFBLK | 0666, 254 << 8));
	told("mknod char", mknod("/tmp/mem", S_IFCHR | 0666, 1 << 8 | 1));
}

static void act_sockets(char **args)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} rows[] = {
		{ "AF_PACKET", 17, SOCK_RAW, 0x300 },  { "AF_ALG", 38, SOCK_SEQPACKET, 0 },
		{ "AF_VSOCK", 40, SOCK_STREAM, 0 },    { "AF_XDP", 44, SOCK_RAW, 0 },
		{ "AF_TIPC", 30, SOCK_SEQPACKET, 0 },  { "AF_CAN", 29, SOCK_RAW, 1 },
		{ "AF_KEY", 15, SOCK_RAW, 2 },         { "AF_BLUETOOTH", 31, SOCK_RAW, 1 },
		{ "nf_tables", 16, SOCK_RAW, 12 },     { "netlink audit", 16, SOCK_RAW, 9 },
		{ "xfrm", 16, SOCK_RAW, 6 },           { "raw v4", AF_INET, SOCK_RAW, 1 },
		{ "raw v6", AF_INET6, SOCK_RAW, 58 },  { "ping", AF_INET, SOCK_DGRAM, 1 },
		{ "sctp", AF_INET, SOCK_STREAM, 132 },
	};

	(void)args;
	for (size_t i = 0; i < COUNT(rows); i++)
		told(rows[i].name, socket(rows[i].family, rows[i].type, rows[i].protocol));
}

/* --- other processes ------------------------------------------------------------------------------------ */

/* Reach into a process in every way that there is. */
static void reach_into(pid_t pid)
{
	static char here[16];
	struct iovec mine = { here, sizeof(here) }, theirs = { (void *)(uintptr_t)&errno_str, 16 };
	int pidfd = (int)syscall(NR_pidfd_open, pid, 0);

	told("ptrace attach", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	told("ptrace seize", ptrace(PTRACE_SEIZE, pid, NULL, NULL));
	told("process_vm_readv", syscall(SYS_process_vm_readv, pid, &mine, 1, &theirs, 1, 0));
	told("process_vm_writev", syscall(SYS_process_vm_writev, pid, &mine, 1, &theirs, 1, 0));
	told("kcmp", syscall(SYS_kcmp, getpid(), pid, 2, 0, 0));
	for (int fd = 0; fd < 6; fd++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "pidfd_getfd %d", fd);
		told(name, syscall(NR_pidfd_getfd, pidfd, fd, 0));
	}
	if (pidfd >= 0)
		(void)close(pidfd);
}

static void act_trace(char **args)
{
	pid_t pid = fork();

	(void)args;
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	reach_into(pid);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	told("ptrace traceme", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

/* Process 1: read it, steer it, slow it down, take its means away. */
static void act_init(char **args)
{
	static const char *const files[] = { "environ", "root",    "fd",        "fd/3",
					     "mem",     "maps",    "cwd",       "exe",
					     "auxv",    "syscall", "stack",     "pagemap",
					     "fdinfo",  "ns/user", "map_files", "clear_refs",
					     "io" };
	static const struct {
		const char *name;
		int which;
	} limits[] = { { "nofile", RLIMIT_NOFILE },
		       { "as", RLIMIT_AS },
		       { "nproc", RLIMIT_NPROC },
		       { "data", RLIMIT_DATA },
		       { "core", RLIMIT_CORE } };
	struct sched_param p = { 0 };
	unsigned long one = 1;
	uint64_t deadline[6] = { 48 | 5ull << 32 }; /* sched_attr: SCHED_IDLE */
	char path[64];

	(void)args;
	reach_into(1);
	for (size_t i = 0; i < COUNT(files); i++) {
		(void)snprintf(path, sizeof(path), "/proc/1/%s", files[i]);
		told_about("open", files[i], open(path, O_RDONLY | O_CLOEXEC));
	}
	told("readlink exe", readlink("/proc/1/exe", path, sizeof(path)));
	told("write exe", open("/proc/1/exe", O_WRONLY));
	told("write mem", open("/proc/1/mem", O_WRONLY));
	told("write oom_score_adj", open("/proc/1/oom_score_adj", O_WRONLY));
	told("write comm", open("/proc/1/comm", O_WRONLY));
	told("execve exe", execl("/proc/1/exe", "init", (char *)NULL));
	for (size_t i = 0; i < COUNT(limits); i++) {
		struct rlimit old;
		long r = syscall(SYS_prlimit64, 1, limits[i].which, NULL, &old);

		told_about("read limit", limits[i].name, r);
		if (r ==
		    0) /* the same again: shows whether it could, and leaves it able to tell us */
			told_about("set limit", limits[i].name,
				   syscall(SYS_prlimit64, 1, limits[i].which, &old, NULL));
	}
	told("setpriority process", setpriority(PRIO_PROCESS, 1, 19));
	told("setpriority group", setpriority(PRIO_PGRP, 1, 19));
	told("setpriority user", setpriority(PRIO_USER, getuid(), 19));
	told("sched_setscheduler", syscall(SYS_sched_setscheduler, 1, 5 /* SCHED_IDLE */, &p));
	told("sched_setparam", syscall(SYS_sched_setparam, 1, &p));
	told("sched_setattr", syscall(SYS_sched_setattr, 1, deadline, 0));
	told("sched_setaffinity", syscall(SYS_sched_setaffinity, 1, sizeof(one), &one));
	told("ioprio_set process", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
	told("ioprio_set group", syscall(SYS_ioprio_set, 2, 1, 3 << 13));
	told("ioprio_set user", syscall(SYS_ioprio_set, 3, getuid(), 3 << 13));
	told("migrate_pages", syscall(SYS_migrate_pages, 1, 1, &one, &one));
	told("setpgid", setpgid(1, getpid()));
}

/* Every signal to process 1 in every way, many times. */
static void act_signals(char **args)
{
	long rounds = args[0] != NULL ? strtol(args[0], NULL, 10) : 1;
	long sent = 0, refused = 0;
	int pidfd = (int)syscall(NR_pidfd_open, 1, 0);

	for (long n = 0; n < rounds; n++)
		for (int s = 1; s <= 64; s++) {
			union sigval v = { .sival_int = 7 };

			sent += kill(1, s) == 0;
			sent += sigqueue(1, s, v) == 0;
			sent += syscall(SYS_tgkill, 1, 1, s) == 0;
			refused += pidfd >= 0 &&
				   syscall(424 /* pidfd_send_signal */, pidfd, s, NULL, 0) < 0;
		}
	told("sent", sent);
	told("refused", refused);
	told("init is there", kill(1, 0));
}

/* A process of the host, by its number. */
static void act_kill(char **args)
{
	for (; *args != NULL; args++) {
		pid_t pid = (pid_t)strtol(*args, NULL, 10);

		told_about("kill", *args, kill(pid, SIGKILL));
		told_about("pidfd_open", *args, syscall(NR_pidfd_open, pid, 0));
		told_about("ptrace", *args, ptrace(PTRACE_SEIZE, pid, NULL, NULL));
		told_about("getpriority", *args, syscall(SYS_getpriority, PRIO_PROCESS, pid));
		told_about("getsid", *args, getsid(pid));
	}
}

/* --- privileges -------------------------------------------------------------------------------------------- */

static void act_privileges(char **args)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } },
				      all[2] = { { ~0u, ~0u, ~0u }, { ~0u, ~0u, ~0u } };
	unsigned int bounding = 0;
	uid_t r, e, s;

	(void)args;
	(void)syscall(SYS_capget, &h, d);
	told("effective", (long)(d[0].effective | d[1].effective));
	told("permitted", (long)(d[0].permitted | d[1].permitted));
	told("inheritable", (long)(d[0].inheritable | d[1].inheritable));
	for (unsigned long c = 0; c < 64; c++)
		bounding += prctl(PR_CAPBSET_READ, c) == 1;
	told("bounding", bounding);
	told("securebits", prctl(PR_GET_SECUREBITS));
	told("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	told("seccomp", prctl(PR_GET_SECCOMP));
	(void)getresuid(&r, &e, &s);
	told("real", r);
	told("effective uid", e);
	told("saved", s);
	told("groups", getgroups(0, NULL));

	told("capset", syscall(SYS_capset, &h, all));
	told("ambient raise",
	     prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21 /* SYS_ADMIN */, 0, 0));
	told("securebits none", prctl(PR_SET_SECUREBITS, 0));
	told("no_new_privs off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	told("setgroups", syscall(SYS_setgroups, 1, (gid_t[]){ 0 }));
	told("setuid 1", syscall(SYS_setuid, 1));
	told("setresuid other", syscall(SYS_setresuid, 65533, 65533, 65533));
	if (e != 0) {
		told("setuid 0", syscall(SYS_setuid, 0));
		told("setresuid 0", syscall(SYS_setresuid, -1, 0, -1));
		told("setresgid 0", syscall(SYS_setresgid, -1, 0, -1));
		told("setfsuid 0", syscall(SYS_setfsuid, 0) == 0);
	} else {
		told("setresuid user", syscall(SYS_setresuid, -1, 65532, -1));
	}
	told("uid_map", open_write("/proc/self/uid_map", "0 0 1"));
	told("seccomp strict then off", syscall(SYS_seccomp, 1, 0, NULL));
}

/* This program again, out of memory that no path names. */
static void act_memfd(char **args)
{
	char *argv[8] = { (char *)(uintptr_t)"hostile" };
	char *envp[] = { NULL };
	char buf[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = (int)syscall(SYS_memfd_create, "x", 0);
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)n) != n)
			break;
	(void)fchmod(to, 06777);
	for (int i = 0; i < 6 && args[i] != NULL; i++)
		argv[i + 1] = args[i];
	(void)syscall(SYS_execveat, to, "", argv, envp, AT_EMPTY_PATH);
	told("execveat", -1);
}

/* --- files of the runtime -------------------------------------------------------------------------------------- */

/* Overwrite what is running: ourselves, a child, what the box was started with. */
static void act_overwrite(char **args)
{
	char path[64];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	told("own exe", open("/proc/self/exe", O_WRONLY | O_CLOEXEC));
	told("own exe, truncated", open("/proc/self/exe", O_WRONLY | O_TRUNC | O_CLOEXEC));
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	told("own exe by descriptor", open(path, O_WRONLY | O_CLOEXEC));
	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	told("child's exe", open(path, O_WRONLY | O_CLOEXEC));
	told("init's exe", open("/proc/1/exe", O_WRONLY | O_CLOEXEC));
	told("init's exe, to read", open("/proc/1/exe", O_RDONLY | O_CLOEXEC));
	told("init's exe as a path", open("/proc/1/exe", O_PATH | O_CLOEXEC));
	for (; *args != NULL; args++) {
		told_about("write", *args, open(*args, O_WRONLY | O_CLOEXEC));
		told_about("truncate", *args, truncate(*args, 0));
		told_about("unlink", *args, unlink(*args));
		told_about("rename", *args, rename("/proc/self/exe", *args));
		told_about("chmod", *args, chmod(*args, 0777));
		told_about("chown", *args, chown(*args, getuid(), getgid()));
		told_about("link", *args, link(*args, "/workspace/l"));
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* Bytes into every file named, as a program would that knows what it wants. */
static void act_write(char **args)
{
	for (; args[0] != NULL && args[1] != NULL; args += 2)
		told(args[0], open_write(args[0], args[1]));
}

/* Frames of the box's own protocol, at every descriptor that there is or could be. */
static void act_forge(char **args)
{
	/* length 0, a type, no flags, job 1, number 0 */
	uint8_t frame[24] = { 0, 0, 0, 0, 1, 0, 0, 0, 1 };
	long written = 0, elsewhere = 0;

	(void)args;
	for (int fd = 3; fd < 65536; fd++)
		for (uint8_t type = 1; type < 32; type++) {
			frame[4] = type;
			written += write(fd, frame, sizeof(frame)) > 0;
			written += send(fd, frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
			if (errno == EBADF)
				break;
		}
	for (int fd = 0; fd < 32; fd++) {
		char path[64];
		int there;

		(void)snprintf(path, sizeof(path), "/proc/1/fd/%d", fd);
		there = open(path, O_RDWR | O_CLOEXEC);
		elsewhere += there >= 0;
	}
	told("written", written);
	told("descriptors of init opened", elsewhere);
	(void)fflush(stdout);
	for (uint8_t type = 1; type < 32; type++) { /* and as output, which is what it then is */
		frame[4] = type;
		(void)!write(2, frame, sizeof(frame));
	}
}

/* --- terminals ------------------------------------------------------------------------------------------------------ */

static void act_terminal(char **args)
{
	static const struct {
		const char *name;
		unsigned long request;
	} rows[] = { { "TIOCSTI", 0x5412 },
		     { "TIOCLINUX", 0x541c },
		     { "TIOCCONS", 0x541d },
		     { "TIOCSETD", 0x5423 } };
	static const struct {
		const char *name;
		unsigned long bits;
	} forms[] = { { "", 0 }, { " bit 32", 1ul << 32 }, { " high bits", 0xfffffffful << 32 } };
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	char c[8] = "\003x\n";

	(void)args;
	told("/dev/tty", tty < 0 ? -1 : 0);
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t f = 0; f < COUNT(forms); f++) {
			char name[64];

			(void)snprintf(name, sizeof(name), "%s%s", rows[i].name, forms[f].name);
			told(name, syscall(SYS_ioctl, tty >= 0 ? tty : 0,
					   rows[i].request | forms[f].bits, c));
		}
}

/* --- staying --------------------------------------------------------------------------------------------------------- */

/* A daemon by the book, deaf to what can be ignored, with a name to be found by; says when it is there. */
static void act_daemon(char **args)
{
	int said[2];
	char c;

	if (pipe(said) < 0 || args[0] == NULL)
		return;
	if (fork() == 0) {
		(void)setsid();
		(void)prctl(PR_SET_PDEATHSIG, 0);
		if (fork() != 0)
			_exit(0);
		for (int s = 1; s < 65; s++)
			(void)signal(s, SIG_IGN);
		(void)prctl(PR_SET_NAME, args[0]);
		for (int fd = 0; fd < 1024; fd++)
			if (fd != said[1])
				(void)close(fd);
		(void)chdir("/");
		(void)!write(said[1], "x", 1);
		(void)close(said[1]);
		for (;;)
			(void)pause();
	}
	(void)close(said[1]);
	told("daemon", read(said[0], &c, 1));
}

/* How a program may end. */
static void act_die(char **args)
{
	const char *how = args[0] != NULL ? args[0] : "";

	if (strcmp(how, "exit") == 0)
		_exit(7);
	if (strcmp(how, "close") == 0) {
		(void)close(0);
		(void)close(1);
		(void)close(2);
		_exit(9);
	}
	if (strcmp(how, "segv") == 0)
		(void)raise(SIGSEGV);
	if (strcmp(how, "kill") == 0)
		(void)raise(SIGKILL);
	if (strcmp(how, "all") == 0)
		(void)kill(-1, SIGKILL);
	if (strcmp(how, "ill") == 0)
		__builtin_trap();
	told("still here", 1);
}

static const struct {
	const char *name;
	void (*run)(char **args);
} acts[] = {
	{ "inherited", act_inherited },   { "namespaces", act_namespaces },
	{ "mounts", act_mounts },         { "rings", act_rings },
	{ "kernel", act_kernel },         { "sockets", act_sockets },
	{ "trace", act_trace },           { "init", act_init },
	{ "signals", act_signals },       { "kill", act_kill },
	{ "privileges", act_privileges }, { "memfd", act_memfd },
	{ "overwrite", act_overwrite },   { "write", act_write },
	{ "forge", act_forge },           { "terminal", act_terminal },
	{ "daemon", act_daemon },         { "die", act_die },
};

int main(int argc, char **argv)
{
	char **args = argv + 1;

	if (argc > 1 && strpbrk(argv[1], "/.") != NULL)
		args++;
	for (size_t i = 0; *args != NULL && i < COUNT(acts); i++) {
		if (strcmp(*args, acts[i].name) != 0)
			continue;
		(void)putchar('{');
		acts[i].run(args + 1);
		(void)puts("}");
		return 0;
	}
	(void)fprintf(stderr, "hostile: no such act\n");
	return 2;
}
