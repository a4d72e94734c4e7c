// SPDX-License-Identifier: Apache-2.0
#include "gate/run.h"

#include "base/base64.h"
#include "base/own.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_MARKS = 8, FULL_US = 100000, OTHER_CROWD = RUN_OTHER_MAX / 4 };

static const char *const names[] = {
#define EVENT(id, name) name,
#include "gate/run_events.tbl"
#undef EVENT
};

const char *run_event_str(enum run_event e)
{
	return names[e];
}

void run_init(struct run *run, struct loop *loop, struct runs *all, struct run_share *share,
	      const char *what, size_t max, const struct run_ops *ops, void *arg)
{
	*run = (struct run){ .loop = loop,
			     .all = all,
			     .share = share,
			     .what = what,
			     .ops = ops,
			     .arg = arg,
			     .began_us = loop->now_us };
	buf_init(&run->out[0], max);
	buf_init(&run->out[1], max);
	buf_init(&run->other, RUN_OTHER_MAX + RUN_END_MAX);
}

static enum run_source source_of(unsigned int event)
{
	return event == RUN_STDOUT   ? RUN_OF_STDOUT
	       : event == RUN_STDERR ? RUN_OF_STDERR
				     : RUN_OF_OTHER;
}

/* --- what it holds ------------------------------------------------------------------------------ */

size_t run_bytes(const struct run *run)
{
	return run->out[0].cap + run->out[1].cap + run->other.cap + run->cap * sizeof(*run->marks);
}

static void count(struct run *run)
{
	size_t now = run_bytes(run);

	run->all->bytes += now - run->counted;
	run->share->bytes += now - run->counted;
	run->counted = now;
}

/* Whether there is room for n bytes more. */
static bool has_room(const struct run *run, size_t n)
{
	struct runs *all = run->all;
	uint64_t now = run->loop->now_us, *full_us = &run->share->full_us;
	bool found = true;

	all->writing = run;
	while (found && all->bytes + n > all->max)
		found = all->evict != NULL && now >= *full_us && all->evict(all->arg);
	all->writing = NULL;
	if (!found && now >= *full_us) /* who looks for it looks everywhere */
		*full_us = now + FULL_US;
	return found;
}

static void finish_done(struct run *run)
{
	run->telling = false;
	if (run->gone != NULL)
		run->gone(run->gone_arg);
}

static void on_last(void *arg)
{
	finish_done(arg);
}

static void drop_all(struct run *run)
{
	buf_done(&run->out[0]);
	buf_done(&run->out[1]);
	buf_done(&run->other);
	free(run->marks);
	run->marks = NULL;
	run->first = run->nmarks = run->cap = 0;
	count(run);
}

void run_done(struct run *run, void (*fn)(void *arg), void *arg)
{
	drop_all(run);
	run->dead = true;
	run->gone = fn;
	run->gone_arg = arg;
	if (!run->telling) /* else on_tell() goes on from here */
		loop_defer(run->loop, &run->last, on_last, run);
}

/* Room for one mark more; the older half goes when there are too many. */
static int reserve_mark(struct run *run)
{
	size_t held = run->nmarks - run->first, cap;
	struct run_mark *p;

	if (run->nmarks < run->cap)
		return 0;
	if (held >= RUN_MARKS_MAX)
		run->first += RUN_MARKS_MAX / 2;
	if (run->first > 0) {
		run->nmarks -= run->first;
		(void)memmove(run->marks, run->marks + run->first,
			      run->nmarks * sizeof(*run->marks));
		run->first = 0;
		return 0;
	}
	cap = run->cap > 0 ? run->cap * 2 : FIRST_MARKS;
	p = has_room(run, cap * sizeof(*p)) ? realloc(run->marks, cap * sizeof(*p)) : NULL;
	if (p == NULL)
		return -ENOMEM;
	run->marks = p;
	run->cap = cap;
	return 0;
}

/* A frame was told; those between it and the last one are missing, and so are their events. */
static void take_frame(struct run *run, uint64_t frame)
{
	uint64_t missing = frame > run->frame ? frame - run->frame - 1 : 0;

	if (frame == 0)
		return;
	if (missing > 0 && frame == run->known_frame + 1 && run->known_seq >= run->seq)
		run->seq = run->known_seq;
	else
		run->seq += missing;
	run->frame = frame;
}

static void put_mark(struct run *run, uint64_t frame, enum run_event e, size_t at, size_t n)
{
	take_frame(run, frame);
	run->seq++;
	if (reserve_mark(run) == 0)
		run->marks[run->nmarks++] = (struct run_mark){
			.seq = run->seq,
			.at = at,
			.n = (uint32_t)n,
			.t_ms = (uint32_t)((run->loop->now_us - run->began_us) / 1000),
			.event = (uint8_t)e,
		};
	count(run);
	run_tell(run);
}

