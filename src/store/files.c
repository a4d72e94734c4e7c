// SPDX-License-Identifier: Apache-2.0
#include "store/files.h"

#include "base/clock.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>

enum {
	SWEEP_ROWS = 128, /* removed in one go, so that others wait little */
	LOCK_TRIES = 250,
	LOCK_PAUSE_MS = 20,
};

static uint64_t unix_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000u;
}

/* What was uploaded then or before has expired. */
static uint64_t expired_until(const struct files *f)
{
	uint64_t now = unix_us();

	return f->ttl_us == 0 || now < f->ttl_us ? 0 : now - f->ttl_us;
}

static int new_id(char id[STORE_ID_LEN + 1])
{
	uint8_t r[16];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40); /* version 4 */
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80); /* the usual variant */
	(void)snprintf(id, STORE_ID_LEN + 1,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", r[0],
		       r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12],
		       r[13], r[14], r[15]);
	return 0;
}

/* --- start ---------------------------------------------------------------------------------- */

/* On a description of our own: that of the descriptor we were given is shared with who gave it. */
static int lock_dir(struct files *f, int dir, struct err *e)
{
	f->lock_fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->lock_fd < 0)
		return err_set(e, ERR_INPUT, errno, "open the file store");
	for (unsigned int i = 0; i < LOCK_TRIES; i++) {
		const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000L };

		if (flock(f->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return err_set(e, ERR_INPUT, errno, "lock the file store");
		(void)nanosleep(&pause, NULL);
	}
	return err_set(e, ERR_INPUT, 0, "another store uses this directory");
}

/* Contents first, then their rows at once. A content that cannot be removed keeps its row. */
static int drop_rows(struct files *f, const struct index_row *rows, unsigned int n)
{
	int r = 0, failed = index_begin(f->index);

	if (failed < 0)
		return failed;
	for (unsigned int i = 0; i < n && r == 0; i++) {
		int gone = content_remove(&f->content, rows[i].id);

		if (gone == 0)
			r = index_remove(f->index, rows[i].id);
		else
			failed = gone;
	}
	if (r == 0)
		r = index_end(f->index);
	else
		(void)index_end(f->index);
	if (r < 0)
		f->stale = true;
	(void)index_totals(f->index, &f->count, &f->bytes);
	return r < 0 ? r : failed;
}

static int drop_pending(struct files *f)
{
	struct index_row rows[SWEEP_ROWS];
	int n, r;

	do {
		n = index_pending(f->index, rows, SWEEP_ROWS);
		r = n > 0 ? drop_rows(f, rows, (unsigned int)n) : n;
	} while (n == SWEEP_ROWS && r == 0);
	return r;
}

/* Rows whose content is not there, or not as long as it was: a loss of power can do both. */
static int drop_orphans(struct files *f)
{
	struct index_row rows[SWEEP_ROWS], bad[SWEEP_ROWS];
	char after[STORE_ID_LEN + 1] = "";
	int n;

	while ((n = index_walk(f->index, after, rows, SWEEP_ROWS)) > 0) {
		unsigned int nbad = 0;
		int r;

		for (int i = 0; i < n; i++) {
			uint64_t size = 0;

			r = content_size(&f->content, rows[i].id, &size);
			if (r < 0 && r != -ENOENT)
				return r;
			if (r < 0 || size != rows[i].size)
				bad[nbad++] = rows[i];
		}
		r = nbad > 0 ? drop_rows(f, bad, nbad) : 0;
		if (r < 0)
			return r;
		(void)memcpy(after, rows[n - 1].id, sizeof(after));
	}
	return n;
}

static int recover(struct files *f, struct err *e)
{
	int r = content_clear_temps(&f->content);

	if (r == 0)
		r = drop_pending(f);
	if (r == 0)
		r = drop_orphans(f);
	if (r == 0 || r == -ENOSPC) { /* a full disk is for the sweep to try again */
		f->stale = r < 0;
		r = index_totals(f->index, &f->count, &f->bytes);
	}
	return r < 0 ? err_set(e, ERR_SYS, -r, "clean up the file store") : 0;
}

int files_open(struct files *f, int dir, bool nameless, uint64_t ttl_us, struct err *e)
{
	int r;

	*f = (struct files){ .lock_fd = -1, .ttl_us = ttl_us };
	if (lock_dir(f, dir, e) < 0)
		return -1;
	r = content_init(&f->content, dir, nameless);
	if (r < 0)
		return err_set(e, ERR_INPUT, -r, "look at the file store");
	if (index_open(&f->index, e) < 0 || recover(f, e) < 0)
		return -1;
	while (files_sweep(f) > 0)
		;
	return 0;
}

void files_close(struct files *f)
{
	index_close(f->index);
	f->index = NULL;
	fd_close(&f->lock_fd);
}

/* --- use ------------------------------------------------------------------------------------ */

int files_add(struct files *f, const char *tenant, struct content_temp *t, struct store_meta *m)
{
	int r = f->count >= FILES_MAX ? -ENOSPC : new_id(m->id);

	if (r < 0)
		return r;
	m->upload_time_us = unix_us();
	r = index_add(f->index, tenant, m);
	if (r < 0)
		return r;
	r = content_keep(&f->content, t, m->id);
	if (r < 0) {
		(void)index_remove(f->index, m->id); /* else the next sweep does */
		return r;
	}
	r = index_ready(f->index, m->id);
	if (r < 0) {
		(void)content_remove(&f->content, m->id);
		(void)index_remove(f->index, m->id);
		return r;
	}
	f->count++;
	f->bytes += m->size;
	return 0;
}

int files_find(struct files *f, const char *tenant, const char *id, struct store_meta *ret)
{
	if (!store_id_is_valid(id))
		return -ENOENT;
	return index_find(f->index, tenant, id, expired_until(f), ret);
}

int files_list(struct files *f, const char *tenant, const char *after,
	       bool (*each)(void *ctx, const struct store_meta *m), void *ctx)
{
	return index_list(f->index, tenant, after, expired_until(f), each, ctx);
}

int files_remove(struct files *f, const char *tenant, const char *id)
{
	struct store_meta m;
	int r = files_find(f, tenant, id, &m);

	if (r == 0)
		r = content_remove(&f->content, id);
	if (r < 0)
		return r;
	r = index_remove(f->index, id);
	if (r < 0) {
		f->stale = true;
		return r;
	}
	f->count--;
	f->bytes -= m.size;
	return 0;
}

int files_sweep(struct files *f)
{
	struct index_row rows[SWEEP_ROWS];
	uint64_t until = expired_until(f);
	int n = 0, r;

	r = drop_pending(f);
	if (r == 0 && f->stale) {
		f->stale = false;
		r = drop_orphans(f);
		f->stale = f->stale || r < 0;
	}
	if (r == 0 && f->ttl_us > 0)
		n = index_expired(f->index, until, rows, SWEEP_ROWS);
	if (n > 0)
		r = drop_rows(f, rows, (unsigned int)n);
	return r < 0 ? r : n < 0 ? n : n == SWEEP_ROWS;
}
