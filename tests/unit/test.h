/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests. Write
 *
 *	TEST(buf_refuses_more_than_its_maximum)
 *	{
 *		...
 *		CHECK_EQ_INT(buf_add(&b, "x", 1), -ENOBUFS);
 *	}
 *
 * in a file that tests/meson.build lists; there is nothing to register. The runner (runner.c) gives each
 * test a process of its own. A test fails when
 *   - a CHECK in it does, in whichever process; the first one ends that process;
 *   - it leaves a file descriptor open, or a process running;
 *   - it is killed, exits by itself, or takes longer than 30 seconds;
 *   - it ends without having run any CHECK.
 * Under the address sanitizer, leaked memory fails it too.
 *
 * The arguments of the CHECK macros are evaluated once. What was got comes first, what was wanted second.
 */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_H
#define GLOVEBOX_TESTS_UNIT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unit_test {
	const char *name;
	void (*run)(void);
	bool hidden; /* runs only when asked for by its full name; see selftest.c */
};

#define TEST(name)        UNIT_TEST_DEFINE(name, false)
#define TEST_HIDDEN(name) UNIT_TEST_DEFINE(name, true)

#define CHECK(condition)                                                        \
	do {                                                                    \
		test_count();                                                   \
		if (!(condition))                                               \
			test_fail(__FILE__, __LINE__, "CHECK(%s)", #condition); \
	} while (0)

#define CHECK_EQ_INT(got, want) \
	test_check_int(__FILE__, __LINE__, #got, (intmax_t)(got), (intmax_t)(want))

/* Either may be NULL: equal only to another NULL. */
#define CHECK_STR(got, want) test_check_str(__FILE__, __LINE__, #got, (got), (want))

#define CHECK_MEM(got, want, size) test_check_mem(__FILE__, __LINE__, #got, (got), (want), (size))

/* Ends the test: not run here, and why. For what this machine lacks, never for what the code lacks. */
#define SKIP(reason) test_skip(reason)

void test_count(void);
__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
							       const char *format, ...);
__attribute__((noreturn)) void test_skip(const char *reason);
void test_check_int(const char *file, int line, const char *text, intmax_t got, intmax_t want);
void test_check_str(const char *file, int line, const char *text, const char *got,
		    const char *want);
void test_check_mem(const char *file, int line, const char *text, const void *got, const void *want,
		    size_t size);

/* A pointer to the test goes into a section of that name; the linker marks where the section starts and stops. */
#define UNIT_TEST_DEFINE(test, is_hidden)                                              \
	static void test_##test(void);                                                 \
	static const struct unit_test unit_##test = { #test, test_##test, is_hidden }; \
	static const struct unit_test *const unit_ref_##test                           \
		__attribute__((used, section("unit_tests"))) = &unit_##test;           \
	static void test_##test(void)

#endif
