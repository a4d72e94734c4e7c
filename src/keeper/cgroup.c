// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup v2, and v1 where v2 has no controllers, behind one table of files.
 *
 * A box's cgroup is a directory named after its instance below a base: with v1 our own cgroup, so
 * that limits on us hold for boxes too; with v2 our own where it was delegated to us (we move into
 * a leaf of it first, because a cgroup with processes cannot pass controllers on), or the root of
 * the hierarchy for a root that lives there. v2 processes are born in it; with v1 the first process
 * of a box enters by itself, as a single thread, which the kernel does without its global lock.
 */
#include "keeper/keeper.h"

#include "base/cgroupfs.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define LEAF "glovebox-self"

static const struct {
	const char *v1; /* hierarchy, as /proc/self/cgroup names it */
	const char *v2; /* controller; NULL: always there */
	uint64_t layer;
} kinds[] = {
	[CG_MEMORY] = { "memory", "memory", LAYER_BIT(LAYER_MEMORY) },
	[CG_PIDS] = { "pids", "pids", LAYER_BIT(LAYER_PROCESSES) },
	[CG_CPU] = { "cpu", "cpu", LAYER_BIT(LAYER_CPU) },
	[CG_ACCT] = { "cpuacct", NULL, 0 },
	[CG_CPUSET] = { "cpuset", "cpuset", 0 },
};
_Static_assert(ARRAY_LEN(kinds) == CG_KIND_MAX, "a kind of cgroup lacks its row");

uint64_t cgroups_layers(const struct cgroups *c)
{
	uint64_t set = 0;

	for (unsigned int i = 0; i < CG_KIND_MAX; i++)
		if ((c->have & 1u << i) != 0)
			set |= kinds[i].layer;
	return set;
}

/* Only who keeps processors free has anything to say there. */
static bool is_wanted(const struct cgroups *c, unsigned int kind)
{
	return kind != CG_CPUSET || c->cpus[0] != '\0';
}

/* --- finding what there is --------------------------------------------------------------------- */

static bool can_make_in(int fd)
{
	return faccessat(fd, ".", W_OK, AT_EACCESS) == 0 &&
	       faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0;
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* --- v2 ------------------------------------------------------------------------------------- */

static bool offers_memory(int fd)
{
	char text[512];

	return io_read_text(fd, "cgroup.controllers", text, sizeof(text)) >= 0 &&
	       has_word(text, "memory", " ");
}

static void enable_controllers(const struct cgroups *c, int fd)
{
	/* One at a time: one that is not to be had must not cost the others. */
	(void)io_write_text(fd, "cgroup.subtree_control", "+memory");
	(void)io_write_text(fd, "cgroup.subtree_control", "+pids");
	(void)io_write_text(fd, "cgroup.subtree_control", "+cpu");
	if (is_wanted(c, CG_CPUSET))
		(void)io_write_text(fd, "cgroup.subtree_control", "+cpuset");
}

static unsigned int enabled(const struct cgroups *c, int fd)
{
	char text[512];
	unsigned int have = 0;

	if (io_read_text(fd, "cgroup.subtree_control", text, sizeof(text)) < 0)
		return 0;
	for (unsigned int i = 0; i < CG_KIND_MAX; i++)
		if (is_wanted(c, i) && (kinds[i].v2 == NULL || has_word(text, kinds[i].v2, " ")))
			have |= 1u << i;
	return have;
}

/* systemd marks what it has handed over. */
static bool is_delegated(const char *path)
{
	char v[2];

	return getxattr(path, "user.delegate", v, sizeof(v)) == 1 ||
	       getxattr(path, "trusted.delegate", v, sizeof(v)) == 1;
}

/* Move every process of the cgroup, us among them, into a leaf of it. The leaf holds processes that
 * are not ours to end: its name carries no instance's tag, and no sweep touches it. */
static void move_to_leaf(int fd)
{
	char text[16384], *save = NULL;

	if (io_read_text(fd, "cgroup.procs", text, sizeof(text)) <= 0)
		return; /* nobody is in the way */
	if (mkdirat(fd, LEAF, 0755) < 0 && errno != EEXIST)
		return;
	for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save))
		(void)io_write_text(fd, LEAF "/cgroup.procs", l);
}

