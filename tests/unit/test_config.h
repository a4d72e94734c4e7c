/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the configuration share. Files are memfds, named by their place in /proc: nothing is left behind. */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_CONFIG_H
#define GLOVEBOX_TESTS_UNIT_TEST_CONFIG_H

#include "base/config_impl.h"
#include "base/own.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "test_help.h"

#define TOKEN_A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define TOKEN_B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define FLAG_A  "--token=aaaaaaaaaaaaaaaaaaaaaaaa"
#define FLAG_B  "--token=bbbbbbbbbbbbbbbbbbbbbbbb"

/* A list of words that ends by itself. */
#define WORDS(...) ((const char *const[]){ "serve", ##__VA_ARGS__, NULL })

static const char *const no_env[] __attribute__((unused)) = { "HOME=/home/u", NULL };

static inline char **plain(const char *const *words)
{
	return (char **)(uintptr_t)words;
}

static inline int load(struct config *c, const char *const *args, const char *const *env,
		       struct err *e)
{
	int argc = 0;

	while (args[argc] != NULL)
		argc++;
	memset(e, 0, sizeof(*e));
	return config_load(c, argc, plain(args), plain(env), e);
}

static inline void must_load(struct config *c, const char *const *args, const char *const *env)
{
	struct err e;

	if (load(c, args, env, &e) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", e.text);
	test_count();
}

struct file {
	int fd;
	char path[32];
};

static inline struct file file_of(const void *text, size_t n, mode_t mode)
{
	struct file f = { .fd = memfd_create("config", MFD_CLOEXEC) };

	CHECK(f.fd >= 0);
	CHECK_EQ_INT(write(f.fd, text, n), n);
	CHECK_EQ_INT(fchmod(f.fd, mode), 0);
	(void)snprintf(f.path, sizeof(f.path), "/proc/self/fd/%d", f.fd);
	return f;
}

static inline struct file file_with(const char *text)
{
	return file_of(text, text != NULL ? strlen(text) : 0, 0600);
}

static inline const char *item(const struct config *c, enum config_key key, unsigned int i)
{
	unsigned int n;
	char *const *list = config_list(c, key, &n);

	return i < n ? list[i] : NULL;
}

static inline const char *where(const struct config *c, enum config_key key)
{
	return c->v[key].where != NULL ? c->v[key].where : "";
}

#endif
