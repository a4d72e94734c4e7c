/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives in front of the library that reads them. Input: one byte that says how to cut, then the archive. Checksums of
 * headers are put right before the guard sees them, if that byte is odd: no fuzzer finds those.
 *
 * Claims: however much it is shown at a time, the same pieces of headers go on, with the same members and end; it wants no more than
 * it says; what stands in front of one member, and behind the end, is bounded; a member that goes on has a name, a type
 * and a size by rules written a second time here, and as many bytes as that.
 */
#include "wire/tar_guard.h"

#include <errno.h>

#include "fuzz_input.h"

struct result {
	uint64_t hash, members, sizes;
	int end;
	const char *why;
	enum tar_guard_state state;
	size_t taken;
};

/* Put the sum of that block into its copy. */
static void put_sum(uint8_t *copy, const uint8_t *block)
{
	unsigned int sum = 0;
	char text[8] = "";

	for (size_t i = 0; i < TAR_GUARD_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : block[i];
	(void)snprintf(text, sizeof(text), "%06o", sum);
	(void)memcpy(copy + 148, text, sizeof(text));
}

/* A header that went on as a member's. */
static void check_member(const struct tar_guard *g, const uint8_t *block)
{
	MUST(strchr("0127S5", block[156]) != NULL); /* NUL among them */
	MUST(g->size <= UINT64_C(1) << 61);
	if (strchr("125", block[156]) != NULL && block[156] != '\0')
		MUST(g->size == 0);
	if (g->sparse)
		MUST(block[156] != '1' && block[156] != '2' && block[156] != '5');
	MUST(g->state == TAR_GUARD_HEAD || g->state == TAR_GUARD_DATA ||
	     g->state == TAR_GUARD_MAP || g->state == TAR_GUARD_COUNT);
}

/* What was let through of the headers of one member. */
static size_t count_front(size_t front, const struct tar_guard *before,
			  const struct tar_guard *after, size_t n)
{
	if (before->state == TAR_GUARD_DATA || before->state == TAR_GUARD_COUNT ||
	    before->state == TAR_GUARD_END)
		return 0;
	if (before->state == TAR_GUARD_HEAD && after->members != before->members &&
	    after->state != TAR_GUARD_MAP)
		return 0;
	if (before->state == TAR_GUARD_MAP && after->state != TAR_GUARD_MAP)
		return 0;
	return front + n;
}

static void read_all(struct result *res, const uint8_t *p, size_t n, uint8_t how, bool in_pieces)
{
	struct tar_guard g, before;
	uint32_t state = how;
	uint64_t data = 0, zeros = 0;
	size_t front = 0;

	*res = (struct result){ .hash = 1, .why = "" };
	tar_guard_init(&g);
	while (res->taken < n) {
		size_t have = n - res->taken, wants = tar_guard_wants(&g);
		ptrdiff_t r;
		uint8_t *copy;

		MUST(wants > 0 && wants <= TAR_GUARD_WANTS_MAX);
		if (have < wants)
			break;
		if (in_pieces) {
			size_t more = wants + next_piece(&state) - 1;

			have = more < have ? more : have;
		}
		copy = exact_copy(p + res->taken, have);
		if ((how & 1) != 0 && g.state == TAR_GUARD_HEAD && p[res->taken] != 0)
			put_sum(copy, p + res->taken);
		before = g;
		r = tar_guard_take(&g, copy, have, &res->why);
		MUST(r == -EBADMSG || (r >= 1 && (size_t)r <= have));
		if (r > 0 && g.members != before.members) {
			MUST(g.members == before.members + 1 && before.state == TAR_GUARD_HEAD);
			MUST(r == TAR_GUARD_BLOCK && data == 0);
			check_member(&g, copy);
			data = (g.size + 511) / 512 * 512;
			res->sizes += g.size;
		}
		if (r > 0 && (before.state == TAR_GUARD_DATA || before.state == TAR_GUARD_COUNT)) {
			MUST((uint64_t)r <= data);
			data -= (uint64_t)r;
		}
		if (r > 0 && before.state != TAR_GUARD_DATA && before.state != TAR_GUARD_END)
			res->hash = hash_bytes(res->hash, copy, (size_t)r);
		free(copy);
		if (r < 0) {
			res->end = (int)r;
			MUST(g.state == TAR_GUARD_REFUSED && res->why[0] != '\0');
			MUST(g.about <= g.members + 1);
			break;
		}
		MUST(g.state == TAR_GUARD_DATA || before.state != TAR_GUARD_DATA || data == 0);
		zeros += before.state == TAR_GUARD_END ? (uint64_t)r : 0;
		MUST(zeros <= TAR_GUARD_TAIL);
		front = count_front(front, &before, &g, (size_t)r);
		MUST(front <= TAR_GUARD_CHAIN_BYTES + TAR_GUARD_BLOCK);
		res->taken += (size_t)r;
	}
	if (res->end == 0) {
		res->end = tar_guard_end(&g, n - res->taken, &res->why);
		MUST((res->end == 0) == (g.state == TAR_GUARD_END));
		MUST(res->end != 0 || res->taken == n);
	}
	res->members = g.members;
	res->state = g.state;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct result whole, parts;
	struct input in = { bytes, size };
	uint8_t how = take_u8(&in);

	read_all(&whole, in.p, in.n, how, false);
	read_all(&parts, in.p, in.n, how, true);
	MUST(whole.end == parts.end && whole.hash == parts.hash && whole.state == parts.state);
	MUST(whole.members == parts.members && whole.sizes == parts.sizes);
	MUST(strcmp(whole.why, parts.why) == 0);
	return 0;
}
