// SPDX-License-Identifier: Apache-2.0
/* The length of every part is known before the first number is written, so a message is put together in one go. */
#include "base/own.h"
#include "wire/jupyter_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const channels[] = {
	[JUP_SHELL] = "shell",
	[JUP_CONTROL] = "control",
	[JUP_STDIN] = "stdin",
	[JUP_IOPUB] = "iopub",
};
_Static_assert(ARRAY_LEN(channels) == JUP_UNKNOWN, "a channel has no name");

const char *jup_channel_name(enum jup_channel c)
{
	return c < JUP_UNKNOWN ? channels[c] : NULL;
}

static struct jup_bytes object_bytes(struct json_text t)
{
	static const uint8_t empty[] = { '{', '}' };

	if (t.p == NULL)
		return (struct jup_bytes){ empty, sizeof(empty) };
	return (struct jup_bytes){ (const uint8_t *)t.p, t.n };
}

static void put_bytes(struct json *j, struct jup_bytes b)
{
	json_raw(j, (const char *)b.p, b.n);
}

static void put_member(struct json *j, const char *key, struct json_text object)
{
	json_value(j, key);
	put_bytes(j, object_bytes(object));
}

static void put_object(struct json *j, const struct jup_out *o)
{
	struct json_member m[] = { { .key = "msg_id" }, { .key = "msg_type" } };

	json_text_find(o->header, m, ARRAY_LEN(m));
	json_restart(j);
	json_open(j, NULL, '{');
	put_member(j, "header", o->header);
	for (size_t i = 0; i < ARRAY_LEN(m); i++)
		json_text_put(m[i].value, j, m[i].key);
	put_member(j, "parent_header", o->parent_header);
	put_member(j, "metadata", o->metadata);
	put_member(j, "content", o->content);
	json_open(j, "buffers", '[');
	json_close(j, ']');
	json_str(j, "channel", channels[o->channel]);
	json_close(j, '}');
}

static void put_number(struct json *j, const struct jup_layout *l, uint64_t v)
{
	char bytes[sizeof(v)];

	for (size_t k = 0; k < l->word; k++)
		bytes[l->big_endian ? l->word - 1 - k : k] = (char)(v >> (8 * k) & 0xff);
	json_raw(j, bytes, l->word);
}

static void put_binary(struct json *j, const struct jup_layout *l,
		       const struct jup_bytes fixed[JUP_FIXED_MAX], const struct jup_out *o)
{
	size_t count = l->fixed + o->nbuffers + l->ends, at = (1 + count) * l->word;

	put_number(j, l, count);
	for (size_t i = 0; i < count; i++) {
		put_number(j, l, at);
		if (i < l->fixed)
			at += fixed[i].n;
		else if (i < l->fixed + o->nbuffers)
			at += o->buffers[i - l->fixed].n;
	}
	for (size_t i = 0; i < l->fixed; i++)
		put_bytes(j, fixed[i]);
	for (size_t i = 0; i < o->nbuffers; i++)
		put_bytes(j, o->buffers[i]);
}

static void put_legacy(struct json *j, const struct jup_out *o)
{
	struct jup_bytes fixed[JUP_FIXED_MAX] = { { NULL, 0 } };
	struct json object;

	json_init(&object);
	put_object(&object, o);
	fixed[0] = (struct jup_bytes){ (const uint8_t *)object.buf, object.len };
	put_binary(j, &jup_layouts[JUP_LEGACY], fixed, o);
	j->failed |= object.failed;
	json_done(&object);
}

static void put_v1(struct json *j, const struct jup_out *o)
{
	const char *channel = channels[o->channel];
	const struct jup_bytes fixed[JUP_FIXED_MAX] = {
		{ (const uint8_t *)channel, strlen(channel) },
		object_bytes(o->header),
		object_bytes(o->parent_header),
		object_bytes(o->metadata),
		object_bytes(o->content),
	};

	put_binary(j, &jup_layouts[JUP_V1], fixed, o);
}

static bool is_within_bounds(const struct jup_out *o)
{
	size_t n = o->header.n + o->parent_header.n + o->metadata.n + o->content.n;

	for (size_t i = 0; i < o->nbuffers; i++)
		n += o->buffers[i].n;
	return o->nbuffers <= JUP_BUFFERS_MAX && o->header.n <= JUP_HEADER_MAX &&
	       n <= JUP_WRITE_MAX;
}

int jup_write(struct json *j, enum jup_framing framing, const struct jup_out *o, bool *ret_binary)
{
	bool binary = framing == JUP_V1 || o->nbuffers > 0;

	if (o->channel >= JUP_UNKNOWN)
		return -EINVAL;
	if (!is_within_bounds(o))
		return -EMSGSIZE;
	if (framing == JUP_V1)
		put_v1(j, o);
	else if (binary)
		put_legacy(j, o);
	else
		put_object(j, o);
	if (j->failed)
		return -ENOMEM;
	*ret_binary = binary;
	return 0;
}

void jup_header_put(const struct jup_header *h, struct json *j, const char *key)
{
	time_t s = (time_t)(h->unix_us / 1000000);
	char date[48];
	struct tm tm;
	size_t n;

	(void)gmtime_r(&s, &tm);
	n = strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(date + n, sizeof(date) - n, ".%06uZ", (unsigned int)(h->unix_us % 1000000));
	json_open(j, key, '{');
	json_str(j, "msg_id", h->msg_id);
	json_str(j, "session", h->session);
	json_str(j, "username", h->username);
	json_str(j, "date", date);
	json_str(j, "msg_type", h->msg_type);
	json_str(j, "version", "5.3");
	json_close(j, '}');
}
