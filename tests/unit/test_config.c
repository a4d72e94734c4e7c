/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/base/config.c, config_load.c, config_value.c: the rows of policy/config.tbl, who wins, what a value may be. Errors,
 * files and the ways out and back in: test_config_text.c.
 */
#include "test_config.h"

#include <ctype.h>

static const char *flag_of(const char *key, char *buf, size_t size)
{
	(void)snprintf(buf, size, "--%s", key);
	for (char *c = buf; *c != '\0'; c++)
		*c = *c == '_' ? '-' : *c;
	return buf;
}

static const char *variable_of(const char *key, char *buf, size_t size)
{
	(void)snprintf(buf, size, "GLOVEBOX_%s", key);
	for (char *c = buf; *c != '\0'; c++)
		*c = (char)toupper((unsigned char)*c);
	return buf;
}

/* --- the table -------------------------------------------------------------------------------------------------- */

static bool is_number(enum config_type type)
{
	return type == CONFIG_INTEGER || type == CONFIG_BYTES || type == CONFIG_DURATION ||
	       type == CONFIG_MILLI;
}

static bool is_list(const struct config_row *row)
{
	return (row->flags & CONFIG_LIST) != 0;
}

TEST(config_table_rows)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);
		size_t n = strlen(row->key), doc = strlen(row->doc);

		CHECK(n > 1 && n < 32 && row->key[0] != '_' && row->key[n - 1] != '_');
		for (const char *c = row->key; *c != '\0'; c++)
			CHECK(islower((unsigned char)*c) || *c == '_');
		CHECK(doc > 3 && doc < 100 && row->doc[doc - 1] != '.' && row->doc[0] != ' ');
		CHECK(strchr(row->doc, '\n') == NULL);
		CHECK(row->type < CONFIG_TYPE_MAX);
		CHECK_EQ_INT(row->flags & ~(unsigned int)(CONFIG_LIST | CONFIG_RELOAD |
							  CONFIG_SECRET | CONFIG_SHOWN),
			     0);
		CHECK(row->min <= row->max && row->max <= INT64_MAX);
		CHECK((row->type == CONFIG_ENUM) == (strchr(row->words, '|') != NULL));
		CHECK(row->variable[0] != '\0' || row->as[0] == '\0');
		for (const char *c = row->variable; *c != '\0'; c++)
			CHECK(isupper((unsigned char)*c) || *c == '_');
		/* The unit that a variable has in its name is the one that is added. */
		if (strstr(row->variable, "_MB") != NULL)
			CHECK_STR(row->as, "M");
		if (is_number(row->type) && row->type != CONFIG_INTEGER &&
		    strstr(row->variable, "_SEC") != NULL)
			CHECK_STR(row->as, "s");
		/* A list of numbers has no bounds for them. */
		CHECK(!is_list(row) || !is_number(row->type));
		CHECK_EQ_INT(config_find(row->key), i); /* so no key is there twice */
	}
	CHECK_EQ_INT(config_find(""), -1);
	CHECK_EQ_INT(config_find("Listen"), -1);
}

/* Flags, --no-… of flags, own and foreign variables: no name means two things. */
TEST(config_table_names_are_unique)
{
	static const char *const reserved[] = { "HOST", "PORT", "HOME", "XDG_STATE_HOME" };

	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);
		char no[64], own[80];

		(void)snprintf(no, sizeof(no), "no_%s", row->key);
		(void)variable_of(row->key, own, sizeof(own));
		CHECK_EQ_INT(config_find(no), -1);
		CHECK(strcmp(row->key, "config") != 0 && strcmp(row->key, "dump_config") != 0 &&
		      strcmp(row->key, "help") != 0);
		for (size_t k = 0; k < ARRAY_LEN(reserved); k++)
			CHECK(strcmp(row->variable, reserved[k]) != 0);
		for (unsigned int k = 0; k < CONF_MAX; k++) {
			const char *other = config_row((enum config_key)k)->variable;

			CHECK(strcmp(own, other) != 0);
			if (k != i && *other != '\0')
				CHECK(strcmp(row->variable, other) != 0);
		}
	}
}

TEST(config_table_defaults_are_within_bounds)
{
	struct config c = { 0 };
	struct err e;

	CHECK_EQ_INT(conf_set_defaults(&c, &e), 0);
	CHECK_EQ_INT(conf_set_derived(&c, 0, plain(no_env), &e), 0);
	CHECK_EQ_INT(config_check(&c, &e), 0);
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);
		const struct config_value *v = &c.v[i];

		CHECK_EQ_INT(v->from, CONFIG_FROM_DEFAULT);
		CHECK(v->where == NULL);
		if (is_list(row))
			CHECK(v->n >= row->min && v->n <= row->max && v->text == NULL);
		else if (is_number(row->type))
			CHECK(v->num >= row->min && v->num <= row->max);
		else if (row->type == CONFIG_PATH || row->type == CONFIG_STRING)
			CHECK(strlen(v->text) >= row->min && strlen(v->text) <= row->max);
		if (!is_list(row) && strncmp(row->def, "STATE_DIR", 9) != 0)
			CHECK_STR(v->text, row->def);
	}
	CHECK_STR(config_str(&c, CONF_AUDIT_FILE), "/var/lib/glovebox/audit/audit.jsonl");
	CHECK_STR(config_str(&c, CONF_FILE_STORAGE_DIR), "/var/lib/glovebox/files");
	config_done(&c);
}

