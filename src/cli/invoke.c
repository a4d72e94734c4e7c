// SPDX-License-Identifier: Apache-2.0
#include "cli/invoke.h"

#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"
#include "cli/say.h"
#include "cli/server_near.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	INPUT_MAX = 16 * 1024 * 1024,
	LONGEST_MS = 3600 * 1000,
	GRACE_MS = 60 * 1000,
};

/* --- the request ------------------------------------------------------------------------------ */

static int read_file(const char *path, struct bytes *b, struct err *e)
{
	bool is_stdin = strcmp(path, "-") == 0;
	own_fd file = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int fd = is_stdin ? STDIN_FILENO : file;
	char buf[65536];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INPUT, errno, "open '%s'", path);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INPUT, EISDIR, "read '%s'", path);
	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR && wake_end() == 0)
			continue;
		if (n < 0)
			return err_set(e, ERR_INPUT, errno, "read '%s'", path);
		bytes_put(b, buf, (size_t)n);
		if (b->failed)
			return err_set(e, ERR_INPUT, EFBIG, "'%s' has more than %d bytes", path,
				       INPUT_MAX);
	}
	return 0;
}

/* Where it stops being JSON: line and column. */
static int say_where(const char *what, const char *file, const struct bytes *b, struct err *e)
{
	own_free char *copy = malloc(b->n + 1);
	struct jsonr_error bad = { .why = "it is not JSON" };
	unsigned int line = 1;
	const char *begin = copy;
	struct jsonr d;

	if (copy == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read the %s", what);
	(void)memcpy(copy, bytes_str(b), b->n + 1);
	if (jsonr_parse(&d, copy, b->n, &bad) == 0) {
		jsonr_done(&d);
		return err_set(e, ERR_INPUT, 0, "the %s is nested too deeply", what);
	}
	(void)memcpy(copy, bytes_str(b), b->n + 1);
	for (size_t i = 0; i < bad.offset && i < b->n; i++)
		if (copy[i] == '\n') {
			line++;
			begin = copy + i + 1;
		}
	return err_set(e, ERR_INPUT, 0, "the %s%s%s is not JSON: %s, in line %u, column %zu", what,
		       file != NULL ? " in " : "", file != NULL ? file : "", bad.why, line,
		       bad.offset - (size_t)(begin - copy) + 1);
}

/* An object from the command line or a file. */
static int put_object(const char *what, const char *text, const char *file, struct json *j,
		      struct err *e)
{
	struct json_text t;
	struct bytes b;
	int rc = 0;

	bytes_init(&b, INPUT_MAX);
	if (file != NULL)
		rc = read_file(file, &b, e);
	else
		bytes_puts(&b, text != NULL ? text : "{}");
	if (rc == 0 && !utf8_is_valid(bytes_str(&b)))
		rc = err_set(e, ERR_INPUT, 0, "the %s%s%s is not UTF-8", what,
			     file != NULL ? " in " : "", file != NULL ? file : "");
	else if (rc == 0 && json_text_read(bytes_str(&b), b.n, &t) < 0)
		rc = say_where(what, file, &b, e);
	else if (rc == 0 && json_text_kind(t) != '{')
		rc = err_set(e, ERR_INPUT, 0, "the %s is no JSON object", what);
	else if (rc == 0)
		json_text_put(t, j, what);
	bytes_done(&b);
	return rc;
}

static int make_request(const struct invoke_opts *o, struct json *j, struct err *e)
{
	struct bytes code;
	int rc;

	bytes_init(&code, INPUT_MAX);
	json_open(j, NULL, '{');
	rc = read_file(o->script, &code, e);
	if (rc == 0 && (strlen(bytes_str(&code)) != code.n || !utf8_is_valid(bytes_str(&code))))
		rc = err_set(e, ERR_INPUT, 0, "'%s' is not UTF-8, or has a NUL in it", o->script);
	if (rc == 0)
		json_bytes(j, "handler_code", bytes_str(&code), code.n);
	bytes_done(&code);
	if (rc == 0)
		rc = put_object("event", o->event, o->event_file, j, e);
	if (rc == 0)
		rc = put_object("context", o->context, o->context_file, j, e);
	json_close(j, '}');
	return rc == 0 && j->failed ? err_set(e, ERR_SYS, ENOMEM, "make the request") : rc;
}

/* --- the answer ------------------------------------------------------------------------------- */

static bool is_code(struct json_text t, const char *code)
{
	char text[64];

	return json_text_str(t, text, sizeof(text)) && strcmp(text, code) == 0;
}

/* {"detail": {"error_code", "description", "error_detail", …}}, or what else refuses. */
static int refused(int status, struct json_text body, struct err *e)
{
	struct json_member detail = { .key = "detail" };
	struct json_member m[] = { { .key = "error_code" },
				   { .key = "description" },
				   { .key = "error_detail" } };
	char what[256] = "", more[256] = "";

	json_text_find(body, &detail, 1);
	json_text_find(detail.value, m, ARRAY_LEN(m));
	if (!json_text_str(m[1].value, what, sizeof(what)))
		(void)snprintf(what, sizeof(what), "the server refused the call (%d)", status);
	if (!json_text_str(m[2].value, more, sizeof(more)))
		(void)json_text_str(detail.value, more, sizeof(more));
	(void)err_set(e, ERR_INPUT, 0, "%s%s%s", what, more[0] != '\0' ? ": " : "", more);
	if (is_code(m[0].value, "Sandbox.InvalidParameter"))
		return INVOKE_INPUT;
	return is_code(m[0].value, "Sandbox.ExecTimeout") || status == 503 ? INVOKE_NO_BOX
									   : INVOKE_OTHER;
}

static int take_answer(const struct invoke_opts *o, const struct reply *r, struct err *e)
{
	struct json_member m[] = { { .key = "stdout" },
				   { .key = "stderr" },
				   { .key = "result" },
				   { .key = "metrics" },
				   { .key = "exit_code" } };
	struct invoke_answer a;
	struct json_text body;
	int rc;

	if (json_text_read(bytes_str(&r->body), r->body.n, &body) < 0)
		body = (struct json_text){ 0 };
	if (r->status != 200)
		return refused(r->status, body, e);
	json_text_find(body, m, ARRAY_LEN(m));
	a = (struct invoke_answer){ m[0].value, m[1].value, m[2].value, m[3].value, 0 };
	if (!json_text_i64(m[4].value, &a.exit_code) || a.exit_code < 0 || a.exit_code > 255) {
		(void)err_set(e, ERR_PROTO, 0, "the server's answer makes no sense");
		return INVOKE_OTHER;
	}
	rc = invoke_print(o, &a);
	if (rc == 0)
		return (int)a.exit_code;
	(void)err_set(e, ERR_SYS, -rc, "write %s",
		      o->output != NULL ? o->output : "to standard output");
	return o->output != NULL ? INVOKE_INPUT : INVOKE_OTHER;
}

/* --- the call --------------------------------------------------------------------------------- */

static int call(const struct invoke_opts *o, struct client *c, const struct json *body,
		struct err *e)
{
	char path[128] = "/workspace/se/v2/execute_code";
	struct call q = { .method = "POST",
			  .path = path,
			  .body = body,
			  .timeout_ms = LONGEST_MS + GRACE_MS,
			  .flags = CALL_INT | CALL_TEXT };
	struct reply r;
	int status;

	if (o->timeout_ms != 0)
		(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "?timeout_ms=%llu",
			       (unsigned long long)o->timeout_ms);
	if (o->verbose)
		say("calling the handler of %s at %s", o->script, c->url.shown);
	if (client_call(c, &q, &r, e) < 0)
		return e->sys == EINTR ? INVOKE_INTERRUPTED : INVOKE_NO_BOX;
	status = take_answer(o, &r, e);
	reply_free(&r);
	return status;
}

static int with_server(const struct invoke_opts *o, const struct json *body, struct err *e)
{
	static const char *const no_roots[] = { NULL };
	struct server_near near = { .life = -1 };
	struct client c;
	bool nobody;
	int status;

	if (client_find(&o->client, &c, &nobody, e) < 0) {
		if (!nobody)
			return INVOKE_NO_BOX;
		if (o->verbose)
			say("no server runs here: starting one for this call");
		if (server_near_start(&near, no_roots, false, e) < 0)
			return wake_is_asked() || wake_end() != 0 ? INVOKE_INTERRUPTED
								  : INVOKE_NO_BOX;
		client_init(&c, &near.url, "");
		e->kind = ERR_NONE;
	}
	status = call(o, &c, body, e);
	client_done(&c);
	if (near.life >= 0)
		server_near_stop(&near);
	return status;
}

int verb_invoke(int argc, char **argv)
{
	static struct invoke_opts o;
	struct err e = { .kind = ERR_NONE };
	struct json body;
	int status;

	if (invoke_opts(&o, argc, argv, &e) < 0) {
		(void)say_err(&e);
		return INVOKE_INPUT;
	}
	if (o.client.help) {
		invoke_help();
		return 0;
	}
	if (o.version) { /* that of the interface */
		(void)printf("sandbox-run 1.0.0\n");
		return 0;
	}
	if (wake_start(WAKE_INT) < 0)
		return INVOKE_OTHER;
	json_init(&body);
	status = make_request(&o, &body, &e) < 0 ? INVOKE_INPUT : with_server(&o, &body, &e);
	json_done(&body);
	if (status == INVOKE_INTERRUPTED)
		return status;
	if (e.kind != ERR_NONE)
		(void)say_err(&e);
	return status;
}
