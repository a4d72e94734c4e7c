/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/line*.c: keys in, and what a terminal shows of it. */
#include "cli/line.h"

#include "test_line_term.h"

#define UP     "\033[A"
#define DOWN   "\033[B"
#define RIGHT  "\033[C"
#define LEFT   "\033[D"
#define HOME   "\033[H"
#define END    "\033[F"
#define DELETE "\033[3~"

struct bench {
	struct line l;
	struct history h;
	struct term t;
	enum line_said said;
};

static void show(struct bench *b)
{
	CHECK(!b->l.out.failed);
	term_write(&b->t, bytes_str(&b->l.out), b->l.out.n);
	bytes_clear(&b->l.out);
}

/* A line with a history of these, on an empty terminal. */
static void open_bench(struct bench *b, unsigned int cols, unsigned int rows,
		       const char *const *history)
{
	memset(b, 0, sizeof(*b));
	for (; history != NULL && *history != NULL; history++)
		history_add(&b->h, *history);
	line_init(&b->l, &b->h, cols, rows);
	term_open(&b->t, cols, rows);
	line_begin(&b->l, "> ", ". ", 0);
	line_draw(&b->l);
	show(b);
}

static void close_bench(struct bench *b)
{
	line_done(&b->l);
	history_done(&b->h);
}

/* Keys up to the first that says something; nothing may be left. */
static void press_bytes(struct bench *b, const char *p, size_t n)
{
	CHECK_EQ_INT(line_feed(&b->l, p, n, &b->said), n);
	show(b);
}

static void press(struct bench *b, const char *keys)
{
	press_bytes(b, keys, strlen(keys));
}

static void check_text(const struct bench *b, const char *text, size_t at)
{
	CHECK_STR(bytes_str(&b->l.text), text);
	CHECK_EQ_INT(b->l.at, at);
}

static void check_cursor(const struct bench *b, unsigned int row, unsigned int col)
{
	CHECK_EQ_INT(b->t.row, row);
	CHECK_EQ_INT(b->t.col, col);
}

TEST(line_edits_one_line)
{
	static const struct {
		const char *keys, *text;
		size_t at;
	} rows[] = {
		{ "abc", "abc", 3 },
		{ "abc" LEFT LEFT "X", "aXbc", 2 },
		{ "abc\002\002X", "aXbc", 2 },
		{ "abc\001X\005Y", "XabcY", 5 },
		{ "abc" HOME RIGHT "X" END "Y", "aXbcY", 5 },
		{ "abc\177\177", "a", 1 },
		{ "abc" HOME DELETE "\004", "c", 0 },
		{ "one two\027", "one ", 4 },
		{ "one two\025x", "x", 1 },
		{ "one two" HOME "\013", "", 0 },
		{ "one two\027\001\031 ", "two one ", 4 },
		{ "one two.three\033b\033b", "one two.three", 4 },
		{ "one two\001\033f\033f", "one two", 7 },
		{ "one two\001\033d", " two", 0 },
		{ "one two\033\177", "one ", 4 },
		{ "ab\024", "ba", 2 },
		{ "abc" LEFT LEFT "\024", "bac", 2 },
		{ "ab \027\037", "ab ", 3 },
		{ "typed\037", "", 0 },
		{ "\tx", "    x", 5 },
		{ "  \tx", "    x", 5 },
		{ "\t\t\177", "    ", 4 },
		{ "x\033[Z", "x", 1 },
		{ "\tx\033[Z", "x", 1 },
		{ "\033[99~\033[1;9Za", "a", 1 }, /* keys that nobody knows */
		{ "\xc3\xa4\xe2\x82\xac" LEFT "\177", "\xe2\x82\xac", 0 },
		{ "e\xcc\x81x" LEFT LEFT DELETE, "x", 0 }, /* with its accent */
		{ "a\xff\xe2\x28z", "a(z", 3 },            /* what is no character */
		{ "\xc2\x9bm", "m", 1 }, /* a control character of old terminals */
		/* Back over what is no character, and over many accents. */
		{ "a\033[200~\xff\xbf\xe2\x82\xcc\x81\033[201~" LEFT LEFT LEFT "X",
		  "aX\xff\xbf\xe2\x82\xcc\x81", 2 },
		{ "\033[200~\xcc\x81\xcc\x81\n\xcc\x81\xcc\x81z\033[201~" LEFT LEFT "X",
		  "\xcc\x81\xcc\x81\nX\xcc\x81\xcc\x81z", 6 },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct bench b;

		open_bench(&b, 80, 24, NULL);
		press(&b, rows[i].keys);
		CHECK_EQ_INT(b.said, LINE_MORE);
		check_text(&b, rows[i].text, rows[i].at);
		close_bench(&b);
	}
}