/* What the references do when nobody sets a variable, and what the contract says. */
TEST(config_table_has_the_promised_defaults)
{
	static const struct {
		enum config_key key;
		uint64_t want;
	} rows[] = {
		{ CONF_MAX_CONNECTIONS, 16384 },
		{ CONF_HEADER_TIMEOUT, 10000000 },
		{ CONF_IDLE_TIMEOUT, 75000000 },
		{ CONF_BODY_TIMEOUT, 30000000 },
		{ CONF_WRITE_TIMEOUT, 30000000 },
		{ CONF_DRAIN_TIMEOUT, 30000000 },
		{ CONF_HANG_TIMEOUT, 20000000 },
		{ CONF_MAX_BOXES, 256 },
		{ CONF_POOL_SIZE, 8 },
		{ CONF_SESSION_POOL_SIZE, 4 },
		{ CONF_POOL_MAX, 128 },
		{ CONF_AUDIT_MAX_BYTES, 64 << 20 },
		{ CONF_AUDIT_KEEP, 8 },
		{ CONF_CI_DEFAULT_TIMEOUT_MS, 2000 },
		{ CONF_CI_BASH_TIMEOUT_MS, 30000 },
		{ CONF_CI_MAX_TIMEOUT_MS, 60000 },
		{ CONF_CI_OUTPUT_BYTES, 1000000 },
		{ CONF_CI_CPU_SECONDS, 5 },
		{ CONF_CI_MEMORY, 256 << 20 },
		{ CONF_CI_PROCESSES, 64 },
		{ CONF_CI_WORKSPACE, 100 << 20 },
		{ CONF_FILE_MAX_BYTES, 100 << 20 },
		{ CONF_FILE_TTL, 3600000000 },
		{ CONF_STORE_BYTES, 10ULL << 30 },
		{ CONF_MAX_CONCURRENT_EXECUTIONS, 16 },
		{ CONF_EXECUTION_QUEUE_TIMEOUT, 5000000 },
		{ CONF_EXECUTION_RETRY_AFTER, 2000000 },
		{ CONF_CAPACITY_RETRY_AFTER, 10000000 },
		{ CONF_HEALTH_CHECK_INTERVAL, 30000000 },
		{ CONF_BACKEND_CHECK_TIMEOUT, 2500000 },
		{ CONF_SESSION_TTL_DEFAULT, 900000000 },
		{ CONF_SESSION_TTL_MAX, 86400000000 },
	};
	struct config c = { 0 };

	must_load(&c, WORDS(), no_env);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_EQ_INT(config_u64(&c, rows[i].key), rows[i].want);
	CHECK_STR(item(&c, CONF_LISTEN, 0), "127.0.0.1:8000");
	CHECK_STR(config_str(&c, CONF_AUDIT_ON_ERROR), "refuse");
	CHECK(!config_bool(&c, CONF_NO_AUTH));
	config_done(&c);
}

/* A row more among these is a decision: its value must not be shown, or may change under a running server. */
TEST(config_table_secrets_and_restarts)
{
	static const enum config_key restart[] = {
		CONF_LISTEN,
		CONF_STATE_DIR,
		CONF_ENVIRONMENTS_DIR,
		CONF_AUDIT_FILE,
		CONF_MAX_CONNECTIONS,
		CONF_MAX_BOXES,
		CONF_MOUNT_ROOT,
		CONF_CGROUP,
		CONF_ACCEPT_MISSING,
		CONF_EXECUTOR_BACKEND,
		CONF_FILE_STORAGE_DIR,
		CONF_FILE_TTL,
		CONF_STORE_BYTES,
		CONF_AUDIT_MAX_BYTES,
		CONF_AUDIT_KEEP,
		CONF_HANG_TIMEOUT,
		CONF_WARM,
		CONF_ZYGOTE_IMPORTS,
		CONF_NODE,
		CONF_BOX_PORTS,
		CONF_EFAST_URL,
		CONF_EFAST_HOST,
		CONF_SPARE_CPUS,
		CONF_TOOL_SERVERS,
		CONF_TOOL_ENV,
		CONF_TOOL_PLACE,
		CONF_TOOL_IDLE,
		CONF_TOOL_CA_FILE,
		CONF_RAYAI_URL,
		CONF_RESOLVER,
	};
	unsigned int reload = 0;

	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);

		CHECK_EQ_INT((row->flags & CONFIG_SECRET) != 0,
			     i == CONF_TOKEN || i == CONF_EFAST_TOKEN);
		reload += (row->flags & CONFIG_RELOAD) != 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(restart); i++)
		CHECK_EQ_INT(config_row(restart[i])->flags & CONFIG_RELOAD, 0);
	CHECK_EQ_INT(reload, CONF_MAX - ARRAY_LEN(restart));
}

