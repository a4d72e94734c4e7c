// SPDX-License-Identifier: Apache-2.0
#include "cli/cp.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { RUN_TIMEOUT_MS = 600000, PID_TRIES = 200, KEEP_S = 60, WORDS = 300 };

/* --- the command line ----------------------------------------------------------------------------- */

static int take_max(void *ctx, const char *v, struct err *e)
{
	if (str_to_bytes(v, &((struct cp *)ctx)->max_bytes) < 0)
		return err_set(e, ERR_USAGE, 0, "--max '%s' is no number of bytes such as 256M", v);
	return 0;
}

static const struct opt rows[] = {
	{ "max", 0, OPT_ARG, "SIZE", "take at most so much out of a box [8G]", take_max, NULL },
	CLIENT_JSON_ROW("one JSON object at the end: files, bytes, skipped"),
	CLIENT_ROWS,
};

static void help(void)
{
	(void)printf(
		"usage: glovebox cp [options] SRC BOX:DEST\n"
		"       glovebox cp [options] BOX:SRC DEST\n\n"
		"Copies a file or a directory into a box or out of it. BOX is an id or "
		"name:NAME; its relative\n"
		"paths are those of /workspace. A directory that is there gets the copy into it; "
		"otherwise DEST\n"
		"is its name. Links that lead out of what is copied stay behind, and so does "
		"everything that is\n"
		"neither file, directory nor link.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
}

/* BOX:PATH; what begins with / or . is a path of this machine whatever follows. -1: it is no box's. */
static int split(char *arg, char **path)
{
	char *colon = strncmp(arg, "name:", 5) == 0 ? strchr(arg + 5, ':') : strchr(arg, ':');

	if (arg[0] == '/' || arg[0] == '.' || colon == NULL ||
	    memchr(arg, '/', (size_t)(colon - arg)))
		return -1;
	*colon = '\0';
	*path = colon + 1;
	return 0;
}

void cp_skip(struct cp *cp, const char *path, const char *why)
{
	cp->skipped++;
	if (cp->skipped <= CP_SKIPPED_SHOWN)
		say("left out '%s': %s", path, why);
	else if (cp->skipped == CP_SKIPPED_SHOWN + 1)
		say("and more, which are not named");
}

/* --- commands in the box -------------------------------------------------------------------------- */

static void put_command(struct json *j, const char *const *argv, const char *input)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_open(j, "argv", '[');
	for (; *argv != NULL; argv++)
		json_str(j, NULL, *argv);
	json_close(j, ']');
	json_null(j, "timeout_ms");
	if (input != NULL)
		json_str(j, "stdin", input);
}

int cp_run(struct cp *cp, const char *const *argv, const char *input, struct reply *r,
	   struct err *e)
{
	char path[BOX_PATH];
	struct call q = { .method = "POST", .path = path, .timeout_ms = RUN_TIMEOUT_MS };
	struct json j;
	int rc;

	api_path(path, cp->box, "/commands");
	put_command(&j, argv, input);
	json_str(&j, "output_encoding", "base64");
	json_close(&j, '}');
	q.body = &j;
	rc = client_call(&cp->c, &q, r, e);
	json_done(&j);
	if (rc < 0 || r->status == 200)
		return rc;
	rc = reply_refused(r, e);
	reply_free(r);
	return rc;
}

/* --- the pipe ------------------------------------------------------------------------------------- */

/* The first thing that it says is its process id. */
static int await_pid(struct cp *cp, struct err *e)
{
	char path[BOX_PATH];

	api_path(path, cp->box, "/commands/%s", cp->holder);
	for (unsigned int i = 0; i < PID_TRIES; i++) {
		struct reply r;
		const char *text;
		size_t n;

		if (api(&cp->c, "GET", path, NULL, &r, e) < 0)
			return -1;
		text = node_str(&r.doc, reply_root(&r), "stdout");
		n = strspn(text, "0123456789");
		if (n > 0 && n < sizeof(cp->pid) && text[n] == '\n')
			(void)snprintf(cp->pid, sizeof(cp->pid), "%.*s", (int)n, text);
		else if (node_str(&r.doc, reply_root(&r), "ended_at")[0] != '\0')
			i = PID_TRIES;
		reply_free(&r);
		if (cp->pid[0] != '\0')
			return 0;
		(void)poll(NULL, 0, i < 20 ? 5 : 50);
	}
	return cp_release(cp, e) < 0 ? -1 : err_set(e, ERR_INPUT, 0, "tar does not run in the box");
}

