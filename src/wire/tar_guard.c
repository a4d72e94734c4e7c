// SPDX-License-Identifier: Apache-2.0
#include "wire/tar_guard.h"

#include <errno.h>
#include <string.h>

/* Where a header has what. */
enum {
	NAME = 0,
	SIZE = 124,
	SIZE_LEN = 12,
	CHECKSUM = 148,
	CHECKSUM_LEN = 8,
	TYPE = 156,
	MAGIC = 257,
	PREFIX = 345,
	/* Of GNU's sparse files: four parts of the map, whether it goes on, the size with holes. */
	MAP = 386,
	MAP_GOES_ON = 482,
	MAP_END = 495,
	/* The same in a block that continues the map. */
	MAP_BLOCK_GOES_ON = 504,
};

/* What was said of a member before its own header came. */
enum {
	SEEN_PAX = 1u << 0,
	SEEN_LONG = 1u << 1, /* the two of GNU's */
	SEEN_NAME = 1u << 2,
	SEEN_LINK = 1u << 3,
	SEEN_SIZE = 1u << 4,
	SEEN_MAP = 1u << 5,
	SEEN_COUNT = 1u << 6, /* the map is in front of the contents */
};

/* More than any disk has, and far from where sums of sizes overflow. */
#define SIZE_MOST (UINT64_C(1) << 60)

enum kind { FILE_KIND, SPARSE, LINK, DIRECTORY, PAX, LONG, LABEL, REFUSED };

struct type {
	char type;
	enum kind kind;
	/* Of headers in front of a member: what they say, and what must not have been said before. Where both dialects name
	 * a member, every reader has another idea of who wins. */
	unsigned int says, excludes;
	const char *why;
};

static const struct type types[] = {
	{ .type = '0', .kind = FILE_KIND },
	{ .type = '\0', .kind = FILE_KIND },
	{ .type = '7', .kind = FILE_KIND },
	{ .type = 'S', .kind = SPARSE },
	{ .type = '1', .kind = LINK },
	{ .type = '2', .kind = LINK },
	{ .type = '5', .kind = DIRECTORY },
	{ 'x', PAX, SEEN_PAX, SEEN_PAX | SEEN_LONG, NULL },
	{ .type = 'g', .kind = PAX },
	{ 'L', LONG, SEEN_LONG | SEEN_NAME, SEEN_PAX | SEEN_NAME, NULL },
	{ 'K', LONG, SEEN_LONG | SEEN_LINK, SEEN_PAX | SEEN_LINK, NULL },
	{ .type = 'V', .kind = LABEL },
	{ '3', REFUSED, 0, 0, "a device" },
	{ '4', REFUSED, 0, 0, "a device" },
	{ '6', REFUSED, 0, 0, "a pipe" },
	{ 'M', REFUSED, 0, 0, "the rest of a file of another volume" },
	{ 'D', REFUSED, 0, 0, "a directory of an incremental archive" },
};

static const struct type *type_of(char c)
{
	static const struct type unknown = { '\0', REFUSED, 0, 0,
					     "a kind of member that is not known here" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].type == c)
			return &types[i];
	return &unknown;
}

static const char gnu_magic[8] = "ustar  ", posix_magic[6] = "ustar";

void tar_guard_init(struct tar_guard *g)
{
	*g = (struct tar_guard){ .state = TAR_GUARD_HEAD };
}

size_t tar_guard_wants(const struct tar_guard *g)
{
	switch (g->state) {
	case TAR_GUARD_HEAD:
	case TAR_GUARD_MAP:
	case TAR_GUARD_COUNT:
		return TAR_GUARD_BLOCK;
	case TAR_GUARD_EXTRA:
		return g->extra;
	case TAR_GUARD_DATA:
	case TAR_GUARD_END:
	case TAR_GUARD_REFUSED:
		break;
	}
	return 1;
}

static bool is_first(const struct tar_guard *g)
{
	return g->members == 0 && g->chain == 0;
}

static int refuse(struct tar_guard *g, const char **why, const char *text)
{
	g->state = TAR_GUARD_REFUSED;
	*why = text;
	return -EBADMSG;
}

