/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing records, from a hostile box. Input: one byte that says how to cut, one after how many records the caller
 * stops, then the stream.
 *
 * Claims: pieces give the same records and the same end as the whole; a path that comes out is plain, by a rule
 * written a second time here; the records, encoded again, are the bytes that were read.
 */
#include "wire/listing.h"

#include <errno.h>
#include <stdbool.h>

#include "fuzz_input.h"

struct result {
	uint64_t hash;
	unsigned int records, stop_at;
	const uint8_t *stream; /* to compare with, or NULL */
	size_t used;
	int end;
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

static int take(void *arg, const struct listing_entry *e)
{
	static uint8_t again[LISTING_HEADER + LISTING_RECORD_MAX];
	struct result *r = arg;
	ptrdiff_t n = listing_encode(e, again, sizeof(again));

	MUST(e->type == 'f' || e->type == 'd' || e->type == 'l' || e->type == 'o');
	MUST(is_plain(e->path));
	MUST(n > 0);
	if (r->stream != NULL)
		MUST(memcmp(again, r->stream + r->used, (size_t)n) == 0);
	r->used += (size_t)n;
	r->hash = hash_bytes(r->hash, again, (size_t)n);
	return ++r->records == r->stop_at ? -ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct listing_reader reader;
	struct input in = { data, size };
	uint32_t how = take_u8(&in);
	unsigned int stop_at = take_u8(&in);
	struct result whole = { .hash = 1, .stop_at = stop_at, .stream = in.p };
	struct result parts = { .hash = 1, .stop_at = stop_at };

	reader.len = 0;
	whole.end = listing_feed(&reader, in.p, in.n, take, &whole);
	if (whole.end == 0) {
		MUST((listing_end(&reader) == 0) == (whole.used == in.n));
		whole.end = listing_end(&reader);
	}
	MUST(whole.end == 0 || whole.end == -EPROTO || whole.end == -ECANCELED);

	reader.len = 0;
	while (parts.end == 0 && in.n > 0) {
		size_t n;
		const uint8_t *p = take_bytes(&in, next_piece(&how), &n);
		uint8_t *piece = exact_copy(p, n);

		parts.end = listing_feed(&reader, piece, n, take, &parts);
		free(piece);
	}
	if (parts.end == 0)
		parts.end = listing_end(&reader);
	MUST(parts.end == whole.end && parts.records == whole.records);
	MUST(parts.hash == whole.hash);
	return 0;
}
