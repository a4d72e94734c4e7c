// SPDX-License-Identifier: Apache-2.0
/*
 * PUT: content comes in through a descriptor, is hashed, written to a file without a name, and
 * gets its name at COMMIT.
 *
 * A put is open from PUT until it was committed, aborted, or has failed. COMMIT may come before
 * the last byte: it is answered when end of file was read. A put that fails is closed at once;
 * why it failed is remembered for the COMMIT that is on its way.
 */
#include "store/store.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

/* --- which ---------------------------------------------------------------------------------- */

static struct put *find_put(struct store *s, uint64_t request)
{
	for (unsigned int i = 0; i < STORE_PUTS_MAX; i++)
		if (s->puts[i].slot.used && s->puts[i].request == request)
			return &s->puts[i];
	return NULL;
}

static const struct store_failure *find_failed(const struct store *s, uint64_t request)
{
	/* The latest first, should a number have been used twice. */
	for (unsigned int i = s->nfailed; i > 0 && s->nfailed - i < STORE_PUTS_MAX; i--) {
		const struct failed_put *f = &s->failed[(i - 1) % STORE_PUTS_MAX];

		if (f->request == request)
			return &f->why;
	}
	return NULL;
}

static struct put *free_slot(struct store *s)
{
	if (s->nputs < s->puts_max)
		for (unsigned int i = 0; i < STORE_PUTS_MAX; i++)
			if (!s->puts[i].slot.used)
				return &s->puts[i];
	return NULL;
}

/* --- the end of one ------------------------------------------------------------------------- */

static void close_input(struct store *s, struct put *p)
{
	if (p->in_fd >= 0)
		store_unwatch(s, p->in_fd);
	fd_close(&p->in_fd);
}

/* Its numbers stay readable until the slot is used again. */
static void put_close(struct store *s, struct put *p)
{
	close_input(s, p);
	content_drop(&s->files.content, &p->temp);
	EVP_MD_CTX_free(p->hash);
	p->hash = NULL;
	s->open_bytes -= p->size;
	p->slot.used = false;
	p->slot.generation++;
	s->nputs--;
}

static void remember_failed(struct store *s, uint64_t request, const struct store_failure *why)
{
	s->failed[s->nfailed % STORE_PUTS_MAX] =
		(struct failed_put){ .request = request, .why = *why };
	s->nfailed++;
	if (s->nfailed == 2 * STORE_PUTS_MAX) /* never wraps: the ring is full from now on */
		s->nfailed = STORE_PUTS_MAX;
}

/* Closed first: who is told may rely on it. */
static void put_fail(struct store *s, struct put *p, const struct store_failure *why)
{
	put_close(s, p);
	reply_failure(s, p->request, why);
	if (p->committing)
		reply_failure(s, p->commit_request, why);
	else
		remember_failed(s, p->request, why);
}

static void put_fail_with(struct store *s, struct put *p, enum store_reason reason,
			  const char *text)
{
	struct store_failure f = { .reason = reason };

	(void)snprintf(f.text, sizeof(f.text), "%s", text);
	put_fail(s, p, &f);
}

static void put_fail_errno(struct store *s, struct put *p, int err, const char *what)
{
	struct store_failure f;

	failure_set(&f, err, what);
	put_fail(s, p, &f);
}

void puts_done(struct store *s)
{
	for (unsigned int i = 0; i < STORE_PUTS_MAX; i++)
		if (s->puts[i].slot.used)
			put_close(s, &s->puts[i]);
}

/* --- PUT ------------------------------------------------------------------------------------ */

/* A descriptor that can be waited for; not a file, whose end is nowhere. */
static int check_input(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
		return -EINVAL;
	(void)fcntl(fd, F_SETPIPE_SZ, PIECE); /* fewer, larger pieces; no matter if it may not */
	return io_set_nonblock(fd, 1);
}

static int put_open(struct store *s, struct put *p)
{
	int r = check_input(p->in_fd);

	if (r < 0)
		return r;
	p->hash = EVP_MD_CTX_new();
	if (p->hash == NULL || EVP_DigestInit_ex(p->hash, s->sha256, NULL) != 1)
		return -ENOMEM;
	r = content_new(&s->files.content, &p->temp);
	if (r < 0)
		return r;
	return store_watch(s, p->in_fd, EPOLLIN, WATCH_PUT, (unsigned int)(p - s->puts),
			   p->slot.generation);
}

int put_start(struct store *s, uint64_t request, const struct store_put *asked, int fd)
{
	uint32_t generation;
	struct put *p;
	int r;

	if (find_put(s, request) != NULL) {
		fd_close(&fd);
		return -1;
	}
	p = free_slot(s);
	if (p == NULL) {
		struct store_failure f = { STORE_BUSY, "too many uploads at once" };

		fd_close(&fd);
		reply_failure(s, request, &f);
		remember_failed(s, request, &f);
		return 0;
	}
	generation = p->slot.generation;
	*p = (struct put){
		.slot = { .used = true, .generation = generation },
		.request = request,
		.in_fd = fd,
		.temp = { .fd = -1 },
		.asked = *asked,
	};
	s->nputs++;
	r = put_open(s, p);
	if (r < 0)
		put_fail_errno(s, p, r, "begin an upload");
	return 0;
}

