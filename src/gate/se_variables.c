// SPDX-License-Identifier: Apache-2.0
/*
 * output_params: variables of a Python script, after its end.
 *
 * The script is run by a few lines of Python that are given to the interpreter on its command line. They run it as the interpreter would
 * have, and leave the variables in a file outside of the workspace, of a name that only this run has; the gate reads and removes it.
 * Nothing that is printed can be taken for them. A script that looks for the file betrays nobody but its own caller.
 */
#include "base/own.h"
#include "gate/buf.h"
#include "gate/se_code.h"
#include "gate/se_files.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { LEFT_RANDOM = 16 };

/* Arguments: where they go, how many bytes at most, how many names, the names, the script, its arguments. A value that has no form in JSON is its
 * text; NaN and the like, which are none either, are null. The module json is taken anew, and not from the workspace: what the script
 * has made of it does not matter. */
static const char program[] =
	"def _glovebox():\n"
	"    import os, sys\n"
	"    space = globals()\n"
	"    del space['_glovebox']\n"
	"    left, most, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
	"    names, sys.argv[:] = dict.fromkeys(sys.argv[4:4 + n]), sys.argv[4 + n:]\n"
	"    own = [p for p in sys.path if p and not (p + '/').startswith('/workspace/')]\n"
	"    file = os.path.abspath(sys.argv[0])\n"
	"    sys.path[0] = os.path.dirname(file)\n"
	"    space.update(__file__=file, __cached__=None)\n"
	"    def fail(e, trace):\n"
	"        sys.excepthook(type(e), e.with_traceback(trace), trace)\n"
	"        sys.exit(130 if type(e) is KeyboardInterrupt else 1)\n"
	"    try:\n"
	"        with open(file, 'rb') as f:\n"
	"            code = compile(f.read(), file, 'exec', dont_inherit=True)\n"
	"    except BaseException as e:\n"
	"        fail(e, None)\n"
	"    try:\n"
	"        exec(code, space)\n"
	"    except SystemExit as e:\n"
	"        if e.code is not None and not (type(e.code) is int and e.code == 0):\n"
	"            raise\n"
	"    except BaseException as e:\n"
	"        fail(e, e.__traceback__.tb_next)\n"
	"    try:\n"
	"        for m in [m for m in sys.modules if m == 'json' or m[:5] == 'json.']:\n"
	"            del sys.modules[m]\n"
	"        path, sys.path[:] = sys.path[:], own\n"
	"        import json\n"
	"        sys.path[:] = path\n"
	"        lines = []\n"
	"        for name in names:\n"
	"            if name not in space:\n"
	"                continue\n"
	"            try:\n"
	"                try:\n"
	"                    text = json.dumps(space[name], default=str)\n"
	"                except TypeError:\n"
	"                    text = json.dumps(str(space[name]))\n"
	"                if 'NaN' in text or 'Infinity' in text:\n"
	"                    value = json.loads(text, parse_constant=lambda c: None)\n"
	"                    text = json.dumps(value)\n"
	"            except Exception:\n"
	"                continue\n"
	"            line = ('{' + json.dumps(name) + ':' + text + '}\\n').encode('ascii')\n"
	"            most -= len(line)\n"
	"            if most >= 0:\n"
	"                lines.append(line)\n"
	"        fd = os.open(left, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)\n"
	"        with os.fdopen(fd, 'wb') as f:\n"
	"            f.writelines(lines)\n"
	"    except Exception:\n"
	"        pass\n"
	"_glovebox()\n";

size_t se_variables_argv(struct se_code *c, const char **argv)
{
	static char left[SE_LEFT_PATH + 1];
	size_t n = 0;

	(void)snprintf(left, sizeof(left), "/%s", c->left);
	(void)snprintf(c->most, sizeof(c->most), "%d", SE_VARIABLES_MAX);
	(void)snprintf(c->many, sizeof(c->many), "%zu", c->in.output_params.n);
	argv[n++] = "-c";
	argv[n++] = program;
	argv[n++] = left;
	argv[n++] = c->most;
	argv[n++] = c->many;
	return n + se_put_words(argv + n, &c->in.output_params);
}

int se_variables_init(struct se_code *c)
{
	uint8_t random[LEFT_RANDOM];
	int n = snprintf(c->left, sizeof(c->left), "tmp/.glovebox-");

	json_init(&c->variables);
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -1;
	for (unsigned int i = 0; i < sizeof(random); i++)
		n += snprintf(c->left + n, sizeof(c->left) - (size_t)n, "%02x", random[i]);
	return 0;
}

void se_variables_done(struct se_code *c)
{
	json_done(&c->variables);
}

void se_variables_put(const struct se_exec *x, struct json *j)
{
	const struct se_code *c = (const struct se_code *)x;
	bool some = c->variables.len > 0 && !c->variables.failed;

	json_value(j, "output_variables");
	json_raw(j, some ? c->variables.buf : "{}", some ? c->variables.len : 2);
}

