/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of Jupyter's framings share: what must hold for a message, and frames built of parts. */
#ifndef GLOVEBOX_TESTS_FUZZ_FUZZ_JUP_H
#define GLOVEBOX_TESTS_FUZZ_FUZZ_JUP_H

#include "wire/jupyter.h"

#include <errno.h>
#include <stdbool.h>

#include "base/utf8.h"

#include "fuzz_input.h"

/* --- frames of parts ------------------------------------------------------------------------------------ */

/* The two binary framings, written down a second time. */
struct shape {
	size_t word, fixed, ends;
	bool big_endian;
};

static const struct shape shape_binary = { 4, 1, 0, true }, shape_v1 = { 8, 5, 1, false };

static inline uint64_t number_at(const struct shape *s, const uint8_t *p)
{
	uint64_t v = 0;

	for (size_t k = s->word; k > 0; k--)
		v |= (uint64_t)p[k - 1] << 8 * (s->big_endian ? s->word - k : k - 1);
	return v;
}

static inline void set_number(const struct shape *s, uint8_t *p, uint64_t v)
{
	for (size_t k = 0; k < s->word; k++)
		p[k] = (uint8_t)(v >> 8 * (s->big_endian ? s->word - 1 - k : k));
}

/* Whether the table of a frame is what wire/jupyter.h says. */
static inline bool has_right_table(const struct shape *s, const uint8_t *p, size_t n)
{
	uint64_t count, before, v;

	if (n < s->word)
		return false;
	count = number_at(s, p);
	if (count < s->fixed + s->ends || count > s->fixed + s->ends + JUP_BUFFERS_MAX ||
	    (count + 1) * s->word > n)
		return false;
	before = (count + 1) * s->word;
	if (number_at(s, p + s->word) != before)
		return false;
	for (uint64_t i = 1; i <= count; i++) {
		v = number_at(s, p + i * s->word);
		if (v < before || v > n)
			return false;
		before = v;
	}
	return s->ends == 0 || before == n;
}

/* A frame whose parts are what is between the NULs of the input. */
static inline uint8_t *built(const struct shape *s, const uint8_t *p, size_t n, size_t *ret_n)
{
	size_t parts = 1, count, at;
	uint8_t *frame;

	for (size_t i = 0; i < n; i++)
		parts += p[i] == '\0';
	count = parts + s->ends;
	at = (1 + count) * s->word;
	*ret_n = at + n - (parts - 1);
	frame = malloc(*ret_n);
	if (frame == NULL)
		abort();
	set_number(s, frame, count);
	for (size_t i = 1; i <= parts; i++) {
		set_number(s, frame + i * s->word, at);
		for (; n > 0 && *p != '\0'; p++, n--)
			frame[at++] = *p;
		p += n > 0;
		n -= n > 0;
	}
	if (s->ends > 0)
		set_number(s, frame + count * s->word, at);
	return frame;
}

/* --- messages ------------------------------------------------------------------------------------------- */

static inline void check_json(struct json_text t)
{
	const unsigned char *p = (const unsigned char *)t.p;
	struct json_text whole;
	uint32_t c;

	MUST(json_text_read(t.p, t.n, &whole) == 0 && whole.p == t.p && whole.n == t.n);
	MUST(json_text_kind(t) == '{');
	for (size_t i = 0, n; i < t.n; i += n) {
		n = utf8_next(p + i, t.n - i, &c);
		MUST(n > 0);
	}
}

/* A string of an object, or an empty one. */
static inline void check_member(struct json_text object, const char *key, const char *want,
				size_t max)
{
	struct json_member m = { .key = key };
	char buf[256] = "";

	json_text_find(object, &m, 1);
	MUST(json_text_kind(m.value) == '\0' || json_text_kind(m.value) == 'n' ||
	     json_text_str(m.value, buf, sizeof(buf)));
	MUST(strlen(want) <= max && strcmp(want, buf) == 0);
}

static inline bool is_inside(const void *p, size_t n, const uint8_t *data, size_t size)
{
	uintptr_t from = (uintptr_t)p, begin = (uintptr_t)data;

	return from >= begin && from + n <= begin + size;
}

static inline void check_object(struct json_text t, const uint8_t *data, size_t size)
{
	MUST(is_inside(t.p, t.n, data, size) || (t.n == 2 && memcmp(t.p, "{}", 2) == 0));
	check_json(t);
}

static inline void check_channel(const struct jup_msg *m)
{
	enum jup_channel c = JUP_SHELL;

	MUST(strlen(m->channel_name) <= JUP_TYPE_MAX && m->channel <= JUP_UNKNOWN);
	while (c < JUP_UNKNOWN && strcmp(jup_channel_name(c), m->channel_name) != 0)
		c++;
	MUST(c == m->channel);
}