static uint64_t in_blocks(uint64_t n)
{
	return (n + TAR_GUARD_BLOCK - 1) / TAR_GUARD_BLOCK * TAR_GUARD_BLOCK;
}

/* --- fields --------------------------------------------------------------------------------------- */

/* Octal digits between blanks, nothing at all being 0; or base 256. -1: no number, or too large a one. */
static int64_t number(const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	size_t i = 0;

	if (p[0] == 0x80) { /* positive; a negative one begins with 0xff */
		for (i = 1; i < n; i++) {
			if (v > SIZE_MOST >> 8)
				return -1;
			v = v << 8 | p[i];
		}
		return (int64_t)v;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0'); /* 12 digits are 36 bits */
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return -1;
	return (int64_t)v;
}

/* Some old programs took bytes for signed ones. */
static bool sum_is_right(const uint8_t *block)
{
	int64_t sum = 0, signed_sum = 0, want = number(block + CHECKSUM, CHECKSUM_LEN);

	for (size_t i = 0; i < TAR_GUARD_BLOCK; i++) {
		uint8_t c = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_LEN ? ' ' : block[i];

		sum += c;
		signed_sum += (int8_t)c;
	}
	return want == sum || want == signed_sum;
}

static bool is_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* --- what is said in front of a member ------------------------------------------------------------ */

static bool is_key(const char *key, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(key, name, n) == 0;
}

static bool starts_with(const char *key, size_t n, const char *name)
{
	return n >= strlen(name) && memcmp(key, name, strlen(name)) == 0;
}

static int take_pax_size(struct tar_guard *g, const char *value, size_t n, const char **why)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		if (value[i] < '0' || value[i] > '9' || v > SIZE_MOST / 10)
			return refuse(g, why, "a size that is no number");
		v = v * 10 + (uint64_t)(value[i] - '0');
	}
	if (n == 0)
		return refuse(g, why, "a size that is no number");
	g->pax_size = v;
	return 0;
}

/* One that says how a member is to be read. A second word on the same is for nobody but who hopes that readers differ. */
static int take_key(struct tar_guard *g, const char *key, size_t n, const char *value,
		    size_t value_len, const char **why)
{
	static const struct {
		const char *name;
		unsigned int means;
	} keys[] = {
		{ "path", SEEN_NAME },
		{ "linkpath", SEEN_LINK },
		{ "size", SEEN_SIZE },
	};
	unsigned int means = starts_with(key, n, "GNU.sparse.") ? SEEN_MAP : 0;

	if (is_key(key, n, "SUN.holesdata") || is_key(key, n, "SCHILY.realsize"))
		return refuse(g, why, "a sparse file of a form that is not known here");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (is_key(key, n, keys[i].name))
			means = keys[i].means;
	if (means == 0)
		return 0;
	if (g->extra_type == 'g')
		return refuse(g, why, "a name or size that would be every member's");
	if (means != SEEN_MAP && (g->seen & means) != 0)
		return refuse(g, why, "a name or size that is given twice");
	if (value_len == 0)
		return refuse(g, why, "an empty name or size");
	if (is_key(key, n, "GNU.sparse.major") && value[0] != '0')
		means |= SEEN_COUNT;
	g->seen |= means;
	return means == SEEN_SIZE ? take_pax_size(g, value, value_len, why) : 0;
}

/* "LENGTH KEY=VALUE\n", again and again; the length is that of all of it. */
static int take_pax(struct tar_guard *g, const char *p, size_t n, const char **why)
{
	while (n > 0) {
		size_t length = 0, at = 0, key;
		const char *equals;
		int r;

		for (; at < n && at < 6 && p[at] >= '0' && p[at] <= '9'; at++)
			length = length * 10 + (size_t)(p[at] - '0');
		if (at == 0 || at == n || p[at] != ' ' || length > n || length < at + 3 ||
		    p[length - 1] != '\n')
			return refuse(g, why, "a pax header that is none");
		key = at + 1;
		equals = memchr(p + key, '=', length - 1 - key);
		if (equals == NULL || equals == p + key || memchr(p, '\0', length) != NULL)
			return refuse(g, why, "a pax header that is none");
		r = take_key(g, p + key, (size_t)(equals - p) - key, equals + 1,
			     (size_t)(p + length - 1 - (equals + 1)), why);
		if (r < 0)
			return r;
		p += length;
		n -= length;
	}
	return 0;
}

