// SPDX-License-Identifier: Apache-2.0
/* The calls about commands of a box: start, list, look, follow, end, feed, signal. */
#include "gate/commands.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/job.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	GRACE_MS = 5000,
	GRACE_MAX_MS = 60000,
	ARGV_MAX = 1024,
	ENV_MAX = 256,
};

/* --- fields --------------------------------------------------------------------------------------- */

struct create {
	struct field_list argv, env;
	struct field_str shell, input, cwd, encoding, on_disconnect;
	int64_t timeout_ms;
	bool timeout_set, input_open, stream, detach;
};

struct input {
	struct field_str text, base64;
	bool eof;
};

struct send_signal {
	struct field_str name;
};

/* clang-format off */
static const struct field create_rows[] = {
	{ "argv", FIELD_STRINGS, FIELD_ONE_OF, 1, ARGV_MAX, 0, offsetof(struct create, argv), .doc = "the program, looked for in PATH, and its arguments" },
	{ "shell", FIELD_STRING, FIELD_ONE_OF, 1, FIELD_NO_MAX, 0, offsetof(struct create, shell), .doc = "a text for bash -c" },
	{ "stdin", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct create, input), .doc = "fed to it first; null: nothing" },
	{ "stdin_open", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, input_open), .doc = "whether more input may come, by the call stdin; otherwise it ends here" },
	{ "env", FIELD_MAP, 0, 0, ENV_MAX, 0, offsetof(struct create, env), .doc = "environment variables, besides those of the box" },
	{ "cwd", FIELD_STRING, 0, 1, 4095, 0, offsetof(struct create, cwd), .doc = "where it begins; relative ones are below the working directory of the box, which is where it begins without" },
	{ "timeout_ms", FIELD_INT, FIELD_NULLABLE, 1, FIELD_NO_MAX, -1, offsetof(struct create, timeout_ms), .doc = "wall clock, then it is killed; null: until the box ends; absent: box_timeout_ms", .set_at = offsetof(struct create, timeout_set) },
	{ "stream", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, stream), .doc = "answer with its events as they come" },
	{ "detach", FIELD_BOOL, 0, 0, 0, false, offsetof(struct create, detach), .doc = "answer at once (202); it is looked at by its id" },
	{ "output_encoding", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct create, encoding), .doc = "of stdout and stderr: text, in which what is not UTF-8 becomes U+FFFD, or all bytes", .text = "utf-8", .words = "utf-8 base64" },
	{ "on_disconnect", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct create, on_disconnect), .doc = "what a client that leaves means for it: nothing, or SIGINT", .text = "continue", .words = "continue interrupt" },
};
const struct fields command_create_fields = { "CreateCommandRequest", create_rows, ARRAY_LEN(create_rows), sizeof(struct create), FIELDS_CLOSED };

static const struct field input_rows[] = {
	{ "text", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct input, text), .doc = "input, as text" },
	{ "base64", FIELD_BASE64, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct input, base64), .doc = "input, as bytes in base64" },
	{ "eof", FIELD_BOOL, 0, 0, 0, false, offsetof(struct input, eof), .doc = "whether that was all" },
};
const struct fields command_stdin_fields = { "CommandInput", input_rows, ARRAY_LEN(input_rows), sizeof(struct input), FIELDS_CLOSED };

static const struct field signal_rows[] = {
	{ "signal", FIELD_STRING, FIELD_REQUIRED, 1, 16, 0, offsetof(struct send_signal, name), .doc = "its name, SIGINT or INT, or its number as a text" },
};
const struct fields command_signal_fields = { "CommandSignal", signal_rows, ARRAY_LEN(signal_rows), sizeof(struct send_signal), FIELDS_CLOSED };
/* clang-format on */

/* --- POST ----------------------------------------------------------------------------------------- */

/* What a program is started with: pointers into the request, and texts that had to be made. */
struct start {
	const char *argv[ARGV_MAX + 1];
	struct box_env env;
	char cwd[PATH_MAX];
	char summary[TASK_SUMMARY + 8];
};

