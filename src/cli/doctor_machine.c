// SPDX-License-Identifier: Apache-2.0
/* What many checks ask about this machine, found out once. */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PYTHON "/usr/bin/python3"

/* --- containers ------------------------------------------------------------------------------- */

static const struct container docker = {
	"Docker",
	"docker run --security-opt seccomp=unconfined ...",
	"docker run --security-opt apparmor=unconfined ...",
	"docker run --security-opt systempaths=unconfined ...",
	"docker run --cgroupns=private --security-opt writable-cgroups=true ... (Docker 28 or "
	"newer)",
};
static const struct container podman = {
	"Podman",
	"podman run --security-opt seccomp=unconfined ...",
	"podman run --security-opt apparmor=unconfined ...",
	"podman run --security-opt unmask=ALL ...",
	"podman run --cgroupns=private --security-opt unmask=ALL ...",
};
static const struct container kubernetes = {
	"Kubernetes",
	"in the pod's spec: securityContext: {seccompProfile: {type: Unconfined}}",
	"in the pod's spec: securityContext: {appArmorProfile: {type: Unconfined}}",
	"in the pod's spec: hostUsers: false, and securityContext: {procMount: Unmasked} of the "
	"container",
	"on the node, containerd 2.1 or newer: cgroup_writable = true in the runtime's section of "
	"/etc/containerd/config.toml",
};
static const struct container other = {
	"an unknown runtime",
	"start the container without a seccomp filter",
	"start the container without an AppArmor profile",
	"start the container without masked paths in /proc",
	"start the container with a cgroup namespace of its own and a writable /sys/fs/cgroup",
};

/* In this order: a pod is often made by one of the others. */
static const struct {
	const char *file;
	const char *contains; /* NULL: that it is there is enough */
	const struct container *is;
} signs[] = {
	{ "/var/run/secrets/kubernetes.io", NULL, &kubernetes },
	{ "/proc/1/cgroup", "kubepods", &kubernetes },
	{ "/run/.containerenv", NULL, &podman },
	{ "/proc/1/cgroup", "libpod", &podman },
	{ "/run/.dockerenv", NULL, &docker },
	{ "/.dockerenv", NULL, &docker },
	{ "/proc/1/cgroup", "docker", &docker },
	{ "/proc/1/cgroup", "lxc", &other },
	{ "/run/systemd/container", NULL, &other },
};

static bool sign_is_there(const char *file, const char *contains)
{
	char text[4096];

	if (contains == NULL)
		return access(file, F_OK) == 0;
	return io_read_text(AT_FDCWD, file, text, sizeof(text)) >= 0 &&
	       strstr(text, contains) != NULL;
}

static void look_for_container(struct machine *m)
{
	for (unsigned int i = 0; i < ARRAY_LEN(signs); i++)
		if (sign_is_there(signs[i].file, signs[i].contains)) {
			m->container = signs[i].is;
			(void)snprintf(m->seen_by, sizeof(m->seen_by), "%s%s%s", signs[i].file,
				       signs[i].contains != NULL ? " names " : "",
				       signs[i].contains != NULL ? signs[i].contains : "");
			return;
		}
}

/* --- what this process may do ----------------------------------------------------------------- */

uint64_t sysctl_u64(const char *name, uint64_t otherwise)
{
	char path[96];
	uint64_t v;

	(void)snprintf(path, sizeof(path), "/proc/sys/%s", name);
	return io_read_u64(AT_FDCWD, path, &v) == 0 ? v : otherwise;
}

uint64_t meminfo_bytes(const char *key)
{
	char text[8192], number[21] = "";
	const char *at = io_read_text(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) > 0
				 ? strstr(text, key)
				 : NULL;
	uint64_t kib = 0;

	if (at == NULL || sscanf(at + strlen(key), ": %20[0-9] kB", number) != 1 ||
	    str_to_u64(number, UINT64_MAX / 1024, &kib) < 0)
		return 0;
	return kib * 1024;
}

bool machine_has_cap(const struct machine *m, unsigned int cap)
{
	return (m->caps & (uint64_t)1 << cap) != 0;
}

/* The value of a key of /etc/os-release, without quotes. */
static void os_release(const char *key, char *ret, size_t size)
{
	FILE *f = fopen("/etc/os-release", "re");
	size_t n = strlen(key);
	char line[256];

	ret[0] = '\0';
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		const char *value = line + n + 1;

		if (strncmp(line, key, n) != 0 || line[n] != '=')
			continue;
		value += strspn(value, "\"");
		(void)snprintf(ret, size, "%.*s", (int)strcspn(value, "\"\n"), value);
	}
	if (f != NULL)
		(void)fclose(f);
}

#if defined(__aarch64__)
#define DEB_ARCH "arm64"
#else
#define DEB_ARCH "amd64"
#endif

