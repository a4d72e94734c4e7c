/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the configuration share; for others there is base/config.h. */
#pragma once

#include "base/config.h"

/* Who gives a value, for errors and for `where`. */
struct conf_source {
	enum config_from from;
	const char *name; /* of the file or variable */
	unsigned int line;
	const char *given; /* what was written, where that is not the value itself; NULL: it is */
};

enum conf_how {
	CONF_ADD = 1u << 0,   /* go on with the list that is there */
	CONF_WHOLE = 1u << 1, /* commas do not separate */
};

enum { CONF_WHY = 160 };

/* Whether a and b are the same value of that row, whatever they were written like. */
bool conf_same(const struct config_row *row, const struct config_value *a,
	       const struct config_value *b);

/* The key, or word of `more` (ends with NULL), that looks most like this name, or NULL when none
 * does. A dash is as good as an underscore, and capitals as small letters. */
const char *conf_nearest(const char *name, const char *const *more);

/* A text for an error: n bytes of it at most, whole characters, with an ellipsis where something
 * is missing: at its end, or with `tail` at its start. Returns buf. */
enum { CONF_SHOWN = 256 };
const char *conf_shown(const char *s, size_t n, bool tail, char buf[CONF_SHOWN]);

/* Free one value. */
void conf_clear(enum config_key key, struct config_value *v);

/* Parse one item. 0 with its number and plainest text; -1 and `why` says what is wrong ("is no
 * …"). */
int conf_parse(const struct config_row *row, const char *in, uint64_t *ret_num, char *ret_text,
	       size_t size, char why[CONF_WHY]);

/* Nothing in it but characters that a person can see. 0, or -1 and `why` ("is not UTF-8"). */
int conf_clean(const char *s, char why[CONF_WHY]);

/* Say why a value is not taken, and who gave it: "SUBJECT 'VALUE' WHY". Returns -1. */
int conf_refuse(const struct config_row *row, const struct conf_source *s, const char *value,
		const char *why, struct err *e);

/* Give a key a value. 0, or -1 with e set; the key may have lost its value then. */
int conf_set(struct config *c, enum config_key key, const char *value, unsigned int how,
	     const struct conf_source *s, struct err *e);

/* Every key at its default; those that depend on others come by conf_set_derived(). */
int conf_set_defaults(struct config *c, struct err *e);
int conf_set_derived(struct config *c, uid_t uid, char **env, struct err *e);

/* The text of a file. *ret_secret is set when a secret key is in it. */
int conf_read_text(struct config *c, const char *name, const char *text, size_t n, bool *ret_secret,
		   struct err *e);
int conf_read_file(struct config *c, const char *path, struct err *e);

/* Add the tokens of the file that CONF_TOKEN_FILE names, if any. */
int conf_read_tokens(struct config *c, struct err *e);
