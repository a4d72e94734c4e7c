/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/msg.c: typed fields over a bounded buffer. */
#include "wire/msg.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

TEST(msg_is_little_endian_with_lengths_of_four_bytes)
{
	static const uint8_t want[] = {
		0x01,                                           /* u8 */
		0x03, 0x02,                                     /* u16 */
		0x07, 0x06, 0x05, 0x04,                         /* u32 */
		0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x88, /* u64 */
		0x02, 0x00, 0x00, 0x00, 'h',  'i',              /* string */
		0x03, 0x00, 0x00, 0x00, 0x00, 0xff, 0x00,       /* bytes */
		0x00, 0x00, 0x00, 0x00,                         /* empty string */
	};
	uint8_t buf[64];
	struct msg_out m;

	msg_out_init(&m, buf, sizeof(buf));
	msg_put_u8(&m, 0x01);
	msg_put_u16(&m, 0x0203);
	msg_put_u32(&m, 0x04050607);
	msg_put_u64(&m, 0x88090a0b0c0d0e0f);
	msg_put_str(&m, "hi");
	msg_put_bytes(&m, "\x00\xff\x00", 3);
	msg_put_str(&m, "");
	CHECK(!m.failed);
	CHECK_EQ_INT(m.len, sizeof(want));
	CHECK_MEM(buf, want, sizeof(want));
}

/* One message with every kind of field, to be written into and read from buffers of every size. */
static void put_sample(struct msg_out *m)
{
	msg_put_u8(m, 0x11);
	msg_put_str(m, "a string");
	msg_put_u16(m, 0x2222);
	msg_put_bytes(m, "\0\1\2", 3);
	msg_put_u32(m, 0x33333333);
	msg_put_bytes(m, NULL, 0);
	msg_put_u64(m, 0x4444444444444444);
}

enum { SAMPLE = 1 + 4 + 8 + 2 + 4 + 3 + 4 + 4 + 8 };

static int get_sample(struct msg_in *m)
{
	char text[16];
	const uint8_t *p;
	size_t n;
	bool good;

	good = msg_get_u8(m) == 0x11;
	good &= msg_get_str(m, text, sizeof(text)) == 8 && strcmp(text, "a string") == 0;
	good &= msg_get_u16(m) == 0x2222;
	p = msg_get_bytes(m, 3, &n);
	good &= p != NULL && n == 3 && memcmp(p, "\0\1\2", 3) == 0;
	good &= msg_get_u32(m) == 0x33333333;
	p = msg_get_bytes(m, 0, &n);
	good &= p != NULL && n == 0;
	good &= msg_get_u64(m) == 0x4444444444444444;
	CHECK(msg_end(m) < 0 || good);
	return msg_end(m);
}

TEST(msg_out_fails_cleanly_at_every_size)
{
	struct fence f = fence_open(SAMPLE + 8);
	uint8_t whole[SAMPLE];
	struct msg_out m;

	msg_out_init(&m, whole, sizeof(whole));
	put_sample(&m);
	CHECK(!m.failed && m.len == SAMPLE);
	for (size_t cap = 0; cap <= SAMPLE + 4; cap++) {
		uint8_t *buf = fence_at(&f, cap);

		msg_out_init(&m, buf, cap);
		put_sample(&m);
		CHECK_EQ_INT(m.failed, cap < SAMPLE);
		CHECK(m.len <= cap);
		CHECK_MEM(buf, whole, m.len); /* what was written is the right beginning */
	}
	fence_close(&f);
}

TEST(msg_in_fails_cleanly_at_every_length)
{
	struct fence f = fence_open(SAMPLE + 8);
	uint8_t whole[SAMPLE + 1] = { 0 };
	struct msg_out o;

	msg_out_init(&o, whole, sizeof(whole));
	put_sample(&o);
	for (size_t len = 0; len <= SAMPLE + 1; len++) {
		struct msg_in m;

		msg_in_init(&m, fence_copy(&f, whole, len), len);
		CHECK_EQ_INT(get_sample(&m), len == SAMPLE ? 0 : -EPROTO);
		CHECK_EQ_INT(m.failed, len < SAMPLE);
	}
	fence_close(&f);
}

