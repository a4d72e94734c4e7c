// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox doctor`: every layer of a box, what this machine has for it, and the command that gets
 * what it lacks.
 *
 * Phases: look at the machine, make a real box by the same way as `glovebox run`, go through the
 * table of checks, report. The box decides the exit status: checks explain, they do not judge. A
 * required layer that a box lacks makes the keeper refuse it, so a box that was made has them all.
 */
#include "cli/doctor.h"

#include "base/own.h"
#include "cli/keeper_client.h"
#include "cli/opts.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_NO_BOX = 1 };

#define L(id)         LAYER_BIT(LAYER_##id)
#define FIX_SYSCTL(s) "sudo sysctl -w " s

/* clang-format off */
static const struct check checks[] = {
	/* section        name                  needed for                      how                   argument         fix */
	{ "this machine", "caller",             0,                              check_caller,         0,               NULL },
	{ "this machine", "container",          0,                              check_container,      0,               NULL },
	{ "this machine", "kernel",             0,                              check_kernel,         0,               FIX_KERNEL },
	{ "namespaces",   "user-namespace",     L(USER_NS),                     check_user_namespace, 0,               NULL },
	{ "namespaces",   "pid-namespace",      L(PID_NS),                      check_namespace,      CLONE_NEWPID,    FIX_KERNEL },
	{ "namespaces",   "mount-namespace",    L(MOUNT_NS),                    check_namespace,      CLONE_NEWNS,     FIX_KERNEL },
	{ "namespaces",   "network-namespace",  L(NET_NS),                      check_namespace,      CLONE_NEWNET,    FIX_KERNEL },
	{ "namespaces",   "ipc-namespace",      L(IPC_NS),                      check_namespace,      CLONE_NEWIPC,    FIX_KERNEL },
	{ "namespaces",   "uts-namespace",      L(UTS_NS),                      check_namespace,      CLONE_NEWUTS,    FIX_KERNEL },
	{ "namespaces",   "cgroup-namespace",   L(CGROUP_NS),                   check_namespace,      CLONE_NEWCGROUP, FIX_KERNEL },
	{ "namespaces",   "namespace-counters", L(COUNTERS),                    check_counters,       0,               FIX_KERNEL },
	{ "users",        "own-uids",           L(OWN_UIDS),                    check_own_uids,       0,               NULL },
	{ "users",        "own-session",        L(SESSION),                     check_session,        0,               FIX_KERNEL },
	{ "files",        "mounts",             L(MOUNT_NS) | L(READ_ONLY_ROOT), check_mounts,        0,               FIX_KERNEL },
	{ "files",        "own-proc",           L(PROC) | L(MASKED_PROC),       check_own_proc,       0,               NULL },
	{ "files",        "devices",            L(DEVICES),                     check_devices,        0,               NULL },
	{ "files",        "idmapped-mounts",    0,                              check_idmapped,       0,               NULL },
	{ "files",        "overlayfs",          L(OWN_INODES),                              check_overlay,        0,               "sudo modprobe overlay" },
	{ "fences",       "no-capabilities",    L(NO_CAPS),                     check_no_caps,        0,               FIX_KERNEL },
	{ "fences",       "no-new-privs",       L(NO_NEW_PRIVS),                check_nnp,            0,               FIX_KERNEL },
	{ "fences",       "seccomp",            L(SECCOMP),                     check_seccomp,        0,               FIX_KERNEL },
	{ "fences",       "landlock",           L(LANDLOCK),                    check_landlock,       0,               FIX_KERNEL },
	{ "fences",       "landlock-scope",     L(LANDLOCK_SCOPE),              check_landlock_scope, 0,               FIX_KERNEL },
	{ "fences",       "memory-files",       0,                              check_memory_file,    0,               FIX_SYSCTL("vm.memfd_noexec=0") },
	{ "limits",       "cgroup",             L(MEMORY) | L(PROCESSES) | L(CPU), check_cgroup,      0,               NULL },
	{ "limits",       "swap",               L(MEMORY),                      check_swap,           0,               FIX_PARAMETER("swapaccount=1") },
	{ "limits",       "init-oom-shield",    L(INIT_SHIELD),                 check_oom_shield,     0,               NULL },
	{ "limits",       "open-files",         L(RLIMITS),                     check_rlimits,        0,               NULL },
	{ "limits",       "pid-max",            L(PROCESSES),                   check_pid_max,        0,               FIX_SYSCTL("kernel.pid_max=4194304") },
	{ "limits",       "inotify",            L(COUNTERS),                    check_inotify,        0,               FIX_SYSCTL("fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288") },
	{ "limits",       "overcommit",         0,                              check_overcommit,     0,               FIX_SYSCTL("vm.overcommit_memory=0") },
	{ "limits",       "free-memory",        0,                              check_memory,         0,               NULL },
	{ "limits",       "free-disk",          0,                              check_disk,           0,               NULL },
	{ "programs",     "python",             0,                              check_python,         0,               "sudo apt install python3" },
	{ "programs",     "python-packages",    0,                              check_packages,       0,               NULL },
	{ "programs",     "nftables",           0,                              check_nft,            0,               "sudo modprobe nf_tables" },
};
/* clang-format on */

