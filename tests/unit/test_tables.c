/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks every table: policy/ (all but syscalls.tbl, which its generator checks row by row) and src/wire/. What
 * a table promises in its head is checked here, so that a new row which breaks it does not get far.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/layers.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "keeper/steps.h"
#include "wire/chan.h"
#include "wire/fileop.h"
#include "wire/frame.h"
#include "wire/job.h"
#include "wire/ops.h"
#include "wire/plan.h"
#include "wire/rlimits.h"

#include "test_help.h"

/* --- what all rows have in common --------------------------------------------------------------------------- */

/* A line for a reader: there, on one line, printable, no full stop. */
static void check_doc(const char *name, const char *doc)
{
	size_t n = strlen(doc);

	if (n < 3 || doc[n - 1] == '.' || doc[n - 1] == ' ' || doc[0] == ' ')
		test_fail(__FILE__, __LINE__, "'%s' is badly documented: \"%s\"", name, doc);
	for (size_t i = 0; i < n; i++)
		CHECK((unsigned char)doc[i] >= 0x20 && doc[i] != 0x7f);
}

/* A name made of lower-case letters, digits and one kind of dash, none at an end. */
static void check_name(const char *name, char dash)
{
	size_t n = strlen(name);

	if (n == 0 || name[0] == dash || name[n - 1] == dash)
		test_fail(__FILE__, __LINE__, "bad name '%s'", name);
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
		    name[i] != dash)
			test_fail(__FILE__, __LINE__, "bad name '%s'", name);
	test_count();
}

static void check_differ(const char *a, const char *b)
{
	if (strcmp(a, b) == 0)
		test_fail(__FILE__, __LINE__, "'%s' is there twice", a);
	test_count();
}

/* --- policy/limits.tbl -------------------------------------------------------------------------------------- */

TEST(table_limits)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);

		check_name(row->key, '_');
		check_name(row->option, '-');
		check_doc(row->key, row->doc);
		CHECK(row->unit <= LIMIT_SECONDS);
		if (row->min > row->def || row->def > row->max || row->min >= row->max)
			test_fail(__FILE__, __LINE__, "the bounds of '%s' are not in order",
				  row->key);
		/* What a parser can take at all, see str_to_bytes(). */
		CHECK(row->max <= INT64_MAX);
		/* The key of an amount of bytes or seconds says so. */
		if (row->unit == LIMIT_BYTES)
			CHECK(strstr(row->key, "_bytes") != NULL);
		if (row->unit == LIMIT_SECONDS)
			CHECK(strstr(row->key, "seconds") != NULL);
		for (unsigned int k = 0; k < i; k++) {
			check_differ(row->key, limit_row((enum limit_id)k)->key);
			check_differ(row->option, limit_row((enum limit_id)k)->option);
		}
	}
}

/* --- policy/layers.tbl -------------------------------------------------------------------------------------- */

TEST(table_layers)
{
	uint64_t by_need[LAYER_EXTRA + 1] = { 0 };

	for (int i = 0; i < LAYER_MAX; i++) {
		const struct layer_row *row = layer_row((enum layer)i);

		check_name(row->name, '-');
		check_doc(row->name, row->doc);
		CHECK_EQ_INT(layer_find(row->name), i); /* so no name is there twice */
		CHECK(row->need <= LAYER_EXTRA);
		by_need[row->need] |= LAYER_BIT(i);
	}
	for (unsigned int need = 0; need <= LAYER_EXTRA; need++) {
		CHECK(by_need[need] != 0);
		CHECK(layers_of((enum layer_need)need) == by_need[need]);
	}
	CHECK_EQ_INT(layer_find("no-such-layer"), -1);
	CHECK_EQ_INT(layer_find(""), -1);
}