/* --- who wins --------------------------------------------------------------------------------------------------- */

/* Values among which every row finds two that it takes and that differ. */
static const char *const candidates[] = {
	"1",
	"7",
	"33",
	"34",
	"1000",
	"70000",
	"70001",
	"2000000",
	"20000000",
	"30000000",
	"true",
	"false",
	"warn",
	"debug",
	"json",
	"text",
	"continue",
	"refuse",
	"free",
	"none",
	"/a",
	"/b",
	"127.0.0.1:1",
	"unix:/run/x",
	"seccomp",
	"landlock",
	"a.example",
	"b.example",
	"https://a.example",
	"https://b.example",
	"one:aaaaaaaaaaaaaaaaaaaaaaaa",
	"two:bbbbbbbbbbbbbbbbbbbbbbbb",
};

/* The first of them that the row takes and that is not `other`; by a dialect's variable, with its unit. */
static const char *find_value(const struct config_row *row, bool dialect, const char *other)
{
	for (size_t i = 0; i < ARRAY_LEN(candidates); i++) {
		char in[64], text[128], why[CONF_WHY];
		uint64_t num;

		(void)snprintf(in, sizeof(in), "%s%s", candidates[i],
			       dialect && row->type != CONFIG_ENUM ? row->as : "");
		if (candidates[i] != other &&
		    conf_parse(row, in, &num, text, sizeof(text), why) == 0)
			return candidates[i];
	}
	test_fail(__FILE__, __LINE__, "no two values for '%s'", row->key);
}

/* What must be set so that any value of the key passes config_check(). */
static const char *companion(enum config_key key)
{
	switch ((int)key) {
	case CONF_TLS_CERT:
		return "--tls-key=/k";
	case CONF_TLS_KEY:
		return "--tls-cert=/c";
	case CONF_SESSION_TTL_MAX:
		return "--session-ttl-default=1";
	case CONF_SESSION_TTL_DEFAULT:
		return "--session-ttl-max=30000000";
	case CONF_MAX_BOXES:
		return "--drain-timeout=9";
	default:
		return "--max-boxes=9";
	}
}

enum source { BY_DEFAULT, BY_FILE, BY_DIALECT, BY_ENV, BY_FLAG, SOURCES };

/* Give the key a value by two sources at once and see who wins. */
static void check_duel(enum config_key key, enum source weak, enum source strong)
{
	const struct config_row *row = config_row(key);
	const char *value[2], *args[8] = { "serve", companion(key) }, *env[4] = { "HOME=/home/u" };
	unsigned int nargs = 2, nenv = 1;
	char text[256], want[256], flag[160], name[80], vars[2][256], why[CONF_WHY];
	struct file f = { .fd = -1 };
	struct config c = { 0 };
	const char *got;
	uint64_t num;

	value[0] = find_value(row, weak == BY_DIALECT, NULL);
	value[1] = find_value(row, strong == BY_DIALECT, value[0]);
	for (unsigned int i = 0; i < 2; i++) {
		const char *v = value[i];

		switch (i == 0 ? weak : strong) {
		case BY_FILE:
			(void)snprintf(text, sizeof(text), "# x\n\n%s = %s\n", row->key, v);
			f = file_with(text);
			args[nargs++] = "--config";
			args[nargs++] = f.path;
			break;
		case BY_DIALECT:
			(void)snprintf(vars[i], sizeof(vars[i]), "%s=%s", row->variable, v);
			env[nenv++] = vars[i];
			break;
		case BY_ENV:
			(void)snprintf(vars[i], sizeof(vars[i]), "%s=%s",
				       variable_of(row->key, name, sizeof(name)), v);
			env[nenv++] = vars[i];
			break;
		case BY_FLAG:
			(void)snprintf(flag, sizeof(flag), "%s=%s",
				       flag_of(row->key, name, sizeof(name)), v);
			args[nargs++] = flag;
			break;
		case BY_DEFAULT:
		case SOURCES:
			break;
		}
	}
	must_load(&c, args, env);
	(void)snprintf(text, sizeof(text), "%s%s", value[1],
		       strong == BY_DIALECT && row->type != CONFIG_ENUM ? row->as : "");
	CHECK_EQ_INT(conf_parse(row, text, &num, want, sizeof(want), why), 0);
	got = is_list(row) ? item(&c, key, 0) : config_str(&c, key);
	CHECK_STR(got, want);
	CHECK_EQ_INT(c.v[key].num, is_list(row) ? 0 : num);
	CHECK_EQ_INT(c.v[key].n, is_list(row));
	CHECK_EQ_INT(c.v[key].from, (enum config_from)strong);
	if (strong == BY_FILE)
		(void)snprintf(want, sizeof(want), "%s:3", f.path);
	else if (strong == BY_FLAG)
		(void)snprintf(want, sizeof(want), "flag %s",
			       flag_of(row->key, name, sizeof(name)));
	else
		(void)snprintf(want, sizeof(want), "environment %s",
			       strong == BY_DIALECT ? row->variable
						    : variable_of(row->key, name, sizeof(name)));
	CHECK_STR(where(&c, key), want);
	config_done(&c);
	fd_close(&f.fd);
}

