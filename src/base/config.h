/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of the server, from policy/config.tbl: every key has one value, and says where
 * it came from.
 *
 * A flag wins over GLOVEBOX_<KEY>, that over the variable of a dialect, that over a file, that over
 * the default; of several files the last one that names a key. A list is replaced, not continued,
 * by whoever wins. An empty variable counts as unset. In a flag, a variable and a file, commas
 * separate the items of a list; a file and a command line may also name the key again.
 * HOST and PORT make a listener only where nothing else, not even a file, names one.
 *
 * A file is UTF-8 of lines `key = value`, blank lines and lines that start with '#'. Double quotes
 * around a value keep blanks and commas in it; there are no escapes. `key =` is the empty list,
 * path or text.
 *
 * The supervisor loads the configuration and hands it to the other processes as a sealed text
 * (config_save()), which they take strictly (config_restore()): they read no file and no
 * environment.
 */
#pragma once

#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum config_key {
#define GROUP(title, first)
#define CONF(id, key, type, def, min, max, flags, words, variable, as, doc) CONF_##id,
#include "policy/config.tbl"
#undef CONF
#undef GROUP
	CONF_MAX,
};

enum config_type {
	CONFIG_STRING,
	CONFIG_PATH,
	CONFIG_INTEGER,
	CONFIG_BYTES,
	CONFIG_DURATION, /* microseconds */
	CONFIG_MILLI,    /* thousandths */
	CONFIG_BOOL,
	CONFIG_ENUM,
	CONFIG_LISTEN,
	CONFIG_TOKEN,
	CONFIG_HOST,
	CONFIG_ORIGIN,
	CONFIG_LAYER,
	CONFIG_TYPE_MAX,
};

enum config_flag {
	CONFIG_LIST = 1u << 0,
	CONFIG_RELOAD = 1u << 1,
	CONFIG_SECRET = 1u << 2,
	CONFIG_SHOWN = 1u << 3, /* to others by the gate, which has the text itself therefore */
};

/* Where a value came from, weakest first. */
enum config_from {
	CONFIG_FROM_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_DIALECT, /* the variable of a dialect */
	CONFIG_FROM_ENV,     /* GLOVEBOX_<KEY> */
	CONFIG_FROM_FLAG,
	CONFIG_FROM_SAVED, /* config_restore() */
};

struct config_row {
	const char *key;
	enum config_type type;
	const char *def;
	uint64_t min, max;
	unsigned int flags;
	const char *words;    /* of an ENUM; what a PATH may be besides a path */
	const char *variable; /* of a dialect; "": none */
	const char *as;       /* how to read it, see the table */
	const char *doc;
};

struct config_value {
	char *text;   /* as it was given, in its plainest form; NULL for a list, "": not set */
	uint64_t num; /* by its type: the number, 0 or 1, the index of the word */
	char **list;
	unsigned int n;
	enum config_from from;
	char *where; /* "flag --x", "environment X", "FILE:LINE"; NULL: nowhere */
};

/* All zero before the first load. */
struct config {
	struct config_value v[CONF_MAX];
	bool help; /* --help was there: nothing but flags was looked at, every value is a default */
	bool dump; /* --dump-config was there */
};

enum {
	CONFIG_FILE_MAX = 1 << 20,
	CONFIG_LINE_MAX = 8192,
	CONFIG_TOKEN_MIN = 16, /* characters */
	CONFIG_TOKEN_MAX = 512,
	CONFIG_TENANT_MAX = 64,
	CONFIG_SAVED_MAX = 8 << 20, /* bytes that config_save() writes at most */
};

const struct config_row *config_row(enum config_key key);

/* The key of that name, or -1. */
int config_find(const char *name);

/*
 * Everything that can be known at start: flags of argv[1..], variables, --config files, the token
 * file, defaults that depend on others, and then config_check(). 0, or -1 with e set and *c empty.
 * The values of secret keys appear in no error.
 */
int config_load(struct config *c, int argc, char **argv, char **env, struct err *e);

/* Whether the values fit together: tokens and listeners, certificate and key, the backend. 0 or
 * -1. */
int config_check(const struct config *c, struct err *e);

/* Free what it holds; secrets are overwritten first. *c is empty then. */
void config_done(struct config *c);

/* The value of a row of a fitting type; to ask for another type is a mistake in the program and
 * ends it. */
uint64_t config_u64(const struct config *c, enum config_key key); /* INTEGER BYTES DURATION MILLI */
bool config_bool(const struct config *c, enum config_key key);
unsigned int config_enum(const struct config *c, enum config_key key); /* index in `words` */
const char *config_str(const struct config *c, enum config_key key);   /* any row that is no list */
/* The items; those of CONF_TOKEN always have the form TENANT:TOKEN, or TENANT:SHA256 where they came from a text with
 * hashes. */
char *const *config_list(const struct config *c, enum config_key key, unsigned int *ret_n);

/* A listener as it is written in CONF_LISTEN. */
struct config_listen {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} addr;
	socklen_t len;
	bool any;   /* `:PORT`: addr is that of all addresses of IPv6, and IPv4 is meant as well */
	bool local; /* only this machine can reach it: a loopback address or a Unix socket */
};

/* 0, or -EINVAL. */
int config_listen_parse(const char *text, struct config_listen *ret);

/* The directory for state when nobody names one: root's, or one of that user by XDG_STATE_HOME
 * or HOME. 0, -ENOENT when neither is an absolute path, -ENAMETOOLONG. */
int config_state_dir(uid_t uid, char **env, char *ret, size_t size);

/* Variables that are set and mean nothing here (policy/ignored.tbl, and those that look like a
 * misspelt GLOVEBOX_<KEY>), separated by ", ". Returns how many there are; the text has as many
 * as fit. */
unsigned int config_ignored(char **env, char *ret, size_t size);

/* The options, for --help. */
void config_help(FILE *f);

/* Every key with its value and where it came from: a configuration file that gives the same, but
 * for secrets, of which a comment says whether they are set. */
void config_dump(const struct config *c, FILE *f);

/* How much of a secret a process needs to know. */
enum config_secrets {
	CONFIG_PLAIN,    /* all */
	CONFIG_HASHED,   /* whether somebody else knows it: its SHA-256 in hex */
	CONFIG_WITHHELD, /* nothing */
};

/* All values as text for config_restore(), which takes it only byte for byte. 0 or -errno. */
int config_save(const struct config *c, int fd, enum config_secrets secrets);

/* 0, or -1 with e set and *c empty. Values are checked as those of a file are; config_check() is
 * the caller's. */
int config_restore(struct config *c, const void *buf, size_t n, struct err *e);

/* Keys whose values differ. */
struct config_changes {
	enum config_key reload[CONF_MAX];  /* SIGHUP can change these */
	enum config_key restart[CONF_MAX]; /* these need a restart */
	unsigned int nreload, nrestart;
};

void config_changes(const struct config *old, const struct config *now, struct config_changes *ret);

/* Take over what can be reloaded from a configuration that was loaded anew; *fresh gets the old
 * values. The rest stays as it is, so both are checked together: 0, or -1 with e set and nothing
 * changed. */
int config_reload(struct config *c, struct config *fresh, struct err *e);
