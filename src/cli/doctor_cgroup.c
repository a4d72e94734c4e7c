// SPDX-License-Identifier: Apache-2.0
/*
 * Where the cgroups of boxes would go, found as the keeper finds it: version 2 where it has the
 * memory controller (our own cgroup if it was delegated, the top for a root that lives there), else
 * version 1 below our own cgroup in each hierarchy.
 *
 * An ordinary user must be given a cgroup: by systemd with version 2, by root with version 1.
 */
#include "cli/doctor.h"

#include "base/cgroupfs.h"
#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define LEAF "/glovebox-self" /* where the keeper puts those who were in the cgroup before */

static const char *const controllers[] = { "memory", "pids", "cpu" };

enum { CONTROLLERS = ARRAY_LEN(controllers), ALL = (1u << CONTROLLERS) - 1 };

struct place {
	int version;      /* 0: no cgroups at all */
	char top[256];    /* mount of the hierarchy */
	char dir[512];    /* boxes go below it; with version 1 that of the memory controller */
	int error;        /* of the first that we may not write to */
	unsigned int has; /* bits of controllers */
};

/* 0, or why no cgroup can be made there. */
static int may_write(const struct machine *m, const char *dir)
{
	char procs[600];
	struct stat st;

	(void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", dir);
	if (faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) < 0 ||
	    faccessat(AT_FDCWD, procs, W_OK, AT_EACCESS) < 0 || stat(procs, &st) < 0)
		return errno;
	/* Root of a user namespace has power over files whose uid and gid are both known there. */
	return m->privileged || st.st_gid == getegid() ? 0 : EACCES;
}

/* --- version 2 ---------------------------------------------------------------------------------- */

static bool is_delegated(const char *dir)
{
	char v[2];

	return getxattr(dir, "user.delegate", v, sizeof(v)) == 1 ||
	       getxattr(dir, "trusted.delegate", v, sizeof(v)) == 1;
}

static unsigned int offered(const char *dir)
{
	char path[600], text[512];
	unsigned int has = 0;

	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
	if (io_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	for (unsigned int i = 0; i < CONTROLLERS; i++)
		if (has_word(text, controllers[i], " "))
			has |= 1u << i;
	return has;
}

static bool look_v2(const struct machine *m, struct place *p)
{
	char own[256], *leaf;

	if (cgroupfs_mount(NULL, p->top, sizeof(p->top)) < 0 ||
	    cgroupfs_own(NULL, own, sizeof(own)) < 0)
		return false;
	leaf = strrchr(own, '/');
	if (leaf != NULL && strcmp(leaf, LEAF) == 0)
		*leaf = '\0';
	(void)snprintf(p->dir, sizeof(p->dir), "%s%s", p->top, own);
	if (m->privileged && !is_delegated(p->dir))
		(void)snprintf(p->dir, sizeof(p->dir), "%s", p->top);
	p->has = offered(p->dir);
	p->version = 2;
	p->error = may_write(m, p->dir);
	/* Controllers that are with version 1 cannot be here; a pure version 2 has at least some. */
	return (offered(p->top) & 1u) != 0 || p->has != 0;
}

/* --- version 1 ---------------------------------------------------------------------------------- */

static void look_v1(const struct machine *m, struct place *p)
{
	*p = (struct place){ 0 };
	for (unsigned int i = 0; i < CONTROLLERS; i++) {
		char at[256], own[256], dir[512];
		int error;

		if (cgroupfs_mount(controllers[i], at, sizeof(at)) < 0 ||
		    cgroupfs_own(controllers[i], own, sizeof(own)) < 0)
			continue;
		(void)snprintf(dir, sizeof(dir), "%s%s", at, own);
		error = may_write(m, dir);
		if (error == 0)
			p->has |= 1u << i;
		else if (p->error == 0)
			p->error = error;
		if (p->version == 0)
			(void)snprintf(p->dir, sizeof(p->dir), "%s", dir);
		p->version = 1;
	}
}

static void look(const struct machine *m, struct place *p)
{
	*p = (struct place){ 0 };
	if (!look_v2(m, p))
		look_v1(m, p);
}

/* --- fixes -------------------------------------------------------------------------------------- */

static const char *lacking(unsigned int has, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < CONTROLLERS; i++)
		if ((has & 1u << i) == 0 && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? ", " : "",
					      controllers[i]);
	return buf;
}

