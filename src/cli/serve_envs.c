// SPDX-License-Identifier: Apache-2.0
/*
 * Environments for the keeper of a server: each version gets a number when it is first seen, and keeps it for as long as the supervisor lives.
 */
#include "cli/serve.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/say.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

static uint32_t number_of(struct environments *v, const char *version)
{
	for (unsigned int i = 0; i < ARRAY_LEN(v->known); i++)
		if (strcmp(v->known[i].version, version) == 0)
			return v->known[i].id;
	return 0;
}

/* The oldest number goes: whoever still has it is a box, and the keeper knows that one. */
static uint32_t remember(struct environments *v, const char *version)
{
	unsigned int i = v->next_id++ % ARRAY_LEN(v->known);

	v->known[i].id = v->next_id;
	(void)snprintf(v->known[i].version, sizeof(v->known[i].version), "%s", version);
	return v->known[i].id;
}

static void put_one(struct environments *v, const char *name, struct msg_out *m)
{
	static struct env_row row;
	char version[ENVDIR_VERSION];
	struct err e;

	if (envdir_version(&v->dir, name, version) < 0)
		return;
	if (envdir_read(&v->dir, version, &row, &e) < 0) {
		say("environment '%s' is left out: %s", name, e.text);
		return;
	}
	row.id = number_of(v, version);
	if (row.id == 0)
		row.id = remember(v, version);
	env_row_put(m, &row);
}

int serve_envs_table(struct environments *v, int *ret_fd, struct err *e)
{
	own_free uint8_t *bytes = NULL;
	struct msg_out m;
	char **names;
	int fd;

	bytes = malloc(ENV_TABLE_MAX);
	names = envdir_names(&v->dir);
	msg_out_init(&m, bytes, bytes != NULL ? ENV_TABLE_MAX : 0);
	for (char **n = names; n != NULL && *n != NULL; n++)
		put_one(v, *n, &m);
	fd = names == NULL || m.failed ? -ENOMEM : io_sealed("environments", bytes, m.len);
	envdir_names_free(names);
	if (fd < 0)
		return err_set(e, ERR_SYS, -fd, "list the environments");
	*ret_fd = fd;
	return 0;
}

int serve_envs_start(struct environments *v, const char *path, struct err *e)
{
	v->watch_fd = -1;
	if (envdir_open(&v->dir, path, e) < 0)
		return -1;
	(void)envdir_sweep(&v->dir);
	v->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (v->watch_fd >= 0)
		(void)inotify_add_watch(v->watch_fd, path, IN_MOVED_TO | IN_DELETE | IN_ONLYDIR);
	return 0; /* without a watch they are looked at when the configuration is read again */
}

bool serve_envs_changed(struct environments *v)
{
	char drop[4096];
	bool any = false;

	while (read(v->watch_fd, drop, sizeof(drop)) > 0)
		any = true;
	return any;
}
