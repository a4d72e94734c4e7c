/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/tar.c: archives that a box sends, honest and hostile; and ours for it. src/cli/cp.c: where links may lead. */
#include "wire/tar.h"

#include "cli/cp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "test_help.h"

enum { ARCHIVE_MAX = 64 * 1024 };

/* An archive that is being written by hand. */
struct archive {
	uint8_t p[ARCHIVE_MAX];
	size_t n;
};

/* What was found: "f a.txt 644 5 hello|d dir 755|l x>y|", and contents behind files. */
struct seen {
	char text[8192];
	size_t n;
	bool open;
	int stop;
};

static int on_member(void *arg, const struct tar_member *m)
{
	struct seen *s = arg;

	CHECK(!s->open);
	s->open = true;
	s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, "%c %s %o", "fdl"[m->type],
				 m -> path, m -> mode);
	if (m->type == TAR_FILE)
		s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, " %llu ",
					 (unsigned long long)m->size);
	if (m->type == TAR_LINK)
		s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, ">%s", m->link);
	CHECK(s->n < sizeof(s->text));
	return s->stop;
}

static int on_data(void *arg, const void *p, size_t n)
{
	struct seen *s = arg;

	CHECK(s->open && n > 0 && s->n + n < sizeof(s->text));
	memcpy(s->text + s->n, p, n);
	s->n += n;
	s->text[s->n] = '\0';
	return 0;
}

static int on_end(void *arg)
{
	struct seen *s = arg;

	CHECK(s->open);
	s->open = false;
	s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, "|");
	return 0;
}

static const struct tar_ops ops = { on_member, on_data, on_end };

static int read_archive(const struct archive *a, size_t step, struct seen *seen, bool *whole,
			const char **why)
{
	static struct tar_reader r;
	int rc = 0;

	tar_reader_init(&r);
	*why = "";
	for (size_t at = 0; at < a->n && rc == 0; at += step) {
		size_t n = a->n - at < step ? a->n - at : step;

		rc = tar_read(&r, a->p + at, n, &ops, seen, why);
	}
	*whole = tar_is_whole(&r);
	if (rc != 0) {
		const char *ignored;

		CHECK(tar_read(&r, a->p, 1, &ops, seen, &ignored) < 0);
	}
	return rc;
}

static void check(const struct archive *a, const char *want)
{
	static const size_t steps[] = { 1, 7, 511, 512, 513, 4096, ARCHIVE_MAX };

	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct seen seen = { .n = 0 };
		const char *why;
		bool whole;

		CHECK_EQ_INT(read_archive(a, steps[i], &seen, &whole, &why), 0);
		CHECK(whole);
		CHECK_STR(seen.text, want);
	}
}

static void check_refused(const struct archive *a, const char *want_why)
{
	struct seen seen = { .n = 0 }, bytes = { .n = 0 };
	const char *why;
	bool whole;

	CHECK_EQ_INT(read_archive(a, ARCHIVE_MAX, &seen, &whole, &why), -EPROTO);
	CHECK_STR(why, want_why);
	CHECK(!whole);
	CHECK_EQ_INT(read_archive(a, 1, &bytes, &whole, &why), -EPROTO);
	CHECK_STR(why, want_why);
}

/* --- writing by hand -------------------------------------------------------------------------------- */

static void end_archive(struct archive *a)
{
	memset(a->p + a->n, 0, 2 * TAR_BLOCK);
	a->n += 2 * TAR_BLOCK;
}

static void sum(uint8_t *block)
{
	unsigned int v = 0;

	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		v += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", v);
	block[155] = ' ';
}

/* Characters of a text, without its NUL, as fields of a head have them. */
static void put(uint8_t *at, const char *text)
{
	for (; *text != '\0'; text++)
		*at++ = (uint8_t)*text;
}

/* A member of any kind; returns its head, to be spoilt (then sum() again). */
static uint8_t *add(struct archive *a, const char *name, char type, const char *link,
		    const char *contents)
{
	uint8_t *block = a->p + a->n;
	size_t n = strlen(contents);

	memset(block, 0, TAR_BLOCK + n + TAR_BLOCK);
	CHECK(strlen(name) <= 100 && strlen(link) <= 100);
	put(block, name);
	memcpy(block + 100, "0000644", 8);
	memcpy(block + 108, "0000000", 8);
	memcpy(block + 116, "0000000", 8);
	(void)snprintf((char *)block + 124, 12, "%011o", (unsigned int)n);
	memcpy(block + 136, "00000000144", 12);
	block[156] = (uint8_t)type;
	put(block + 157, link);
	memcpy(block + 257, "ustar  ", 8);
	sum(block);
	put(block + TAR_BLOCK, contents);
	a->n += TAR_BLOCK + n + tar_padding(n);
	return block;
}

/* One member and the end. */
static struct archive *one(const char *name, char type, const char *link, const char *contents)
{
	static struct archive a;

	a.n = 0;
	(void)add(&a, name, type, link, contents);
	end_archive(&a);
	return &a;
}

