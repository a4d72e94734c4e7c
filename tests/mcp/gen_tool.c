// SPDX-License-Identifier: Apache-2.0
/*
 * The generator of src/mcp on files: for tests only.
 *
 *	gen-tool LAYOUT SERVER DIRECTORY < the result of tools/list
 *
 * LAYOUT is mcptools or ipybox. Into the directory, which is there, go __init__.py and the modules; to standard output the names of these,
 * as one line of JSON, by those of the tools. SERVER_PARAMS, of ipybox, is the member "params" of what is read.
 */
#include "base/own.h"
#include "mcp/gen.h"

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_all(struct json *j)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
		json_raw(j, buf, (size_t)n);
	if (n < 0 || j->failed)
		err(2, "standard input");
}

static void write_file(int dir, const char *module, const struct json *j)
{
	char name[GEN_NAME + 8];
	own_fd fd = -1;

	(void)snprintf(name, sizeof(name), "%s.py", module);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		err(2, "%s", name);
	for (size_t at = 0; at < j->len;) {
		ssize_t n = write(fd, j->buf + at, j->len - at);

		if (n < 0)
			err(2, "%s", name);
		at += (size_t)n;
	}
}

static void write_package(int dir, struct json_text params)
{
	OWN(json_done) struct json j;
	int rc;

	json_init(&j);
	rc = gen_package(params, &j);
	if (rc < 0)
		errx(1, "the package: %s", strerror(-rc));
	write_file(dir, "__init__", &j);
}

static void write_modules(int dir, enum gen_layout layout, const char *server,
			  const struct gen_names *names)
{
	OWN(json_done) struct json said;

	json_init(&said);
	json_open(&said, NULL, '{');
	for (size_t i = 0; i < names->n; i++) {
		const struct gen_named *one = &names->v[i];
		struct json_member m[] = { { .key = "name" } };
		OWN(json_done) struct json j;
		int rc;

		json_init(&j);
		rc = gen_module(layout, server, one->module, one->tool, &j);
		if (rc < 0)
			errx(1, "%s: %s", one->module, strerror(-rc));
		write_file(dir, one->module, &j);
		json_text_find(one->tool, m, 1);
		json_text_put_key(m[0].value, &said);
		json_str(&said, NULL, one->module);
	}
	json_close(&said, '}');
	if (said.failed)
		errx(1, "the names: no memory");
	(void)printf("%s\n", said.buf);
}

int main(int argc, char *argv[])
{
	struct json_member m[] = { { .key = "tools" }, { .key = "params" } };
	OWN(json_done) struct json text;
	enum gen_layout layout;
	struct gen_names names;
	struct json_text t;
	own_fd dir = -1;
	int rc;

	if (argc != 4)
		errx(2, "usage: gen-tool mcptools|ipybox SERVER DIRECTORY");
	layout = strcmp(argv[1], "mcptools") == 0 ? GEN_MCPTOOLS : GEN_IPYBOX;
	dir = open(argv[3], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		err(2, "%s", argv[3]);
	json_init(&text);
	read_all(&text);
	rc = json_text_read(text.buf, text.len, &t);
	if (rc < 0)
		errx(1, "standard input: %s", strerror(-rc));
	json_text_find(t, m, 2);
	rc = gen_names(m[0].value, &names);
	if (rc < 0)
		errx(1, "tools: %s", strerror(-rc));
	write_package(dir, m[1].value);
	write_modules(dir, layout, argv[2], &names);
	gen_names_done(&names);
	return 0;
}
