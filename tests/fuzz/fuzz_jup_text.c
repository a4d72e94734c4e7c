/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter's messages in text frames. Input: the text.
 *
 * Claims: of what jsonr takes that is taken which keeps the rules of wire/jupyter.h, written a second time over its tree.
 * Objects lie within the text and are JSON in UTF-8, strings are those of the header; written in each framing and read
 * again it is the same.
 */
#include "fuzz_jup.h"

#include "wire/jsonr.h"

static const char *string_of(const struct jsonr *d, const struct jsonr_node *object,
			     const char *key, size_t max)
{
	const struct jsonr_node *n = jsonr_get(d, object, key);

	if (n == NULL || n->type == JSONR_NULL)
		return "";
	return n->type == JSONR_STRING && n->len <= max ? n->string : NULL;
}

static bool is_object(const struct jsonr *d, const struct jsonr_node *object, const char *key)
{
	const struct jsonr_node *n = jsonr_get(d, object, key);

	return n == NULL || n->type == JSONR_NULL || n->type == JSONR_OBJECT;
}

/* A string that must be there, in the header or beside it. */
static bool has_string(const struct jsonr *d, const struct jsonr_node *header, const char *key,
		       size_t max)
{
	const char *in = string_of(d, header, key, max);

	if (in != NULL && in[0] == '\0')
		in = string_of(d, jsonr_root(d), key, max);
	return in != NULL && in[0] != '\0';
}

static bool keeps_rules(const struct jsonr *d)
{
	const struct jsonr_node *root = jsonr_root(d), *header, *buffers;

	if (root->type != JSONR_OBJECT)
		return false;
	header = jsonr_get(d, root, "header");
	buffers = jsonr_get(d, root, "buffers");
	if (header == NULL || header->type != JSONR_OBJECT ||
	    (buffers != NULL && buffers->type != JSONR_NULL &&
	     ((buffers->type != JSONR_ARRAY && buffers->type != JSONR_OBJECT) || buffers->len > 0)))
		return false;
	return has_string(d, header, "msg_id", 128) && has_string(d, header, "msg_type", 64) &&
	       string_of(d, header, "session", 128) != NULL &&
	       string_of(d, header, "username", 128) != NULL &&
	       string_of(d, header, "date", 64) != NULL &&
	       string_of(d, header, "version", 32) != NULL &&
	       string_of(d, root, "channel", 64) != NULL && is_object(d, root, "parent_header") &&
	       is_object(d, root, "metadata") && is_object(d, root, "content") &&
	       string_of(d, jsonr_get(d, root, "parent_header"), "msg_id", 128) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = (char *)exact_copy(data, size);
	struct jsonr_error e;
	struct jsonr d;
	const char *why;
	int rc = fuzz_frame(JUP_LEGACY, false, data, size, &why);

	if (jsonr_parse(&d, copy, size, &e) == 0) {
		bool keeps = keeps_rules(&d);

		MUST(rc == 0 ? keeps : !keeps || strcmp(why, "header is too long") == 0);
	}
	jsonr_done(&d);
	free(copy);
	return 0;
}
