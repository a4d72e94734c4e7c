// SPDX-License-Identifier: Apache-2.0
#include "gate/file_head.h"

#include "base/own.h"
#include "base/utf8.h"
#include "gate/req.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const struct {
	const char *end, *type;
} types[] = {
#define FILE_TYPE(end, type) { end, type },
#include "gate/file_types.tbl"
#undef FILE_TYPE
};

const char *file_type(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (unsigned int i = 0; dot != NULL && i < ARRAY_LEN(types); i++)
		if (strcasecmp(dot + 1, types[i].end) == 0)
			return types[i].type;
	return "application/octet-stream";
}

/* --- names ---------------------------------------------------------------------------------------- */

enum {
	QUOTED_MAX = 900,
	CODED_MAX = 780
}; /* the header is longer than neither, and both with 200 of the first */

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '%';
}

/* For old clients: a character of which nobody knows how they would take it is '_'. Whether that is all of the name. */
static bool put_quoted(const char *name, char out[QUOTED_MAX + 1])
{
	size_t n = 0;
	bool same = true;

	for (const char *p = name; *p != '\0' && n < QUOTED_MAX; p++, n++) {
		out[n] = is_plain((unsigned char)*p) ? *p : '_';
		same = same && out[n] == *p;
	}
	out[n] = '\0';
	return same && strlen(name) == n;
}

static size_t put_coded_byte(char *out, unsigned char c)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	if (strchr(safe, c) == NULL)
		return (size_t)snprintf(out, 4, "%%%02X", c);
	out[0] = (char)c;
	return 1;
}

/* Characters of the name in UTF-8, what is none as U+FFFD; false: it is too long. */
static bool put_coded(const char *name, char out[CODED_MAX + 1])
{
	const unsigned char *p = (const unsigned char *)name;
	size_t left = strlen(name), n = 0;
	uint32_t c;

	while (left > 0) {
		size_t len = utf8_next(p, left, &c), used = len > 0 ? len : utf8_bad(p, left);
		const unsigned char *from = len > 0 ? p : (const unsigned char *)"\xef\xbf\xbd";

		if (n + 12 > CODED_MAX)
			return false;
		for (size_t i = 0; i < (len > 0 ? len : 3); i++)
			n += put_coded_byte(out + n, from[i]);
		p += used;
		left -= used;
	}
	out[n] = '\0';
	return true;
}

void file_disposition(const char *name, char out[FILE_DISPOSITION])
{
	char quoted[QUOTED_MAX + 1], coded[CODED_MAX + 1];

	if (put_quoted(name, quoted) || !put_coded(name, coded))
		(void)snprintf(out, FILE_DISPOSITION, "attachment; filename=\"%s\"", quoted);
	else
		(void)snprintf(out, FILE_DISPOSITION,
			       "attachment; filename=\"%.200s\"; filename*=UTF-8''%s", quoted,
			       coded);
}

/* --- headers -------------------------------------------------------------------------------------- */

void file_date(uint64_t ns, char out[FILE_DATE])
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t s = (time_t)(ns / 1000000000); /* the year 2554 at most */
	struct tm tm;

	(void)gmtime_r(&s, &tm);
	(void)snprintf(out, FILE_DATE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
		       days + (ptrdiff_t)3 * tm.tm_wday, tm.tm_mday,
		       months + (ptrdiff_t)3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
		       tm.tm_sec);
}

void file_head_hostile(struct req *r, const char *name)
{
	char disposition[FILE_DISPOSITION];

	file_disposition(name, disposition);
	req_header(r, "Content-Disposition", "%s", disposition);
	req_header(r, "Content-Security-Policy", "sandbox");
	req_header(r, "Cross-Origin-Resource-Policy", "same-origin");
}
