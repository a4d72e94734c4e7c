/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysprobe: asks the filter of the box that it runs in about system calls, without running them.
 * Static, x86-64, for tests/escape/test_syscalls.py.
 *
 *   sysprobe                     every number from 0 to 600 by each entry, arguments 0
 *   sysprobe - < cases           per line: entry number arg0 arg1 arg2 arg3 arg4
 *
 *   entry                        x86_64 (syscall), x32 (syscall, bit 30), i386 (int 0x80)
 *
 * One JSON line per case on stdout. verdict is
 *   allowed    the filter lets the call through
 *   refused    the filter answered with errno
 *   killed     the filter, or the kernel, ended the caller with signal
 *   no entry   the kernel has no such entry (SIGSEGV of int 0x80)
 *   executed   the kernel ran the call without asking any filter, ret is what it said
 *   stuck      no answer
 *
 * How it can tell. EPERM and ENOSYS come from the kernel as well, and many calls are not to be
 * tried at all. So a second filter is put on top, which answers SECCOMP_RET_USER_NOTIF to calls
 * whose sixth argument is MARK. The kernel takes the sternest verdict of all filters, and errno is
 * sterner than notify: a call that the box's filter refuses returns its errno at once, to the
 * caller. Only a call that it allows reaches the notifier, which is this program, and which lets
 * the call fail with the errno LET_THROUGH, that no kernel returns. No call is ever executed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK        0x5eed5eed
#define LET_THROUGH 3999
#define X32_BIT     0x40000000

enum {
	NR_LAST = 600,
	ARGS = 5,
	ANSWER_MS = 10000,
	ANSWERS_MAX = 8, /* for one case; one is usual */
	ERRNO_LAST = 4095,
	NOT_RETURNED = 0x7fffffff,
};

enum entry {
	ENTRY_X86_64,
	ENTRY_X32,
	ENTRY_I386,
	ENTRY_MAX,
};

static const char *const entry_str[] = { "x86_64", "x32", "i386" };
_Static_assert(sizeof(entry_str) / sizeof(entry_str[0]) == ENTRY_MAX, "an entry without a name");

struct probe {
	enum entry entry;
	unsigned nr;
	uint64_t args[ARGS];
};

struct ctx {
	int notify;
	volatile long *ret; /* shared with the caller */
};

static void die(const char *what)
{
	fprintf(stderr, "sysprobe: %s: %s\n", what, strerror(errno));
	exit(2);
}

static long by_syscall(uint64_t nr, const uint64_t *a)
{
	// cppcheck-suppress constStatement ; it takes the register declaration for an expression
	register uint64_t r10 __asm__("r10") = a[3];
	// cppcheck-suppress constStatement
	register uint64_t r8 __asm__("r8") = a[4];
	register uint64_t r9 __asm__("r9") = MARK;
	long ret;

	/* The mark must not stay behind, or every later call of this process would carry it. */
	__asm__ volatile("syscall\n\t"
			 "xor %%r9d, %%r9d"
			 : "=a"(ret), "+r"(r9)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory", "cc");
	return ret;
}

/* The sixth argument is in ebp, which must be saved, below the red zone. */
static long by_int80(uint64_t nr, const uint64_t *a)
{
	long ret;

	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "push %%rbp\n\t"
			 "mov %[mark], %%ebp\n\t"
			 "int $0x80\n\t"
			 "pop %%rbp\n\t"
			 "lea 128(%%rsp), %%rsp"
			 : "=a"(ret)
			 : "a"(nr), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]),
			   "D"(a[4]), [mark] "i"(MARK)
			 : "r8", "r9", "r10", "r11", "memory", "cc");
	return (int)ret;
}

static long make_call(const struct probe *p)
{
	switch (p->entry) {
	case ENTRY_X86_64:
		return by_syscall(p->nr, p->args);
	case ENTRY_X32:
		return by_syscall(p->nr | X32_BIT, p->args);
	case ENTRY_I386:
		return by_int80(p->nr, p->args);
	case ENTRY_MAX:
		break;
	}
	abort();
}

static int install_notifier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
	long fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die("no_new_privs");
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (fd < 0)
		die("seccomp notifier");
	return (int)fd;
}

