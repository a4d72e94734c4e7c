// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/boxes/{box_id}/watch: what changes below a directory, as server-sent events.
 *
 * The answer begins with the box's word that it watches; what is wrong with the path is told before, as a status. A client that
 * reads slowly holds the box's records back, until the box counts only that it missed some: `overflow`.
 */
#include "gate/files.h"

#include "base/clock.h"
#include "wire/watch.h"

#include <errno.h>
#include <string.h>

enum { COMMENT_US = 15 * 1000 * 1000 };

struct watching {
	struct file_call call;
	struct watch_reader reader;
	struct json out; /* events of one piece of the box's output */
	struct timer comment;
	struct gate *g;
};

static void on_release(struct file_call *c)
{
	json_done(&((struct watching *)c)->out);
}

/* From here on the request is somebody else's. */
static struct req *leave(struct watching *w)
{
	struct req *r = w->call.r;

	timer_clear(&w->g->loop, &w->comment);
	file_call_close(&w->call);
	return r;
}

static void on_gone(struct req *r)
{
	(void)leave(r->work);
}

/* The server stops: who watches may come again. */
static void on_stop(struct req *r)
{
	(void)leave(r->work);
	if (r->begun)
		req_end(r);
	else
		req_abort(r);
}

static void on_comment(void *arg)
{
	struct watching *w = arg;

	(void)timer_set(&w->g->loop, &w->comment, w->g->loop.now_us + COMMENT_US, on_comment, w);
	if (req_queued(w->call.r) == 0)
		(void)req_write(w->call.r, ": still there\n\n", 15);
}

static void begin_answer(struct watching *w)
{
	struct req *r = w->call.r;

	req_header(r, "Cache-Control", "no-cache");
	req_header(r, "X-Accel-Buffering", "no");
	req_begin(r, 200, "text/event-stream; charset=utf-8", -1);
	(void)timer_set(&w->g->loop, &w->comment, w->g->loop.now_us + COMMENT_US, on_comment, w);
}

static void open_event(struct json *j, const char *name)
{
	json_raw(j, "event: ", 7);
	json_raw(j, name, strlen(name));
	json_raw(j, "\ndata: ", 7);
	json_restart(j);
	json_open(j, NULL, '{');
}

static void close_event(struct json *j)
{
	json_close(j, '}');
	json_raw(j, "\n\n", 2);
}

static int on_record(void *arg, const struct watch_record *rec)
{
	struct watching *w = arg;
	struct json *j = &w->out;

	if (rec->what == WATCHED_READY && !w->call.r->begun)
		begin_answer(w);
	else if (rec->what == WATCHED_READY || !w->call.r->begun)
		return -EPROTO;
	open_event(j, watched_str(rec->what));
	own_put_path(j, "path", rec->path);
	json_str(j, "type", rec->is_directory || rec->path[0] == '\0' ? "directory" : "file");
	if (rec->what == WATCHED_MOVE)
		own_put_path(j, "to", rec->to);
	close_event(j);
	return j->failed ? -ENOMEM : 0;
}

static int on_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	struct watching *w = (struct watching *)c;
	int rc = watch_feed(&w->reader, p, n, on_record, w);

	if (rc == 0 && w->out.len > 0)
		(void)req_write(c->r, w->out.buf, w->out.len); /* after a failure gone() comes */
	json_done(&w->out);
	json_init(&w->out);
	return rc;
}

/* The last event, and the end. */
static void say_end(struct watching *w, const char *reason)
{
	struct req *r = leave(w);
	struct json j;

	json_init(&j);
	open_event(&j, "end");
	json_str(&j, "reason", reason);
	close_event(&j);
	if (!j.failed)
		(void)req_write(r, j.buf, j.len);
	json_done(&j);
	req_end(r);
}

/* The directory itself is gone, for example. */
static void on_end(struct file_call *c)
{
	if (c->r->begun)
		say_end((struct watching *)c, "unwatched");
	else
		file_call_fail(c, FILE_BROKEN);
}

static void on_fail(struct file_call *c, int error)
{
	struct watching *w = (struct watching *)c;

	if (error == FILE_GONE && c->r->begun) {
		say_end(w, c->why);
		return;
	}
	timer_clear(&w->g->loop, &w->comment);
	file_call_fail(c, error);
}

void box_watch(struct req *r)
{
	static const struct file_ops ops = {
		.bytes = on_bytes, .end = on_end, .fail = on_fail, .release = on_release
	};
	bool recursive = false;
	struct file_path p;
	struct abox *a = own_find_path(r, &p);
	struct watching *w;

	if (a == NULL || own_query_flag(r, "recursive", &recursive) < 0)
		return;
	if (r->head_only) { /* of its path nothing is known, then */
		req_begin(r, 200, "text/event-stream; charset=utf-8", -1);
		req_end(r);
		return;
	}
	w = (struct watching *)file_call_new(r, a, &own_shape, &p, &ops, sizeof(*w));
	if (w == NULL)
		return;
	w->g = r->g;
	json_init(&w->out);
	r->gone = on_gone;
	r->stop = on_stop;
	(void)file_call_run(&w->call, FILEOP_WATCH,
			    (const char *const[]){ recursive ? "1" : "0", NULL });
}