struct request {
	bool json, help;
};

static int take_json(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct request *)ctx)->json = true;
	return 0;
}

static int take_help(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct request *)ctx)->help = true;
	return 0;
}

static const struct opt options[] = {
	{ "json", 0, OPT_NO_ARG, NULL, "one JSON object on stdout", take_json, NULL },
	{ "help", 'h', OPT_NO_ARG, NULL, "this text", take_help, NULL },
};

static void help(void)
{
	(void)printf("usage: glovebox doctor [options]\n\n"
		     "Says layer by layer what this machine has for a box and how to get what it "
		     "lacks, then makes\n"
		     "one. Nothing is changed. `missing` stands in the way of a box, `note` does "
		     "not. What sysctl\n"
		     "sets is lost at the next boot unless it is also written to a file in "
		     "/etc/sysctl.d.\n\n");
	opts_help(options, ARRAY_LEN(options), stdout);
	(void)printf("\nexit status: 0 when a box with every required layer can be made, 1 when it "
		     "cannot, 125 when\n"
		     "Glovebox itself failed or was called wrongly.\n");
}

/* A box as `glovebox run` makes it, with the default limits and nothing waived. */
static int make_box(struct keeper_client *k, struct box_info *info, struct err *e)
{
	static struct box_request q;
	struct box_figures unused;
	int stream = -1;

	limits_init(&q.limits);
	if (keeper_box_new(k, &q, info, &stream, e) < 0)
		return -1;
	(void)close(stream);
	return keeper_box_end(k, info->box, &unused, e);
}

static void try_box(struct machine *m)
{
	const char *const args[] = { NULL };
	struct keeper_client k;

	m->made = keeper_start(&k, args, &m->error) == 0 && make_box(&k, &m->box, &m->error) == 0;
	keeper_stop(&k);
}

static void fix_by_row(const struct check *c, struct finding *f)
{
	if (strcmp(c->fix, FIX_KERNEL) == 0)
		fix_kernel(f);
	else
		fix_by(f, "%s", c->fix);
}

static void go_through(const struct machine *m, struct finding *results)
{
	for (unsigned int i = 0; i < ARRAY_LEN(checks); i++) {
		struct finding *f = &results[i];

		checks[i].run(m, &checks[i], f);
		if (f->status == CHECK_OK)
			f->fix[0] = '\0';
		else if (f->fix[0] == '\0' && checks[i].fix != NULL && !f->untried)
			fix_by_row(&checks[i], f);
	}
}

static int doctor_opts(struct request *q, int argc, char **argv, struct err *e)
{
	int at = opts_parse(options, ARRAY_LEN(options), argc, argv, q, e);

	if (at < 0)
		return -1;
	if (at < argc) {
		(void)err_set(e, ERR_USAGE, 0, "doctor takes no argument '%s'", argv[at]);
		return err_hint(e, "--help lists the options");
	}
	return 0;
}

int verb_doctor(int argc, char **argv)
{
	static struct machine m;
	static struct finding results[ARRAY_LEN(checks)];
	struct request q = { 0 };
	struct err e = { .kind = ERR_NONE };

	if (doctor_opts(&q, argc, argv, &e) < 0)
		return say_err(&e);
	if (q.help) {
		help();
		return 0;
	}
	machine_look(&m);
	try_box(&m);
	go_through(&m, results);
	if (q.json)
		report_json(&m, checks, results, ARRAY_LEN(checks));
	else
		report_human(&m, checks, results, ARRAY_LEN(checks));
	if (fflush(stdout) != 0 || ferror(stdout) != 0) {
		(void)err_set(&e, ERR_SYS, errno, "write the report");
		return say_err(&e);
	}
	return m.made ? 0 : EXIT_NO_BOX;
}
