// SPDX-License-Identifier: Apache-2.0
/* The machine itself: who we are and where, how much there is of everything, and Python. */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

enum {
	OLDEST_MAJOR = 5,
	OLDEST_MINOR = 13,  /* Landlock */
	FDS_PER_BOX = 4,    /* descriptors that the keeper holds */
	BOXES_WANTED = 500, /* where a server begins to be cramped */
	BOX_INSTANCES = 16, /* inotify, as every box may have */
	BOX_WATCHES = 8192,
	FREE_DISK = 64 << 20,
};

/* --- who and where ------------------------------------------------------------------------------ */

void check_caller(const struct machine *m, const struct check *c, struct finding *f)
{
	(void)c;
	if (m->privileged && m->outer)
		found(f, CHECK_OK, "root");
	else if (m->privileged)
		found(f, CHECK_OK, "root of a user namespace");
	else if (m->may_map)
		found(f, CHECK_OK, "root without CAP_SYS_ADMIN, as in a container");
	else if (m->root)
		found(f, CHECK_OK, "root without its capabilities: treated as an ordinary user");
	else
		found(f, CHECK_OK, "an ordinary user (uid %u)", m->uid);
}

static bool is_init(const char *name)
{
	static const char *const names[] = { "systemd", "init", "openrc-init", "runit",
					     "s6-svscan" };

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

void check_container(const struct machine *m, const struct check *c, struct finding *f)
{
	char name[64] = "";

	(void)c;
	(void)io_read_text(AT_FDCWD, "/proc/1/comm", name, sizeof(name));
	if (m->container != NULL) {
		found(f, CHECK_NOTE, "this looks like one of %s (%s%s%s); process 1 is '%s'",
		      m->container->name, m->seen_by,
		      strchr(m->seen_by, ' ') == NULL ? " is there" : "",
		      m->seccomp ? "; a seccomp filter is on" : "", name);
		return;
	}
	found(f, CHECK_OK, "none is seen; process 1 is '%s'%s", name,
	      is_init(name) ? "" : ", which is no init that we know");
}

void check_kernel(const struct machine *m, const struct check *c, struct finding *f)
{
	char a[8], b[8];
	uint64_t major, minor;
	struct utsname u;

	(void)m, (void)c;
	if (uname(&u) < 0 || sscanf(u.release, "%7[0-9].%7[0-9]", a, b) != 2 ||
	    str_to_u64(a, UINT32_MAX, &major) < 0 || str_to_u64(b, UINT32_MAX, &minor) < 0)
		found(f, CHECK_NOTE, "its version cannot be told");
	else if (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR))
		found(f, CHECK_NOTE, "Linux %s on %s is older than %d.%d, which boxes need",
		      u.release, u.machine, OLDEST_MAJOR, OLDEST_MINOR);
	else
		found(f, CHECK_OK, "Linux %s on %s", u.release, u.machine);
}

/* --- limits ------------------------------------------------------------------------------------- */

void check_oom_shield(const struct machine *m, const struct check *c, struct finding *f)
{
	(void)c;
	if (m->made ? (m->box.layers & LAYER_BIT(LAYER_INIT_SHIELD)) != 0
		    : machine_has_cap(m, CAP_SYS_RESOURCE) && m->outer) {
		found(f, CHECK_OK, "out of memory takes the init of a box last");
		return;
	}
	found(f, CHECK_NOTE, "out of memory may take the init of a box, and the box with it: %s",
	      machine_has_cap(m, CAP_SYS_RESOURCE) && m->outer
		      ? "its oom_score_adj could not be lowered"
		      : "lowering its oom_score_adj takes CAP_SYS_RESOURCE of the host");
	if (!m->root)
		fix_by(f, "sudo %.300s doctor", m->exe);
	else if (m->container != NULL && !machine_has_cap(m, CAP_SYS_RESOURCE))
		fix_by(f, "start the container with CAP_SYS_RESOURCE: docker and podman run "
			  "--cap-add SYS_RESOURCE, Kubernetes securityContext: {capabilities: "
			  "{add: [SYS_RESOURCE]}}");
}

void check_rlimits(const struct machine *m, const struct check *c, struct finding *f)
{
	uint64_t need = limit_row(LIMIT_OPEN_FILES)->def;
	struct rlimit l = { 0 };

	(void)m, (void)c;
	(void)getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < need)
		found(f, CHECK_NOTE,
		      "at most %llu open files: programs in a box get that, not the default %llu",
		      (unsigned long long)l.rlim_max, (unsigned long long)need);
	else if (l.rlim_max / FDS_PER_BOX < BOXES_WANTED)
		found(f, CHECK_NOTE, "at most %llu open files: enough for about %llu boxes at once",
		      (unsigned long long)l.rlim_max, (unsigned long long)l.rlim_max / FDS_PER_BOX);
	else
		found(f, CHECK_OK, "at most %llu at once", (unsigned long long)l.rlim_max);
	if (f->status != CHECK_OK)
		fix_by(f, "sudo prlimit --pid $$ --nofile=65536:65536");
}

