// SPDX-License-Identifier: Apache-2.0
#include "cli/opts.h"

#include <errno.h>
#include <string.h>

static const struct opt *find_long(const struct opt *rows, unsigned int n, const char *name,
				   size_t len)
{
	for (unsigned int i = 0; i < n; i++)
		if (strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0)
			return &rows[i];
	return NULL;
}

static const struct opt *find_letter(const struct opt *rows, unsigned int n, char c)
{
	for (unsigned int i = 0; i < n; i++)
		if (rows[i].letter != '\0' && rows[i].letter == c)
			return &rows[i];
	return NULL;
}

static int unknown(const char *arg, struct err *e)
{
	(void)err_set(e, ERR_USAGE, 0, "unknown option '%s'", arg);
	return err_hint(e, "--help lists the options");
}

/* One argument that starts with '-'. *i is moved over a value that is an argument of its own. */
static int take(const struct opt *rows, unsigned int n, int argc, char **argv, int *i, void *ctx,
		struct err *e)
{
	const char *arg = argv[*i], *value = NULL;
	const struct opt *o;

	if (arg[1] == '-') {
		const char *eq = strchr(arg, '=');

		o = find_long(rows, n, arg + 2,
			      eq != NULL ? (size_t)(eq - arg - 2) : strlen(arg + 2));
		value = eq != NULL ? eq + 1 : NULL;
	} else {
		o = find_letter(rows, n, arg[1]);
		value = arg[2] != '\0' ? arg + 2 : NULL;
	}
	if (o == NULL)
		return unknown(arg, e);
	if (o->arg == OPT_NO_ARG && value != NULL)
		return err_set(e, ERR_USAGE, 0, "option '--%s' takes no value", o->name);
	if (o->arg == OPT_ARG && value == NULL) {
		if (*i + 1 >= argc)
			return err_set(e, ERR_USAGE, 0, "option '--%s' needs a value (%s)", o->name,
				       o->arg_name);
		value = argv[++*i];
	}
	return o->take(ctx, value, e);
}

int opts_parse(const struct opt *rows, unsigned int n, int argc, char **argv, void *ctx,
	       struct err *e)
{
	int i = 1;

	for (; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			return i + 1;
		if (argv[i][0] != '-' || argv[i][1] == '\0')
			break;
		if (take(rows, n, argc, argv, &i, ctx, e) < 0)
			return -1;
	}
	return i;
}

void opts_help(const struct opt *rows, unsigned int n, FILE *f)
{
	for (unsigned int i = 0; i < n; i++) {
		const struct opt *o = &rows[i];
		char head[64];

		(void)snprintf(head, sizeof(head), "%s%c%s--%s%s%s%s", o->letter != 0 ? "-" : "",
			       o->letter != 0 ? o->letter : ' ', o->letter != 0 ? ", " : "   ",
			       o->name,
			       o->arg == OPT_MAYBE_ARG ? "[="
			       : o->arg == OPT_ARG     ? " "
						       : "",
			       o->arg == OPT_NO_ARG ? "" : o->arg_name,
			       o->arg == OPT_MAYBE_ARG ? "]" : "");
		(void)fprintf(f, "  %-34s %s", head, o->doc);
		if (o->more != NULL)
			o->more(o, f);
		(void)fputc('\n', f);
	}
}

int opt_limit(enum limit_id id, const char *v, uint64_t *ret, struct err *e)
{
	const struct limit_row *row = limit_row(id);
	char low[32], high[32];
	int r = limit_parse(id, v, ret);

	if (r == -EINVAL)
		return err_set(e, ERR_USAGE, 0, "--%s '%s' is no number%s", row->option, v,
			       row->unit == LIMIT_BYTES ? " of bytes such as 256M or 1.5G" : "");
	if (r < 0)
		return err_set(e, ERR_USAGE, 0, "--%s '%s' is not between %s and %s", row->option,
			       v, limit_format(id, row->min, low, sizeof(low)),
			       limit_format(id, row->max, high, sizeof(high)));
	return 0;
}