TEST(line_says_what_is_wanted)
{
	static const struct {
		const char *keys;
		enum line_said said;
	} rows[] = {
		{ "x\r", LINE_ENTER },      { "x\n", LINE_ENTER },
		{ "x\033OM", LINE_ENTER },  { "\r", LINE_ENTER },
		{ "\003", LINE_INTERRUPT }, { "x\003", LINE_INTERRUPT },
		{ "\004", LINE_EOF },       { "x\004", LINE_MORE },
		{ "\032", LINE_SUSPEND },   { "os.pa\t", LINE_COMPLETE },
		{ "   \t", LINE_MORE },     { "x\033\r", LINE_MORE },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct bench b;

		open_bench(&b, 80, 24, NULL);
		press(&b, rows[i].keys);
		CHECK_EQ_INT(b.said, rows[i].said);
		close_bench(&b);
	}
}

TEST(line_stops_at_what_is_said)
{
	struct bench b;

	open_bench(&b, 80, 24, NULL);
	CHECK_EQ_INT(line_feed(&b.l, "a\rb\r", 4, &b.said), 2);
	CHECK_EQ_INT(b.said, LINE_ENTER);
	close_bench(&b);
}

TEST(line_is_shown_as_it_is_typed)
{
	struct bench b;

	open_bench(&b, 20, 6, NULL);
	CHECK_STR(term_row(&b.t, 0), ">");
	check_cursor(&b, 0, 2);
	press(&b, "print(1)");
	CHECK_STR(term_row(&b.t, 0), "> print(1)");
	check_cursor(&b, 0, 10);
	press(&b, LEFT LEFT "2");
	CHECK_STR(term_row(&b.t, 0), "> print(21)");
	check_cursor(&b, 0, 9);
	press(&b, "\r");
	line_accept(&b.l);
	show(&b);
	CHECK_STR(term_row(&b.t, 0), "> print(21)");
	check_cursor(&b, 1, 0);
	close_bench(&b);
}

/* A row that is exactly full, and one character more or less. */
TEST(line_wraps_where_the_terminal_ends)
{
	struct bench b;

	open_bench(&b, 10, 6, NULL);
	press(&b, "1234567");
	check_cursor(&b, 0, 9);
	press(&b, "8");
	CHECK_STR(term_row(&b.t, 0), "> 12345678");
	check_cursor(&b, 1, 0);
	press(&b, "9");
	CHECK_STR(term_row(&b.t, 1), "9");
	check_cursor(&b, 1, 1);
	press(&b, "\177");
	check_cursor(&b, 1, 0);
	press(&b, "\177");
	CHECK_STR(term_row(&b.t, 0), "> 1234567");
	check_cursor(&b, 0, 9);
	press(&b, "890" HOME "x");
	CHECK_STR(term_row(&b.t, 0), "> x1234567");
	CHECK_STR(term_row(&b.t, 1), "890");
	check_cursor(&b, 0, 3);
	close_bench(&b);
}

TEST(line_knows_wide_and_combining_characters)
{
	struct bench b;

	open_bench(&b, 10, 6, NULL);
	press(&b, "\xe6\xbc\xa2\xe5\xad\x97"); /* two of them, two columns each */
	check_cursor(&b, 0, 6);
	press(&b, "e\xcc\x81"); /* with an accent of its own */
	check_cursor(&b, 0, 7);
	press(&b, LEFT LEFT);
	check_cursor(&b, 0, 4);
	press(&b, "\177");
	CHECK_STR(term_row(&b.t, 0), "> \xe5\xad\x97"
				     "e\xcc\x81");
	check_cursor(&b, 0, 2);
	/* One that would stand in the last column and beyond goes to the next row whole. */
	press(&b, "\025\013"
		  "1234567\xe6\xbc\xa2x");
	CHECK_STR(term_row(&b.t, 0), "> 1234567");
	CHECK_STR(term_row(&b.t, 1), "\xe6\xbc\xa2x");
	press(&b, LEFT LEFT);
	check_cursor(&b, 1, 0);
	close_bench(&b);
}

