// SPDX-License-Identifier: Apache-2.0
#include "wire/watch.h"

#include "base/str.h"
#include "wire/msg.h"
#include "wire/pieces.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	bool has_path, has_to;
} kinds[WATCHED_MAX] = {
	[WATCHED_READY] = { "ready", false, false },
	[WATCHED_CREATE] = { "create", true, false },
	[WATCHED_MODIFY] = { "modify", true, false },
	[WATCHED_ATTRIB] = { "attrib", true, false },
	[WATCHED_DELETE] = { "delete", true, false },
	[WATCHED_MOVE] = { "move", true, true },
	[WATCHED_OVERFLOW] = { "overflow", false, false },
};

const char *watched_str(enum watched what)
{
	return kinds[what].name;
}

ptrdiff_t watch_encode(const struct watch_record *w, void *buf, size_t cap)
{
	struct msg_out m, h;

	if (cap < WATCH_HEADER)
		return -EMSGSIZE;
	msg_out_init(&m, (uint8_t *)buf + WATCH_HEADER, cap - WATCH_HEADER);
	msg_put_u8(&m, (uint8_t)w->what);
	msg_put_u8(&m, w->is_directory);
	msg_put_str(&m, w->path);
	msg_put_str(&m, w->to);
	if (m.failed)
		return -EMSGSIZE;
	msg_out_init(&h, buf, WATCH_HEADER);
	msg_put_u32(&h, (uint32_t)m.len);
	return (ptrdiff_t)(WATCH_HEADER + m.len);
}

static bool fits(const char *path, bool has_one)
{
	return has_one ? path_is_below(path) : path[0] == '\0';
}

static int decode(const uint8_t *p, size_t n, struct watch_record *w)
{
	unsigned int what, is_directory;
	struct msg_in m;

	msg_in_init(&m, p, n);
	what = msg_get_u8(&m);
	is_directory = msg_get_u8(&m);
	(void)msg_get_str(&m, w->path, sizeof(w->path));
	(void)msg_get_str(&m, w->to, sizeof(w->to));
	if (msg_end(&m) < 0 || what >= WATCHED_MAX || is_directory > 1 ||
	    !fits(w->path, kinds[what].has_path) || !fits(w->to, kinds[what].has_to))
		return -EPROTO;
	w->what = (enum watched)what;
	w->is_directory = is_directory != 0;
	return 0;
}

int watch_feed(struct watch_reader *r, const void *p, size_t n, watch_fn fn, void *arg)
{
	const uint8_t *at = p;

	while (n > 0) {
		size_t whole;
		ptrdiff_t used = pieces_take(r->buf, WATCH_RECORD_MAX, &r->len, at, n, &whole);
		int rc = 0;

		if (used < 0)
			return (int)used;
		at += used;
		n -= (size_t)used;
		if (whole == 0)
			continue;
		r->len = 0;
		rc = decode(r->buf + WATCH_HEADER, whole, &r->record);
		if (rc == 0)
			rc = fn(arg, &r->record);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int watch_end(const struct watch_reader *r)
{
	return r->len == 0 ? 0 : -EPROTO;
}
