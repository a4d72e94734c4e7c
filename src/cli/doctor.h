/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox doctor`: what this machine offers, and how to get the rest.
 *
 * doctor.c has the table of checks and goes through it; doctor_machine.c finds out once what many
 * checks ask; doctor_probe.c tries things in a child; doctor_ns.c, _ids.c, _files.c, _fence.c,
 * _cgroup.c and _host.c are the checks by subject; doctor_report.c says what was found.
 *
 * A check looks and never changes anything: what has to be tried is tried in a child process.
 */
#pragma once

#include "base/err.h"
#include "base/layers.h"
#include "wire/ops.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum check_status {
	CHECK_OK,
	CHECK_NOTE,    /* worth knowing; a default box does without */
	CHECK_MISSING, /* a default box, or Python in it, does not do without */
	CHECK_STATUS_MAX,
};

const char *check_status_str(enum check_status s);

/* What a check found. A fresh one is ok and says nothing. */
struct finding {
	enum check_status status;
	char detail[512];
	char fix[1024]; /* "": that of the check's row */
	bool untried;   /* another check stands in the way, and says how to fix that */
};

/* How a container is to be started so that boxes can be made in it. */
struct container {
	const char *name;
	const char *seccomp; /* user namespaces are let through */
	const char *apparmor;
	const char *proc;   /* its /proc is whole */
	const char *cgroup; /* its cgroup can be written to */
};

/* Why a step in a child failed. */
struct probe {
	int error;   /* errno; 0: all went well */
	char at[64]; /* which step */
};

enum { PYTHON_VERSION_MAX = 32, PACKAGES_MAX = 64 };

/* What the checks share. */
struct machine {
	uid_t uid;
	bool root;       /* effective uid 0 */
	bool privileged; /* root as the keeper understands it: may map ids and make namespaces */
	bool may_map;    /* root that may at least map ids, as in a container */
	bool no_new_privs;
	bool seccomp;                      /* a filter is on us already */
	uint64_t caps;                     /* effective capabilities */
	bool outer;                        /* in the first user namespace of the machine */
	const struct container *container; /* NULL: none that we know */
	char seen_by[64];                  /* how the container was recognised */
	char exe[PATH_MAX];                /* this program */
	struct probe userns;               /* can a user namespace be made */
	char python[PYTHON_VERSION_MAX];   /* version of /usr/bin/python3; "": none */
	uint64_t no_package;               /* bit i: package i of python_packages() is missing */
	/* the box that was really made */
	bool made;
	struct box_info box;
	struct err error; /* why not */
};

struct check;
typedef void check_fn(const struct machine *m, const struct check *c, struct finding *f);

struct check {
	const char *section;
	const char *name;
	uint64_t layers; /* what it is needed for */
	check_fn *run;
	unsigned long arg;
	const char *fix; /* for a problem without a more exact one; NULL: none */
};

/* doctor_report.c */
void report_human(const struct machine *m, const struct check *rows, const struct finding *results,
		  unsigned int n);
void report_json(const struct machine *m, const struct check *rows, const struct finding *results,
		 unsigned int n);
/* Fill a finding. */
void found(struct finding *f, enum check_status s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void fix_by(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* doctor_machine.c */
void machine_look(struct machine *m);
/* The number in a file of /proc/sys, or a default where there is none. */
uint64_t sysctl_u64(const char *name, uint64_t otherwise);
/* A line of /proc/meminfo; 0 where it is not there. */
uint64_t meminfo_bytes(const char *key);
/* The command that gets this distribution a newer kernel. */
void fix_kernel(struct finding *f);
/* Whether user namespaces stand in the way of a check; then it is filled. */
bool untried(const struct machine *m, struct finding *f);
bool machine_has_cap(const struct machine *m, unsigned int cap);
struct package {
	const char *module, *deb;
};
const struct package *python_packages(unsigned int *ret_n);

/* doctor_probe.c */
/* Run fn in a child with a deadline. fn returns 0 or -errno, and names its steps in p->at. */
struct probe probe_run(int (*fn)(struct probe *p, const void *arg), const void *arg);
/* For fn: name the step that comes now. */
void probe_at(struct probe *p, const char *step);
/* For fn: be root of a user namespace of its own, with further namespaces. 0 or -errno. */
int probe_namespace(struct probe *p, int flags);
/* For fn: go on in a child, which is the first process of a pid namespace just made. */
int probe_fork(struct probe *p, int (*fn)(struct probe *p, const void *arg), const void *arg);

/* The checks. */
check_fn check_caller, check_container, check_kernel, check_user_namespace, check_namespace,
	check_counters, check_own_uids, check_session, check_mounts, check_own_proc, check_devices,
	check_idmapped, check_overlay, check_no_caps, check_nnp, check_seccomp, check_landlock,
	check_landlock_scope, check_memory_file, check_cgroup, check_swap, check_oom_shield,
	check_rlimits, check_pid_max, check_inotify, check_overcommit, check_memory, check_disk,
	check_python, check_packages, check_nft;

/* A kernel parameter, on a machine that boots by GRUB. */
#define FIX_PARAMETER(text)                                                             \
	"sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&" text " /' /etc/default/grub && sudo " \
	"update-grub && sudo reboot"
/* In a row: fix_kernel() has the command. */
#define FIX_KERNEL "a newer kernel"
