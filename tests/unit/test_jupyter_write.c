/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/jupyter_write.c: what clients of Jupyter are sent. */
#include <errno.h>

#include "base/own.h"

#include "test_jupyter.h"

#define HEADER "{\"msg_id\":\"m\xc3\xa9\",\"session\":\"s\",\"msg_type\":\"stream\"}"

static struct json_text text_of(const char *text)
{
	return (struct json_text){ text, strlen(text) };
}

static struct jup_out message(void)
{
	return (struct jup_out){
		.channel = JUP_IOPUB,
		.header = text_of(HEADER),
		.parent_header = text_of("{\"msg_id\":\"p\"}"),
		.metadata = text_of("{\"k\":null}"),
		.content = text_of("{\"name\":\"stdout\", \"text\":\"\\n\"}"),
	};
}

static const struct jup_bytes buffers[] = {
	{ (const uint8_t *)"\0\xff", 2 },
	{ (const uint8_t *)"", 0 },
	{ NULL, 0 },
	{ (const uint8_t *)"last", 4 },
};

#define OBJECT                                                                           \
	"{\"header\":" HEADER ",\"msg_id\":\"m\xc3\xa9\",\"msg_type\":\"stream\","       \
	"\"parent_header\":{\"msg_id\":\"p\"},\"metadata\":{\"k\":null},"                \
	"\"content\":{\"name\":\"stdout\", \"text\":\"\\n\"},\"buffers\":[],\"channel\"" \
	":\"iopub\"}"

/* Behind what was there already. */
static struct json written(enum jup_framing framing, const struct jup_out *o, bool binary)
{
	bool is_binary = !binary;
	struct json j;

	json_init(&j);
	json_str(&j, NULL, "before");
	CHECK_EQ_INT(jup_write(&j, framing, o, &is_binary), 0);
	CHECK_EQ_INT(is_binary, binary);
	CHECK_MEM(j.buf, "\"before\"", 8);
	memmove(j.buf, j.buf + 8, j.len - 8);
	j.len -= 8;
	return j;
}

TEST(jupyter_writes_text_without_buffers)
{
	struct jup_out o = message();
	struct json j = written(JUP_LEGACY, &o, false);

	CHECK_EQ_INT(j.len, strlen(OBJECT));
	CHECK_MEM(j.buf, OBJECT, j.len);
	json_done(&j);
}

TEST(jupyter_writes_empty_objects_for_none)
{
	struct jup_out o = { .channel = JUP_SHELL, .header = text_of(HEADER) };
	struct json j = written(JUP_LEGACY, &o, false);
	static const char want[] =
		"{\"header\":" HEADER ",\"msg_id\":\"m\xc3\xa9\",\"msg_type\":\"stream\","
		"\"parent_header\":{},\"metadata\":{},\"content\":{},\"buffers\":[],"
		"\"channel\":\"shell\"}";

	CHECK_EQ_INT(j.len, sizeof(want) - 1);
	CHECK_MEM(j.buf, want, j.len);
	json_done(&j);
}

static void check_binary(enum frame f, const struct bytes *fixed, size_t nfixed, size_t nbuffers)
{
	struct jup_out o = message();
	struct bytes parts[16];
	own_free uint8_t *want = NULL;
	struct json j;
	size_t n;

	o.buffers = buffers;
	o.nbuffers = nbuffers;
	memcpy(parts, fixed, nfixed * sizeof(*parts));
	for (size_t i = 0; i < nbuffers; i++)
		parts[nfixed + i] = (struct bytes){ buffers[i].p, buffers[i].n };
	want = build(f, parts, nfixed + nbuffers, &n);
	j = written(frame_framing(f), &o, true);
	CHECK_EQ_INT(j.len, n);
	CHECK_MEM(j.buf, want, n);
	json_done(&j);
}

TEST(jupyter_writes_binary_with_buffers)
{
	const struct bytes fixed[] = { BYTES(OBJECT) };

	for (size_t nbuffers = 1; nbuffers <= ARRAY_LEN(buffers); nbuffers++)
		check_binary(BINARY, fixed, ARRAY_LEN(fixed), nbuffers);
}

TEST(jupyter_writes_v1_always_binary)
{
	const struct bytes fixed[] = {
		BYTES("iopub"),
		BYTES(HEADER),
		BYTES("{\"msg_id\":\"p\"}"),
		BYTES("{\"k\":null}"),
		BYTES("{\"name\":\"stdout\", \"text\":\"\\n\"}"),
	};

	for (size_t nbuffers = 0; nbuffers <= ARRAY_LEN(buffers); nbuffers++)
		check_binary(V1, fixed, ARRAY_LEN(fixed), nbuffers);
}

/* The numbers once as bytes, so that writer and test cannot be wrong together. */
TEST(jupyter_writes_numbers_as_the_framing_has_them)
{
	static const uint8_t be[] = { 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0 };
	static const uint8_t le[] = { 7, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 69, 0 };
	struct jup_out o = message();
	struct json j;

	o.buffers = buffers;
	o.nbuffers = 1;
	j = written(JUP_LEGACY, &o, true);
	CHECK_MEM(j.buf, be, sizeof(be));
	CHECK_EQ_INT((unsigned char)j.buf[11], 12 + strlen(OBJECT));
	json_done(&j);
	j = written(JUP_V1, &o, true);
	CHECK_MEM(j.buf, le, sizeof(le));
	json_done(&j);
}