static int use_v2(struct cgroups *c, const char *wanted, bool rootless)
{
	char at[256], own[256], path[512], *leaf;
	own_fd fd = -1;

	if (cgroupfs_mount(NULL, at, sizeof(at)) < 0 || cgroupfs_own(NULL, own, sizeof(own)) < 0)
		return -ENOENT;
	/* Started from within an instance: its leaf's parent is the delegated one. */
	leaf = strrchr(own, '/');
	if (leaf != NULL && strcmp(leaf, "/" LEAF) == 0)
		*leaf = '\0';
	(void)snprintf(path, sizeof(path), "%s%s", at, own);
	if (wanted != NULL)
		(void)snprintf(path, sizeof(path), "%s", wanted);
	else if (!rootless && !is_delegated(path))
		(void)snprintf(path, sizeof(path), "%s", at);
	fd = open_dir(path);
	if (fd < 0 || !can_make_in(fd))
		return -EACCES;
	if (!offers_memory(fd))
		return -ENOENT; /* hybrid: the controllers are with v1 */
	/* Only the root of the hierarchy may have processes and pass controllers on. Elsewhere some
	 * controllers would be taken first and make the cgroup a threaded one, for good. */
	if ((enabled(c, fd) & 1u << CG_MEMORY) == 0 && strcmp(path, at) != 0)
		move_to_leaf(fd);
	enable_controllers(c, fd);
	if ((enabled(c, fd) & 1u << CG_MEMORY) == 0)
		return -ENOENT;
	c->version = 2;
	c->have = enabled(c, fd);
	(void)snprintf(c->base[0], sizeof(c->base[0]), "%.255s", path);
	c->base_fd[0] = fd_take(&fd);
	return 0;
}

/* --- v1 ------------------------------------------------------------------------------------- */

static void use_v1(struct cgroups *c)
{
	for (unsigned int i = 0; i < CG_KIND_MAX; i++) {
		char at[256], own[256], path[512];
		own_fd fd = -1;

		if (!is_wanted(c, i) || cgroupfs_mount(kinds[i].v1, at, sizeof(at)) < 0 ||
		    cgroupfs_own(kinds[i].v1, own, sizeof(own)) < 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", at, own);
		fd = open_dir(path);
		if (fd < 0 || !can_make_in(fd) || strlen(path) >= sizeof(c->base[i]))
			continue;
		(void)snprintf(c->base[i], sizeof(c->base[i]), "%.255s", path);
		c->base_fd[i] = fd_take(&fd);
		c->have |= 1u << i;
	}
	c->version = c->have != 0 ? 1 : 0;
}

static void find(struct cgroups *c, const char *wanted_base, bool rootless,
		 const struct instance *i)
{
	for (unsigned int k = 0; k < CG_KIND_MAX; k++)
		c->base_fd[k] = -1;
	if (use_v2(c, wanted_base, rootless) < 0)
		use_v1(c);
	for (unsigned int k = 0; k < CG_KIND_MAX; k++)
		if (c->base_fd[k] >= 0)
			(void)instance_note(i, c->base[k]);
	if (c->version == 0)
		(void)snprintf(c->why, sizeof(c->why), "no cgroup that this user may write to");
}

/* All processors that we may use but the first ones, "1-3,7". How many there are. */
static unsigned int list_cpus(unsigned int spare, char list[CPU_LIST])
{
	unsigned int n = 0;
	size_t len = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 0;
	for (unsigned int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &set) || n++ < spare || len + 16 > CPU_LIST)
			continue;
		len += (size_t)snprintf(list + len, CPU_LIST - len, "%s%u", len > 0 ? "," : "", i);
	}
	return n;
}

int cgroups_start(struct cgroups *c, const char *wanted_base, bool rootless, unsigned int spare,
		  const struct instance *i, struct err *e)
{
	unsigned int n;

	*c = (struct cgroups){ 0 };
	n = spare > 0 ? list_cpus(spare, c->cpus) : 1;
	if (n <= spare)
		return err_set(e, ERR_INPUT, 0,
			       "spare_cpus: of %u processors %u cannot be kept free of boxes", n,
			       spare);
	find(c, wanted_base, rootless, i);
	if (spare > 0 && (c->have & 1u << CG_CPUSET) == 0)
		return err_set(e, ERR_INPUT, 0,
			       "spare_cpus: no processor can be kept free of boxes: there is no "
			       "cgroup with "
			       "the controller cpuset that this user may write to");
	if (c->version == 1 && spare > 0 &&
	    io_read_text(c->base_fd[CG_CPUSET], "cpuset.effective_mems", c->mems, sizeof(c->mems)) <
		    0)
		return err_set(e, ERR_SYS, errno, "read 'cpuset.effective_mems'");
	return 0;
}

void cgroups_done(struct cgroups *c)
{
	for (unsigned int k = 0; k < CG_KIND_MAX; k++)
		fd_close(&c->base_fd[k]);
}

/* --- a box's cgroup ------------------------------------------------------------------------- */

enum { INODE_BYTES = 1280 }; /* inode, name and directory entry of an empty file in memory */

