// SPDX-License-Identifier: Apache-2.0
/* How a run went: as an exit status, as a line for a person, as JSON. */
#include "cli/run.h"

#include "base/layers.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Out of memory: the kernel says that it killed, and the program ended by that very signal. */
static bool is_oom(const struct run_result *r)
{
	if ((r->figures.has & FIGURE_OOM) == 0 || r->figures.oom_kills == 0)
		return false;
	return r->box_gone || (r->ran && (r->exit.flags & JOB_TIMED_OUT) == 0 &&
			       ((r->exit.how == JOB_SIGNALED && r->exit.code == SIGKILL) ||
				(r->exit.how == JOB_EXITED && r->exit.code != 0)));
}

static bool timed_out(const struct run_result *r)
{
	return (r->ran && (r->exit.flags & JOB_TIMED_OUT) != 0) ||
	       (r->box_gone && r->why == GONE_DEADLINE);
}

int run_status(const struct run_result *r, const struct err *e)
{
	if (r->interrupted != 0 && !r->ran)
		return EXIT_SIGNAL_BASE + r->interrupted;
	if (e != NULL && e->kind != ERR_NONE && !r->box_gone)
		return EXIT_GLOVEBOX;
	if (timed_out(r))
		return EXIT_TIMEOUT;
	if (r->box_gone)
		return is_oom(r) ? EXIT_SIGNAL_BASE + SIGKILL : EXIT_GLOVEBOX;
	if (r->exit.how == JOB_FAILED)
		return EXIT_GLOVEBOX;
	return r->exit.how == JOB_SIGNALED ? EXIT_SIGNAL_BASE + r->exit.code : r->exit.code;
}

static void say_cut(const char *stream, uint64_t total, uint64_t kept)
{
	char a[32], b[32];

	say("%s was cut after %s of %s; --output-limit raises that", stream,
	    limit_format(LIMIT_OUTPUT, kept, a, sizeof(a)),
	    limit_format(LIMIT_OUTPUT, total, b, sizeof(b)));
}

void run_say(const struct run_request *q, const struct run_result *r)
{
	uint64_t kept = q->box.limits.v[LIMIT_OUTPUT];
	char limit[32], peak[32];

	if (r->ran && (r->exit.flags & JOB_CUT_STDOUT) != 0)
		say_cut("stdout", r->exit.stdout_bytes, kept);
	if (r->ran && (r->exit.flags & JOB_CUT_STDERR) != 0)
		say_cut("stderr", r->exit.stderr_bytes, kept);
	if (timed_out(r))
		say("the program's time was over after %llu.%03llu s; --timeout gives it more",
		    (unsigned long long)(q->timeout_us / 1000000),
		    (unsigned long long)(q->timeout_us / 1000 % 1000));
	else if (is_oom(r))
		say("out of memory: the limit is %s (files in memory apart), the peak was %s; "
		    "--memory gives it more",
		    limit_format(LIMIT_MEMORY, q->box.limits.v[LIMIT_MEMORY], limit, sizeof(limit)),
		    limit_format(LIMIT_MEMORY, r->figures.peak_memory_bytes, peak, sizeof(peak)));
	else if (r->ran && r->exit.how == JOB_SIGNALED && r->exit.code == SIGXCPU)
		say("the program's processor time was over; --cpu-seconds gives it more");
	else if (r->ran && r->exit.how == JOB_SIGNALED && r->interrupted == 0)
		say("the program was ended by signal %d (%s)", r->exit.code,
		    strsignal(r->exit.code));
	if (r->nskipped > 0)
		say("%u files of the workspace were not collected: their names or sizes are not "
		    "acceptable",
		    r->nskipped);
}

