/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/base/config_file.c, config_text.c and what config.c says about a whole: every error, files, tokens, dump, save and
 * restore, changes. The rest: test_config.c.
 */
#include "test_config.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/sha256.h"

/* --- every error ------------------------------------------------------------------------------------------------- */

/* The text of an error with the name of the file taken out. */
static const char *without_name(const char *text, const char *name)
{
	static char buf[ERR_TEXT + 64];
	const char *at = *name != '\0' ? strstr(text, name) : NULL;

	if (at == NULL)
		return text;
	(void)snprintf(buf, sizeof(buf), "%.*sFILE%s", (int)(at - text), text, at + strlen(name));
	return buf;
}

TEST(config_errors_of_a_command_line)
{
	static const struct {
		const char *args[4];
		const char *text, *hint;
	} rows[] = {
		{ { "--drain-timout", "3" },
		  "unknown option '--drain-timout'",
		  "did you mean '--drain-timeout'?" },
		{ { "--drain_timeout=3" },
		  "unknown option '--drain_timeout'",
		  "did you mean '--drain-timeout'?" },
		{ { "--tokn=" TOKEN_A }, "unknown option '--tokn'", "did you mean '--token'?" },
		{ { "--dump-confg" },
		  "unknown option '--dump-confg'",
		  "did you mean '--dump-config'?" },
		{ { "--something-else" },
		  "unknown option '--something-else'",
		  "--help lists the options" },
		{ { "--no-listen" }, "unknown option '--no-listen'", "did you mean '--listen'?" },
		{ { "--" }, "unknown option '--'", "--help lists the options" },
		{ { "--\x1b" }, "an option has a character that cannot be seen (U+001B)", "" },
		{ { "x" }, "unexpected argument 'x'", "" },
		{ { "-x" }, "unexpected argument '-x'", "" },
		{ { "" }, "unexpected argument ''", "" },
		{ { "\xff" }, "an argument is not UTF-8", "" },
		{ { "--drain-timeout" }, "option '--drain-timeout' needs a value", "" },
		{ { "--config" }, "option '--config' needs a value", "" },
		{ { "--config=" }, "--config needs the name of a file", "" },
		{ { "--config=/a\nb" },
		  "the name of a configuration file has a character that cannot be seen (U+000A)",
		  "" },
		{ { "--config=/no/such" },
		  "configuration file '/no/such': No such file or directory",
		  "" },
		{ { "--config=/proc" }, "configuration file '/proc': Is a directory", "" },
		{ { "--help=1" }, "option '--help' takes no value", "" },
		{ { "--dump-config=1" }, "option '--dump-config' takes no value", "" },
		{ { "--no-no-auth=1" }, "option '--no-no-auth' takes no value", "" },
		{ { "--no-auth=maybe" }, "--no-auth 'maybe' is neither true nor false", "" },
		{ { "--max-boxes=many" }, "--max-boxes 'many' is no number", "" },
		{ { "--max-boxes=" }, "--max-boxes '' is no number", "" },
		{ { "--max-boxes=0" }, "--max-boxes '0' is not between 1 and 4096", "" },
		{ { "--max-boxes=99999999999999999999" },
		  "--max-boxes '99999999999999999999' is not between 1 and 4096",
		  "" },
		{ { "--ci-memory", "1x" },
		  "--ci-memory '1x' is no number of bytes such as 65536, 256M or 1.5G",
		  "" },
		{ { "--ci-memory", "8M" }, "--ci-memory '8M' is not between 16 MiB and 4 TiB", "" },
		{ { "--drain-timeout", "soon" },
		  "--drain-timeout 'soon' is no duration such as 30s, 500ms or 2m",
		  "" },
		{ { "--backend-check-timeout", "1ms" },
		  "--backend-check-timeout '1ms' is not between 100ms and 600s",
		  "" },
		{ { "--log-level", "INFO" },
		  "--log-level 'INFO' is none of error|warn|info|debug",
		  "" },
		{ { "--tls-cert", "c.pem" }, "--tls-cert 'c.pem' is no absolute path", "" },
		{ { "--audit-file", "off" },
		  "--audit-file 'off' is no absolute path and not none",
		  "" },
		{ { "--state-dir", "" }, "--state-dir '' must not be empty", "" },
		{ { "--state-dir", "/a/.." },
		  "--state-dir '/a/..' is no plain path: '.', '..' and the root directory are not "
		  "taken",
		  "" },
		{ { "--cgroup", "/a\tb" },
		  "--cgroup has a character that cannot be seen (U+0009)",
		  "" },
		{ { "--listen", "" }, "--listen '' must not be empty", "" },
		{ { "--listen", "80" },
		  "--listen '80' is no listener: 127.0.0.1:8000, [::1]:8000, :8000 and "
		  "unix:/run/x.sock are",
		  "" },
		{ { "--allowed-host=a,,b" }, "--allowed-host 'a,,b' has an empty item", "" },
		{ { "--allowed-host=a," }, "--allowed-host 'a,' has an empty item", "" },
		{ { "--allowed-host=a:1" },
		  "--allowed-host 'a:1' is no name of a host: any port of it is meant",
		  "" },
		{ { "--allowed-host=a/b" }, "--allowed-host 'a/b' is no name of a host", "" },
		{ { "--allowed-origin=app" },
		  "--allowed-origin 'app' is no origin such as https://app.example.org",
		  "" },
		{ { "--accept-missing=x" },
		  "--accept-missing 'x' is no layer; 'glovebox doctor' lists them",
		  "" },
		{ { "--accept-missing=pid-namespace" },
		  "--accept-missing 'pid-namespace' is a layer that no box is made without",
		  "" },
		{ { "--token=short" }, "--token has a token of less than 16 characters", "" },
		{ { "--token=A B:0123456789abcdef" },
		  "--token has a tenant before its colon that is not made of a-z, 0-9, '-', '_' "
		  "and '.'",
		  "" },
		{ { "--token=:0123456789abcdef" },
		  "--token has a tenant before its colon that is empty or longer than 64",
		  "" },
		{ { "--token=0123456789abc def" },
		  "--token has a token with a character that is not visible ASCII",
		  "" },
		{ { "--token-file=/no/such" },
		  "token_file '/no/such': No such file or directory",
		  "" },
		/* as a whole */
		{ { "--tls-cert=/c" }, "tls_cert is set and tls_key is not: TLS needs both", "" },
		{ { "--tls-key=/k" }, "tls_key is set and tls_cert is not: TLS needs both", "" },
		{ { "--listen=:80" },
		  "listening on ':80' needs a token: other machines can reach it",
		  "name one in a token_file, or say no_auth if whoever reaches it may run code" },
		{ { "--listen=127.0.0.1:1", "--listen=0.0.0.0:80" },
		  "listening on '0.0.0.0:80' needs a token: other machines can reach it",
		  "name one in a token_file, or say no_auth if whoever reaches it may run code" },
		{ { "--no-auth", FLAG_A },
		  "no_auth is set and so is a token: either nobody needs one or everybody does",
		  "" },
		{ { "--token=a:aaaaaaaaaaaaaaaaaaaaaaaa",
		    "--token=x:bbbbbbbbbbbbbbbbbbbbbbbb,b:aaaaaaaaaaaaaaaaaaaaaaaa" },
		  "one token belongs to two tenants, 'a' and 'b'",
		  "" },
		{ { "--executor-backend=docker" },
		  "backend 'docker' is not built",
		  "executor_backend is native, or nothing" },
		{ { "--session-ttl-max=60s" },
		  "session_ttl_default '900s' is more than session_ttl_max '60s'",
		  "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *args[6] = { "serve" };
		struct config c = { 0 };
		struct err e;

		memcpy(args + 1, rows[i].args, sizeof(rows[i].args));
		CHECK_EQ_INT(load(&c, args, no_env, &e), -1);
		CHECK_STR(e.text, rows[i].text);
		CHECK_STR(e.hint, rows[i].hint);
		CHECK(e.kind == ERR_USAGE || e.kind == ERR_INPUT);
		for (unsigned int k = 0; k < CONF_MAX; k++) /* and *c is empty */
			CHECK(c.v[k].text == NULL && c.v[k].n == 0);
	}
}

TEST(config_errors_of_variables)
{
	static const struct {
		const char *variable, *text;
	} rows[] = {
		{ "GLOVEBOX_MAX_BOXES=x", "GLOVEBOX_MAX_BOXES 'x' is no number" },
		{ "GLOVEBOX_NO_AUTH=x", "GLOVEBOX_NO_AUTH 'x' is neither true nor false" },
		{ "GLOVEBOX_TOKEN=x", "GLOVEBOX_TOKEN has a token of less than 16 characters" },
		{ "GLOVEBOX_CGROUP=/a\xff", "GLOVEBOX_CGROUP is not UTF-8" },
		{ "MEMORY_LIMIT_MB=8", "MEMORY_LIMIT_MB '8' is not between 16 MiB and 4 TiB" },
		{ "MEMORY_LIMIT_MB=1G", "MEMORY_LIMIT_MB '1G' is no number" },
		{ "FILE_TTL_SEC=1m", "FILE_TTL_SEC '1m' is no number" },
		{ "FILE_TTL_SEC=1.2.3",
		  "FILE_TTL_SEC '1.2.3' is no duration such as 30s, 500ms or 2m" },
		{ "LOG_LEVEL=LOUD", "LOG_LEVEL 'LOUD' is none of error|warn|info|debug" },
		{ "LOG_LEVEL=W", "LOG_LEVEL 'W' is none of error|warn|info|debug" },
		{ "EXECUTOR_BACKEND=kubernetes", "backend 'kubernetes' is not built" },
		{ "HOST=example.org",
		  "HOST 'example.org:8000' is no listener: 127.0.0.1:8000, [::1]:8000, :8000 and "
		  "unix:/run/x.sock are" },
		{ "HOST=0.0.0.0",
		  "listening on '0.0.0.0:8000' needs a token: other machines can reach it" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config c = { 0 };
		struct err e;

		CHECK_EQ_INT(load(&c, WORDS(), WORDS("HOME=/h", rows[i].variable), &e), -1);
		CHECK_STR(e.text, rows[i].text);
		CHECK_EQ_INT(e.kind, ERR_INPUT);
	}
}

TEST(config_errors_of_a_file)
{
	static const struct {
		const char *text;
		size_t n; /* 0: a string */
		const char *want, *hint;
	} rows[] = {
		{ "\n# x\ndrain_timout = 3\n", 0, "FILE:3: unknown key 'drain_timout'",
		  "did you mean 'drain_timeout'?" },
		{ "Drain-Timeout = 3", 0, "FILE:1: unknown key 'Drain-Timeout'",
		  "did you mean 'drain_timeout'?" },
		{ "whatever = 3", 0, "FILE:1: unknown key 'whatever'",
		  "--dump-config lists the keys" },
		{ "= 3", 0, "FILE:1: unknown key ''", "--dump-config lists the keys" },
		{ "a\x01 = 3", 0, "FILE:1: the key has a character that cannot be seen (U+0001)",
		  "" },
		{ "\xef\xbb\xbfno_auth = 1", 0,
		  "FILE:1: the key has a character that cannot be seen (U+FEFF)", "" },
		{ "drain_timeout", 0, "FILE:1: no '=' in the line: it must be 'key = value'", "" },
		{ "[server]", 0, "FILE:1: there are no sections here", "" },
		{ "drain_timeout = x", 0,
		  "FILE:1: drain_timeout 'x' is no duration such as 30s, 500ms or 2m", "" },
		{ "drain_timeout = 1\n\ndrain_timeout = 1", 0,
		  "FILE:3: 'drain_timeout' is already set in line 1", "" },
		{ "cgroup = \"/a", 0, "FILE:1: the quote is not closed", "" },
		{ "cgroup = \"", 0, "FILE:1: the quote is not closed", "" },
		{ "cgroup = /a # here", 0, "FILE:1: a comment needs a line of its own",
		  "if it is none, put the value in double quotes" },
		{ "cgroup = # here", 0, "FILE:1: a comment needs a line of its own",
		  "if it is none, put the value in double quotes" },
		{ "cgroup = /a\tb", 0,
		  "FILE:1: cgroup has a character that cannot be seen (U+0009)", "" },
		{ "# \xff", 0, "FILE:1: the line is not UTF-8", "" },
		{ "cgroup = /a\0b\n", 15, "FILE:1: the line has a NUL byte", "" },
		{ "token = short", 0, "FILE:1: token has a token of less than 16 characters", "" },
		{ "mount_root = \"/a,b\"\nmount_root = /c,d", 0,
		  "FILE:2: mount_root 'd' is no absolute path", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct file f = file_of(rows[i].text,
					rows[i].n > 0 ? rows[i].n : strlen(rows[i].text), 0600);
		struct config c = { 0 };
		struct err e;

		CHECK_EQ_INT(load(&c, WORDS("--config", f.path), no_env, &e), -1);
		CHECK_STR(without_name(e.text, f.path), rows[i].want);
		CHECK_STR(e.hint, rows[i].hint);
		CHECK_EQ_INT(e.kind, ERR_INPUT);
		fd_close(&f.fd);
	}
}

/* A mistake is found even where a stronger source has a good value. */
TEST(config_checks_what_it_does_not_use)
{
	struct file f = file_with("drain_timeout = x\n");
	struct config c = { 0 };
	struct err e;

	CHECK_EQ_INT(load(&c, WORDS("--config", f.path, "--drain-timeout=1"), no_env, &e), -1);
	CHECK_EQ_INT(load(&c, WORDS("--drain-timeout=1"), WORDS("GLOVEBOX_DRAIN_TIMEOUT=x"), &e),
		     -1);
	fd_close(&f.fd);
}

TEST(config_long_names_leave_room_for_the_reason)
{
	char path[3000], flag[3100];
	struct config c = { 0 };
	struct err e;

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	(void)snprintf(flag, sizeof(flag), "--config=%s", path);
	CHECK_EQ_INT(load(&c, WORDS(flag), no_env, &e), -1);
	CHECK(strstr(e.text, "\xe2\x80\xa6") != NULL && strstr(e.text, "too long") != NULL);
	(void)snprintf(flag, sizeof(flag), "--log-level=%s", path);
	CHECK_EQ_INT(load(&c, WORDS(flag), no_env, &e), -1);
	CHECK(strstr(e.text, "\xe2\x80\xa6' is none of error|warn|info|debug") != NULL);
	(void)snprintf(flag, sizeof(flag), "--%s", path);
	CHECK_EQ_INT(load(&c, WORDS(flag), no_env, &e), -1);
	CHECK(strstr(e.text, "unknown option") != NULL);
}

/* A value of n letters behind a start. */
static const char *long_text(const char *start, size_t n)
{
	static char text[CONFIG_LINE_MAX + 100];
	size_t len = strlen(start);

	CHECK(len + n < sizeof(text));
	memcpy(text, start, len);
	memset(text + len, 'a', n);
	text[len + n] = '\0';
	return text;
}

TEST(config_values_have_a_bound)
{
	static const struct {
		const char *start;
		size_t longest;
		const char *why; /* of one more */
	} rows[] = {
		{ "--token=", CONFIG_TOKEN_MAX, "--token has a token of more than 512 characters" },
		{ "--executor-backend=", 0, "backend 'a' is not built" },
		{ "--allowed-host=", 255, "is no name of a host" },
		{ "--state-dir=/d/d/d/d/d/d/d/d/d/d/", 255, "is no plain path" },
	};
	struct config c = { 0 };
	struct err e;
	char home[6000];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		must_load(&c, WORDS(long_text(rows[i].start, rows[i].longest)), no_env);
		CHECK_EQ_INT(
			load(&c, WORDS(long_text(rows[i].start, rows[i].longest + 1)), no_env, &e),
			-1);
		CHECK(strstr(e.text, rows[i].why) != NULL);
	}
	CHECK_EQ_INT(load(&c, WORDS(long_text("--executor-backend=", 65)), no_env, &e), -1);
	CHECK(strstr(e.text, "' is too long") != NULL);
	CHECK_EQ_INT(load(&c, WORDS(long_text("--cgroup=/", 4096)), no_env, &e), -1);
	CHECK(strstr(e.text, "' is too long") != NULL);
	CHECK_EQ_INT(load(&c, WORDS(long_text("--cgroup=/", CONFIG_LINE_MAX)), no_env, &e), -1);
	CHECK(strstr(e.text, "' is too long") != NULL);
	/* What comes from the home directory is a value like any other. */
	memset(home, 'h', sizeof(home));
	for (size_t i = 5; i < sizeof(home); i += 100)
		home[i] = '/';
	memcpy(home, "HOME=", 5);
	home[sizeof(home) - 1] = '\0';
	CHECK_EQ_INT(conf_set_defaults(&c, &e), 0);
	CHECK_EQ_INT(conf_set_derived(&c, 1000, plain(WORDS(home)), &e), -1);
	CHECK(strncmp(e.text, "state_dir '/hhh", 15) == 0 && strstr(e.text, "is too long") != NULL);
	config_done(&c);
}

TEST(config_errors_show_whole_characters)
{
	char buf[CONF_SHOWN], text[600];

	CHECK_STR(conf_shown("abc", 3, false, buf), "abc");
	CHECK_STR(conf_shown("abcd", 3, false, buf), "abc\xe2\x80\xa6");
	CHECK_STR(conf_shown("abcd", 3, true, buf), "\xe2\x80\xa6"
						    "bcd");
	CHECK_STR(conf_shown("ab\xc3\xa4", 3, false, buf), "ab\xe2\x80\xa6");
	CHECK_STR(conf_shown("\xc3\xa4"
			     "bc",
			     3, true, buf),
		  "\xe2\x80\xa6"
		  "bc");
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	CHECK_EQ_INT(strlen(conf_shown(text, sizeof(text), false, buf)), CONF_SHOWN - 1);
	CHECK_EQ_INT(strlen(conf_shown(text, sizeof(text), true, buf)), CONF_SHOWN - 1);
}

TEST(config_hint_is_for_what_is_close)
{
	static const char *const more[] = { "help", NULL };

	CHECK_STR(conf_nearest("listn", NULL), "listen");
	CHECK_STR(conf_nearest("LISTEN", NULL), "listen");
	CHECK_STR(conf_nearest("drain-timeout", NULL), "drain_timeout");
	CHECK_STR(conf_nearest("max_box", NULL), "max_boxes");
	CHECK_STR(conf_nearest("hewp", NULL), NULL);
	CHECK_STR(conf_nearest("hewp", more), "help");
	CHECK_STR(conf_nearest("", NULL), NULL);
	CHECK_STR(conf_nearest("xyz", NULL), NULL);
	CHECK_STR(conf_nearest(long_text("", 63), NULL), NULL);
	CHECK_STR(conf_nearest(long_text("", 64), NULL), NULL);
	CHECK_STR(conf_nearest(long_text("", 8000), NULL), NULL);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

TEST(config_file_forms)
{
	struct file f = file_with("# comment with = and \"\n"
				  "\n"
				  "  \t \r\n"
				  "drain_timeout=1s\r\n"
				  "\tidle_timeout\t=\t2s\t\n"
				  "cgroup = \"/a b\"\n"
				  "allowed_host = a, b ,c\n"
				  "allowed_host = d\n"
				  "mount_root = \"/x, # y\"\n"
				  "tls_cert =\n"
				  "audit_file = \"none\"\n"
				  "state_dir = /\"q\"\n"
				  "max_boxes = 7");
	struct config c = { 0 };

	must_load(&c, WORDS("--config", f.path), no_env);
	CHECK_EQ_INT(config_u64(&c, CONF_DRAIN_TIMEOUT), 1000000);
	CHECK_EQ_INT(config_u64(&c, CONF_IDLE_TIMEOUT), 2000000);
	CHECK_STR(config_str(&c, CONF_CGROUP), "/a b");
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 0), "a");
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 1), "b");
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 2), "c");
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 3), "d");
	CHECK_STR(item(&c, CONF_MOUNT_ROOT, 0), "/x, # y");
	CHECK_STR(config_str(&c, CONF_TLS_CERT), "");
	CHECK_STR(config_str(&c, CONF_AUDIT_FILE), "none");
	CHECK_STR(config_str(&c, CONF_STATE_DIR), "/\"q\"");
	CHECK_EQ_INT(config_u64(&c, CONF_MAX_BOXES), 7);
	config_done(&c);
	fd_close(&f.fd);
}

