/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/gate: sessions of the Sandbox Runtime dialect, between clients and a keeper and an init that the test plays: who makes them, who waits,
 * and what becomes of those who wait when something ends.
 */
#include "gate/boxes.h"
#include "gate/se.h"
#include "wire/frame.h"
#include "wire/job.h"
#include "wire/listing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "test.h"
#include "test_gate_http.h"

#define SE "/workspace/se/"

/* A request without a body. */
static void get(int c, const char *line)
{
	ask(c, line, "%s", "");
}

/* --- init --------------------------------------------------------------------------------------------------------- */

/* The last job that init was asked for, and what it was sent since. */
static struct {
	uint64_t job;
	unsigned int runs;
	uint32_t flags;
	enum job_kind kind;
	char cwd[64], line[1 << 14], env[1 << 13], input[1 << 12];
	size_t ninput;
	bool input_end;
} init;

static size_t join(char *to, size_t size, const char *const *words)
{
	size_t n = 0;

	to[0] = '\0';
	for (; *words != NULL; words++)
		n += (size_t)snprintf(to + n, n < size ? size - n : 0, "[%s]", *words);
	return n;
}

static void take_run(const struct frame *f)
{
	struct job_spec spec;
	void *block = NULL;

	CHECK_EQ_INT(job_spec_decode(f->payload, f->len, &spec, &block), 0);
	init.runs++;
	init.job = f->id;
	init.kind = spec.kind;
	init.flags = spec.flags;
	(void)snprintf(init.cwd, sizeof(init.cwd), "%s", spec.cwd);
	(void)join(init.line, sizeof(init.line), spec.argv);
	(void)join(init.env, sizeof(init.env), spec.envp);
	free(block);
}

static void hear(int box)
{
	static uint8_t buf[1 << 18];
	ssize_t n;

	(void)memset(&init, 0, sizeof(init));
	turn();
	n = recv(box, buf, sizeof(buf), MSG_DONTWAIT);
	for (ssize_t at = 0; at < n;) {
		struct frame f;
		ptrdiff_t used = frame_parse(buf + at, (size_t)(n - at), FRAME_TO_BOX, &f);

		CHECK(used > 0);
		at += used;
		if (f.type == FRAME_RUN)
			take_run(&f);
		if (f.type == FRAME_INPUT && init.ninput + f.len < sizeof(init.input)) {
			(void)memcpy(init.input + init.ninput, f.payload, f.len);
			init.ninput += f.len;
		}
		init.input_end = init.input_end || f.type == FRAME_INPUT_END;
	}
}

/* The one job that init was asked for; it has begun. */
static uint64_t job_of(int box, const char *begins)
{
	uint8_t pid[4] = { 7 };

	hear(box);
	if (init.runs != 1 || strncmp(init.line, begins, strlen(begins)) != 0)
		test_fail(__FILE__, __LINE__, "%u jobs, the last is %s", init.runs, init.line);
	test_count();
	say(box, FRAME_STARTED, init.job, 1, pid, sizeof(pid));
	turn();
	return init.job;
}

static void say_end(int box, uint64_t job, uint64_t number, struct job_exit x)
{
	uint8_t body[256];

	say(box, FRAME_EXIT, job, number, body, (size_t)job_exit_encode(&x, body, sizeof(body)));
	turn();
}

static void say_well(int box, uint64_t job, uint64_t number)
{
	say_end(box, job, number, (struct job_exit){ .how = JOB_EXITED });
}

static void say_record(int box, uint64_t job, uint64_t number, uint64_t size, const char *path)
{
	static struct listing_entry e;
	uint8_t frame[FRAME_HEADER + LISTING_HEADER + LISTING_RECORD_MAX];
	ptrdiff_t n;

	e = (struct listing_entry){ .type = 'f', .mode = 0644, .size = size, .inode = 7 };
	(void)snprintf(e.path, sizeof(e.path), "%s", path);
	n = listing_encode(&e, frame + FRAME_HEADER, sizeof(frame) - FRAME_HEADER);
	CHECK(n > 0);
	frame_put_header(frame, FRAME_OUTPUT, 1, job, number, (size_t)n);
	CHECK_EQ_INT(send(box, frame, FRAME_HEADER + (size_t)n, 0), FRAME_HEADER + n);
	turn();
}