/* What Glovebox promises everywhere. A machine may lack one; the table may not stop asking for it. */
TEST(table_layers_asks_for_what_is_promised)
{
	static const enum layer promised[] = {
		LAYER_USER_NS,  LAYER_OWN_UIDS,    LAYER_PID_NS,         LAYER_MOUNT_NS,
		LAYER_NET_NS,   LAYER_IPC_NS,      LAYER_UTS_NS,         LAYER_CGROUP_NS,
		LAYER_PROC,     LAYER_MASKED_PROC, LAYER_READ_ONLY_ROOT, LAYER_DEVICES,
		LAYER_SESSION,  LAYER_COUNTERS,    LAYER_RLIMITS,        LAYER_NO_CAPS,
		LAYER_LANDLOCK, LAYER_SECCOMP,     LAYER_NO_NEW_PRIVS,   LAYER_MEMORY,
		LAYER_CPU,      LAYER_PROCESSES,
	};
	/* Without these what is left is no box, whoever asks. */
	static const enum layer always[] = {
		LAYER_USER_NS, LAYER_PID_NS,       LAYER_MOUNT_NS,
		LAYER_NET_NS,  LAYER_IPC_NS,       LAYER_READ_ONLY_ROOT,
		LAYER_NO_CAPS, LAYER_NO_NEW_PRIVS, LAYER_DEVICES,
	};

	for (size_t i = 0; i < ARRAY_LEN(promised); i++)
		if (layer_row(promised[i])->need == LAYER_EXTRA)
			test_fail(__FILE__, __LINE__, "'%s' is not required any more",
				  layer_row(promised[i])->name);
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		CHECK_EQ_INT(layer_row(always[i])->need, LAYER_ALWAYS);
}

/* --- policy/plan.tbl ---------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum layer layer;
	const char *doc;
} plan[] = {
#define STEP(id, layer, doc) { #id, LAYER_##layer, doc },
#include "policy/plan.tbl"
#undef STEP
};

TEST(table_plan)
{
	CHECK_EQ_INT(ARRAY_LEN(plan), PLAN_STEPS);
	for (unsigned int i = 0; i < PLAN_STEPS; i++) {
		check_name(plan[i].name, '_');
		check_doc(plan[i].name, plan[i].doc);
		CHECK(plan[i].layer < LAYER_MAX);
		CHECK_STR(plan_step_str(i), plan[i].name);
		for (unsigned int k = 0; k < i; k++)
			check_differ(plan[i].name, plan[k].name);
	}
	CHECK_STR(plan_step_str(PLAN_STEPS), "?");
	CHECK_STR(plan_step_str(~0u), "?");
}

/* Some of the order is what makes a box safe. */
TEST(table_plan_is_in_a_safe_order)
{
	static const struct {
		enum plan_step first, then;
	} order[] = {
		{ STEP_ids_wait, STEP_box_root },       /* nobody before the ids are mapped */
		{ STEP_cgroup_join, STEP_cgroup_ns },   /* the namespace's root is the box's own */
		{ STEP_mounts_private, STEP_root_new }, /* no mount travels out */
		{ STEP_sources, STEP_pivot },           /* the host is still there */
		{ STEP_proc, STEP_masks },              /* what is covered must be there */
		{ STEP_masks, STEP_pivot },
		{ STEP_host_mounts, STEP_pivot },
		{ STEP_pivot, STEP_tools_socket }, /* a place of the box, not of the host */
		{ STEP_tools_socket, STEP_root_read_only },
		{ STEP_pivot, STEP_root_read_only },
		{ STEP_counters, STEP_creds },       /* needs capabilities */
		{ STEP_root_read_only, STEP_creds }, /* so do these */
		{ STEP_bounding, STEP_creds },
		{ STEP_loopback, STEP_ports },      /* there is no address before */
		{ STEP_ports, STEP_seccomp },       /* nobody of the box was there before */
		{ STEP_landlock, STEP_seccomp },    /* the filter refuses what it takes */
		{ STEP_descriptors, STEP_seccomp }, /* no descriptor of the host behind it */
	};

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (order[i].first >= order[i].then)
			test_fail(__FILE__, __LINE__, "step '%s' must come before '%s'",
				  plan_step_str(order[i].first), plan_step_str(order[i].then));
	CHECK_EQ_INT(STEP_ids_wait, 0);
	CHECK_EQ_INT(STEP_exec, PLAN_STEPS - 1);
	/* Behind the filter there is giving up privileges and becoming init, and nothing else. */
	for (unsigned int i = STEP_seccomp + 1; i < STEP_exec; i++)
		CHECK_EQ_INT(i, STEP_creds);
}

/* --- src/wire/frames.tbl ------------------------------------------------------------------------------------ */

