// SPDX-License-Identifier: Apache-2.0
/*
 * upload_file and download_file: between files of this machine, which only we can see, and those of the box, by the own API. Bytes pass
 * through in pieces, whatever the size of a file.
 */
#include "cli/mcp.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_MS = 120000 };

struct transfer {
	bool up;
	char *relpath, *local;
	struct host_new f;
	struct bytes body; /* of a refusal */
};

/* --- what is asked -------------------------------------------------------------------------------- */

static char *string_of(struct json_text arguments, const char *key)
{
	struct json_member m = { .key = key };
	char *s;

	json_text_find(arguments, &m, 1);
	s = json_text_kind(m.value) == '"' ? malloc(m.value.n + 1) : NULL;
	if (s != NULL && !json_text_str(m.value, s, m.value.n + 1)) {
		free(s);
		s = NULL;
	}
	return s;
}

bool bridge_transfer_take(struct pending *p, bool up, struct json_text arguments)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		bridge_error(p->b, p->id, BRIDGE_INTERNAL, "out of memory");
		return false;
	}
	p->transfer = t;
	t->up = up;
	t->f.dir = t->f.fd = -1;
	bytes_init(&t->body, BRIDGE_ERROR_MAX);
	t->relpath = string_of(arguments, "relpath");
	t->local = string_of(arguments, "local_path");
	if (t->relpath != NULL && t->local != NULL)
		return true;
	bridge_error(p->b, p->id, BRIDGE_INVALID_PARAMS, "'%s' must be a string",
		     t->relpath == NULL ? "relpath" : "local_path");
	return false;
}

void bridge_transfer_free(struct pending *p)
{
	struct transfer *t = p->transfer;

	p->transfer = NULL;
	if (t == NULL)
		return;
	host_new_done(&t->f);
	bytes_done(&t->body);
	free(t->relpath);
	free(t->local);
	free(t);
}

/* The path of a file of the box as a target of HTTP. false: it is none. */
static bool put_target(const struct bridge *b, const char *relpath, struct bytes *target)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	unsigned int names = 0;

	bytes_puts(target, "/v1/boxes/");
	bytes_puts(target, b->box);
	bytes_puts(target, "/files");
	if (relpath[0] == '/')
		return false;
	while (*relpath != '\0') {
		size_t n = strcspn(relpath, "/");
		bool is_dot = n == 1 && relpath[0] == '.';

		if (n == 2 && strncmp(relpath, "..", 2) == 0)
			return false;
		if (n > 0 && !is_dot) {
			bytes_puts(target, "/");
			for (size_t i = 0; i < n; i++)
				if (strchr(plain, relpath[i]) != NULL)
					bytes_put(target, relpath + i, 1);
				else
					bytes_printf(target, "%%%02X", (unsigned char)relpath[i]);
			names++;
		}
		relpath += n + (relpath[n] == '/');
	}
	return names > 0 && !target->failed;
}

/* --- how it goes ---------------------------------------------------------------------------------- */

/* text NULL: as it should. */
static void finish(struct pending *p, const char *text)
{
	bridge_tool_result(p->b, p, text);
	pending_free(p);
}

static int on_body(struct exchange *x, const char *data, size_t n)
{
	struct pending *p = x->arg;
	struct transfer *t = p->transfer;
	struct err e;
	int r;

	if (t->up || x->answer.status != 200) {
		bytes_put(&t->body, data, n);
		return 0;
	}
	r = io_write_all(t->f.fd, data, n);
	if (r == 0)
		return 0;
	(void)err_set(&e, ERR_SYS, -r, "File cannot be written: %s", t->local);
	p->x = NULL;
	finish(p, e.text);
	return 1;
}

static int on_head(struct exchange *x)
{
	struct pending *p = x->arg;
	struct err e;

	if (p->transfer->up || x->answer.status != 200 || host_new_begin(&p->transfer->f, &e) == 0)
		return 0;
	p->x = NULL;
	finish(p, e.text);
	return 1;
}

static void refused(struct pending *p, const struct exchange *x)
{
	char text[ERR_TEXT];

	if (x->answer.status == 410 || (p->transfer->up && x->answer.status == 404))
		bridge_box_gone(p->b);
	bridge_refusal(x, &p->transfer->body, text, sizeof(text));
	if (x->answer.status == 404 && !p->transfer->up)
		(void)snprintf(text, sizeof(text), "File not found: %s", p->transfer->relpath);
	finish(p, text);
}

static void on_end(struct exchange *x, const struct err *e)
{
	struct pending *p = x->arg;
	struct err own;

	p->x = NULL;
	bridge_heard(p->b, e);
	if (e != NULL)
		finish(p, e->text);
	else if (x->answer.status != 200 && (x->answer.status != 201 || !p->transfer->up))
		refused(p, x);
	else if (!p->transfer->up && host_new_finish(&p->transfer->f, &own) < 0)
		finish(p, own.text);
	else
		finish(p, NULL);
}

void bridge_transfer_start(struct pending *p)
{
	static const struct exchange_ops ops = { .head = on_head, .body = on_body, .end = on_end };
	struct transfer *t = p->transfer;
	struct bridge *b = p->b;
	struct bytes target;
	uint64_t size = 0;
	own_fd fd = -1;
	struct err e;

	bytes_init(&target, 4 * PATH_MAX);
	if (!put_target(b, t->relpath, &target))
		(void)err_set(&e, ERR_INPUT, 0, "Invalid path: %s", t->relpath);
	else if (t->up ? (fd = host_open(&b->dirs, t->local, &size, &e)) >= 0
		       : host_new_check(&b->dirs, t->local, &t->f, &e) == 0) {
		p->x = exchange_new(&b->all, t->up ? "PUT" : "GET", target.p, &ops, p);
		if (p->x == NULL)
			(void)err_set(&e, ERR_SYS, ENOMEM, "copy a file");
	}
	bytes_done(&target);
	if (p->x == NULL) {
		finish(p, e.text);
		return;
	}
	if (t->up)
		exchange_file(p->x, fd_take(&fd), size);
	p->x->answer_ms = ANSWER_MS;
	exchange_start(p->x);
}