TEST(config_file_bounds)
{
	static char text[CONFIG_FILE_MAX + 2];
	struct config c = { 0 };
	struct file f;
	struct err e;

	/* lines: the longest, and one byte more */
	memset(text, '#', sizeof(text));
	text[CONFIG_LINE_MAX] = '\n';
	f = file_of(text, CONFIG_LINE_MAX + 1, 0600);
	must_load(&c, WORDS("--config", f.path), no_env);
	fd_close(&f.fd);
	text[CONFIG_LINE_MAX] = '#';
	f = file_of(text, CONFIG_LINE_MAX + 1, 0600);
	CHECK_EQ_INT(load(&c, WORDS("--config", f.path), no_env, &e), -1);
	CHECK_STR(without_name(e.text, f.path), "FILE:1: the line is longer than 8192 bytes");
	fd_close(&f.fd);
	/* files: the largest, and one byte more */
	memset(text, '\n', sizeof(text));
	f = file_of(text, CONFIG_FILE_MAX, 0600);
	must_load(&c, WORDS("--config", f.path), no_env);
	fd_close(&f.fd);
	f = file_of(text, CONFIG_FILE_MAX + 1, 0600);
	CHECK_EQ_INT(load(&c, WORDS("--config", f.path), no_env, &e), -1);
	CHECK_STR(without_name(e.text, f.path),
		  "configuration file 'FILE' is larger than 1048576 bytes");
	fd_close(&f.fd);
	config_done(&c);
}

