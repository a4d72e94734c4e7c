// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox demo`: ten famous attacks, each for real in a fresh box, and what became of it.
 *
 * An attack is a short Python program that tries and prints what it saw. It says "through" only
 * when it got what it wanted; anything else is what refused it. Nothing here is simulated: an attack
 * that gets through is reported as such and makes the verb fail.
 */
#include "base/own.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const struct attack {
	const char *name;
	const char *what; /* what it did elsewhere */
	const char *code; /* prints "through" or the refusal */
} attacks[] = {
	{ "overwrite the runtime",
	  "CVE-2019-5736: a container replaced runc through /proc/self/exe",
	  "import os\n"
	  "try:\n"
	  "  f = os.open('/proc/1/exe', os.O_WRONLY); print('through')\n"
	  "except OSError as e: print('open /proc/1/exe:', e.strerror)\n" },
	{ "a leaked directory of the host",
	  "CVE-2024-21626: a descriptor of the host's file system was left open",
	  "import os\n"
	  "fds = [f for f in os.listdir('/proc/self/fd') if int(f) > 2]\n"
	  "left = [os.readlink('/proc/self/fd/' + f) for f in fds if "
	  "os.path.exists('/proc/self/fd/' + f)]\n"
	  "print('through', left) if left else print('no descriptor beyond 0, 1, 2 is open')\n" },
	{ "a helper of the kernel",
	  "CVE-2022-0811: core_pattern names a program that the host's root runs",
	  "try:\n"
	  "  open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x'); print('through')\n"
	  "except OSError as e: print('write core_pattern:', e.strerror)\n" },
	{ "release_agent",
	  "CVE-2022-0492: a cgroup of its own, mounted in a user namespace of its own",
	  "import ctypes, os\n"
	  "l = ctypes.CDLL(None, use_errno=True)\n"
	  "r = l.unshare(0x10000000 | 0x00020000)\n"
	  "print('through') if r == 0 else print('unshare:', os.strerror(ctypes.get_errno()))\n" },
	{ "the socket of the runtime",
	  "CVE-2020-15257: the host's abstract sockets could be reached",
	  "import os, socket\n"
	  "seen = [p for p in ('/var/run/docker.sock', '/run/containerd/containerd.sock', "
	  "'/run/dbus') if os.path.exists(p)]\n"
	  "seen += [l.split()[-1] for l in open('/proc/net/unix').readlines()[1:] if '@' in l]\n"
	  "print('through', seen) if seen else print('no socket of the host is to be seen')\n" },
	{ "io_uring",
	  "a second way into the kernel past the filter; source of many exploits since 2021",
	  "import ctypes, os\n"
	  "l = ctypes.CDLL(None, use_errno=True)\n"
	  "r = l.syscall(425, 8, 0)\n"
	  "print('through') if r >= 0 else print('io_uring_setup:', "
	  "os.strerror(ctypes.get_errno()))\n" },
	{ "keys to the operator's terminal",
	  "CVE-2017-5226: TIOCSTI types into the terminal outside",
	  "import fcntl, os\n"
	  "m, s = os.openpty()\n"
	  "try:\n"
	  "  fcntl.ioctl(s, 0x5412, b'x'); print('through')\n"
	  "except OSError as e: print('TIOCSTI:', e.strerror)\n" },
	{ "a fork bomb", "takes every process number of the machine",
	  "import os, signal\n"
	  "n = 0\n"
	  "try:\n"
	  "  while n < 5000:\n"
	  "    if os.fork() == 0: signal.pause()\n"
	  "    n += 1\n"
	  "  print('through', n)\n"
	  "except OSError as e: print('after', n, 'processes:', e.strerror)\n" },
	{ "stolen credentials", "the metadata service of a cloud hands out the machine's role",
	  "import socket\n"
	  "s = socket.socket(); s.settimeout(5)\n"
	  "try:\n"
	  "  s.connect(('169.254.169.254', 80)); print('through')\n"
	  "except OSError as e: print('connect 169.254.169.254:', e.strerror or e)\n" },
	{ "reading the host",
	  "path traversal: the secrets of the machine by their well-known names",
	  "import os\n"
	  "want = ['/etc/shadow', '/root/.ssh', '/home', '/proc/1/environ', '/proc/1/root/etc', "
	  "'/proc/kcore', '/boot']\n"
	  "got = []\n"
	  "for p in want:\n"
	  "  try:\n"
	  "    x = os.listdir(p) if os.path.isdir(p) else open(p, 'rb').read(1)\n"
	  "    if x and x != ['box']: got.append(p)\n"
	  "  except OSError: pass\n"
	  "print('through', got) if got else print('none of', len(want), 'places is there or "
	  "readable')\n" },
};

/* Run one attack with our own `run`; its first line of output. */
static int run_attack(const struct attack *a, char *line, size_t size, struct err *e)
{
	int p[2], status;
	size_t n = 0;
	pid_t pid;

	if (pipe(p) < 0)
		return err_set(e, ERR_SYS, errno, "make a pipe");
	pid = fork();
	if (pid == 0) {
		(void)dup2(p[1], STDOUT_FILENO);
		(void)close(p[0]);
		(void)close(p[1]);
		(void)execl("/proc/self/exe", "glovebox", "run", "--timeout", "30", "--code",
			    a->code, (char *)NULL);
		_exit(EXIT_GLOVEBOX);
	}
	(void)close(p[1]);
	while (pid > 0 && n < size - 1) {
		ssize_t r = read(p[0], line + n, size - 1 - n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	(void)close(p[0]);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return err_set(e, ERR_SYS, errno, "run a box");
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_GLOVEBOX)
		return err_set(e, ERR_SYS, 0, "no box could be made: see 'glovebox doctor'");
	return 0;
}

int verb_demo(int argc, char **argv)
{
	unsigned int through = 0;
	struct err e;

	if (argc > 1) {
		bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;

		(void)fprintf(help ? stdout : stderr,
			      "usage: glovebox demo\n\nRuns ten famous attacks, each in a fresh "
			      "box, and prints what refused it.\n"
			      "exit status: 0 all refused, 1 one got through, 125 no box could be "
			      "made\n");
		return help ? 0 : EXIT_GLOVEBOX;
	}
	for (unsigned int i = 0; i < ARRAY_LEN(attacks); i++) {
		char line[512] = "";
		bool ok;

		if (run_attack(&attacks[i], line, sizeof(line), &e) < 0)
			return say_err(&e);
		ok = strncmp(line, "through", 7) != 0 && line[0] != '\0';
		through += !ok;
		(void)printf("%2u. %s\n    %s\n    %s: %s\n", i + 1, attacks[i].name,
			     attacks[i].what, ok ? "refused" : "GOT THROUGH", line);
		(void)fflush(stdout);
	}
	(void)printf("\n%u of %zu attacks refused\n", (unsigned int)ARRAY_LEN(attacks) - through,
		     ARRAY_LEN(attacks));
	return through == 0 ? 0 : 1;
}
