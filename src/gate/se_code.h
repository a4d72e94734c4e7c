/* SPDX-License-Identifier: Apache-2.0 */
/* A script of a session, on its way: se_execute.c says what it is, se_script.c writes it, se_variables.c reads what it leaves. */
#pragma once

#include "gate/buf.h"
#include "gate/se.h"

enum { SE_NAMES_MAX = 2048, SE_LEFT_PATH = 64 };

struct se_code_in {
	struct field_str code, filename, script_type;
	struct field_list args, output_params;
};

struct se_code {
	struct se_exec x; /* its first member */
	struct se_code_in in;
	bool shell;
	char path[PATH_MAX];     /* below the workspace */
	char word[PATH_MAX + 2]; /* the same, as a word of a command */
	char left
		[SE_LEFT_PATH]; /* where the box leaves its variables; from the root, without a slash in front */
	char most[24], many[24]; /* words of the same command */
	struct json variables;   /* an object */
};

/* --- se_execute.c --- */

/* Words of a list, and NULL. How many there are. */
size_t se_put_words(const char **argv, const struct field_list *list);

/* --- se_script.c --- */

/* Put the script into the session, then run it. */
void se_script_write(struct se_exec *x);

/* --- se_variables.c --- */

/* 0, or -1: there are no random numbers. */
int se_variables_init(struct se_code *c);
/* Words between python3 and the script: how many. */
size_t se_variables_argv(struct se_code *c, const char **argv);
/* The script has ended: read what it left, then answer. */
void se_variables_read(struct se_exec *x);
void se_variables_put(const struct se_exec *x, struct json *j);
void se_variables_done(struct se_code *c);
