// SPDX-License-Identifier: Apache-2.0
/* A JSON Schema as text: its keywords, and what its $refs mean. */
#include "mcp/gen_impl.h"

#include <stdio.h>
#include <stdlib.h>

#define GEN_KEYWORD_NAME(id, name) [KW_##id] = { .key = (name) },
static const struct json_member keyword_names[KW_MAX] = { GEN_KEYWORDS(GEN_KEYWORD_NAME) };

bool gen_look(struct gen *g, size_t n)
{
	if (n > g->looked_at) {
		g->looked_at = 0;
		return false;
	}
	g->looked_at -= n;
	return true;
}

bool gen_take(struct gen *g, size_t n)
{
	if (n > g->foreign)
		return false;
	g->foreign -= n;
	return true;
}

struct json_text keyword_of(const struct schema *s, enum gen_keyword k, char kind)
{
	struct json_text t = keyword(s, k);

	return json_text_kind(t) == kind ? t : (struct json_text){ NULL, 0 };
}

bool json_is(struct json_text t, const char *word)
{
	return t.n == strlen(word) && memcmp(t.p, word, t.n) == 0;
}

bool json_says(struct json_text t, const char *text)
{
	char buf[64];

	return json_text_str(t, buf, sizeof(buf)) && strcmp(buf, text) == 0;
}

size_t json_count(struct json_text t, size_t max)
{
	struct json_walk w = json_walk(t);
	struct json_text key, value;
	size_t n = 0;

	while (n < max && json_walk_next(&w, &key, &value))
		n++;
	return n;
}

void schema_read(struct gen *g, struct json_text t, struct schema *ret)
{
	ret->text = t;
	(void)memcpy(ret->kw, keyword_names, sizeof(keyword_names));
	if (json_text_kind(t) == '{' && gen_look(g, t.n + GEN_SCHEMA_COST))
		json_text_find(t, ret->kw, KW_MAX);
}

/* --- references ------------------------------------------------------------------------------------- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Take off the percent signs of a fragment. */
static void from_percent(char *text)
{
	char *to = text;

	for (const char *p = text; *p != '\0';) {
		if (*p == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0 && (p[1] != '0' || p[2] != '0')) {
			*to++ = (char)(hex(p[1]) << 4 | hex(p[2]));
			p += 3;
		} else {
			*to++ = *p++;
		}
	}
	*to = '\0';
}

/* A word of a pointer: ~1 is '/', ~0 is '~'. */
static void from_tilde(const char *p, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '~' && i + 1 < n && (p[i + 1] == '0' || p[i + 1] == '1'))
			*ret++ = p[++i] == '0' ? '~' : '/';
		else
			*ret++ = p[i];
	}
	*ret = '\0';
}

/* A member or an element by a word. */
static struct json_text find_word(struct json_text t, const char *word)
{
	bool object = json_text_kind(t) == '{';
	struct json_walk w = json_walk(t);
	struct json_text key, value, found = { NULL, 0 };
	char name[GEN_FIELD_NAME];
	size_t at = 0;

	if (!object) {
		char *end;

		at = strtoul(word, &end, 10);
		if (*word < '0' || *word > '9' || *end != '\0')
			return found;
	}
	while (json_walk_next(&w, &key, &value)) {
		if (!object) {
			if (at-- == 0)
				return value;
		} else if (json_text_str(key, name, sizeof(name)) && strcmp(name, word) == 0) {
			found = value;
		}
	}
	return found;
}

static struct json_text find_ref(struct gen *g, const char *text, char word[GEN_FIELD_NAME])
{
	const struct json_text nowhere = { NULL, 0 };
	struct json_text at = g->root;

	for (const char *p = text + 1; *p != '\0';) {
		size_t n = strcspn(p + 1, "/");

		if (*p != '/' || n >= GEN_FIELD_NAME || !is_there(at) || !gen_look(g, at.n))
			return nowhere;
		from_tilde(p + 1, n, word);
		at = find_word(at, word);
		p += 1 + n;
	}
	return at;
}

static struct json_text remember(struct gen *g, struct json_text from, char word[GEN_FIELD_NAME])
{
	struct ref r = { .root = g->root.p, .from = from };
	char text[1024];

	if (!json_text_str(from, text, sizeof(text)) || text[0] != '#')
		return (struct json_text){ NULL, 0 };
	from_percent(text);
	r.to = find_ref(g, text, word);
	(void)snprintf(r.word, sizeof(r.word), "%.*s", GEN_NAME - 1, word);
	(void)memcpy(word, r.word, sizeof(r.word));
	if (g->nrefs < GEN_REFS)
		g->refs[g->nrefs++] = r;
	return r.to;
}

/* What one means is looked for once, as long as there is room to remember it. */
struct json_text schema_ref(struct gen *g, struct json_text ref, char word[GEN_FIELD_NAME])
{
	struct ref *r = g->refs;

	word[0] = '\0';
	for (; r < g->refs + g->nrefs; r++) {
		if (r->root == g->root.p && r->from.n == ref.n &&
		    memcmp(r->from.p, ref.p, ref.n) == 0) {
			(void)memcpy(word, r->word, sizeof(r->word));
			return r->to;
		}
	}
	return remember(g, ref, word);
}

void schema_follow(struct gen *g, struct json_text t, struct schema *ret)
{
	char word[GEN_FIELD_NAME];

	schema_read(g, t, ret);
	for (unsigned int i = 0; i < GEN_DEPTH && is_there(keyword(ret, KW_REF)); i++)
		schema_read(g, schema_ref(g, keyword(ret, KW_REF), word), ret);
}
