// SPDX-License-Identifier: Apache-2.0
/* `glovebox run --environment NAME`: what the keeper is told of it, and what its programs are told. */
#include "cli/run.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/envdir.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_FD = 10 };

/* "NAME", or the version itself. */
static int find(const struct run_request *q, struct env_row *row, struct err *e)
{
	char dir[PATH_MAX], version[ENVDIR_VERSION];
	struct envdir d = { .fd = -1 };
	int r;

	if (q->environments_dir != NULL)
		(void)snprintf(dir, sizeof(dir), "%s", q->environments_dir);
	else if (envdir_usual(dir, e) < 0)
		return -1;
	if (envdir_open(&d, dir, e) < 0)
		return -1;
	if (strchr(q->environment, '@') != NULL && strchr(q->environment, '/') == NULL)
		(void)snprintf(version, sizeof(version), "%.*s", (int)sizeof(version) - 1,
			       q->environment);
	else if (envdir_version(&d, q->environment, version) < 0) {
		envdir_close(&d);
		(void)err_set(e, ERR_INPUT, 0, "there is no environment '%.64s'", q->environment);
		return err_hint(e, "'glovebox env list' has them all");
	}
	r = envdir_read(&d, version, row, e);
	envdir_close(&d);
	return r;
}

int run_env_open(struct run_request *q, struct err *e)
{
	static struct env_row row;
	own_free uint8_t *bytes = NULL;
	own_fd fd = -1;
	struct msg_out m;

	q->env_fd = -1;
	if (q->environment == NULL || env_is_own(q->environment))
		return 0;
	if (find(q, &row, e) < 0)
		return -1;
	if (row.python[0] == '\0' && !q->shell && q->interpreter == NULL) {
		(void)err_set(e, ERR_INPUT, 0, "environment '%s' has no Python", row.name);
		return err_hint(e, "--shell runs a shell script in it");
	}
	row.id = q->box.env = 1;
	bytes = malloc(ENV_TABLE_MAX);
	msg_out_init(&m, bytes, bytes != NULL ? ENV_TABLE_MAX : 0);
	env_row_put(&m, &row);
	fd = m.failed ? -ENOMEM : io_sealed("environments", bytes, m.len);
	/* Clear of what the keeper expects elsewhere. */
	q->env_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
	if (q->env_fd < 0)
		return err_set(e, ERR_SYS, fd < 0 ? -fd : errno,
			       "name the environment to the keeper");
	q->made_of = &row;
	return 0;
}
