/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a session from a document store: what its two halves share. */
#pragma once

#include "gate/se_files.h"
#include "gate/way.h"

struct efast_file {
	struct field_str docid, rev, savename;
};

struct efast_in {
	struct field_list files;
	struct field_str url, save_path, token;
	int64_t timeout;
};

enum { EFAST_PREFIX = 2049, EFAST_TOKEN = 4097, EFAST_NAME = 256, EFAST_WHY = 1024 };

struct efast {
	struct gate *g;
	struct req *r; /* NULL: it has come to its end */
	char name[SE_NAME];
	struct ci_body body;
	struct efast_in in; /* its texts are in the request */
	struct endpoint store;
	char prefix[EFAST_PREFIX]; /* before its paths */
	char token[EFAST_TOKEN];
	uint64_t deadline_us;

	size_t at, nfetched; /* documents */
	struct json results;
	struct timer soon;
	struct deferred deferred;

	/* The document at hand, see se_efast_fetch.c. */
	const struct efast_file *file;
	struct way_call *way;
	struct file_call *call;
	char *said; /* by the store about it */
	size_t nsaid;
	int status; /* of the answer under way */
	char title[EFAST_NAME];
	char why[EFAST_WHY];
};

/* --- se_efast.c --- */

/* How the document at hand ended. */
void efast_fetched(struct efast *e, const char *path, uint64_t size);
void efast_failed(struct efast *e, const char *why);
/* Nobody waits any more. */
void efast_gone(struct efast *e);

/* --- se_efast_fetch.c --- */

/* Fetch a document; it ends by one of the above. */
void efast_fetch(struct efast *e, const struct efast_file *f);
/* Let go of what is under way. */
void efast_stop(struct efast *e);