TEST(table_frames)
{
	CHECK(frame_row(FRAME_NONE) == NULL);
	CHECK(frame_row(FRAME_TYPE_MAX) == NULL);
	CHECK(frame_row(UINT16_MAX) == NULL);
	CHECK(frame_row(~0u) == NULL);
	for (unsigned int i = FRAME_NONE + 1; i < FRAME_TYPE_MAX; i++) {
		const struct frame_row *row = frame_row(i);

		CHECK(row != NULL && row->name != NULL);
		check_doc(row->name, row->doc);
		CHECK(row->dir != 0);
		CHECK_EQ_INT(row->dir & ~(unsigned int)(FRAME_TO_BOX | FRAME_FROM_BOX), 0);
		CHECK(row->min <= row->max);
		CHECK(row->max <= FRAME_PAYLOAD_MAX);
		for (unsigned int k = FRAME_NONE + 1; k < i; k++)
			check_differ(row->name, frame_row(k)->name);
	}
}

/* The bounds of a row let through what its writer can write. */
TEST(table_frames_fits_what_is_sent)
{
	static const char *const argv[] = { "", NULL }, *const none[] = { NULL };
	const struct job_spec spec = { .cwd = "", .argv = argv, .envp = none };
	struct job_exit x = { .how = JOB_FAILED };
	struct limits l;
	uint8_t buf[512];

	CHECK(job_spec_encode(&spec, buf, sizeof(buf)) >= (ptrdiff_t)frame_row(FRAME_RUN)->min);
	CHECK_EQ_INT(job_exit_encode(&x, buf, sizeof(buf)), frame_row(FRAME_EXIT)->min);
	memset(x.stage, 's', sizeof(x.stage) - 1);
	CHECK(job_exit_encode(&x, buf, sizeof(buf)) <= (ptrdiff_t)frame_row(FRAME_EXIT)->max);
	CHECK_EQ_INT(frame_row(FRAME_HELLO)->dir, FRAME_TO_BOX | FRAME_FROM_BOX);
	limits_init(&l);
	CHECK_EQ_INT(rlimits_encode(&l, buf, sizeof(buf)), frame_row(FRAME_LIMITS)->min);
	CHECK_EQ_INT(frame_row(FRAME_LIMITS)->min, frame_row(FRAME_LIMITS)->max);
}

/* --- src/wire/fileops.tbl ----------------------------------------------------------------------------------- */

TEST(table_fileops)
{
	for (unsigned int i = 0; i < FILEOP_MAX; i++) {
		const struct fileop_row *row = fileop_row((enum fileop)i);

		check_name(row->name, '-');
		check_doc(row->name, row->doc);
		CHECK(row->min <= row->max && row->max <= 5);
		for (unsigned int k = 0; k < i; k++)
			check_differ(row->name, fileop_row((enum fileop)k)->name);
	}
}

/* --- src/wire/ops.tbl --------------------------------------------------------------------------------------- */

TEST(table_ops)
{
	enum { ST_HELLO = 1, ST_READY = 2 };
	static const struct {
		const char *name;
		unsigned int states;
		size_t min, max;
		unsigned int fds;
		const char *doc;
	} ops[] = {
#define OP(id, state, min, max, fds, doc) { #id, state, min, max, fds, doc },
#include "wire/ops.tbl"
#undef OP
	};

	CHECK_EQ_INT(ARRAY_LEN(ops), OP_TYPE_MAX - 1);
	CHECK((int)OP_TYPE_MAX < (int)REPLY_OK);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		check_doc(ops[i].name, ops[i].doc);
		CHECK(ops[i].min <= ops[i].max);
		CHECK(ops[i].max <= CHAN_MAX - CHAN_HEADER);
		CHECK(ops[i].fds <= CHAN_FDS);
		/* Before HELLO there is HELLO and nothing else; HELLO comes once. */
		CHECK_EQ_INT(ops[i].states,
			     strcmp(ops[i].name, "HELLO") == 0 ? ST_HELLO : ST_READY);
		if (strcmp(ops[i].name, "BOX_RECORD") == 0)
			CHECK_EQ_INT(ops[i].max, 8 + 4 + BOX_RECORD_MAX);
		if (strcmp(ops[i].name, "BOX_LIMITS") == 0)
			CHECK(ops[i].min == ops[i].max && ops[i].max == 8 + 2 + 8 * LIMIT_ID_MAX);
		for (size_t k = 0; k < i; k++)
			check_differ(ops[i].name, ops[k].name);
	}
	/* The longest answers fit a message. */
	CHECK(BOX_INFO_BYTES + 4 + BOX_RECORD_MAX <= CHAN_MAX - CHAN_HEADER);
	CHECK(4 + 4 + 4 + ERR_TEXT + 4 + ERR_HINT <= CHAN_MAX - CHAN_HEADER);
}