void check_pid_max(const struct machine *m, const struct check *c, struct finding *f)
{
	uint64_t max = sysctl_u64("kernel/pid_max", 32768);
	uint64_t each = limit_row(LIMIT_PROCESSES)->def + 1;
	bool few = max / each < BOXES_WANTED;

	(void)m, (void)c;
	found(f, few ? CHECK_NOTE : CHECK_OK,
	      "kernel.pid_max is %llu: %llu boxes with all of their %llu processes%s",
	      (unsigned long long)max, (unsigned long long)(max / each), (unsigned long long)each,
	      few ? " would leave the machine none" : " fit");
}

void check_inotify(const struct machine *m, const struct check *c, struct finding *f)
{
	uint64_t instances = sysctl_u64("fs/inotify/max_user_instances", 0);
	uint64_t watches = sysctl_u64("fs/inotify/max_user_watches", 0);
	bool few = instances < BOX_INSTANCES || watches < BOX_WATCHES;

	(void)m, (void)c;
	found(f, few ? CHECK_NOTE : CHECK_OK,
	      "%llu instances and %llu watches per user; a box may have %d and %d",
	      (unsigned long long)instances, (unsigned long long)watches, BOX_INSTANCES,
	      BOX_WATCHES);
}

void check_overcommit(const struct machine *m, const struct check *c, struct finding *f)
{
	uint64_t how = sysctl_u64("vm/overcommit_memory", 0);

	(void)m, (void)c;
	if (how == 2)
		found(f, CHECK_NOTE,
		      "vm.overcommit_memory is 2: programs that fork while they are large fail");
	else
		found(f, CHECK_OK, "vm.overcommit_memory is %llu", (unsigned long long)how);
}

void check_memory(const struct machine *m, const struct check *c, struct finding *f)
{
	uint64_t free_now = meminfo_bytes("MemAvailable"), limit = limit_row(LIMIT_MEMORY)->def;
	char a[32], b[32];

	(void)m, (void)c;
	found(f, free_now < limit ? CHECK_NOTE : CHECK_OK, "%s; a box may use %s",
	      str_from_bytes(free_now, a, sizeof(a)), str_from_bytes(limit, b, sizeof(b)));
	if (f->status != CHECK_OK)
		fix_by(f, "glovebox run --memory 256M ...");
}

void check_disk(const struct machine *m, const struct check *c, struct finding *f)
{
	struct statvfs fs;
	uint64_t bytes;
	char a[32];

	(void)m, (void)c;
	if (statvfs("/tmp", &fs) < 0) {
		found(f, CHECK_NOTE, "/tmp cannot be looked at");
		return;
	}
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	found(f, bytes < FREE_DISK ? CHECK_NOTE : CHECK_OK, "%s in /tmp; boxes live in memory",
	      str_from_bytes(bytes, a, sizeof(a)));
	if (f->status != CHECK_OK)
		fix_by(f, "sudo du -xsh /tmp/* | sort -h | tail");
}

/* --- Python ------------------------------------------------------------------------------------- */

void check_python(const struct machine *m, const struct check *c, struct finding *f)
{
	(void)c;
	if (m->python[0] != '\0')
		found(f, CHECK_OK, "/usr/bin/python3 is %s", m->python);
	else
		found(f, CHECK_MISSING,
		      "/usr/bin/python3 is not there or does not run: boxes run shell scripts "
		      "only");
}

static void list_missing(uint64_t set, bool debs, char *buf, size_t size)
{
	unsigned int count;
	const struct package *rows = python_packages(&count);
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < count && n < size; i++)
		if ((set & (uint64_t)1 << i) != 0)
			n += (size_t)snprintf(buf + n, size - n, "%s%s",
					      n == 0 ? ""
					      : debs ? " "
						     : ", ",
					      debs ? rows[i].deb : rows[i].module);
}

void check_packages(const struct machine *m, const struct check *c, struct finding *f)
{
	char names[256], debs[400];

	(void)c;
	if (m->python[0] == '\0') {
		found(f, CHECK_NOTE, "cannot be told without Python");
		f->untried = true;
		return;
	}
	if (m->no_package == 0) {
		found(f, CHECK_OK, "the usual ones can be imported in a box");
		return;
	}
	list_missing(m->no_package, false, names, sizeof(names));
	list_missing(m->no_package, true, debs, sizeof(debs));
	found(f, CHECK_NOTE, "boxes cannot import %s", names);
	fix_by(f, "sudo apt install %s", debs);
}
