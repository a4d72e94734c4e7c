// SPDX-License-Identifier: Apache-2.0
#include "gate/ci.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/layers.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"

#include <openssl/sha.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- requests --------------------------------------------------------------------------------- */

static const struct field file_rows[] = {
	{ .name = "path",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_file, path),
	  .doc = "where in the workspace; relative" },
	{ .name = "file_id",
	  .type = FIELD_STRING,
	  .flags = FIELD_ONE_OF,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_file, file_id),
	  .doc = "content: a file of the store" },
	{ .name = "content",
	  .type = FIELD_STRING,
	  .flags = FIELD_ONE_OF,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_file, content),
	  .doc = "content: this text" },
	{ .name = "content_base64",
	  .type = FIELD_BASE64,
	  .flags = FIELD_ONE_OF,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_file, content_base64),
	  .doc = "content: these bytes, in base64" },
	{ .name = "mode",
	  .type = FIELD_INT,
	  .flags = 0,
	  .min = 0,
	  .max = 0777,
	  .def = 0644,
	  .at = offsetof(struct ci_file, mode),
	  .doc = "permissions, as a decimal number" },
};

static const struct fields file_fields = { "StagedFile", file_rows, ARRAY_LEN(file_rows),
					   sizeof(struct ci_file), 0 };

static const struct field execute_rows[] = {
	{ .name = "code",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_execute, code),
	  .doc = "Python source" },
	{ .name = "stdin",
	  .type = FIELD_STRING,
	  .flags = FIELD_NULLABLE,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_execute, input),
	  .doc = "fed to the program, then end of file" },
	{ .name = "timeout_ms",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = FIELD_NO_MAX,
	  .def = 2000,
	  .at = offsetof(struct ci_execute, timeout_ms),
	  .doc = "wall clock from the start of the program",
	  .set_at = offsetof(struct ci_execute, timeout_set) },
	{ .name = "last_line_interactive",
	  .type = FIELD_BOOL_LENIENT,
	  .flags = 0,
	  .min = 0,
	  .max = 0,
	  .def = 1,
	  .at = offsetof(struct ci_execute, last_line_interactive),
	  .doc = "print the value of an expression on the last line" },
	{ .name = "files",
	  .type = FIELD_LIST,
	  .min = 0,
	  .max = CI_FILES_MAX,
	  .at = offsetof(struct ci_execute, files),
	  .doc = "put into the workspace first",
	  .sub = &file_fields },
};

const struct fields ci_execute_fields = { "ExecuteRequest", execute_rows, ARRAY_LEN(execute_rows),
					  sizeof(struct ci_execute), 0 };

static const struct field session_rows[] = {
	{ .name = "files",
	  .type = FIELD_LIST,
	  .min = 0,
	  .max = CI_FILES_MAX,
	  .at = offsetof(struct ci_session, files),
	  .doc = "put into the workspace first",
	  .sub = &file_fields },
	{ .name = "ttl_seconds",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = 86400,
	  .def = 900,
	  .at = offsetof(struct ci_session, ttl_seconds),
	  .doc = "how long it lives",
	  .set_at = offsetof(struct ci_session, ttl_set) },
};

const struct fields ci_session_fields = { "CreateSessionRequest", session_rows,
					  ARRAY_LEN(session_rows), sizeof(struct ci_session), 0 };

static const struct field bash_rows[] = {
	{ .name = "cmd",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .def = 0,
	  .at = offsetof(struct ci_bash, cmd),
	  .doc = "what bash -c is given" },
	{ .name = "timeout_ms",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = FIELD_NO_MAX,
	  .def = 30000,
	  .at = offsetof(struct ci_bash, timeout_ms),
	  .doc = "wall clock",
	  .set_at = offsetof(struct ci_bash, timeout_set) },
};

const struct fields ci_bash_fields = { "BashRequest", bash_rows, ARRAY_LEN(bash_rows),
				       sizeof(struct ci_bash), 0 };

