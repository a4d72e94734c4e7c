// SPDX-License-Identifier: Apache-2.0
/*
 * Should: read back what the kernel could have kept; work without root.
 * Must not: open anything by a path, except beneath the directories that it was given.
 *
 * Order: the working directory while we may still enter it; the bounding set while we have the
 * capability to shrink it; ids; capabilities, which a change of uid has cleared already for all but
 * root; Landlock, which needs no_new_privs.
 */
#include "store/confine.h"

#include "base/own.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int drop_bounding(struct err *e)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_set(e, ERR_SYS, errno, "clear ambient capabilities");
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
		/* Without CAP_SETPCAP it stays; no_new_privs makes it worthless. */
		if (prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EPERM)
			return err_set(e, ERR_SYS, errno, "drop capability %lu", cap);
	}
	return 0;
}

static int become(uint64_t uid, uint64_t gid, struct err *e)
{
	uid_t u = uid == CONFINE_KEEP_ID ? geteuid() : (uid_t)uid;
	gid_t g = gid == CONFINE_KEEP_ID ? getegid() : (gid_t)gid;
	uid_t ru, eu, su;
	gid_t rg, eg, sg;

	/* An ordinary user has no say over its groups. */
	if (setgroups(0, NULL) < 0 && (errno != EPERM || u != geteuid()))
		return err_set(e, ERR_SYS, errno, "leave all groups");
	if (setresgid(g, g, g) < 0)
		return err_set(e, ERR_SYS, errno, "become group %u", g);
	if (setresuid(u, u, u) < 0)
		return err_set(e, ERR_SYS, errno, "become user %u", u);
	if (getresuid(&ru, &eu, &su) < 0 || getresgid(&rg, &eg, &sg) < 0 || ru != u || eu != u ||
	    su != u || rg != g || eg != g || sg != g)
		return err_set(e, ERR_SYS, EPERM, "become user %u, group %u", u, g);
	return 0;
}

static int drop_capabilities(struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	if (syscall(SYS_capset, &h, d) < 0 || syscall(SYS_capget, &h, d) < 0)
		return err_set(e, ERR_SYS, errno, "drop capabilities");
	for (unsigned int i = 0; i < 2; i++)
		if ((d[i].effective | d[i].permitted | d[i].inheritable) != 0)
			return err_set(e, ERR_SYS, EPERM, "drop capabilities");
	return 0;
}

/* --- Landlock ------------------------------------------------------------------------------- */

/* Rights beyond the header of an older kernel. */
enum {
	FS_ABI1 = (1u << 13) - 1,
	FS_REFER = 1u << 13,     /* ABI 2 */
	FS_TRUNCATE = 1u << 14,  /* ABI 3 */
	FS_IOCTL_DEV = 1u << 15, /* ABI 5 */
	NET_ALL = 3,             /* ABI 4: bind and connect of TCP */
	SCOPE_ALL = 3,           /* ABI 6: abstract sockets, signals */
	FS_OURS = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
		  LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
		  LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_TRUNCATE,
};

struct ruleset { /* as of ABI 6; older kernels take its beginning */
	uint64_t fs, net, scope;
};

static int allow_beneath(int ruleset, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = fd };

	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static int restrict_files(int dir_fd, int audit_fd, struct err *e)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset attr = { .fs = FS_ABI1 };
	size_t size = sizeof(uint64_t);
	own_fd fd = -1;

	if (abi < 1)
		return 0; /* a kernel without it */
	attr.fs |= abi >= 2 ? FS_REFER : 0;
	attr.fs |= abi >= 3 ? FS_TRUNCATE : 0;
	attr.fs |= abi >= 5 ? FS_IOCTL_DEV : 0;
	if (abi >= 4) {
		attr.net = NET_ALL;
		size = 2 * sizeof(uint64_t);
	}
	if (abi >= 6) {
		attr.scope = SCOPE_ALL;
		size = sizeof(attr);
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0 || allow_beneath(fd, dir_fd, attr.fs & FS_OURS) < 0 ||
	    (audit_fd >= 0 && allow_beneath(fd, audit_fd, attr.fs & FS_OURS) < 0) ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_set(e, ERR_SYS, errno, "restrict files by landlock");
	return 0;
}

int confine_store(uint64_t uid, uint64_t gid, int dir_fd, int audit_fd, struct err *e)
{
	(void)umask(077);
	if (fchdir(dir_fd) < 0)
		return err_set(e, ERR_INPUT, errno, "enter the file store");
	if (drop_bounding(e) < 0 || become(uid, gid, e) < 0 || drop_capabilities(e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, ERR_SYS, errno, "set no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_GET_DUMPABLE) != 0)
		return err_set(e, ERR_SYS, errno, "become undumpable");
	return restrict_files(dir_fd, audit_fd, e);
}