/* --- and read again ----------------------------------------------------------------------------------- */

static void check_again(enum jup_framing framing, const struct jup_out *o)
{
	bool binary = framing == JUP_V1 || o->nbuffers > 0;
	struct json j = written(framing, o, binary);
	struct reading r = read_frame(framing == JUP_V1 ? V1
				      : binary          ? BINARY
							: TEXT,
				      j.buf, j.len);

	CHECK_EQ_INT(r.rc, 0);
	CHECK_EQ_INT(r.m.channel, o->channel);
	CHECK_STR(r.m.channel_name, jup_channel_name(o->channel));
	CHECK_STR(r.m.msg_id, "m\xc3\xa9");
	CHECK_STR(r.m.msg_type, "stream");
	CHECK_STR(r.m.session, "s");
	CHECK_STR(r.m.parent_id, "p");
	check_text(r.m.header, HEADER);
	check_text(r.m.parent_header, o->parent_header.p);
	check_text(r.m.metadata, o->metadata.p);
	check_text(r.m.content, o->content.p);
	CHECK_EQ_INT(r.m.nbuffers, o->nbuffers);
	for (size_t i = 0; i < o->nbuffers; i++)
		check_buffer(&r.m, i, o->buffers[i].p != NULL ? (const char *)o->buffers[i].p : "",
			     o->buffers[i].n);
	reading_done(&r);
	json_done(&j);
}

TEST(jupyter_reads_what_it_writes)
{
	struct jup_out o = message();

	o.buffers = buffers;
	for (o.channel = JUP_SHELL; o.channel < JUP_UNKNOWN; o.channel++) {
		for (o.nbuffers = 0; o.nbuffers <= ARRAY_LEN(buffers); o.nbuffers++) {
			check_again(JUP_LEGACY, &o);
			check_again(JUP_V1, &o);
		}
	}
}

TEST(jupyter_bounds_what_it_writes)
{
	static struct jup_bytes many[JUP_BUFFERS_MAX + 1];
	struct jup_out o = message();
	struct jup_bytes large = { (const uint8_t *)"", JUP_WRITE_MAX }; /* never looked at */
	bool binary = true;

	for (enum jup_framing f = JUP_LEGACY; f <= JUP_V1; f++) {
		struct json j;

		json_init(&j);
		o.buffers = many;
		o.nbuffers = JUP_BUFFERS_MAX + 1;
		CHECK_EQ_INT(jup_write(&j, f, &o, &binary), -EMSGSIZE);
		o.buffers = &large;
		o.nbuffers = 1;
		CHECK_EQ_INT(jup_write(&j, f, &o, &binary), -EMSGSIZE);
		o.nbuffers = 0;
		o.header.n = JUP_HEADER_MAX + 1;
		CHECK_EQ_INT(jup_write(&j, f, &o, &binary), -EMSGSIZE);
		o.header = text_of(HEADER);
		o.channel = JUP_UNKNOWN;
		CHECK_EQ_INT(jup_write(&j, f, &o, &binary), -EINVAL);
		o.channel = JUP_IOPUB;
		CHECK(j.buf == NULL && !j.failed && binary);
		o.buffers = many;
		o.nbuffers = JUP_BUFFERS_MAX;
		CHECK_EQ_INT(jup_write(&j, f, &o, &binary), 0);
		json_done(&j);
		j.failed = true;
		CHECK_EQ_INT(jup_write(&j, f, &o, &binary), -ENOMEM);
		json_done(&j);
	}
}

/* --- headers ------------------------------------------------------------------------------------------ */

static void check_header(const struct jup_header *h, const char *want)
{
	struct json j;

	json_init(&j);
	jup_header_put(h, &j, NULL);
	CHECK_STR(j.buf, want);
	json_done(&j);
}

TEST(jupyter_makes_headers)
{
	struct jup_header h = { .msg_id = "i", .session = "s", .username = "u", .msg_type = "t" };

	check_header(&h, "{\"msg_id\":\"i\",\"session\":\"s\",\"username\":\"u\","
			 "\"date\":\"1970-01-01T00:00:00.000000Z\",\"msg_type\":\"t\","
			 "\"version\":\"5.3\"}");
	h.unix_us = 1709210096007089u;
	h.session = "\"\n";
	check_header(&h, "{\"msg_id\":\"i\",\"session\":\"\\\"\\n\",\"username\":\"u\","
			 "\"date\":\"2024-02-29T12:34:56.007089Z\",\"msg_type\":\"t\","
			 "\"version\":\"5.3\"}");
}

TEST(jupyter_makes_headers_that_it_reads)
{
	struct jup_header h = { .msg_id = "i",
				.session = "",
				.username = "u",
				.msg_type = "t",
				.unix_us = UINT64_MAX };
	struct jup_out o = { .channel = JUP_SHELL };
	struct reading r;
	struct json header, j;

	json_init(&header);
	json_u64(&header, NULL, 1);
	jup_header_put(&h, &header, NULL);
	o.header = (struct json_text){ header.buf + 2, header.len - 2 };
	j = written(JUP_V1, &o, true);
	r = read_frame(V1, j.buf, j.len);
	CHECK_EQ_INT(r.rc, 0);
	check_text(r.m.header, o.header.p);
	CHECK_STR(r.m.version, "5.3");
	CHECK_STR(r.m.msg_id, "i");
	reading_done(&r);
	json_done(&j);
	json_done(&header);
}
