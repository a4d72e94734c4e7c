// SPDX-License-Identifier: Apache-2.0
/*
 * Who wins: every source is applied in turn, weakest first, and each replaces what it names. A
 * source is checked as a whole even where a stronger one replaces its value: a mistake does not
 * wait for the day when it matters.
 */
#include "base/config_impl.h"
#include "base/own.h"

#include <string.h>
#include <strings.h>

#define BELOW_STATE "STATE_DIR/"

static const char *get_variable(char **env, const char *name)
{
	size_t n = strlen(name);

	for (; env != NULL && *env != NULL; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return (*env)[n + 1] != '\0' ? *env + n + 1 : NULL;
	return NULL;
}

/* --- defaults --------------------------------------------------------------------------------- */

int config_state_dir(uid_t uid, char **env, char *ret, size_t size)
{
	const char *base = get_variable(env, "XDG_STATE_HOME"), *below = "/glovebox";

	if (uid == 0) {
		base = config_row(CONF_STATE_DIR)->def;
		below = "";
	} else if (base == NULL || *base != '/') {
		base = get_variable(env, "HOME");
		below = "/.local/state/glovebox";
		if (base == NULL || *base != '/')
			return -ENOENT;
	}
	if (strlen(base) + strlen(below) >= size)
		return -ENAMETOOLONG;
	(void)snprintf(ret, size, "%s%s", base, below);
	return 0;
}

int conf_set_defaults(struct config *c, struct err *e)
{
	static const struct conf_source s = { .from = CONFIG_FROM_DEFAULT };

	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);

		if (strncmp(row->def, BELOW_STATE, strlen(BELOW_STATE)) == 0)
			continue;
		if (conf_set(c, (enum config_key)i, row->def, 0, &s, e) < 0)
			return err_wrap(e, "default");
	}
	return 0;
}

int conf_set_derived(struct config *c, uid_t uid, char **env, struct err *e)
{
	static const struct conf_source s = { .from = CONFIG_FROM_DEFAULT };
	char path[CONFIG_LINE_MAX];

	if (c->v[CONF_STATE_DIR].from == CONFIG_FROM_DEFAULT) {
		if (config_state_dir(uid, env, path, sizeof(path)) < 0) {
			(void)err_set(
				e, ERR_INPUT, 0,
				"there is no directory for state: XDG_STATE_HOME and HOME are "
				"no absolute paths");
			return err_hint(e, "name one by --state-dir");
		}
		if (conf_set(c, CONF_STATE_DIR, path, 0, &s, e) < 0)
			return -1;
	}
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const char *def = config_row((enum config_key)i)->def;

		if (c->v[i].from != CONFIG_FROM_DEFAULT ||
		    strncmp(def, BELOW_STATE, strlen(BELOW_STATE)) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", config_str(c, CONF_STATE_DIR),
			       def + strlen(BELOW_STATE));
		if (conf_set(c, (enum config_key)i, path, 0, &s, e) < 0)
			return -1;
	}
	return 0;
}

/* --- variables -------------------------------------------------------------------------------- */

/* What stands for a word in "other=word more=word", or the word in small letters. */
static void translate(const char *as, const char *value, char *ret, size_t size)
{
	size_t n = strlen(value);

	for (size_t len; *as != '\0'; as += len + (as[len] == ' ')) {
		len = strcspn(as, " ");
		if (strncasecmp(as, value, n) == 0 && as[n] == '=') {
			(void)snprintf(ret, size, "%.*s", (int)(len - n - 1), as + n + 1);
			return;
		}
	}
	(void)snprintf(ret, size, "%s", value);
	for (char *c = ret; *c != '\0'; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + 'a' - 'A');
}

/* A dialect's value in the words of the row. Too long a value stays too long. */
static int set_dialect(struct config *c, enum config_key key, const char *value, struct err *e)
{
	const struct config_row *row = config_row(key);
	const struct conf_source s = { CONFIG_FROM_DIALECT, row->variable, 0, value };
	char text[CONFIG_LINE_MAX + 8];

	/* With a unit of its own, "1m" would become something else by ours. */
	if (row->type != CONFIG_ENUM && *row->as != '\0' &&
	    value[strspn(value, "0123456789.")] != '\0')
		return conf_refuse(row, &s, value, "is no number", e);
	if (row->type == CONFIG_ENUM)
		translate(row->as, value, text, sizeof(text));
	else
		(void)snprintf(text, sizeof(text), "%s%s", value, row->as);
	return conf_set(c, key, text, 0, &s, e);
}

/* HOST and PORT, each with the other's default. They are words that many a machine sets for
 * other purposes: a listener that was meant for us goes before them. */
