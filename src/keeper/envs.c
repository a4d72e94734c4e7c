// SPDX-License-Identifier: Apache-2.0
/*
 * Environments: directories that boxes show, which the supervisor has found. A gate names them by number.
 *
 * Each is held by a lock that whoever removes old versions asks for: as long as it is in the table, as long as a box shows it, and as long as the gate may ask for
 * one because it has not heard yet.
 */
#include "keeper/keeper.h"
#include "keeper/mountapi.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct env_slot *env_find(struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < ENV_SLOTS && id != 0; i++)
		if (k->envs[i].row != NULL && k->envs[i].row->id == id)
			return &k->envs[i];
	return NULL;
}

static void drop(struct env_slot *s)
{
	fd_close(&s->tree_fd);
	fd_close(&s->lock_fd);
	free(s->row);
	*s = (struct env_slot){ .tree_fd = -1, .lock_fd = -1 };
}

static bool is_shown(const struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < k->nboxes; i++)
		if (k->boxes[i].state != BOX_FREE && k->boxes[i].env == id)
			return true;
	return false;
}

static void drop_gone(struct keeper *k, uint32_t by)
{
	for (unsigned int i = 0; i < ENV_SLOTS; i++) {
		struct env_slot *s = &k->envs[i];

		if (s->row != NULL && s->row->gone && s->gone_by <= by && !is_shown(k, s->row->id))
			drop(s);
	}
}

void envs_turn(struct keeper *k)
{
	drop_gone(k, k->envs_taken);
}

void envs_are_taken(struct keeper *k, uint32_t table)
{
	if (table <= k->env_tables)
		k->envs_taken = table;
	envs_turn(k);
}

/* What holds a version is a lock on its page, which any number of keepers can have: src/cli/envdir.h. */
static int lock(int dir)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	own_fd fd = openat(dir, "environment", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd < 0 || fcntl(fd, F_OFD_SETLK, &l) < 0 ? -1 : fd_take(&fd);
}

static int hold(struct env_slot *s, const char *tree)
{
	const char *slash = strrchr(tree, '/');
	char path[PATH_MAX];
	own_fd dir = -1;

	if (slash == NULL || slash == tree)
		return -1;
	(void)snprintf(path, sizeof(path), "%.*s", (int)(slash - tree), tree);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	s->lock_fd = dir < 0 ? -1 : lock(dir);
	if (s->lock_fd >= 0)
		s->tree_fd = openat(dir, slash + 1, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return s->tree_fd < 0 ? -1 : 0;
}

static struct env_slot *free_slot(struct keeper *k)
{
	for (unsigned int i = 0; i < ENV_SLOTS; i++)
		if (k->envs[i].row == NULL)
			return &k->envs[i];
	return NULL;
}

static int add(struct keeper *k, const struct env_row *row)
{
	struct env_slot *s = free_slot(k);

	if (s == NULL) { /* a gate that takes its time */
		drop_gone(k, UINT32_MAX);
		s = free_slot(k);
	}
	if (s == NULL)
		return -ENOSPC;
	s->row = hold(s, row->tree) < 0 ? NULL : malloc(sizeof(*row));
	if (s->row == NULL) {
		drop(s);
		return -ENOENT;
	}
	*s->row = *row;
	return 0;
}

static int take_rows(struct keeper *k, const uint8_t *p, size_t n)
{
	static struct env_row row;
	struct msg_in in;

	msg_in_init(&in, p, n);
	while (in.at < in.len) {
		struct env_slot *s;

		if (env_row_get(&in, &row) < 0)
			return -EPROTO;
		s = env_find(k, row.id);
		if (s != NULL)
			s->row->gone = false;
		else
			(void)add(k, &row); /* removed a moment ago: the next table is without it */
	}
	return 0;
}

int envs_take(struct keeper *k, int fd)
{
	own_free uint8_t *bytes = malloc(ENV_TABLE_MAX);
	ssize_t n = bytes != NULL ? pread(fd, bytes, ENV_TABLE_MAX, 0) : -1;

	if (n < 0 || n == ENV_TABLE_MAX)
		return -EPROTO;
	k->env_tables++;
	for (unsigned int i = 0; i < ENV_SLOTS; i++) {
		struct env_slot *s = &k->envs[i];

		if (s->row != NULL && !s->row->gone)
			s->gone_by = k->env_tables;
		if (s->row != NULL)
			s->row->gone = true;
	}
	return take_rows(k, bytes, (size_t)n) < 0 ? -EPROTO : 0;
}

int envs_argument(struct keeper *k, const char *text, struct err *e)
{
	uint64_t number;
	own_fd fd = -1;

	if (str_to_u64(text, INT_MAX, &number) < 0 || fcntl((int)number, F_GETFD) < 0)
		return err_set(e, ERR_USAGE, 0, "descriptor '%s' of environments", text);
	fd = (int)number;
	return envs_take(k, fd) < 0 ? err_set(e, ERR_USAGE, 0, "the environments cannot be read")
				    : 0;
}

/* For a gate, which has no use for paths of the host. */
int envs_list(const struct keeper *k)
{
	own_free uint8_t *bytes = malloc(ENV_TABLE_MAX + ENV_TABLE_MAX);
	static struct env_row row;
	struct msg_out m;

	if (bytes == NULL)
		return -ENOMEM;
	msg_out_init(&m, bytes, ENV_TABLE_MAX + ENV_TABLE_MAX);
	for (unsigned int i = 0; i < ENV_SLOTS; i++) {
		if (k->envs[i].row == NULL)
			continue;
		row = *k->envs[i].row;
		row.tree[0] = '\0';
		env_row_put(&m, &row);
	}
	return m.failed ? -ENOBUFS : io_sealed("environments", bytes, m.len);
}

void envs_start(struct keeper *k)
{
	for (unsigned int i = 0; i < ENV_SLOTS; i++)
		k->envs[i].tree_fd = k->envs[i].lock_fd = -1;
}

int env_tree(struct keeper *k, uint32_t id, enum env_kind *ret_kind, struct err *e)
{
	const struct env_slot *s = env_find(k, id);
	int fd = s == NULL ? -1 : mnt_clone(s->tree_fd, "", AT_EMPTY_PATH);

	if (fd < 0)
		return err_set(e, ERR_SYS, s == NULL ? ESTALE : errno, "mount an environment");
	*ret_kind = s->row->kind;
	return fd;
}

int env_check(struct keeper *k, const struct box_request *q, struct err *e)
{
	if (q->env == 0 || env_find(k, q->env) != NULL)
		return 0;
	return err_set(e, ERR_INPUT, 0, "there is no such environment any more");
}
