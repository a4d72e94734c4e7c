/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from a command line or a request: numbers, sizes, durations, paths. Input: the text, up to its first NUL.
 *
 * Claims: a number is what strtoull() says where the text is digits only, and refused otherwise; a unit multiplies;
 * outputs are untouched on failure; what is shown of a size can be typed back and is no more than it was; a limit
 * is within its row; a path is plain, or below, exactly when the rule written a second time here says so.
 */
#include "base/str.h"

#include <errno.h>
#include <limits.h>

#include "base/limits.h"

#include "fuzz_input.h"

#define UNTOUCHED 0x5555aaaa5555aaaaULL

static void fuzz_number(const char *text)
{
	bool digits = text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
	uint64_t v = UNTOUCHED, want;
	int r = str_to_u64(text, UINT64_MAX, &v);

	if (!digits) {
		MUST(r == -EINVAL || r == -ERANGE);
		MUST(v == UNTOUCHED);
		return;
	}
	errno = 0;
	want = strtoull(text, NULL, 10);
	if (errno == ERANGE) {
		MUST(r == -ERANGE && v == UNTOUCHED);
		return;
	}
	MUST(r == 0 && v == want);
	if (want > 0)
		MUST(str_to_u64(text, want - 1, &v) == -ERANGE);
}

typedef int (*parse_fn)(const char *, uint64_t *);

/* text and text with a unit behind it, where both are good. */
static void check_unit(parse_fn parse, const char *text, const char *suffix, uint64_t factor)
{
	size_t n = strlen(text);
	char *longer = malloc(n + 8);
	uint64_t one = UNTOUCHED, many = UNTOUCHED;
	int r;

	MUST(longer != NULL);
	(void)snprintf(longer, n + 8, "%s%s", text, suffix);
	r = parse(longer, &many);
	MUST(r == 0 || r == -EINVAL || r == -ERANGE);
	MUST(r == 0 || many == UNTOUCHED);
	if (parse(text, &one) == 0 && r == 0 && strchr("0123456789", text[n - 1]) != NULL) {
		if (strchr(text, '.') == NULL)
			MUST(many == one * factor);
		else
			MUST(many / factor <= one && one <= many / factor + 1);
	}
	free(longer);
}

static void fuzz_scaled(const char *text)
{
	static const parse_fn parsers[] = { str_to_bytes, str_to_duration_us, str_to_milli };

	for (size_t i = 0; i < 3; i++) {
		uint64_t v = UNTOUCHED;
		int r = parsers[i](text, &v);

		MUST(r == 0 || ((r == -EINVAL || r == -ERANGE) && v == UNTOUCHED));
		/* The whole part keeps to what a signed number holds; a fraction of an hour may come on top. */
		MUST(r < 0 || v <= (uint64_t)INT64_MAX + 3600000000u);
		MUST(r < 0 || (text[0] >= '0' && text[0] <= '9'));
	}
	check_unit(str_to_bytes, text, "k", 1024);
	check_unit(str_to_bytes, text, "GiB", 1 << 30);
}

static void fuzz_shown(const char *text)
{
	char buf[40], *space;
	uint64_t v, back;

	if (str_to_bytes(text, &v) < 0)
		return;
	MUST(str_from_bytes(v, buf, sizeof(buf)) == buf);
	space = strchr(buf, ' ');
	MUST(space != NULL);
	(void)memmove(space, space + 1, strlen(space));
	MUST(str_to_bytes(buf, &back) == 0);
	MUST(back <= v && v - back <= v / 10 + 1);
}

static void fuzz_limits(const char *text)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);
		uint64_t v = UNTOUCHED;
		int r = limit_parse((enum limit_id)i, text, &v);

		if (r == 0)
			MUST(v >= row->min && v <= row->max);
		else
			MUST((r == -EINVAL || r == -ERANGE) && v == UNTOUCHED);
	}
}

static bool is_below(const char *path, bool controls)
{
	const char *component = path;

	if (strlen(path) >= PATH_MAX)
		return false;
	for (const char *c = path;; c++) {
		if (*c != '\0' && *c != '/') {
			if (!controls && ((*c > 0 && *c < ' ') || *c == 0x7f))
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(strnlen((const char *)data, size) + 1);
	size_t n = strnlen((const char *)data, size);

	MUST(text != NULL);
	(void)memcpy(text, data, n);
	text[n] = '\0';
	fuzz_number(text);
	fuzz_scaled(text);
	fuzz_shown(text);
	fuzz_limits(text);
	MUST(path_is_below(text) == is_below(text, true));
	MUST(path_is_plain(text) == is_below(text, false));
	MUST(path_is_plain_abs(text) == (text[0] == '/' && is_below(text + 1, false)));
	free(text);
	return 0;
}