TEST(config_precedence_of_every_key)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		enum config_key key = (enum config_key)i;

		if (key == CONF_TOKEN_FILE || key == CONF_EXECUTOR_BACKEND)
			continue; /* these have tests of their own */
		for (enum source weak = BY_DEFAULT; weak < SOURCES; weak++)
			for (enum source strong = weak + 1; strong < SOURCES; strong++)
				if (config_row(key)->variable[0] != '\0' ||
				    (weak != BY_DIALECT && strong != BY_DIALECT))
					check_duel(key, weak, strong);
	}
	_Static_assert((int)BY_FLAG == (int)CONFIG_FROM_FLAG &&
			       (int)BY_FILE == (int)CONFIG_FROM_FILE,
		       "the order of sources is that of config_from");
}

TEST(config_empty_variable_is_unset)
{
	struct config c = { 0 };

	must_load(&c, WORDS(),
		  WORDS("HOME=/h",
			"GLOVEBOX_DRAIN_TIMEOUT=", "MEMORY_LIMIT_MB=", "GLOVEBOX_LISTEN=", "HOST=",
			"PORT=", "EXECUTOR_BACKEND=", "LOG_LEVEL=", "GLOVEBOX_CI_MEMORY="));
	for (unsigned int i = 0; i < CONF_MAX; i++)
		CHECK_EQ_INT(c.v[i].from, CONFIG_FROM_DEFAULT);
	config_done(&c);
}

TEST(config_later_file_wins_per_key)
{
	struct file a = file_with(
		"drain_timeout = 1s\nidle_timeout = 2s\nallowed_host = a\nallowed_host = b\n");
	struct file b = file_with("drain_timeout = 3s\nallowed_host = c\n");
	struct config c = { 0 };

	must_load(&c, WORDS("--config", a.path, "--config", b.path), no_env);
	CHECK_EQ_INT(config_u64(&c, CONF_DRAIN_TIMEOUT), 3000000);
	CHECK_EQ_INT(config_u64(&c, CONF_IDLE_TIMEOUT), 2000000);
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 0), "c");
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 1), NULL);
	must_load(&c, WORDS("--config", b.path, "--config", a.path), no_env);
	CHECK_EQ_INT(config_u64(&c, CONF_DRAIN_TIMEOUT), 1000000);
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 1), "b");
	config_done(&c);
	fd_close(&a.fd);
	fd_close(&b.fd);
}

TEST(config_flags_of_every_form)
{
	struct config c = { 0 };

	must_load(&c,
		  WORDS("--no-auth", "--drain-timeout", "4", "--idle-timeout=5", "--listen",
			"[::1]:1", "--listen=:2,unix:/run/a", "--log-level", "debug", "--log-level",
			"warn"),
		  no_env);
	CHECK(config_bool(&c, CONF_NO_AUTH));
	CHECK_EQ_INT(config_u64(&c, CONF_DRAIN_TIMEOUT), 4000000);
	CHECK_EQ_INT(config_u64(&c, CONF_IDLE_TIMEOUT), 5000000);
	CHECK_STR(item(&c, CONF_LISTEN, 0), "[::1]:1");
	CHECK_STR(item(&c, CONF_LISTEN, 1), ":2");
	CHECK_STR(item(&c, CONF_LISTEN, 2), "unix:/run/a");
	CHECK_STR(config_str(&c, CONF_LOG_LEVEL), "warn");
	CHECK_EQ_INT(config_enum(&c, CONF_LOG_LEVEL), 1);
	must_load(&c, WORDS("--no-auth", "--no-no-auth"), no_env);
	CHECK(!config_bool(&c, CONF_NO_AUTH));
	must_load(&c, WORDS("--no-auth=off"), no_env);
	CHECK(!config_bool(&c, CONF_NO_AUTH));
	/* An empty list takes away what a weaker source had. */
	must_load(&c, WORDS("--allowed-host="), WORDS("HOME=/h", "GLOVEBOX_ALLOWED_HOST=a,b"));
	CHECK_STR(item(&c, CONF_ALLOWED_HOST, 0), NULL);
	config_done(&c);
}

TEST(config_help_looks_at_nothing_but_flags)
{
	struct config c = { 0 };

	must_load(&c, WORDS("--help", "--config", "/no/such/file"), WORDS("GLOVEBOX_LOG_LEVEL=x"));
	CHECK(c.help && !c.dump);
	must_load(&c, WORDS("-h"), no_env);
	CHECK(c.help);
	must_load(&c, WORDS("--dump-config"), no_env);
	CHECK(c.dump && !c.help);
	must_load(&c, WORDS(), no_env);
	CHECK(!c.dump && !c.help);
	config_done(&c);
}

/* --- the dialects' variables ------------------------------------------------------------------------------------ */