TEST(config_list_has_a_bound)
{
	char text[4096] = "";
	struct config c = { 0 };
	struct err e;

	for (unsigned int i = 0; i < 16; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sunix:/%u",
			       i > 0 ? "," : "", i);
	must_load(&c, WORDS("--listen", text), no_env);
	CHECK_STR(item(&c, CONF_LISTEN, 15), "unix:/15");
	CHECK_EQ_INT(load(&c, WORDS("--listen", text, "--listen=unix:/x"), no_env, &e), -1);
	CHECK_STR(e.text, "--listen 'unix:/x' is one too many");
}

/* --- tokens ------------------------------------------------------------------------------------------------------ */

TEST(config_tokens_from_everywhere_come_together)
{
	struct file f = file_with("# ours\n" TOKEN_A "\n\nteam:" TOKEN_B "\n");
	struct config c = { 0 };
	char flag[64], want[128];

	(void)snprintf(flag, sizeof(flag), "--token-file=%s", f.path);
	must_load(&c, WORDS(flag, "--listen=:80"), no_env);
	CHECK_STR(item(&c, CONF_TOKEN, 0), "default:" TOKEN_A);
	CHECK_STR(item(&c, CONF_TOKEN, 1), "team:" TOKEN_B);
	CHECK_STR(where(&c, CONF_TOKEN), f.path);
	must_load(&c, WORDS(flag),
		  WORDS("HOME=/h", "GLOVEBOX_TOKEN=x:cccccccccccccccc,dddddddddddddddd"));
	CHECK_STR(item(&c, CONF_TOKEN, 0), "x:cccccccccccccccc");
	CHECK_STR(item(&c, CONF_TOKEN, 1), "default:dddddddddddddddd");
	CHECK_STR(item(&c, CONF_TOKEN, 2), "default:" TOKEN_A);
	CHECK_STR(item(&c, CONF_TOKEN, 4), NULL);
	(void)snprintf(want, sizeof(want), "environment GLOVEBOX_TOKEN and %s", f.path);
	CHECK_STR(where(&c, CONF_TOKEN), want);
	config_done(&c);
	fd_close(&f.fd);
}

