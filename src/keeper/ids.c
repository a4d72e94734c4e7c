// SPDX-License-Identifier: Apache-2.0
/*
 * Which ids a box has on the host, and how an ordinary user comes to be able to give any.
 *
 * Root: ids far above those of people, containers and systemd's own ranges, or the top of the range
 * where root is itself root of a namespace. An ordinary user: a user namespace of our own in which
 * the caller is 0 and /etc/subuid's range follows, written by newuidmap(1); without that, the
 * caller's uid is all there is, every box has the same, and the layer own-uids is missing.
 *
 * A box's user namespace is created under the box's own id (clone3 with that effective uid): the
 * kernel charges inotify instances, message queues, pending signals and the like to whoever made
 * the namespace, and so no box can use up another's.
 */
#include "keeper/keeper.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	ROOT_BASE = 0x70000000, /* above systemd's container range, below the sign bit */
	ROOT_PER_SLOT = 8192,
	ROOT_SLOTS = 1024,
	SUB_PER_SLOT = 512,
};

enum {
	MAY_MAP = 1u << CAP_SETUID | 1u << CAP_SETGID,
	IS_ROOT = MAY_MAP | 1u << CAP_SYS_ADMIN, /* in the sense that matters */
};

static bool have_caps(uint32_t need)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	return geteuid() == 0 && syscall(SYS_capget, &h, d) == 0 && (d[0].effective & need) == need;
}

/* The first three numbers of a line. */
static int three_numbers(char *line, uint64_t v[3])
{
	char *save = NULL, *word = strtok_r(line, " \t", &save);

	for (unsigned int i = 0; i < 3; i++) {
		if (word == NULL || str_to_u64(word, UINT64_MAX, &v[i]) < 0)
			return -EINVAL;
		word = strtok_r(NULL, " \t", &save);
	}
	return 0;
}

/* The largest extent of a map file: first id as seen here, and how many. */
static int largest_extent(const char *path, uint64_t *ret_first, uint64_t *ret_count)
{
	char text[4096], *save = NULL;
	ssize_t n = io_read_text(AT_FDCWD, path, text, sizeof(text));
	uint64_t first = 0, count = 0;

	if (n < 0)
		return (int)n;
	for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save)) {
		uint64_t v[3]; /* id here, id outside, how many */

		if (three_numbers(l, v) == 0 && v[2] > count) {
			first = v[0];
			count = v[2];
		}
	}
	*ret_first = first;
	*ret_count = count;
	return 0;
}

static int use_mapped_range(struct ids *ids, struct err *e)
{
	uint64_t first = 0, count = 0, gfirst = 0, gcount = 0;
	int r = largest_extent("/proc/self/uid_map", &first, &count);

	if (r == 0)
		r = largest_extent("/proc/self/gid_map", &gfirst, &gcount);
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "read '/proc/self/uid_map'");
	ids->can_groups = true;
	if (first + count > (uint64_t)ROOT_BASE + (uint64_t)ROOT_PER_SLOT * ROOT_SLOTS &&
	    gfirst + gcount > (uint64_t)ROOT_BASE + (uint64_t)ROOT_PER_SLOT * ROOT_SLOTS) {
		ids->base = ROOT_BASE;
		ids->per_slot = ROOT_PER_SLOT;
		ids->slots = ROOT_SLOTS;
		return 0;
	}
	if (gcount < count)
		count = gcount;
	if (count >= 2 * SUB_PER_SLOT) { /* the upper half of what a container was given */
		ids->base = (uint32_t)(first + count / 2);
		ids->per_slot = SUB_PER_SLOT;
		ids->slots = (uint32_t)(count / 2 / SUB_PER_SLOT);
		return 0;
	}
	ids->single = true;
	ids->slots = ROOT_SLOTS;
	(void)snprintf(ids->why_single, sizeof(ids->why_single),
		       "only %llu ids are mapped in this user namespace",
		       (unsigned long long)count);
	return 0;
}