/* Characters that would change what is around them are text, but not shown. */
TEST(line_shows_no_character_that_hides_something)
{
	static const unsigned char right_to_left[] = { 0xe2, 0x80, 0xae, 0 };
	struct bench b;
	char text[8];

	(void)snprintf(text, sizeof(text), "a%sb", (const char *)right_to_left);
	open_bench(&b, 20, 6, NULL);
	press(&b, text);
	CHECK_STR(term_row(&b.t, 0), "> a\xef\xbf\xbd"
				     "b");
	check_cursor(&b, 0, 5);
	check_text(&b, text, 5);
	close_bench(&b);
}

TEST(line_has_several_lines)
{
	struct bench b;

	open_bench(&b, 40, 8, NULL);
	press(&b, "for x in y:\r");
	CHECK_EQ_INT(b.said, LINE_ENTER);
	line_newline(&b.l, 4);
	line_draw(&b.l);
	show(&b);
	press(&b, "print(x)");
	CHECK_STR(term_row(&b.t, 0), "> for x in y:");
	CHECK_STR(term_row(&b.t, 1), ".     print(x)");
	check_cursor(&b, 1, 14);
	press(&b, UP);
	check_cursor(&b, 0, 13); /* as far as that line goes */
	press(&b, DOWN);
	check_cursor(&b, 1, 14); /* the column is kept */
	press(&b, UP "\r");      /* in the middle it is a line more */
	CHECK_EQ_INT(b.said, LINE_MORE);
	CHECK_STR(term_row(&b.t, 1), ".");
	CHECK_STR(term_row(&b.t, 2), ".     print(x)");
	check_cursor(&b, 1, 2);
	press(&b, "\177" DOWN END "\r");
	CHECK_EQ_INT(b.said, LINE_ENTER);
	check_text(&b, "for x in y:\n    print(x)", 24);
	close_bench(&b);
}

/* Enter in front of empty lines at the end is the end. */
TEST(line_ends_before_empty_lines)
{
	struct bench b;

	open_bench(&b, 40, 8, NULL);
	press(&b, "\033[200~x = 1\n\n\n\033[201~" UP UP UP "\r");
	CHECK_EQ_INT(b.said, LINE_ENTER);
	close_bench(&b);
}

TEST(line_takes_what_is_pasted_as_text)
{
	static const char pasted[] =
		"\033[200~def f():\r\n\treturn 1\r\n\r\033[201\003\033[A\004f()"
		"\n\033[201~";
	static const char want[] = "def f():\n\treturn 1\n\n[201[Af()\n";

	for (size_t step = 1; step < sizeof(pasted); step++) {
		struct bench b;

		open_bench(&b, 40, 12, NULL);
		for (size_t at = 0; at < sizeof(pasted) - 1; at += step) {
			size_t n = sizeof(pasted) - 1 - at;

			press_bytes(&b, pasted + at, n < step ? n : step);
			CHECK_EQ_INT(b.said, LINE_MORE);
		}
		check_text(&b, want, strlen(want));
		CHECK_STR(term_row(&b.t, 1), ".     return 1");
		press(&b, "\037"); /* one undo */
		check_text(&b, "", 0);
		close_bench(&b);
	}
}

TEST(line_is_the_same_however_keys_are_cut)
{
	static const char keys[] =
		"ab\033[D\033OC\033[1;5D\xe6\xbc\xa2\033bx\033[3~e\xcc\x81\033\177\177q\033\033[Cz";
	struct bench whole;

	open_bench(&whole, 40, 8, NULL);
	press(&whole, keys);
	for (size_t step = 1; step < sizeof(keys); step++) {
		struct bench b;

		open_bench(&b, 40, 8, NULL);
		for (size_t at = 0; at < sizeof(keys) - 1; at += step) {
			size_t n = sizeof(keys) - 1 - at;

			press_bytes(&b, keys + at, n < step ? n : step);
		}
		check_text(&b, bytes_str(&whole.l.text), whole.l.at);
		check_cursor(&b, whole.t.row, whole.t.col);
		close_bench(&b);
	}
	close_bench(&whole);
}