TEST(config_dialect_variables_have_their_own_units)
{
	struct config c = { 0 };

	must_load(&c, WORDS(),
		  WORDS("HOME=/h", "MEMORY_LIMIT_MB=512", "MAX_FILE_SIZE_MB=7", "FILE_TTL_SEC=60",
			"EXECUTION_QUEUE_TIMEOUT_SEC=0.25", "MAX_EXEC_TIMEOUT_MS=1500",
			"MAX_OUTPUT_BYTES=4096", "CPU_TIME_LIMIT_SEC=9",
			"FILE_STORAGE_DIR=/data//f/", "BACKEND_CHECK_TIMEOUT_SEC=2.50",
			"EXECUTOR_BACKEND=native", "SANDBOX_MEMORY_LIMIT=262144",
			"SANDBOX_CPU_QUOTA=1.5", "SANDBOX_MAX_USER_PROGRESS=10",
			"SANDBOX_TIMEOUT_SECONDS=60", "SANDBOX_ALLOW_NETWORK=false",
			"WORKSPACE_EXPIRATION_TIME=3600", "DOWNLOADER_TIMEOUT=30"));
	CHECK_EQ_INT(config_u64(&c, CONF_SE_MEMORY), 256 << 20);
	CHECK_EQ_INT(config_u64(&c, CONF_SE_CPUS), 1500);
	CHECK_EQ_INT(config_u64(&c, CONF_SE_PROCESSES), 10);
	CHECK_EQ_INT(config_u64(&c, CONF_SE_TIMEOUT), 60000000);
	CHECK_EQ_INT(config_bool(&c, CONF_SE_ALLOW_NETWORK), 0);
	CHECK_EQ_INT(config_u64(&c, CONF_SE_EXPIRATION), 3600000000);
	CHECK_EQ_INT(config_u64(&c, CONF_EFAST_TIMEOUT), 30000000);
	CHECK_EQ_INT(config_u64(&c, CONF_CI_MEMORY), 512 << 20);
	CHECK_EQ_INT(config_u64(&c, CONF_FILE_MAX_BYTES), 7 << 20);
	CHECK_EQ_INT(config_u64(&c, CONF_FILE_TTL), 60000000);
	CHECK_EQ_INT(config_u64(&c, CONF_EXECUTION_QUEUE_TIMEOUT), 250000);
	CHECK_EQ_INT(config_u64(&c, CONF_CI_MAX_TIMEOUT_MS), 1500);
	CHECK_EQ_INT(config_u64(&c, CONF_CI_OUTPUT_BYTES), 4096);
	CHECK_EQ_INT(config_u64(&c, CONF_CI_CPU_SECONDS), 9);
	CHECK_STR(config_str(&c, CONF_FILE_STORAGE_DIR), "/data/f");
	CHECK_EQ_INT(config_u64(&c, CONF_BACKEND_CHECK_TIMEOUT), 2500000);
	CHECK_STR(config_str(&c, CONF_EXECUTOR_BACKEND), "native");
	config_done(&c);
}

TEST(config_log_variables_speak_python)
{
	static const struct {
		const char *variable, *want;
	} rows[] = {
		{ "LOG_LEVEL=CRITICAL", "error" }, { "LOG_LEVEL=FATAL", "error" },
		{ "LOG_LEVEL=Error", "error" },    { "LOG_LEVEL=WARNING", "warn" },
		{ "LOG_LEVEL=warn", "warn" },      { "LOG_LEVEL=INFO", "info" },
		{ "LOG_LEVEL=debug", "debug" },    { "LOG_LEVEL=NOTSET", "debug" },
		{ "LOG_FORMAT=plain", "text" },    { "LOG_FORMAT=JSON", "json" },
		{ "LOG_FORMAT=text", "text" },
	};
	struct config c = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		must_load(&c, WORDS(), WORDS("HOME=/h", rows[i].variable));
		CHECK_STR(config_str(&c, strncmp(rows[i].variable, "LOG_F", 5) == 0
						 ? CONF_LOG_FORMAT
						 : CONF_LOG_LEVEL),
			  rows[i].want);
	}
	config_done(&c);
}

TEST(config_host_and_port_make_a_listener)
{
	static const struct {
		const char *host, *port, *more, *want, *from;
	} rows[] = {
		{ "HOST=127.0.0.1", "X=", "X=", "127.0.0.1:8000", "environment HOST" },
		{ "HOST=localhost", "PORT=81", "X=", "127.0.0.1:81", "environment HOST and PORT" },
		{ "X=", "PORT=9000", "X=", "127.0.0.1:9000", "environment PORT" },
		{ "HOST=::1", "PORT=9000", "X=", "[::1]:9000", "environment HOST and PORT" },
		{ "HOST=[::1]", "PORT=9000", "X=", "[::1]:9000", "environment HOST and PORT" },
		{ "HOST=0.0.0.0", "PORT=9000", "GLOVEBOX_NO_AUTH=1", "0.0.0.0:9000",
		  "environment HOST and PORT" },
		{ "HOST=0.0.0.0", "PORT=9000", "GLOVEBOX_LISTEN=127.0.0.1:1", "127.0.0.1:1",
		  "environment GLOVEBOX_LISTEN" },
	};
	struct file f = file_with("listen = unix:/run/x\n");
	struct config c = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		must_load(&c, WORDS(), WORDS("HOME=/h", rows[i].host, rows[i].port, rows[i].more));
		CHECK_STR(item(&c, CONF_LISTEN, 0), rows[i].want);
		CHECK_STR(where(&c, CONF_LISTEN), rows[i].from);
	}
	/* Any other way to name a listener goes before them, a file included. */
	must_load(&c, WORDS("--config", f.path), WORDS("HOME=/h", "HOST=0.0.0.0"));
	CHECK_STR(item(&c, CONF_LISTEN, 0), "unix:/run/x");
	config_done(&c);
	fd_close(&f.fd);
}

