// SPDX-License-Identifier: Apache-2.0
#include "wire/rlimits.h"

#include "base/own.h"
#include "wire/msg.h"

#include <errno.h>
#include <sys/resource.h>

/* Beyond the workspace by a little: a full one is ENOSPC, not "file too large". */
enum { FILE_BEYOND = 65536 };

static const struct {
	int which;
	enum limit_id limit;
	uint64_t more;
} rows[] = {
	{ RLIMIT_NOFILE, LIMIT_OPEN_FILES, 0 },
	{ RLIMIT_FSIZE, LIMIT_FILE, 0 },
	{ RLIMIT_NPROC, LIMIT_PROCESSES, 1 }, /* init counts, too */
	{ RLIMIT_CPU, LIMIT_CPU_SECONDS, 0 },
};
_Static_assert(ARRAY_LEN(rows) == RLIMITS_N, "as many as there are");

static uint64_t value_of(const struct limits *l, unsigned int i)
{
	if (rows[i].limit == LIMIT_FILE && l->v[LIMIT_FILE] == 0)
		return l->v[LIMIT_WORKSPACE] + FILE_BEYOND;
	return l->v[rows[i].limit] + rows[i].more;
}

static uint64_t most_of(unsigned int i)
{
	return limit_row(rows[i].limit)->max + rows[i].more;
}

static void put(struct rlimits *r, unsigned int i, uint64_t v)
{
	r->v[i].which = rows[i].which;
	r->v[i].soft = r->v[i].hard = v;
	if (rows[i].limit != LIMIT_CPU_SECONDS)
		return;
	if (v == 0)
		r->v[i].soft = r->v[i].hard = RLIM_INFINITY;
	else
		r->v[i].hard++; /* first a signal that can be caught */
}

void rlimits_of(const struct limits *l, struct rlimits *r)
{
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		put(r, i, value_of(l, i));
}

void rlimits_most(struct rlimits *r)
{
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		put(r, i, rows[i].limit == LIMIT_CPU_SECONDS ? 0 : most_of(i));
}

ptrdiff_t rlimits_encode(const struct limits *l, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		msg_put_u64(&m, value_of(l, i));
	return m.failed ? -EMSGSIZE : (ptrdiff_t)m.len;
}

int rlimits_decode(const void *buf, size_t len, struct rlimits *r)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	for (unsigned int i = 0; i < RLIMITS_N; i++) {
		uint64_t v = msg_get_u64(&m);

		if (v > most_of(i) || (v == 0 && rows[i].limit != LIMIT_CPU_SECONDS))
			return -EPROTO;
		put(r, i, v);
	}
	return msg_end(&m);
}