/* --- policy/root.tbl ---------------------------------------------------------------------------------------- */

enum root_kind { SHOW, DIR_, LINK, FILE_, WRITE, ALSO };
#define KIND_SHOW  SHOW
#define KIND_DIR   DIR_
#define KIND_LINK  LINK
#define KIND_FILE  FILE_
#define KIND_WRITE WRITE
#define KIND_ALSO  ALSO

static const struct {
	enum root_kind kind;
	const char *at, *what;
} root[] = {
#define ROOT(kind, at, what) { KIND_##kind, at, what },
#include "policy/root.tbl"
#undef ROOT
};

static int root_find(const char *at, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(root); i++)
		if (strlen(root[i].at) == n && memcmp(root[i].at, at, n) == 0)
			return (int)i;
	return -1;
}

TEST(table_root_is_absolute_unique_and_in_order)
{
	for (size_t i = 0; i < ARRAY_LEN(root); i++) {
		const char *at = root[i].at;
		size_t parent = (size_t)(strrchr(at, '/') - at);

		if (!path_is_plain_abs(at))
			test_fail(__FILE__, __LINE__, "'%s' is not plain and absolute", at);
		CHECK_EQ_INT(root_find(at, strlen(at)), i); /* so it is there once */
		if (parent > 0) {
			int p = root_find(at, parent);

			if (p < 0 || (size_t)p >= i)
				test_fail(__FILE__, __LINE__, "'%s' comes before its directory",
					  at);
			/* In what is shown of the host nothing can be made, and a link may lead away. */
			if (root[p].kind != DIR_ && root[p].kind != WRITE)
				test_fail(__FILE__, __LINE__, "'%s' lies in '%s', which is no DIR",
					  at, root[p].at);
		}
	}
}

TEST(table_root_says_what_fits_the_kind)
{
	for (size_t i = 0; i < ARRAY_LEN(root); i++) {
		const char *what = root[i].what;

		switch (root[i].kind) {
		case SHOW:
			CHECK(path_is_plain_abs(what));
			CHECK_STR(what, root[i].at);
			break;
		case DIR_:
			CHECK_STR(what, "");
			break;
		case LINK:
			CHECK(what[0] != '\0' &&
			      strlen(what) < sizeof(((struct work *)0)->link[0]));
			break;
		case FILE_:
			CHECK(what[0] == '\0' || what[strlen(what) - 1] == '\n');
			break;
		case WRITE:
			CHECK(strcmp(what, "workspace") == 0 || strcmp(what, "scratch") == 0 ||
			      strcmp(what, "shm") == 0);
			break;
		case ALSO: {
			int of = root_find(what, strlen(what));

			CHECK(of >= 0 && (size_t)of < i && root[of].kind == WRITE);
			break;
		}
		}
	}
}

/* A row more is a decision about what a hostile program may read: it is made here a second time. */
TEST(table_root_shows_nothing_private)
{
	static const char *const allowed[] = { "/usr", "/bin", "/sbin", "/lib", "/etc/" };
	static const char *const never[] = {
		"/etc/shadow",      "/etc/gshadow",     "/etc/sudoers",     "/etc/ssh",
		"/etc/ssl/private", "/etc/passwd",      "/etc/machine-id",  "/etc/hosts",
		"/etc/hostname",    "/etc/resolv.conf", "/etc/krb5.keytab",
	};

	for (size_t i = 0; i < ARRAY_LEN(root); i++) {
		bool good = false;

		if (root[i].kind != SHOW)
			continue;
		for (size_t k = 0; k < ARRAY_LEN(allowed); k++)
			good |= strncmp(root[i].what, allowed[k], strlen(allowed[k])) == 0;
		for (size_t k = 0; k < ARRAY_LEN(never); k++)
			good &= strcmp(root[i].what, never[k]) != 0;
		if (!good)
			test_fail(__FILE__, __LINE__, "'%s' of the host is shown", root[i].what);
		test_count();
	}
}

