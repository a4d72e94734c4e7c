// SPDX-License-Identifier: Apache-2.0
/*
 * Sources of the modules that Python in a box would import, without importing them: nobody's code is run to read it.
 *
 * A program of ours looks for them in the box, component by component, and prints one text for each. What it prints is read as
 * everything of a box is: it may say what it likes about the sources, and nothing else. Names in the answer are the request's.
 */
#include "gate/ipy.h"
#include "gate/ipy_program.h"

#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>

enum {
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
	struct ipy_program program; /* its first member */
	struct json text;           /* the answer, and how much of it was sent */
	size_t sent;
};

static void on_release(struct ipy_program *p)
{
	json_done(&((struct looking *)p)->text);
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
		req_end(ipy_program_close(&l->program));
}

/* {name: text…}; false: what the box said is none of that. */
static bool put_answer(struct looking *l)
{
	const char *names[HTTP_QUERY_MAX];
	unsigned int n = names_of(l->program.r, names), i = 0;
	struct json_text all, key, text;
	struct json_walk w;

	if (json_text_read(buf_head(&l->program.said), buf_len(&l->program.said), &all) < 0 ||
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
	struct req *r = l->program.r;

	if (!put_answer(l)) {
		req_refuse(ipy_program_close(&l->program), 500, NULL, NULL,
			   "what the box said of its modules makes no sense");
		return;
	}
	ipy_program_ran(&l->program);
	buf_done(&l->program.said);
	r->drained = on_drained;
	req_begin(r, 200, "application/json", (int64_t)l->text.len);
	on_drained(r);
}

static void on_ended(struct ipy_program *p, int status)
{
	if (status == 0)
		answer((struct looking *)p);
	else if (status == NOT_FOUND)
		refuse_missing(ipy_program_close(p), &p->said);
	else
		req_refuse(ipy_program_close(p), 503, NULL, NULL, "%s in the box", p->ops->what);
}

/* --- the calls -------------------------------------------------------------------------------------- */

/* As FastAPI says that a parameter is missing. */
static void refuse_nothing(struct req *r)
{
	static const char text[] = "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"query\",\"q\"],"
				   "\"msg\":\"Field required\",\"input\":null}]}";

	req_reply(r, 422, "application/json", text, sizeof(text) - 1);
}

void ipy_modules(struct req *r)
{
	static const struct ipy_program_ops ops = { .ended = on_ended,
						    .release = on_release,
						    .what = "modules could not be looked for" };
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
	l = (struct looking *)ipy_program_new(r, a, &ops, sizeof(*l));
	if (l == NULL)
		return;
	json_init(&l->text);
	(void)ipy_program_run(&l->program, program, names, n, NULL, 0);
}
