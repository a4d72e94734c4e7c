/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between gate and tools process, in both directions. Input: one byte that says how to cut, then the stream.
 *
 * Claims: the stream in pieces gives the same messages and the same end as the whole of it; a message lies within its row and
 * within the buffer.
 */
#include "wire/toolmsg.h"

#include <errno.h>

#include "fuzz_input.h"

struct result {
	uint64_t hash;
	size_t messages, used;
	ptrdiff_t end; /* 0: more is needed, or -EPROTO */
};

static void take(struct result *r, const struct toolmsg *m, const uint8_t *at, size_t n,
		 size_t have, unsigned int dir)
{
	const struct toolmsg_row *row = toolmsg_row(m->type);

	MUST(row != NULL && (row->dir & dir) != 0);
	MUST(m->len >= row->min && m->len <= row->max && m->fd == -1);
	MUST(n == TOOLMSG_HEADER + m->len && n <= have && m->body == at + TOOLMSG_HEADER);
	r->hash = hash_bytes(hash_bytes(r->hash, &m->id, sizeof(m->id)), m->body, m->len);
	r->messages++;
	r->used += n;
}

static struct result parse_whole(const uint8_t *p, size_t n, unsigned int dir)
{
	struct result r = { .hash = 1 };
	struct toolmsg m;

	while ((r.end = toolmsg_parse(p + r.used, n - r.used, dir, &m)) > 0)
		take(&r, &m, p + r.used, (size_t)r.end, n - r.used, dir);
	return r;
}

static struct result parse_pieces(const uint8_t *p, size_t n, unsigned int dir, uint32_t how)
{
	struct result r = { .hash = 1 };

	for (size_t arrived = 0; r.end == 0 && arrived < n;) {
		size_t piece = next_piece(&how), have;
		uint8_t *window;

		arrived += piece < n - arrived ? piece : n - arrived;
		have = arrived - r.used;
		window = exact_copy(p + r.used, have);
		for (size_t at = 0; r.end == 0;) {
			struct toolmsg m;
			ptrdiff_t got = toolmsg_parse(window + at, have - at, dir, &m);

			if (got == 0)
				break;
			if (got < 0)
				r.end = got;
			else
				take(&r, &m, window + at, (size_t)got, have - at, dir);
			at += got > 0 ? (size_t)got : 0;
		}
		free(window);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in);

	for (unsigned int dir = TO_TOOLS; dir <= FROM_TOOLS; dir <<= 1) {
		struct result a = parse_whole(in.p, in.n, dir);
		struct result b = parse_pieces(in.p, in.n, dir, how);

		MUST(a.end == 0 || a.end == -EPROTO);
		MUST(a.end == b.end && a.messages == b.messages && a.used == b.used);
		MUST(a.hash == b.hash);
	}
	return 0;
}