/* A text, and NULs at most behind it. */
static int take_long(struct tar_guard *g, const uint8_t *p, size_t n, const char **why)
{
	size_t length = strnlen((const char *)p, n);

	if (length == 0 || !is_zero(p + length, n - length))
		return refuse(g, why, "a long name that is none");
	return 0;
}

static int take_extra(struct tar_guard *g, const uint8_t *p, const char **why)
{
	g->state = TAR_GUARD_HEAD;
	return g->extra_type == 'x' || g->extra_type == 'g'
		       ? take_pax(g, (const char *)p, (size_t)g->left, why)
		       : take_long(g, p, (size_t)g->left, why);
}

/* --- headers -------------------------------------------------------------------------------------- */

/* A header that is no member's, or a block of a map. */
static int chain(struct tar_guard *g, size_t bytes, const char **why)
{
	g->chain_bytes += bytes;
	return g->chain_bytes > TAR_GUARD_CHAIN_BYTES
		       ? refuse(g, why, "more than 1 MiB of headers in front of it")
		       : 0;
}

static int begin_extra(struct tar_guard *g, const struct type *t, uint64_t size, const char **why)
{
	if (++g->chain > TAR_GUARD_CHAIN)
		return refuse(g, why, "too many headers in front of it");
	if (t->kind == LABEL)
		return size == 0 ? chain(g, TAR_GUARD_BLOCK, why)
				 : refuse(g, why, "a label with contents");
	if ((g->seen & t->excludes) != 0)
		return refuse(g, why, "two headers that name it");
	if (size == 0 || size > TAR_GUARD_HEADER)
		return refuse(g, why,
			      size == 0 ? "an empty header" : "a header of more than 64 KiB");
	g->seen |= t->says;
	g->extra_type = t->type;
	g->left = size;
	g->extra = (size_t)in_blocks(size);
	g->state = TAR_GUARD_EXTRA;
	return chain(g, TAR_GUARD_BLOCK + g->extra, why);
}

static int check_name(struct tar_guard *g, const uint8_t *block, enum kind kind, const char **why)
{
	bool posix = memcmp(block + MAGIC, posix_magic, sizeof(posix_magic)) == 0;

	if ((g->seen & SEEN_NAME) == 0 && block[NAME] == '\0' && (!posix || block[PREFIX] == '\0'))
		return refuse(g, why, "it has no name");
	if ((g->seen & SEEN_LINK) != 0 && kind != LINK)
		return refuse(g, why, "a target of what is no link");
	return 0;
}

/* Some readers look for a map wherever GNU's magic is. */
static int check_map(struct tar_guard *g, const uint8_t *block, enum kind kind, const char **why)
{
	bool gnu = memcmp(block + MAGIC, gnu_magic, sizeof(gnu_magic)) == 0;

	if (kind == SPARSE ? !gnu || (g->seen & SEEN_MAP) != 0 ||
				     (block[MAP] == '\0' && block[MAP_GOES_ON] != '\0')
			   : gnu && !is_zero(block + MAP, MAP_END - MAP))
		return refuse(g, why, "a sparse file of a form that is not known here");
	if ((g->seen & SEEN_MAP) != 0 && kind != FILE_KIND)
		return refuse(g, why, "a map of what is no file");
	return 0;
}

static int begin_member(struct tar_guard *g, const uint8_t *block, enum kind kind, uint64_t size,
			const char **why)
{
	int r = check_name(g, block, kind, why);

	if (r == 0)
		r = check_map(g, block, kind, why);
	if (r < 0)
		return r;
	if ((g->seen & SEEN_SIZE) != 0)
		size = g->pax_size;
	if ((kind == LINK || kind == DIRECTORY) && size != 0)
		return refuse(g, why, "contents of what has none");
	g->members++;
	g->sparse = kind == SPARSE || (g->seen & SEEN_MAP) != 0;
	g->size = size;
	g->left = in_blocks(size);
	g->state = g->left == 0                  ? TAR_GUARD_HEAD
		   : (g->seen & SEEN_COUNT) != 0 ? TAR_GUARD_COUNT
						 : TAR_GUARD_DATA;
	g->seen = 0;
	g->chain = 0;
	if (kind == SPARSE && block[MAP_GOES_ON] != '\0')
		g->state = TAR_GUARD_MAP;
	else
		g->chain_bytes = 0;
	return 0;
}

