// SPDX-License-Identifier: Apache-2.0
/*
 * A message is cut into parts, and the parts of all framings come together in one table of members: those of the legacy
 * object are found by their keys, those of v1 by their place. From there on there is one reader.
 *
 * Counts and offsets are the sender's: a count is bounded before anything is multiplied by it, and an offset is compared
 * with the one before and with the length before anything is added to a pointer.
 */
#include "base/own.h"
#include "base/utf8.h"
#include "wire/jupyter_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a message has, by key and, in v1, by place behind the channel. */
enum member {
	HEADER,
	PARENT_HEADER,
	METADATA,
	CONTENT,
	MSG_ID,
	MSG_TYPE,
	CHANNEL,
	BUFFERS,
	MEMBERS
};

static int refuse(const char **why, const char *text)
{
	*why = text;
	return -EPROTO;
}

static bool is_utf8(struct jup_bytes b)
{
	const uint64_t high = 0x8080808080808080u;
	size_t i = 0;

	while (i < b.n) {
		uint64_t w = high;
		uint32_t c;
		size_t n;

		if (b.n - i >= sizeof(w))
			(void)memcpy(&w, b.p + i, sizeof(w));
		n = (w & high) == 0 ? sizeof(w) : utf8_next(b.p + i, b.n - i, &c);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

static int read_json(struct jup_bytes b, struct json_text *ret, const char **why)
{
	int rc;

	if (!is_utf8(b))
		return refuse(why, "not UTF-8");
	rc = json_text_read((const char *)b.p, b.n, ret);
	if (rc == -E2BIG)
		return refuse(why, "JSON with too many levels, or with too long a number");
	return rc < 0 ? refuse(why, "not JSON") : 0;
}

static bool is_none(struct json_text t)
{
	char kind = json_text_kind(t);

	return kind == '\0' || kind == 'n';
}

/* A string, or none, which leaves buf as it is: empty. */
static bool take_string(struct json_text t, char *buf, size_t size)
{
	return is_none(t) || json_text_str(t, buf, size);
}

static int take_object(struct json_text t, struct json_text *ret, const char **why,
		       const char *text)
{
	static const char empty[] = "{}";

	if (is_none(t))
		t = (struct json_text){ empty, sizeof(empty) - 1 };
	if (json_text_kind(t) != '{')
		return refuse(why, text);
	*ret = t;
	return 0;
}

/* Strings of a header. Where one must be there, a member of the message stands in for it. */
static const struct field {
	const char *key;
	size_t at, size;      /* in struct jup_msg */
	enum member stand_in; /* HEADER: none */
	const char *why;
} fields[] = {
#define FIELD(name, stand_in)                                                                   \
	{ #name, offsetof(struct jup_msg, name), sizeof(((struct jup_msg *)0)->name), stand_in, \
	  "header." #name " is not a string, or too long" }
	FIELD(msg_id, MSG_ID),   FIELD(msg_type, MSG_TYPE), FIELD(session, HEADER),
	FIELD(username, HEADER), FIELD(date, HEADER),       FIELD(version, HEADER),
#undef FIELD
};

static char *field_text(struct jup_msg *m, const struct field *f)
{
	return (char *)m + f->at;
}

/* A value that does not count becomes none. */
static int take_field(struct jup_msg *m, const struct field *f, struct json_text *value,
		      const struct json_member *members, const char **why)
{
	char *text = field_text(m, f);

	if (f->at == offsetof(struct jup_msg, date) && json_text_kind(*value) == '0')
		return 0;
	if (!take_string(*value, text, f->size))
		return refuse(why, f->why);
	if (f->stand_in == HEADER || text[0] != '\0')
		return 0;
	*value = (struct json_text){ NULL, 0 };
	if (!take_string(members[f->stand_in].value, text, f->size))
		return refuse(why, f->why);
	return text[0] != '\0' ? 0 : refuse(why, "msg_id or msg_type is missing");
}

/* Which field a member of a header is; ARRAY_LEN(fields) for another one. */
static size_t field_of(struct json_text key)
{
	char name[16];
	size_t i = 0;

	if (!json_text_str(key, name, sizeof(name)))
		return ARRAY_LEN(fields);
	while (i < ARRAY_LEN(fields) && strcmp(fields[i].key, name) != 0)
		i++;
	return i;
}

/* The header as others are to see it: of its strings those that count, and what stood in for them. */
static void put_header(struct jup_msg *m, struct json_text header, const struct json_member *found)
{
	struct json_walk w = json_walk(header);
	struct json_text key, value;
	struct json *j = &m->own;

	json_open(j, NULL, '{');
	while (json_walk_next(&w, &key, &value)) {
		size_t i = field_of(key);

		if (i < ARRAY_LEN(fields) && found[i].value.p != value.p)
			continue;
		json_text_put_key(key, j);
		json_text_put(value, j, NULL);
	}
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].stand_in != HEADER && found[i].value.p == NULL)
			json_str(j, fields[i].key, field_text(m, &fields[i]));
	json_close(j, '}');
}

static int take_header(struct jup_msg *m, const struct json_member *members, const char **why)
{
	struct json_text header = members[HEADER].value;
	struct json_member found[ARRAY_LEN(fields)];
	int rc = 0;

	if (json_text_kind(header) != '{')
		return refuse(why, "header is not an object");
	if (header.n > JUP_HEADER_MAX)
		return refuse(why, "header is too long");
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		found[i].key = fields[i].key;
	json_text_find(header, found, ARRAY_LEN(found));
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(fields); i++)
		rc = take_field(m, &fields[i], &found[i].value, members, why);
	if (rc < 0)
		return rc;
	put_header(m, header, found);
	if (m->own.failed)
		return -ENOMEM;
	if (m->own.len > JUP_HEADER_MAX)
		return refuse(why, "header is too long");
	m->header = (struct json_text){ m->own.buf, m->own.len };
	return 0;
}