/* --- what was left ---------------------------------------------------------------------------- */

/* The file goes, and nobody waits for that. */
struct removal {
	struct gate *g;
	struct gjob job;
	struct deferred deferred;
};

static void removal_free(void *arg)
{
	free(arg);
}

static void removal_over(void *arg)
{
	struct removal *rm = arg;

	loop_defer(&rm->g->loop, &rm->deferred, removal_free, rm);
}

static void removal_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p,
			   size_t n)
{
	struct removal *rm = arg;

	(void)stream;
	(void)p;
	(void)n;
	gjob_ack(&rm->job, number);
}

static void removal_ended(void *arg, const struct job_exit *e, uint64_t number)
{
	struct removal *rm = arg;

	(void)e;
	gjob_ack(&rm->job, number);
	removal_over(rm);
}

static void removal_failed(void *arg, int error, const char *why)
{
	(void)error;
	(void)why;
	removal_over(arg);
}

static void remove_left(const struct se_code *c)
{
	static const struct gjob_ops ops = { .output = removal_output,
					     .ended = removal_ended,
					     .failed = removal_failed,
					     .lost = removal_over };
	static const char *const none[] = { NULL };
	const char *const argv[] = { fileop_row(FILEOP_DELETE)->name, c->left, "0", NULL };
	struct job_spec spec = { .kind = JOB_FILE, .cwd = "/", .argv = argv, .envp = none };
	const struct abox *a = c->x.a;
	struct removal *rm = a != NULL && a->box != NULL ? calloc(1, sizeof(*rm)) : NULL;

	if (rm == NULL)
		return;
	rm->g = c->x.g;
	if (gjob_start(a->box, &rm->job, 0, &spec, &ops, rm) < 0)
		free(rm);
}

struct leaving {
	struct file_call call;
	struct se_code *code;
	struct buf bytes;
};

static void leaving_release(struct file_call *c)
{
	buf_done(&((struct leaving *)c)->bytes);
}

static int leaving_record(struct file_call *c, const struct listing_entry *e)
{
	(void)c;
	return e->type == 'f' ? 0 : -1;
}

/* It is what the box says, of any length. */
static int leaving_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	return buf_put(&((struct leaving *)c)->bytes, p, n);
}

/* Lines of one member each. What is none of that was not written by us. */
static void take_lines(struct json *to, const char *p, size_t n)
{
	const char *end = p + n;

	json_open(to, NULL, '{');
	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((stop != NULL ? stop : end) - p);
		struct json_text line, key, value;
		struct json_walk w;

		if (json_text_read(p, len, &line) == 0 && json_text_kind(line) == '{') {
			w = json_walk(line);
			while (json_walk_next(&w, &key, &value)) {
				json_text_put_key(key, to);
				json_text_put(value, to, NULL);
			}
		}
		p += len + (stop != NULL);
	}
	json_close(to, '}');
}

static void finish(struct se_code *c)
{
	remove_left(c);
	se_exec_answer(&c->x);
}

static void leaving_end(struct file_call *c)
{
	struct leaving *l = (struct leaving *)c; /* stays until the end of this turn */

	file_call_close(c);
	take_lines(&l->code->variables, buf_head(&l->bytes), buf_len(&l->bytes));
	finish(l->code);
}

static void leaving_fail(struct file_call *c, int error)
{
	struct leaving *l = (struct leaving *)c;

	(void)error; /* there is none: the script failed, or did not come to its end */
	file_call_close(c);
	finish(l->code);
}

static void leaving_gone(struct req *r)
{
	struct leaving *l = r->work;

	l->code->x.r = NULL;
	file_call_close(&l->call);
	finish(l->code);
}

void se_variables_read(struct se_exec *x)
{
	static const struct file_ops ops = { .record = leaving_record,
					     .bytes = leaving_bytes,
					     .end = leaving_end,
					     .fail = leaving_fail,
					     .release = leaving_release };
	static const struct file_shape outside = { .cwd = "/", .refuse = se_file_refuse };
	struct se_code *c = (struct se_code *)x; /* its first member */
	struct file_path path = { 0 };
	struct req *r = x->r;
	struct leaving *l;

	if (r == NULL) {
		finish(c);
		return;
	}
	(void)snprintf(path.text, sizeof(path.text), "%s", c->left);
	x->r = NULL; /* it may be answered, and gone, before the next line */
	l = (struct leaving *)file_call_new(r, x->a, &outside, &path, &ops, sizeof(*l));
	if (l == NULL) {
		finish(c);
		return;
	}
	x->r = r;
	r->gone = leaving_gone;
	l->code = c;
	buf_init(&l->bytes, SE_VARIABLES_MAX);
	(void)file_call_run(&l->call, FILEOP_READ,
			    (const char *const[]){ "nofollow", "0", c->most, "", "", NULL });
}