static int take_head(struct tar_guard *g, const uint8_t *block, const char **why)
{
	const struct type *t = type_of((char)block[TYPE]);
	int64_t size;

	g->about = is_first(g) ? 0 : g->members + 1;
	if (is_zero(block, TAR_GUARD_BLOCK)) {
		g->about = 0;
		g->state = TAR_GUARD_END;
		g->left = TAR_GUARD_TAIL;
		return g->seen == 0 ? 0 : refuse(g, why, "a header without a member");
	}
	if (!sum_is_right(block))
		return refuse(g, why, is_first(g) ? "not a tar archive" : "a damaged header");
	g->about = g->members + 1;
	size = number(block + SIZE, SIZE_LEN);
	if (size < 0)
		return refuse(g, why, "a size that is no number");
	if (t->kind == REFUSED)
		return refuse(g, why, t->why);
	return t->kind >= PAX ? begin_extra(g, t, (uint64_t)size, why)
			      : begin_member(g, block, t->kind, (uint64_t)size, why);
}

static int take_map(struct tar_guard *g, const uint8_t *block, const char **why)
{
	if (block[MAP_BLOCK_GOES_ON] == '\0') {
		g->state = g->left > 0 ? TAR_GUARD_DATA : TAR_GUARD_HEAD;
		g->chain_bytes = 0;
		return 0;
	}
	return chain(g, TAR_GUARD_BLOCK, why);
}

/* "3\n", and so many times two numbers: whoever reads it keeps them. */
static int take_count(struct tar_guard *g, const uint8_t *p, const char **why)
{
	size_t n = 0, i = 0;

	for (; i < 6 && p[i] >= '0' && p[i] <= '9'; i++)
		n = n * 10 + (size_t)(p[i] - '0');
	if (i == 0 || p[i] != '\n' || n > TAR_GUARD_PARTS)
		return refuse(g, why, "a sparse file of too many parts");
	g->left -= TAR_GUARD_BLOCK;
	g->state = g->left > 0 ? TAR_GUARD_DATA : TAR_GUARD_HEAD;
	return 0;
}

/* --- the archive ---------------------------------------------------------------------------------- */

ptrdiff_t tar_guard_take(struct tar_guard *g, const uint8_t *p, size_t n, const char **why)
{
	size_t piece = tar_guard_wants(g);
	int r = 0;

	switch (g->state) {
	case TAR_GUARD_HEAD:
		r = take_head(g, p, why);
		break;
	case TAR_GUARD_EXTRA:
		r = take_extra(g, p, why);
		break;
	case TAR_GUARD_MAP:
		r = take_map(g, p, why);
		break;
	case TAR_GUARD_COUNT:
		r = take_count(g, p, why);
		break;
	case TAR_GUARD_DATA:
		piece = n < g->left ? n : (size_t)g->left;
		g->left -= piece;
		if (g->left == 0)
			g->state = TAR_GUARD_HEAD;
		break;
	case TAR_GUARD_END:
		piece = n;
		if (!is_zero(p, n) || n > g->left)
			return refuse(g, why, "bytes behind the end of the archive");
		g->left -= n;
		break;
	case TAR_GUARD_REFUSED:
		return refuse(g, why, "the archive was refused before");
	}
	return r < 0 ? r : (ptrdiff_t)piece;
}

int tar_guard_end(const struct tar_guard *g, size_t left_over, const char **why)
{
	if (g->state == TAR_GUARD_END && left_over == 0)
		return 0;
	*why = is_first(g) ? "not a tar archive" : "the archive is cut";
	return -EBADMSG;
}
