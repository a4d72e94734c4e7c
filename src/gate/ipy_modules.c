// SPDX-License-Identifier: Apache-2.0
/*
 * Sources of the modules that Python in a box would import, without importing them: nobody's code is run to read it.
 *
 * A program of ours looks for them in the box, component by component, and prints one text for each. What it prints is read as
 * everything of a box is: it may say what it likes about the sources, and nothing else. Names in the answer are the request's. How many
 * answers are held here at once is bounded, since a box can ask, too.
 */
#include "gate/ipy.h"

#include "base/own.h"
#include "gate/buf.h"
#include "gate/ci.h"
#include "wire/json_text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	SOURCES_MAX = 4 * 1024 * 1024, /* as the box says them */
	LOOKS_MAX = 64,                /* under way, or not read to their end, in all boxes */
	BOX_LOOKS_MAX = 2,
	LOOK_US = 30 * 1000 * 1000,
	PIECE = 64 * 1024,
	NOT_FOUND = 3, /* exit status of the program */
};

/* Isolated (-I): neither the working directory nor a variable of the box decides what is imported here. The box's own places are
 * searched, not loaded from. PathFinder would do the same for one name; within a namespace it asks for the parent, which nobody
 * has imported. */
static const char program[] =
	"import json, os, site, sys\n"
	"from pkgutil import get_importer\n"
	"def find(name, path):\n"
	"  inside = []\n"
	"  for place in path:\n"
	"    finder = get_importer(place)\n"
	"    spec = finder.find_spec(name) if finder else None\n"
	"    if spec and spec.loader: return spec, spec.submodule_search_locations\n"
	"    if spec: inside += spec.submodule_search_locations\n"
	"  return None, inside\n"
	"def look(name):\n"
	"  path, parts = places, name.split('.')\n"
	"  if name in sys.builtin_module_names: return ''\n"
	"  for i, part in enumerate(parts):\n"
	"    if not part or '/' in part or path is None: return None\n"
	"    spec, path = find('.'.join(parts[:i + 1]), path)\n"
	"    if not spec and not path: return None\n"
	"  try: return spec.loader.get_source(name) or ''\n"
	"  except Exception: return ''\n"
	"places = [os.getcwd(), *sys.path, site.getusersitepackages()]\n"
	"texts = []\n"
	"for i, name in enumerate(sys.argv[1:]):\n"
	"  text = look(name)\n"
	"  if text is None: print(i); sys.exit(3)\n"
	"  texts.append(text)\n"
	"json.dump(texts, sys.stdout)\n";

/* --- a look under way ------------------------------------------------------------------------------- */

struct looking {
	struct req *r;  /* NULL: nobody waits any more */
	struct abox *a; /* NULL: it has been looked */
	struct gate *g;
	struct gjob job;
	struct buf said;
	bool too_much;
	struct json text; /* the answer, and how much of it was sent */
	size_t sent;
	struct deferred deferred;
};

static void looking_free(void *arg)
{
	struct looking *l = arg;

	buf_done(&l->said);
	json_done(&l->text);
	free(l);
}

/* The box has nothing more to do with it. */
static void looked(struct looking *l)
{
	if (l->a == NULL)
		return;
	l->a->looks--;
	abox_touch(l->a);
	l->a = NULL;
	gjob_drop(&l->job);
}

/* It is over; who waits is the caller's to answer. It stays until the end of this turn. */
static struct req *close_looking(struct looking *l)
{
	struct req *r = l->r;

	looked(l);
	l->g->looks--;
	r->work = NULL;
	r->gone = r->drained = NULL;
	l->r = NULL;
	loop_defer(&l->g->loop, &l->deferred, looking_free, l);
	return r;
}

static void on_gone(struct req *r)
{
	struct looking *l = r->work;

	if (l->a != NULL)
		gjob_signal(&l->job, SIGKILL, 0);
	(void)close_looking(l);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct looking *l = arg;

	if (stream == 1 && !l->too_much && buf_put(&l->said, p, n) < 0) {
		l->too_much = true;
		gjob_signal(&l->job, SIGKILL, 0);
	}
	gjob_ack(&l->job, number);
}

/* The names of the query, in their order. */
static unsigned int names_of(const struct req *r, const char *names[HTTP_QUERY_MAX])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->target.nquery; i++)
		if (http_slice_is(r->target.query[i].key, "q"))
			names[n++] = r->target.query[i].value.p;
	return n;
}

/* Which of them is missing, as the program says it. */
static void refuse_missing(struct req *r, const struct buf *said)
{
	const char *names[HTTP_QUERY_MAX];
	unsigned int n = names_of(r, names), at = 0;

	if (buf_len(said) > 0 && buf_len(said) < 4)
		for (size_t i = 0; i < buf_len(said); i++) {
			char c = buf_head(said)[i];

			if (c >= '0' && c <= '9')
				at = at * 10 + (unsigned int)(c - '0');
		}
	req_refuse(r, 404, NULL, NULL, "Module %s not found", names[at < n ? at : 0]);
}

