// SPDX-License-Identifier: Apache-2.0
/* `glovebox env`: what fills an environment, and what is told to the programs that do it. */
#include "cli/env.h"

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "wire/json_text.h"
#include "wire/netrule.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { SAID_MAX = 64 * 1024, MORE = 96 };

/* --- packages --------------------------------------------------------------------------------- */

struct more {
	const char *v[MORE + 1];
	char *mine[MORE];
	unsigned int n, nmine;
};

static void add_pair(struct more *m, const char *option, const char *value)
{
	if (m->n + 2 > MORE)
		return;
	m->v[m->n++] = option;
	m->v[m->n++] = value;
	m->v[m->n] = NULL;
}

static void add_text(struct more *m, const char *option, const char *text, const char *tail)
{
	if (m->nmine < MORE && asprintf(&m->mine[m->nmine], "%s%s", text, tail) >= 0)
		add_pair(m, option, m->mine[m->nmine++]);
}

static void more_done(struct more *m)
{
	for (unsigned int i = 0; i < m->nmine; i++)
		free(m->mine[i]);
}

int env_bad(const char *text, int sys)
{
	struct err e;

	(void)err_set(&e, ERR_INPUT, sys, "%s", text);
	return say_err(&e);
}

/* 0 or -errno. */
static int copy_lines(const char *path, FILE *to)
{
	FILE *from = fopen(path, "r");
	char line[8192];
	int r = from == NULL ? -errno : 0;

	while (from != NULL && fgets(line, sizeof(line), from) != NULL)
		(void)fputs(line, to);
	if (from != NULL && ferror(from)) /* a directory, for instance */
		r = -errno;
	if (from != NULL)
		(void)fclose(from);
	(void)fputc('\n', to);
	return r;
}

static int gather_into(const struct env_opts *o, const char *path, int fd)
{
	FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
	int r = 0, broken;

	if (to == NULL)
		return env_bad(path, errno);
	if (o->requirements != NULL)
		r = copy_lines(o->requirements, to);
	for (unsigned int i = 0; i < o->nwords; i++)
		(void)fprintf(to, "%s\n", o->words[i]);
	broken = ferror(to);
	if (fclose(to) != 0 || broken)
		return env_bad(path, EIO);
	return r < 0 ? env_bad(o->requirements, -r) : 0;
}

/* Requirements, from a file and from words, in a file of our own. 0, or how to exit. */
static int gather(const struct env_opts *o, char path[32])
{
	int fd, status;

	(void)snprintf(path, 32, "/tmp/glovebox-env-XXXXXX");
	fd = mkostemp(path, O_CLOEXEC);
	status = gather_into(o, path, fd);
	if (status != 0 && fd >= 0)
		(void)unlink(path);
	return status;
}

/* "https://HOST[:PORT]/…" as a rule. -1: it is none. */
static int rule_of(const char *url, char *ret, size_t size)
{
	bool tls = strncmp(url, "https://", 8) == 0;
	const char *host = url + (tls ? 8 : 7), *at;
	size_t n;

	if (!tls && strncmp(url, "http://", 7) != 0)
		return -1;
	n = strcspn(host, "/?#");
	at = memchr(host, '@', n);
	if (at != NULL) {
		n -= (size_t)(at + 1 - host);
		host = at + 1;
	}
	if (n == 0 || memchr(host, ':', n) != NULL)
		return snprintf(ret, size, "%.*s", (int)n, host) < (int)size && n > 0 ? 0 : -1;
	return snprintf(ret, size, "%.*s:%d", (int)n, host, tls ? 443 : 80) < (int)size ? 0 : -1;
}