TEST(config_names_variables_without_effect)
{
	char text[256], small[24];

	CHECK_EQ_INT(
		config_ignored(plain(WORDS("KUBERNETES_SERVICE_HOST=1", "HOST=x", "GLOVEBOX_URL=u",
					   "GLOVEBOX_DRAIN_TIMEOUT=1s", "GLOVEBOX_TOKEN=x",
					   "PYTHON_EXECUTOR_DOCKER_BIN=", "PATH=/bin")),
			       text, sizeof(text)),
		0);
	CHECK_STR(text, "");
	CHECK_EQ_INT(config_ignored(
			     plain(WORDS("PYTHON_EXECUTOR_DOCKER_IMAGE=x",
					 "KUBERNETES_EXECUTOR_NAMESPACE=x",
					 "KUBERNETES_OWN_NAMESPACE=x", "GLOVEBOX_DRAIN_TIMOUT=1")),
			     text, sizeof(text)),
		     4);
	CHECK_STR(text, "PYTHON_EXECUTOR_DOCKER_IMAGE, KUBERNETES_EXECUTOR_NAMESPACE, "
			"KUBERNETES_OWN_NAMESPACE, GLOVEBOX_DRAIN_TIMOUT");
	CHECK_EQ_INT(config_ignored(plain(WORDS("PYTHON_EXECUTOR_DOCKER_IMAGE=x",
						"KUBERNETES_EXECUTOR_X=x")),
				    small, sizeof(small)),
		     2);
	CHECK_STR(small, "KUBERNETES_EXECUTOR_X"); /* what fits */
}

TEST(config_ignored_table_names_no_key)
{
	static const struct {
		const char *name, *why;
	} rows[] = {
#define IGNORED(name, why) { name, why },
#include "policy/ignored.tbl"
#undef IGNORED
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = strlen(rows[i].name), fixed = strcspn(rows[i].name, "*");

		CHECK(strlen(rows[i].why) > 3);
		CHECK(fixed >= n - 1 && fixed > 8);
		for (unsigned int k = 0; k < CONF_MAX; k++)
			CHECK(strncmp(config_row((enum config_key)k)->variable, rows[i].name,
				      fixed) != 0);
	}
}

/* --- values ----------------------------------------------------------------------------------------------------- */

static int parse_as(enum config_type type, const char *in, uint64_t *num, char *text, size_t size)
{
	const struct config_row row = { "key", type, "", 0, 4095, 0, "", "", "", "" };
	char why[CONF_WHY];

	return conf_parse(&row, in, num, text, size, why);
}