static bool is_json(const struct req *r)
{
	struct http_slice type = req_get(r, "Content-Type");
	const char *end = type.n > 0 ? memchr(type.p, ';', type.n) : NULL;

	if (end != NULL)
		type.n = (size_t)(end - type.p);
	while (type.n > 0 && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
		type.n--;
	return http_slice_is_nocase(type, "application/json");
}

int ci_decode(struct req *r, const struct fields *table, struct ci_body *b, void *out)
{
	static struct field_errors errs;
	struct jsonr_error bad;
	struct json j;
	int rc = 0;

	(void)memset(b, 0, sizeof(*b));
	(void)memset(&errs, 0, sizeof(errs));
	if (r->body_len > 0 && !is_json(r)) {
		ci_detail(r, 415, "the body must be JSON (Content-Type: application/json)");
		return -1;
	}
	if (r->body_len > 0) {
		rc = jsonr_parse(&b->doc, r->body, r->body_len, &bad);
		if (rc == -EILSEQ) {
			ci_detail(r, 400, "There was an error parsing the body");
			return -1;
		}
		if (rc < 0 && rc != -ENOMEM)
			field_errors_json(&errs, &bad);
	}
	if (rc == 0)
		rc = fields_decode(table, &b->doc, out, &errs, &b->mem);
	if (rc == 0)
		return 0;
	if (rc == -ENOMEM) {
		ci_detail(r, 503, "out of memory");
	} else {
		json_init(&j);
		field_errors_fastapi(&errs, &b->doc, &j);
		req_json(r, 422, &j);
	}
	ci_body_done(b);
	return -1;
}

void ci_body_done(struct ci_body *b)
{
	fields_block_done(&b->mem);
	jsonr_done(&b->doc);
}

void ci_detail(struct req *r, int status, const char *fmt, ...)
{
	own_free char *text = NULL;
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "detail", text != NULL ? text : "out of memory");
	json_close(&j, '}');
	req_json(r, status, &j);
}

/* --- files ------------------------------------------------------------------------------------ */

char *ci_string(struct ci_strings **chain, size_t n)
{
	struct ci_strings *s = malloc(sizeof(*s) + n + 1);

	if (s == NULL)
		return NULL;
	s->next = *chain;
	*chain = s;
	s->text[n] = '\0';
	return s->text;
}

void ci_strings_free(struct ci_strings *s)
{
	while (s != NULL) {
		struct ci_strings *next = s->next;

		free(s);
		s = next;
	}
}

const char *ci_plain_path(const char *from, char *to)
{
	char *out = to;

	if (*from == '/')
		return "File paths must be relative.";
	while (*from != '\0') {
		size_t n = strcspn(from, "/");

		if (n == 2 && from[0] == '.' && from[1] == '.')
			return "File paths must not contain '..'.";
		if (n > 0 && !(n == 1 && from[0] == '.')) {
			if (out != to)
				*out++ = '/';
			(void)memcpy(out, from, n);
			out += n;
		}
		from += n;
		while (*from == '/')
			from++;
	}
	*out = '\0';
	if (out == to)
		return "File path must not be empty.";
	return path_is_plain(to) ? NULL : "File path is not valid.";
}

static int stage_inline(struct req *r, const struct ci_file *in, size_t index, struct stage_file *f,
			struct ci_strings **strings)
{
	char *bytes;

	f->p = in->content.p;
	f->n = in->content.n;
	if (in->content_base64.set) {
		bytes = ci_string(strings, in->content_base64.n);
		if (bytes == NULL) {
			ci_detail(r, 503, "out of memory");
			return -1;
		}
		if (base64_decode(in->content_base64.p, in->content_base64.n, (uint8_t *)bytes,
				  &f->n) < 0) {
			ci_detail(r, 422, "files[%zu].content_base64 is not base64", index);
			return -1;
		}
		f->p = bytes;
	}
	f->has_sha = true;
	(void)SHA256((const unsigned char *)f->p, f->n, f->sha256);
	return 0;
}

int ci_stage(struct req *r, const struct field_list *list, bool session, struct stage_file *files,
	     size_t *n, struct ci_strings **strings)
{
	const struct ci_file *in = list->v;

	for (size_t i = 0; i < list->n; i++) {
		struct stage_file *f = &files[*n];
		char *path = ci_string(strings, in[i].path.n);
		const char *wrong;

		if (path == NULL) {
			ci_detail(r, 503, "out of memory");
			return -1;
		}
		wrong = ci_plain_path(in[i].path.p, path);
		if (wrong == NULL && !session && strcmp(path, "__main__.py") == 0)
			wrong = "File path '__main__.py' is reserved for the execution entrypoint.";
		if (wrong != NULL) {
			ci_detail(r, 422, "%s", wrong);
			return -1;
		}
		*f = (struct stage_file){ .path = path, .mode = (unsigned int)in[i].mode };
		if (in[i].file_id.set)
			f->id = in[i].file_id.p;
		else if (stage_inline(r, &in[i], i, f, strings) < 0)
			return -1;
		(*n)++;
	}
	return 0;
}

/* --- the program ------------------------------------------------------------------------------ */

/*
 * Runs the source as the reference does: all statements but a last expression as a program, that one as the
 * prompt would. A traceback speaks of "<stdin>" and does not show this code; globals are clean.
 */