/* --- COMMIT --------------------------------------------------------------------------------- */

/* All was read. Answer the COMMIT and close the put. */
static void put_finish(struct store *s, struct put *p)
{
	struct store_meta m = { .size = p->size };
	int r;

	if (p->size != p->commit_size) {
		reply_failed(s, p->commit_request, STORE_BROKEN,
			     "the upload has %llu bytes instead of %llu",
			     (unsigned long long)p->size, (unsigned long long)p->commit_size);
	} else if (EVP_DigestFinal_ex(p->hash, m.sha256, NULL) != 1) {
		reply_failed(s, p->commit_request, STORE_BROKEN, "hash an upload");
	} else if (p->asked.has_unless &&
		   memcmp(m.sha256, p->asked.unless_sha256, STORE_SHA256) == 0) {
		reply_failed(s, p->commit_request, STORE_SAME, "the content is the same");
	} else {
		(void)memcpy(m.filename, p->asked.filename, sizeof(m.filename));
		r = files_add(&s->files, p->asked.tenant, &p->temp, &m);
		if (r == 0) {
			reply_meta(s, p->commit_request, &m, NULL);
		} else {
			struct store_failure f;

			failure_set(&f, r, "keep an upload");
			reply_failure(s, p->commit_request, &f);
		}
	}
	put_close(s, p);
}

void put_commit(struct store *s, uint64_t request, const struct store_commit *c)
{
	struct put *p = find_put(s, c->put);

	if (p == NULL) {
		const struct store_failure *why = find_failed(s, c->put);

		if (why != NULL)
			reply_failure(s, request, why);
		else
			reply_failed(s, request, STORE_NOT_FOUND, "there is no such upload");
		return;
	}
	if (p->committing) {
		reply_failed(s, request, STORE_BUSY, "the upload is being committed");
		return;
	}
	p->committing = true;
	p->commit_request = request;
	p->commit_size = c->size;
	if (p->in_fd < 0)
		put_finish(s, p);
}

void put_abort(struct store *s, uint64_t request, uint64_t put)
{
	struct put *p = find_put(s, put);

	if (p != NULL) {
		put_close(s, p);
		if (p->committing)
			reply_failed(s, p->commit_request, STORE_BROKEN, "the upload was aborted");
	}
	reply_ok(s, request, NULL, 0, NULL);
}

/* --- content -------------------------------------------------------------------------------- */

/* 0 when n more bytes fit into both quotas; what is still open counts as if it were stored. */
static int check_quota(struct store *s, const struct put *p, uint64_t n)
{
	uint64_t used;
	int r;

	if (s->set.store_bytes > 0 && s->files.bytes + s->open_bytes + n > s->set.store_bytes)
		return -EDQUOT;
	if (s->set.tenant_bytes == 0)
		return 0;
	r = index_usage(s->files.index, p->asked.tenant, &used);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < STORE_PUTS_MAX; i++)
		if (s->puts[i].slot.used && strcmp(s->puts[i].asked.tenant, p->asked.tenant) == 0)
			used += s->puts[i].size;
	return used + n > s->set.tenant_bytes ? -EDQUOT : 0;
}

static void put_piece(struct store *s, struct put *p, size_t n)
{
	int r;

	if (n > p->asked.max_bytes - p->size) {
		put_fail_with(s, p, STORE_TOO_LARGE, "the upload is larger than it may be");
		return;
	}
	r = check_quota(s, p, n);
	if (r == -EDQUOT) {
		put_fail_with(s, p, STORE_FULL, "the quota of the file store is used up");
		return;
	}
	if (r == 0)
		r = io_write_all(p->temp.fd, store_piece, n);
	if (r < 0) {
		put_fail_errno(s, p, r, "write an upload");
		return;
	}
	if (EVP_DigestUpdate(p->hash, store_piece, n) != 1) {
		put_fail_with(s, p, STORE_BROKEN, "hash an upload");
		return;
	}
	p->size += n;
	s->open_bytes += n;
}

void put_event(struct store *s, unsigned int index, uint32_t generation)
{
	struct put *p = &s->puts[index];
	size_t want = PIECE;
	ssize_t n;

	if (!p->slot.used || p->slot.generation != generation || p->in_fd < 0)
		return;
	/* One byte more than may come, to see that it does. */
	if (p->asked.max_bytes - p->size < want)
		want = (size_t)(p->asked.max_bytes - p->size) + 1;
	n = read(p->in_fd, store_piece, want);
	if (n > 0) {
		put_piece(s, p, (size_t)n);
	} else if (n == 0) {
		close_input(s, p);
		if (p->committing)
			put_finish(s, p);
	} else if (errno != EAGAIN && errno != EINTR) {
		put_fail_errno(s, p, errno, "read an upload");
	}
}
