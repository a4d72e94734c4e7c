// SPDX-License-Identifier: Apache-2.0
/*
 * What a program that starts MCP servers is told: the path of ours and the options that were given, in the two forms that such programs
 * read. They start it in another directory: paths become absolute.
 */
#include "cli/mcp.h"

#include "base/own.h"
#include "cli/say.h"
#include "cli/wake.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024 };

/* Options whose values are paths; of the last one only what stands before the colon. */
static const char *const path_options[] = { "--allowed-dir", "--container-env-file", "--token-file",
					    "--container-bind" };

static void put_string(struct bytes *b, const char *text)
{
	struct json j;

	json_init(&j);
	json_str(&j, NULL, text);
	bytes_put(b, j.buf, j.len);
	json_done(&j);
}

static void put_path(struct bytes *word, const char *path, bool is_bind)
{
	size_t n = is_bind ? strcspn(path, ":") : strlen(path);
	char first[PATH_MAX];
	own_free char *real = NULL;

	(void)snprintf(first, sizeof(first), "%.*s", (int)n, path);
	real = n < sizeof(first) ? realpath(first, NULL) : NULL;
	if (real != NULL)
		bytes_puts(word, real);
	else
		bytes_put(word, path, n);
	bytes_puts(word, path + n);
}

/* Which of path_options it is, with its value behind it or to follow; -1: none. */
static int path_option(const char *word)
{
	size_t n = strcspn(word, "=");

	for (unsigned int i = 0; i < ARRAY_LEN(path_options); i++)
		if (strlen(path_options[i]) == n && strncmp(word, path_options[i], n) == 0)
			return (int)i;
	return -1;
}

static void put_args(struct bytes *b, const char *before, bool as_ipybox, int argc, char **argv)
{
	const int bind = (int)ARRAY_LEN(path_options) - 1;
	int follows = -1;
	struct bytes word;

	bytes_printf(b, "%s\"args\": [%s\"mcp\"", before, as_ipybox ? "\"ipybox\", " : "");
	bytes_init(&word, TEXT_MAX);
	for (int i = 1; i < argc; i++) {
		int option = path_option(argv[i]);
		const char *eq = strchr(argv[i], '=');

		if (strcmp(argv[i], "--print-config") == 0 && follows < 0)
			continue;
		bytes_clear(&word);
		if (follows >= 0) {
			put_path(&word, argv[i], follows == bind);
			follows = -1;
		} else if (option >= 0 && eq != NULL) {
			bytes_put(&word, argv[i], (size_t)(eq + 1 - argv[i]));
			put_path(&word, eq + 1, option == bind);
		} else {
			bytes_puts(&word, argv[i]);
			follows = option;
		}
		bytes_puts(b, ", ");
		put_string(b, bytes_str(&word));
	}
	bytes_done(&word);
	bytes_puts(b, "]");
}

/* Which server: such programs do not always pass their environment on. A token is nothing to print. */
static void put_env(struct bytes *b, const char *before)
{
	static const char *const names[] = { "GLOVEBOX_URL", "GLOVEBOX_TOKEN_FILE" };
	unsigned int n = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (v == NULL || v[0] == '\0' || strchr(v, '@') != NULL)
			continue;
		if (n == 0)
			bytes_printf(b, ",\n%s\"env\": {", before);
		bytes_printf(b, "%s\"%s\": ", n++ > 0 ? ", " : "", names[i]);
		put_string(b, v);
	}
	if (n > 0)
		bytes_puts(b, "}");
}

static void put_form(struct bytes *b, const char *key, const char *kind, const char *program,
		     bool as_ipybox, int argc, char **argv)
{
	static const char before[] = "      ";

	bytes_printf(b, "  \"%s\": {\n    \"glovebox\": {\n%s", key, kind);
	bytes_printf(b, "%s\"command\": ", before);
	put_string(b, program);
	bytes_puts(b, ",\n");
	put_args(b, before, as_ipybox, argc, argv);
	put_env(b, before);
	bytes_puts(b, "\n    }\n  }");
}

int bridge_print_config(bool as_ipybox, int argc, char **argv)
{
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	struct bytes b;
	int r = -ENOMEM;

	if (n < 0)
		return -errno;
	program[n] = '\0';
	bytes_init(&b, TEXT_MAX * 16);
	bytes_puts(&b, "{\n");
	put_form(&b, "mcpServers", "", program, as_ipybox, argc, argv);
	bytes_puts(&b, ",\n");
	put_form(&b, "servers", "      \"type\": \"stdio\",\n", program, as_ipybox, argc, argv);
	bytes_puts(&b, "\n}\n");
	if (!b.failed)
		r = wake_write(STDOUT_FILENO, b.p, b.n, NULL, NULL);
	bytes_done(&b);
	if (r == 0)
		say("\"mcpServers\" is for Claude Desktop, Cursor and most others, \"servers\" for "
		    "VS "
		    "Code: take the one that yours reads");
	return r;
}
