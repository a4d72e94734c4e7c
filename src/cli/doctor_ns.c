// SPDX-License-Identifier: Apache-2.0
/*
 * Namespaces. The user namespace is the one that machines forbid, each in its own way: a table of
 * causes goes from the exact to the vague, and the first that holds is the one to tell.
 */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define PROFILE      "/etc/apparmor.d/glovebox"
#define ENOUGH       15000
#define USERNS_CLONE "kernel/unprivileged_userns_clone"
#define RESTRICT     "kernel/apparmor_restrict_unprivileged_userns"

/* --- the user namespace ------------------------------------------------------------------------ */

static bool no_kernel(const struct machine *m)
{
	(void)m;
	return access("/proc/self/ns/user", F_OK) < 0;
}

static void say_no_kernel(const struct machine *m, struct finding *f)
{
	(void)m;
	found(f, CHECK_MISSING, "this kernel is built without them (CONFIG_USER_NS)");
	fix_kernel(f);
}

static bool by_debian(const struct machine *m)
{
	return !m->privileged && sysctl_u64(USERNS_CLONE, 1) == 0;
}

static void say_by_debian(const struct machine *m, struct finding *f)
{
	(void)m;
	found(f, CHECK_MISSING,
	      "kernel.unprivileged_userns_clone is 0: ordinary users may not make any");
	fix_by(f, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
}

static bool by_count(const struct machine *m)
{
	return m->userns.error == ENOSPC && strcmp(m->userns.at, "user namespace") == 0;
}

static void say_by_count(const struct machine *m, struct finding *f)
{
	uint64_t max = sysctl_u64("user/max_user_namespaces", 0);

	(void)m;
	if (max < ENOUGH) {
		found(f, CHECK_MISSING,
		      "user.max_user_namespaces is %llu: no further one may be made",
		      (unsigned long long)max);
		fix_by(f, "sudo sysctl -w user.max_user_namespaces=%d", ENOUGH);
		return;
	}
	found(f, CHECK_MISSING,
	      "none is left: 32 levels are nested, or the %llu of user.max_user_namespaces are in "
	      "use",
	      (unsigned long long)max);
	fix_by(f, "sudo sysctl -w user.max_user_namespaces=%llu", (unsigned long long)max * 2);
}

static bool by_apparmor(const struct machine *m)
{
	return !m->privileged && sysctl_u64(RESTRICT, 0) != 0;
}

/* The profile that is installed with the program names the program by its place; a program elsewhere
 * has to have one of its own. */
static void say_by_apparmor(const struct machine *m, struct finding *f)
{
	bool in_place = strcmp(m->exe, "/usr/bin/glovebox") == 0 ||
			strcmp(m->exe, "/usr/local/bin/glovebox") == 0;

	found(f, CHECK_MISSING,
	      "kernel.apparmor_restrict_unprivileged_userns is on and no AppArmor profile allows "
	      "%.200s any",
	      m->exe);
	if (in_place && access(PROFILE, R_OK) == 0)
		fix_by(f, "sudo apparmor_parser -r " PROFILE);
	else
		fix_by(f,
		       "printf 'abi <abi/4.0>,\\nprofile glovebox-local \"%.300s\" "
		       "flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee " PROFILE
		       "-local && sudo apparmor_parser -r " PROFILE "-local",
		       m->exe);
}

static bool by_filter(const struct machine *m)
{
	return m->seccomp && (m->userns.error == EPERM || m->userns.error == ENOSYS);
}

static void say_by_filter(const struct machine *m, struct finding *f)
{
	found(f, CHECK_MISSING,
	      "a seccomp filter refuses %s (%s)%s%s; boxes have a stricter filter of their own",
	      m->userns.at, strerrorname_np(m->userns.error),
	      m->container != NULL ? ", as is the default of " : "",
	      m->container != NULL ? m->container->name : "");
	fix_by(f, "%s",
	       m->container != NULL
		       ? m->container->seccomp
		       : "docker run --security-opt seccomp=unconfined ... | podman run "
			 "--security-opt seccomp=unconfined ... | Kubernetes: securityContext: "
			 "{seccompProfile: {type: Unconfined}} | systemd unit: no "
			 "SystemCallFilter= "
			 "and no RestrictNamespaces=");
}

static bool by_setfcap(const struct machine *m)
{
	return m->root && strcmp(m->userns.at, "id map") == 0 && !machine_has_cap(m, CAP_SETFCAP);
}

static void say_by_setfcap(const struct machine *m, struct finding *f)
{
	(void)m;
	found(f, CHECK_MISSING, "root without CAP_SETFCAP may not be mapped into one (%s)",
	      strerrorname_np(m->userns.error));
	fix_by(f, "docker and podman run --cap-add SETFCAP ... | Kubernetes: securityContext: "
		  "{capabilities: {add: [SETFCAP]}}");
}

static bool by_container(const struct machine *m)
{
	return m->container != NULL && strcmp(m->userns.at, "mount") == 0;
}

static void say_by_container(const struct machine *m, struct finding *f)
{
	found(f, CHECK_MISSING, "%s's security profile forbids mounts in them (%s)",
	      m->container->name, strerrorname_np(m->userns.error));
	fix_by(f, "%s", m->container->apparmor);
}

static bool by_whatever(const struct machine *m)
{
	(void)m;
	return true;
}

static void say_by_whatever(const struct machine *m, struct finding *f)
{
	found(f, CHECK_MISSING,
	      "the kernel refuses (%s: %s), for no reason that we know: a chroot, or a security "
	      "module, whose log names the rule",
	      m->userns.at, strerror(m->userns.error));
	fix_by(f, "sudo dmesg | grep -iE 'apparmor|selinux|denied' | tail");
}

static const struct {
	bool (*holds)(const struct machine *m);
	void (*tell)(const struct machine *m, struct finding *f);
} causes[] = {
	{ no_kernel, say_no_kernel },       { by_debian, say_by_debian },
	{ by_count, say_by_count },         { by_apparmor, say_by_apparmor },
	{ by_filter, say_by_filter },       { by_setfcap, say_by_setfcap },
	{ by_container, say_by_container }, { by_whatever, say_by_whatever },
};

void check_user_namespace(const struct machine *m, const struct check *c, struct finding *f)
{
	(void)c;
	if (m->userns.error == 0) {
		found(f, CHECK_OK, "can be made, and its root may mount");
		return;
	}
	for (unsigned int i = 0; i < ARRAY_LEN(causes); i++)
		if (causes[i].holds(m)) {
			causes[i].tell(m, f);
			return;
		}
}

/* --- the others -------------------------------------------------------------------------------- */

static const struct kind {
	unsigned long flag;
	const char *file; /* in /proc/self/ns, and in the name of its sysctl */
} kinds[] = {
	{ CLONE_NEWPID, "pid" }, { CLONE_NEWNS, "mnt" },  { CLONE_NEWNET, "net" },
	{ CLONE_NEWIPC, "ipc" }, { CLONE_NEWUTS, "uts" }, { CLONE_NEWCGROUP, "cgroup" },
};

static const struct kind *kind_of(unsigned long flag)
{
	for (unsigned int i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].flag == flag)
			return &kinds[i];
	return &kinds[0];
}

