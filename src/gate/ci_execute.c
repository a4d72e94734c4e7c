// SPDX-License-Identifier: Apache-2.0
/* POST /v1/execute: everything in one answer. */
#include "gate/ci.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

struct batch {
	struct req *r;
	struct ci_run run;
	struct oneshot *o;
	struct buf out[2];
	uint64_t began_us;
};

static void done(struct batch *b)
{
	if (b->o != NULL)
		oneshot_end(b->o);
	ci_run_done(&b->run);
	buf_done(&b->out[0]);
	buf_done(&b->out[1]);
	free(b);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct batch *b = arg;

	(void)buf_put(&b->out[stream - 1], p, n); /* init keeps to the limit */
	oneshot_ack(b->o, number);
}

static void on_result(void *arg, const struct oneshot_result *res)
{
	struct batch *b = arg;
	struct req *r = b->r;
	uint64_t max = b->run.spec.output_max;
	struct json j;

	metrics_completed(&r->g->metrics, OPERATION_EXECUTE, ci_outcome(&res->exit),
			  clock_us() - b->began_us);
	json_init(&j);
	json_open(&j, NULL, '{');
	ci_put_stream(&j, "stdout", &b->out[0], (res->exit.flags & JOB_CUT_STDOUT) != 0, max);
	ci_put_stream(&j, "stderr", &b->out[1], (res->exit.flags & JOB_CUT_STDERR) != 0, max);
	ci_put_exit(&j, &res->exit);
	json_u64(&j, "duration_ms", res->duration_us / 1000);
	ci_put_files(&j, res);
	json_close(&j, '}');
	r->gone = NULL;
	req_json(r, 200, &j);
	done(b); /* the box ends behind the answer, not before it */
}

static void on_failed(void *arg, const struct oneshot_failure *f)
{
	struct batch *b = arg;
	struct req *r = b->r;

	if (f->status != 404 && f->status != 429)
		metrics_completed(&r->g->metrics, OPERATION_EXECUTE, OUTCOME_ERROR,
				  clock_us() - b->began_us);
	r->gone = NULL;
	ci_failure(r, f, &b->run.spec);
	done(b);
}

static void on_gone(struct req *r)
{
	done(r->work);
}

void ci_execute_run(struct req *r)
{
	static const struct oneshot_ops ops = { .output = on_output,
						.result = on_result,
						.failed = on_failed };
	struct batch *b = calloc(1, sizeof(*b));

	if (b == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	b->r = r;
	b->began_us = clock_us();
	if (ci_run_prepare(r, &b->run, OPERATION_EXECUTE) < 0) {
		free(b);
		return;
	}
	buf_init(&b->out[0], (size_t)b->run.spec.output_max + 64);
	buf_init(&b->out[1], (size_t)b->run.spec.output_max + 64);
	b->o = oneshot_new(r->g, &b->run.spec, &ops, b);
	if (b->o == NULL) {
		ci_detail(r, 503, "out of memory");
		done(b);
		return;
	}
	r->work = b;
	r->gone = on_gone;
	oneshot_start(b->o);
}
