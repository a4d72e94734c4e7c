// SPDX-License-Identifier: Apache-2.0
/* Arguments of a call as a person writes them: one JSON object, or key=value, where the schema of the tool says what a value is. */
#include "cli/tools.h"

#include "base/own.h"

#include <string.h>

enum { KEY_MAX = 256 };

/* What the schema has for a property. */
static struct json_text find_property(const struct mcpc_tool *tool, const char *key)
{
	struct json_member properties = { .key = "properties" };
	struct json_text name, one;
	char text[KEY_MAX];
	struct json_walk w;

	if (tool != NULL)
		json_text_find(tool->input, &properties, 1);
	for (w = json_walk(properties.value); json_walk_next(&w, &name, &one);)
		if (json_text_str(name, text, sizeof(text)) && strcmp(text, key) == 0)
			return one;
	return (struct json_text){ 0 };
}

/* Whether a property may be of that type; of one that does not say, nothing is known. */
static bool may_be(struct json_text property, const char *type)
{
	struct json_member m = { .key = "type" };
	struct json_text key, one;
	struct json_walk w;
	char text[16];

	json_text_find(property, &m, 1);
	if (json_text_str(m.value, text, sizeof(text)))
		return strcmp(text, type) == 0;
	for (w = json_walk(m.value); json_walk_next(&w, &key, &one);)
		if (json_text_str(one, text, sizeof(text)) && strcmp(text, type) == 0)
			return true;
	return false;
}

static bool has_type(struct json_text property)
{
	struct json_member m = { .key = "type" };

	json_text_find(property, &m, 1);
	return json_text_kind(m.value) != '\0';
}

static int put_value(struct json *j, const char *key, const char *text, struct json_text property,
		     struct err *e)
{
	static const struct {
		const char *type;
		char kind;
	} types[] = { { "integer", '0' }, { "number", '0' }, { "boolean", 't' },
		      { "array", '[' },   { "object", '{' }, { "null", 'n' } };
	struct json_text t = { 0 };
	char kind = '\0';

	if (json_text_read(text, strlen(text), &t) == 0)
		kind = json_text_kind(t);
	for (unsigned int i = 0; i < ARRAY_LEN(types) && kind != '\0'; i++)
		if (types[i].kind == kind && may_be(property, types[i].type)) {
			json_text_put(t, j, key);
			return 0;
		}
	if (may_be(property, "string") || (!has_type(property) && (kind == '\0' || kind == '"'))) {
		json_str(j, key, text);
		return 0;
	}
	if (has_type(property))
		return err_set(e, ERR_USAGE, 0,
			       "'%.100s' is not of the type that the tool wants for '%s'", text,
			       key);
	json_text_put(t, j, key);
	return 0;
}

static int put_word(struct json *j, const char *word, const struct mcpc_tool *tool, struct err *e)
{
	size_t n = strcspn(word, "=");
	char key[KEY_MAX];

	if (word[n] != '=' || n == 0 || n >= sizeof(key)) {
		(void)err_set(e, ERR_USAGE, 0, "'%.100s' is not key=value", word);
		return err_hint(e, "arguments are key=value, or one JSON object");
	}
	(void)memcpy(key, word, n);
	key[n] = '\0';
	return put_value(j, key, word + n + 1, find_property(tool, key), e);
}

int tools_arguments(const char *const *words, unsigned int n, const struct mcpc_tool *tool,
		    struct json *j, struct err *e)
{
	struct json_text t;
	int r = 0;

	if (n == 1 && words[0][strspn(words[0], " \t\r\n")] == '{') {
		if (json_text_read(words[0], strlen(words[0]), &t) < 0)
			return err_set(e, ERR_USAGE, 0, "the arguments are no JSON object");
		json_text_put(t, j, NULL);
		return 0;
	}
	json_open(j, NULL, '{');
	for (unsigned int i = 0; i < n && r == 0; i++)
		r = put_word(j, words[i], tool, e);
	json_close(j, '}');
	return r;
}