static const struct value_row {
	enum config_type type;
	const char *in, *want; /* NULL: refused */
	uint64_t num;
} value_rows[] = {
	{ CONFIG_BOOL, "yes", "true", 1 },
	{ CONFIG_BOOL, "ON", "true", 1 },
	{ CONFIG_BOOL, "1", "true", 1 },
	{ CONFIG_BOOL, "true", "true", 1 },
	{ CONFIG_BOOL, "no", "false", 0 },
	{ CONFIG_BOOL, "Off", "false", 0 },
	{ CONFIG_BOOL, "0", "false", 0 },
	{ CONFIG_BOOL, "false", "false", 0 },
	{ CONFIG_BOOL, "", NULL, 0 },
	{ CONFIG_BOOL, "2", NULL, 0 },
	{ CONFIG_MILLI, "0.5", "0.5", 500 },
	{ CONFIG_MILLI, "4", "4", 4000 },
	{ CONFIG_MILLI, "4.5", NULL, 0 },
	{ CONFIG_INTEGER, "4095", "4095", 4095 },
	{ CONFIG_INTEGER, "4096", NULL, 0 },
	{ CONFIG_INTEGER, "-1", NULL, 0 },
	{ CONFIG_BYTES, "2k", "2k", 2048 },
	{ CONFIG_DURATION, "4ms", "4ms", 4000 },
	{ CONFIG_PATH, "/a//b/", "/a/b", 0 },
	{ CONFIG_PATH, "", "", 0 },
	{ CONFIG_PATH, "/", NULL, 0 },
	{ CONFIG_PATH, "a", NULL, 0 },
	{ CONFIG_PATH, "/a/../b", NULL, 0 },
	{ CONFIG_PATH, "/a/./b", NULL, 0 },
	{ CONFIG_PATH, "/a\nb", NULL, 0 },
	{ CONFIG_PATH, "/a\xff", NULL, 0 },
	{ CONFIG_PATH, "/\xc3\xa4", "/\xc3\xa4", 0 },
	{ CONFIG_LISTEN, "127.0.0.1:08000", "127.0.0.1:8000", 0 },
	{ CONFIG_LISTEN, "localhost:1", "127.0.0.1:1", 0 },
	{ CONFIG_LISTEN, "[0::1]:1", "[::1]:1", 0 },
	{ CONFIG_LISTEN, ":1", ":1", 0 },
	{ CONFIG_LISTEN, "[::]:0", "[::]:0", 0 },
	{ CONFIG_LISTEN, "unix:/run/x.sock", "unix:/run/x.sock", 0 },
	{ CONFIG_LISTEN, "unix:x.sock", NULL, 0 },
	{ CONFIG_LISTEN, "unix:", NULL, 0 },
	{ CONFIG_LISTEN, "", NULL, 0 },
	{ CONFIG_LISTEN, ":", NULL, 0 },
	{ CONFIG_LISTEN, "8000", NULL, 0 },
	{ CONFIG_LISTEN, "127.0.0.1", NULL, 0 },
	{ CONFIG_LISTEN, "127.0.0.1:65536", NULL, 0 },
	{ CONFIG_LISTEN, "127.1:80", NULL, 0 },
	{ CONFIG_LISTEN, "::1:80", NULL, 0 },
	{ CONFIG_LISTEN, "[::1]80", NULL, 0 },
	{ CONFIG_LISTEN, "[::1%lo]:80", NULL, 0 },
	{ CONFIG_LISTEN, "example.org:80", NULL, 0 },
	{ CONFIG_TOKEN, TOKEN_A, "default:" TOKEN_A, 0 },
	{ CONFIG_TOKEN, "team-1:" TOKEN_A, "team-1:" TOKEN_A, 0 },
	{ CONFIG_TOKEN, "a:b:" TOKEN_A, "a:b:" TOKEN_A, 0 },
	{ CONFIG_TOKEN, "Team:" TOKEN_A, NULL, 0 },
	{ CONFIG_TOKEN, ":" TOKEN_A, NULL, 0 },
	{ CONFIG_TOKEN, "0123456789abcde", NULL, 0 },
	{ CONFIG_TOKEN, "0123456789abcdef", "default:0123456789abcdef", 0 },
	{ CONFIG_TOKEN, "0123456789 abcdef", NULL, 0 },
	{ CONFIG_TOKEN, "0123456789abcd\xc3\xa4", NULL, 0 },
	{ CONFIG_HOST, "App.Example.ORG", "app.example.org", 0 },
	{ CONFIG_HOST, "[::1]", "[::1]", 0 },
	{ CONFIG_HOST, "a.example:80", NULL, 0 },
	{ CONFIG_HOST, "a/b", NULL, 0 },
	{ CONFIG_HOST, "a b", NULL, 0 },
	{ CONFIG_HOST, "*", NULL, 0 },
	{ CONFIG_ORIGIN, "https://App.example.org", "https://app.example.org", 0 },
	{ CONFIG_ORIGIN, "http://localhost:3000", "http://localhost:3000", 0 },
	{ CONFIG_ORIGIN, "https://a/b", NULL, 0 },
	{ CONFIG_ORIGIN, "https://", NULL, 0 },
	{ CONFIG_ORIGIN, "://a", NULL, 0 },
	{ CONFIG_ORIGIN, "*", NULL, 0 },
	{ CONFIG_ORIGIN, "null", NULL, 0 },
	{ CONFIG_LAYER, "seccomp", "seccomp", 0 },
	{ CONFIG_LAYER, "pid-namespace", NULL, 0 },
	{ CONFIG_LAYER, "nonsense", NULL, 0 },
	{ CONFIG_STRING, "a b", "a b", 0 },
	{ CONFIG_STRING, "a\tb", NULL, 0 },
	{ CONFIG_STRING, "a\xe2\x80\x8b", NULL, 0 },
};

TEST(config_values_in_their_plainest_form)
{
	for (size_t i = 0; i < ARRAY_LEN(value_rows); i++) {
		const struct value_row *row = &value_rows[i];
		char text[128] = "";
		uint64_t num = 9;
		int r = parse_as(row->type, row->in, &num, text, sizeof(text));

		if ((r == 0) != (row->want != NULL))
			test_fail(__FILE__, __LINE__, "'%s' of type %d: %d", row->in,
				  (int)row->type, r);
		test_count();
		if (row->want == NULL)
			continue;
		CHECK_STR(text, row->want);
		CHECK_EQ_INT(num, row->num);
		/* The plainest form of it is itself. */
		CHECK_EQ_INT(parse_as(row->type, row->want, &num, text, sizeof(text)), 0);
		CHECK_STR(text, row->want);
	}
}