static void json_figures(struct json *j, const struct run_result *r)
{
	bool cgroup_cpu = (r->figures.has & FIGURE_CPU) != 0;
	bool cgroup_peak = (r->figures.has & FIGURE_PEAK) != 0;

	json_open(j, "figures", '{');
	json_milli(j, "wall_ms", r->ran ? r->exit.wall_us : r->figures.wall_us);
	json_milli(j, "cpu_ms", cgroup_cpu ? r->figures.cpu_us : r->exit.user_us + r->exit.sys_us);
	json_u64(j, "peak_memory_bytes",
		 cgroup_peak ? r->figures.peak_memory_bytes : r->exit.max_rss_bytes);
	json_str(j, "measured_by", cgroup_cpu && cgroup_peak ? "cgroup" : "rusage");
	if ((r->figures.has & FIGURE_NET) != 0) {
		json_open(j, "network", '{');
		json_u64(j, "connections", r->figures.net.connections);
		json_u64(j, "refused", r->figures.net.refused);
		json_u64(j, "questions", r->figures.net.questions);
		json_u64(j, "sent_bytes", r->figures.net.sent);
		json_u64(j, "received_bytes", r->figures.net.received);
		json_close(j, '}');
	}
	json_milli(j, "setup_ms", r->info.setup_us);
	json_open(j, "setup_steps_us", '{');
	for (unsigned int i = 0; i < PLAN_STEPS; i++)
		json_u64(j, plan_step_str(i), r->info.step_us[i]);
	json_close(j, '}');
	json_close(j, '}');
}

static void json_exit(struct json *j, const struct run_result *r)
{
	bool exited = r->ran && r->exit.how == JOB_EXITED && !timed_out(r);
	bool signaled = r->ran && r->exit.how == JOB_SIGNALED;
	const char *name = signaled ? sigabbrev_np(r->exit.code) : NULL;
	char text[16];

	if (exited)
		json_i64(j, "exit_code", r->exit.code);
	else
		json_null(j, "exit_code");
	if (signaled) {
		(void)snprintf(text, sizeof(text), "SIG%s", name != NULL ? name : "?");
		json_str(j, "signal", text);
	} else {
		json_null(j, "signal");
	}
	json_bool(j, "timed_out", timed_out(r));
	json_bool(j, "oom", is_oom(r));
	json_open(j, "truncated", '{');
	json_bool(j, "stdout", (r->exit.flags & JOB_CUT_STDOUT) != 0);
	json_bool(j, "stderr", (r->exit.flags & JOB_CUT_STDERR) != 0);
	json_close(j, '}');
}

static void json_box(struct json *j, const struct run_request *q, const struct run_result *r)
{
	json_open(j, "limits", '{');
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);

		if (row->unit == LIMIT_MILLI)
			json_milli(j, row->key, q->box.limits.v[i]);
		else
			json_u64(j, row->key, q->box.limits.v[i]);
	}
	json_close(j, '}');
	json_open(j, "layers", '[');
	for (int i = 0; i < LAYER_MAX; i++)
		if ((r->info.layers & LAYER_BIT(i)) != 0)
			json_str(j, NULL, layer_row((enum layer)i)->name);
	json_close(j, ']');
	json_open(j, "refused_syscalls", '[');
	for (unsigned int i = 0; i < r->nrefused; i++)
		json_str(j, NULL, r->refused[i]);
	json_close(j, ']');
	json_open(j, "files", '[');
	for (unsigned int i = 0; i < r->nfiles; i++)
		json_str(j, NULL, r->files[i]);
	json_close(j, ']');
}

int run_json(const struct run_request *q, const struct run_result *r, const struct err *e)
{
	struct json j;
	bool failed;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_exit(&j, r);
	json_bytes(&j, "stdout", r->out[0].buf != NULL ? r->out[0].buf : (const uint8_t *)"",
		   r->out[0].len);
	json_bytes(&j, "stderr", r->out[1].buf != NULL ? r->out[1].buf : (const uint8_t *)"",
		   r->out[1].len);
	json_figures(&j, r);
	json_box(&j, q, r);
	if (e != NULL && e->kind != ERR_NONE) {
		json_open(&j, "error", '{');
		json_str(&j, "code", err_kind_str(e->kind));
		json_str(&j, "message", e->text);
		json_str(&j, "hint", e->hint);
		json_close(&j, '}');
	} else {
		json_null(&j, "error");
	}
	json_close(&j, '}');
	failed = j.failed || printf("%s\n", j.buf) < 0 || fflush(stdout) != 0;
	json_done(&j);
	if (failed)
		say("the result could not be written: %s", strerror(errno));
	return failed ? -1 : 0;
}