/* --- policy/masked.tbl -------------------------------------------------------------------------------------- */

TEST(table_masked)
{
	enum mask_how { COVER_FILE, COVER_DIR, READ_ONLY };
	static const struct {
		enum mask_how how;
		const char *path, *why;
	} masks[] = {
#define MASK(how, path, why) { how, path, why },
#include "policy/masked.tbl"
#undef MASK
	};

	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		if (!path_is_plain(masks[i].path)) /* relative to /proc */
			test_fail(__FILE__, __LINE__, "'%s' is not plain", masks[i].path);
		check_doc(masks[i].path, masks[i].why);
		for (size_t k = 0; k < ARRAY_LEN(masks); k++) {
			size_t n = strlen(masks[k].path);

			if (k == i || strncmp(masks[i].path, masks[k].path, n) != 0)
				continue;
			if (k < i)
				check_differ(masks[i].path, masks[k].path);
			/* Below a covered directory there is nothing to cover; below a read-only one
			 * the cover comes second, or it would be shown through. */
			if (masks[i].path[n] == '/')
				CHECK(k < i && masks[k].how == READ_ONLY);
		}
	}
}

/* --- policy/devices.tbl ------------------------------------------------------------------------------------- */

TEST(table_devices)
{
	static const struct {
		const char *name;
		unsigned int major, minor;
	} devices[] = {
#define DEVICE(name, major, minor) { name, major, minor },
#include "policy/devices.tbl"
#undef DEVICE
	};

	CHECK(ARRAY_LEN(devices) <= ARRAY_LEN(((struct work *)0)->device_fd));
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		char path[64];
		struct stat st;

		check_name(devices[i].name, '-');
		(void)snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
		CHECK_EQ_INT(root_find(path, strlen(path)), -1);
		/* Of the memory devices null, zero, full, random, urandom; of terminals, one's own. */
		CHECK((devices[i].major == 1 &&
		       (devices[i].minor == 3 || devices[i].minor == 5 ||
			(devices[i].minor >= 7 && devices[i].minor <= 9))) ||
		      (devices[i].major == 5 && devices[i].minor == 0));
		if (stat(path, &st) == 0 && S_ISCHR(st.st_mode)) {
			CHECK_EQ_INT(major(st.st_rdev), devices[i].major);
			CHECK_EQ_INT(minor(st.st_rdev), devices[i].minor);
		}
		for (size_t k = 0; k < i; k++) {
			check_differ(devices[i].name, devices[k].name);
			CHECK(devices[i].major != devices[k].major ||
			      devices[i].minor != devices[k].minor);
		}
	}
}

/* --- policy/environment.tbl --------------------------------------------------------------------------------- */

static void check_writable(const char *path)
{
	int i = root_find(path, strlen(path));

	if (i < 0 || root[i].kind != WRITE)
		test_fail(__FILE__, __LINE__, "'%s' is no WRITE row of root.tbl", path);
	test_count();
}

TEST(table_environment)
{
	static const struct {
		const char *name, *value;
	} env[] = {
#define ENV(name, value) { name, value },
#include "policy/environment.tbl"
#undef ENV
	};

	for (size_t i = 0; i < ARRAY_LEN(env); i++) {
		CHECK(env[i].name[0] != '\0' && env[i].value[0] != '\0');
		for (const char *c = env[i].name; *c != '\0'; c++)
			CHECK(isupper((unsigned char)*c) || *c == '_');
		if (strcmp(env[i].name, "HOME") == 0 || strcmp(env[i].name, "TMPDIR") == 0)
			check_writable(env[i].value);
		if (strcmp(env[i].name, "PATH") == 0)
			CHECK(env[i].value[0] == '/' && strstr(env[i].value, "::") == NULL &&
			      strstr(env[i].value, ":.") == NULL);
		for (size_t k = 0; k < i; k++)
			check_differ(env[i].name, env[k].name);
	}
}
