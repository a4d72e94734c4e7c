// SPDX-License-Identifier: Apache-2.0
/*
 * The log is gone through twice: once for where the last clear left it, once to write what stands behind that. Which
 * update a display has is found in between, by sorting both by their ids: a kernel chooses these, and could choose such
 * as fall together in a table.
 */
#include "gate/cell_messages.h"

#include "wire/json_text.h"

#include <stdlib.h>
#include <string.h>

/* What is left: marks from the first one on, and of each stream the bytes from here. */
struct kept {
	size_t first, text[2];
};

static bool is_text(const struct run_mark *m)
{
	return m->event == RUN_STDOUT || m->event == RUN_STDERR;
}

static bool is_shown(const struct run_mark *m)
{
	return m->event == RUN_DISPLAY || m->event == RUN_RESULT;
}

static unsigned int stream_of(const struct run_mark *m)
{
	return m->event == RUN_STDOUT ? 0 : 1;
}

/* A member of an event, as we wrote it. */
static struct json_text member(const struct run *run, const struct run_mark *m, const char *name)
{
	const char *p = run_mark_bytes(run, m);
	struct json_walk w = { p, p + m->n };
	struct json_text key, value;
	size_t n = strlen(name);

	while (json_walk_next(&w, &key, &value))
		if (key.n == n + 2 && memcmp(key.p + 1, name, n) == 0)
			return value;
	return (struct json_text){ NULL, 0 };
}

/* --- clears ----------------------------------------------------------------------------------------- */

struct clearing {
	struct kept kept;
	bool waits;
	bool cut[2]; /* where the text of this stream goes on is not known yet */
};

static bool waits(const struct run *run, const struct run_mark *clear)
{
	struct json_text wait = member(run, clear, "wait");

	return wait.p != NULL && *wait.p == 't';
}

static void clear(struct clearing *c, size_t first)
{
	c->kept.first = first;
	c->waits = false;
	c->cut[0] = c->cut[1] = true;
}

static void look_at(struct clearing *c, const struct run *run, size_t i)
{
	const struct run_mark *m = &run->marks[i];
	unsigned int s = stream_of(m);

	if (c->waits && (is_text(m) || is_shown(m) || m->event == RUN_ERROR))
		clear(c, i);
	if (is_text(m) && c->cut[s]) {
		c->kept.text[s] = m->at;
		c->cut[s] = false;
	}
	if (m->event == RUN_CLEAR && waits(run, m))
		c->waits = true;
	else if (m->event == RUN_CLEAR)
		clear(c, i + 1);
}

static struct kept find_kept(const struct run *run)
{
	struct clearing c = { .kept.first = run->first };

	for (size_t i = run->first; i < run->nmarks; i++)
		look_at(&c, run, i);
	for (unsigned int s = 0; s < 2; s++)
		if (c.cut[s])
			c.kept.text[s] = run->taken[s];
	return c.kept;
}

size_t cell_text_from(const struct run *run, unsigned int stream)
{
	return find_kept(run).text[stream - 1];
}

/* --- updates ---------------------------------------------------------------------------------------- */

/* A display, a result or an update that has an id. */
struct named {
	struct json_text id;
	size_t mark;
};

static int compare_ids(const struct named *a, const struct named *b)
{
	size_t n = a->id.n < b->id.n ? a->id.n : b->id.n;
	int rc = memcmp(a->id.p, b->id.p, n);

	return rc != 0 ? rc : (a->id.n > b->id.n) - (a->id.n < b->id.n);
}

static int compare(const void *left, const void *right)
{
	const struct named *a = left, *b = right;
	int rc = compare_ids(a, b);

	return rc != 0 ? rc : (a->mark > b->mark) - (a->mark < b->mark);
}

static size_t list_named(const struct run *run, size_t first, struct named *v)
{
	size_t n = 0;

	for (size_t i = first; i < run->nmarks; i++) {
		const struct run_mark *m = &run->marks[i];

		if (!is_shown(m) && m->event != RUN_UPDATE)
			continue;
		v[n] = (struct named){ member(run, m, "display_id"), i };
		n += json_text_kind(v[n].id) == '"';
	}
	return n;
}

/* From the back: the first update of an id that is met is the one that counts, for all that was displayed before it. */
static void assign(const struct run *run, const struct named *v, size_t n, size_t first,
		   const struct run_mark **ret)
{
	const struct run_mark *update = NULL;
	size_t copies = 0; /* bytes */
	bool used = false;

	for (size_t i = n; i-- > 0;) {
		const struct run_mark *m = &run->marks[v[i].mark];

		if (i + 1 < n && compare_ids(&v[i], &v[i + 1]) != 0)
			update = NULL;
		if (m->event == RUN_UPDATE && update == NULL) {
			update = m;
			used = false;
		}
		if (m->event == RUN_UPDATE || update == NULL)
			continue;
		if (used && update->n > RUN_OTHER_MAX - copies)
			continue;
		copies += used ? update->n : 0;
		used = true;
		ret[v[i].mark - first] = update;
	}
}

static bool has_updates(const struct run *run, size_t first)
{
	for (size_t i = first; i < run->nmarks; i++)
		if (run->marks[i].event == RUN_UPDATE)
			return true;
	return false;
}