/* The caller may be gone by the time of the answer: then there is nobody to answer. */
static void answer(int notify)
{
	struct seccomp_notif req;
	struct seccomp_notif_resp resp;

	memset(&req, 0, sizeof(req));
	if (ioctl(notify, (int)SECCOMP_IOCTL_NOTIF_RECV, &req) != 0)
		return;
	memset(&resp, 0, sizeof(resp));
	resp.id = req.id;
	resp.error = -LET_THROUGH;
	(void)ioctl(notify, (int)SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static pid_t start_caller(const struct ctx *c, const struct probe *p, int *done)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds) != 0)
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		/* Without a notifier the call below would fail and go on. */
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		close(fds[0]);
		*c->ret = make_call(p);
		_exit(0);
	}
	close(fds[1]);
	*done = fds[0];
	return pid;
}

/* Answers until the caller has closed its end of the pipe; 0 when it never does. */
static int serve_caller(const struct ctx *c, int done)
{
	for (int asked = 0; asked <= ANSWERS_MAX;) {
		struct pollfd fds[] = { { .fd = c->notify, .events = POLLIN },
					{ .fd = done, .events = POLLIN } };
		int n = poll(fds, 2, ANSWER_MS);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		if (fds[0].revents & POLLIN) {
			answer(c->notify);
			asked++;
		}
		if (fds[1].revents)
			return 1;
	}
	return 0;
}

static void report(const struct probe *p, const char *verdict, long ret, int sig)
{
	long err = ret < 0 && ret >= -ERRNO_LAST && ret != -LET_THROUGH ? -ret : 0;

	printf("{\"entry\": \"%s\", \"nr\": %u, \"verdict\": \"%s\", \"ret\": %ld, \"errno\": %ld, "
	       "\"signal\": %d}\n",
	       entry_str[p->entry], p->nr, verdict, ret, err, sig);
}

static const char *verdict_of(const struct probe *p, long ret, int sig)
{
	if (sig == SIGSEGV && p->entry == ENTRY_I386)
		return "no entry";
	if (sig != 0)
		return "killed";
	if (ret == -LET_THROUGH)
		return "allowed";
	if (ret < 0 && ret >= -ERRNO_LAST)
		return "refused";
	return "executed";
}

static void run_probe(const struct ctx *c, const struct probe *p)
{
	int done, status = 0, in_time, sig;
	pid_t pid;

	*c->ret = NOT_RETURNED;
	fflush(stdout);
	pid = start_caller(c, p, &done);
	in_time = serve_caller(c, done);
	close(done);
	if (!in_time)
		kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	report(p, in_time ? verdict_of(p, *c->ret, sig) : "stuck", *c->ret, sig);
}

static void sweep(const struct ctx *c)
{
	for (int e = 0; e < ENTRY_MAX; e++) {
		for (unsigned nr = 0; nr <= NR_LAST; nr++)
			run_probe(c, &(struct probe){ .entry = (enum entry)e, .nr = nr });
	}
}

static int parse(char *line, struct probe *p)
{
	char *save = NULL, *word = strtok_r(line, " \n", &save);
	int e = 0;

	while (word && e < ENTRY_MAX && strcmp(word, entry_str[e]) != 0)
		e++;
	if (!word || e == ENTRY_MAX)
		return 0;
	*p = (struct probe){ .entry = (enum entry)e };
	for (int i = -1; i < ARGS; i++) {
		uint64_t value;

		word = strtok_r(NULL, " \n", &save);
		if (!word)
			return 0;
		value = strtoull(word, NULL, 0);
		if (i < 0)
			p->nr = (unsigned)value;
		else
			p->args[i] = value;
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct ctx c;
	char line[256];

	c.ret = mmap(NULL, sizeof(*c.ret), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (c.ret == MAP_FAILED)
		die("mmap");
	c.notify = install_notifier();
	if (argc == 1) {
		sweep(&c);
	} else if (argc == 2 && strcmp(argv[1], "-") == 0) {
		while (fgets(line, sizeof(line), stdin)) {
			struct probe p;

			if (!parse(line, &p)) {
				fprintf(stderr, "sysprobe: not a case: '%s'\n", line);
				return 2;
			}
			run_probe(&c, &p);
		}
	} else {
		fputs("usage: sysprobe [-]\n", stderr);
		return 2;
	}
	return fflush(stdout) == 0 ? 0 : 2;
}