static const char wrapper_head[] =
	"def _glovebox(source):\n"
	"    import _ast as ast, sys\n"
	"    space = globals()\n"
	"    del space['_glovebox']\n"
	"    try:\n"
	"        tree = compile(source, '<stdin>', 'exec', 1024)\n" /* PyCF_ONLY_AST */
	"    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:\n"
	"        sys.excepthook(type(e), e.with_traceback(None), None)\n"
	"        sys.exit(1)\n"
	"    last = None\n"
	"    if tree.body and isinstance(tree.body[-1], ast.Expr):\n"
	"        last = ast.Interactive([tree.body.pop()])\n"
	"    try:\n"
	"        exec(compile(tree, '<stdin>', 'exec'), space)\n"
	"        if last is not None:\n"
	"            exec(compile(last, '<stdin>', 'single'), space)\n"
	"    except SystemExit:\n"
	"        raise\n"
	"    except SyntaxError as e:\n"
	"        trace = e.__traceback__.tb_next\n"
	"        sys.excepthook(type(e), e.with_traceback(trace), trace)\n"
	"        sys.exit(1)\n"
	"    except BaseException as e:\n"
	"        trace = e.__traceback__.tb_next\n"
	"        sys.excepthook(type(e), e.with_traceback(trace), trace)\n"
	"        sys.exit(1)\n"
	"_glovebox(\"";
static const char wrapper_tail[] = "\")\n";

/* The source as a string literal of Python. */
static char *wrap(const struct field_str *code, struct ci_strings **strings, size_t *ret_n)
{
	size_t head = sizeof(wrapper_head) - 1, n = head;
	char *text = ci_string(strings, head + code->n * 4 + sizeof(wrapper_tail));

	if (text == NULL)
		return NULL;
	(void)memcpy(text, wrapper_head, head);
	for (size_t i = 0; i < code->n; i++) {
		unsigned char c = (unsigned char)code->p[i];

		if (c == '\\' || c == '"') {
			text[n++] = '\\';
			text[n++] = (char)c;
		} else if (c == '\n') {
			text[n++] = '\\';
			text[n++] = 'n';
		} else if (c < 0x20 || c == 0x7f) {
			n += (size_t)snprintf(text + n, 5, "\\x%02x", c);
		} else {
			text[n++] = (char)c;
		}
	}
	(void)memcpy(text + n, wrapper_tail, sizeof(wrapper_tail) - 1);
	*ret_n = n + sizeof(wrapper_tail) - 1;
	return text;
}

/* One list: what only a terminal has stands first, and programs begin behind it. */
static const char *const environment[] = {
	"TERM=xterm-256color",
#define ENV(name, value) name "=" value,
#include "policy/environment.tbl"
#undef ENV
	"PYTHONIOENCODING=utf-8",
	NULL,
};

const char *const *ci_environment(void)
{
	return environment + 1;
}

const char *const *ci_tty_environment(void)
{
	return environment;
}

void ci_limits(struct gate *g, struct box_request *q)
{
	const struct config *c = &g->config;
	char *const *waived;
	unsigned int n;

	q->flags = BOX_HEARD | BOX_NETWORK;
	q->waived = 0;
	q->image = 0;
	q->nmounts = 0; /* of which there is none to clear, then: they are large */
	limits_init(&q->limits);
	q->limits.v[LIMIT_MEMORY] = config_u64(c, CONF_CI_MEMORY);
	q->limits.v[LIMIT_PROCESSES] = config_u64(c, CONF_CI_PROCESSES);
	q->limits.v[LIMIT_CPU_SECONDS] = config_u64(c, CONF_CI_CPU_SECONDS);
	q->limits.v[LIMIT_WORKSPACE] = config_u64(c, CONF_CI_WORKSPACE);
	waived = config_list(c, CONF_ACCEPT_MISSING, &n);
	for (unsigned int i = 0; i < n; i++) {
		int layer = layer_find(waived[i]);

		if (layer >= 0)
			q->waived |= LAYER_BIT(layer);
	}
}

void ci_spec(struct gate *g, struct oneshot_spec *spec, uint64_t timeout_us, bool input_file)
{
	static const char *const plain[] = { "/usr/bin/python3", "/workspace/__main__.py", NULL };
	static const char *const fed[] = { "/bin/sh",
					   "-c",
					   "exec 0< /tmp/.stdin; rm -f /tmp/.stdin; exec \"$@\"",
					   "sh",
					   "/usr/bin/python3",
					   "/workspace/__main__.py",
					   NULL };

	ci_limits(g, &spec->box);
	spec->network = NET_DEFAULT_CI;
	spec->warm = WARM_MAX;
	spec->argv = input_file ? fed : plain;
	spec->script = plain;
	spec->input_path = input_file ? "/tmp/.stdin" : NULL;
	spec->envp = ci_environment();
	spec->timeout_us = timeout_us;
	spec->output_max = config_u64(&g->config, CONF_CI_OUTPUT_BYTES);
	spec->ignore = "__main__.py";
}