/* Where pip goes unless it is told otherwise is for pip to say. */
static int ask_pip(const struct env_opts *o, struct more *m)
{
	static char said[4096];
	struct json_walk w;
	struct json_text t, key, value;
	struct boxed b = { .program = BOXED_BUILD,
			   .argument = "{\"ask\": true}",
			   .said = said,
			   .size = sizeof(said) };
	int status = env_run(o, &b);
	char host[NET_NAME];

	if (status != 0 || json_text_read(said, strcspn(said, "\n"), &t) < 0)
		return env_bad(
			"pip does not say where packages are: name it by --index-url and --allow",
			0);
	for (w = json_walk(t); json_walk_next(&w, &key, &value);)
		if (json_text_str(value, host, sizeof(host)))
			add_text(m, "--allow", host, ":443");
	return 0;
}

static int allow(const struct env_opts *o, struct more *m)
{
	char rule[NET_RULE_TEXT];

	for (unsigned int i = 0; i < o->nrules; i++)
		add_pair(m, "--allow", o->rules[i]);
	if (o->no_index)
		return 0;
	if (o->index_url == NULL)
		return ask_pip(o, m);
	if (rule_of(o->index_url, rule, sizeof(rule)) < 0)
		return env_bad("--index-url is no http:// or https:// URL", 0);
	add_text(m, "--allow", rule, "");
	return 0;
}

static int build_in_box(const struct env_opts *o, const char *tree, const char *requirements)
{
	struct more m = { .n = 0 };
	struct boxed b = { .program = BOXED_BUILD, .more = m.v, .tree = tree };
	struct json j;
	int status;

	json_init(&j);
	json_open(&j, NULL, '{');
	if (o->python != NULL)
		json_str(&j, "python", o->python);
	json_bool(&j, "isolated", o->isolated);
	json_bool(&j, "no_index", o->no_index);
	json_str(&j, "index_url", o->index_url != NULL ? o->index_url : "");
	json_bool(&j, "find_links", o->find_links != NULL);
	json_bool(&j, "requirements", requirements != NULL);
	json_close(&j, '}');
	json_raw(&j, "", 1);
	status = j.failed ? env_bad("no memory", 0) : allow(o, &m);
	if (requirements != NULL)
		add_text(&m, "--file", requirements, ":requirements.txt");
	if (o->find_links != NULL) {
		add_pair(&m, "--mount-root", o->find_links);
		add_text(&m, "--mount", o->find_links, ":/mnt/wheels");
	}
	add_pair(&m, "--scratch", "4G"); /* pip unpacks there */
	b.argument = j.buf;
	if (status == 0)
		status = env_run(o, &b);
	json_done(&j);
	more_done(&m);
	return status;
}

int env_fill_packages(const struct env_opts *o, const char *tree, struct env_row *row)
{
	bool any = o->requirements != NULL || o->nwords > 0;
	char path[32];
	int status = any ? gather(o, path) : 0;

	if (status != 0)
		return status;
	(void)snprintf(row->python, sizeof(row->python), ENV_PLACE "/bin/python3");
	status = build_in_box(o, tree, any ? path : NULL);
	if (any)
		(void)unlink(path);
	return status;
}

/* --- roots ------------------------------------------------------------------------------------ */

static int copy_file(int from, int to, uint64_t most)
{
	enum { PIECE = 16 << 20 };
	bool pipe = false;
	uint64_t all = 0;
	ssize_t n = 1;

	while (n > 0 && all <= most && env_asked() == 0) {
		n = pipe ? splice(from, NULL, to, NULL, PIECE, 0) : sendfile(to, from, NULL, PIECE);
		if (n < 0 && errno == EINVAL && !pipe) {
			pipe = true;
			n = 1;
		} else if (n > 0) {
			all += (uint64_t)n;
		}
	}
	return env_asked() != 0 ? -EINTR : n < 0 ? -errno : n > 0 ? -EFBIG : 0;
}

/* The archive where a box can be shown it: a second name of it, or a copy. The box's user reads as its owner. */
static int bring(const char *source, const char *dir, uint64_t most)
{
	bool standard = strcmp(source, "-") == 0;
	char path[PATH_MAX];
	own_fd from = -1, to = -1;
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/image.tar", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	from = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			: open(source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!standard && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return to < 0 ? -errno : copy_file(from, to, most);
}

