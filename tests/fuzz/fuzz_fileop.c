/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a `read` and the tags of a client's headers. Input: a byte for the size of the file, then from, count, if_range and
 * if_none_match, each ended by a newline.
 *
 * Claims: what is sent lies in the file; a range is the one that another arithmetic finds; a tag is listed exactly if it stands
 * there, by a rule written a second time; a strong match is a weak one, too.
 */
#include "wire/fileop.h"

#include <errno.h>
#include <stdbool.h>

#include "fuzz_input.h"

static char *take_line(struct input *in)
{
	const uint8_t *end = memchr(in->p, '\n', in->n);
	size_t n = end != NULL ? (size_t)(end - in->p) : in->n, used;
	char *line = malloc(n + 1);

	MUST(line != NULL);
	if (n > 0)
		(void)memcpy(line, take_bytes(in, n, &used), n);
	line[n] = '\0';
	(void)take_u8(in);
	return line;
}

static bool is_number(const char *s)
{
	return s[0] != '\0' && strspn(s, "0123456789") == strlen(s);
}

/* Small numbers only: the rest is larger than every file here. */
static long value(const char *s)
{
	while (*s == '0')
		s++;
	return strlen(s) > 9 ? 1000000000L : strtol(s, NULL, 10);
}

/* -EINVAL, -ERANGE or 0, byte by byte. */
static int range_again(long size, const char *from, const char *count, long *start, long *n)
{
	bool from_end = from[0] == '-';
	long first, last;

	if (!is_number(from + from_end) || (count[0] != '\0' && !is_number(count)))
		return -EINVAL;
	first = value(from + from_end);
	if (from_end)
		first = first == 0 ? size : first > size ? 0 : size - first;
	last = count[0] == '\0' ? size : first + value(count);
	if (last > size)
		last = size;
	if (first >= size && !(size == 0 && !from_end && first == 0 && count[0] == '\0'))
		return -ERANGE;
	*start = first;
	*n = last - first;
	return 0;
}

/* Whether a header is a list in which the tag stands behind its start, a comma or spaces, and before the same. */
static bool listed_again(const char *header, const char *etag, bool weak_too)
{
	const char *at = header + strspn(header, " \t");

	if (at[0] == '*')
		return at[1 + strspn(at + 1, " \t")] == '\0';
	for (;;) {
		bool weak;
		const char *end;

		while (*at == ' ' || *at == '\t' || *at == ',')
			at++;
		weak = at[0] == 'W' && at[1] == '/';
		at += weak ? 2 : 0;
		if (*at != '"')
			return false;
		for (end = at + 1; *end != '\0' && *end != '"'; end++)
			;
		if (*end == '\0')
			return false;
		if (end[1 + strspn(end + 1, " \t")] != '\0' &&
		    end[1 + strspn(end + 1, " \t")] != ',')
			return false;
		if ((size_t)(end + 1 - at) == strlen(etag) &&
		    strncmp(at, etag, strlen(etag)) == 0 && (weak_too || !weak))
			return true;
		at = end + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct listing_entry e = { .type = 'f', .size = take_u8(&in), .inode = 1 };
	char *words[4], etag[LISTING_ETAG];
	uint64_t start = 0, n = 0;
	long want_start = 0, want_n = 0;
	struct fileop_read q;
	int sent, want;

	for (int i = 0; i < 4; i++)
		words[i] = take_line(&in);
	q = (struct fileop_read){ "follow", words[0], words[1], words[2], words[3] };
	listing_etag(&e, etag);
	sent = fileop_send(&e, &q, &start, &n);
	if (q.if_none_match[0] != '\0' && listed_again(q.if_none_match, etag, true)) {
		MUST(sent == FILEOP_UNCHANGED);
	} else if (q.if_range[0] != '\0' && strcmp(q.if_range, etag) != 0) {
		MUST(sent == FILEOP_BYTES && start == 0 && n == e.size);
	} else {
		want = range_again((long)e.size, q.from, q.count, &want_start, &want_n);
		MUST(sent == (want == -ERANGE ? FILEOP_NO_RANGE : want));
	}
	if (sent == FILEOP_BYTES)
		MUST(start <= e.size && n <= e.size - start);
	if (sent == FILEOP_BYTES && q.if_range[0] == '\0')
		MUST(start == (uint64_t)want_start && n == (uint64_t)want_n);
	for (int i = 0; i < 4; i++) {
		bool strong = etag_listed_strong(words[i], etag);

		MUST(etag_listed(words[i], etag) == listed_again(words[i], etag, true));
		MUST(strong == listed_again(words[i], etag, false));
		MUST(!strong || etag_listed(words[i], etag));
	}
	for (int i = 0; i < 4; i++)
		free(words[i]);
	return 0;
}