TEST(tar_reads_what_tar_writes)
{
	static struct archive a;

	a.n = 0;
	(void)add(&a, "dir/", '5', "", "");
	(void)add(&a, "dir/a.txt", '0', "", "hello");
	(void)add(&a, "dir/old", '\0', "", "");
	(void)add(&a, "dir/l", '2', "a.txt", "");
	end_archive(&a);
	check(&a, "d dir 644|f dir/a.txt 644 5 hello|f dir/old 644 0 |l dir/l 644>a.txt|");
	memset(a.p + a.n, 0, 8192); /* as tar fills up */
	a.n += 8192;
	check(&a, "d dir 644|f dir/a.txt 644 5 hello|f dir/old 644 0 |l dir/l 644>a.txt|");
}

TEST(tar_reads_prefixes_and_long_names)
{
	static struct archive a;
	uint8_t *block;
	static const uint8_t posix[8] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
	char name[300], want[700], longest[301];

	a.n = 0;
	block = add(&a, "name", '0', "", "x");
	memcpy(block + 257, posix, sizeof(posix));
	put(block + 345, "a/prefix");
	sum(block);
	end_archive(&a);
	check(&a, "f a/prefix/name 644 1 x|");

	memset(name, 'n', 299);
	name[299] = '\0';
	for (size_t i = 50; i < 299; i += 50)
		name[i] = '/';
	a.n = 0;
	memcpy(longest, name, sizeof(name));
	block = add(&a, "././@LongLink", 'L', "", longest);
	(void)snprintf((char *)block + 124, 12, "%011o", 300u); /* with its NUL */
	sum(block);
	(void)add(&a, "nnn", '0', "", "x");
	end_archive(&a);
	(void)snprintf(want, sizeof(want), "f %s 644 1 x|", name);
	check(&a, want);
}

TEST(tar_takes_no_more_than_permissions)
{
	struct archive *a = one("a", '0', "", "");

	memcpy(a->p + 100, "0007777", 8);
	sum(a->p);
	check(a, "f a 777 0 |");
}

TEST(tar_refuses_names_that_lead_elsewhere)
{
	static const char *const names[] = { "/etc/passwd", "../x",   "a/../../x", "a/./b", "./a",
					     "a//b",        "",       "..",        ".",     "a/..",
					     "a\nb",        "a\033b", "a\x7f" };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		check_refused(one(names[i], '0', "", "x"), "a name that is no plain path");
		check_refused(one(names[i], '5', "", ""), "a name that is no plain path");
		check_refused(one(names[i], '2', "y", ""), "a name that is no plain path");
	}
	check_refused(one("a/", '0', "", ""), "a name that is no plain path");
	check_refused(one("a//", '5', "", ""), "a name that is no plain path");
}

TEST(tar_refuses_what_is_neither_file_directory_nor_link)
{
	static const char types[] = "1346789DMNSVxgXA";

	for (const char *t = types; *t != '\0'; t++)
		check_refused(one("a", *t, "b", ""),
			      "a member that is neither file, directory nor symbolic link");
	check_refused(one("a", '2', "", ""), "a link that leads nowhere");
	check_refused(one("a", '2', "b\033]0;x", ""), "a link that leads nowhere");
	check_refused(one("a", '5', "", "x"), "contents of something that has none");
	check_refused(one("a", '2', "b", "x"), "contents of something that has none");
}

