// SPDX-License-Identifier: Apache-2.0
/*
 * download_from_efast: files of a document store into a session. The request is checked as the reference checks it. The rest would need a
 * network: this process has none, by design, and no box has one yet.
 */
#include "gate/se.h"

#include "base/own.h"

#include <string.h>

enum { FILES_MAX = 1000 };

struct efast_file {
	struct field_str docid, rev, savename;
};

struct efast_in {
	struct field_list files;
	struct field_str url, save_path, token;
	int64_t timeout;
};

/* clang-format off */
static const struct field file_rows[] = {
	{ "docid", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_file, docid), .doc = "which document" },
	{ "rev", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_file, rev), .doc = "which version of it" },
	{ "savename", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_file, savename), .doc = "what it is called in the session" },
};
static const struct fields file_fields = { "EfastFile", file_rows, ARRAY_LEN(file_rows), sizeof(struct efast_file), 0 };

static const struct field efast_rows[] = {
	{ "file_params", FIELD_LIST, FIELD_NULLABLE, 0, FILES_MAX, 0, offsetof(struct efast_in, files), .doc = "documents", .sub = &file_fields },
	{ "efast_url", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_in, url), .doc = "the store; else efast_url" },
	{ "save_path", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_in, save_path), .doc = "where in the workspace" },
	{ "token", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_in, token), .doc = "shown to the store; else efast_token" },
	{ "timeout", FIELD_INT, FIELD_NULLABLE, 0, FIELD_NO_MAX, 0, offsetof(struct efast_in, timeout), .doc = "seconds; null: efast_timeout" },
};
const struct fields se_efast_fields = { "EfastRequest", efast_rows, ARRAY_LEN(efast_rows), sizeof(struct efast_in), 0 };
/* clang-format on */

/* A name that is given must be one below the workspace. 0, or -1: answered. */
static int check_name(struct req *r, const struct field_str *s)
{
	char path[PATH_MAX];

	return s->set && s->n > 0 ? se_take_filename(r, s->p, s->n, path) : 0;
}

static int check(struct req *r, const struct efast_in *in)
{
	const struct config *c = &r->g->config;
	const struct efast_file *files = in->files.v;
	const char *missing = NULL;

	if (in->files.n == 0)
		missing = "file_params";
	else if (in->url.n == 0 && config_str(c, CONF_EFAST_URL)[0] == '\0')
		missing = "efast_url";
	else if (in->token.n == 0 && config_str(c, CONF_EFAST_TOKEN)[0] == '\0')
		missing = "token";
	for (size_t i = 0; missing == NULL && i < in->files.n; i++)
		if (files[i].docid.n == 0)
			missing = "docid";
	if (missing != NULL) {
		se_refuse(r, SE_MISSING, "%s", missing);
		return -1;
	}
	for (size_t i = 0; i < in->files.n; i++)
		if (check_name(r, &files[i].savename) < 0)
			return -1;
	return check_name(r, &in->save_path);
}

void se_efast(struct req *r)
{
	struct ci_body body;
	struct efast_in in;
	char name[SE_NAME];

	if (se_take_name(r, name) < 0 || ci_decode(r, &se_efast_fields, &body, &in) < 0)
		return;
	if (check(r, &in) == 0)
		se_refuse(r, SE_NETWORK, "the document store cannot be reached from here");
	ci_body_done(&body);
}