TEST(config_errors_of_a_token_file)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "# x\nshort\n", "FILE:2: token has a token of less than 16 characters" },
		{ "secret-but-with space\n",
		  "FILE:1: token has a token with a character that is not visible ASCII" },
		{ "", "token_file 'FILE' holds no token" },
		{ "# nothing\n", "token_file 'FILE' holds no token" },
	};
	struct config c = { 0 };
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct file f = file_with(rows[i].text);

		CHECK_EQ_INT(load(&c, WORDS("--token-file", f.path), no_env, &e), -1);
		CHECK_STR(without_name(e.text, f.path), rows[i].want);
		fd_close(&f.fd);
	}
}

TEST(config_files_with_tokens_are_for_their_owner)
{
	static const mode_t good[] = { 0600, 0400, 0700 },
			    bad[] = { 0640, 0604, 0644, 0666, 0620, 0610 };
	struct config c = { 0 };
	struct err e;
	char want[128];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct file f = file_of("token = aaaaaaaaaaaaaaaaaaaaaaaa\n", 33, good[i]);
		struct file g = file_of(TOKEN_A, 24, good[i]);

		must_load(&c, WORDS("--config", f.path), no_env);
		must_load(&c, WORDS("--token-file", g.path), no_env);
		fd_close(&f.fd);
		fd_close(&g.fd);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct file f = file_of("token = aaaaaaaaaaaaaaaaaaaaaaaa\n", 33, bad[i]);
		struct file g = file_of(TOKEN_A, 24, bad[i]);

		(void)snprintf(
			want, sizeof(want),
			"'FILE' holds a token, and others than its owner may use it (mode %04o)",
			bad[i]);
		CHECK_EQ_INT(load(&c, WORDS("--config", f.path), no_env, &e), -1);
		CHECK_STR(without_name(e.text, f.path), want);
		CHECK_STR(without_name(e.hint, f.path), "chmod 600 FILE");
		CHECK_EQ_INT(load(&c, WORDS("--token-file", g.path), no_env, &e), -1);
		CHECK_STR(without_name(e.text, g.path), want);
		fd_close(&f.fd);
		fd_close(&g.fd);
		/* Without a token everybody may read it. */
		f = file_of("# token = x\ntoken_file =\n", 25, bad[i]);
		must_load(&c, WORDS("--config", f.path), no_env);
		fd_close(&f.fd);
	}
	config_done(&c);
}