TEST(msg_out_that_overran_stays_failed)
{
	uint8_t buf[4] = { 0xaa, 0xaa, 0xaa, 0xaa };
	struct msg_out m;

	msg_out_init(&m, buf, 3);
	msg_put_u32(&m, 0);
	CHECK(m.failed);
	msg_put_u8(&m, 0); /* would fit */
	msg_put_bytes(&m, "", 0);
	CHECK(m.failed);
	CHECK_EQ_INT(m.len, 0);
	CHECK_MEM(buf, "\xaa\xaa\xaa\xaa", 4);
}

TEST(msg_in_that_overran_stays_failed)
{
	static const uint8_t buf[] = { 1, 2, 3 };
	char text[4] = "xyz";
	struct msg_in m;
	size_t n = 9;

	msg_in_init(&m, buf, sizeof(buf));
	CHECK_EQ_INT(msg_get_u32(&m), 0);
	CHECK(m.failed);
	CHECK_EQ_INT(msg_get_u8(&m), 0); /* would be there */
	CHECK_EQ_INT(msg_get_u16(&m), 0);
	CHECK_EQ_INT(msg_get_u64(&m), 0);
	CHECK(msg_get_bytes(&m, 100, &n) == NULL);
	CHECK_EQ_INT(n, 0);
	CHECK_EQ_INT(msg_get_str(&m, text, sizeof(text)), 0);
	CHECK_STR(text, "");
	CHECK_EQ_INT(msg_end(&m), -EPROTO);
}

TEST(msg_put_bytes_refuses_what_has_no_length)
{
	uint8_t buf[16];
	struct msg_out m;

	msg_out_init(&m, buf, sizeof(buf));
	msg_put_bytes(&m, buf, (size_t)UINT32_MAX + 1); /* its length would be 0 */
	CHECK(m.failed);
	CHECK_EQ_INT(m.len, 0);
}

TEST(msg_get_bytes_believes_no_length)
{
	static const uint32_t lies[] = { 4, 5, 0x7fffffff, 0x80000000, 0xfffffffb, 0xffffffff };

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		uint8_t buf[4 + 3];
		struct msg_out o;
		struct msg_in m;
		size_t n = 9;

		msg_out_init(&o, buf, sizeof(buf));
		msg_put_u32(&o, lies[i]);
		memset(buf + 4, 'a', 3);
		msg_in_init(&m, buf, sizeof(buf));
		CHECK(msg_get_bytes(&m, SIZE_MAX, &n) == NULL);
		CHECK_EQ_INT(n, 0);
		CHECK(m.failed);
	}
}

TEST(msg_get_bytes_keeps_to_its_maximum)
{
	uint8_t buf[16];
	struct msg_out o;

	msg_out_init(&o, buf, sizeof(buf));
	msg_put_bytes(&o, "12345", 5);
	for (size_t max = 0; max < 8; max++) {
		struct msg_in m;
		size_t n;

		msg_in_init(&m, buf, o.len);
		CHECK((msg_get_bytes(&m, max, &n) != NULL) == (max >= 5));
		CHECK_EQ_INT(n, max >= 5 ? 5 : 0);
		CHECK_EQ_INT(msg_end(&m), max >= 5 ? 0 : -EPROTO);
	}
}

TEST(msg_get_str_fits_or_fails)
{
	struct fence f = fence_open(16);
	uint8_t buf[16];
	struct msg_out o;

	msg_out_init(&o, buf, sizeof(buf));
	msg_put_str(&o, "12345");
	for (size_t size = 1; size <= 8; size++) {
		char *text = (char *)fence_at(&f, size);
		struct msg_in m;

		memset(text, 'x', size);
		msg_in_init(&m, buf, o.len);
		CHECK_EQ_INT(msg_get_str(&m, text, size), size >= 6 ? 5 : 0);
		CHECK_STR(text, size >= 6 ? "12345" : "");
		CHECK_EQ_INT(msg_end(&m), size >= 6 ? 0 : -EPROTO);
	}
	fence_close(&f);
}