TEST(config_listen_says_who_can_reach_it)
{
	static const struct {
		const char *text;
		int family;
		unsigned int port;
		bool any, local;
	} rows[] = {
		{ "127.0.0.1:80", AF_INET, 80, false, true },
		{ "127.9.9.9:80", AF_INET, 80, false, true },
		{ "0.0.0.0:80", AF_INET, 80, false, false },
		{ "128.0.0.1:80", AF_INET, 80, false, false },
		{ "10.0.0.1:0", AF_INET, 0, false, false },
		{ "[::1]:65535", AF_INET6, 65535, false, true },
		{ "[::]:80", AF_INET6, 80, false, false },
		{ "[::ffff:127.0.0.1]:80", AF_INET6, 80, false, true },
		{ "[::ffff:10.0.0.1]:80", AF_INET6, 80, false, false },
		{ ":80", AF_INET6, 80, true, false },
	};
	struct config_listen l;
	char path[160];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK_EQ_INT(config_listen_parse(rows[i].text, &l), 0);
		CHECK_EQ_INT(l.addr.sa.sa_family, rows[i].family);
		CHECK_EQ_INT(ntohs(rows[i].family == AF_INET ? l.addr.in.sin_port
							     : l.addr.in6.sin6_port),
			     rows[i].port);
		CHECK_EQ_INT(l.any, rows[i].any);
		CHECK_EQ_INT(l.local, rows[i].local);
		CHECK_EQ_INT(l.len,
			     rows[i].family == AF_INET ? sizeof(l.addr.in) : sizeof(l.addr.in6));
	}
	CHECK_EQ_INT(config_listen_parse("unix:/run/x", &l), 0);
	CHECK_EQ_INT(l.addr.sa.sa_family, AF_UNIX);
	CHECK_STR(l.addr.un.sun_path, "/run/x");
	CHECK_EQ_INT(l.len, offsetof(struct sockaddr_un, sun_path) + 7);
	CHECK(l.local && !l.any);
	/* The longest that the kernel takes, and one more. */
	memset(path, 'a', sizeof(path));
	memcpy(path, "unix:/", 6);
	path[5 + 107] = '\0';
	CHECK_EQ_INT(config_listen_parse(path, &l), 0);
	path[5 + 107] = 'a';
	path[5 + 108] = '\0';
	memset(&l, 7, sizeof(l));
	CHECK_EQ_INT(config_listen_parse(path, &l), -EINVAL);
	CHECK_EQ_INT(l.len, 0x07070707);
}

TEST(config_state_dir_of_root_and_others)
{
	char text[64];

	CHECK_EQ_INT(config_state_dir(0, plain(WORDS("XDG_STATE_HOME=/x")), text, sizeof(text)), 0);
	CHECK_STR(text, "/var/lib/glovebox");
	CHECK_EQ_INT(config_state_dir(1, plain(WORDS("XDG_STATE_HOME=/x", "HOME=/h")), text,
				      sizeof(text)),
		     0);
	CHECK_STR(text, "/x/glovebox");
	CHECK_EQ_INT(config_state_dir(1, plain(WORDS("XDG_STATE_HOME=x", "HOME=/h")), text,
				      sizeof(text)),
		     0);
	CHECK_STR(text, "/h/.local/state/glovebox");
	CHECK_EQ_INT(config_state_dir(1, plain(WORDS("HOME=h")), text, sizeof(text)), -ENOENT);
	CHECK_EQ_INT(config_state_dir(1, plain(WORDS()), text, sizeof(text)), -ENOENT);
	CHECK_EQ_INT(config_state_dir(1, plain(WORDS("HOME=/h")), text, 8), -ENAMETOOLONG);
}

TEST(config_derived_paths_follow_the_state_dir)
{
	struct config c = { 0 };
	struct err e;

	must_load(&c, WORDS("--state-dir", "/s/", "--audit-file", "none"), no_env);
	CHECK_STR(config_str(&c, CONF_STATE_DIR), "/s");
	CHECK_STR(config_str(&c, CONF_AUDIT_FILE), "none");
	CHECK_STR(config_str(&c, CONF_FILE_STORAGE_DIR), "/s/files");
	config_done(&c);
	CHECK_EQ_INT(conf_set_defaults(&c, &e), 0);
	CHECK_EQ_INT(conf_set_derived(&c, 1000, plain(WORDS("HOME=/home/u")), &e), 0);
	CHECK_STR(config_str(&c, CONF_AUDIT_FILE),
		  "/home/u/.local/state/glovebox/audit/audit.jsonl");
	config_done(&c);
	CHECK_EQ_INT(conf_set_defaults(&c, &e), 0);
	CHECK_EQ_INT(conf_set_derived(&c, 1000, plain(WORDS()), &e), -1);
	CHECK_STR(e.text,
		  "there is no directory for state: XDG_STATE_HOME and HOME are no absolute paths");
	CHECK_STR(e.hint, "name one by --state-dir");
	config_done(&c);
}