static int take_env(struct req *r, struct start *s, const struct abox *a, const struct create *in)
{
	struct texts own = { 0 };
	int rc = 0;

	if (box_take_texts(r, "env", &in->env, true, &own) < 0)
		return -1;
	if (box_env_begin(&s->env, a, ci_environment()) < 0 || box_env_add(&s->env, &own) < 0) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		rc = -1;
	}
	texts_done(&own);
	return rc;
}

/* For lists: the words of it, as far as they fit. */
static void summarize(struct start *s)
{
	size_t n = 0;

	s->summary[0] = '\0';
	for (size_t i = 0; s->argv[i] != NULL && n < TASK_SUMMARY; i++)
		n += (size_t)snprintf(s->summary + n, sizeof(s->summary) - n, "%s%.*s",
				      i > 0 ? " " : "", TASK_SUMMARY - (int)n, s->argv[i]);
}

static void take_argv(struct start *s, const struct create *in)
{
	const struct field_str *v = in->argv.v;
	size_t n = 0;

	if (in->shell.set) {
		s->argv[0] = "/bin/bash";
		s->argv[1] = "-c";
		s->argv[2] = in->shell.p;
		s->argv[3] = NULL;
		(void)snprintf(s->summary, sizeof(s->summary), "%s", in->shell.p);
		return;
	}
	for (; n < in->argv.n; n++)
		s->argv[n] = v[n].p;
	s->argv[n] = NULL;
	summarize(s);
}

static int take_cwd(struct req *r, struct start *s, const struct abox *a, const struct create *in)
{
	bool below = in->cwd.p != NULL && in->cwd.p[0] != '/';
	int n = snprintf(s->cwd, sizeof(s->cwd), "%s%s%s",
			 below || in->cwd.p == NULL ? a->box->cwd : "", below ? "/" : "",
			 in->cwd.p != NULL ? in->cwd.p : "");

	if (n < (int)sizeof(s->cwd))
		return 0;
	own_refuse(r, OWN_INVALID_FIELD, "cwd", "'cwd' is too long");
	return -1;
}

static void start(struct req *r, struct abox *a, const struct create *in,
		  const struct idem_key *key)
{
	static struct start
		s; /* large, and nobody else's: the job is encoded before this returns */
	struct command_spec spec = { .argv = s.argv,
				     .envp = s.env.v,
				     .cwd = s.cwd,
				     .input = in->input.set ? in->input.p : "",
				     .input_len = in->input.n,
				     .input_open = in->input_open,
				     .summary = s.summary };
	struct task *t = NULL;
	int error = 0;

	s.env = (struct box_env){ .strings = NULL };
	take_argv(&s, in);
	if (take_env(r, &s, a, in) == 0 && take_cwd(r, &s, a, in) == 0 &&
	    task_take_timeout(r, in->timeout_set, in->timeout_ms, &spec.timeout_us) == 0 &&
	    task_take_flags(r, in->stream, in->detach, in->encoding.p, in->on_disconnect.p,
			    &spec.flags) == 0) {
		t = command_start(a, &spec, key, &error);
		if (t == NULL && error == -E2BIG)
			own_refuse(r, OWN_INVALID_FIELD, in->shell.set ? "shell" : "argv",
				   "command, arguments and environment are too long");
		else if (t == NULL)
			own_refuse(r, OWN_NO_MEMORY, NULL, "the command cannot be started");
	}
	box_env_done(&s.env);
	if (t == NULL)
		return;
	audit(r->g, "command", r, "tenant", a->tenant->name, "box", a->id, NULL);
	task_follow(t, r);
}

void command_create(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct ci_body body;
	struct idem_key key;
	struct create in;
	char scope[64];

	if (a == NULL)
		return;
	(void)snprintf(scope, sizeof(scope), "commands of %s", a->id);
	if (idem_take(r, scope, &key) < 0)
		return;
	task_key(&key);
	if (key.set && task_repeat(r, a, &command_kind, &key) < 0)
		return;
	if (own_decode(r, &command_create_fields, &body, &in) < 0)
		return;
	if (tasks_running(a, &command_kind) >= BOX_COMMANDS_MAX)
		own_refuse(r, OWN_TOO_MANY, NULL, "%d commands run in this box", BOX_COMMANDS_MAX);
	else if (!audit_allows(r->g))
		own_refuse(r, OWN_AUDIT, NULL, "the audit file cannot be written");
	else if (a->box == NULL)
		own_refuse(r, OWN_WRONG_STATE, NULL, "the box cannot be reached yet");
	else
		start(r, a, &in, &key);
	ci_body_done(&body);
}

