/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of what changes, from a hostile box. Input: one byte that says how to cut, one after how many records the caller
 * stops, then the stream.
 *
 * Claims: pieces give the same records and the same end as the whole; a path that comes out stays below, by a rule written a
 * second time here, and is there where one has to be; the records, encoded again, are the bytes that were read.
 */
#include "wire/watch.h"

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
	char again[PATH_MAX + 2];

	if (path[0] == '\0' || strlen(path) >= PATH_MAX)
		return false;
	(void)snprintf(again, sizeof(again), "/%s/", path);
	for (const char *c = again; c != NULL && c[1] != '\0'; c = strchr(c + 1, '/')) {
		size_t n = strcspn(c + 1, "/");

		if (n == 0 || n > 255 || strncmp(c, "/./", 3) == 0 || strncmp(c, "/../", 4) == 0)
			return false;
	}
	return true;
}

static int take(void *arg, const struct watch_record *w)
{
	static uint8_t again[WATCH_HEADER + WATCH_RECORD_MAX];
	struct result *r = arg;
	ptrdiff_t n = watch_encode(w, again, sizeof(again));
	bool path = w->what != WATCHED_READY && w->what != WATCHED_OVERFLOW;

	MUST(w->what < WATCHED_MAX && strlen(watched_str(w->what)) > 0);
	MUST(path ? stays_below(w->path) : w->path[0] == '\0');
	MUST(w->what == WATCHED_MOVE ? stays_below(w->to) : w->to[0] == '\0');
	MUST(n > 0);
	if (r->stream != NULL)
		MUST(memcmp(again, r->stream + r->used, (size_t)n) == 0);
	r->used += (size_t)n;
	r->hash = hash_bytes(r->hash, again, (size_t)n);
	return ++r->records == r->stop_at ? -ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct watch_reader reader;
	struct input in = { data, size };
	uint32_t how = take_u8(&in);
	unsigned int stop_at = take_u8(&in);
	struct result whole = { .hash = 1, .stop_at = stop_at, .stream = in.p };
	struct result parts = { .hash = 1, .stop_at = stop_at };

	reader.len = 0;
	whole.end = watch_feed(&reader, in.p, in.n, take, &whole);
	if (whole.end == 0) {
		MUST((watch_end(&reader) == 0) == (whole.used == in.n));
		whole.end = watch_end(&reader);
	}
	MUST(whole.end == 0 || whole.end == -EPROTO || whole.end == -ECANCELED);

	reader.len = 0;
	while (parts.end == 0 && in.n > 0) {
		size_t n;
		const uint8_t *p = take_bytes(&in, next_piece(&how), &n);
		uint8_t *piece = exact_copy(p, n);

		parts.end = watch_feed(&reader, piece, n, take, &parts);
		free(piece);
	}
	if (parts.end == 0)
		parts.end = watch_end(&reader);
	MUST(parts.end == whole.end && parts.records == whole.records);
	MUST(parts.hash == whole.hash);
	return 0;
}
