// SPDX-License-Identifier: Apache-2.0
#include "wire/fileop.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

static const struct fileop_row rows[FILEOP_MAX] = {
#define FILEOP(id, name, min, max, doc) [FILEOP_##id] = { name, min, max, doc },
#include "wire/fileops.tbl"
#undef FILEOP
};

const struct fileop_row *fileop_row(enum fileop op)
{
	return &rows[op];
}

int fileop_find(const char *const *argv)
{
	unsigned int n = 0;

	while (argv[n] != NULL)
		n++;
	for (int i = 0; i < FILEOP_MAX; i++)
		if (n > 0 && strcmp(argv[0], rows[i].name) == 0)
			return n >= 2 + rows[i].min && n <= 2 + rows[i].max ? i : -EINVAL;
	return -ENOSYS;
}

/* One that is too large for a number is larger than every file. */
static int to_number(const char *text, uint64_t *ret)
{
	if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
		return -EINVAL;
	if (str_to_u64(text, UINT64_MAX, ret) < 0)
		*ret = UINT64_MAX;
	return 0;
}

int fileop_range(uint64_t size, const char *from, const char *count, uint64_t *ret_start,
		 uint64_t *ret_n)
{
	bool from_end = from[0] == '-';
	uint64_t start, n = UINT64_MAX;

	if (to_number(from + (from_end ? 1 : 0), &start) < 0 ||
	    (count[0] != '\0' && to_number(count, &n) < 0))
		return -EINVAL;
	if (from_end) {
		if (start == 0)
			return -ERANGE;
		start = start < size ? size - start : 0;
	}
	/* An empty file has no byte at all, and can be read as a whole. */
	if (start >= size && (from_end || start > 0 || count[0] != '\0'))
		return -ERANGE;
	*ret_start = start;
	*ret_n = n < size - start ? n : size - start;
	return 0;
}

int fileop_send(const struct listing_entry *e, const struct fileop_read *q, uint64_t *ret_start,
		uint64_t *ret_n)
{
	char etag[LISTING_ETAG];
	int r;

	listing_etag(e, etag);
	if (q->if_none_match[0] != '\0' && etag_listed(q->if_none_match, etag))
		return FILEOP_UNCHANGED;
	if (q->if_range[0] != '\0' && strcmp(q->if_range, etag) != 0)
		r = fileop_range(e->size, "0", "", ret_start, ret_n);
	else
		r = fileop_range(e->size, q->from, q->count, ret_start, ret_n);
	return r == -ERANGE ? FILEOP_NO_RANGE : r < 0 ? r : FILEOP_BYTES;
}
