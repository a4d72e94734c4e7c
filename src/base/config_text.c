// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration as text: help and dump for people, and the form in which it goes to the other
 * processes:
 *
 *	glovebox-config 1
 *	key=value
 *
 * with one line per value in the order of the table, none for an empty list and one per item for
 * others. No value holds a control character (conf_clean()), so nothing needs an escape. The reader
 * takes what the writer would have written, byte for byte, and nothing else.
 */
#include "base/config_impl.h"
#include "base/io.h"
#include "base/own.h"
#include "base/sha256.h"

#include <string.h>

static const char head[] = "glovebox-config 1\n";

/* --- for people ------------------------------------------------------------------------------- */

static const struct {
	const char *title;
	enum config_key first;
} groups[] = {
#define GROUP(title, first) { title, CONF_##first },
#define CONF(id, key, type, def, min, max, flags, words, variable, as, doc)
#include "policy/config.tbl"
#undef CONF
#undef GROUP
};

static const char *const value_names[] = {
	[CONFIG_STRING] = "TEXT",    [CONFIG_PATH] = "PATH",     [CONFIG_INTEGER] = "N",
	[CONFIG_BYTES] = "SIZE",     [CONFIG_DURATION] = "TIME", [CONFIG_MILLI] = "N",
	[CONFIG_BOOL] = "",          [CONFIG_ENUM] = "WORD",     [CONFIG_LISTEN] = "ADDRESS",
	[CONFIG_TOKEN] = "TOKEN",    [CONFIG_HOST] = "NAME",     [CONFIG_ORIGIN] = "ORIGIN",
	[CONFIG_LAYER] = "LAYER,..",
};
_Static_assert(ARRAY_LEN(value_names) == CONFIG_TYPE_MAX, "a type lacks the name of its value");

static const char *group_at(unsigned int key)
{
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if ((unsigned int)groups[i].first == key)
			return groups[i].title;
	return NULL;
}

static void help_line(FILE *f, const char *option, const char *value, const char *doc)
{
	char left[128];

	(void)snprintf(left, sizeof(left), "%s%s%s", option, *value != '\0' ? " " : "", value);
	(void)fprintf(f, "  %-34s %s", left, doc);
}

static void help_row(FILE *f, const struct config_row *row)
{
	char option[64];

	(void)snprintf(option, sizeof(option), "--%s", row->key);
	for (char *c = option; *c != '\0'; c++)
		*c = *c == '_' ? '-' : *c;
	help_line(f, option, value_names[row->type], row->doc);
	if (row->type == CONFIG_ENUM)
		(void)fprintf(f, ": %s", row->words);
	if (row->def[0] != '\0' && row->type != CONFIG_BOOL)
		(void)fprintf(f, " [%s]", row->def);
	if (row->variable[0] != '\0')
		(void)fprintf(f, " ($%s)", row->variable);
	(void)fputc('\n', f);
}

void config_help(FILE *f)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const char *title = group_at(i);

		if (title != NULL)
			(void)fprintf(f, "%s%s:\n", i > 0 ? "\n" : "", title);
		help_row(f, config_row((enum config_key)i));
	}
	(void)fprintf(f, "\nother:\n");
	help_line(f, "--config", "FILE",
		  "lines 'key = value'; may be there several times, the last wins\n");
	help_line(f, "--dump-config", "", "say what is configured, and where it comes from\n");
	help_line(f, "--help", "", "this text\n");
	(void)fprintf(f,
		      "\nEach option --some-key is also a line 'some_key = value' of a file and a "
		      "variable "
		      "GLOVEBOX_SOME_KEY;\n"
		      "an option wins over a variable, that over a file. Sizes: 65536, 256M, 1.5G. "
		      "Times: 30s, 500ms, 2m.\n");
}

/* A value that a file gives back as it is. */
static void dump_value(FILE *f, const char *key, const char *text, bool is_list)
{
	bool quote = text[0] == '"' || text[0] == '#' || text[0] == ' ' ||
		     strstr(text, " #") != NULL || (is_list && strchr(text, ',') != NULL) ||
		     (*text != '\0' && text[strlen(text) - 1] == ' ');

	(void)fprintf(f, "%s =%s%s%s%s\n", key, *text != '\0' ? " " : "", quote ? "\"" : "", text,
		      quote ? "\"" : "");
}

static void dump_row(FILE *f, const struct config_row *row, const struct config_value *v)
{
	bool is_list = (row->flags & CONFIG_LIST) != 0;

	(void)fprintf(f, "\n# %s\n# from: %s\n", row->doc,
		      v->where != NULL                 ? v->where
		      : v->from == CONFIG_FROM_DEFAULT ? "default"
						       : "saved");
	if ((row->flags & CONFIG_SECRET) != 0) {
		(void)fprintf(f, "# %s: (%s)\n", row->key,
			      v->n > 0 || (v->text != NULL && *v->text != '\0') ? "set"
										: "not set");
		return;
	}
	if (!is_list || v->n == 0)
		dump_value(f, row->key, v->text != NULL ? v->text : "", is_list);
	for (unsigned int i = 0; i < v->n; i++)
		dump_value(f, row->key, v->list[i], is_list);
}

void config_dump(const struct config *c, FILE *f)
{
	(void)fprintf(f, "# the configuration of glovebox\n");
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const char *title = group_at(i);

		if (title != NULL)
			(void)fprintf(f, "\n# --- %s ---\n", title);
		dump_row(f, config_row((enum config_key)i), &c->v[i]);
	}
}

/* --- for the other processes ------------------------------------------------------------------ */

