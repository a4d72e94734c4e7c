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
	WAIT_MAX_MS = 60000,
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
	{ "cwd", FIELD_STRING, 0, 1, 4095, 0, offsetof(struct create, cwd), .doc = "where it begins; relative ones are below /workspace", .text = "/workspace" },
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

/* --- finding one ---------------------------------------------------------------------------------- */

struct command *command_find(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct http_slice id;
	struct command *c;

	if (a == NULL)
		return NULL;
	id = r->param[1];
	for (c = a->commands; c != NULL; c = c->next)
		if (http_slice_is(id, c->run.id))
			return c;
	own_refuse(r, OWN_NOT_FOUND, NULL, "there is no command '%.*s', or it is not held any more",
		   (int)(id.n < 128 ? id.n : 128), id.p);
	return NULL;
}

/* --- waiting for its end -------------------------------------------------------------------------- */

struct waiting {
	struct run_reader rd;
	struct gate *g;
	struct req *r;
	struct command *c;
	struct timer over; /* of a long poll */
	bool quiet;        /* 204 instead of the answer */
	bool starter;      /* the request that started it */
	struct deferred deferred;
};

static void waiting_free(void *arg)
{
	free(arg);
}

static void waiting_end(struct waiting *w)
{
	timer_clear(&w->g->loop, &w->over);
	run_detach(&w->rd);
	loop_defer(&w->g->loop, &w->deferred, waiting_free, w);
}

static void answer(struct req *r, struct command *c)
{
	struct json j;

	json_init(&j);
	run_answer(&c->run, &j, true);
	if (!j.failed)
		command_told(c);
	req_json(r, 200, &j);
}

static void waiting_answer(struct waiting *w)
{
	struct req *r = w->r;
	struct command *c = w->c;
	struct json j;

	r->gone = NULL;
	if (w->quiet) {
		waiting_end(w);
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	json_init(&j);
	run_answer(&c->run, &j, true);
	if (!j.failed)
		command_told(c);
	waiting_end(w); /* the command may go with its last reader */
	req_json(r, 200, &j);
}

static void on_more(struct run_reader *rd)
{
	struct waiting *w = (struct waiting *)rd; /* its first member */

	if (rd->run->ended)
		waiting_answer(w);
}

static void on_over(void *arg)
{
	waiting_answer(arg);
}

static void waiting_gone(struct req *r)
{
	struct waiting *w = r->work;

	if (w->starter)
		command_left(w->c);
	waiting_end(w);
}

/* The server stops: who only looks is answered now. */
static void on_stop(struct req *r)
{
	waiting_answer(r->work);
}

/* wait_us 0: as long as it takes. */
static void wait_for(struct command *c, struct req *r, uint64_t wait_us, bool quiet, bool starter)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	w->g = r->g;
	w->r = r;
	w->c = c;
	w->quiet = quiet;
	w->starter = starter;
	r->work = w;
	r->gone = waiting_gone;
	if (wait_us != 0) {
		r->stop = on_stop;
		(void)timer_set(&w->g->loop, &w->over, w->g->loop.now_us + wait_us, on_over, w);
	}
	run_attach(&c->run, &w->rd, 0, on_more);
}

/* --- POST ----------------------------------------------------------------------------------------- */

/* What a program is started with: pointers into the request, and texts that had to be made. */
struct start {
	const char *argv[ARGV_MAX + 1];
	struct box_env env;
	char cwd[PATH_MAX];
	char summary[COMMAND_SUMMARY + 8];
};