/* --- out and back in --------------------------------------------------------------------------------------------- */

/* A configuration in which nothing is a default that need not be. */
static void load_much(struct config *c)
{
	struct file f = file_with("allowed_host = a.example\nallowed_host = b.example\n"
				  "mount_root = \"/with, comma\"\nmount_root = /\"q\" \n"
				  "mount_root = \"/hash # \"\ncgroup = \"/x # y\"\n"
				  "audit_file = none\nlog_level = debug\n");

	must_load(c,
		  WORDS("--config", f.path, "--listen=:80,unix:/run/x,[::1]:9",
			"--token=t:aaaaaaaaaaaaaaaaaaaaaaaa", FLAG_B, "--tls-cert=/c",
			"--tls-key=/k", "--accept-missing=seccomp", "--drain-timeout=1m",
			"--allowed-origin=https://x"),
		  WORDS("HOME=/home/\xc3\xa4", "MEMORY_LIMIT_MB=300", "LOG_FORMAT=JSON"));
	fd_close(&f.fd);
}

static void check_same(const struct config *a, const struct config *b, bool secrets)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);

		if (!secrets && (row->flags & CONFIG_SECRET) != 0)
			continue;
		if (!conf_same(row, &a->v[i], &b->v[i]))
			test_fail(__FILE__, __LINE__, "'%s' differs", row->key);
		test_count();
	}
}

