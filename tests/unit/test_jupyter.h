/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of src/wire/jupyter_*.c: frames read from in front of a fence, and tables built by hand. */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_JUPYTER_H
#define GLOVEBOX_TESTS_UNIT_TEST_JUPYTER_H

#include "wire/jupyter.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test_help.h"

enum frame { TEXT, BINARY, V1, FRAMES };

static inline enum jup_framing frame_framing(enum frame f)
{
	return f == V1 ? JUP_V1 : JUP_LEGACY;
}

/* A message as it was read, with the bytes in which it lies. */
struct reading {
	struct fence f;
	const uint8_t *p;
	size_t n;
	int rc;
	const char *why;
	struct jup_msg m;
};

static inline struct reading read_frame(enum frame frame, const void *p, size_t n)
{
	struct reading r = { .f = fence_open(n > 0 ? n : 1), .n = n };

	r.p = fence_copy(&r.f, p, n);
	r.rc = jup_read(&r.m, frame_framing(frame), frame != TEXT, r.p, n, &r.why);
	CHECK((r.rc == 0) == (r.why == NULL));
	return r;
}

static inline void reading_done(struct reading *r)
{
	jup_msg_done(&r->m);
	fence_close(&r->f);
}

static inline void check_text(struct json_text t, const char *want)
{
	if (t.n != strlen(want) || memcmp(t.p, want, t.n) != 0)
		test_fail(__FILE__, __LINE__, "'%.*s' instead of '%s'", (int)t.n, t.p, want);
	test_count();
}

static inline void check_buffer(const struct jup_msg *m, size_t i, const void *want, size_t n)
{
	CHECK(i < m->nbuffers);
	CHECK_EQ_INT(m->buffers[i].n, n);
	CHECK_MEM(m->buffers[i].p, want, n);
}

/* --- frames by hand ----------------------------------------------------------------------------------- */

struct bytes {
	const void *p;
	size_t n;
};

#define BYTES(text) ((struct bytes){ (text), sizeof(text) - 1 })

/* Number i of a table. */
static inline void set_number(uint8_t *frame, enum frame f, size_t i, uint64_t v)
{
	size_t word = f == V1 ? 8 : 4;

	for (size_t k = 0; k < word; k++)
		frame[i * word + k] = (uint8_t)(v >> 8 * (f == V1 ? k : word - 1 - k));
}

/* A table and its parts. To be freed. */
static inline uint8_t *build(enum frame f, const struct bytes *parts, size_t count, size_t *ret_n)
{
	size_t offsets = f == V1 ? count + 1 : count, word = f == V1 ? 8 : 4;
	size_t at = (1 + offsets) * word, n = at;
	uint8_t *frame;

	for (size_t i = 0; i < count; i++)
		n += parts[i].n;
	frame = malloc(n);
	CHECK(frame != NULL);
	set_number(frame, f, 0, offsets);
	for (size_t i = 0; i < count; i++) {
		set_number(frame, f, 1 + i, at);
		if (parts[i].n > 0)
			memcpy(frame + at, parts[i].p, parts[i].n);
		at += parts[i].n;
	}
	if (f == V1)
		set_number(frame, f, offsets, at);
	*ret_n = n;
	return frame;
}

#endif