static int set_host_port(struct config *c, char **env, struct err *e)
{
	const char *host = get_variable(env, "HOST"), *port = get_variable(env, "PORT");
	struct conf_source s = { .from = CONFIG_FROM_DIALECT, .name = "HOST and PORT" };
	char text[512];

	if (c->v[CONF_LISTEN].from != CONFIG_FROM_DEFAULT || (host == NULL && port == NULL))
		return 0;
	if (host == NULL || port == NULL)
		s.name = host != NULL ? "HOST" : "PORT";
	host = host != NULL ? host : "127.0.0.1";
	(void)snprintf(text, sizeof(text),
		       strchr(host, ':') != NULL && *host != '[' ? "[%s]:%s" : "%s:%s", host,
		       port != NULL ? port : "8000");
	return conf_set(c, CONF_LISTEN, text, CONF_WHOLE, &s, e);
}

static int set_dialects(struct config *c, char **env, struct err *e)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const char *name = config_row((enum config_key)i)->variable;
		const char *value = *name != '\0' ? get_variable(env, name) : NULL;

		if (value != NULL && set_dialect(c, (enum config_key)i, value, e) < 0)
			return -1;
	}
	return 0;
}

static void own_variable(const char *key, char *ret, size_t size)
{
	(void)snprintf(ret, size, "GLOVEBOX_%s", key);
	for (char *c = ret; *c != '\0'; c++)
		if (*c >= 'a' && *c <= 'z')
			*c = (char)(*c - 'a' + 'A');
}

static int set_variables(struct config *c, char **env, struct err *e)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		char name[80];
		const struct conf_source s = { .from = CONFIG_FROM_ENV, .name = name };
		const char *value;

		own_variable(config_row((enum config_key)i)->key, name, sizeof(name));
		value = get_variable(env, name);
		if (value != NULL && conf_set(c, (enum config_key)i, value, 0, &s, e) < 0)
			return -1;
	}
	return 0;
}

/* --- variables that mean nothing -------------------------------------------------------------- */

static bool is_ignored(const char *name)
{
	static const char *const rows[] = {
#define IGNORED(name, why) name,
#include "policy/ignored.tbl"
#undef IGNORED
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = strlen(rows[i]);

		if (rows[i][n - 1] == '*' ? strncmp(name, rows[i], n - 1) == 0
					  : strcmp(name, rows[i]) == 0)
			return true;
	}
	return false;
}

/* Not a key, and close to one. */
static bool is_misspelt(const char *name)
{
	const char *near;

	if (strncmp(name, "GLOVEBOX_", 9) != 0)
		return false;
	near = conf_nearest(name + 9, NULL);
	return near != NULL && strcasecmp(near, name + 9) != 0;
}

unsigned int config_ignored(char **env, char *ret, size_t size)
{
	unsigned int found = 0;
	size_t used = 0;

	*ret = '\0';
	for (; env != NULL && *env != NULL; env++) {
		size_t n = strcspn(*env, "=");
		char name[128], why[CONF_WHY];

		if (n >= sizeof(name) || (*env)[n] == '\0' || (*env)[n + 1] == '\0')
			continue;
		(void)memcpy(name, *env, n);
		name[n] = '\0';
		if ((!is_ignored(name) && !is_misspelt(name)) || conf_clean(name, why) < 0)
			continue;
		if (used + n + 2 < size) {
			(void)snprintf(ret + used, size - used, "%s%s", used > 0 ? ", " : "", name);
			used += strlen(ret + used);
		}
		found++;
	}
	return found;
}

/* --- flags ------------------------------------------------------------------------------------ */

struct flag {
	enum config_key key;
	const char *value;
};

/* A command line, read and not yet applied. */
struct flags {
	const char **files; /* --config */
	struct flag *flags;
	unsigned int nfiles, nflags;
};

/* Its value is not shown: it may be a token. */
static int unknown(const char *name, struct err *e)
{
	static const char *const more[] = { "config", "dump_config", "help", NULL };
	const char *found = conf_nearest(name, more);
	char near[64], why[CONF_WHY];

	if (conf_clean(name, why) < 0)
		return err_set(e, ERR_USAGE, 0, "an option %s", why);
	(void)err_set(e, ERR_USAGE, 0, "unknown option '--%s'", name);
	if (found == NULL)
		return err_hint(e, "--help lists the options");
	(void)snprintf(near, sizeof(near), "%s", found);
	for (char *c = near; *c != '\0'; c++)
		*c = *c == '_' ? '-' : *c;
	return err_hint(e, "did you mean '--%s'?", near);
}