/* All of it in one buffer, to be freed by drop_text(). */
struct saved {
	char *buf;
	size_t len;
};

static void drop_text(struct saved *t)
{
	if (t->buf != NULL)
		explicit_bzero(t->buf, t->len);
	free(t->buf);
}

/* A token's hash is a token itself, as far as the table is concerned: the text is of the same form. */
static void write_item(FILE *f, const struct config_row *row, const char *item,
		       enum config_secrets secrets)
{
	const char *colon = strchr(item, ':');
	char hash[SHA256_HEX];

	if (row->type != CONFIG_TOKEN || secrets != CONFIG_HASHED || colon == NULL) {
		(void)fprintf(f, "%s=%s\n", row->key, item);
		return;
	}
	sha256_hex(colon + 1, strlen(colon + 1), hash);
	(void)fprintf(f, "%s=%.*s:%s\n", row->key, (int)(colon - item), item, hash);
}

/* Of a secret that is no token others need to know whether it is set, and whether it has changed. */
static void write_scalar(FILE *f, const struct config_row *row, const char *text,
			 enum config_secrets secrets)
{
	char hash[SHA256_HEX];

	if ((row->flags & CONFIG_SECRET) != 0 && secrets == CONFIG_WITHHELD)
		text = "";
	if ((row->flags & (CONFIG_SECRET | CONFIG_SHOWN)) == CONFIG_SECRET &&
	    secrets == CONFIG_HASHED && *text != '\0') {
		sha256_hex(text, strlen(text), hash);
		text = hash;
	}
	(void)fprintf(f, "%s=%s\n", row->key, text);
}

static int write_text(const struct config *c, enum config_secrets secrets, struct saved *ret)
{
	FILE *f = open_memstream(&ret->buf, &ret->len);
	bool failed;

	if (f == NULL)
		return -ENOMEM;
	(void)fputs(head, f);
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);
		const struct config_value *v = &c->v[i];

		if ((row->flags & CONFIG_LIST) == 0)
			write_scalar(f, row, v->text != NULL ? v->text : "", secrets);
		else if (secrets == CONFIG_WITHHELD && (row->flags & CONFIG_SECRET) != 0)
			continue;
		for (unsigned int k = 0; k < v->n; k++)
			write_item(f, row, v->list[k], secrets);
	}
	failed = ferror(f) != 0;
	return fclose(f) != 0 || failed ? -ENOMEM : 0;
}

int config_save(const struct config *c, int fd, enum config_secrets secrets)
{
	OWN(drop_text) struct saved t = { 0 };
	int r = write_text(c, secrets, &t);

	return r < 0 ? r : t.len > CONFIG_SAVED_MAX ? -EFBIG : io_write_all(fd, t.buf, t.len);
}

static int broken(unsigned int line, const char *what, struct err *e)
{
	return err_set(e, ERR_PROTO, 0, "saved configuration, line %u: %s", line, what);
}

/* One line into *c. */
static int take_line(struct config *c, char *line, unsigned int number, struct err *e)
{
	static const struct conf_source s = { .from = CONFIG_FROM_SAVED };
	char *eq = strchr(line, '=');
	int key;

	if (eq == NULL)
		return broken(number, "no '='", e);
	*eq = '\0';
	key = config_find(line);
	if (key < 0)
		return broken(number, "unknown key", e);
	if (conf_set(c, (enum config_key)key, eq + 1, CONF_ADD | CONF_WHOLE, &s, e) < 0) {
		e->kind = ERR_PROTO;
		return err_wrap(e, "saved configuration, line %u", number);
	}
	return 0;
}

static int restore(struct config *c, const char *p, size_t n, struct err *e)
{
	const char *end = p + n;
	char line[CONFIG_LINE_MAX + 128];
	unsigned int number = 1;
	int r = 0;

	if (n > CONFIG_SAVED_MAX || n < strlen(head) || memcmp(p, head, strlen(head)) != 0)
		return broken(1, "it is none of this version", e);
	p += strlen(head);
	while (r == 0 && p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((stop != NULL ? stop : end) - p);

		number++;
		if (stop == NULL || len >= sizeof(line) || memchr(p, '\0', len) != NULL) {
			r = broken(number, "it has no end, is too long, or has a NUL byte", e);
			break;
		}
		(void)memcpy(line, p, len);
		line[len] = '\0';
		r = take_line(c, line, number, e);
		p = stop + 1;
	}
	explicit_bzero(line, sizeof(line));
	return r;
}

/* Nothing is missing, and it is what we would have written: order, repeated keys and other ways
 * to write a value end here. */
static int check_restored(struct config *c, const void *buf, size_t n, struct err *e)
{
	OWN(drop_text) struct saved again = { 0 };

	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);
		bool is_list = (row->flags & CONFIG_LIST) != 0;

		if (is_list ? c->v[i].n < row->min : c->v[i].text == NULL)
			return err_set(e, ERR_PROTO, 0, "saved configuration: '%s' is missing",
				       row->key);
		c->v[i].from = CONFIG_FROM_SAVED;
	}
	if (write_text(c, CONFIG_PLAIN, &again) < 0)
		return err_set(e, ERR_SYS, ENOMEM, "compare the saved configuration");
	if (again.len != n || memcmp(again.buf, buf, n) != 0)
		return err_set(e, ERR_PROTO, 0, "saved configuration: it is not in its plain form");
	return 0;
}

int config_restore(struct config *c, const void *buf, size_t n, struct err *e)
{
	config_done(c);
	if (restore(c, buf, n, e) == 0 && check_restored(c, buf, n, e) == 0)
		return 0;
	config_done(c);
	return -1;
}
