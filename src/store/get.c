// SPDX-License-Identifier: Apache-2.0
/*
 * GET: content goes out through a pipe. Pages go from the file's cache into the pipe without being
 * copied; contents never change once they have their name.
 *
 * A reader that closes its end ends the transfer. A disk that fails ends it too: the reader sees
 * end of file before it has as many bytes as the meta promised.
 */
#include "store/store.h"

#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>

static struct get *free_slot(struct store *s)
{
	if (s->ngets < s->gets_max)
		for (unsigned int i = 0; i < STORE_GETS_MAX; i++)
			if (!s->gets[i].slot.used)
				return &s->gets[i];
	return NULL;
}

static void get_close(struct store *s, struct get *g)
{
	store_unwatch(s, g->pipe_fd);
	fd_close(&g->pipe_fd);
	fd_close(&g->file_fd);
	g->slot.used = false;
	g->slot.generation++;
	s->ngets--;
}

void gets_done(struct store *s)
{
	for (unsigned int i = 0; i < STORE_GETS_MAX; i++)
		if (s->gets[i].slot.used)
			get_close(s, &s->gets[i]);
}

static int find_content(struct store *s, const struct store_get *asked, struct store_meta *m,
			int *ret_fd)
{
	int r = files_find(&s->files, asked->name.tenant, asked->name.id, m);
	uint64_t size;

	if (r == 0)
		r = content_open(&s->files.content, m->id, ret_fd, &size);
	if (r == 0 && size != m->size) {
		fd_close(ret_fd);
		r = -EIO;
	}
	return r;
}

static int make_pipe(int *ret_read, int *ret_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIECE); /* what a user may have of it is limited */
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

void get_start(struct store *s, uint64_t request, const struct store_get *asked)
{
	struct get *g = free_slot(s);
	own_fd file = -1, out = -1, in = -1;
	struct store_failure f;
	struct store_meta m;
	uint64_t at;
	int r = find_content(s, asked, &m, &file);

	if (r == 0 && g == NULL) {
		reply_failed(s, request, STORE_BUSY, "too many downloads at once");
		return;
	}
	if (r == 0)
		r = make_pipe(&out, &in);
	if (r == 0) {
		at = asked->offset < m.size ? asked->offset : m.size;
		*g = (struct get){
			.slot = { .used = true, .generation = g->slot.generation },
			.file_fd = file,
			.pipe_fd = in,
			.at = at,
			.left = asked->length > 0 && asked->length < m.size - at ? asked->length
										 : m.size - at,
		};
		r = store_watch(s, in, EPOLLOUT, WATCH_GET, (unsigned int)(g - s->gets),
				g->slot.generation);
		g->slot.used = r == 0;
	}
	if (r < 0) {
		failure_set(&f, r, "open a file");
		reply_failure(s, request, &f);
		return;
	}
	(void)fd_take(&file);
	(void)fd_take(&in);
	s->ngets++;
	reply_meta(s, request, &m, &out);
}

/* Where the file system cannot hand out its pages. */
static ssize_t copy_piece(const struct get *g, size_t n)
{
	ssize_t got = pread(g->file_fd, store_piece, n, (off_t)g->at);

	return got > 0 ? write(g->pipe_fd, store_piece, (size_t)got) : got;
}

static ssize_t move_piece(struct get *g, size_t n)
{
	off_t at = (off_t)g->at;
	ssize_t moved = -1;

	if (!g->copy) {
		moved = splice(g->file_fd, &at, g->pipe_fd, NULL, n,
			       SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		g->copy = moved < 0 && errno == EINVAL;
	}
	return g->copy ? copy_piece(g, n) : moved;
}

void get_event(struct store *s, unsigned int index, uint32_t generation)
{
	struct get *g = &s->gets[index];
	ssize_t n = 0;

	if (!g->slot.used || g->slot.generation != generation)
		return;
	if (g->left > 0)
		n = move_piece(g, g->left < PIECE ? (size_t)g->left : PIECE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		g->at += (uint64_t)n;
		g->left -= (uint64_t)n;
	}
	if (n <= 0 || g->left == 0)
		get_close(s, g);
}