/* --- writing -------------------------------------------------------------------------------------- */

/* Of a text all but what is not whole yet. */
static size_t covered(const struct run *run, unsigned int i)
{
	const struct buf *b = &run->out[i];
	size_t n = buf_len(b), fresh = n - run->taken[i];

	if (fresh == 0 || run->base64)
		return n;
	return n - utf8_unfinished((const unsigned char *)buf_head(b) + run->taken[i], fresh);
}

void run_output(struct run *run, uint64_t frame, unsigned int stream, const void *p, size_t n)
{
	unsigned int i = stream - 1;
	struct buf *b = &run->out[i];
	size_t room = buf_room(b), end, at = run->taken[i];

	if (n > room) {
		n = room;
		run->cut[i] = true;
	}
	/* Growing takes the old and the new piece at once, for a moment. */
	if (n > 0 &&
	    ((b->cap - b->end < n && !has_room(run, n + buf_len(b))) || buf_put(b, p, n) < 0))
		run->cut[i] = true;
	end = covered(run, i);
	run->taken[i] = end;
	put_mark(run, frame, i == 0 ? RUN_STDOUT : RUN_STDERR, at, end - at);
}

void run_nothing(struct run *run, uint64_t frame)
{
	take_frame(run, frame);
}

/* The last words are said, unless they are long. */
static bool is_last_word(enum run_event e, size_t n)
{
	return e == RUN_END || (e == RUN_REPLY && n <= RUN_END_MAX / 2);
}

bool run_event(struct run *run, uint64_t frame, enum run_event e, const char *members, size_t n)
{
	size_t at = buf_len(&run->other);
	bool fits = is_last_word(e, n) ||
		    (n <= RUN_OTHER_MAX - (at < RUN_OTHER_MAX ? at : RUN_OTHER_MAX) &&
		     has_room(run, n));

	if (n > 0 && (!fits || buf_put(&run->other, members, n) < 0)) {
		take_frame(run, frame);
		run->seq++; /* a gap, then */
		run->cut_other = true;
		run_tell(run);
		return false;
	}
	put_mark(run, frame, e, at, n);
	return true;
}

void run_end(struct run *run, uint64_t frame)
{
	struct json j;

	if (run->ended)
		return;
	/* Half a character that stays one. */
	for (unsigned int i = 0; i < 2; i++) {
		size_t at = run->taken[i], end = buf_len(&run->out[i]);

		run->taken[i] = end;
		if (at < end) {
			put_mark(run, frame, i == 0 ? RUN_STDOUT : RUN_STDERR, at, end - at);
			frame = 0;
		}
	}
	json_init(&j);
	run_answer(run, &j, 0);
	/* Without its braces, as other events have it. */
	if (!j.failed && j.len > 2)
		(void)run_event(run, frame, RUN_END, j.buf + 1, j.len - 2);
	json_done(&j);
	run->ended = true;
	run_tell(run);
}

void run_lose(struct run *run)
{
	run->lost = true;
	run_tell(run);
}

void run_forget(struct run *run)
{
	struct run_mark last = { 0 };
	char *text = NULL;

	for (size_t i = run->nmarks; i > run->first && last.event != RUN_END; i--)
		last = run->marks[i - 1];
	if (last.event == RUN_END)
		text = malloc(last.n);
	if (text != NULL)
		(void)memcpy(text, buf_head(&run->other) + last.at, last.n);
	for (unsigned int i = 0; i < 2; i++)
		run->cut[i] = run->cut[i] || buf_len(&run->out[i]) > 0;
	run->cut_other = run->cut_other || buf_len(&run->other) > last.n;
	drop_all(run);
	run->taken[0] = run->taken[1] = 0;
	if (text != NULL && buf_put(&run->other, text, last.n) == 0) {
		last.at = 0;
		if (reserve_mark(run) == 0)
			run->marks[run->nmarks++] = last;
	}
	free(text);
	count(run);
}

/* Where the first mark of a source that stays begins; n: none does. */
static size_t first_of(const struct run *run, size_t from, unsigned int source, size_t n)
{
	for (size_t i = from; i < run->nmarks; i++)
		if (source_of(run->marks[i].event) == source)
			return run->marks[i].at;
	return n;
}

