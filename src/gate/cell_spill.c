// SPDX-License-Identifier: Apache-2.0
/*
 * What a cell prints beyond its limit, as a file of its box.
 *
 * The file is begun when the limit is reached, and has everything from the first byte on, both streams in the order in
 * which they came. It is written by a job of the box's init, as any file is, and it is there when the cell has ended.
 * A cell that spills is read as fast as its file is written: it waits, instead of being cut off.
 */
#include "gate/kernels.h"

#include "base/own.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	HIGH = 1024 * 1024, /* bytes that wait to be written: then the cell waits */
	LOW = 256 * 1024,
};

struct spill {
	struct cell *c;
	struct gjob job;
	struct buf out;
	bool begun, over, failed;
	bool ended; /* the cell: its end waits for that of the file */
	struct job_exit exit;
	uint64_t number;
	char path[64];
};

const char *spill_path(const struct spill *s)
{
	return s != NULL && s->begun && s->over && !s->failed ? s->path : NULL;
}

struct spill *spill_new(struct cell *c)
{
	struct spill *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->c = c;
	buf_init(&s->out, SIZE_MAX / 4);
	return s;
}

/* Nobody writes to it any more. */
static void stop(struct spill *s)
{
	gjob_signal(&s->job, SIGKILL, 0);
	gjob_drop(&s->job);
}

void spill_free(struct spill *s)
{
	if (s == NULL)
		return;
	stop(s);
	buf_done(&s->out);
	free(s);
}

static void hold_back(struct spill *s, bool on)
{
	struct task *t = &s->c->t;

	if (t->held_back == on)
		return;
	t->held_back = on;
	if (!on)
		task_took(t, t->job.last, 0);
}

/* The file is complete, or never will be. */
static void finish(struct spill *s, bool failed)
{
	s->over = true;
	s->failed = failed;
	buf_done(&s->out);
	hold_back(s, false);
	if (s->ended && !s->c->t.run.ended)
		task_on_ended(&s->c->t, &s->exit, s->number);
}

static void pump(struct spill *s)
{
	while (buf_len(&s->out) > 0) {
		size_t n = gjob_input(&s->job, buf_head(&s->out), buf_len(&s->out));

		if (n == 0)
			break;
		buf_take(&s->out, n);
	}
	if (s->ended && buf_len(&s->out) == 0)
		gjob_input_end(&s->job);
	if (buf_len(&s->out) > HIGH)
		hold_back(s, true);
	else if (buf_len(&s->out) < LOW)
		hold_back(s, false);
}

static void on_want(void *arg)
{
	pump(arg);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct spill *s = arg;

	(void)stream;
	(void)p;
	(void)n;
	gjob_ack(&s->job, number);
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct spill *s = arg;

	gjob_ack(&s->job, number);
	finish(s, x->how != JOB_EXITED || x->code != 0);
}

static void on_failed(void *arg, int error, const char *why)
{
	(void)error;
	(void)why;
	finish(arg, true);
}

static const struct gjob_ops job_ops = {
	.output = on_output, .want = on_want, .ended = on_ended, .failed = on_failed
};

static int put(struct spill *s, const struct run *run, unsigned int i, size_t from, size_t to)
{
	return to > from ? buf_put(&s->out, buf_head(&run->out[i]) + from, to - from) : 0;
}

/* All that the log has, in its order: what its marks cover, and what lies before, between and behind them. */
static int collect(struct spill *s, const struct run *run)
{
	size_t at[2] = { 0, 0 };
	int r = 0;

	for (size_t m = run->first; m < run->nmarks && r == 0; m++) {
		const struct run_mark *mark = &run->marks[m];
		unsigned int i = mark->event == RUN_STDOUT ? 0 : 1;

		if (mark->event != RUN_STDOUT && mark->event != RUN_STDERR)
			continue;
		r = put(s, run, i, at[i], mark->at + mark->n);
		at[i] = mark->at + mark->n;
	}
	for (unsigned int i = 0; i < 2 && r == 0; i++)
		r = put(s, run, i, at[i], buf_len(&run->out[i]));
	return r;
}

static int begin(struct spill *s)
{
	static const char *const envp[] = { NULL };
	struct task *t = &s->c->t;
	const char *const argv[] = { "write", s->path, "644", "", "", NULL };
	struct job_spec spec = { .kind = JOB_FILE,
				 .flags = JOB_STDIN | JOB_ATTENDED,
				 .cwd = t->a->box->cwd,
				 .argv = argv,
				 .envp = envp };
	int r = collect(s, &t->run);

	(void)snprintf(s->path, sizeof(s->path), "%s/.outputs/%s.txt", t->a->box->cwd, t->run.id);
	s->begun = true;
	return r < 0 ? r : gjob_start(t->a->box, &s->job, 0, &spec, &job_ops, s);
}

void spill_output(struct spill *s, const uint8_t *p, size_t n, size_t kept)
{
	int r = 0;

	if (s->over || (!s->begun && kept == n))
		return;
	if (s->begun)
		kept = 0;
	else
		r = begin(s);
	if (r == 0)
		r = buf_put(&s->out, p + kept, n - kept);
	if (r < 0) {
		stop(s);
		finish(s, true);
		return;
	}
	pump(s);
}

bool spill_end(struct spill *s, const struct job_exit *x, uint64_t number)
{
	if (s == NULL || !s->begun || s->over)
		return false;
	s->ended = true;
	s->exit = *x;
	s->number = number;
	pump(s);
	return true;
}