static uint64_t memory_total(const struct limits *l)
{
	/* Files in memory count: without room for them a full workspace would be out of memory
	 * where it should be "no space left". So do empty files, as inodes of the kernel. Each term is
	 * below 2^43, the sum cannot overflow. */
	return l->v[LIMIT_MEMORY] + l->v[LIMIT_WORKSPACE] + l->v[LIMIT_SCRATCH] + l->v[LIMIT_SHM] +
	       store_inodes_all(l) * INODE_BYTES;
}

static int put(int fd, const char *file, uint64_t v, struct err *e)
{
	char text[32];
	int r;

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	r = io_write_text(fd, file, text);
	return r < 0 ? err_set(e, ERR_SYS, -r, "set '%s' to %s", file, text) : 0;
}

enum { CPU_PERIOD_US = 100000 };

static int set_limits(const struct cgroups *c, const struct box_cgroup *b, const struct limits *l,
		      struct err *e)
{
	uint64_t memory = memory_total(l), pids = l->v[LIMIT_PROCESSES] + 1;
	uint64_t quota = l->v[LIMIT_CPUS] * CPU_PERIOD_US / 1000;
	int memfd = b->fd[CG_MEMORY], pidfd = b->fd[CG_PIDS], cpufd = b->fd[CG_CPU];

	if ((c->have & 1u << CG_MEMORY) != 0 && !mutant_is("memory-limit")) {
		if (c->version == 2) {
			if (put(memfd, "memory.max", memory, e) < 0)
				return -1;
			(void)io_write_text(memfd, "memory.swap.max", "0");
			(void)io_write_text(memfd, "memory.oom.group", "0");
		} else {
			struct err unused;

			if (put(memfd, "memory.limit_in_bytes", memory, e) < 0)
				return -1;
			/* Absent without swap accounting; then there is no swap to use either,
			 * or doctor says so. */
			(void)put(memfd, "memory.memsw.limit_in_bytes", memory, &unused);
		}
	}
	if ((c->have & 1u << CG_PIDS) != 0 && !mutant_is("process-limit") &&
	    put(pidfd, "pids.max", pids, e) < 0)
		return -1;
	if ((c->have & 1u << CG_CPU) == 0 || mutant_is("cpu-limit"))
		return 0;
	if (c->version == 2)
		return put(cpufd, "cpu.max", quota, e); /* the period is 100 ms by default */
	return put(cpufd, "cpu.cfs_quota_us", quota, e);
}

/* Before anybody is in it: v1 lets nobody in without. */
static int set_cpus(const struct cgroups *c, const struct box_cgroup *b, struct err *e)
{
	int fd = b->fd[CG_CPUSET], r = 0;

	if ((c->have & 1u << CG_CPUSET) == 0)
		return 0;
	if (c->version == 1)
		r = io_write_text(fd, "cpuset.mems", c->mems);
	if (r == 0)
		r = io_write_text(fd, "cpuset.cpus", c->cpus);
	return r < 0 ? err_set(e, ERR_SYS, -r, "keep a box to the processors %s", c->cpus) : 0;
}

int cgroup_make(const struct cgroups *c, const char *name, const struct limits *l,
		struct box_cgroup *b, struct err *e)
{
	for (unsigned int i = 0; i < CG_KIND_MAX; i++)
		b->fd[i] = -1;
	(void)snprintf(b->name, sizeof(b->name), "%s", name);
	for (unsigned int i = 0; i < CG_KIND_MAX && c->version != 0; i++) {
		int base = c->base_fd[c->version == 2 ? 0 : i];

		if (base < 0 || !is_wanted(c, i))
			continue;
		/* cpu and cpuacct are often one hierarchy: the second time it exists. */
		if (mkdirat(base, name, 0755) < 0 && errno != EEXIST) {
			(void)err_set(e, ERR_SYS, errno, "make cgroup '%s' in '%s'", name,
				      c->base[c->version == 2 ? 0 : i]);
			(void)cgroup_remove(c, b);
			return -1;
		}
		b->fd[i] = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (b->fd[i] < 0) {
			(void)err_set(e, ERR_SYS, errno, "open cgroup '%s'", name);
			(void)cgroup_remove(c, b);
			return -1;
		}
	}
	if (set_cpus(c, b, e) < 0 || set_limits(c, b, l, e) < 0) {
		(void)cgroup_remove(c, b);
		return -1;
	}
	return 0;
}

int cgroup_limit(const struct cgroups *c, const struct box_cgroup *b, const struct limits *l,
		 struct err *e)
{
	uint64_t used = 0, memory = memory_total(l);
	int memfd = b->fd[CG_MEMORY];
	struct err unused;