void run_trim(struct run *run, uint64_t last)
{
	size_t keep = run->first, drop[RUN_SOURCES];

	for (const struct run_reader *rd = run->readers; rd != NULL; rd = rd->next)
		if (rd->inside)
			return;
	while (keep < run->nmarks && run->marks[keep].seq <= last)
		keep++;
	if (keep == run->first)
		return;
	drop[RUN_OF_STDOUT] = first_of(run, keep, RUN_OF_STDOUT, run->taken[0]);
	drop[RUN_OF_STDERR] = first_of(run, keep, RUN_OF_STDERR, run->taken[1]);
	drop[RUN_OF_OTHER] = first_of(run, keep, RUN_OF_OTHER, buf_len(&run->other));
	for (size_t i = keep; i < run->nmarks; i++)
		run->marks[i].at -= drop[source_of(run->marks[i].event)];
	for (unsigned int i = 0; i < 2; i++) {
		run->taken[i] -= drop[i];
		run->trimmed[i] = run->trimmed[i] || drop[i] > 0;
		buf_take(&run->out[i], drop[i]);
	}
	buf_take(&run->other, drop[RUN_OF_OTHER]);
	run->first = keep;
	count(run);
}

bool run_is_crowded(const struct run *run)
{
	return buf_len(&run->out[0]) > run->out[0].max / 2 ||
	       buf_len(&run->out[1]) > run->out[1].max / 2 || buf_len(&run->other) > OTHER_CROWD ||
	       run->nmarks - run->first > RUN_MARKS_MAX / 2;
}

/* --- answers ---------------------------------------------------------------------------------------- */

void run_put_value(const struct run *run, struct json *j, const char *p, size_t n)
{
	if (!run_leave_out(run, j, RUN_OF_OTHER, (size_t)(p - buf_head(&run->other)), n))
		json_raw(j, p, n);
}

/* Bytes as the client wants them, between quotes: text, or base64. */
static void put_bytes(struct json *j, bool base64, const void *p, size_t n)
{
	char *text;

	if (!base64) {
		json_chars(j, p, n);
		return;
	}
	text = malloc(BASE64_TEXT_LEN(n) + 1);
	if (text == NULL)
		j->failed = true;
	else
		json_raw(j, text, base64_encode(p, n, text));
	free(text);
}

const char *run_mark_bytes(const struct run *run, const struct run_mark *m)
{
	enum run_source of = source_of(m->event);
	const struct buf *b = of == RUN_OF_OTHER ? &run->other : &run->out[of];

	return m->n > 0 ? buf_head(b) + m->at : "";
}

void run_put_text(const struct run *run, struct json *j, const char *key, unsigned int stream,
		  size_t at, size_t n)
{
	json_value(j, key);
	json_raw(j, "\"", 1);
	if (n > 0 && !run_leave_out(run, j, stream == 1 ? RUN_OF_STDOUT : RUN_OF_STDERR, at, n))
		put_bytes(j, run->base64, buf_head(&run->out[stream - 1]) + at, n);
	json_raw(j, "\"", 1);
}

static void put_out(struct json *j, const char *key, const struct run *run, unsigned int stream)
{
	size_t n = buf_len(&run->out[stream - 1]), from = 0;

	if (run->ops->text_from != NULL)
		from = run->ops->text_from(run->arg, stream);
	run_put_text(run, j, key, stream, from, n > from ? n - from : 0);
}

void run_answer(const struct run *run, struct json *j, unsigned int parts)
{
	json_open(j, NULL, '{');
	run->ops->put(run->arg, j);
	if ((parts & RUN_OUTPUT) != 0) {
		put_out(j, "stdout", run, 1);
		put_out(j, "stderr", run, 2);
		if (run->ops->put_output != NULL)
			run->ops->put_output(run->arg, j, parts);
	}
	json_open(j, "truncated", '{');
	json_bool(j, "stdout", run->cut[0] || run->trimmed[0]);
	json_bool(j, "stderr", run->cut[1] || run->trimmed[1]);
	if (run->ops->put_output != NULL)
		json_bool(j, "results", run->cut_other);
	json_close(j, '}');
	json_close(j, '}');
}

/* --- reading ------------------------------------------------------------------------------------------ */

static void on_tell(void *arg)
{
	struct run *run = arg;
	struct run_reader *rd = run->readers;

	/* From the front again after each: whoever was called may have changed the list. */
	while (rd != NULL && !run->dead) {
		if (!rd->news) {
			rd = rd->next;
			continue;
		}
		rd->news = false;
		rd->more(rd);
		rd = run->readers;
	}
	run->telling = false;
	if (run->dead)
		finish_done(run);
}