static char *dump_of(const struct config *c)
{
	size_t n;
	char *text = NULL;
	FILE *f = open_memstream(&text, &n);

	CHECK(f != NULL);
	config_dump(c, f);
	CHECK_EQ_INT(fclose(f), 0);
	return text;
}

static struct file saved_of(const struct config *c, enum config_secrets secrets)
{
	struct file f = file_with("");

	CHECK_EQ_INT(config_save(c, f.fd, secrets), 0);
	return f;
}

static size_t text_of(const struct file *f, char *buf, size_t size)
{
	ssize_t n = pread(f->fd, buf, size - 1, 0);

	CHECK(n > 0 && (size_t)n < size - 1);
	buf[n] = '\0';
	return (size_t)n;
}

TEST(config_dump_is_a_file_that_gives_the_same)
{
	struct config c = { 0 }, again = { 0 };
	char *text, *bare, *to;
	struct file f;

	load_much(&c);
	text = dump_of(&c);
	CHECK(strstr(text, TOKEN_A) == NULL && strstr(text, TOKEN_B) == NULL);
	CHECK(strstr(text, "\n# from: flag --token\n# token: (set)\n") != NULL);
	CHECK(strstr(text, "\n# from: environment MEMORY_LIMIT_MB\nci_memory = 300M\n") != NULL);
	CHECK(strstr(text, "\n# from: default\nmax_boxes = 256\n") != NULL);
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		CHECK(strstr(text, config_row((enum config_key)i)->key) != NULL);
		CHECK(strstr(text, config_row((enum config_key)i)->doc) != NULL);
	}
	f = file_with(text);
	must_load(&again, WORDS("--config", f.path, FLAG_A), no_env);
	check_same(&c, &again, false);
	fd_close(&f.fd);

	/* The same without its comments. */
	bare = to = strdup(text);
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		if (*line != '#')
			to += sprintf(to, "%s\n", line);
	f = file_with(bare);
	must_load(&again, WORDS("--config", f.path, FLAG_A), no_env);
	check_same(&c, &again, false);
	fd_close(&f.fd);
	free(text);
	free(bare);

	must_load(&c, WORDS(), no_env);
	text = dump_of(&c);
	CHECK(strstr(text, "\n# token: (not set)\n") != NULL);
	f = file_with(text);
	must_load(&again, WORDS("--config", f.path), no_env);
	check_same(&c, &again, true);
	fd_close(&f.fd);
	free(text);
	config_done(&c);
	config_done(&again);
}

TEST(config_help_names_every_key)
{
	char *text = NULL, flag[80];
	size_t n;
	FILE *f = open_memstream(&text, &n);

	CHECK(f != NULL);
	config_help(f);
	CHECK_EQ_INT(fclose(f), 0);
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);

		(void)snprintf(flag, sizeof(flag), "\n  --%s", row->key);
		for (char *c = flag; *c != '\0'; c++)
			*c = *c == '_' ? '-' : *c;
		CHECK(strstr(text, flag) != NULL && strstr(text, row->doc) != NULL);
		CHECK(strstr(text, row->variable) != NULL && strstr(text, row->words) != NULL);
	}
	CHECK(strstr(text, "--dump-config") != NULL && strstr(text, "--config FILE") != NULL);
	free(text);
}