TEST(line_goes_through_the_history)
{
	static const char *const history[] = { "one", "two\nlines", "two\nlines", "three", NULL };
	struct bench b;

	open_bench(&b, 40, 8, history);
	CHECK_EQ_INT(b.h.n, 3); /* what repeats is there once */
	press(&b, "mine" UP);
	check_text(&b, "three", 5);
	press(&b, UP);
	check_text(&b, "two\nlines", 9);
	CHECK_STR(term_row(&b.t, 1), ". lines");
	press(&b, UP);
	check_text(&b, "two\nlines", 3); /* within it first */
	press(&b, UP);
	check_text(&b, "one", 3);
	CHECK_STR(term_row(&b.t, 1), "");
	press(&b, UP);
	CHECK_EQ_INT(b.t.bells, 1);
	press(&b, "\016\016\016");
	check_text(&b, "mine", 4);
	press(&b, DOWN);
	CHECK_EQ_INT(b.t.bells, 2);
	close_bench(&b);
}

TEST(line_searches_the_history)
{
	static const char *const history[] = { "print(1)", "x = 1", "print(2)", NULL };
	struct bench b;

	open_bench(&b, 60, 8, history);
	press(&b, "mine\022");
	CHECK_STR(term_row(&b.t, 0), "(search: ) mine");
	press(&b, "pri");
	CHECK_STR(term_row(&b.t, 0), "(search: pri) print(2)");
	press(&b, "\022");
	CHECK_STR(term_row(&b.t, 0), "(search: pri) print(1)");
	press(&b, "\022");
	CHECK_STR(term_row(&b.t, 0), "(failed search: pri) print(1)");
	press(&b, "\007");
	CHECK_STR(term_row(&b.t, 0), "> mine");
	check_text(&b, "mine", 4);
	press(&b, "\022x =\r");
	CHECK_EQ_INT(b.said, LINE_MORE); /* it is taken, not run */
	check_text(&b, "x = 1", 0);
	press(&b, "\022pri" END "!");
	check_text(&b, "print(2)!", 9);
	press(&b, DOWN);
	check_text(&b, "mine", 4);
	press(&b, "\022xyz\177\177\177");
	CHECK_STR(term_row(&b.t, 0), "(search: ) mine");
	press(&b, "\033"); /* Escape alone, known for it after a moment */
	CHECK(keys_waits(&b.l.keys));
	line_escape(&b.l);
	show(&b);
	CHECK_STR(term_row(&b.t, 0), "> mine");
	close_bench(&b);
}

TEST(line_without_history_has_none)
{
	struct bench b;

	open_bench(&b, 40, 8, NULL);
	press(&b, UP DOWN "\022\020\016x");
	check_text(&b, "x", 1);
	CHECK_STR(term_row(&b.t, 0), "> x");
	CHECK_EQ_INT(b.t.bells, 5);
	close_bench(&b);
}

TEST(line_follows_the_size_of_the_terminal)
{
	struct bench b;

	open_bench(&b, 20, 8, NULL);
	press(&b, "1234567890abcdef");
	check_cursor(&b, 0, 18);
	/* Narrower: the terminal breaks the row in two, and the cursor goes along. */
	term_open(&b.t, 10, 8);
	term_write(&b.t, "> 1234567890abcdef", 18);
	line_resize(&b.l, 10, 8);
	show(&b);
	CHECK_STR(term_row(&b.t, 0), "> 12345678");
	CHECK_STR(term_row(&b.t, 1), "90abcdef");
	check_cursor(&b, 1, 8);
	/* Wider: rows stay as they are. */
	b.t.cols = 30;
	for (unsigned int r = 0; r < 8; r++)
		for (unsigned int c = 10; c < 30; c++)
			(void)strcpy(b.t.cell[r][c], " ");
	line_resize(&b.l, 30, 8);
	show(&b);
	CHECK_STR(term_row(&b.t, 0), "> 1234567890abcdef");
	CHECK_STR(term_row(&b.t, 1), "");
	check_cursor(&b, 0, 18);
	close_bench(&b);
}