static int try_namespace(struct probe *p, const void *arg)
{
	const struct kind *k = arg;

	return probe_namespace(p, (int)k->flag);
}

void check_namespace(const struct machine *m, const struct check *c, struct finding *f)
{
	const struct kind *k = kind_of(c->arg);
	char path[32];
	struct probe p;

	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", k->file);
	if (access(path, F_OK) < 0) {
		found(f, CHECK_MISSING, "this kernel is built without them (no %s)", path);
		return;
	}
	/* The mount namespace is a part of that very probe. */
	if (strcmp(m->userns.at, "mount namespace") != 0 && untried(m, f))
		return;
	p = probe_run(try_namespace, k);
	if (p.error == 0) {
		found(f, CHECK_OK, "can be made");
		return;
	}
	found(f, CHECK_MISSING, "cannot be made (%s: %s)", p.at, strerror(p.error));
	if (p.error == ENOSPC) {
		(void)snprintf(path, sizeof(path), "user/max_%s_namespaces", k->file);
		found(f, CHECK_MISSING,
		      "user.max_%s_namespaces is %llu: no further one may be made", k->file,
		      (unsigned long long)sysctl_u64(path, 0));
		fix_by(f, "sudo sysctl -w user.max_%s_namespaces=%d", k->file, ENOUGH);
	}
}

void check_counters(const struct machine *m, const struct check *c, struct finding *f)
{
	static const char *const files[] = { "/proc/sys/user/max_user_namespaces",
					     "/proc/sys/user/max_inotify_instances",
					     "/proc/sys/user/max_inotify_watches" };

	(void)m, (void)c;
	for (unsigned int i = 0; i < ARRAY_LEN(files); i++)
		if (access(files[i], F_OK) < 0) {
			found(f, CHECK_MISSING, "this kernel has no %s", files[i]);
			return;
		}
	found(f, CHECK_OK, "namespaces and inotify instances are counted per user namespace");
}

/* --- packet filters, for network policies ------------------------------------------------------- */

/* Ask nf_tables for its generation: the smallest question that only it can answer. */
static int ask_nft(int fd)
{
	struct {
		struct nlmsghdr h;
		struct nfgenmsg g;
	} q = { .h = { .nlmsg_len = sizeof(q),
		       .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
		       .nlmsg_flags = NLM_F_REQUEST },
		.g = { .nfgen_family = AF_UNSPEC } };
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char rest[256];
	} a = { 0 };

	if (send(fd, &q, sizeof(q), 0) < 0 || recv(fd, &a, sizeof(a), 0) < (ssize_t)sizeof(a.h))
		return -errno;
	return a.h.nlmsg_type == NLMSG_ERROR ? a.e.error : 0;
}

static int try_nft(struct probe *p, const void *arg)
{
	own_fd fd = -1;
	int r = probe_namespace(p, CLONE_NEWNET);

	(void)arg;
	if (r < 0)
		return r;
	probe_at(p, "netlink socket");
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0)
		return -errno;
	probe_at(p, "nf_tables");
	return ask_nft(fd);
}

void check_nft(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p;

	(void)c;
	if (untried(m, f))
		return;
	p = probe_run(try_nft, NULL);
	if (p.error == 0)
		found(f, CHECK_OK, "a network namespace can have packet filters of its own");
	else
		found(f, CHECK_NOTE,
		      "a network namespace cannot have packet filters of its own (%s: %s); only "
		      "network policies need them",
		      p.at, strerror(p.error));
}