TEST(config_save_and_restore)
{
	static char text[1 << 16], more[1 << 16];
	struct config c = { 0 }, again = { 0 };
	struct file f, g;
	struct err e;
	size_t n;

	load_much(&c);
	f = saved_of(&c, CONFIG_PLAIN);
	n = text_of(&f, text, sizeof(text));
	CHECK_EQ_INT(config_restore(&again, text, n, &e), 0);
	check_same(&c, &again, true);
	for (unsigned int i = 0; i < CONF_MAX; i++)
		CHECK_EQ_INT(again.v[i].from, CONFIG_FROM_SAVED);
	g = saved_of(&again, CONFIG_PLAIN);
	CHECK_EQ_INT(text_of(&g, more, sizeof(more)), n);
	CHECK_MEM(more, text, n);
	fd_close(&g.fd);
	fd_close(&f.fd);

	/* without secrets */
	f = saved_of(&c, CONFIG_WITHHELD);
	n = text_of(&f, text, sizeof(text));
	CHECK(strstr(text, TOKEN_A) == NULL);
	CHECK_EQ_INT(config_restore(&again, text, n, &e), 0);
	check_same(&c, &again, false);
	CHECK_EQ_INT(again.v[CONF_TOKEN].n, 0);
	fd_close(&f.fd);
	config_done(&c);
	config_done(&again);
}

/* A token in each place of a list, and of each length. */
TEST(config_save_hashes_tokens)
{
	static char text[1 << 16], line[128];
	struct config c = { 0 }, again = { 0 };
	char hash[SHA256_HEX];
	struct file f;
	struct err e;
	size_t n;

	must_load(&c,
		  WORDS("--token", "one:" TOKEN_A, "--token", "two:" TOKEN_B, "--token",
			"three:" TOKEN_B ":x", "--efast-token", "shown to others"),
		  no_env);
	f = saved_of(&c, CONFIG_HASHED);
	n = text_of(&f, text, sizeof(text));
	fd_close(&f.fd);
	CHECK(strstr(text, TOKEN_A) == NULL && strstr(text, TOKEN_B) == NULL);
	sha256_hex(TOKEN_A, strlen(TOKEN_A), hash);
	(void)snprintf(line, sizeof(line), "\ntoken=one:%s\n", hash);
	CHECK(strstr(text, line) != NULL);
	CHECK(strstr(text, "\nefast_token=shown to others\n") !=
	      NULL); /* the gate needs it as it is */
	sha256_hex(TOKEN_B ":x", strlen(TOKEN_B ":x"), hash);
	(void)snprintf(line, sizeof(line), "\ntoken=three:%s\n", hash);
	CHECK(strstr(text, line) != NULL);
	CHECK_EQ_INT(config_restore(&again, text, n, &e), 0);
	check_same(&c, &again, false);
	CHECK_EQ_INT(again.v[CONF_TOKEN].n, 3);
	CHECK_EQ_INT(config_check(&again, &e), 0);
	config_done(&c);
	config_done(&again);
}

/* Cut anywhere, or with any byte changed to one of these, it is refused or says the same things in other words. */
TEST(config_restore_takes_it_byte_for_byte)
{
	static char text[1 << 16], changed[1 << 16];
	static const char bytes[] = { '\0', '\n', '=', 'x', '\xff' };
	struct config c = { 0 }, again = { 0 };
	struct file f;
	struct err e;
	size_t n;

	load_much(&c);
	f = saved_of(&c, CONFIG_PLAIN);
	n = text_of(&f, text, sizeof(text));
	fd_close(&f.fd);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ_INT(config_restore(&again, text, i, &e), -1);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(bytes); k++) {
			memcpy(changed, text, n);
			changed[i] = bytes[k];
			if (config_restore(&again, changed, n, &e) < 0) {
				CHECK(again.v[CONF_LOG_LEVEL].text == NULL); /* empty */
				continue;
			}
			f = saved_of(&again, CONFIG_PLAIN);
			CHECK_EQ_INT(pread(f.fd, text + n, n + 1, 0), n);
			CHECK_MEM(text + n, changed, n);
			fd_close(&f.fd);
		}
	config_done(&c);
	config_done(&again);
}