/* First and count of the caller's line in /etc/subuid or /etc/subgid. */
static int sub_range(const char *path, uid_t uid, uint64_t *ret_first, uint64_t *ret_count)
{
	const struct passwd *pw = getpwuid(uid);
	char name[64], line[256], number[16];
	FILE *f = fopen(path, "re");
	int r = -ENOENT;

	if (f == NULL)
		return -errno;
	(void)snprintf(name, sizeof(name), "%s", pw != NULL ? pw->pw_name : "");
	(void)snprintf(number, sizeof(number), "%u", uid);
	while (r < 0 && fgets(line, sizeof(line), f) != NULL) {
		char *first = strchr(line, ':'),
		     *count = first != NULL ? strchr(first + 1, ':') : NULL;

		if (count == NULL)
			continue;
		*first++ = '\0';
		*count++ = '\0';
		count[strcspn(count, "\n")] = '\0';
		if ((strcmp(line, name) == 0 || strcmp(line, number) == 0) &&
		    str_to_u64(first, UINT32_MAX, ret_first) == 0 &&
		    str_to_u64(count, UINT32_MAX, ret_count) == 0 && *ret_count >= 2 * SUB_PER_SLOT)
			r = 0;
	}
	(void)fclose(f);
	return r;
}

/* Run newuidmap or newgidmap on our parent. */
static int run_map_tool(const char *tool, pid_t target, unsigned int own, uint64_t first,
			uint64_t count)
{
	char pid[16], id[16], f[24], c[24];
	int status;
	pid_t child;

	(void)snprintf(pid, sizeof(pid), "%d", (int)target);
	(void)snprintf(id, sizeof(id), "%u", own);
	(void)snprintf(f, sizeof(f), "%llu", (unsigned long long)first);
	(void)snprintf(c, sizeof(c), "%llu", (unsigned long long)count);
	child = fork();
	if (child == 0) {
		(void)execlp(tool, tool, pid, "0", id, "1", "1", f, c, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

struct sub_ids {
	bool all; /* root of a container without CAP_SYS_ADMIN: may map every id it has */
	uint64_t uid, uids, gid, gids;
};

/* Map every id of ours into the namespace of our parent, each to itself. */
static int map_all(pid_t target, const char *kind)
{
	char path[48], text[96];
	uint64_t first = 0, count = 0;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/self/%s_map", kind);
	r = largest_extent(path, &first, &count);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/%s_map", (int)target, kind);
	(void)snprintf(text, sizeof(text), "%llu %llu %llu\n", (unsigned long long)first,
		       (unsigned long long)first, (unsigned long long)count);
	return io_write_text(AT_FDCWD, path, text);
}

/* The helper stays in the old namespace, waits until we are in the new one, and maps it. */
static pid_t start_mapper(const struct sub_ids *s, uid_t uid, gid_t gid, int *ret_go)
{
	pid_t parent = getpid(), helper;
	int go[2];

	if (pipe2(go, O_CLOEXEC) < 0)
		return -1;
	helper = fork();
	if (helper == 0) {
		char c;
		int r;

		(void)close(go[1]);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		if (s->all) {
			r = map_all(parent, "uid");
			_exit(r == 0 && map_all(parent, "gid") == 0 ? 0 : 1);
		}
		r = run_map_tool("newuidmap", parent, uid, s->uid, s->uids);
		_exit(r == 0 && run_map_tool("newgidmap", parent, gid, s->gid, s->gids) == 0 ? 0
											     : 1);
	}
	(void)close(go[0]);
	*ret_go = go[1];
	return helper;
}

static int map_single(uid_t uid, gid_t gid)
{
	char text[48];
	int r = io_write_text(AT_FDCWD, "/proc/self/setgroups", "deny");

	(void)snprintf(text, sizeof(text), "0 %u 1\n", uid);
	if (r == 0)
		r = io_write_text(AT_FDCWD, "/proc/self/uid_map", text);
	(void)snprintf(text, sizeof(text), "0 %u 1\n", gid);
	if (r == 0)
		r = io_write_text(AT_FDCWD, "/proc/self/gid_map", text);
	return r;
}

/* Who can map more than one id into a namespace of ours, if anybody. */
static pid_t find_mapper(struct ids *ids, struct sub_ids *s, uid_t uid, gid_t gid, int *ret_go)
{
	s->all = have_caps(MAY_MAP);
	if (s->all || (sub_range("/etc/subuid", uid, &s->uid, &s->uids) == 0 &&
		       sub_range("/etc/subgid", uid, &s->gid, &s->gids) == 0)) {
		(void)snprintf(
			ids->why_single, sizeof(ids->why_single),
			s->all ? "ids of user %u could not be mapped (CAP_SETFCAP)"
			       : "newuidmap did not map the range of user %u (package uidmap)",
			uid);
		return start_mapper(s, uid, gid, ret_go);
	}
	(void)snprintf(ids->why_single, sizeof(ids->why_single),
		       "user %u has no range in /etc/subuid and /etc/subgid", uid);
	return -1;
}

static int use_single(struct ids *ids, uid_t uid, gid_t gid, struct err *e)
{
	int r = map_single(uid, gid);

	ids->single = true;
	ids->slots = ROOT_SLOTS;
	if (r == 0)
		return 0;
	(void)err_set(e, ERR_SYS, -r, "map the ids of user %u into a namespace", uid);
	return err_hint(e, "root of a container needs CAP_SETFCAP, or CAP_SYS_ADMIN, for that");
}

static int enter_namespace(struct ids *ids, struct err *e)
{
	struct sub_ids s = { 0 };
	uid_t uid = geteuid();
	gid_t gid = getegid();
	own_fd go = -1;
	pid_t helper = find_mapper(ids, &s, uid, gid, &go);
	int status = 1;

	ids->rootless = true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		(void)err_set(e, ERR_LAYER, errno, "make a user namespace");
		return err_hint(e, "'glovebox doctor' says what forbids it and how to allow it");
	}
	if (helper > 0) {
		(void)io_write_all(go, "g", 1);
		if (waitpid(helper, &status, 0) != helper)
			status = 1;
	}
	if (status != 0)
		return use_single(ids, uid, gid, e);
	if (s.all)
		return use_mapped_range(ids, e);
	ids->can_groups = true;
	ids->base = 1;
	ids->per_slot = SUB_PER_SLOT;
	ids->slots = (uint32_t)((s.uids < s.gids ? s.uids : s.gids) / SUB_PER_SLOT);
	return 0;
}

int ids_start(struct ids *ids, struct err *e)
{
	*ids = (struct ids){ .can_shield = have_caps(1u << CAP_SYS_RESOURCE) };
	return have_caps(IS_ROOT) ? use_mapped_range(ids, e) : enter_namespace(ids, e);
}

unsigned int ids_boxes(const struct ids *ids)
{
	unsigned int most = ids->per_slot / 2 - 1; /* the last pair is the servants' */

	return ids->single || most > BOXES_MAX ? BOXES_MAX : most;
}

void ids_servants(const struct ids *ids, unsigned int slot, uint32_t *ret_gate, uint32_t *ret_store,
		  uint32_t *ret_tools)
{
	*ret_tools = ids->single ? 0 : ids->base + (slot + 1) * ids->per_slot - 2;
	*ret_gate = ids->single ? 0 : ids->base + (slot + 1) * ids->per_slot - 1;
	/* Without privileges the store's files are to be the caller's own. */
	*ret_store = ids->rootless || ids->single ? 0 : ids->base - 1;
}

uint32_t ids_egress(const struct ids *ids, unsigned int slot)
{
	return ids->single ? 0 : ids->base + (slot + 1) * ids->per_slot - 3;
}

struct box_ids ids_for(const struct ids *ids, unsigned int slot, unsigned int n, bool root_user)
{
	struct box_ids b = { .in_root = 0, .in_user = root_user ? 0 : BOX_USER };

	if (mutant_is("own-uids"))
		slot = n = 0;

	if (ids->single) {
		b.in_root = b.in_user; /* one id, one name for it; it is our own */
		return b;
	}
	b.root = ids->base + slot * ids->per_slot + 2 * n;
	b.user = root_user ? b.root : b.root + 1;
	return b;
}

int ids_map(const struct box_ids *b, pid_t pid)
{
	char path[48], text[96];
	int r;

	if (b->in_root == b->in_user)
		(void)snprintf(text, sizeof(text), "%u %u 1\n", b->in_user, b->user);
	else
		(void)snprintf(text, sizeof(text), "%u %u 1\n%u %u 1\n", b->in_root, b->root,
			       b->in_user, b->user);
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	r = io_write_text(AT_FDCWD, path, text);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	r = io_write_text(AT_FDCWD, path, text);
	if (r != -EPERM)
		return r;
	/* Our own namespace was made without setgroups: so must be this one. */
	(void)snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
	r = io_write_text(AT_FDCWD, path, "deny");
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	return r < 0 ? r : io_write_text(AT_FDCWD, path, text);
}
