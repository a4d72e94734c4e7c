// SPDX-License-Identifier: Apache-2.0
/* execute and execute_code: a command of a session, and a script that is written to a file of it and run. */
#include "gate/se.h"

#include "base/own.h"
#include "gate/boxes.h"
#include "gate/se_code.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ARGS_MAX = 2048 };

/* --- commands --------------------------------------------------------------------------------- */

struct execute_in {
	struct field_str command;
	struct field_list args;
};

static const struct field execute_rows[] = {
	{ .name = "command",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct execute_in, command),
	  .doc = "a text for bash, or, with args, a program" },
	{ .name = "args",
	  .type = FIELD_STRINGS,
	  .flags = FIELD_NULLABLE,
	  .min = 0,
	  .max = ARGS_MAX,
	  .at = offsetof(struct execute_in, args),
	  .doc = "its arguments, as they are: no shell sees them" },
};

const struct fields se_execute_fields = { "ExecuteCommandRequest", execute_rows,
					  ARRAY_LEN(execute_rows), sizeof(struct execute_in), 0 };

struct command {
	struct se_exec x; /* its first member */
	struct execute_in in;
};

size_t se_put_words(const char **argv, const struct field_list *list)
{
	const struct field_str *v = list->v;

	for (size_t i = 0; i < list->n; i++)
		argv[i] = v[i].p;
	argv[list->n] = NULL;
	return list->n;
}

static const char *const *command_argv(struct se_exec *x, const char **ret_summary)
{
	static const char *argv[ARGS_MAX + 4];
	const struct execute_in *in = &((struct command *)x)->in;

	*ret_summary = in->command.p;
	if (in->args.n > 0) {
		argv[0] = in->command.p;
		(void)se_put_words(argv + 1, &in->args);
	} else {
		argv[0] = "/bin/bash";
		argv[1] = "-c";
		argv[2] = in->command.p;
		argv[3] = NULL;
	}
	return argv;
}

static void command_free(struct se_exec *x)
{
	free(x);
}

static void command_ready(void *arg, struct req *r, struct abox *a)
{
	struct command *c = arg;

	se_exec_new(&c->x, r, a);
}

static void command_drop(void *arg)
{
	struct command *c = arg;

	ci_body_done(&c->x.body);
	free(c);
}

void se_execute(struct req *r)
{
	static const struct se_steps steps = { .argv = command_argv, .free = command_free };
	struct command *c = calloc(1, sizeof(*c));
	char name[SE_NAME];

	if (c == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	c->x.steps = &steps;
	if (se_take_name(r, name) < 0 || ci_decode(r, &se_execute_fields, &c->x.body, &c->in) < 0)
		free(c);
	else
		se_with(r, name, command_ready, command_drop, c);
}

/* --- scripts ---------------------------------------------------------------------------------- */

static const struct field code_rows[] = {
	{ .name = "code",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct se_code_in, code),
	  .doc = "the script" },
	{ .name = "filename",
	  .type = FIELD_STRING,
	  .flags = FIELD_NULLABLE,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct se_code_in, filename),
	  .doc = "where it is kept; null: script_<seconds since 1970>" },
	{ .name = "args",
	  .type = FIELD_STRINGS,
	  .flags = FIELD_NULLABLE,
	  .min = 0,
	  .max = ARGS_MAX,
	  .at = offsetof(struct se_code_in, args),
	  .doc = "its arguments" },
	{ .name = "script_type",
	  .type = FIELD_STRING,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct se_code_in, script_type),
	  .text = "python",
	  .doc = "python, or shell" },
	{ .name = "output_params",
	  .type = FIELD_STRINGS,
	  .flags = FIELD_NULLABLE,
	  .min = 0,
	  .max = SE_NAMES_MAX,
	  .at = offsetof(struct se_code_in, output_params),
	  .doc = "global variables of a Python script that are returned" },
};

const struct fields se_code_fields = { "ExecuteCodeRequest", code_rows, ARRAY_LEN(code_rows),
				       sizeof(struct se_code_in), 0 };

/* The script as a program sees it: never an option, and for the kernel a path. */
static const char *script_word(struct se_code *c, bool path)
{
	bool prefix = c->path[0] == '-' || path;

	(void)snprintf(c->word, sizeof(c->word), "%s%s", prefix ? "./" : "", c->path);
	return c->word;
}

static const char *const *code_argv(struct se_exec *x, const char **ret_summary)
{
	static const char *argv[ARGS_MAX + SE_NAMES_MAX + 16];
	struct se_code *c = (struct se_code *)x; /* its first member */
	size_t n = 0;

	*ret_summary = c->path;
	if (c->shell && strncmp(c->in.code.p, "#!", 2) == 0) {
		argv[n++] = script_word(c, true);
	} else if (c->shell) {
		argv[n++] = "/bin/bash";
		argv[n++] = script_word(c, false);
	} else {
		argv[n++] = "/usr/bin/python3";
		if (c->in.output_params.n > 0)
			n += se_variables_argv(c, argv + n);
		argv[n++] = script_word(c, false);
	}
	(void)se_put_words(argv + n, &c->in.args);
	return argv;
}

static void code_free(struct se_exec *x)
{
	struct se_code *c = (struct se_code *)x;

	se_variables_done(c);
	free(c);
}

static void code_ready(void *arg, struct req *r, struct abox *a)
{
	struct se_code *c = arg;

	se_exec_new(&c->x, r, a);
}

static void code_drop(void *arg)
{
	struct se_code *c = arg;

	ci_body_done(&c->x.body);
	code_free(&c->x);
}

/* Where it is kept. 0, or -1: answered. */
static int take_path(struct req *r, struct se_code *c)
{
	if (c->in.filename.set && c->in.filename.n > 0)
		return se_take_filename(r, c->in.filename.p, c->in.filename.n, c->path);
	(void)snprintf(c->path, sizeof(c->path), "script_%lld.%s", (long long)time(NULL),
		       c->shell ? "sh" : "py");
	return 0;
}

/* 0, or -1: answered. */
static int take_code(struct req *r, struct se_code *c)
{
	const char *type = c->in.script_type.p;

	c->shell = strcmp(type, "shell") == 0;
	if (strcmp(type, "python") != 0 && !c->shell) {
		se_refuse(r, SE_SCRIPT_TYPE, "'%.64s' is neither python nor shell", type);
		return -1;
	}
	if (c->shell && c->in.output_params.n > 0) {
		se_refuse(r, SE_SCRIPT_TYPE, "output_params are for python only");
		return -1;
	}
	return take_path(r, c);
}

void se_execute_code(struct req *r)
{
	static const struct se_steps plain = { .before = se_script_write,
					       .argv = code_argv,
					       .free = code_free };
	static const struct se_steps asked = { .before = se_script_write,
					       .argv = code_argv,
					       .after = se_variables_read,
					       .put = se_variables_put,
					       .free = code_free };
	struct se_code *c = calloc(1, sizeof(*c));
	char name[SE_NAME];

	if (c == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	if (se_take_name(r, name) < 0 || ci_decode(r, &se_code_fields, &c->x.body, &c->in) < 0) {
		free(c);
		return;
	}
	c->x.steps = c->in.output_params.n > 0 ? &asked : &plain;
	if (se_variables_init(c) < 0) {
		se_refuse(r, SE_UNAVAILABLE, "there are no random numbers");
		code_drop(c);
	} else if (take_code(r, c) < 0) {
		code_drop(c);
	} else {
		se_with(r, name, code_ready, code_drop, c);
	}
}