int cp_hold(struct cp *cp, const char *script, const char *arg, struct err *e)
{
	const char *const argv[] = { "/bin/bash", "-c", script, "cp", arg, NULL };
	char path[BOX_PATH];
	const char *id;
	struct reply r;
	struct json j;
	int rc;

	api_path(path, cp->box, "/commands");
	put_command(&j, argv, NULL);
	json_bool(&j, "detach", true);
	json_bool(&j, "stdin_open", true);
	json_close(&j, '}');
	cp->pid[0] = '\0';
	cp->word_us = clock_us();
	rc = api(&cp->c, "POST", path, &j, &r, e);
	json_done(&j);
	if (rc < 0)
		return -1;
	id = node_str(&r.doc, reply_root(&r), "id");
	if (follow_is_id(id))
		(void)snprintf(cp->holder, sizeof(cp->holder), "%s", id);
	reply_free(&r);
	return cp->holder[0] != '\0'
		       ? await_pid(cp, e)
		       : err_set(e, ERR_PROTO, 0, "the server answered without an id");
}

/* A line for it, or the end of its input. It may have ended already. */
static int tell_holder(struct cp *cp, bool end, struct err *e)
{
	char path[BOX_PATH];
	struct call q = { .method = "POST", .path = path };
	struct reply r;
	struct json j;
	int rc;

	json_init(&j);
	json_open(&j, NULL, '{');
	if (end)
		json_bool(&j, "eof", true);
	else
		json_str(&j, "text", "\n");
	json_close(&j, '}');
	q.body = &j;
	api_path(path, cp->box, "/commands/%s/stdin", cp->holder);
	rc = client_call(&cp->c, &q, &r, e);
	json_done(&j);
	if (rc == 0)
		reply_free(&r);
	return rc;
}

void cp_keep(struct cp *cp)
{
	struct err ignored; /* the next piece tells */

	if (clock_us() - cp->word_us < KEEP_S * US_PER_S)
		return;
	(void)tell_holder(cp, false, &ignored);
	cp->word_us = clock_us();
}

static const struct {
	const char *mark, *why;
} left_out[] = {
	{ CP_LEFT_NAME, "its name, or what it leads to, has a control character" },
	{ CP_LEFT_KIND, "it is neither file, directory nor link" },
};

/* Whether a line tells of something that was left out. */
static bool take_left_out(struct cp *cp, const char *line)
{
	for (unsigned int i = 0; i < ARRAY_LEN(left_out); i++) {
		size_t n = strlen(left_out[i].mark);

		if (strncmp(line, left_out[i].mark, n) != 0)
			continue;
		n += strncmp(line + n, "./", 2) == 0 ? 2 : 0;
		cp_skip(cp, line + n, left_out[i].why);
		return true;
	}
	return false;
}

/* What it says: the first line that does not tell of something left out is why it failed, if it did. */
static void take_words(struct cp *cp, const struct reply *r, char words[WORDS])
{
	const char *p = node_str(&r->doc, reply_root(r), "stderr");

	words[0] = '\0';
	while (*p != '\0') {
		size_t n = strcspn(p, "\n");
		char line[WORDS];

		(void)snprintf(line, sizeof(line), "%.*s", (int)(n < WORDS ? n : WORDS - 1), p);
		if (!take_left_out(cp, line) && words[0] == '\0')
			(void)snprintf(words, WORDS, "%s", line);
		p += n + (p[n] == '\n');
	}
}

static int refused_by_tar(const struct reply *r, const char *words, struct err *e)
{
	if (words[0] != '\0')
		return err_set(e, ERR_INPUT, 0, "in the box: %s", words);
	return err_set(e, ERR_INPUT, 0, "in the box: its status is %lld",
		       (long long)node_int(&r->doc, reply_root(r), "exit_code", -1));
}

