/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/tar_guard.c: what an archive is made of, and what no reader of archives gets to see. */
#include "wire/tar_guard.h"

#include <errno.h>
#include <stdio.h>

#include "test_help.h"

enum { ARCHIVE_MAX = 3 * 1024 * 1024 };

/* An archive that is being written by hand. */
struct made {
	uint8_t p[ARCHIVE_MAX];
	size_t n;
};

static struct made made;

static void begin(void)
{
	made.n = 0;
}

static uint8_t *add(const void *p, size_t n, size_t room)
{
	uint8_t *at = made.p + made.n;

	CHECK(n <= room && room <= sizeof(made.p) - made.n);
	memset(at, 0, room);
	if (n > 0)
		memcpy(at, p, n);
	made.n += room;
	return at;
}

static size_t blocks(size_t n)
{
	return (n + 511) / 512 * 512;
}

static void sum(uint8_t *block)
{
	unsigned int total = 0;

	memset(block + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		total += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", total);
}

static uint8_t *head(const char *name, char type, size_t size, const char *magic)
{
	uint8_t *block = add(name, strlen(name), 512);

	(void)snprintf((char *)block + 100, 8, "%07o", 0644u);
	(void)snprintf((char *)block + 124, 12, "%011zo", size);
	block[156] = (uint8_t)type;
	memcpy(block + 257, magic, 8);
	sum(block);
	return block;
}

#define POSIX     \
	"ustar\0" \
	"00"
#define GNU "ustar  "
#define V7  "\0\0\0\0\0\0\0"

static void contents(const char *text)
{
	(void)add(text, strlen(text), blocks(strlen(text)));
}

static void member(const char *name, const char *text)
{
	(void)head(name, '0', strlen(text), POSIX);
	contents(text);
}

/* A header of that type in front of what comes. */
static void extra(char type, const void *p, size_t n)
{
	(void)head("extra", type, n, type == 'x' || type == 'g' ? POSIX : GNU);
	(void)add(p, n, blocks(n));
}

static void pax(const char *text)
{
	extra('x', text, strlen(text));
}

static void end(void)
{
	(void)add(NULL, 0, 1024);
}

/* All of it through the guard: how many members, or why not. Each piece is as large as it wants, or as there is. */
static const char *read_all(struct tar_guard *g, size_t most)
{
	struct fence f = fence_open(TAR_GUARD_WANTS_MAX + 1);
	const char *why = NULL;
	size_t at = 0;

	tar_guard_init(g);
	while (at < made.n) {
		size_t wants = tar_guard_wants(g), n = wants > most ? wants : most;
		ptrdiff_t r;

		CHECK(wants >= 1 && wants <= TAR_GUARD_WANTS_MAX);
		if (wants > made.n - at)
			break;
		n = n < made.n - at ? n : made.n - at;
		n = n <= f.size ? n : f.size;
		r = tar_guard_take(g, fence_copy(&f, made.p + at, n), n, &why);
		if (r < 0) {
			CHECK_EQ_INT(r, -EBADMSG);
			CHECK_EQ_INT(tar_guard_take(g, made.p, 512, &why), -EBADMSG);
			CHECK_STR(why, "the archive was refused before");
			(void)tar_guard_take(g, made.p, 512, &why);
			break;
		}
		CHECK(r >= 1 && (size_t)r <= n);
		at += (size_t)r;
	}
	fence_close(&f);
	if (g->state == TAR_GUARD_REFUSED)
		return why;
	return tar_guard_end(g, made.n - at, &why) < 0 ? why : NULL;
}

static void good(uint64_t members)
{
	struct tar_guard g;

	CHECK_STR(read_all(&g, 1), NULL);
	CHECK_EQ_INT(g.members, members);
	CHECK_STR(read_all(&g, 60000), NULL);
	CHECK_EQ_INT(g.members, members);
}

/* The reason as the first refusal tells it. */
static void bad(const char *want)
{
	struct tar_guard g;
	const char *why = "nothing was wrong";
	size_t at = 0;

	tar_guard_init(&g);
	while (made.n - at >= tar_guard_wants(&g) && at < made.n) {
		ptrdiff_t r = tar_guard_take(&g, made.p + at, made.n - at, &why);

		if (r < 0) {
			CHECK_STR(why, want);
			return;
		}
		at += (size_t)r;
	}
	CHECK_EQ_INT(tar_guard_end(&g, made.n - at, &why), -EBADMSG);
	CHECK_STR(why, want);
}

TEST(tar_guard_takes_what_programs_write)
{
	static const char *const magics[] = { POSIX, GNU, V7 };

	for (size_t i = 0; i < 3; i++) {
		begin();
		(void)head("d/", '5', 0, magics[i]);
		(void)head("d/f", '0', 5, magics[i]);
		contents("hello");
		(void)head("d/old", '\0', 0, magics[i]);
		memcpy(head("l", '2', 0, magics[i]) + 157, "d/f", 3);
		sum(made.p + made.n - 512);
		memcpy(head("h", '1', 0, magics[i]) + 157, "d/f", 3);
		sum(made.p + made.n - 512);
		end();
		good(5);
	}
	begin();
	end();
	good(0);
	begin();
	extra('g', "12 comment=\n", 12);
	end();
	good(0);
	begin();
	pax("11 path=ab\n22 mtime=1234567.8901\n");
	member("x", "1");
	extra('L', "a long name", 12);
	extra('K', "a long target", 13); /* without a NUL, too */
	(void)head("y", '2', 0, GNU);
	(void)head("label", 'V', 0, GNU);
	member("z", "3");
	end();
	good(3);
}

TEST(tar_guard_says_where_it_is)
{
	struct tar_guard g;
	const char *why = NULL;

	begin();
	member("a", "12345");
	pax("12 size=600\n");
	(void)head("b", '0', 3, POSIX);
	(void)add(NULL, 0, 1024);
	end();
	tar_guard_init(&g);
	CHECK_EQ_INT(tar_guard_take(&g, made.p, made.n, &why), 512);
	CHECK_EQ_INT(g.members, 1);
	CHECK_EQ_INT(g.size, 5);
	CHECK_EQ_INT(tar_guard_take(&g, made.p + 512, 4, &why), 4);
	CHECK_EQ_INT(tar_guard_take(&g, made.p + 516, made.n - 516, &why), 508);
	CHECK_EQ_INT(tar_guard_take(&g, made.p + 1024, made.n - 1024, &why), 512);
	CHECK_EQ_INT(tar_guard_wants(&g), 512);
	CHECK_EQ_INT(tar_guard_take(&g, made.p + 1536, made.n - 1536, &why), 512);
	CHECK_EQ_INT(g.members, 1);
	CHECK_EQ_INT(tar_guard_take(&g, made.p + 2048, made.n - 2048, &why), 512);
	CHECK_EQ_INT(g.members, 2);
	CHECK_EQ_INT(g.size, 600);
	CHECK_EQ_INT(tar_guard_take(&g, made.p + 2560, made.n - 2560, &why), 1024);
	CHECK_EQ_INT(g.state, TAR_GUARD_HEAD);
}

TEST(tar_guard_numbers)
{
	static const struct {
		const char *field; /* 12 bytes */
		int64_t size;      /* -1: refused */
	} rows[] = {
		{ "00000000003\0", 3 },
		{ "00000000003 ", 3 },
		{ "         3 \0", 3 },
		{ "000000000003", 3 },
		{ "\0\0\0\0\0\0\0\0\0\0\0\0", 0 },
		{ "            ", 0 },
		{ "\x80\0\0\0\0\0\0\0\0\0\0\x03", 3 },
		{ "\x80\0\0\0\0\0\0\x01\0\0\0\0", INT64_C(1) << 32 },
		{ "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", -1 },
		{ "\x80\x01\0\0\0\0\0\0\0\0\0\0", -1 },
		{ "\x81\0\0\0\0\0\0\0\0\0\0\x03", -1 },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", -1 },
		{ "-0000000003\0", -1 },
		{ "0000000000x3", -1 },
		{ "3\0 x       ", -1 },
		{ "00000000009\0", -1 },
		{ "\t          3", -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tar_guard g;
		const char *why = NULL;
		ptrdiff_t r;

		begin();
		memcpy(head("a", '0', 0, GNU) + 124, rows[i].field, 12);
		sum(made.p);
		tar_guard_init(&g);
		r = tar_guard_take(&g, made.p, 512, &why);
		CHECK_EQ_INT(r, rows[i].size < 0 ? -EBADMSG : 512);
		if (r < 0)
			CHECK_STR(why, "a size that is no number");
		else
			CHECK_EQ_INT(g.size, rows[i].size);
	}
}

TEST(tar_guard_refuses_members)
{
	static const struct {
		char type;
		size_t size;
		const char *why;
	} rows[] = {
		{ '3', 0, "a device" },
		{ '4', 0, "a device" },
		{ '6', 0, "a pipe" },
		{ 'M', 0, "the rest of a file of another volume" },
		{ 'D', 0, "a directory of an incremental archive" },
		{ 'N', 0, "a kind of member that is not known here" },
		{ 'A', 0, "a kind of member that is not known here" },
		{ 'X', 0, "a kind of member that is not known here" },
		{ 'Q', 0, "a kind of member that is not known here" },
		{ '\x80', 0, "a kind of member that is not known here" },
		{ '1', 3, "contents of what has none" },
		{ '2', 3, "contents of what has none" },
		{ '5', 3, "contents of what has none" },
		{ 'V', 3, "a label with contents" },
		{ 'S', 3, "a sparse file of a form that is not known here" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		(void)head("a", rows[i].type, rows[i].size, POSIX);
		end();
		bad(rows[i].why);
	}
	begin();
	(void)head("", '0', 0, POSIX);
	bad("it has no name");
	begin();
	memcpy(head("", '0', 0, GNU) + 345, "prefix", 6); /* which GNU's has not */
	sum(made.p);
	bad("it has no name");
}

TEST(tar_guard_refuses_what_is_in_front)
{
	static const struct {
		char type; /* of the member that follows */
		const char *text, *why;
	} rows[] = {
		{ '0', "no", "a pax header that is none" },
		{ '0', "9 path=a", "a pax header that is none" },
		{ '0', "8 path=a\n", "a pax header that is none" },
		{ '0', "11 path=a\n", "a pax header that is none" },
		{ '0', "5 path=a\n", "a pax header that is none" },
		{ '0', "9999999 path=a\n", "a pax header that is none" },
		{ '0', " 9 path=a\n", "a pax header that is none" },
		{ '0', "-9 path=a\n", "a pax header that is none" },
		{ '0', "4 =\n", "a pax header that is none" },
		{ '0', "5 =a\n", "a pax header that is none" },
		{ '0', "7 path\n", "a pax header that is none" },
		{ '0', "3 \n", "a pax header that is none" },
		{ '0', "9 path=a\nx", "a pax header that is none" },
		{ '0', "8 path=\n", "an empty name or size" },
		{ '0', "9 path=a\n9 path=b\n", "a name or size that is given twice" },
		{ '0', "9 size=1\n9 size=1\n", "a name or size that is given twice" },
		{ '0', "11 size=-1\n", "a size that is no number" },
		{ '0', "11 size=0x1\n", "a pax header that is none" },
		{ '0', "12 size=0x1\n", "a size that is no number" },
		{ '0', "28 size=18446744073709551616\n", "a pax header that is none" },
		{ '0', "29 size=18446744073709551616\n", "a size that is no number" },
		{ '0', "13 linkpath=a\n", "a pax header that is none" },
		{ '0', "14 linkpath=a\n", "a target of what is no link" },
		{ '5', "9 size=5\n", "contents of what has none" },
		{ '1', "9 size=5\n", "contents of what has none" },
		{ '5', "22 GNU.sparse.major=1\n", "a map of what is no file" },
		{ '0', "19 SUN.holesdata=0\n", "a sparse file of a form that is not known here" },
		{ '0', "21 SCHILY.realsize=9\n", "a sparse file of a form that is not known here" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		pax(rows[i].text);
		(void)head("a", rows[i].type, 0, POSIX);
		end();
		bad(rows[i].why);
	}
	begin();
	extra('x', "12 path=a\0b\n", 12);
	bad("a pax header that is none");
	begin();
	extra('x', "", 0);
	bad("an empty header");
	begin();
	pax("9 path=a\n");
	end();
	bad("a header without a member");
	begin();
	extra('L', "a\0b", 4);
	bad("a long name that is none");
	begin();
	extra('L', "\0", 1);
	bad("a long name that is none");
	begin();
	extra('K', "target", 7);
	member("a", "");
	bad("a target of what is no link");
}

TEST(tar_guard_refuses_two_dialects)
{
	static const char kinds[] = "xLK";

	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < 3; j++) {
			if (i != j && kinds[i] != 'x' && kinds[j] != 'x')
				continue; /* a long name and a long target */
			begin();
			extra(kinds[i], kinds[i] == 'x' ? "9 path=a\n" : "a long name",
			      9 + 3 * (kinds[i] != 'x'));
			extra(kinds[j], kinds[j] == 'x' ? "9 path=a\n" : "a long name",
			      9 + 3 * (kinds[j] != 'x'));
			(void)head("a", '2', 0, GNU);
			bad("two headers that name it");
		}
}

TEST(tar_guard_refuses_what_would_be_every_members)
{
	static const char *const rows[] = { "9 path=a\n", "14 linkpath=a\n", "9 size=1\n",
					    "22 GNU.sparse.major=1\n" };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		extra('g', rows[i], strlen(rows[i]));
		member("a", "");
		bad("a name or size that would be every member's");
	}
}

TEST(tar_guard_bounds_headers)
{
	static char text[TAR_GUARD_HEADER + 1];
	int n;

	/* One as large as it may be, and one byte more. */
	for (size_t size = TAR_GUARD_HEADER; size <= TAR_GUARD_HEADER + 1; size++) {
		memset(text, 'x', sizeof(text));
		n = snprintf(text, sizeof(text), "%zu comment=", size);
		text[n] = 'x';
		text[size - 1] = '\n';
		begin();
		extra('x', text, size);
		member("a", "");
		end();
		if (size == TAR_GUARD_HEADER)
			good(1);
		else
			bad("a header of more than 64 KiB");
	}
	begin();
	for (int i = 0; i < TAR_GUARD_CHAIN; i++)
		extra('g', "12 comment=\n", 12);
	member("a", "");
	end();
	good(1);
	begin();
	for (int i = 0; i <= TAR_GUARD_CHAIN; i++)
		extra('g', "12 comment=\n", 12);
	member("a", "");
	bad("too many headers in front of it");
	/* As many of the largest as a chain may have are more than a member may have. */
	n = snprintf(text, sizeof(text), "%d comment=", TAR_GUARD_HEADER);
	text[n] = 'x';
	text[TAR_GUARD_HEADER - 1] = '\n';
	begin();
	for (int i = 0; i < TAR_GUARD_CHAIN; i++)
		extra('g', text, TAR_GUARD_HEADER);
	member("a", "");
	bad("more than 1 MiB of headers in front of it");
	/* What was in front of one is no matter of the next. */
	begin();
	for (int i = 0; i < 20; i++) {
		extra('x', text, TAR_GUARD_HEADER);
		member("a", "");
	}
	end();
	good(20);
}

/* GNU's sparse files have their map behind the header. */
TEST(tar_guard_maps)
{
	uint8_t *block;

	begin();
	block = head("s", 'S', 3, GNU);
	memcpy(block + 386, "00000000000", 12);
	block[482] = 1;
	sum(block);
	add(NULL, 0, 512)[504] = 1;
	(void)add(NULL, 0, 512);
	contents("abc");
	end();
	good(1);

	begin();
	block = head("s", 'S', 3, GNU);
	memcpy(block + 386, "00000000000", 12);
	block[482] = 1;
	sum(block);
	for (int i = 0; i < TAR_GUARD_CHAIN_BYTES / 512 + 2; i++)
		add(NULL, 0, 512)[504] = 1;
	bad("more than 1 MiB of headers in front of it");

	/* A map that goes on before it has begun; one of what is no sparse file; and two of them. */
	begin();
	block = head("s", 'S', 3, GNU);
	block[482] = 1;
	sum(block);
	bad("a sparse file of a form that is not known here");
	begin();
	block = head("s", '0', 3, GNU);
	memcpy(block + 386, "00000000000", 12);
	sum(block);
	bad("a sparse file of a form that is not known here");
	begin();
	pax("22 GNU.sparse.major=1\n");
	(void)head("s", 'S', 3, GNU);
	bad("a sparse file of a form that is not known here");
}

/* Of the latest form it is what the contents begin with. */
TEST(tar_guard_counts)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{ "0\n", true },         { "1\n0\n3\nabc", true }, { "32768\n", true },
		{ "32769\n", false },    { "0000001\n", false },   { "9999999\n", false },
		{ "# one\n1\n", false }, { "-1\n", false },        { "", true },
		{ "1", false },          { "\n", false },          { "1 \n", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		pax("22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n");
		member("s", rows[i].text);
		member("a", "");
		end();
		if (rows[i].good)
			good(2);
		else
			bad("a sparse file of too many parts");
	}
	/* The ones before had a map elsewhere. */
	begin();
	pax("22 GNU.sparse.major=0\n");
	member("s", "99999\n");
	end();
	good(1);
}

TEST(tar_guard_end)
{
	begin();
	bad("not a tar archive");
	begin();
	(void)add("PK\3\4", 4, 512);
	bad("not a tar archive");
	begin();
	(void)add("short", 5, 5);
	bad("not a tar archive");
	begin();
	member("a", "1");
	bad("the archive is cut"); /* without its end */
	begin();
	member("a", "1");
	made.n -= 1;
	bad("the archive is cut");
	begin();
	member("a", "1");
	member("b", "1");
	made.n -= 600;
	bad("the archive is cut");
	begin();
	member("a", "1");
	(void)add("x", 1, 512);
	bad("a damaged header");
	begin();
	end();
	member("a", "1");
	bad("bytes behind the end of the archive");
	begin();
	member("a", "1");
	(void)add(NULL, 0, 512 + 7); /* one block of zeros will do, and some more */
	good(1);
}

TEST(tar_guard_zeros_have_an_end)
{
	static const uint8_t zeros[1024 * 1024];
	struct tar_guard g;
	const char *why = NULL;
	ptrdiff_t r = 0;

	tar_guard_init(&g);
	CHECK_EQ_INT(tar_guard_take(&g, zeros, sizeof(zeros), &why), 512);
	for (int i = 0; i < TAR_GUARD_TAIL / (int)sizeof(zeros); i++)
		CHECK_EQ_INT(tar_guard_take(&g, zeros, sizeof(zeros), &why), sizeof(zeros));
	CHECK_EQ_INT(tar_guard_end(&g, 0, &why), 0);
	r = tar_guard_take(&g, zeros, 1, &why);
	CHECK_EQ_INT(r, -EBADMSG);
	CHECK_STR(why, "bytes behind the end of the archive");
}