/* More lines than the terminal has rows: those around the cursor are seen, and what is above is not touched. */
TEST(line_is_seen_through_a_window)
{
	struct bench b;

	open_bench(&b, 20, 4, NULL);
	press(&b, "\033[200~1\n2\n3\n4\n5\n6\033[201~");
	CHECK_STR(term_row(&b.t, 0), ". 3");
	CHECK_STR(term_row(&b.t, 3), ". 6");
	check_cursor(&b, 3, 3);
	press(&b, UP UP UP);
	check_cursor(&b, 0, 3);
	press(&b, UP UP);
	CHECK_STR(term_row(&b.t, 0), "> 1");
	CHECK_STR(term_row(&b.t, 3), ". 4");
	check_cursor(&b, 0, 3);
	line_accept(&b.l);
	show(&b);
	CHECK_STR(term_row(&b.t, 2), ". 6");
	check_cursor(&b, 3, 0);
	close_bench(&b);
}

TEST(line_begins_where_the_cursor_is)
{
	struct bench b;

	memset(&b, 0, sizeof(b));
	line_init(&b.l, NULL, 20, 4);
	term_open(&b.t, 20, 4);
	term_write(&b.t, "above\n\n\n", 8); /* at the bottom */
	line_begin(&b.l, "> ", ". ", 0);
	press(&b, "a\033\rb\033\rc");
	CHECK_STR(term_row(&b.t, 1), "> a");
	CHECK_STR(term_row(&b.t, 3), ". c");
	press(&b, "\177\177");
	CHECK_STR(term_row(&b.t, 2), ". b");
	CHECK_STR(term_row(&b.t, 3), "");
	check_cursor(&b, 2, 3);
	press(&b, "\003");
	line_drop(&b.l);
	show(&b);
	check_cursor(&b, 3, 0);
	line_done(&b.l);
}

TEST(line_is_cleared_and_left)
{
	struct bench b;

	open_bench(&b, 20, 6, NULL);
	press(&b, "abc\033\rdef");
	line_leave(&b.l);
	show(&b);
	check_cursor(&b, 2, 0);
	term_write(&b.t, "words\n", 6);
	line_draw(&b.l);
	show(&b);
	CHECK_STR(term_row(&b.t, 2), "words");
	CHECK_STR(term_row(&b.t, 3), "> abc");
	check_cursor(&b, 4, 5);
	press(&b, "\014");
	CHECK_STR(term_row(&b.t, 0), "> abc");
	CHECK_STR(term_row(&b.t, 2), "");
	check_cursor(&b, 1, 5);
	close_bench(&b);
}

TEST(line_replaces_a_word)
{
	struct bench b;

	open_bench(&b, 40, 6, NULL);
	press(&b, "x = os.pa + 1" LEFT LEFT LEFT LEFT);
	line_replace(&b.l, 7, 2, "path", 4);
	line_draw(&b.l);
	show(&b);
	CHECK_STR(term_row(&b.t, 0), "> x = os.path + 1");
	check_text(&b, "x = os.path + 1", 11);
	press(&b, "\037");
	check_text(&b, "x = os.pa + 1", 9);
	close_bench(&b);
}

TEST(line_that_is_secret_is_not_shown)
{
	struct bench b;

	open_bench(&b, 20, 6, (const char *const[]){ "old", NULL });
	line_begin(&b.l, "password: ", "", LINE_PLAIN | LINE_SECRET);
	press(&b, "s3cret\tx" UP "\r");
	CHECK_EQ_INT(b.said, LINE_ENTER);
	check_text(&b, "s3cret\tx", 8);
	CHECK_STR(term_row(&b.t, 0), "password:");
	line_accept(&b.l);
	show(&b);
	CHECK_STR(term_row(&b.t, 0), "password:");
	close_bench(&b);
}

TEST(line_colours_have_no_width)
{
	struct bench b;

	open_bench(&b, 20, 6, NULL);
	line_begin(&b.l, "\033[32mIn [\033[1m1\033[0m]: ", "   ...: ", 0);
	press(&b, "x");
	CHECK_STR(term_row(&b.t, 0), "In [1]: x");
	check_cursor(&b, 0, 9);
	CHECK(b.t.colours > 0);
	close_bench(&b);
}

TEST(line_refuses_more_than_its_maximum)
{
	struct bench b;
	char piece[4096];

	open_bench(&b, 80, 24, NULL);
	memset(piece, 'x', sizeof(piece));
	press(&b, "\033[200~");
	for (unsigned int i = 0; i < LINE_TEXT_MAX / sizeof(piece) + 3; i++) {
		enum line_said said;

		CHECK_EQ_INT(line_feed(&b.l, piece, sizeof(piece), &said), sizeof(piece));
		bytes_clear(&b.l.out);
	}
	CHECK_EQ_INT(b.l.text.n, LINE_TEXT_MAX);
	press(&b, "\033[201~\177");
	CHECK_EQ_INT(b.l.text.n, LINE_TEXT_MAX - 1);
	close_bench(&b);
}