	if ((c->have & 1u << CG_MEMORY) == 0)
		return set_limits(c, b, l, e);
	/* The kernel would make us wait until it has found something to free, or to kill. */
	(void)io_read_u64(memfd, c->version == 2 ? "memory.current" : "memory.usage_in_bytes",
			  &used);
	if (used > memory)
		return err_set(e, ERR_LIMIT, 0, "the box uses more memory already");
	/* That of memory and swap is never below that of memory: upwards it goes first, downwards last. */
	if (c->version == 1)
		(void)put(memfd, "memory.memsw.limit_in_bytes", memory, &unused);
	return set_limits(c, b, l, e);
}

int cgroup_join_fds(const struct cgroups *c, const struct box_cgroup *b, int fds[CG_KIND_MAX])
{
	int n = 0;

	if (c->version != 1)
		return 0;
	for (unsigned int i = 0; i < CG_KIND_MAX; i++) {
		int fd = b->fd[i] < 0 ? -1 : openat(b->fd[i], "tasks", O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			fds[n++] = fd;
	}
	return n;
}

void cgroup_figures(const struct cgroups *c, const struct box_cgroup *b, struct box_figures *f)
{
	uint64_t v;

	if (c->version == 2) {
		if (io_read_keyed(b->fd[0], "cpu.stat", "usage_usec", &v) == 0) {
			f->cpu_us = v;
			f->has |= FIGURE_CPU;
		}
		if (io_read_u64(b->fd[0], "memory.peak", &v) == 0) {
			f->peak_memory_bytes = v;
			f->has |= FIGURE_PEAK;
		}
		if (io_read_keyed(b->fd[0], "memory.events", "oom_kill", &v) == 0) {
			f->oom_kills = v;
			f->has |= FIGURE_OOM;
		}
	} else if (c->version == 1) {
		if (b->fd[CG_ACCT] >= 0 && io_read_u64(b->fd[CG_ACCT], "cpuacct.usage", &v) == 0) {
			f->cpu_us = v / 1000;
			f->has |= FIGURE_CPU;
		}
		if (b->fd[CG_MEMORY] < 0)
			return;
		if (io_read_u64(b->fd[CG_MEMORY], "memory.max_usage_in_bytes", &v) == 0) {
			f->peak_memory_bytes = v;
			f->has |= FIGURE_PEAK;
		}
		if (io_read_keyed(b->fd[CG_MEMORY], "memory.oom_control", "oom_kill", &v) == 0) {
			f->oom_kills = v;
			f->has |= FIGURE_OOM;
		}
	}
}

uint64_t cgroup_anonymous(const struct cgroups *c, const struct box_cgroup *b)
{
	uint64_t v;

	if (c->version == 2 && io_read_keyed(b->fd[0], "memory.stat", "anon", &v) == 0)
		return v;
	if (c->version == 1 && b->fd[CG_MEMORY] >= 0 &&
	    io_read_keyed(b->fd[CG_MEMORY], "memory.stat", "rss", &v) == 0)
		return v;
	return 0;
}

static void kill_members(int fd)
{
	char text[16384], *save = NULL;

	if (io_write_text(fd, "cgroup.kill", "1") == 0)
		return;
	if (io_read_text(fd, "cgroup.procs", text, sizeof(text)) < 0)
		return;
	for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save)) {
		uint64_t pid;

		if (str_to_u64(l, INT_MAX, &pid) == 0 && pid > 1)
			(void)kill((pid_t)pid, SIGKILL);
	}
}

int cgroup_remove(const struct cgroups *c, struct box_cgroup *b)
{
	int r = 0;

	for (unsigned int i = 0; i < CG_KIND_MAX; i++) {
		int base = c->base_fd[c->version == 2 ? 0 : i];

		fd_close(&b->fd[i]);
		if (base < 0 || c->version == 0)
			continue;
		if (unlinkat(base, b->name, AT_REMOVEDIR) < 0 && errno == EBUSY) {
			own_fd left = openat(base, b->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			kill_members(left); /* nobody outlives a box, however it got here */
			r = -EBUSY;
		}
	}
	return r;
}

/* --- sweep ---------------------------------------------------------------------------------- */

void cgroup_sweep(const char *base, const char *tag)
{
	own_fd fd = open_dir(base);
	uint64_t until = clock_us() + 2 * US_PER_S;
	const struct dirent *ent;
	DIR *d;

	if (fd < 0)
		return;
	d = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3));
	while (d != NULL && (ent = readdir(d)) != NULL) {
		own_fd one = -1;

		if (strncmp(ent->d_name, tag, strlen(tag)) != 0)
			continue;
		one = openat(fd, ent->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		do {
			kill_members(one);
			if (unlinkat(fd, ent->d_name, AT_REMOVEDIR) == 0 || errno != EBUSY)
				break;
			(void)usleep(2000);
		} while (clock_us() < until);
	}
	if (d != NULL)
		(void)closedir(d);
}
