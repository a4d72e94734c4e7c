// SPDX-License-Identifier: Apache-2.0
/*
 * `ipybox build`: images of ipybox are environments here. A tag is a name, and a file of dependencies is requirements.
 */
#include "cli/ipybox.h"

#include "base/own.h"
#include "cli/envdir.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 300, LINE = 1024 };

static const char own_image[] = "ipybox";

/* What stands behind the last slash, in the letters that a name may have. */
static void name_of(const char *tag, char ret[ENV_NAME])
{
	const char *slash = strrchr(tag, '/');
	size_t n = 0;

	for (const char *p = slash != NULL ? slash + 1 : tag; *p != '\0' && n + 1 < ENV_NAME; p++) {
		char c = (char)tolower((unsigned char)*p);
		bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
			    (n > 0 && strchr("-_.", c) != NULL);

		if (fits || n > 0)
			ret[n++] = fits ? c : '-';
	}
	ret[n] = '\0';
}

bool ipybox_environment(const char *tag, char ret[ENV_NAME])
{
	char path[PATH_MAX], version[ENVDIR_VERSION];
	struct envdir d = { .fd = -1 };
	struct err e;
	bool there;

	name_of(tag, ret);
	if (envdir_usual(path, &e) < 0 || access(path, R_OK) < 0 || envdir_open(&d, path, &e) < 0)
		return false;
	there = envdir_version(&d, ret, version) == 0;
	envdir_close(&d);
	return there;
}

bool ipybox_is_own_image(const char *tag)
{
	char name[ENV_NAME];
	size_t n = sizeof(own_image) - 1;

	name_of(tag, name);
	return strncmp(name, own_image, n) == 0 && (name[n] == '\0' || name[n] == '-');
}

/* A line of the file is a requirement in quotes, with a comma behind it. NULL: there is none in it. */
static char *requirement_of(char *line)
{
	size_t n;

	line += strspn(line, " \t[");
	n = strcspn(line, "\r\n");
	while (n > 0 && strchr(" \t,]", line[n - 1]) != NULL)
		n--;
	if (n >= 2 && (line[0] == '"' || line[0] == '\'') && line[n - 1] == line[0]) {
		line++;
		n -= 2;
	}
	line[n] = '\0';
	return n == 0 || line[0] == '#' ? NULL : line;
}

static int take_file(const char *path, const char **words, unsigned int *n, struct err *e)
{
	FILE *f = fopen(path, "r");
	char line[LINE], *found;

	if (f == NULL)
		return err_set(e, ERR_INPUT, errno, "--dependencies '%s'", path);
	while (fgets(line, sizeof(line), f) != NULL && *n < WORDS) {
		found = requirement_of(line);
		if (found == NULL)
			continue;
		words[*n] = strdup(found); /* lives as long as the process */
		if (words[*n] != NULL)
			(*n)++;
	}
	(void)fclose(f);
	return 0;
}

int ipybox_build(const struct ipybox_build_opts *q, struct err *e)
{
	static const char *words[WORDS + 8] = { "env", "build" };
	static char name[ENV_NAME];
	unsigned int n = 3;

	name_of(q->tag != NULL ? q->tag : own_image, name);
	words[2] = name;
	if (q->dependencies != NULL && take_file(q->dependencies, words, &n, e) < 0)
		return -1;
	for (unsigned int i = 3; i < n; i++)
		if (words[i][0] == '-')
			return err_set(e, ERR_INPUT, 0, "--dependencies '%s': '%.64s' is none",
				       q->dependencies, words[i]);
	if (q->root)
		say("--root means nothing here: code in a box is nobody on this machine, whoever "
		    "it is in there");
	say("'%s' is the environment '%s'", q->tag != NULL ? q->tag : own_image, name);
	for (char **more = q->more; *more != NULL && n < WORDS + 7; more++)
		words[n++] = *more;
	words[n] = NULL;
	return verb_env((int)n, (char **)(uintptr_t)words);
}