TEST(msg_get_str_refuses_a_nul_anywhere)
{
	for (size_t at = 0; at < 4; at++) {
		uint8_t buf[8] = { 4, 0, 0, 0, 'a', 'b', 'c', 'd' };
		char text[8] = "old";
		struct msg_in m;

		buf[4 + at] = '\0';
		msg_in_init(&m, buf, sizeof(buf));
		CHECK_EQ_INT(msg_get_str(&m, text, sizeof(text)), 0);
		CHECK_STR(text, "");
		CHECK_EQ_INT(msg_end(&m), -EPROTO);
	}
}

TEST(msg_end_wants_all_and_no_more)
{
	static const uint8_t buf[2] = { 1, 2 };
	struct msg_in m;

	msg_in_init(&m, NULL, 0);
	CHECK_EQ_INT(msg_end(&m), 0);
	msg_in_init(&m, buf, 2);
	CHECK_EQ_INT(msg_end(&m), -EPROTO);
	(void)msg_get_u8(&m);
	CHECK_EQ_INT(msg_end(&m), -EPROTO);
	(void)msg_get_u8(&m);
	CHECK_EQ_INT(msg_end(&m), 0);
	(void)msg_get_u8(&m);
	CHECK_EQ_INT(msg_end(&m), -EPROTO);
}

/* Any fields in any order come back as they were put. */
TEST(msg_random_fields_come_back)
{
	struct field {
		unsigned int kind;
		uint64_t v;
		uint8_t bytes[32];
		size_t n;
	} fields[20];
	uint64_t seed = 4;

	for (int round = 0; round < 3000; round++) {
		unsigned int count = (unsigned int)rnd_below(&seed, ARRAY_LEN(fields) + 1);
		uint8_t buf[1024];
		struct msg_out o;
		struct msg_in m;

		msg_out_init(&o, buf, sizeof(buf));
		for (unsigned int i = 0; i < count; i++) {
			struct field *x = &fields[i];

			x->kind = (unsigned int)rnd_below(&seed, 6);
			x->v = rnd(&seed);
			x->n = rnd_below(&seed, sizeof(x->bytes));
			rnd_fill(&seed, x->bytes, sizeof(x->bytes));
			switch (x->kind) {
			case 0:
				msg_put_u8(&o, (uint8_t)x->v);
				break;
			case 1:
				msg_put_u16(&o, (uint16_t)x->v);
				break;
			case 2:
				msg_put_u32(&o, (uint32_t)x->v);
				break;
			case 3:
				msg_put_u64(&o, x->v);
				break;
			case 4:
				msg_put_bytes(&o, x->bytes, x->n);
				break;
			default:
				for (size_t k = 0; k < x->n; k++)
					x->bytes[k] |= 1; /* no NUL */
				x->bytes[x->n] = '\0';
				msg_put_str(&o, (const char *)x->bytes);
			}
		}
		CHECK(!o.failed);
		msg_in_init(&m, buf, o.len);
		for (unsigned int i = 0; i < count; i++) {
			const struct field *x = &fields[i];
			const uint8_t *p;
			char text[32];
			size_t n;

			switch (x->kind) {
			case 0:
				CHECK(msg_get_u8(&m) == (uint8_t)x->v);
				break;
			case 1:
				CHECK(msg_get_u16(&m) == (uint16_t)x->v);
				break;
			case 2:
				CHECK(msg_get_u32(&m) == (uint32_t)x->v);
				break;
			case 3:
				CHECK(msg_get_u64(&m) == x->v);
				break;
			case 4:
				p = msg_get_bytes(&m, sizeof(x->bytes), &n);
				CHECK(p != NULL && n == x->n);
				CHECK_MEM(p, x->bytes, n);
				break;
			default:
				CHECK_EQ_INT(msg_get_str(&m, text, sizeof(text)), x->n);
				CHECK_STR(text, (const char *)x->bytes);
			}
		}
		CHECK_EQ_INT(msg_end(&m), 0);
	}
}