void fix_kernel(struct finding *f)
{
	char id[32], code[32], version[32];

	os_release("ID", id, sizeof(id));
	os_release("VERSION_CODENAME", code, sizeof(code));
	os_release("VERSION_ID", version, sizeof(version));
	if (strcmp(id, "debian") == 0 && code[0] != '\0')
		fix_by(f,
		       "echo 'deb http://deb.debian.org/debian %s-backports main' | sudo tee "
		       "/etc/apt/sources.list.d/%s-backports.list && sudo apt update && sudo apt "
		       "install -t %s-backports linux-image-" DEB_ARCH " && sudo reboot",
		       code, code, code);
	else if (strcmp(id, "ubuntu") == 0 && version[0] != '\0')
		fix_by(f, "sudo apt update && sudo apt install linux-generic-hwe-%s && sudo reboot",
		       version);
	else
		fix_by(f, "install this distribution's newest kernel, and reboot");
}

bool untried(const struct machine *m, struct finding *f)
{
	if (m->userns.error == 0)
		return false;
	found(f, CHECK_NOTE, "cannot be tried before user namespaces work");
	f->untried = true;
	return true;
}

static uint64_t effective_caps(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	if (syscall(SYS_capget, &h, d) < 0)
		return 0;
	return d[0].effective | (uint64_t)d[1].effective << 32;
}

/* Every id is itself. */
static bool in_outer_namespace(void)
{
	char text[128], in[16], out[16], n[16];

	return io_read_text(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) >= 0 &&
	       sscanf(text, "%15s %15s %15s", in, out, n) == 3 && strcmp(in, "0") == 0 &&
	       strcmp(out, "0") == 0 && strcmp(n, "4294967295") == 0;
}

static void look_at_self(struct machine *m)
{
	ssize_t n = readlink("/proc/self/exe", m->exe, sizeof(m->exe) - 1);

	m->exe[n > 0 ? n : 0] = '\0';
	m->uid = geteuid();
	m->root = m->uid == 0;
	m->caps = effective_caps();
	m->may_map = m->root && machine_has_cap(m, CAP_SETUID) && machine_has_cap(m, CAP_SETGID);
	m->privileged = m->may_map && machine_has_cap(m, CAP_SYS_ADMIN);
	m->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
	m->seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
	m->outer = in_outer_namespace();
}

/* A user namespace is worth something when its root may mount: a security module can let it be made
 * and take that away. */
static int try_userns(struct probe *p, const void *arg)
{
	int r;

	(void)arg;
	probe_at(p, "clone3");
	if (syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL)
		return -errno;
	r = probe_namespace(p, 0);
	if (r < 0)
		return r;
	probe_at(p, "mount namespace");
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	probe_at(p, "mount");
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

/* --- Python ----------------------------------------------------------------------------------- */

static const struct package packages[] = {
	{ "numpy", "python3-numpy" },
	{ "pandas", "python3-pandas" },
	{ "matplotlib", "python3-matplotlib" },
	{ "IPython", "python3-ipython" },
	{ "scipy", "python3-scipy" },
	{ "PIL", "python3-pil" },
	{ "openpyxl", "python3-openpyxl" },
	{ "requests", "python3-requests" },
	{ "lxml", "python3-lxml" },
	{ "yaml", "python3-yaml" },
	{ "pydantic", "python3-pydantic" },
};
_Static_assert(ARRAY_LEN(packages) <= PACKAGES_MAX, "a set of packages is 64 bits");

const struct package *python_packages(unsigned int *ret_n)
{
	*ret_n = ARRAY_LEN(packages);
	return packages;
}

/* The version, then one character per package. */
static const char python_code[] =
	"import sys, importlib.util as u\n"
	"print('%d.%d.%d' % sys.version_info[:3], "
	"''.join('-+'[u.find_spec(m) is not None] for m in sys.argv[1:]))";

static _Noreturn void exec_python(int out)
{
	const char *argv[ARRAY_LEN(packages) + 5] = { PYTHON, "-I", "-c", python_code };

	for (unsigned int i = 0; i < ARRAY_LEN(packages); i++)
		argv[4 + i] = packages[i].module;
	(void)alarm(20);
	(void)dup2(open("/dev/null", O_RDWR), STDERR_FILENO);
	if (dup2(out, STDOUT_FILENO) >= 0)
		(void)execv(PYTHON, (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* As in a box: isolated from the caller's own packages and environment. */
static void ask_python(struct machine *m)
{
	char text[256], there[PACKAGES_MAX + 1] = "";
	int pipe_fd[2];
	ssize_t n;
	pid_t pid;

	if (access(PYTHON, X_OK) < 0 || pipe2(pipe_fd, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		exec_python(pipe_fd[1]);
	(void)close(pipe_fd[1]);
	n = io_read_full(pipe_fd[0], text, sizeof(text) - 1);
	(void)close(pipe_fd[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "%31s %64s", m->python, there) != 2)
		m->python[0] = '\0';
	for (unsigned int i = 0; i < ARRAY_LEN(packages); i++)
		if (there[i] == '-')
			m->no_package |= (uint64_t)1 << i;
}

void machine_look(struct machine *m)
{
	look_at_self(m);
	look_for_container(m);
	m->userns = probe_run(try_userns, NULL);
	ask_python(m);
}