/* --- looking -------------------------------------------------------------------------------------- */

void command_list(struct req *r)
{
	task_list(r, &command_kind, "commands");
}

void command_get(struct req *r)
{
	task_get(r, &command_kind);
}

void command_events(struct req *r)
{
	task_events(r, &command_kind);
}

/* --- acting on one -------------------------------------------------------------------------------- */

void command_delete(struct req *r)
{
	struct task *t = task_find(r, &command_kind);
	uint64_t grace_ms = GRACE_MS;

	if (t == NULL || own_query_u64(r, "grace_ms", 0, GRACE_MAX_MS, &grace_ms) < 0)
		return;
	if (t->run.ended) {
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	abox_touch(t->a);
	command_kill(t, grace_ms * 1000);
	run_wait(&t->run, r, 0, 0, NULL, NULL);
}

/* Its command, if that still runs; NULL: answered. */
static struct task *find_running(struct req *r)
{
	struct task *t = task_find(r, &command_kind);

	if (t == NULL || (!t->run.ended && !t->has_exit))
		return t;
	own_refuse(r, OWN_COMMAND_ENDED, NULL, "the command '%s' has ended", t->run.id);
	return NULL;
}

static void feed(struct req *r, struct task *t, const struct input *in)
{
	const void *p = in->text.set ? in->text.p : "";
	size_t n = in->text.n;
	uint8_t *bytes = NULL;
	int rc;

	if (in->base64.set) {
		bytes = malloc(BASE64_BYTES_MAX(in->base64.n) + 1);
		if (bytes == NULL || base64_decode(in->base64.p, in->base64.n, bytes, &n) < 0) {
			own_refuse(r, bytes == NULL ? OWN_NO_MEMORY : OWN_INVALID_FIELD, "base64",
				   bytes == NULL ? "out of memory" : "'base64' is not base64");
			free(bytes);
			return;
		}
		p = bytes;
	}
	rc = task_feed(t, p, n, in->eof);
	free(bytes);
	abox_touch(t->a);
	if (rc < 0)
		own_refuse(r, OWN_INPUT_FULL, NULL, "the program does not read: nothing was taken");
	else
		req_reply(r, 204, NULL, "", 0);
}

void command_stdin(struct req *r)
{
	struct task *t = find_running(r);
	struct ci_body body;
	struct input in;

	if (t == NULL || own_decode(r, &command_stdin_fields, &body, &in) < 0)
		return;
	if (in.text.set && in.base64.set)
		own_refuse(r, OWN_INVALID_FIELD, "base64",
			   "'text' and 'base64' exclude each other");
	else if (!in.text.set && !in.base64.set && !in.eof)
		own_refuse(r, OWN_INVALID_FIELD, "text",
			   "the body must have 'text', 'base64' or 'eof'");
	else if ((t->flags & TASK_STDIN) == 0 || t->input_end)
		own_refuse(r, OWN_NO_INPUT, NULL, "the command '%s' takes no more input",
			   t->run.id);
	else
		feed(r, t, &in);
	ci_body_done(&body);
}

/* "SIGINT", "INT", "2"; 0: none of them. */
static int signal_of(const char *name)
{
	uint64_t n;

	if (str_to_u64(name, 64, &n) == 0)
		return (int)n;
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int sig = 1; sig < 32; sig++) {
		const char *known = sigabbrev_np(sig);

		if (known != NULL && strcmp(known, name) == 0)
			return sig;
	}
	return 0;
}

void command_signal(struct req *r)
{
	struct task *t = find_running(r);
	struct send_signal in;
	struct ci_body body;
	int sig;

	if (t == NULL || own_decode(r, &command_signal_fields, &body, &in) < 0)
		return;
	sig = signal_of(in.name.p);
	ci_body_done(&body);
	if (sig == 0) {
		own_refuse(r, OWN_INVALID_FIELD, "signal", "'signal' is no signal");
		return;
	}
	abox_touch(t->a);
	gjob_signal(&t->job, sig, 0);
	req_reply(r, 204, NULL, "", 0);
}