/* As fast as the client takes it: how many answers are held is bounded. */
static void on_drained(struct req *r)
{
	struct looking *l = r->work;

	while (l->sent < l->text.len && req_queued(r) < REQ_LOW) {
		size_t n = l->text.len - l->sent < PIECE ? l->text.len - l->sent : PIECE;

		if (req_write(r, l->text.buf + l->sent, n) < 0)
			return; /* gone() comes */
		l->sent += n;
	}
	if (l->sent == l->text.len)
		req_end(close_looking(l));
}

/* {name: text…}; false: what the box said is none of that. */
static bool put_answer(struct looking *l)
{
	const char *names[HTTP_QUERY_MAX];
	unsigned int n = names_of(l->r, names), i = 0;
	struct json_text all, key, text;
	struct json_walk w;

	if (json_text_read(buf_head(&l->said), buf_len(&l->said), &all) < 0 ||
	    json_text_kind(all) != '[')
		return false;
	json_open(&l->text, NULL, '{');
	for (w = json_walk(all); i < n && json_walk_next(&w, &key, &text); i++) {
		if (json_text_kind(text) != '"')
			return false;
		json_text_put(text, &l->text, names[i]);
	}
	json_close(&l->text, '}');
	return i == n && !json_walk_next(&w, &key, &text) && !l->text.failed;
}

static void answer(struct looking *l)
{
	struct req *r = l->r;

	if (!put_answer(l)) {
		req_refuse(close_looking(l), 500, NULL, NULL,
			   "what the box said of its modules makes no sense");
		return;
	}
	looked(l);
	buf_done(&l->said);
	r->drained = on_drained;
	req_begin(r, 200, "application/json", (int64_t)l->text.len);
	on_drained(r);
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct looking *l = arg;

	gjob_ack(&l->job, number);
	if (x->how == JOB_EXITED && x->code == 0)
		answer(l);
	else if (x->how == JOB_EXITED && x->code == NOT_FOUND)
		refuse_missing(close_looking(l), &l->said);
	else if (l->too_much)
		req_refuse(close_looking(l), 413, NULL, NULL,
			   "these sources have more than %d bytes together", SOURCES_MAX);
	else
		req_refuse(close_looking(l), 503, NULL, NULL,
			   "modules could not be looked for in the box");
}

static void on_failed(void *arg, int error, const char *why)
{
	(void)error;
	req_refuse(close_looking(arg), 503, NULL, NULL,
		   "modules could not be looked for in the box: %s", why);
}

static void on_lost(void *arg)
{
	req_refuse(close_looking(arg), 410, NULL, NULL, "the box has ended");
}

/* --- the calls -------------------------------------------------------------------------------------- */

static int start(struct looking *l, const char *const *names, unsigned int n)
{
	static const struct gjob_ops ops = {
		.output = on_output, .ended = on_ended, .failed = on_failed, .lost = on_lost
	};
	const char *argv[5 + HTTP_QUERY_MAX] = { "/usr/bin/python3", "-I", "-c", program };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_ATTENDED,
				 .timeout_us = LOOK_US,
				 .cwd = l->a->box->cwd,
				 .argv = argv,
				 .envp = ci_environment() };

	for (unsigned int i = 0; i < n; i++)
		argv[4 + i] = names[i];
	return gjob_start(l->a->box, &l->job, 0, &spec, &ops, l);
}

/* As FastAPI says that a parameter is missing. */
static void refuse_nothing(struct req *r)
{
	static const char text[] = "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"query\",\"q\"],"
				   "\"msg\":\"Field required\",\"input\":null}]}";

	req_reply(r, 422, "application/json", text, sizeof(text) - 1);
}

void ipy_modules(struct req *r)
{
	const char *names[HTTP_QUERY_MAX];
	unsigned int n = names_of(r, names);
	struct abox *a = ipy_box(r);
	struct looking *l;

	if (a == NULL)
		return;
	if (n == 0) {
		refuse_nothing(r);
		return;
	}
	if (a->looks >= BOX_LOOKS_MAX || r->g->looks >= LOOKS_MAX) {
		req_header(r, "Retry-After", "1");
		req_refuse(r, 429, NULL, NULL, "modules are being looked for already");
		return;
	}
	l = a->box != NULL ? calloc(1, sizeof(*l)) : NULL;
	if (l == NULL) {
		req_refuse(r, 503, NULL, NULL, "out of memory");
		return;
	}
	*l = (struct looking){ .r = r, .a = a, .g = r->g };
	buf_init(&l->said, SOURCES_MAX);
	json_init(&l->text);
	a->looks++;
	r->g->looks++;
	abox_touch(a);
	r->work = l;
	r->gone = on_gone;
	if (start(l, names, n) < 0)
		req_refuse(close_looking(l), 503, NULL, NULL, "out of memory");
}