int cp_release(struct cp *cp, struct err *e)
{
	char path[BOX_PATH], words[WORDS];
	struct reply r;
	int rc = 0;

	if (tell_holder(cp, true, e) < 0)
		return -1;
	api_path(path, cp->box, "/commands/%s?wait_ms=30000", cp->holder);
	for (;;) {
		if (api(&cp->c, "GET", path, NULL, &r, e) < 0)
			return -1;
		if (node_str(&r.doc, reply_root(&r), "ended_at")[0] != '\0')
			break;
		reply_free(&r);
	}
	cp->holder[0] = '\0';
	take_words(cp, &r, words);
	if (strcmp(node_str(&r.doc, reply_root(&r), "status"), "ok") != 0)
		rc = refused_by_tar(&r, words, e);
	reply_free(&r);
	return rc;
}

void cp_drop(struct cp *cp)
{
	char path[BOX_PATH];
	struct call q = {
		.method = "DELETE", .path = path, .timeout_ms = 5000, .flags = CALL_NO_INT
	};
	struct reply r;
	struct err ignored;

	if (cp->holder[0] == '\0')
		return;
	api_path(path, cp->box, "/commands/%s?grace_ms=0", cp->holder);
	if (client_call(&cp->c, &q, &r, &ignored) == 0)
		reply_free(&r);
	cp->holder[0] = '\0';
}

/* --- the verb ------------------------------------------------------------------------------------- */

/* The server keeps so much of the output of a command: no piece may be larger. */
static int find_piece(struct cp *cp, struct err *e)
{
	char path[BOX_PATH];
	struct reply r;
	int64_t kept;

	api_path(path, cp->box, "%s", "");
	if (api(&cp->c, "GET", path, NULL, &r, e) < 0)
		return -1;
	kept = node_int(&r.doc, jsonr_get(&r.doc, reply_root(&r), "limits"), "output_bytes",
			CP_PIECE);
	reply_free(&r);
	cp->piece = kept < 1 ? 1 : kept < CP_PIECE ? (size_t)kept : CP_PIECE;
	return 0;
}

static int run(struct cp *cp, char **argv, struct err *e)
{
	char *in_box = NULL, *from = argv[0], *to = argv[1];
	bool out = split(argv[0], &in_box) == 0;
	int r;

	if (!out && split(argv[1], &in_box) < 0) {
		(void)err_set(e, ERR_USAGE, 0, "neither '%s' nor '%s' is of a box", from, to);
		return err_hint(e, "write BOX:PATH; 'glovebox ps' lists boxes");
	}
	if (out && (to[0] != '/' && to[0] != '.') && strchr(to, ':') != NULL &&
	    access(to, F_OK) < 0 && strchr(to, '/') == NULL)
		return err_set(e, ERR_USAGE, 0, "'%s' is of a box, too: copy to this machine first",
			       to);
	cp->box = out ? argv[0] : argv[1];
	if (box_name_check(cp->box, e) < 0 || api_open(&cp->o, &cp->c, e) < 0)
		return -1;
	r = find_piece(cp, e);
	if (r == 0)
		r = out ? cp_out(cp, in_box, to, e) : cp_in(cp, from, in_box, e);
	cp_drop(cp);
	client_done(&cp->c);
	return r;
}

static int print_json(const struct cp *cp, const struct err *e)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_u64(&j, "files", cp->files);
	json_u64(&j, "bytes", cp->bytes);
	json_u64(&j, "skipped", cp->skipped);
	if (e != NULL)
		json_str(&j, "error", e->text);
	else
		json_null(&j, "error");
	json_close(&j, '}');
	return api_print_json(&j);
}

int verb_cp(int argc, char **argv)
{
	static struct cp cp = { .max_bytes = 8ULL << 30, .c = { .fd = -1 } };
	struct err e = { .kind = ERR_NONE };
	int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, &cp, &e), r;

	if (at < 0)
		return say_err(&e);
	if (cp.o.help) {
		help();
		return 0;
	}
	if (argc - at != 2) {
		(void)err_set(&e, ERR_USAGE, 0, "what to copy, and where to");
		(void)err_hint(&e, "glovebox cp SRC BOX:DEST, or glovebox cp BOX:SRC DEST");
		return say_err(&e);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)wake_start(0);
	r = run(&cp, argv + at, &e);
	if (cp.o.json) {
		int rc = print_json(&cp, r < 0 ? &e : NULL);

		if (rc < 0 && r == 0)
			r = err_set(&e, ERR_SYS, -rc, "write to standard output");
	}
	if (wake_end() != 0)
		return EXIT_SIGNAL_BASE + wake_end();
	return r < 0 ? say_err(&e) : 0;
}