void run_tell(struct run *run)
{
	bool any = false;

	for (struct run_reader *rd = run->readers; rd != NULL; rd = rd->next)
		any = rd->news = true;
	if (!any || run->telling)
		return;
	run->telling = true;
	loop_defer(run->loop, &run->tell, on_tell, run);
}

void run_attach(struct run *run, struct run_reader *rd, uint64_t after,
		void (*more)(struct run_reader *rd))
{
	*rd = (struct run_reader){ .run = run, .next = run->readers, .after = after, .more = more };
	if (rd->next != NULL)
		rd->next->prev = rd;
	run->readers = rd;
	run_tell(run);
}

void run_detach(struct run_reader *rd)
{
	struct run *run = rd->run;

	if (run == NULL)
		return;
	rd->run = NULL;
	if (rd->prev != NULL)
		rd->prev->next = rd->next;
	else
		run->readers = rd->next;
	if (rd->next != NULL)
		rd->next->prev = rd->prev;
	if (run->readers == NULL && run->ops->alone != NULL)
		run->ops->alone(run->arg);
}

void run_outside(struct run_reader *rd)
{
	if (!rd->inside)
		return;
	rd->inside = false;
	if (rd->run != NULL)
		run_tell(rd->run);
}

void run_leave(struct run_reader *rd)
{
	run_outside(rd);
	run_detach(rd);
}

/* The first mark behind a number. */
static const struct run_mark *find(const struct run *run, uint64_t after)
{
	size_t low = run->first, high = run->nmarks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (run->marks[middle].seq > after)
			high = middle;
		else
			low = middle + 1;
	}
	return low < run->nmarks ? &run->marks[low] : NULL;
}

static void open_event(struct json *j, const struct run *run, uint64_t seq, uint32_t t_ms)
{
	json_restart(j);
	json_open(j, NULL, '{');
	json_str(j, run->what, run->id);
	json_u64(j, "seq", seq);
	json_u64(j, "t_ms", t_ms);
}

static void put_event(struct json *j, const struct run *run, const struct run_mark *m)
{
	open_event(j, run, m->seq, m->t_ms);
	if (m->event == RUN_STDOUT || m->event == RUN_STDERR) {
		run_put_text(run, j, "data", m->event == RUN_STDOUT ? 1 : 2, m->at, m->n);
	} else if (m->n > 0) {
		json_raw(j, ",", 1);
		run_put_value(run, j, run_mark_bytes(run, m), m->n);
	}
	json_close(j, '}');
}

static void put_gap(struct json *j, const struct run *run, uint64_t from, uint64_t to,
		    uint32_t t_ms)
{
	open_event(j, run, to, t_ms);
	json_u64(j, "from", from);
	json_u64(j, "to", to);
	json_close(j, '}');
}

uint64_t run_last(const struct run *run, enum run_event e)
{
	for (size_t i = run->nmarks; i > run->first; i--)
		if (run->marks[i - 1].event == (uint8_t)e)
			return run->marks[i - 1].seq - 1;
	return run->seq;
}

bool run_next(const struct run_reader *rd, struct run_told *ret)
{
	const struct run *run = rd->run;
	const struct run_mark *m = find(run, rd->after);
	uint64_t next = m != NULL ? m->seq : run->seq + 1;

	if (rd->after >= run->seq)
		return false;
	if (m == NULL || next > rd->after + 1)
		*ret = (struct run_told){ RUN_GAP, next - 1 };
	else
		*ret = (struct run_told){ (enum run_event)m->event, m->seq };
	return true;
}

size_t run_next_bytes(const struct run_reader *rd)
{
	const struct run_mark *m = find(rd->run, rd->after);

	return m != NULL && rd->after < rd->run->seq ? m->n : 0;
}

bool run_take(struct run_reader *rd, struct run_told *ret, const char **p, size_t *n)
{
	const struct run *run = rd->run;
	const struct run_mark *m = find(run, rd->after);

	if (!run_next(rd, ret))
		return false;
	*n = ret->event != RUN_GAP ? m->n : 0;
	*p = *n > 0 ? run_mark_bytes(run, m) : "";
	rd->after = ret->seq;
	return true;
}

bool run_read(struct run_reader *rd, struct json *j, struct run_told *ret)
{
	const struct run *run = rd->run;
	const struct run_mark *m = find(run, rd->after);

	if (!run_next(rd, ret))
		return false;
	if (ret->event == RUN_GAP)
		put_gap(j, run, rd->after + 1, ret->seq, m != NULL ? m->t_ms : 0);
	else
		put_event(j, run, m);
	if (!j->failed)
		rd->after = ret->seq;
	return true;
}