static int take_env(struct req *r, struct start *s, const struct abox *a, const struct create *in)
{
	struct texts own = { 0 };
	int rc = 0;

	if (box_take_texts(r, "env", &in->env, true, &own) < 0)
		return -1;
	if (box_env_add(&s->env, &a->env) < 0 || box_env_add(&s->env, &own) < 0) {
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
	for (size_t i = 0; s->argv[i] != NULL && n < COMMAND_SUMMARY; i++)
		n += (size_t)snprintf(s->summary + n, sizeof(s->summary) - n, "%s%.*s",
				      i > 0 ? " " : "", COMMAND_SUMMARY - (int)n, s->argv[i]);
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

static int take_cwd(struct req *r, struct start *s, const struct create *in)
{
	bool absolute = in->cwd.p[0] == '/';
	int n = snprintf(s->cwd, sizeof(s->cwd), "%s%s", absolute ? "" : "/workspace/", in->cwd.p);

	if (n < (int)sizeof(s->cwd))
		return 0;
	own_refuse(r, OWN_INVALID_FIELD, "cwd", "'cwd' is too long");
	return -1;
}

static int take_timeout(struct req *r, const struct create *in, uint64_t *ret_us)
{
	uint64_t max = config_u64(&r->g->config, CONF_BOX_MAX_TIMEOUT_MS);
	uint64_t ms = config_u64(&r->g->config, CONF_BOX_TIMEOUT_MS);

	/* null reads as 0, absent as -1 */
	if (ms > max)
		ms = max;
	if (in->timeout_set || in->timeout_ms == 0)
		ms = (uint64_t)in->timeout_ms;
	if (in->timeout_set && ms > max) {
		own_refuse(r, OWN_INVALID_FIELD, "timeout_ms",
			   "'timeout_ms' must be at most %llu (box_max_timeout_ms), or null",
			   (unsigned long long)max);
		return -1;
	}
	*ret_us = ms * 1000;
	return 0;
}

static int take_flags(struct req *r, const struct create *in, unsigned int *flags)
{
	if (in->stream && in->detach) {
		own_refuse(r, OWN_INVALID_FIELD, "detach",
			   "'detach' and 'stream' exclude each other");
		return -1;
	}
	*flags = (in->stream ? COMMAND_STREAM : 0) | (in->detach ? COMMAND_DETACH : 0) |
		 (strcmp(in->encoding.p, "base64") == 0 ? COMMAND_BASE64 : 0) |
		 (strcmp(in->on_disconnect.p, "interrupt") == 0 ? COMMAND_ON_LEAVE : 0);
	return 0;
}

/* How the one who starts it wants to hear of it. */
static void follow(struct command *c, struct req *r)
{
	struct json j;
	uint64_t after;

	if ((c->flags & COMMAND_DETACH) != 0) {
		json_init(&j);
		run_answer(&c->run, &j, false);
		req_json(r, 202, &j);
	} else if ((c->flags & COMMAND_STREAM) != 0) {
		if (run_after(r, &after) == 0)
			run_stream(&c->run, r, after, command_left, c);
	} else {
		wait_for(c, r, 0, false, true);
	}
}

/* The same request again: 0, or -1: answered, or follows. */
static int repeat(struct req *r, struct abox *a, const struct idem_key *k)
{
	const struct idem *gone;

	for (struct command *c = a->commands; c != NULL; c = c->next)
		if (c->idem.set && memcmp(c->idem.key, k->key, sizeof(k->key)) == 0) {
			if (memcmp(c->idem.body, k->body, sizeof(k->body)) != 0)
				idem_refuse(r);
			else
				follow(c, r);
			return -1;
		}
	gone = idem_find(r->g, k);
	if (gone == NULL)
		return 0;
	if (!idem_same_body(gone, k))
		idem_refuse(r);
	else
		own_refuse(r, OWN_ANSWER_GONE, "Idempotency-Key",
			   "this command has run; its answer is not held any more");
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
	struct command *c = NULL;
	int error = 0;

	box_env_init(&s.env, ci_environment());
	take_argv(&s, in);
	if (take_env(r, &s, a, in) == 0 && take_cwd(r, &s, in) == 0 &&
	    take_timeout(r, in, &spec.timeout_us) == 0 && take_flags(r, in, &spec.flags) == 0) {
		c = command_start(a, &spec, key, &error);
		if (c == NULL && error == -E2BIG)
			own_refuse(r, OWN_INVALID_FIELD, in->shell.set ? "shell" : "argv",
				   "command, arguments and environment are too long");
		else if (c == NULL)
			own_refuse(r, OWN_NO_MEMORY, NULL, "the command cannot be started");
	}
	box_env_done(&s.env);
	if (c == NULL)
		return;
	audit(r->g, "command", r, "tenant", a->tenant->name, "box", a->id, NULL);
	follow(c, r);
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
	command_key(&key);
	if (key.set && repeat(r, a, &key) < 0)
		return;
	if (own_decode(r, &command_create_fields, &body, &in) < 0)
		return;
	if (a->running >= BOX_COMMANDS_MAX)
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
	struct abox *a = abox_find(r, true);
	struct json j;

	if (a == NULL)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "commands", '[');
	for (struct command *c = a->commands; c != NULL; c = c->next) {
		json_open(&j, NULL, '{');
		command_put(c, &j);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void command_get(struct req *r)
{
	struct command *c = command_find(r);
	uint64_t wait_ms = 0;

	if (c == NULL || own_query_u64(r, "wait_ms", 0, WAIT_MAX_MS, &wait_ms) < 0)
		return;
	if (c->run.ended || wait_ms == 0)
		answer(r, c);
	else
		wait_for(c, r, wait_ms * 1000, false, false);
}

void command_events(struct req *r)
{
	struct command *c = command_find(r);
	uint64_t after;

	if (c != NULL && run_after(r, &after) == 0)
		run_stream(&c->run, r, after, NULL, NULL);
}

/* --- acting on one -------------------------------------------------------------------------------- */

void command_delete(struct req *r)
{
	struct command *c = command_find(r);
	uint64_t grace_ms = GRACE_MS;

	if (c == NULL || own_query_u64(r, "grace_ms", 0, GRACE_MAX_MS, &grace_ms) < 0)
		return;
	if (c->run.ended) {
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	abox_touch(c->a);
	command_kill(c, grace_ms * 1000);
	wait_for(c, r, 0, true, false);
}

/* Its command, if that still runs; NULL: answered. */
static struct command *find_running(struct req *r)
{
	struct command *c = command_find(r);

	if (c == NULL || (!c->run.ended && !c->has_exit))
		return c;
	own_refuse(r, OWN_COMMAND_ENDED, NULL, "the command '%s' has ended", c->run.id);
	return NULL;
}

static void feed(struct req *r, struct command *c, const struct input *in)
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
	rc = command_feed(c, p, n, in->eof);
	free(bytes);
	abox_touch(c->a);
	if (rc < 0)
		own_refuse(r, OWN_INPUT_FULL, NULL, "the program does not read: nothing was taken");
	else
		req_reply(r, 204, NULL, "", 0);
}

void command_stdin(struct req *r)
{
	struct command *c = find_running(r);
	struct ci_body body;
	struct input in;

	if (c == NULL || own_decode(r, &command_stdin_fields, &body, &in) < 0)
		return;
	if (in.text.set && in.base64.set)
		own_refuse(r, OWN_INVALID_FIELD, "base64",
			   "'text' and 'base64' exclude each other");
	else if (!in.text.set && !in.base64.set && !in.eof)
		own_refuse(r, OWN_INVALID_FIELD, "text",
			   "the body must have 'text', 'base64' or 'eof'");
	else if ((c->flags & COMMAND_STDIN) == 0 || c->input_end)
		own_refuse(r, OWN_NO_INPUT, NULL, "the command '%s' takes no more input",
			   c->run.id);
	else
		feed(r, c, &in);
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
	struct command *c = find_running(r);
	struct send_signal in;
	struct ci_body body;
	int sig;

	if (c == NULL || own_decode(r, &command_signal_fields, &body, &in) < 0)
		return;
	sig = signal_of(in.name.p);
	ci_body_done(&body);
	if (sig == 0) {
		own_refuse(r, OWN_INVALID_FIELD, "signal", "'signal' is no signal");
		return;
	}
	abox_touch(c->a);
	gjob_signal(&c->job, sig, 0);
	req_reply(r, 204, NULL, "", 0);
}