TEST(config_errors_of_restore)
{
	static const struct {
		const char *from, *to, *want;
	} rows[] = {
		{ "config 1", "config 2",
		  "saved configuration, line 1: it is none of this version" },
		{ "tls_cert=", "tls_cert:", "saved configuration, line 3: no '='" },
		{ "tls_cert=", "tls_cent=", "saved configuration, line 3: unknown key" },
		{ "audit_keep=8", "audit_keep=x",
		  "saved configuration, line 14: audit_keep 'x' is no number" },
		{ "no_auth=false", "no_auth=no",
		  "saved configuration: it is not in its plain form" },
		{ "state_dir=/s", "state_dir=/s/",
		  "saved configuration: it is not in its plain form" },
		{ "listen=127.0.0.1:8000\n", "", "saved configuration: 'listen' is missing" },
		{ "audit_keep=8\n", "", "saved configuration: 'audit_keep' is missing" },
		{ "audit_keep=8\n", "audit_keep=8\naudit_keep=8\n",
		  "saved configuration: it is not in its plain form" },
		{ "tls_cert=\ntls_key=\n", "tls_key=\ntls_cert=\n",
		  "saved configuration: it is not in its plain form" },
		{ "cgroup=\n", "cgroup=",
		  "saved configuration, line 25: cgroup 'spare_cpus=0' is no absolute path" },
	};
	static char text[1 << 16], changed[1 << 16];
	struct config c = { 0 };
	struct file f;
	struct err e;

	must_load(&c, WORDS("--state-dir=/s"), no_env);
	f = saved_of(&c, CONFIG_PLAIN);
	(void)text_of(&f, text, sizeof(text));
	fd_close(&f.fd);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *at = strstr(text, rows[i].from);

		CHECK(at != NULL);
		(void)snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text,
			       rows[i].to, at + strlen(rows[i].from));
		CHECK_EQ_INT(config_restore(&c, changed, strlen(changed), &e), -1);
		CHECK_STR(e.text, rows[i].want);
		CHECK_EQ_INT(e.kind, ERR_PROTO);
	}
	CHECK_EQ_INT(config_restore(&c, "", 0, &e), -1);
}

TEST(config_save_reports_a_full_disk)
{
	struct config c = { 0 };
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	must_load(&c, WORDS(), no_env);
	CHECK(fd >= 0);
	CHECK_EQ_INT(config_save(&c, fd, CONFIG_PLAIN), -ENOSPC);
	CHECK_EQ_INT(config_save(&c, -1, CONFIG_PLAIN), -EBADF);
	(void)close(fd);
	config_done(&c);
}

/* --- another one ------------------------------------------------------------------------------------------------- */

TEST(config_changes_by_value_not_by_text)
{
	struct config a = { 0 }, b = { 0 };
	struct config_changes ch;

	must_load(&a, WORDS("--drain-timeout=60", "--store-bytes=1G"), no_env);
	must_load(&b, WORDS("--drain-timeout=1m", "--store-bytes=1024M"), no_env);
	config_changes(&a, &b, &ch);
	CHECK_EQ_INT(ch.nreload, 0);
	CHECK_EQ_INT(ch.nrestart, 0);
	must_load(&b,
		  WORDS("--drain-timeout=61s", "--store-bytes=1G", "--max-boxes=3",
			"--allowed-host=x", "--state-dir=/q"),
		  no_env);
	config_changes(&a, &b, &ch);
	CHECK_EQ_INT(ch.nreload, 2);
	CHECK_EQ_INT(ch.reload[0], CONF_ALLOWED_HOST);
	CHECK_EQ_INT(ch.reload[1], CONF_DRAIN_TIMEOUT);
	CHECK_EQ_INT(ch.nrestart, 5);
	CHECK_EQ_INT(ch.restart[0], CONF_STATE_DIR);
	CHECK_EQ_INT(ch.restart[1], CONF_ENVIRONMENTS_DIR); /* they lie below */
	CHECK_EQ_INT(ch.restart[2], CONF_AUDIT_FILE);
	CHECK_EQ_INT(ch.restart[3], CONF_MAX_BOXES);
	CHECK_EQ_INT(ch.restart[4], CONF_FILE_STORAGE_DIR);
	config_done(&a);
	config_done(&b);
}

TEST(config_reload_takes_what_it_may)
{
	struct config a = { 0 }, b = { 0 };
	struct err e;

	must_load(&a, WORDS("--log-level=info", "--max-boxes=3"), no_env);
	must_load(&b, WORDS("--log-level=debug", "--max-boxes=4"), no_env);
	CHECK_EQ_INT(config_reload(&a, &b, &e), 0);
	CHECK_STR(config_str(&a, CONF_LOG_LEVEL), "debug");
	CHECK_EQ_INT(config_u64(&a, CONF_MAX_BOXES), 3);
	config_done(&a);
	config_done(&b);
}

/* Both are good by themselves; the old listener with the new lack of tokens would be open to everybody. */
TEST(config_reload_refuses_a_mixture_that_is_not_safe)
{
	struct config a = { 0 }, b = { 0 };
	struct err e;

	must_load(&a, WORDS("--listen=0.0.0.0:80", FLAG_A, "--drain-timeout=1"), no_env);
	must_load(&b, WORDS("--listen=127.0.0.1:80", "--drain-timeout=2"), no_env);
	CHECK_EQ_INT(config_reload(&a, &b, &e), -1);
	CHECK_STR(
		e.text,
		"with what a reload cannot change: listening on '0.0.0.0:80' needs a token: other "
		"machines can reach it");
	CHECK_STR(item(&a, CONF_TOKEN, 0), "default:" TOKEN_A);
	CHECK_EQ_INT(config_u64(&a, CONF_DRAIN_TIMEOUT), 1000000);
	CHECK_EQ_INT(config_u64(&b, CONF_DRAIN_TIMEOUT), 2000000);
	config_done(&a);
	config_done(&b);
}