TEST(tar_refuses_numbers_that_are_none)
{
	static const struct {
		size_t at;
		const char *p;
		size_t n;
		const char *why;
	} rows[] = {
		{ 124, "0000000000x", 12, "a size that is no number" },
		{ 124, "           ", 12, "a size that is no number" },
		{ 124, "-0000000001", 12, "a size that is no number" },
		{ 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12,
		  "a size that is no number" },
		{ 124, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12,
		  "a size that is no number" },
		{ 100, "rw-r--r", 8, "a mode that is no number" },
		{ 257, "ustar00", 8, "a form of tar that is not known here" },
		{ 257, "\0\0\0\0\0\0\0", 8, "a form of tar that is not known here" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct archive *a = one("a", '0', "", "");

		memcpy(a->p + rows[i].at, rows[i].p, rows[i].n);
		sum(a->p);
		check_refused(a, rows[i].why);
	}
	{
		struct archive *a = one("a", '0', "", "");

		a->p[0] = 'b';
		check_refused(a, "a checksum that is wrong");
	}
}

TEST(tar_refuses_long_names_that_are_none)
{
	static struct archive a;
	uint8_t *block;

	check_refused(one("x", 'L', "", ""), "a long name that is none");
	a.n = 0;
	(void)add(&a, "x", 'L', "", "no NUL behind it");
	end_archive(&a);
	check_refused(&a, "a long name that is none");
	a.n = 0;
	block = add(&a, "x", 'L', "", "ab");
	block[TAR_BLOCK] = '\0'; /* in the middle */
	end_archive(&a);
	check_refused(&a, "a long name that is none");
	a.n = 0;
	block = add(&a, "x", 'L', "", "");
	(void)snprintf((char *)block + 124, 12, "%011o", (unsigned int)PATH_MAX + 1);
	sum(block);
	end_archive(&a);
	check_refused(&a, "a long name that is none");
}

TEST(tar_that_is_cut_is_not_whole)
{
	const struct archive *whole = one("dir/a", '0', "", "hello");
	static struct archive cut;

	for (size_t n = 0; n < whole->n; n++) {
		struct seen seen = { .n = 0 };
		const char *why;
		bool is_whole;

		memcpy(cut.p, whole->p, n);
		cut.n = n;
		CHECK_EQ_INT(read_archive(&cut, 100, &seen, &is_whole, &why), 0);
		CHECK(!is_whole);
	}
	memcpy(cut.p, whole->p, TAR_BLOCK);
	memset(cut.p, 0, TAR_BLOCK);
	memcpy(cut.p + TAR_BLOCK, whole->p, TAR_BLOCK);
	cut.n = 2 * TAR_BLOCK;
	check_refused(&cut, "an empty block in the middle");
}

TEST(tar_ends_when_it_is_told_to)
{
	struct seen seen = { .stop = -ECANCELED };
	const char *why;
	bool whole;

	CHECK_EQ_INT(read_archive(one("a", '0', "", "x"), 512, &seen, &whole, &why), -ECANCELED);
	CHECK(!whole);
}

TEST(tar_reads_what_it_writes)
{
	static struct archive a;
	static struct tar_member m;
	uint8_t head[TAR_HEAD_MAX];
	char want[4096];
	size_t n = 0;

	for (size_t len = 1; len < 400; len += 33) {
		char path[400];
		size_t size;

		a.n = 0;
		for (size_t i = 0; i < len; i++)
			path[i] = i % 40 == 39 && i + 1 < len ? '/' : (char)('a' + i % 20);
		path[len] = '\0';
		for (int type = TAR_FILE; type <= TAR_LINK; type++) {
			m = (struct tar_member){ .type = (enum tar_type)type,
						 .mode = 0750,
						 .mtime = 1 };
			(void)snprintf(m.path, sizeof(m.path), "%s", path);
			if (type == TAR_LINK)
				(void)snprintf(m.link, sizeof(m.link), "%s", path);
			m.size = type == TAR_FILE ? 3 : 0;
			size = tar_head(head, &m);
			CHECK(size > 0 && size % TAR_BLOCK == 0 && size <= sizeof(head));
			memcpy(a.p + a.n, head, size);
			a.n += size;
			if (type == TAR_FILE) {
				memset(a.p + a.n, 0, TAR_BLOCK);
				memcpy(a.p + a.n, "abc", 3);
				a.n += TAR_BLOCK;
			}
		}
		end_archive(&a);
		n = (size_t)snprintf(want, sizeof(want), "f %s 750 3 abc|d %s 750|l %s 750>%s|",
				     path, path, path, path);
		CHECK(n < sizeof(want));
		check(&a, want);
	}
}

TEST(tar_writes_large_sizes)
{
	static struct tar_member m = { .type = TAR_FILE, .path = "big", .size = 1ULL << 40 };
	static struct archive a;
	uint8_t head[TAR_HEAD_MAX];
	struct seen seen = { .n = 0 };
	const char *why;
	bool whole;

	a.n = tar_head(head, &m);
	memcpy(a.p, head, a.n);
	CHECK_EQ_INT(read_archive(&a, 512, &seen, &whole, &why), 0);
	CHECK_STR(seen.text, "f big 0 1099511627776 ");
	memset(m.path, 'x', sizeof(m.path) - 1);
	CHECK_EQ_INT(tar_head(head, &m), 0);
}

TEST(cp_links_stay_below_the_top)
{
	static const struct {
		const char *link;
		unsigned int depth;
		bool stays;
	} rows[] = {
		{ "a", 0, true },          { "a/b", 0, true },      { "./a", 0, true },
		{ ".", 0, true },          { "..", 0, false },      { "..", 1, true },
		{ "../a", 1, true },       { "../../a", 1, false }, { "../../a", 2, true },
		{ "/etc", 9, false },      { "a/..", 5, false }, /* a may be a link */
		{ "../a/../b", 9, false }, { "./../a", 1, true },   { "a//b", 0, true },
		{ "...", 0, true },        { "..a", 0, true },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ_INT(cp_link_stays(rows[i].link, rows[i].depth), rows[i].stays);
}

TEST(cp_names_are_last_parts)
{
	static const struct {
		const char *path, *name;
	} rows[] = {
		{ "a", "a" },   { "a/b", "b" }, { "/a/b///", "b" }, { ".", "" },    { "..", "" },
		{ "a/..", "" }, { "/", "" },    { "", "" },         { "./a", "a" },
	};
	char name[NAME_MAX + 1], longest[NAME_MAX + 2];

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cp_base(rows[i].path, name);
		CHECK_STR(name, rows[i].name);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	cp_base(longest, name);
	CHECK_STR(name, "");
}