/* Within its maximum? 0, or -1: answered. */
int ci_run_prepare(struct req *r, struct ci_run *run, enum operation op)
{
	struct gate *g = r->g;
	uint64_t max_ms = config_u64(&g->config, CONF_CI_MAX_TIMEOUT_MS);
	uint64_t timeout_ms;
	struct stage_file *f;
	size_t n = 1;

	*run = (struct ci_run){ 0 };
	if (ci_decode(r, &ci_execute_fields, &run->body, &run->in) < 0)
		return -1;
	timeout_ms = run->in.timeout_set ? (uint64_t)run->in.timeout_ms
					 : config_u64(&g->config, CONF_CI_DEFAULT_TIMEOUT_MS);
	run->files = calloc(run->in.files.n + 2, sizeof(*run->files));
	f = run->files;
	if (timeout_ms > max_ms) {
		ci_detail(r, 422, "timeout_ms exceeds maximum of %llu ms",
			  (unsigned long long)max_ms);
	} else if (f == NULL) {
		ci_detail(r, 503, "out of memory");
	} else if (ci_stage(r, &run->in.files, false, run->files, &n, &run->strings) == 0) {
		*f = (struct stage_file){ .path = "__main__.py",
					  .mode = 0644,
					  .p = run->in.code.p,
					  .n = run->in.code.n };
		if (run->in.last_line_interactive)
			f->p = wrap(&run->in.code, &run->strings, &f->n);
		if (f->p != NULL) {
			ci_spec(g, &run->spec, timeout_ms * 1000, false);
			run->spec.warm = warm_pick(g, run->in.code.p, run->in.code.n);
			run->spec.operation = op;
			run->spec.tenant = r->tenant;
			run->spec.request = r->id;
			run->spec.files = run->files;
			run->spec.nfiles = n;
			if (run->in.input.set) {
				run->spec.input = run->in.input.p;
				run->spec.input_len = run->in.input.n;
			}
			return 0;
		}
		ci_detail(r, 503, "out of memory");
	}
	ci_run_done(run);
	return -1;
}

void ci_run_done(struct ci_run *run)
{
	free(run->files);
	ci_strings_free(run->strings);
	ci_body_done(&run->body);
	*run = (struct ci_run){ 0 };
}

/* --- answers ---------------------------------------------------------------------------------- */

void ci_failure(struct req *r, const struct oneshot_failure *f, const struct oneshot_spec *spec)
{
	const struct config *c = &r->g->config;

	if (f->why == ONESHOT_NO_FILE) {
		ci_detail(r, 404, "File with ID '%s' not found for path '%s'.",
			  spec->files[f->file].id, spec->files[f->file].path);
		return;
	}
	if (f->status == 429) {
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(c, CONF_EXECUTION_RETRY_AFTER) / US_PER_S));
		ci_detail(r, 429, "the executor is saturated: %llu executions are under way",
			  (unsigned long long)config_u64(c, CONF_MAX_CONCURRENT_EXECUTIONS));
		return;
	}
	if (f->status == 503)
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(c, CONF_CAPACITY_RETRY_AFTER) / US_PER_S));
	ci_detail(r, f->status, "%s", f->text);
}

/* Over its processor time a program gets SIGXCPU here; to the reference's clients that is a kill like others. */
static int kill_of(int sig)
{
	return sig == SIGXCPU ? SIGKILL : sig;
}

void ci_put_exit(struct json *j, const struct job_exit *x)
{
	bool timed_out = (x->flags & JOB_TIMED_OUT) != 0;

	if (timed_out)
		json_null(j, "exit_code");
	else
		json_i64(j, "exit_code", x->how == JOB_SIGNALED ? 128 + kill_of(x->code) : x->code);
	json_bool(j, "timed_out", timed_out);
}

void ci_put_stream(struct json *j, const char *key, struct buf *b, bool cut, uint64_t max)
{
	static const char mark[] = "\n...[truncated]";
	size_t keep = max > 32 ? (size_t)max - 32 : 0, n = buf_len(b);

	if (cut) {
		if (n > keep)
			b->end = b->at + keep;
		b->max += sizeof(mark);
		(void)buf_put(b, mark, sizeof(mark) - 1);
	}
	json_bytes(j, key, buf_head(b), buf_len(b));
}

void ci_put_files(struct json *j, const struct oneshot_result *res)
{
	json_open(j, "files", '[');
	for (size_t i = 0; i < res->nfiles; i++) {
		json_open(j, NULL, '{');
		json_str(j, "path", res->files[i].path);
		json_str(j, "kind", "file");
		json_str(j, "file_id", res->files[i].id);
		json_close(j, '}');
	}
	json_close(j, ']');
}

enum outcome ci_outcome(const struct job_exit *x)
{
	if ((x->flags & JOB_TIMED_OUT) != 0)
		return OUTCOME_TIMED_OUT;
	return OUTCOME_OK;
}
