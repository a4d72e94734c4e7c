/* SPDX-License-Identifier: Apache-2.0 */
/* src/tools/spec.c: what a server of MCP is, from a file. */
#include "tools/spec.h"

#include <stdlib.h>
#include <string.h>

#include "test_help.h"

static const char *variable(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "KEY") == 0 ? "s3cret" : strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static int read_text(struct spec *s, const char *json, struct err *e)
{
	char *text = strdup(json);
	struct jsonr d;
	int r;

	CHECK(text != NULL && jsonr_parse(&d, text, strlen(json), NULL) == 0);
	r = spec_read(s, &d, jsonr_root(&d), variable, NULL, e);
	jsonr_done(&d);
	memset(text, 'x', strlen(json)); /* nothing of it is kept */
	free(text);
	return r;
}

TEST(spec_of_a_program)
{
	struct spec s;
	struct err e;

	CHECK_EQ_INT(read_text(&s,
			       "{\"command\": \"/bin/${KEY}\", \"args\": [\"a\", \"$x ${EMPTY}b\", "
			       "\"\"], \"env\": "
			       "{\"K\": \"<${KEY}>\"}, \"cwd\": \"/tmp\", \"limits\": "
			       "{\"memory_bytes\": 33554432, "
			       "\"cpus\": 0.5}, \"mounts\": [{\"root\": \"/srv\", \"at\": "
			       "\"/mnt/x\", \"writable\": "
			       "true}, {\"root\": \"/srv\", \"path\": \"y\", \"at\": \"/mnt/y\"}], "
			       "\"unknown\": 1}",
			       &e),
		     0);
	CHECK_STR(s.place.argv[0], "/bin/s3cret");
	CHECK_STR(s.place.argv[1], "a");
	CHECK_STR(s.place.argv[2], "$x b");
	CHECK_STR(s.place.argv[3], "");
	CHECK(s.place.argv[4] == NULL);
	CHECK_STR(s.place.env[0], "K=<s3cret>");
	CHECK(s.place.env[1] == NULL && s.place.url == NULL);
	CHECK_STR(s.cwd, "/tmp");
	CHECK_EQ_INT(s.limited, 1u << LIMIT_MEMORY | 1u << LIMIT_CPUS);
	CHECK(s.limits[LIMIT_MEMORY] == 33554432 && s.limits[LIMIT_CPUS] == 500);
	CHECK_EQ_INT(s.nmounts, 2);
	CHECK(s.mounts[0].writable && !s.mounts[1].writable);
	CHECK_STR(s.mounts[0].path, "");
	CHECK_STR(s.mounts[1].path, "y");
	spec_done(&s);
}

TEST(spec_of_a_url)
{
	static const struct {
		const char *json;
		bool old;
	} rows[] = {
		{ "{\"url\": \"http://h/mcp\", \"headers\": {\"Authorization\": \"Bearer "
		  "${KEY}\"}}",
		  false },
		{ "{\"url\": \"http://h/sse\"}", true },
		{ "{\"url\": \"http://h/sse?x=/mcp\"}", true },
		{ "{\"url\": \"http://h/sse\", \"type\": \"streamable_http\"}", false },
		{ "{\"url\": \"http://h/mcp\", \"type\": \"sse\"}", true },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec s;
		struct err e;

		CHECK_EQ_INT(read_text(&s, rows[i].json, &e), 0);
		CHECK(s.place.argv == NULL && s.place.url != NULL && s.place.old == rows[i].old);
		if (i == 0) {
			CHECK_EQ_INT(s.place.nheaders, 1);
			CHECK_STR(s.place.headers[0], "Authorization: Bearer s3cret");
		}
		spec_done(&s);
	}
}

TEST(spec_refuses)
{
	static const struct {
		const char *json, *why;
	} rows[] = {
		{ "[]", "it is no object" },
		{ "{}", "it has to have one of 'command' and 'url'" },
		{ "{\"command\": \"x\", \"url\": \"http://h\"}",
		  "it has to have one of 'command' and 'url'" },
		{ "{\"command\": 1}", "'command' is no string" },
		{ "{\"command\": \"${NO}\"}", "the variable 'NO' is not set" },
		{ "{\"command\": \"${\"}", "'${' without a name and '}'" },
		{ "{\"command\": \"${}\"}", "'${' without a name and '}'" },
		{ "{\"command\": \"x\", \"args\": {}}", "'args' is no list of 256 at most" },
		{ "{\"command\": \"x\", \"args\": [1]}", "'args' has what is no string" },
		{ "{\"command\": \"x\", \"env\": []}", "'env' is no object of 256 at most" },
		{ "{\"command\": \"x\", \"limits\": {\"memory_bytes\": 1}}",
		  "'limits.memory_bytes' is out of its bounds" },
		{ "{\"command\": \"x\", \"limits\": {\"memory_bytes\": \"1G\"}}",
		  "'limits.memory_bytes' is out of its bounds" },
		{ "{\"command\": \"x\", \"limits\": {\"x\": 1}}", "there is no limit 'x'" },
		{ "{\"command\": \"x\", \"mounts\": [{}]}", "a mount has to have 'root' and 'at'" },
		{ "{\"url\": \"http://h\", \"headers\": {\"A\": \"b\\r\\nC: d\"}}",
		  "'headers' has one that can be none, or too many" },
		{ "{\"url\": \"http://h\", \"headers\": {\"A b\": \"c\"}}",
		  "'headers' has one that can be none, or too many" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec s;
		struct err e;

		CHECK_EQ_INT(read_text(&s, rows[i].json, &e), -1);
		CHECK_STR(e.text, rows[i].why);
		spec_done(&s);
	}
}

TEST(spec_names)
{
	char long_name[SPEC_NAME + 1];

	memset(long_name, 'a', sizeof(long_name));
	long_name[SPEC_NAME] = '\0';
	CHECK(!spec_is_name(long_name));
	long_name[SPEC_NAME - 1] = '\0';
	CHECK(spec_is_name(long_name) && spec_is_name("a-b_c.D9"));
	CHECK(!spec_is_name("..") && !spec_is_name("-x") && !spec_is_name("") &&
	      !spec_is_name("a b") && !spec_is_name("a/b") && !spec_is_name("\xc3\xbc"));
}
