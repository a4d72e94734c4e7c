/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives from a hostile box. Input: one byte that says how to cut, then the archive.
 *
 * Claims: pieces give the same members, contents and end as the whole; a path that comes out is plain and a mode only
 * permissions, by rules written a second time here; a file has as many bytes as it said; a member, written again, is
 * read as the same.
 */
#include "wire/tar.h"

#include <errno.h>

#include "fuzz_input.h"

struct result {
	uint64_t hash, left;
	unsigned int members, ended;
	bool open, again; /* again: a member that was written by us */
	struct tar_member first;
	int end;
	const char *why;
};

static bool is_plain(const char *path)
{
	const char *component = path;

	if (strlen(path) >= PATH_MAX)
		return false;
	for (const char *c = path;; c++) {
		if (*c != '\0' && *c != '/') {
			if ((*c > 0 && *c < ' ') || *c == 0x7f)
				return false;
			continue;
		}
		if (c == component || c - component > 255 ||
		    (c - component == 1 && component[0] == '.') ||
		    (c - component == 2 && component[0] == '.' && component[1] == '.'))
			return false;
		if (*c == '\0')
			return true;
		component = c + 1;
	}
}

static void check_again(const struct tar_member *m);

static int on_member(void *arg, const struct tar_member *m)
{
	struct result *r = arg;

	MUST(!r->open);
	MUST(is_plain(m->path) && (m->mode & ~0777u) == 0);
	MUST(m->type == TAR_FILE || m->size == 0);
	MUST((m->type == TAR_LINK) == (m->link[0] != '\0'));
	for (const char *c = m->link; *c != '\0'; c++)
		MUST((unsigned char)*c >= ' ' && *c != 0x7f);
	r->open = true;
	r->left = m->size;
	r->members++;
	r->hash = hash_bytes(r->hash, m->path, strlen(m->path) + 1);
	r->hash = hash_bytes(r->hash, m->link, strlen(m->link) + 1);
	r->hash = hash_bytes(r->hash, &m->mode, sizeof(m->mode));
	r->hash = hash_bytes(r->hash, &m->mtime, sizeof(m->mtime));
	if (r->members == 1)
		r->first = *m;
	if (!r->again)
		check_again(m);
	return 0;
}

static int on_data(void *arg, const void *p, size_t n)
{
	struct result *r = arg;

	MUST(r->open && n > 0 && n <= r->left);
	r->left -= n;
	r->hash = hash_bytes(r->hash, p, n);
	return 0;
}

static int on_end(void *arg)
{
	struct result *r = arg;

	MUST(r->open && r->left == 0);
	r->open = false;
	r->ended++;
	return 0;
}

static const struct tar_ops ops = { on_member, on_data, on_end };

static void check_again(const struct tar_member *m)
{
	static uint8_t head[TAR_HEAD_MAX];
	static struct tar_reader reader;
	static struct result again;
	const char *why = "";
	size_t n = tar_head(head, m);

	if (n == 0) /* one that we would not write */
		return;
	again = (struct result){ .hash = 1, .again = true };
	tar_reader_init(&reader);
	MUST(tar_read(&reader, head, n, &ops, &again, &why) == 0);
	MUST(again.members == 1 && strcmp(again.first.path, m->path) == 0);
	MUST(strcmp(again.first.link, m->link) == 0 && again.first.size == m->size);
	MUST(again.first.mode == m->mode && again.first.mtime == m->mtime);
}

static void read_all(struct result *res, const uint8_t *p, size_t n, uint8_t how, bool in_pieces)
{
	static struct tar_reader r;
	uint32_t state = how;

	*res = (struct result){ .hash = 1, .why = "" };
	tar_reader_init(&r);
	for (size_t at = 0; at < n && res->end == 0;) {
		size_t have = n - at, piece = in_pieces ? 13 * next_piece(&state) : have;
		uint8_t *copy;

		have = piece < have ? piece : have;
		copy = exact_copy(p + at, have);
		res->end = tar_read(&r, copy, have, &ops, res, &res->why);
		free(copy);
		at += have;
	}
	MUST(res->end == 0 || res->end == -EPROTO);
	if (tar_is_whole(&r))
		MUST(res->end == 0 && !res->open && res->ended == res->members);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct result whole, parts;
	struct input in = { data, size };
	uint8_t how = take_u8(&in);

	read_all(&whole, in.p, in.n, how, false);
	read_all(&parts, in.p, in.n, how, true);
	MUST(whole.end == parts.end && whole.hash == parts.hash);
	MUST(whole.members == parts.members && whole.ended == parts.ended);
	MUST(strcmp(whole.why, parts.why) == 0);
	return 0;
}
