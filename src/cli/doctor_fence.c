// SPDX-License-Identifier: Apache-2.0
/* The fences that a box puts up around its own processes, each tried in a child. */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { ABI_SCOPE = 6, MFD_EXEC_ = 0x10 };

static void tell(const struct machine *m, const struct probe *p, const char *well,
		 struct finding *f)
{
	if (p->error == 0) {
		found(f, CHECK_OK, "%s", well);
		return;
	}
	found(f, CHECK_MISSING, "%s is refused: %s", p->at, strerror(p->error));
	if (m->seccomp && m->container != NULL)
		fix_by(f, "%s", m->container->seccomp);
}

/* --- capabilities ------------------------------------------------------------------------------- */

static int try_no_caps(struct probe *p, const void *arg)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };
	int r = probe_namespace(p, 0);

	(void)arg;
	if (r < 0)
		return r;
	probe_at(p, "prctl");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0)
			return -errno;
	probe_at(p, "capset");
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

void check_no_caps(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p;

	(void)c;
	if (untried(m, f))
		return;
	p = probe_run(try_no_caps, NULL);
	tell(m, &p, "all of them can be given up for good", f);
}

static int try_nnp(struct probe *p, const void *arg)
{
	(void)arg;
	probe_at(p, "prctl");
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

void check_nnp(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p = probe_run(try_nnp, NULL);

	(void)c;
	tell(m, &p, "setuid programs can be made powerless", f);
}

/* --- seccomp ------------------------------------------------------------------------------------ */

static int try_seccomp(struct probe *p, const void *arg)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { .len = ARRAY_LEN(allow), .filter = allow };

	(void)arg;
	probe_at(p, "seccomp");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

void check_seccomp(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p = probe_run(try_seccomp, NULL);

	(void)c;
	tell(m, &p, "filters can be loaded", f);
	if (p.error == EINVAL)
		found(f, CHECK_MISSING, "this kernel is built without CONFIG_SECCOMP_FILTER");
}

/* --- Landlock ----------------------------------------------------------------------------------- */

static long landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? -errno : abi;
}

void check_landlock(const struct machine *m, const struct check *c, struct finding *f)
{
	char lsm[256] = "";
	long abi = landlock_abi();

	(void)c;
	if (abi >= 1) {
		found(f, CHECK_OK, "version %ld of its interface", abi);
	} else if (abi == -EOPNOTSUPP) {
		(void)io_read_text(AT_FDCWD, "/sys/kernel/security/lsm", lsm, sizeof(lsm));
		found(f, CHECK_MISSING, "this kernel has it, but it was not started at boot");
		fix_by(f, FIX_PARAMETER("lsm=landlock,%.200s"),
		       lsm[0] != '\0' ? lsm : "lockdown,yama,integrity,apparmor");
	} else if (m->seccomp) {
		found(f, CHECK_MISSING, "a seccomp filter refuses it (%s)", strerror((int)-abi));
		if (m->container != NULL)
			fix_by(f, "%s", m->container->seccomp);
	} else {
		found(f, CHECK_MISSING,
		      "this kernel has none (%s): it came with Linux 5.13 and "
		      "CONFIG_SECURITY_LANDLOCK",
		      strerror((int)-abi));
	}
}

void check_landlock_scope(const struct machine *m, const struct check *c, struct finding *f)
{
	long abi = landlock_abi();

	(void)m, (void)c;
	if (abi >= ABI_SCOPE)
		found(f, CHECK_OK, "signals and abstract sockets can be fenced in a second time");
	else
		found(f, CHECK_NOTE,
		      "the second fence around signals and abstract sockets needs version %d of "
		      "Landlock (Linux 6.12), this is version %ld",
		      ABI_SCOPE, abi > 0 ? abi : 0);
}

/* --- init's file -------------------------------------------------------------------------------- */

void check_memory_file(const struct machine *m, const struct check *c, struct finding *f)
{
	own_fd fd = (int)syscall(SYS_memfd_create, "doctor", MFD_CLOEXEC | (unsigned int)MFD_EXEC_);

	(void)m, (void)c;
	if (fd < 0 && errno == EINVAL) /* before 6.3 */
		fd = (int)syscall(SYS_memfd_create, "doctor", MFD_CLOEXEC);
	if (fd >= 0)
		found(f, CHECK_OK, "init can be started from a sealed file in memory");
	else if (errno == EACCES)
		found(f, CHECK_MISSING,
		      "vm.memfd_noexec is %llu: init cannot be started from a file in memory",
		      (unsigned long long)sysctl_u64("vm/memfd_noexec", 2));
	else
		found(f, CHECK_MISSING, "a file in memory cannot be made: %s", strerror(errno));
}
