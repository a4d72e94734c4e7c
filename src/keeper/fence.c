// SPDX-License-Identifier: Apache-2.0
/*
 * The steps that give up privileges, in the order of policy/plan.tbl.
 *
 * Should: read back what was set where the kernel could have kept something.
 * Must not: open a file of the host (the root is the box's own by now); regain anything.
 */
#include "keeper/steps.h"

#include "base/own.h"
#include "wire/control.h"

#include "seccomp.gen.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int step_bounding(struct work *w)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
			     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	(void)w;
	if (mutant_is("no-capabilities"))
		return 0;
	if (prctl(PR_SET_SECUREBITS, bits) < 0)
		return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0)
			return -errno;
	return 0;
}

int step_creds(struct work *w)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };
	long root = (long)w->s->ids.in_root, user = (long)w->s->ids.in_user;
	uid_t r, e, s;

	/* The real id is the user's: so can init, without a capability, start and signal programs of
	 * the user. (The saved one would not do: exec overwrites it.) */
	if (syscall(SYS_setresgid, user, root, root) < 0 ||
	    syscall(SYS_setresuid, user, root, root) < 0)
		return -errno;
	if (getresuid(&r, &e, &s) < 0 || r != (uid_t)user || e != (uid_t)root || s != (uid_t)root)
		return -EPERM;
	if (mutant_is("no-capabilities"))
		return 0;
	if (syscall(SYS_capset, &h, d) < 0 || syscall(SYS_capget, &h, d) < 0)
		return -errno;
	for (unsigned int i = 0; i < 2; i++)
		if ((d[i].effective | d[i].permitted | d[i].inheritable) != 0)
			return -EPERM;
	return 0;
}

/* --- Landlock ------------------------------------------------------------------------------- */

/* Rights beyond the header of an older kernel. */
enum {
	FS_REFER = 1u << 13,     /* ABI 2 */
	FS_TRUNCATE = 1u << 14,  /* ABI 3 */
	FS_IOCTL_DEV = 1u << 15, /* ABI 5 */
	SCOPE_ALL = 3,           /* ABI 6: abstract sockets, signals */
	FS_ABI1 = (1u << 13) - 1,
	FS_READ = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
		  LANDLOCK_ACCESS_FS_READ_DIR,
	FS_DEVICE = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK,
};

struct ruleset { /* as of ABI 6; older kernels take its beginning */
	uint64_t fs, net, scope;
};

static uint64_t handled(long abi)
{
	uint64_t fs = FS_ABI1;

	if (abi >= 2)
		fs |= FS_REFER;
	if (abi >= 3)
		fs |= FS_TRUNCATE;
	if (abi >= 5)
		fs |= FS_IOCTL_DEV;
	return fs;
}

static int allow_fd(int ruleset, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = fd };

	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		       ? -errno
		       : 0;
}

static int allow_below(struct work *w, int ruleset, const char *path, uint64_t rights)
{
	own_fd dir = open(path, O_PATH | O_CLOEXEC);
	int r = dir < 0 ? -errno : allow_fd(ruleset, dir, rights);

	if (r < 0)
		(void)snprintf(w->detail, sizeof(w->detail), "%s", path);
	return r;
}

static int allow_all(struct work *w, int ruleset, uint64_t fs)
{
	static const char *const writable[] = {
#define ROOT(kind, at, what) WRITABLE_##kind(at)
#define WRITABLE_SHOW(at)
#define WRITABLE_DIR(at)
#define WRITABLE_LINK(at)
#define WRITABLE_FILE(at)
#define WRITABLE_ALSO(at)  /* a rule is about a directory, by whatever name */
#define WRITABLE_WRITE(at) at,
#include "policy/root.tbl"
#undef ROOT
	};
	uint64_t write = fs & ~(uint64_t)FS_DEVICE;
	int r = allow_below(w, ruleset, "/", FS_READ);

	for (unsigned int i = 0; i < ARRAY_LEN(writable) && r == 0; i++)
		r = allow_below(w, ruleset, writable[i], write);
	/* Devices are opened for writing and asked by ioctl; nothing is made there. */
	if (r == 0)
		r = allow_below(w, ruleset, "/dev",
				fs & (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV));
	if (r == 0 && w->mqueue_fd >= 0)
		r = allow_fd(ruleset, w->mqueue_fd, write);
	if (r == 0 && (w->s->layers & LAYER_BIT(LAYER_INIT_SHIELD)) != 0)
		r = allow_below(w, ruleset, INIT_PROC "/proc",
				FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE);
	for (unsigned int i = 0; i < w->s->nmounts && r == 0; i++)
		if (!w->s->mounts[i].read_only)
			r = allow_below(w, ruleset, w->s->mounts[i].at, write);
	return r;
}

int step_landlock(struct work *w)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset attr = { .scope = abi >= 6 ? SCOPE_ALL : 0 };
	own_fd fd = -1;
	int r;

	if (abi < 1) {
		w->s->layers &= ~LAYER_BIT(LAYER_LANDLOCK_SCOPE);
		return -ENOSYS;
	}
	if (abi < 6)
		w->s->layers &= ~LAYER_BIT(LAYER_LANDLOCK_SCOPE);
	if (mutant_is("landlock-scope"))
		attr.scope = 0;
	attr.fs = handled(abi);
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr,
			  abi >= 6   ? sizeof(attr)
			  : abi >= 4 ? 2 * sizeof(uint64_t)
				     : sizeof(uint64_t),
			  0);
	if (fd < 0)
		return -errno;
	r = allow_all(w, fd, attr.fs);
	if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		r = -errno;
	return r;
}

static int with_listener(struct work *w)
{
	struct sock_fprog prog = {
		.len = (unsigned short)ARRAY_LEN(policy_seccomp_heard),
		.filter = (struct sock_filter *)(uintptr_t)policy_seccomp_heard,
	};
	own_fd fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				 SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);

	if (fd < 0)
		return -errno;
	return chan_send(w->s->control_fd, CONTROL_LISTENER, 0, NULL, 0, &fd, 1);
}

int step_seccomp(struct work *w)
{
	struct sock_fprog plain = {
		.len = (unsigned short)ARRAY_LEN(policy_seccomp_plain),
		.filter = (struct sock_filter *)(uintptr_t)policy_seccomp_plain,
	};

	/* A container's own listener stands in the way of ours. The box is as sealed without it. */
	if (w->s->heard) {
		int r = with_listener(w);

		if (r != -EBUSY)
			return r;
	}
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &plain) < 0 ? -errno : 0;
}
