// SPDX-License-Identifier: Apache-2.0
/*
 * Configuration files and the token file. Both are read once, whole and with a bound, and both are
 * refused when they hold a token and others than their owner may read them. Every complaint starts
 * with FILE:LINE.
 */
#include "base/config_impl.h"
#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

struct lines {
	const char *name; /* of the file */
	const char *p, *end;
	unsigned int line;              /* the one that was given last */
	char text[CONFIG_LINE_MAX + 1]; /* itself, without blanks at its ends */
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct lines *l, struct err *e,
							const char *fmt, ...)
{
	char shown[CONF_SHOWN], text[ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, ERR_INPUT, 0, "%s:%u: %s", conf_shown(l->name, 200, true, shown), l->line,
		       text);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *s)
{
	size_t n;

	while (is_blank(*s))
		s++;
	for (n = strlen(s); n > 0 && is_blank(s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

static bool is_utf8(const char *p, size_t n)
{
	uint32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_next((const unsigned char *)p + i, n - i, &c);
		if (len == 0)
			return false;
	}
	return true;
}

/* Whether the n bytes that come next can be a line. */
static int check_line(const struct lines *l, size_t n, struct err *e)
{
	if (n > CONFIG_LINE_MAX)
		return refuse(l, e, "the line is longer than %d bytes", CONFIG_LINE_MAX);
	if (memchr(l->p, '\0', n) != NULL)
		return refuse(l, e, "the line has a NUL byte");
	if (!is_utf8(l->p, n))
		return refuse(l, e, "the line is not UTF-8");
	return 0;
}

/* The next line with something in it, in *ret. 1; 0 at the end; -1 with e set. */
static int next_line(struct lines *l, char **ret, struct err *e)
{
	while (l->p < l->end) {
		const char *stop = memchr(l->p, '\n', (size_t)(l->end - l->p));
		size_t n = (size_t)((stop != NULL ? stop : l->end) - l->p);

		l->line++;
		if (check_line(l, n, e) < 0)
			return -1;
		(void)memcpy(l->text, l->p, n);
		l->text[n] = '\0';
		l->p += n + (stop != NULL);
		*ret = trim(l->text);
		if (**ret != '\0' && **ret != '#')
			return 1;
	}
	return 0;
}

/* --- key = value ------------------------------------------------------------------------------ */

static int find_key(const struct lines *l, const char *key, struct err *e)
{
	char shown[CONF_SHOWN], why[CONF_WHY];
	int found = config_find(key);
	const char *near;

	if (found >= 0)
		return found;
	if (conf_clean(key, why) < 0)
		return refuse(l, e, "the key %s", why);
	(void)refuse(l, e, "unknown key '%s'", conf_shown(key, 64, false, shown));
	near = conf_nearest(key, NULL);
	if (near != NULL)
		return err_hint(e, "did you mean '%s'?", near);
	return err_hint(e, "--dump-config lists the keys");
}

/* A value without its quotes. *ret_how says how it is to be read. */
static int unquote(const struct lines *l, char **value, unsigned int *ret_how, struct err *e)
{
	size_t n = strlen(*value);

	*ret_how = 0;
	if (**value == '"') {
		if (n < 2 || (*value)[n - 1] != '"')
			return refuse(l, e, "the quote is not closed");
		(*value)[n - 1] = '\0';
		(*value)++;
		*ret_how = CONF_WHOLE;
	} else if (**value == '#' || strstr(*value, " #") != NULL ||
		   strstr(*value, "\t#") != NULL) {
		(void)refuse(l, e, "a comment needs a line of its own");
		return err_hint(e, "if it is none, put the value in double quotes");
	}
	return 0;
}

static int take_line(struct config *c, const struct lines *l, char *text,
		     unsigned int seen[CONF_MAX], bool *ret_secret, struct err *e)
{
	struct conf_source s = { .from = CONFIG_FROM_FILE, .name = l->name, .line = l->line };
	char *eq = strchr(text, '='), *value;
	unsigned int how;
	int key;

	if (eq == NULL)
		return refuse(l, e,
			      *text == '[' ? "there are no sections here"
					   : "no '=' in the line: it must be 'key = value'");
	*eq = '\0';
	value = trim(eq + 1);
	key = find_key(l, trim(text), e);
	if (key < 0 || unquote(l, &value, &how, e) < 0)
		return -1;
	if (seen[key] != 0 && (config_row((enum config_key)key)->flags & CONFIG_LIST) == 0)
		return refuse(l, e, "'%s' is already set in line %u",
			      config_row((enum config_key)key)->key, seen[key]);
	if (seen[key] != 0)
		how |= CONF_ADD;
	seen[key] = l->line;
	if ((config_row((enum config_key)key)->flags & CONFIG_SECRET) != 0)
		*ret_secret = true;
	return conf_set(c, (enum config_key)key, value, how, &s, e);
}

int conf_read_text(struct config *c, const char *name, const char *text, size_t n, bool *ret_secret,
		   struct err *e)
{
	struct lines l = { .name = name, .p = text, .end = text + n };
	unsigned int seen[CONF_MAX] = { 0 };
	char *line;
	int r;

	*ret_secret = false;
	while ((r = next_line(&l, &line, e)) > 0)
		if (take_line(c, &l, line, seen, ret_secret, e) < 0) {
			r = -1;
			break;
		}
	explicit_bzero(l.text, sizeof(l.text));
	return r;
}

/* --- files ------------------------------------------------------------------------------------ */

/* A whole file, to be freed by drop_file(). */
struct whole {
	char *text;
	size_t n;
	unsigned int mode;
};

static void drop_file(struct whole *w)
{
	if (w->text != NULL)
		explicit_bzero(w->text, w->n);
	free(w->text);
}

static int read_whole(const char *what, const char *path, struct whole *ret, struct err *e)
{
	own_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char shown[CONF_SHOWN];
	struct stat st;
	ssize_t n;

	(void)conf_shown(path, 200, true, shown);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INPUT, errno, "%s '%s'", what, shown);
	ret->text = malloc(CONFIG_FILE_MAX + 1);
	if (ret->text == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "%s '%s'", what, shown);
	n = io_read_full(fd, ret->text, CONFIG_FILE_MAX + 1);
	if (n < 0)
		return err_set(e, ERR_INPUT, (int)-n, "%s '%s'", what, shown);
	ret->n = (size_t)n;
	ret->mode = st.st_mode & 07777;
	if (n > CONFIG_FILE_MAX)
		return err_set(e, ERR_INPUT, 0, "%s '%s' is larger than %d bytes", what, shown,
			       CONFIG_FILE_MAX);
	return 0;
}

static int check_mode(const char *path, const struct whole *w, struct err *e)
{
	char shown[CONF_SHOWN];

	if ((w->mode & 077) == 0)
		return 0;
	(void)conf_shown(path, 200, true, shown);
	(void)err_set(e, ERR_INPUT, 0,
		      "'%s' holds a token, and others than its owner may use it (mode %04o)", shown,
		      w->mode);
	return err_hint(e, "chmod 600 %s", shown);
}

/* A name becomes a part of errors and of the dump. */
static int check_name(const char *path, struct err *e)
{
	char why[CONF_WHY];

	if (*path == '\0')
		return err_set(e, ERR_USAGE, 0, "--config needs the name of a file");
	if (conf_clean(path, why) < 0)
		return err_set(e, ERR_USAGE, 0, "the name of a configuration file %s", why);
	return 0;
}

int conf_read_file(struct config *c, const char *path, struct err *e)
{
	OWN(drop_file) struct whole w = { 0 };
	bool secret;

	if (check_name(path, e) < 0 || read_whole("configuration file", path, &w, e) < 0 ||
	    conf_read_text(c, path, w.text, w.n, &secret, e) < 0)
		return -1;
	return secret ? check_mode(path, &w, e) : 0;
}

/* The tokens of w, behind those that are there. */
static int add_tokens(struct config *c, const char *path, const struct whole *w, struct err *e)
{
	struct lines l = { .name = path, .p = w->text, .end = w->text + w->n };
	unsigned int before = c->v[CONF_TOKEN].n;
	char *line;
	int r;

	while ((r = next_line(&l, &line, e)) > 0) {
		struct conf_source s = { .from = CONFIG_FROM_FILE, .name = path, .line = l.line };

		if (conf_set(c, CONF_TOKEN, line, CONF_ADD | CONF_WHOLE, &s, e) < 0) {
			r = -1;
			break;
		}
	}
	explicit_bzero(l.text, sizeof(l.text));
	if (r == 0 && c->v[CONF_TOKEN].n == before) {
		char shown[CONF_SHOWN];

		r = err_set(e, ERR_INPUT, 0, "token_file '%s' holds no token",
			    conf_shown(path, 200, true, shown));
	}
	return r;
}

int conf_read_tokens(struct config *c, struct err *e)
{
	const char *path = config_str(c, CONF_TOKEN_FILE);
	struct config_value *v = &c->v[CONF_TOKEN];
	enum config_from from = v->n > 0 ? v->from : CONFIG_FROM_FILE;
	OWN(drop_file) struct whole w = { 0 };
	own_free char *where = NULL;

	if (*path == '\0')
		return 0;
	if (asprintf(&where, "%s%s%s", v->n > 0 ? v->where : "", v->n > 0 ? " and " : "", path) <
	    0) {
		where = NULL;
		return err_set(e, ERR_SYS, ENOMEM, "keep the configuration");
	}
	if (read_whole("token_file", path, &w, e) < 0 || check_mode(path, &w, e) < 0 ||
	    add_tokens(c, path, &w, e) < 0)
		return -1;
	free(v->where);
	v->where = where;
	where = NULL;
	v->from = from;
	return 0;
}