static bool has_systemd(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

/* A cgroup of version 2 for this user's shell, made by root. */
static void fix_v2_by_hand(const struct machine *m, const struct place *p, struct finding *f)
{
	char dir[32], own[48];

	(void)snprintf(dir, sizeof(dir), "user-%u", m->uid);
	(void)snprintf(own, sizeof(own), "%u:%u", m->uid, getegid());
	fix_by(f,
	       "sudo sh -c 'cd %s && echo +memory +pids +cpu > cgroup.subtree_control; mkdir -p %s "
	       "&& chown %s %s %s/cgroup.procs %s/cgroup.subtree_control && echo '$$' > "
	       "%s/cgroup.procs'",
	       p->top, dir, own, dir, dir, dir, dir);
}

/* The same for version 1: one in every hierarchy. */
static void fix_v1(const struct machine *m, struct finding *f)
{
	static const char *const all[] = { "memory", "pids", "cpu", "cpuacct" };
	char dirs[700] = "", at[256], own[256];
	size_t n = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(all) && n < sizeof(dirs); i++)
		if (cgroupfs_mount(all[i], at, sizeof(at)) == 0 &&
		    cgroupfs_own(all[i], own, sizeof(own)) == 0 && strstr(dirs, at) == NULL)
			n += (size_t)snprintf(dirs + n, sizeof(dirs) - n, " %s%s/user-%u", at, own,
					      m->uid);
	fix_by(f,
	       "for d in%s; do sudo mkdir -p $d && sudo chown -R %u:%u $d && echo $$ | sudo tee "
	       "$d/cgroup.procs; done",
	       dirs, m->uid, getegid());
}

static void tell_unwritable(const struct machine *m, const struct place *p, struct finding *f)
{
	found(f, CHECK_MISSING, "version %d, but %.200s cannot be written to: %s", p->version,
	      p->dir, strerror(p->error));
	if (m->container != NULL && (m->root || p->error == EROFS))
		fix_by(f, "%s", m->container->cgroup);
	else if (m->privileged)
		fix_by(f, "sudo mount -o remount,rw %s", p->version == 2 ? p->top : p->dir);
	else if (p->version == 1)
		fix_v1(m, f);
	else if (has_systemd())
		fix_by(f, "systemd-run --user --scope -p Delegate=yes %.300s doctor", m->exe);
	else
		fix_v2_by_hand(m, p, f);
}

static void tell_controllers(const struct machine *m, const struct place *p, struct finding *f)
{
	char text[64];

	found(f, CHECK_MISSING, "version %d, but %.200s has no controller for %s", p->version,
	      p->dir, lacking(p->has, text, sizeof(text)));
	if (p->version == 2 && !m->privileged && has_systemd())
		fix_by(f, "sudo mkdir -p /etc/systemd/system/user@.service.d && printf "
			  "'[Service]\\nDelegate=cpu cpuset io memory pids\\n' | sudo tee "
			  "/etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl "
			  "daemon-reload && sudo systemctl restart user@$(id -u)");
	else if (p->version == 2 && m->container == NULL && (offered(p->top) & ALL) == ALL)
		fix_v2_by_hand(m, p, f);
	else if ((p->has & 1u) == 0)
		fix_by(f, FIX_PARAMETER("cgroup_enable=memory"));
	else
		fix_by(f, FIX_PARAMETER("systemd.unified_cgroup_hierarchy=1"));
}

void check_cgroup(const struct machine *m, const struct check *c, struct finding *f)
{
	struct place p;

	(void)c;
	look(m, &p);
	if (p.version == 0) {
		found(f, CHECK_MISSING, "none is mounted");
		fix_by(f, "sudo mkdir -p /sys/fs/cgroup && sudo mount -t cgroup2 none "
			  "/sys/fs/cgroup");
	} else if (p.error != 0) {
		tell_unwritable(m, &p, f);
	} else if (p.has != ALL) {
		tell_controllers(m, &p, f);
	} else {
		found(f, CHECK_OK,
		      "version %d; boxes go below %.300s, with limits on memory, processes and "
		      "processor time",
		      p.version, p.dir);
	}
}

/* --- swap --------------------------------------------------------------------------------------- */

/* Whether memory of a box that went to swap still counts. */
static bool counts_swap(const struct place *p)
{
	char path[600], text[4096];

	if (p->version == 1) {
		(void)snprintf(path, sizeof(path), "%s/memory.memsw.limit_in_bytes", p->dir);
		return access(path, F_OK) == 0;
	}
	return io_read_text(AT_FDCWD, "/proc/cmdline", text, sizeof(text)) < 0 ||
	       strstr(text, "swapaccount=0") == NULL;
}

void check_swap(const struct machine *m, const struct check *c, struct finding *f)
{
	struct place p;

	(void)c;
	look(m, &p);
	if (meminfo_bytes("SwapTotal") == 0)
		found(f, CHECK_OK, "this machine has none");
	else if (counts_swap(&p))
		found(f, CHECK_OK, "boxes get none of it");
	else
		found(f, CHECK_NOTE,
		      "the kernel does not count it: a box may use it beyond its memory limit");
}