/* For a line of its own, and for the eyes of a person. */
static bool is_harmless(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = strlen(text), len;
	uint32_t c = 0;

	for (; n > 0; p += len, n -= len) {
		len = utf8_next(p, n, &c);
		if (len == 0 || utf8_is_tricky(c))
			return false;
	}
	return true;
}

static int take_variables(struct json_text list, struct env_row *row)
{
	struct json_walk w = json_walk(list);
	struct json_text key, value;
	char text[2048];

	while (json_walk_next(&w, &key, &value)) {
		size_t n;

		if (!json_text_str(value, text, sizeof(text)) || !is_harmless(text) ||
		    text[0] == '=' || strchr(text, '=') == NULL)
			continue;
		n = strlen(text) + 1;
		if (n > sizeof(row->variables) - row->variables_len)
			return env_bad("the image has more than 4 KiB of variables", 0);
		(void)memcpy(row->variables + row->variables_len, text, n);
		row->variables_len += n;
	}
	return 0;
}

/* What the box has found in the image: hostile. 0, or how to exit. */
static int take_found(const char *said, struct env_row *row)
{
	struct json_member m[] = { { .key = "python" }, { .key = "path" }, { .key = "variables" } };
	struct json_text t;

	if (json_text_read(said, strcspn(said, "\n"), &t) < 0)
		return env_bad("what is in the image cannot be told", 0);
	json_text_find(t, m, ARRAY_LEN(m));
	if (!json_text_str(m[1].value, row->path, sizeof(row->path)) || !is_harmless(row->path))
		return env_bad("the image's PATH cannot be one", 0);
	if (json_text_kind(m[0].value) == '"' &&
	    (!json_text_str(m[0].value, row->python, sizeof(row->python)) ||
	     !path_is_plain_abs(row->python) || !is_harmless(row->python)))
		return env_bad("the path of the image's Python cannot be one", 0);
	return take_variables(m[2].value, row);
}

static int unpack(const struct env_opts *o, const char *tree, const char *image, bool is_file,
		  struct env_row *row)
{
	static char said[SAID_MAX];
	struct more m = { .n = 0 };
	struct boxed b = { .program = BOXED_IMPORT,
			   .argument = is_file ? "file" : "directory",
			   .more = m.v,
			   .tree = tree,
			   .said = said,
			   .size = sizeof(said) };
	int status;

	add_pair(&m, "--mount-root", image);
	add_text(&m, "--mount", image, ":/mnt/image");
	status = env_run(o, &b);
	more_done(&m);
	return status != 0 ? status : take_found(said, row);
}

/* Beside the tree, so that it goes with it whatever happens. */
static int unpack_file(const struct env_opts *o, const char *tree, struct env_row *row)
{
	char dir[PATH_MAX], path[PATH_MAX + 16];
	int r, status;

	(void)snprintf(dir, sizeof(dir), "%.*s/image", (int)(strrchr(tree, '/') - tree), tree);
	(void)snprintf(path, sizeof(path), "%s/image.tar", dir);
	r = mkdir(dir, 0755) < 0 ? -errno : bring(o->source, dir, o->bytes);
	if (r == -EFBIG)
		status = env_bad("the archive alone is larger than --bytes allows", 0);
	else if (r < 0)
		status = env_asked() != 0 ? EXIT_GLOVEBOX : env_bad(o->source, -r);
	else
		status = unpack(o, tree, dir, true, row);
	(void)unlink(path);
	(void)rmdir(dir);
	return status;
}

int env_fill_root(const struct env_opts *o, const char *tree, struct env_row *row)
{
	struct stat st;

	if (strcmp(o->source, "-") == 0)
		return unpack_file(o, tree, row);
	if (stat(o->source, &st) < 0)
		return env_bad(o->source, errno);
	return S_ISDIR(st.st_mode) ? unpack(o, tree, o->source, false, row)
				   : unpack_file(o, tree, row);
}