static int take_parent_id(struct jup_msg *m, const char **why)
{
	struct json_member id = { .key = "msg_id" };

	json_text_find(m->parent_header, &id, 1);
	if (!take_string(id.value, m->parent_id, sizeof(m->parent_id)))
		return refuse(why, "parent_header.msg_id is not a string, or too long");
	return 0;
}

static int take_members(struct jup_msg *m, const struct json_member *members, const char **why)
{
	int rc = take_header(m, members, why);

	if (rc == 0)
		rc = take_object(members[PARENT_HEADER].value, &m->parent_header, why,
				 "parent_header is not an object");
	if (rc == 0)
		rc = take_object(members[METADATA].value, &m->metadata, why,
				 "metadata is not an object");
	if (rc == 0)
		rc = take_object(members[CONTENT].value, &m->content, why,
				 "content is not an object");
	return rc < 0 ? rc : take_parent_id(m, why);
}

static enum jup_channel channel_of(const char *name)
{
	enum jup_channel c = JUP_SHELL;

	while (c < JUP_UNKNOWN && strcmp(jup_channel_name(c), name) != 0)
		c++;
	return c;
}

static int take_channel(struct jup_msg *m, struct json_text t, const char **why)
{
	if (is_none(t))
		(void)stpcpy(m->channel_name, jup_channel_name(JUP_SHELL));
	else if (!json_text_str(t, m->channel_name, sizeof(m->channel_name)))
		return refuse(why, "channel is not a string, or too long");
	m->channel = channel_of(m->channel_name);
	return 0;
}

static bool is_empty(struct json_text t)
{
	struct json_walk w = json_walk(t);
	struct json_text key, value;
	char kind = json_text_kind(t);

	return (kind == '[' || kind == '{') && !json_walk_next(&w, &key, &value);
}

/* The object of the legacy framing. */
static int read_object(struct jup_msg *m, struct jup_bytes b, const char **why)
{
	struct json_member members[MEMBERS] = {
		[HEADER] = { .key = "header" },     [PARENT_HEADER] = { .key = "parent_header" },
		[METADATA] = { .key = "metadata" }, [CONTENT] = { .key = "content" },
		[MSG_ID] = { .key = "msg_id" },     [MSG_TYPE] = { .key = "msg_type" },
		[CHANNEL] = { .key = "channel" },   [BUFFERS] = { .key = "buffers" },
	};
	struct json_text t;
	int rc = read_json(b, &t, why);

	if (rc < 0)
		return rc;
	if (json_text_kind(t) != '{')
		return refuse(why, "not an object");
	json_text_find(t, members, MEMBERS);
	if (!is_none(members[BUFFERS].value) && !is_empty(members[BUFFERS].value))
		return refuse(why, "buffers in JSON");
	rc = take_channel(m, members[CHANNEL].value, why);
	return rc < 0 ? rc : take_members(m, members, why);
}

/* Number i of a table. */
static uint64_t get_number(const struct jup_layout *l, const uint8_t *table, size_t i)
{
	const uint8_t *p = table + i * l->word;
	uint64_t v = 0;

	for (size_t k = 0; k < l->word; k++)
		v = v << 8 | p[l->big_endian ? k : l->word - 1 - k];
	return v;
}

