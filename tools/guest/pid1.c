// SPDX-License-Identifier: Apache-2.0
// PID 1 of the guest, after `init` has made the root file system; a service where systemd is PID 1. Runs one command,
// carries its stdout and stderr to the host over two virtio-serial ports, leaves its exit status in the job folder (a
// 9p share), and powers off.
//
// Order at the end, which is what makes the transport reliable:
//   1. the command has exited: every other process is killed, so that both pipes reach their end;
//   2. the pipes are drained into the ports;
//   3. each port is polled for POLLOUT: the driver keeps one buffer in flight and is writable again when the host
//      has taken it, so this is the flush that the port otherwise lacks;
//   4. the status is written through 9p, which answers only when the host has the bytes; then power off.
// No status file means that the guest did not get this far; the host says so instead of inventing a status.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOB      "/run/guest/job"
#define PORT_MS  10000
#define DRAIN_MS 5000 // a process that cannot be killed (state D) must not keep the guest alive

struct stream {
	const char *port_name;
	int pipe; // read end, -1 after its end
	int port;
};

// To the console, which the host keeps in console.log; never to the command's output.
__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("guest: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

__attribute__((noreturn)) static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

__attribute__((noreturn)) static void die(const char *what)
{
	note("%s: %s", what, strerror(errno));
	power_off();
}

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// A file of NUL-terminated strings becomes an argv-like array. Nothing here is ever freed: the machine ends first.
static char **read_strings(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	struct stat about;
	if (fstat(fd, &about))
		die(path);
	size_t size = (size_t)about.st_size;
	char *text = malloc(size + 1);
	if (!text)
		die("malloc");
	for (size_t at = 0; at < size;) {
		ssize_t n = read(fd, text + at, size - at);
		if (n <= 0)
			die(path);
		at += (size_t)n;
	}
	close(fd);
	text[size] = '\0';

	size_t count = 0;
	for (size_t i = 0; i < size; i++)
		count += text[i] == '\0';
	char **strings = calloc(count + 1, sizeof(*strings));
	if (!strings)
		die("calloc");
	char *at = text;
	for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
		strings[i] = at;
	return strings;
}

static pid_t start(char **argv, char **env, const char *cwd, const int out[2], const int err[2])
{
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid)
		return pid;

	setsid();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0)
		_exit(126);
	close_range(3, ~0U, 0);
	if (chdir(cwd)) {
		dprintf(2, "guest: chdir '%s': %s\n", cwd, strerror(errno));
		_exit(126);
	}
	execvpe(argv[0], argv, env);
	int code = errno == ENOENT ? 127 : 126;
	dprintf(2, "guest: exec '%s': %s\n", argv[0], strerror(errno));
	_exit(code);
}

static void write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die("write to the host");
		bytes += n;
		size -= (size_t)n;
	}
}

// Moves what is there. Returns false when neither pipe is open any more.
static bool pump(struct stream streams[2], int timeout_ms)
{
	static char buffer[32768];
	struct pollfd fds[2];
	bool open_left = false;
	for (int i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){ .fd = streams[i].pipe, .events = POLLIN };
		open_left |= streams[i].pipe >= 0;
	}
	if (!open_left || poll(fds, 2, timeout_ms) <= 0)
		return open_left;
	for (int i = 0; i < 2; i++) {
		if (fds[i].fd < 0 || !fds[i].revents)
			continue;
		ssize_t n = read(fds[i].fd, buffer, sizeof(buffer));
		if (n > 0) {
			write_all(streams[i].port, buffer, (size_t)n);
		} else if (n == 0 || errno != EINTR) {
			close(fds[i].fd);
			streams[i].pipe = -1;
		}
	}
	return true;
}

// Reaps whatever has ended; true once `command` is among it.
static bool reap(pid_t command, int *ret_status)
{
	bool ended = false;
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == command) {
			*ret_status =
				WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
			ended = true;
		}
	}
	return ended;
}

// Names, on the console, the processes that outlived the command: a leak worth knowing about.
static void note_survivors(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	while (proc && (entry = readdir(proc))) {
		char path[300];
		char line[4096] = "";
		long pid = strtol(entry->d_name, NULL, 10);
		if (pid <= 1)
			continue;
		snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
		if (fd >= 0)
			close(fd);
		for (ssize_t i = 0; i + 1 < n; i++)
			if (!line[i])
				line[i] = ' ';
		if (n > 0) // kernel threads have none
			note("left over after the command: pid %ld: %s", pid, line);
	}
	if (proc)
		closedir(proc);
}

// The number of the device depends on how many others there are, so any will do; the host gave us one.
// It announces its ports in messages of their own, some time after the driver has loaded.
static int open_port(const char *pattern)
{
	for (int64_t end_ms = now_ms() + PORT_MS; now_ms() < end_ms; usleep(5000)) {
		glob_t found;
		if (glob(pattern, 0, NULL, &found))
			continue;
		int fd = open(found.gl_pathv[0], O_WRONLY | O_CLOEXEC);
		globfree(&found);
		if (fd >= 0)
			return fd;
	}
	die(pattern);
}

static void prepare(struct stream streams[2])
{
	// As a system with systemd has it: tests of mount propagation need the case in which it would leak.
	if (mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL))
		die("make / shared");
	struct rlimit files = { .rlim_cur = 1024, .rlim_max = 524288 };
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("setrlimit");
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 2; i++) {
		streams[i].port = open_port(streams[i].port_name);
	}
}

static void report(int status)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", status);
	int fd = open(JOB "/status", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, (size_t)length) != length || fsync(fd) || close(fd))
		die(JOB "/status");
}

int main(void)
{
	struct stream streams[2] = { { .port_name = "/dev/vport*p1" },
				     { .port_name = "/dev/vport*p2" } };
	prepare(streams);
	char **argv = read_strings(JOB "/argv");
	char **env = read_strings(JOB "/env");
	char **cwd = read_strings(JOB "/cwd");
	if (!argv[0] || !cwd[0]) {
		errno = EINVAL;
		die(JOB);
	}

	int out[2];
	int err[2];
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe");
	signal(SIGPIPE, SIG_DFL);
	for (char **e = env; *e; e++) // execvpe searches our own PATH
		if (!strncmp(*e, "PATH=", 5))
			putenv(*e);
	int64_t started_ms = now_ms();
	note("the command starts");
	pid_t command = start(argv, env, cwd[0], out, err);
	signal(SIGPIPE, SIG_IGN);
	close(out[1]);
	close(err[1]);
	streams[0].pipe = out[0];
	streams[1].pipe = err[0];

	int status = 0;
	while (!reap(command, &status))
		if (!pump(streams, 20))
			usleep(20000); // it closed both of its outputs and still runs
	note("the command ended with status %d after %lld ms", status,
	     (long long)(now_ms() - started_ms));

	if (getpid() == 1) // else the others are systemd's
		note_survivors();
	kill(-1, SIGKILL);
	for (int64_t end_ms = now_ms() + DRAIN_MS; pump(streams, 20) && now_ms() < end_ms;)
		reap(command, &(int){ 0 });
	for (int i = 0; i < 2; i++) {
		struct pollfd drained = { .fd = streams[i].port, .events = POLLOUT };
		poll(&drained, 1, -1);
	}
	report(status);
	power_off();
}