/* By mark from the first one on: the update that it has, or NULL. NULL: there are none, or no memory. */
static const struct run_mark **find_updates(const struct run *run, size_t first, struct json *j)
{
	size_t n = run->nmarks - first;
	const struct run_mark **ret;
	struct named *v;

	if (!has_updates(run, first))
		return NULL;
	v = malloc(n * sizeof(*v));
	ret = calloc(n, sizeof(*ret));
	if (v != NULL && ret != NULL) {
		n = list_named(run, first, v);
		qsort(v, n, sizeof(*v), compare);
		assign(run, v, n, first, ret);
	} else {
		j->failed = true;
	}
	free(v);
	return ret;
}

/* --- writing ------------------------------------------------------------------------------------------ */

struct output {
	const struct run *run;
	struct json *j;
	struct kept kept;
	const struct run_mark **updates;
	/* Text that has come and is not written: what comes next may be more of it. */
	unsigned int stream;
	size_t at[2], end; /* at: of each stream, what is not written yet */
};

/* What becomes of an event's members, and of whom an update has them. */
struct rename {
	const char *from, *to;
	bool updated;
};

enum { RENAMES_MAX = 4 };

static const struct rename as_result[RENAMES_MAX] = {
	{ "display_id", "display_id", false },
	{ "data", "data", true },
	{ "metadata", "metadata", true },
	{ "execution_count", "execution_count", false },
};

static const struct rename as_output[RENAMES_MAX] = {
	{ "data", "data", true },
	{ "metadata", "metadata", true },
	{ "execution_count", "execution_count", false },
};

static const struct rename as_error[RENAMES_MAX] = {
	{ "name", "ename", false },
	{ "value", "evalue", false },
	{ "traceback", "traceback", false },
};

static void put_members(const struct output *o, size_t i, const struct rename *renames)
{
	const struct run_mark *m = &o->run->marks[i];
	const struct run_mark *update = o->updates != NULL ? o->updates[i - o->kept.first] : NULL;

	for (unsigned int k = 0; k < RENAMES_MAX && renames[k].from != NULL; k++) {
		const struct run_mark *of = renames[k].updated && update != NULL ? update : m;
		struct json_text value = member(o->run, of, renames[k].from);

		if (value.p == NULL)
			continue;
		json_value(o->j, renames[k].to);
		run_put_value(o->run, o->j, value.p, value.n);
	}
}

static void put_results(const struct output *o)
{
	json_open(o->j, "results", '[');
	for (size_t i = o->kept.first; i < o->run->nmarks; i++) {
		const struct run_mark *m = &o->run->marks[i];

		if (!is_shown(m))
			continue;
		json_open(o->j, NULL, '{');
		json_str(o->j, "type", run_event_str((enum run_event)m->event));
		put_members(o, i, as_result);
		json_close(o->j, '}');
	}
	json_close(o->j, ']');
}

static void open_output(const struct output *o, const char *type)
{
	json_open(o->j, NULL, '{');
	json_str(o->j, "output_type", type);
}

static void put_piece(struct output *o)
{
	unsigned int s = o->stream;

	if (o->end == o->at[s])
		return;
	open_output(o, "stream");
	json_str(o->j, "name", s == 0 ? "stdout" : "stderr");
	run_put_text(o->run, o->j, "text", s + 1, o->at[s], o->end - o->at[s]);
	json_close(o->j, '}');
	o->at[s] = o->end;
}

/* There is text of a stream, up to here. */
static void add_text(struct output *o, unsigned int s, size_t end)
{
	if (s != o->stream && end > o->at[s]) {
		put_piece(o);
		o->stream = s;
		o->end = o->at[s];
	}
	if (s == o->stream && end > o->end)
		o->end = end;
}

static void put_output(struct output *o, size_t i, const char *type, const struct rename *renames)
{
	put_piece(o);
	open_output(o, type);
	put_members(o, i, renames);
	json_close(o->j, '}');
}

static void put_outputs(struct output *o)
{
	const struct run *run = o->run;

	json_open(o->j, "outputs", '[');
	for (size_t i = o->kept.first; i < run->nmarks; i++) {
		const struct run_mark *m = &run->marks[i];

		if (is_text(m))
			add_text(o, stream_of(m), m->at + m->n);
		else if (m->event == RUN_DISPLAY)
			put_output(o, i, "display_data", as_output);
		else if (m->event == RUN_RESULT)
			put_output(o, i, "execute_result", as_output);
		else if (m->event == RUN_ERROR)
			put_output(o, i, "error", as_error);
	}
	for (unsigned int s = 0; s < 2; s++)
		add_text(o, s, buf_len(&run->out[s]));
	put_piece(o);
	json_close(o->j, ']');
}

void cell_put_results(const struct run *run, struct json *j, bool outputs)
{
	struct output o = { .run = run, .j = j, .kept = find_kept(run) };

	o.updates = find_updates(run, o.kept.first, j);
	o.at[0] = o.end = o.kept.text[0];
	o.at[1] = o.kept.text[1];
	put_results(&o);
	if (outputs)
		put_outputs(&o);
	free(o.updates);
}