/* How many offsets there are, all of them within the message. */
static int get_count(const struct jup_layout *l, struct jup_bytes b, size_t *ret, const char **why)
{
	static const char cut_off[] = "the table of offsets is cut off";
	uint64_t count;

	if (b.n < l->word)
		return refuse(why, cut_off);
	count = get_number(l, b.p, 0);
	if (count < l->fixed + l->ends)
		return refuse(why, "too few offsets");
	if (count > l->fixed + l->ends + JUP_BUFFERS_MAX)
		return refuse(why, "too many offsets");
	if (b.n < (1 + count) * l->word)
		return refuse(why, cut_off);
	*ret = (size_t)count;
	return 0;
}

static int cut(const struct jup_layout *l, struct jup_bytes b, struct jup_bytes *parts,
	       size_t *nparts, const char **why)
{
	size_t count = 0, from;
	int rc = get_count(l, b, &count, why);

	if (rc < 0)
		return rc;
	from = (1 + count) * l->word;
	if (get_number(l, b.p, 1) != from)
		return refuse(why, "the first offset is not the end of the table");
	if (l->ends > 0 && get_number(l, b.p, count) != b.n)
		return refuse(why, "the last offset is not the end of the message");
	*nparts = count - l->ends;
	for (size_t i = 0; i < *nparts; i++) {
		uint64_t to = i + 1 < count ? get_number(l, b.p, i + 2) : b.n;

		if (to < from)
			return refuse(why, "offsets run backwards");
		if (to > b.n)
			return refuse(why, "an offset lies behind the end");
		parts[i] = (struct jup_bytes){ b.p + from, (size_t)to - from };
		from = (size_t)to;
	}
	return 0;
}

static int take_buffers(struct jup_msg *m, const struct jup_bytes *buffers, size_t n)
{
	if (n == 0)
		return 0;
	m->buffers = calloc(n, sizeof(*buffers));
	if (m->buffers == NULL)
		return -ENOMEM;
	(void)memcpy(m->buffers, buffers, n * sizeof(*buffers));
	m->nbuffers = n;
	return 0;
}

static int read_channel(struct jup_msg *m, struct jup_bytes b, const char **why)
{
	if (b.n > JUP_TYPE_MAX || (b.n > 0 && memchr(b.p, '\0', b.n) != NULL) || !is_utf8(b))
		return refuse(why, "channel is not a text, or too long");
	if (b.n > 0)
		(void)memcpy(m->channel_name, b.p, b.n);
	m->channel = channel_of(m->channel_name);
	return 0;
}

/* The parts of v1 before its buffers. */
static int read_parts(struct jup_msg *m, const struct jup_bytes parts[JUP_FIXED_MAX],
		      const char **why)
{
	struct json_member members[MEMBERS] = { 0 };
	int rc = read_channel(m, parts[0], why);

	for (size_t i = 1; rc == 0 && i < JUP_FIXED_MAX; i++)
		rc = read_json(parts[i], &members[i - 1].value, why);
	return rc < 0 ? rc : take_members(m, members, why);
}

static int read_binary(struct jup_msg *m, enum jup_framing framing, struct jup_bytes b,
		       const char **why)
{
	const struct jup_layout *l = &jup_layouts[framing];
	struct jup_bytes parts[JUP_FIXED_MAX + JUP_BUFFERS_MAX] = { { NULL, 0 } };
	size_t n = 0;
	int rc = cut(l, b, parts, &n, why);

	if (rc < 0)
		return rc;
	rc = framing == JUP_V1 ? read_parts(m, parts, why) : read_object(m, parts[0], why);
	return rc < 0 ? rc : take_buffers(m, parts + l->fixed, n - l->fixed);
}

int jup_read(struct jup_msg *m, enum jup_framing framing, bool binary, const void *p, size_t n,
	     const char **why)
{
	struct jup_bytes b = { p, n };
	int rc;

	*m = (struct jup_msg){ 0 };
	*why = "no memory";
	if (binary)
		rc = read_binary(m, framing, b, why);
	else if (framing == JUP_LEGACY)
		rc = read_object(m, b, why);
	else
		rc = refuse(why, "not a binary frame");
	if (rc < 0)
		jup_msg_done(m);
	else
		*why = NULL;
	return rc;
}

void jup_msg_done(struct jup_msg *m)
{
	json_done(&m->own);
	free(m->buffers);
	*m = (struct jup_msg){ 0 };
}