/* --- a keeper ----------------------------------------------------------------------------------------------------- */

static void keeper_agrees(void)
{
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	turn();
}

/* The box that was asked for is made, has its network, and is recorded. */
static int made(void)
{
	int box = make_box();

	say_hello(box);
	turn();
	CHECK(keeper_gets(OP_BOX_NET, &message));
	keeper_agrees();
	CHECK(keeper_gets(OP_BOX_RECORD, &message));
	keeper_agrees();
	return box;
}

static void keeper_ends(void)
{
	CHECK(keeper_gets(OP_BOX_END, &message));
	keeper_agrees();
}

/* A session that is there; its client, too. */
static int begin(int *ret_client)
{
	int box;

	gate_open();
	*ret_client = client();
	get(*ret_client, "POST " SE "session/s");
	box = made();
	CHECK_EQ_INT(heard(*ret_client), 200);
	CHECK_SAYS("{`session_id`:`s`,`result`:{`session_id`:`s`}}");
	return box;
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

TEST(se_a_session_is_a_box)
{
	int c, box = begin(&c);

	get(c, "GET /v1/boxes?metadata.sandbox_runtime.session=s");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`metadata`:{`sandbox_runtime.session`:`s`}");
	CHECK_SAYS("`workspace_bytes`:104857600");
	CHECK_SAYS("`memory_bytes`:134217728");
	CHECK_SAYS("`ttl_seconds`:86400,`idle_seconds`:0");
	ask(c, "POST " SE "session/s", "{`size`: `1M`}");
	CHECK_EQ_INT(heard(c), 409);
	CHECK_SAYS("{`detail`:{`type`:`SandboxError`,`message`:`Failed to create session`,"
		   "`detail`:`Session already exists: s`}}");
	get(c, "GET " SE "workspaces");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`workspaces`:{`s`:{`mount_point`:`/workspace`,`created_at`:`2");
	finish(c, box);
}

/* Nobody but the dialect says what is a session. */
TEST(se_the_mark_of_a_session_stays)
{
	int c, box = begin(&c);
	char line[128];

	(void)snprintf(line, sizeof(line), "PATCH /v1/boxes/%s", g.aboxes->id);
	ask(c, line, "{`metadata`: {`mine`: `1`}}");
	turn();
	CHECK_STR(texts_get(&g.aboxes->metadata, "mine"), "1");
	CHECK_STR(se_name(g.aboxes), "s");
	CHECK(keeper_gets(OP_BOX_FIGURES, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(heard(c), 200);
	ask(c, line, "{`metadata`: {`sandbox_runtime.session`: `other`}}");
	CHECK_EQ_INT(heard(c), 422);
	CHECK_STR(se_name(g.aboxes), "s");
	ask(c, line, "{`metadata`: {`sandbox_runtime.session`: `s`}}");
	turn();
	CHECK_STR(texts_get(&g.aboxes->metadata, "mine"), NULL);
	CHECK_STR(se_name(g.aboxes), "s");
	CHECK(keeper_gets(OP_BOX_FIGURES, &message));
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, message.request, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(heard(c), 200);
	ask(c, "POST /v1/boxes", "{`metadata`: {`sandbox_runtime.session`: `x`}}");
	CHECK_EQ_INT(heard(c), 422);
	finish(c, box);
}

TEST(se_many_make_one)
{
	int c[3], box;
	uint64_t job;

	gate_open();
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++)
		c[i] = client();
	ask(c[0], "POST " SE "execute/s", "{`command`: `first`}");
	get(c[1], "GET " SE "files/s/");
	get(c[2], "POST " SE "session/s");
	CHECK_EQ_INT(heard(c[2]), 409);
	CHECK_EQ_INT(g.naboxes, 1);
	box = made();
	CHECK_EQ_INT(g.naboxes, 1);
	hear(box);
	CHECK_EQ_INT(init.runs, 2);
	CHECK_STR(init.line, "[list][.][0][][0]");
	CHECK_STR(init.cwd, "/workspace");
	CHECK((init.flags & JOB_BENEATH) != 0);
	job = init.job;
	say_record(box, job, 1, 3, "a.txt");
	say_record(box, job, 2, 4, "stdout.log");
	say_well(box, job, 3);
	CHECK_EQ_INT(heard(c[1]), 200);
	CHECK_SAYS("{`files`:[{`filename`:`a.txt`,`size`:3,`type`:`txt`}],`result`:");
	(void)close(c[1]);
	(void)close(c[2]);
	finish(c[0], box);
}

TEST(se_whoever_waits_last_ends_the_wait)
{
	int c[2];

	gate_open();
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = client();
		ask(c[i], "POST " SE "execute/s", "{`command`: `x`}");
	}
	CHECK_EQ_INT(g.naboxes, 1);
	(void)close(c[0]);
	turn();
	CHECK_EQ_INT(g.naboxes, 1);
	(void)close(c[1]);
	turn();
	CHECK_EQ_INT(g.naboxes, 0);
	CHECK(g.se_making == NULL);
	c[0] = client();
	finish(c[0], -1);
}

TEST(se_a_session_that_cannot_be_made)
{
	uint8_t body[1024];
	struct err e;
	ptrdiff_t n;
	int c[2];

	gate_open();
	may_log = true;
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = client();
		ask(c[i], "POST " SE "execute/s", "{`command`: `x`}");
	}
	CHECK(keeper_gets(OP_BOX_NEW, &message));
	(void)err_set(&e, ERR_SYS, EPERM, "no room");
	n = failed_encode(&e, body, sizeof(body));
	CHECK(n > 0);
	CHECK_EQ_INT(chan_send(keeper, REPLY_FAILED, message.request, body, (size_t)n, NULL, 0), 0);
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++) {
		CHECK_EQ_INT(heard(c[i]), 503);
		CHECK_SAYS("`message`:`Failed to create session`");
	}
	CHECK(g.se_making == NULL);
	(void)close(c[1]);
	finish(c[0], -1);
}

TEST(se_delete)
{
	int c, box = begin(&c), other = client();

	get(c, "DELETE " SE "session/s");
	get(other, "DELETE " SE "session/s");
	CHECK_EQ_INT(heard(c), 0);
	keeper_ends();
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`status`:`success`,`result`:{`status`:`success`}}");
	CHECK_EQ_INT(heard(other), 200);
	get(c, "DELETE " SE "session/s");
	CHECK_EQ_INT(heard(c), 200);
	get(c, "GET " SE "status/s");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`id`:`s`,`exists`:false,`created_at`:null,`mount_point`:null,"
		   "`is_mounted`:false,`files`:[],");
	(void)close(other);
	finish(c, box);
}

TEST(se_clean_up)
{
	int c, box = begin(&c), other = client();
	uint64_t job;

	ask(other, "POST " SE "execute/s", "{`command`: `sleep 5`}");
	job = job_of(box, "[/bin/bash][-c][sleep 5]");
	ask(c, "POST " SE "cleanup-all", "{}");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`total`:1,`success`:0,`failed`:[],`skipped`:[`s`],`result`:");
	say_well(box, job, 2);
	CHECK_EQ_INT(heard(other), 200);
	ask(c, "POST " SE "cleanup-all", "{}");
	keeper_ends();
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`total`:1,`success`:1,`failed`:[],`skipped`:[],`result`:");
	(void)close(other);
	finish(c, box);
}

/* --- executions --------------------------------------------------------------------------------------------------- */

TEST(se_a_command)
{
	int c, box = begin(&c);
	uint64_t job;

	ask(c, "POST " SE "execute/s", "{`command`: `echo a; exit 3`}");
	job = job_of(box, "[/bin/bash][-c][echo a; exit 3]");
	CHECK_EQ_INT(init.kind, JOB_EXEC);
	CHECK_STR(init.cwd, "/workspace");
	CHECK(strstr(init.env, "[HOME=/workspace]") != NULL);
	CHECK(strstr(init.env, "[PYTHONPATH=/workspace]") != NULL);
	say_output(box, job, 2, "a\n");
	CHECK_EQ_INT(heard(c), 0);
	say_end(box, job, 3, (struct job_exit){ .how = JOB_EXITED, .code = 3 });
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`stdout`:`a\\n`,`stderr`:``,`returncode`:3,"
		   "`result`:{`stdout`:`a\\n`,`stderr`:``,`returncode`:3}}");
	/* words are words */
	ask(c, "POST " SE "execute/s", "{`command`: `echo`, `args`: [`$HOME`, `;`, `id`]}");
	job = job_of(box, "[echo][$HOME][;][id]");
	say_end(box, job, 2, (struct job_exit){ .how = JOB_SIGNALED, .code = SIGTERM });
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`returncode`:143");
	/* no words are none */
	ask(c, "POST " SE "execute/s", "{`command`: `a b`, `args`: []}");
	job = job_of(box, "[/bin/bash][-c][a b]");
	say_well(box, job, 2);
	CHECK_EQ_INT(heard(c), 200);
	finish(c, box);
}

TEST(se_a_command_that_is_none)
{
	int c, box = begin(&c);
	struct job_exit x = { .how = JOB_FAILED, .code = ENOENT, .stage = "exec" };
	uint64_t job;

	ask(c, "POST " SE "execute/s", "{`command`: `no such`, `args`: [`x`]}");
	job = job_of(box, "[no such][x]");
	say_end(box, job, 2, x);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`stderr`:`no such: command not found\\n`,`returncode`:127");
	x.code = EACCES;
	ask(c, "POST " SE "execute/s", "{`command`: `/etc`, `args`: [`x`]}");
	job = job_of(box, "[/etc][x]");
	say_end(box, job, 2, x);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`stderr`:`/etc: Permission denied\\n`,`returncode`:126");
	finish(c, box);
}

TEST(se_a_command_out_of_time)
{
	int c, box = begin(&c);
	uint64_t job;

	ask(c, "POST " SE "execute/s", "{`command`: `x`}");
	job = job_of(box, "[/bin/bash][-c][x]");
	say_output(box, job, 2, "so far");
	say_end(box, job, 3,
		(struct job_exit){ .how = JOB_SIGNALED, .code = SIGKILL, .flags = JOB_TIMED_OUT });
	CHECK_EQ_INT(heard(c), 500);
	CHECK_SAYS("{`detail`:{`type`:`SandboxError`,`message`:`Execution timed out`,"
		   "`detail`:`it had not ended after 300 seconds (se_timeout)`,"
		   "`stdout`:`so far`,`stderr`:``}}");
	finish(c, box);
}

TEST(se_one_after_the_other)
{
	int c[SE_QUEUE_MAX + 2], box = begin(&c[0]);
	char line[32];
	uint64_t job;

	for (unsigned int i = 0; i < ARRAY_LEN(c); i++) {
		if (i > 0)
			c[i] = client();
		ask(c[i], "POST " SE "execute/s", "{`command`: `%u`}", i);
	}
	CHECK_EQ_INT(heard(c[SE_QUEUE_MAX + 1]), 429);
	CHECK_SAYS("Retry-After: ");
	CHECK_SAYS("`detail`:`64 executions wait for this session`");
	job = job_of(box, "[/bin/bash][-c][0]");
	(void)close(c[1]); /* it is not run */
	turn();
	(void)close(c[0]); /* it runs on, and holds up the next one */
	hear(box);
	CHECK_EQ_INT(init.runs, 0);
	say_well(box, job, 2);
	for (unsigned int i = 2; i <= SE_QUEUE_MAX; i++) {
		(void)snprintf(line, sizeof(line), "[/bin/bash][-c][%u]", i);
		job = job_of(box, line);
		say_well(box, job, 2);
		CHECK_EQ_INT(heard(c[i]), 200);
		(void)close(c[i]);
	}
	CHECK_EQ_INT(g.aboxes->queued_bytes, 0);
	finish(c[SE_QUEUE_MAX + 1], box);
}

/* All who have to do with it are told, whatever they wait for. */
TEST(se_the_end_of_a_busy_session)
{
	struct box_figures f = { 0 };
	int c, box = begin(&c), running = client(), waiting = client(), looking = client();

	ask(running, "POST " SE "execute/s", "{`command`: `x`}");
	(void)job_of(box, "[/bin/bash][-c][x]");
	ask(waiting, "POST " SE "execute_code/s", "{`code`: `1`}");
	get(looking, "GET " SE "download/s/f");
	turn();
	gboxes_gone(&g, BOX, GONE_INIT, &f);
	CHECK_EQ_INT(heard(running), 500);
	CHECK_SAYS("`message`:`Execution failed`,`detail`:`the box has ended: crashed`");
	CHECK_EQ_INT(heard(waiting), 500);
	CHECK_SAYS("`message`:`The session has ended`");
	CHECK_EQ_INT(heard(looking), 500);
	CHECK_SAYS("`message`:`The session has ended`");
	(void)close(running);
	(void)close(waiting);
	(void)close(looking);
	(void)close(c);
	turn();
	CHECK_EQ_INT(g.naboxes, 0);
	c = client();
	finish(c, box);
}

/* --- scripts ------------------------------------------------------------------------------------------------------ */

TEST(se_a_script)
{
	int c, box = begin(&c);
	uint64_t job;

	ask(c, "POST " SE "execute_code/s",
	    "{`code`: `print(1)`, `filename`: `/d//f.py`, `args`: [`a b`]}");
	job = job_of(box, "[write][d/f.py][644][][]");
	CHECK((init.flags & JOB_BENEATH) != 0);
	CHECK_EQ_INT(init.ninput, strlen("print(1)"));
	CHECK_MEM(init.input, "print(1)", init.ninput);
	CHECK(init.input_end);
	say_record(box, job, 2, 8, "f.py");
	say_well(box, job, 3);
	job = job_of(box, "[/usr/bin/python3][d/f.py][a b]");
	say_well(box, job, 2);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`stdout`:``,`stderr`:``,`returncode`:0,`result`:");
	/* a name that looks like an option, and a script with a first line of its own */
	ask(c, "POST " SE "execute_code/s",
	    "{`code`: `#!/bin/x`, `filename`: `-c`, `script_type`: `shell`}");
	job = job_of(box, "[write][-c][755][][]");
	say_record(box, job, 2, 8, "-c");
	say_well(box, job, 3);
	job = job_of(box, "[./-c]");
	say_well(box, job, 2);
	CHECK_EQ_INT(heard(c), 200);
	ask(c, "POST " SE "execute_code/s", "{`code`: `x`, `script_type`: `ruby`}");
	CHECK_EQ_INT(heard(c), 422);
	CHECK_SAYS("`message`:`Unsupported script type`");
	ask(c, "POST " SE "execute_code/s",
	    "{`code`: `x`, `script_type`: `shell`, `output_params`: [`x`]}");
	CHECK_EQ_INT(heard(c), 422);
	finish(c, box);
}

TEST(se_a_script_that_does_not_fit)
{
	int c, box = begin(&c);
	uint64_t job;

	ask(c, "POST " SE "execute_code/s", "{`code`: `1`, `filename`: `f`}");
	job = job_of(box, "[write][f]");
	say_end(box, job, 2, (struct job_exit){ .how = JOB_EXITED, .code = ENOSPC });
	CHECK_EQ_INT(heard(c), 413);
	CHECK_SAYS("`message`:`No space left in the session`");
	/* its client leaves while it is written: it is not run, and the next one is */
	ask(c, "POST " SE "execute_code/s", "{`code`: `1`, `filename`: `f`}");
	(void)job_of(box, "[write][f]");
	(void)close(c);
	turn();
	c = client();
	ask(c, "POST " SE "execute/s", "{`command`: `next`}");
	(void)job_of(box, "[/bin/bash][-c][next]");
	finish(c, box);
}

/* Until where the path begins that a script is to leave its variables at. */
static const char *left_path(void)
{
	static char path[128];
	const char *from = strstr(init.line, "[/tmp/.glovebox-");

	CHECK(from != NULL);
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(from + 2, "]"), from + 2);
	return path;
}

TEST(se_variables_of_a_script)
{
	static const char left[] =
		"{\"a\":1}\n{\"b\":\"\\ud800\"}\nno json\n{\"c\":[1.5,null]}\n{\"cut\":";
	char line[256], path[128];
	int c, box = begin(&c);
	uint64_t job;

	ask(c, "POST " SE "execute_code/s",
	    "{`code`: `x`, `filename`: `f`, `args`: [`z`], `output_params`: [`a`, `b`]}");
	job = job_of(box, "[write][f]");
	say_record(box, job, 2, 1, "f");
	say_well(box, job, 3);
	job = job_of(box, "[/usr/bin/python3][-c][def _glovebox():\n");
	CHECK(strstr(init.line, "][16777216][2][a][b][f][z]") != NULL);
	(void)snprintf(path, sizeof(path), "%s", left_path());
	say_output(box, job, 2, "{\"a\": \"forged\"}\n");
	say_well(box, job, 3);
	(void)snprintf(line, sizeof(line), "[read][%s][nofollow][0][16777216][][]", path);
	job = job_of(box, line);
	CHECK_STR(init.cwd, "/");
	CHECK_EQ_INT(heard(c), 0);
	say_record(box, job, 2, sizeof(left) - 1, path + 4);
	say_output(box, job, 3, left);
	say_well(box, job, 4);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`returncode`:0,`output_variables`:{`a`:1,`b`:`\xef\xbf\xbd`,`c`:[1.5,null]},`"
		   "result`:");
	(void)snprintf(line, sizeof(line), "[delete][%s][0]", path);
	job = job_of(box, line);
	say_well(box, job, 2);
	finish(c, box);
}

/* A script that fails leaves none. One whose client has left leaves nothing behind either. */
TEST(se_variables_of_nobody)
{
	int c, box = begin(&c);
	uint64_t job;

	for (int gone = 0; gone < 2; gone++) {
		ask(c, "POST " SE "execute_code/s",
		    "{`code`: `x`, `filename`: `f`, `output_params`: [`a`]}");
		job = job_of(box, "[write][f]");
		say_record(box, job, 2, 1, "f");
		say_well(box, job, 3);
		job = job_of(box, "[/usr/bin/python3][-c]");
		if (gone != 0)
			(void)close(c);
		turn();
		say_end(box, job, 2, (struct job_exit){ .how = JOB_EXITED, .code = 1 });
		if (gone == 0) {
			job = job_of(box, "[read][tmp/.glovebox-");
			say_end(box, job, 2,
				(struct job_exit){ .how = JOB_EXITED, .code = ENOENT });
			CHECK_EQ_INT(heard(c), 200);
			CHECK_SAYS("`returncode`:1,`output_variables`:{},`result`:");
		}
		job = job_of(box, "[delete][tmp/.glovebox-");
		say_end(box, job, 2, (struct job_exit){ .how = JOB_EXITED, .code = ENOENT });
	}
	c = client();
	finish(c, box);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Its body waits until there is a session to put it into. */
TEST(se_an_upload_makes_its_session)
{
	static const char body[] =
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"part\"\r\n\r\n"
		"content\r\n--b--\r\n";
	char head[512];
	int c, box;
	uint64_t job;

	gate_open();
	c = client();
	(void)snprintf(
		head, sizeof(head),
		"POST " SE "upload/s?filename=/d/f HTTP/1.1\r\nHost: localhost\r\n"
		"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: %zu\r\n\r\n%s",
		sizeof(body) - 1, body);
	CHECK_EQ_INT(send(c, head, strlen(head), 0), strlen(head));
	turn();
	box = made();
	job = job_of(box, "[write][d/f][][][]");
	hear(box);
	say_record(box, job, 2, 7, "f");
	say_well(box, job, 3);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`filename`:`d/f`,`size`:7,`result`:{`filename`:`d/f`,`size`:7}}");
	finish(c, box);
}

TEST(se_refusals_of_files)
{
	static const struct {
		int error, status;
		const char *message;
	} cases[] = {
		{ ENOENT, 404, "`message`:`File not found`" },
		{ EISDIR, 400, "`message`:`Not a file`" },
		{ EINVAL, 400, "`message`:`Not a file`" },
		{ EXDEV, 400, "`message`:`Invalid file path`" },
		{ ELOOP, 400, "`message`:`Invalid file path`" },
		{ EACCES, 403, "`message`:`Permission denied`" },
		{ EIO, 500, "`message`:`File operation failed`" },
	};
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t job;

		get(c, "GET " SE "download/s/d/f");
		job = job_of(box, "[read][d/f][follow][0][][][]");
		say_end(box, job, 2,
			(struct job_exit){ .how = JOB_EXITED, .code = cases[i].error });
		CHECK_EQ_INT(heard(c), cases[i].status);
		CHECK_SAYS(cases[i].message);
	}
	get(c, "GET " SE "download/s/a/%2e%2e/b");
	CHECK_EQ_INT(heard(c), 400);
	CHECK_SAYS("`message`:`Invalid file path`,`detail`:`'a/../b': a part of it is '..'`");
	get(c, "GET " SE "download/s/");
	CHECK_EQ_INT(heard(c), 400);
	get(c, "GET " SE "download/%01/x");
	CHECK_EQ_INT(heard(c), 422);
	get(c, "GET " SE "download//x");
	CHECK_EQ_INT(heard(c), 404);
	finish(c, box);
}

TEST(se_what_is_shown)
{
	int c, box = begin(&c);
	uint64_t job;

	get(c, "GET " SE "files/preview/s/d/p.html?sid=s");
	job = job_of(box, "[read][d/p.html][follow][0][][][]");
	say_record(box, job, 2, 3, "p.html");
	say_output(box, job, 3, "<b>");
	say_well(box, job, 4);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Type: text/html; charset=utf-8\r\n");
	CHECK_SAYS("Content-Security-Policy: sandbox\r\n");
	CHECK_SAYS("Content-Disposition: inline\r\n");
	CHECK_SAYS("X-Content-Type-Options: nosniff\r\n");
	get(c, "GET " SE "files/preview/s/p.py?sid=s");
	CHECK_EQ_INT(heard(c), 400);
	get(c, "GET " SE "files/s?recursive=1");
	CHECK_EQ_INT(heard(c), 307);
	CHECK_SAYS("Location: /workspace/se/files/s/?recursive=1\r\n");
	finish(c, box);
}

TEST(se_a_part_of_a_file)
{
	int c, box = begin(&c);
	uint64_t job;

	get(c, "GET " SE "readfile/s/f.txt?offset=5&buffer_size=2");
	job = job_of(box, "[read][f.txt][follow][2][8][][]");
	say_record(box, job, 2, 9, "f.txt");
	say_output(box, job, 3, "234\xe2\x82\xac!");
	say_well(box, job, 4);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS(
		"{`content`:`\xe2\x82\xac`,`is_binary`:false,`offset`:8,`size`:9,`is_eof`:false,");
	get(c, "GET " SE "readfile/s/f.bin?offset=1&buffer_size=2");
	job = job_of(box, "[read][f.bin][follow][0][6][][]");
	say_record(box, job, 2, 3, "f.bin");
	say_output(box, job, 3, "abc");
	say_well(box, job, 4);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`content`:`YmM=`,`is_binary`:true,`offset`:3,`size`:3,`is_eof`:true,");
	get(c, "GET " SE "readfile/s/f.bin?offset=9");
	job = job_of(box, "[read][f.bin][follow][6][");
	say_record(box, job, 2, 3, "f.bin");
	say_well(box, job, 3);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`content`:``,`offset`:9,`size`:3,`is_eof`:true,");
	finish(c, box);
}

/* What is not UTF-8 is looked at in the box. */
TEST(se_a_text_in_gbk)
{
	int c, box = begin(&c);
	uint64_t job;

	for (int known = 0; known < 2; known++) {
		get(c, "GET " SE "readfile/s/f.txt");
		job = job_of(box, "[read][f.txt][follow][0][4099][][]");
		say_record(box, job, 2, 4, "f.txt");
		say_output(box, job, 3, "\xd6\xd0\xce\xc4");
		say_well(box, job, 4);
		job = job_of(box, "[/usr/bin/python3][-I][-S][-c][import sys\n");
		CHECK_EQ_INT(heard(c), 0);
		if (known != 0)
			say_output(box, job, 2, "4\n\xe4\xb8\xad\xe6\x96\x87");
		say_well(box, job, 3);
		CHECK_EQ_INT(heard(c), 200);
		if (known != 0)
			CHECK_SAYS("{`content`:`\xe4\xb8\xad\xe6\x96\x87`,`is_binary`:false,`"
				   "offset`:4,");
		else
			CHECK_SAYS(
				"{`content`:`\xc3\x96\xc3\x90\xc3\x8e\xc3\x84`,`is_binary`:false,");
	}
	/* its client leaves, its box ends */
	get(c, "GET " SE "readfile/s/f.txt");
	job = job_of(box, "[read][f.txt]");
	say_record(box, job, 2, 1, "f.txt");
	say_output(box, job, 3, "\xff");
	say_well(box, job, 4);
	(void)job_of(box, "[/usr/bin/python3]");
	finish(c, box);
}

TEST(se_efast)
{
	int c, box = begin(&c);

	ask(c, "POST " SE "download_from_efast/s", "{}");
	CHECK_EQ_INT(heard(c), 400);
	CHECK_SAYS("`message`:`Missing parameter`,`detail`:`file_params`");
	ask(c, "POST " SE "download_from_efast/s",
	    "{`file_params`: [{`docid`: `d`}], `efast_url`: `http://x`, `token`: `t`, "
	    "`save_path`: `../x`}");
	CHECK_EQ_INT(heard(c), 400);
	ask(c, "POST " SE "download_from_efast/s",
	    "{`file_params`: [{`docid`: `d`}, {}], `efast_url`: `http://x`, `token`: `t`}");
	CHECK_EQ_INT(heard(c), 400);
	CHECK_SAYS("`detail`:`docid`");
	ask(c, "POST " SE "download_from_efast/s",
	    "{`file_params`: [{`docid`: `d`}], `efast_url`: `http://x`, `token`: `t`}");
	CHECK_EQ_INT(heard(c), 503);
	CHECK_SAYS("`message`:`network access is not available`,`detail`:`no document store was "
		   "named");
	finish(c, box);
}