/* The key of a flag, or -1. *ret_no: it is the --no-… of a key. */
static int find_flag(const char *name, bool *ret_no)
{
	char key[64];
	int found;

	*ret_no = false;
	if (strlen(name) >= sizeof(key) || strchr(name, '_') != NULL)
		return -1;
	(void)snprintf(key, sizeof(key), "%s", name);
	for (char *c = key; *c != '\0'; c++)
		*c = *c == '-' ? '_' : *c;
	found = config_find(key);
	if (found >= 0 || strncmp(key, "no_", 3) != 0)
		return found;
	*ret_no = true;
	found = config_find(key + 3);
	return found >= 0 && config_row((enum config_key)found)->type == CONFIG_BOOL ? found : -1;
}

static int takes_no_value(const char *name, struct err *e)
{
	return err_set(e, ERR_USAGE, 0, "option '--%s' takes no value", name);
}

/* One flag and its value, which is *next when it is not in the flag itself; NULL: there is no
 * next. Returns whether *next was taken, or -1. */
static int take_flag(struct config *c, struct flags *f, const char *arg, const char *next,
		     struct err *e)
{
	const char *eq = strchr(arg, '='), *value = eq != NULL ? eq + 1 : NULL;
	bool no, alone, is_config, is_dump, is_help;
	char name[64];
	int key;

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	is_config = strcmp(name, "config") == 0;
	is_dump = strcmp(name, "dump-config") == 0;
	is_help = strcmp(name, "help") == 0;
	key = find_flag(name, &no);
	if (key < 0 && !is_config && !is_dump && !is_help)
		return unknown(name, e);
	if (value != NULL && (no || is_dump || is_help))
		return takes_no_value(name, e);
	c->help |= is_help;
	c->dump |= is_dump;
	if (is_help || is_dump)
		return 0;
	alone = key >= 0 && config_row((enum config_key)key)->type == CONFIG_BOOL;
	if (value == NULL && !alone && next == NULL)
		return err_set(e, ERR_USAGE, 0, "option '--%s' needs a value", name);
	if (is_config)
		f->files[f->nfiles++] = value != NULL ? value : next;
	else
		f->flags[f->nflags++] = (struct flag){
			(enum config_key)key,
			value != NULL ? value
			: !alone      ? next
			: no          ? "false"
				      : "true",
		};
	return value == NULL && !alone;
}

static int read_flags(struct config *c, struct flags *f, int argc, char **argv, struct err *e)
{
	char shown[CONF_SHOWN], why[CONF_WHY];

	f->files = calloc((size_t)argc + 1, sizeof(*f->files));
	f->flags = calloc((size_t)argc + 1, sizeof(*f->flags));
	if (f->files == NULL || f->flags == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read the command line");
	for (int i = 1; i < argc; i++) {
		const char *arg = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i];
		int taken;

		if (strncmp(arg, "--", 2) != 0)
			return conf_clean(arg, why) < 0
				       ? err_set(e, ERR_USAGE, 0, "an argument %s", why)
				       : err_set(e, ERR_USAGE, 0, "unexpected argument '%s'",
						 conf_shown(arg, 64, false, shown));
		taken = take_flag(c, f, arg, i + 1 < argc ? argv[i + 1] : NULL, e);
		if (taken < 0)
			return -1;
		i += taken;
	}
	return 0;
}

/* Of a key that is no list, the last one wins. */
static int set_flags(struct config *c, const struct flags *f, struct err *e)
{
	static const struct conf_source s = { .from = CONFIG_FROM_FLAG };
	bool seen[CONF_MAX] = { false };

	for (unsigned int i = 0; i < f->nflags; i++) {
		enum config_key key = f->flags[i].key;

		if (conf_set(c, key, f->flags[i].value, seen[key] ? CONF_ADD : 0, &s, e) < 0)
			return -1;
		seen[key] = true;
	}
	return 0;
}

/* --- all together ----------------------------------------------------------------------------- */

static int load(struct config *c, const struct flags *f, char **env, struct err *e)
{
	for (unsigned int i = 0; i < f->nfiles; i++)
		if (conf_read_file(c, f->files[i], e) < 0)
			return -1;
	if (set_host_port(c, env, e) < 0 || set_dialects(c, env, e) < 0 ||
	    set_variables(c, env, e) < 0 || set_flags(c, f, e) < 0 ||
	    conf_set_derived(c, geteuid(), env, e) < 0 || conf_read_tokens(c, e) < 0)
		return -1;
	return config_check(c, e);
}

int config_load(struct config *c, int argc, char **argv, char **env, struct err *e)
{
	struct flags f = { 0 };
	int r;

	config_done(c);
	r = read_flags(c, &f, argc, argv, e);
	if (r == 0)
		r = conf_set_defaults(c, e);
	if (r == 0 && !c->help)
		r = load(c, &f, env, e);
	free(f.files);
	free(f.flags);
	if (r < 0)
		config_done(c);
	return r;
}