/* Whatever is pressed, the terminal shows what a fresh one would show of the same text. */
TEST(line_shows_what_a_fresh_terminal_would)
{
	static const char *const keys[] = {
		"a",     "bc ",    "\xe6\xbc\xa2", "e\xcc\x81", "(",    LEFT,
		RIGHT,   UP,       DOWN,           HOME,        END,    "\177",
		DELETE,  "\033\r", "\027",         "\031",      "\037", "\033b",
		"\033f", "\t",     "\024",         "\013",      "\022", "x",
		"\007"
	};
	static const char *const history[] = { "one", "a long line that has to be wrapped",
					       "two\nlines\nand three", "x", NULL };
	static struct term fresh;
	uint64_t seed = 7;

	for (unsigned int round = 0; round < 60; round++) {
		unsigned int cols = (unsigned int)(9 + rnd_below(&seed, 20));
		struct bench b;

		open_bench(&b, cols, 30, history);
		for (unsigned int i = 0; i < 60; i++) {
			struct line other;

			press(&b, keys[rnd_below(&seed, sizeof(keys) / sizeof(keys[0]))]);
			line_init(&other, NULL, cols, 30);
			term_open(&fresh, cols, 30);
			line_begin(&other, b.l.searching ? b.l.prompt_search : "> ", ". ", 0);
			line_set(&other, bytes_str(&b.l.text), b.l.at);
			line_draw(&other);
			term_write(&fresh, bytes_str(&other.out), other.out.n);
			line_done(&other);
			CHECK(b.t.scrolled == 0);
			CHECK(memcmp(fresh.cell, b.t.cell, sizeof(fresh.cell)) == 0);
			check_cursor(&b, fresh.row, fresh.col);
		}
		close_bench(&b);
	}
}

/* A line as long as can be: steps back, words and other lines take no longer than the text is long. */
TEST(line_that_is_very_long)
{
	static char text[LINE_TEXT_MAX + 1];
	struct bench b;

	memset(text, 'a', LINE_TEXT_MAX);
	text[LINE_TEXT_MAX / 2 - 1] = '\n';
	open_bench(&b, 80, 24, NULL);
	line_set(&b.l, text, LINE_TEXT_MAX);
	press(&b, UP);
	CHECK_EQ_INT(b.l.at, LINE_TEXT_MAX / 2 - 1);
	press(&b, "\033b");
	CHECK_EQ_INT(b.l.at, 0);
	press(&b, "\033f" DOWN "\027");
	CHECK_EQ_INT(b.l.text.n, LINE_TEXT_MAX / 2 + 1);
	close_bench(&b);
}

/* What is pasted comes in pieces. Behind one that does not fit nothing is taken, whether or not it would. */
TEST(line_refuses_the_rest_of_a_paste)
{
	static char text[LINE_TEXT_MAX];
	struct bench b;

	memset(text, 'a', sizeof(text));
	open_bench(&b, 80, 24, NULL);
	press(&b, "\033[200~");
	press_bytes(&b, text, sizeof(text) - 5);
	press(&b, "too long");
	press(&b, "fits");
	press(&b, "\033[201~");
	CHECK_EQ_INT(b.l.text.n, sizeof(text) - 5);
	press(&b, "x\033[200~y\033[201~");
	CHECK_EQ_INT(b.l.text.n, sizeof(text) - 3);
	CHECK_STR(b.l.text.p + b.l.text.n - 3, "axy");
	close_bench(&b);
}

TEST(line_keeps_no_secret)
{
	static const char *const keys[] = { "hunter2\025", "hunter2\027", "hunter2\001\013" };
	struct bench b;

	open_bench(&b, 80, 24, NULL);
	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		line_begin(&b.l, "? ", "", LINE_PLAIN | LINE_SECRET);
		press(&b, keys[i]);
		check_text(&b, "", 0);
		line_begin(&b.l, "> ", ". ", 0);
		press(&b, "\031");
		check_text(&b, "", 0);
	}
	close_bench(&b);
}