static inline void check_message(const struct jup_msg *m, const uint8_t *data, size_t size)
{
	check_channel(m);
	check_json(m->header);
	MUST(m->header.n <= JUP_HEADER_MAX && m->msg_id[0] != '\0' && m->msg_type[0] != '\0');
	check_member(m->header, "msg_id", m->msg_id, JUP_ID_MAX);
	check_member(m->header, "msg_type", m->msg_type, JUP_TYPE_MAX);
	check_member(m->header, "session", m->session, JUP_ID_MAX);
	check_member(m->header, "username", m->username, JUP_ID_MAX);
	check_member(m->header, "date", m->date, JUP_DATE_MAX);
	check_member(m->header, "version", m->version, JUP_VERSION_MAX);
	check_object(m->parent_header, data, size);
	check_object(m->metadata, data, size);
	check_object(m->content, data, size);
	check_member(m->parent_header, "msg_id", m->parent_id, JUP_ID_MAX);
	MUST(m->nbuffers <= JUP_BUFFERS_MAX && (m->nbuffers > 0) == (m->buffers != NULL));
	for (size_t i = 0; i < m->nbuffers; i++) {
		const struct jup_bytes *b = &m->buffers[i];

		MUST(is_inside(b->p, b->n, data, size));
		MUST(b->p + b->n == (i + 1 < m->nbuffers ? b[1].p : data + size));
	}
}

static inline void must_be_same_text(struct json_text a, struct json_text b)
{
	MUST(a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
}

static inline void must_be_same(const struct jup_msg *a, const struct jup_msg *b)
{
	MUST(strcmp(a->msg_id, b->msg_id) == 0 && strcmp(a->msg_type, b->msg_type) == 0);
	MUST(strcmp(a->session, b->session) == 0 && strcmp(a->username, b->username) == 0);
	MUST(strcmp(a->date, b->date) == 0 && strcmp(a->version, b->version) == 0);
	MUST(strcmp(a->parent_id, b->parent_id) == 0);
	must_be_same_text(a->header, b->header);
	must_be_same_text(a->parent_header, b->parent_header);
	must_be_same_text(a->metadata, b->metadata);
	must_be_same_text(a->content, b->content);
	MUST(a->nbuffers == b->nbuffers);
	for (size_t i = 0; i < a->nbuffers; i++)
		MUST(a->buffers[i].n == b->buffers[i].n &&
		     memcmp(a->buffers[i].p, b->buffers[i].p, a->buffers[i].n) == 0);
}

/* Written and read again it is the same. In the legacy framing there is one more level around what v1 may have. */
static inline void check_again(const struct jup_msg *m, enum jup_framing framing, bool may_be_deep)
{
	struct jup_out o = {
		.channel = m->channel < JUP_UNKNOWN ? m->channel : JUP_SHELL,
		.header = m->header,
		.parent_header = m->parent_header,
		.metadata = m->metadata,
		.content = m->content,
		.buffers = m->buffers,
		.nbuffers = m->nbuffers,
	};
	struct jup_msg again;
	const char *why;
	struct json j;
	bool binary;
	int rc;

	json_init(&j);
	MUST(jup_write(&j, framing, &o, &binary) == 0);
	MUST(binary == (framing == JUP_V1 || m->nbuffers > 0));
	rc = jup_read(&again, framing, binary, j.buf, j.len, &why);
	if (rc < 0) {
		MUST(may_be_deep && framing == JUP_LEGACY);
		MUST(strncmp(why, "JSON with too many levels", 25) == 0);
	} else {
		MUST(again.channel == o.channel);
		check_message(&again, (const uint8_t *)j.buf, j.len);
		must_be_same(m, &again);
		jup_msg_done(&again);
	}
	json_done(&j);
}

/* Read a frame, and claim all that can be said of any; the result, and why it was refused. */
static inline int fuzz_frame(enum jup_framing framing, bool binary, const uint8_t *data,
			     size_t size, const char **why)
{
	uint8_t *copy = exact_copy(data, size);
	struct jup_msg m;
	int rc = jup_read(&m, framing, binary, copy, size, why);

	MUST(rc == 0 ? *why == NULL : rc == -EPROTO && *why != NULL);
	if (rc == 0) {
		check_message(&m, copy, size);
		check_again(&m, JUP_LEGACY, framing == JUP_V1);
		check_again(&m, JUP_V1, false);
	} else {
		MUST(m.own.buf == NULL && m.buffers == NULL && m.nbuffers == 0);
	}
	jup_msg_done(&m);
	free(copy);
	return rc;
}

/* A binary frame: the table is a reason to be refused exactly if it is wrong. Input: one byte, then a frame if it is even,
 * parts of one if it is odd. */
static inline void fuzz_binary(enum jup_framing framing, const struct shape *s, const uint8_t *data,
			       size_t size)
{
	struct input in = { data, size };
	bool of_parts = take_u8(&in) & 1;
	size_t n = in.n;
	uint8_t *own = of_parts ? built(s, in.p, in.n, &n) : NULL;
	const uint8_t *frame = of_parts ? own : in.p;
	const char *why = NULL;
	int rc = fuzz_frame(framing, true, frame, n, &why);

	if (rc == 0)
		MUST(has_right_table(s, frame, n));
	else
		MUST((strstr(why, "offset") == NULL) == has_right_table(s, frame, n));
	free(own);
}

#endif
