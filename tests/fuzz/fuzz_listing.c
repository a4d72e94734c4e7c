/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing records, from a hostile box. Input: one byte that says how to cut, one after how many records the caller
 * stops, then the stream.
 *
 * Claims: pieces give the same records and the same end as the whole; a path that comes out stays below, by a rule
 * written a second time here; the records, encoded again, are the bytes that were read; the first one alone is the first
 * of all.
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

static bool stays_below(const char *path)
{
	const char *component = path;

	if (strlen(path) >= PATH_MAX)
		return false;
	for (const char *c = path;; c++) {
		if (*c != '\0' && *c != '/')
			continue;
		if (c == component || c - component > 255 ||
		    (c - component == 1 && component[0] == '.') ||
		    (c - component == 2 && component[0] == '.' && component[1] == '.'))
			return false;
		if (*c == '\0')
			return true;
		component = c + 1;
	}
}

static void check_etag(const struct listing_entry *e)
{
	char etag[LISTING_ETAG], two[2 * LISTING_ETAG];

	listing_etag(e, etag);
	MUST(strlen(etag) < sizeof(etag) && etag_listed(etag, etag) &&
	     etag_listed_strong(etag, etag));
	(void)snprintf(two, sizeof(two), "\"\", W/%s", etag);
	MUST(etag_listed(two, etag) && !etag_listed_strong(two, etag));
}

static int take(void *arg, const struct listing_entry *e)
{
	static uint8_t again[LISTING_HEADER + LISTING_RECORD_MAX];
	struct result *r = arg;
	ptrdiff_t n = listing_encode(e, again, sizeof(again));

	MUST(e->type == 'f' || e->type == 'd' || e->type == 'l' || e->type == 'o');
	MUST(strcmp(e->path, ".") == 0 || stays_below(e->path));
	MUST(e->target[0] == '\0' || e->type == 'l');
	MUST((e->flags & ~(unsigned int)(LISTING_NEW | LISTING_RAW)) == 0);
	check_etag(e);
	MUST(n > 0);
	if (r->stream != NULL)
		MUST(memcmp(again, r->stream + r->used, (size_t)n) == 0);
	r->used += (size_t)n;
	r->hash = hash_bytes(r->hash, again, (size_t)n);
	return ++r->records == r->stop_at ? -ECANCELED : 0;
}

static int stop(void *arg, const struct listing_entry *e)
{
	*(struct listing_entry *)arg = *e;
	return -ECANCELED;
}

/* Behind the first record may be anything. */
static void check_first(const uint8_t *data, size_t size)
{
	static struct listing_reader reader;
	static struct listing_entry first;
	const struct listing_entry *e;
	ptrdiff_t n;
	int r;

	if (size < 2)
		return;
	reader.len = 0;
	r = listing_feed(&reader, data + 2, size - 2, stop, &first);
	reader.len = 0;
	n = listing_first(&reader, data + 2, size - 2, &e);
	MUST(n <= (ptrdiff_t)size - 2 && (n < 0) == (r == -EPROTO));
	MUST((e != NULL) == (r == -ECANCELED));
	if (e != NULL)
		MUST(strcmp(e->path, first.path) == 0 && e->inode == first.inode);
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
	check_first(data, size);
	return 0;
}
