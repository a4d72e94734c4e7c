// SPDX-License-Identifier: Apache-2.0
/* `glovebox ps`: boxes, how long they have been there and what runs in them. */
#include "cli/box_api.h"

#include "base/own.h"
#include "base/str.h"
#include "cli/line_screen.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 7, CELL = 128, RUNS_MAX = 4, PAGES_MAX = 1000 };

struct ps {
	struct client_opts o; /* the first member, see there */
	struct client c;
	char (*rows)[COLUMNS][CELL];
	size_t n, cap;
	bool failed;
};

static const struct opt rows[] = {
	CLIENT_JSON_ROW("one JSON object per box and line"),
	CLIENT_ROWS,
};

static void help(void)
{
	(void)printf("usage: glovebox ps [options]\n\n"
		     "Lists your boxes, the oldest first. IDLE: how long ago something last ran "
		     "there; MEMORY: the\n"
		     "most that it has used so far.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
}

/* --- one box -------------------------------------------------------------------------------------- */

/* What runs or waits in a box, and when something last did. */
struct activity {
	struct json runs; /* a list */
	char text[CELL];
	unsigned int n;
	int64_t last_ms;
};

static void add_run(struct activity *a, const struct reply *r, const struct jsonr_node *n,
		    const char *kind)
{
	const char *summary = node_str(&r->doc, n, "summary");
	size_t used = strlen(a->text);

	json_open(&a->runs, NULL, '{');
	json_str(&a->runs, "kind", kind);
	json_str(&a->runs, "id", node_str(&r->doc, n, "id"));
	json_str(&a->runs, "status", node_str(&r->doc, n, "status"));
	json_str(&a->runs, "summary", summary);
	json_str(&a->runs, "started_at", node_str(&r->doc, n, "started_at"));
	json_close(&a->runs, '}');
	if (a->n++ < RUNS_MAX)
		(void)snprintf(a->text + used, sizeof(a->text) - used, "%s%.*s",
			       used > 0 ? "; " : "", (int)jsonr_cut(summary, strlen(summary), 60),
			       summary);
}

static int look_at(struct ps *p, const char *box, const char *kind, struct activity *a,
		   struct err *e)
{
	char path[BOX_PATH], list[16];
	struct reply r;

	(void)snprintf(list, sizeof(list), "%ss", kind);
	api_path(path, box, "/%s", list);
	if (api(&p->c, "GET", path, NULL, &r, e) < 0)
		return -1;
	for (const struct jsonr_node *n =
		     jsonr_first(&r.doc, jsonr_get(&r.doc, reply_root(&r), list));
	     n != NULL; n = jsonr_next(&r.doc, n)) {
		int64_t ended = api_time_ms(node_str(&r.doc, n, "ended_at"));

		if (ended < 0)
			add_run(a, &r, n, kind);
		else if (ended > a->last_ms)
			a->last_ms = ended;
	}
	reply_free(&r);
	return 0;
}

static void set(char cell[CELL], const char *text)
{
	(void)snprintf(cell, CELL, "%.*s", (int)jsonr_cut(text, strlen(text), CELL - 1), text);
	say_harmless(cell);
}

static void add_row(struct ps *p, const struct reply *r, const struct activity *a)
{
	const struct jsonr_node *root = reply_root(r);
	const struct jsonr_node *figures = jsonr_get(&r->doc, root, "figures");
	int64_t made = api_time_ms(node_str(&r->doc, root, "created_at")), now = api_now_ms();
	int64_t memory = node_int(&r->doc, figures, "peak_memory_bytes", -1);
	int64_t last = a->last_ms > made ? a->last_ms : made;
	char(*row)[CELL];
	char buf[32];

	if (p->n == p->cap) {
		size_t cap = p->cap * 2 + 16;
		void *v = reallocarray(p->rows, cap, sizeof(*p->rows));

		if (v == NULL)
			return;
		p->rows = v;
		p->cap = cap;
	}
	row = p->rows[p->n++];
	set(row[0], node_str(&r->doc, root, "id"));
	set(row[1], node_str(&r->doc, root, "name"));
	set(row[2], node_str(&r->doc, root, "state"));
	set(row[3], api_age(made < 0 ? -1 : now > made ? now - made : 0, buf, sizeof(buf)));
	set(row[4],
	    a->n > 0 || last < 0 ? "-" : api_age(now > last ? now - last : 0, buf, sizeof(buf)));
	set(row[5], memory < 0 ? "-" : str_from_bytes((uint64_t)memory, buf, sizeof(buf)));
	set(row[6], a->text);
}

static int print_json(const struct reply *r, const struct activity *a, struct err *e)
{
	struct json j;
	int rc;

	json_init(&j);
	json_open(&j, NULL, '{');
	api_put_members(&r->doc, reply_root(r), &j);
	json_value(&j, "running");
	json_raw(&j, a->runs.buf, a->runs.len);
	json_close(&j, '}');
	j.failed |= a->runs.failed;
	rc = api_print_json(&j);
	return rc < 0 ? err_set(e, ERR_SYS, -rc, "write to standard output") : 0;
}

/* A box may end while we look at it: then it is not there. */
static int add_box(struct ps *p, const char *id, struct err *e)
{
	struct activity a = { .last_ms = -1 };
	char path[BOX_PATH];
	struct reply r;
	int rc = 0;

	api_path(path, id, "%s", "");
	if (box_name_check(id, e) < 0)
		return err_set(e, ERR_PROTO, 0, "the server has a box without an id");
	if (api(&p->c, "GET", path, NULL, &r, e) < 0)
		return api_is_gone(&p->c) ? 0 : -1;
	json_init(&a.runs);
	json_open(&a.runs, NULL, '[');
	if (look_at(p, id, "cell", &a, e) < 0 || look_at(p, id, "command", &a, e) < 0)
		rc = api_is_gone(&p->c) ? 1 : -1;
	json_close(&a.runs, ']');
	if (rc == 0 && p->o.json)
		rc = print_json(&r, &a, e);
	else if (rc == 0)
		add_row(p, &r, &a);
	json_done(&a.runs);
	reply_free(&r);
	return rc < 0 ? -1 : 0;
}

/* --- all ------------------------------------------------------------------------------------------ */

/* The end of a line may be as long as it likes; other columns are as wide as their widest. */
static void print_rows(const struct ps *p)
{
	static const char *const heads[COLUMNS] = { "ID",   "NAME",   "STATE", "AGE",
						    "IDLE", "MEMORY", "RUNS" };
	unsigned int width[COLUMNS];

	for (unsigned int c = 0; c < COLUMNS; c++) {
		width[c] = (unsigned int)strlen(heads[c]);
		for (size_t i = 0; i < p->n; i++) {
			unsigned int w = text_width(p->rows[i][c], strlen(p->rows[i][c]));

			width[c] = w > width[c] ? w : width[c];
		}
	}
	for (size_t i = 0; i <= p->n; i++)
		for (unsigned int c = 0; c < COLUMNS; c++) {
			const char *text = i == 0 ? heads[c] : p->rows[i - 1][c];
			unsigned int pad = width[c] - text_width(text, strlen(text)) + 2;

			(void)printf("%s%*s", text, c + 1 < COLUMNS ? (int)pad : 0, "");
			if (c + 1 == COLUMNS)
				(void)putchar('\n');
		}
}

static int list_boxes(struct ps *p, struct err *e)
{
	char path[BOX_PATH] = "/v1/boxes?limit=500", after[80] = "";
	int rc = 0;

	for (unsigned int page = 0; page < PAGES_MAX && rc == 0; page++) {
		struct reply r;

		if (after[0] != '\0')
			(void)snprintf(path, sizeof(path), "/v1/boxes?limit=500&after=%s", after);
		if (api(&p->c, "GET", path, NULL, &r, e) < 0)
			return -1;
		for (const struct jsonr_node *n =
			     jsonr_first(&r.doc, jsonr_get(&r.doc, reply_root(&r), "boxes"));
		     n != NULL && rc == 0; n = jsonr_next(&r.doc, n))
			rc = add_box(p, node_str(&r.doc, n, "id"), e);
		(void)snprintf(after, sizeof(after), "%s",
			       node_str(&r.doc, reply_root(&r), "next"));
		reply_free(&r);
		if (after[0] == '\0' || box_name_check(after, e) < 0)
			break;
	}
	return rc;
}

int verb_ps(int argc, char **argv)
{
	static struct ps p;
	struct err e = { .kind = ERR_NONE };
	int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, &p, &e), r;

	if (at < 0)
		return say_err(&e);
	if (p.o.help) {
		help();
		return 0;
	}
	if (at < argc) {
		(void)err_set(&e, ERR_USAGE, 0, "'%s' is no option", argv[at]);
		return say_err(&e);
	}
	(void)setlocale(LC_CTYPE, "C.UTF-8"); /* for widths */
	if (api_open(&p.o, &p.c, &e) < 0)
		return say_err(&e);
	r = list_boxes(&p, &e);
	if (r == 0 && !p.o.json) {
		print_rows(&p);
		if (fflush(stdout) != 0 || ferror(stdout))
			r = err_set(&e, ERR_SYS, errno, "write to standard output");
	}
	client_done(&p.c);
	free(p.rows);
	return r < 0 ? say_err(&e) : 0;
}
