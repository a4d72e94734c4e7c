// SPDX-License-Identifier: Apache-2.0
/*
 * What the doctor found: for a person, one line per check and the command below a problem; as JSON.
 * Colours only on a terminal, and not where NO_COLOR is set.
 */
#include "cli/doctor.h"

#include "base/json.h"
#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *colour;
} statuses[] = {
	[CHECK_OK] = { "ok", "\033[32m" },
	[CHECK_NOTE] = { "note", "\033[33m" },
	[CHECK_MISSING] = { "missing", "\033[1;31m" },
};
_Static_assert(ARRAY_LEN(statuses) == CHECK_STATUS_MAX, "a status lacks its name");

const char *check_status_str(enum check_status s)
{
	return statuses[s].name;
}

/* --- findings --------------------------------------------------------------------------------- */

/* Names of cgroups and users come from outside: one line stays one line. */
static void harmless(char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void found(struct finding *f, enum check_status s, const char *fmt, ...)
{
	va_list ap;

	f->status = s;
	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	harmless(f->detail);
}

/* Root has no need of sudo, and a container often has none. */
static void drop_sudo(char *s)
{
	static const char word[] = "sudo ";
	size_t n = sizeof(word) - 1;

	for (char *at = strstr(s, word); at != NULL; at = strstr(at, word))
		(void)memmove(at, at + n, strlen(at + n) + 1);
}

void fix_by(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->fix, sizeof(f->fix), fmt, ap);
	va_end(ap);
	harmless(f->fix);
	if (geteuid() == 0)
		drop_sudo(f->fix);
}

/* --- for a person ----------------------------------------------------------------------------- */

static bool use_colours(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && (no == NULL || *no == '\0') &&
	       (term == NULL || strcmp(term, "dumb") != 0);
}

static void print_layers(uint64_t set, const char *before, const char *after)
{
	const char *separator = before;

	for (int i = 0; i < LAYER_MAX; i++)
		if ((set & LAYER_BIT(i)) != 0) {
			(void)printf("%s%s", separator, layer_row((enum layer)i)->name);
			separator = ", ";
		}
	if (set != 0)
		(void)fputs(after, stdout);
}

static void print_check(const struct check *c, const struct finding *f, bool colours)
{
	const char *name = statuses[f->status].name;

	(void)printf("%s%-8s%s %-18s %s", colours ? statuses[f->status].colour : "", name,
		     colours ? "\033[0m" : "", c->name, f->detail);
	if (f->status != CHECK_OK)
		print_layers(c->layers, " [", "]");
	(void)putchar('\n');
	if (f->fix[0] != '\0')
		(void)printf("  fix: %s\n", f->fix);
}

static uint64_t lacking(const struct machine *m)
{
	return ((LAYER_BIT(LAYER_MAX - 1) << 1) - 1) & ~m->box.layers;
}

static unsigned int count(uint64_t set)
{
	return (unsigned int)__builtin_popcountll(set);
}

static void print_box(const struct machine *m)
{
	if (!m->made) {
		(void)printf("A default box cannot be made here: %s\n", m->error.text);
		if (m->error.hint[0] != '\0' && strstr(m->error.hint, "glovebox doctor") == NULL)
			(void)printf("  %s\n", m->error.hint);
		return;
	}
	(void)printf("A default box can be made here: one was, in %llu.%llu ms, with %u of %u "
		     "layers.\n",
		     (unsigned long long)(m->box.setup_us / 1000),
		     (unsigned long long)(m->box.setup_us / 100 % 10), count(m->box.layers),
		     (unsigned int)LAYER_MAX);
	print_layers(m->box.layers, "  it has ", "\n");
	print_layers(lacking(m), "  it does without ", "\n");
}

void report_human(const struct machine *m, const struct check *rows, const struct finding *results,
		  unsigned int n)
{
	bool colours = use_colours();
	const char *section = "";

	for (unsigned int i = 0; i < n; i++) {
		if (strcmp(section, rows[i].section) != 0)
			(void)printf("%s%s:\n", i > 0 ? "\n" : "", rows[i].section);
		section = rows[i].section;
		print_check(&rows[i], &results[i], colours);
	}
	(void)putchar('\n');
	print_box(m);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void json_layers(struct json *j, const char *key, uint64_t set)
{
	json_open(j, key, '[');
	for (int i = 0; i < LAYER_MAX; i++)
		if ((set & LAYER_BIT(i)) != 0)
			json_str(j, NULL, layer_row((enum layer)i)->name);
	json_close(j, ']');
}

static void json_check(struct json *j, const struct check *c, const struct finding *f)
{
	json_open(j, NULL, '{');
	json_str(j, "name", c->name);
	json_str(j, "status", statuses[f->status].name);
	json_str(j, "detail", f->detail);
	if (f->fix[0] != '\0')
		json_str(j, "fix", f->fix);
	else
		json_null(j, "fix");
	json_layers(j, "layers", c->layers);
	json_close(j, '}');
}

static void json_box(struct json *j, const struct machine *m)
{
	if (!m->made) {
		json_null(j, "box");
		json_open(j, "error", '{');
		json_str(j, "code", err_kind_str(m->error.kind));
		json_str(j, "message", m->error.text);
		json_str(j, "hint", m->error.hint);
		json_close(j, '}');
		return;
	}
	json_open(j, "box", '{');
	json_layers(j, "layers", m->box.layers);
	json_layers(j, "missing", lacking(m));
	json_milli(j, "setup_ms", m->box.setup_us);
	json_close(j, '}');
	json_null(j, "error");
}

void report_json(const struct machine *m, const struct check *rows, const struct finding *results,
		 unsigned int n)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bool(&j, "can_make_box", m->made);
	json_open(&j, "checks", '[');
	for (unsigned int i = 0; i < n; i++)
		json_check(&j, &rows[i], &results[i]);
	json_close(&j, ']');
	json_box(&j, m);
	json_close(&j, '}');
	if (!j.failed)
		(void)printf("%s\n", j.buf);
	json_done(&j);
}
