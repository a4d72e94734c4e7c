// SPDX-License-Identifier: Apache-2.0
#include "wire/job.h"

#include "wire/msg.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static uint16_t count(const char *const *v)
{
	uint16_t n = 0;

	while (n < UINT16_MAX && v[n] != NULL)
		n++;
	return n;
}

ptrdiff_t job_spec_encode(const struct job_spec *s, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u8(&m, (uint8_t)s->kind);
	msg_put_u32(&m, s->flags);
	msg_put_u64(&m, s->timeout_us);
	msg_put_u64(&m, s->output_max);
	msg_put_u64(&m, s->cpu_seconds);
	msg_put_u64(&m, s->file_bytes);
	msg_put_u64(&m, s->open_files);
	msg_put_u16(&m, s->rows);
	msg_put_u16(&m, s->cols);
	msg_put_str(&m, s->cwd);
	msg_put_u16(&m, count(s->argv));
	msg_put_u16(&m, count(s->envp));
	for (const char *const *a = s->argv; *a != NULL; a++)
		msg_put_str(&m, *a);
	for (const char *const *e = s->envp; *e != NULL; e++)
		msg_put_str(&m, *e);
	return m.failed ? -EMSGSIZE : (ptrdiff_t)m.len;
}

/* Strings are copied one behind the other into `text`, which is as large as the whole payload and
 * therefore never too small: each string had a length of four bytes in front of it. */
static const char *get_text(struct msg_in *m, char **text, const char *end)
{
	char *s = *text;

	*text += msg_get_str(m, s, (size_t)(end - s)) + 1;
	return s;
}

/* Whether flags and arguments go together with the kind. */
static bool kind_fits(const struct job_spec *s, unsigned int argc)
{
	if ((s->flags & (JOB_FLOW | JOB_KEEP)) == JOB_FLOW)
		return false;
	if (s->kind == JOB_CELL)
		return argc == 1 &&
		       (s->flags & ~(uint32_t)(JOB_KEEP | JOB_FLOW | JOB_COPIES)) == JOB_STDIN;
	if (s->kind == JOB_FILE)
		return argc >= 2 && (s->flags & ~(uint32_t)(JOB_STDIN | JOB_KEEP | JOB_ATTENDED |
							    JOB_BENEATH)) == 0;
	if (s->kind == JOB_LINK)
		return argc == 1 &&
		       (s->flags & ~(uint32_t)JOB_PROMPT) == (JOB_STDIN | JOB_ATTENDED);
	if ((s->flags & (JOB_KERNEL | JOB_HELD)) == JOB_KERNEL)
		return false;
	if ((s->flags & (JOB_ATTENDED | JOB_HELD)) == (JOB_ATTENDED | JOB_HELD))
		return false;
	return (s->flags & (JOB_FLOW | JOB_BENEATH | JOB_COPIES)) == 0;
}

int job_spec_decode(const void *buf, size_t len, struct job_spec *s, void **ret_block)
{
	unsigned int argc, envc;
	struct msg_in m;
	const char **vec;
	char *text, *end, cwd[PATH_MAX];
	size_t vec_size;

	msg_in_init(&m, buf, len);
	*s = (struct job_spec){ .kind = (enum job_kind)msg_get_u8(&m) };
	s->flags = msg_get_u32(&m);
	s->timeout_us = msg_get_u64(&m);
	s->output_max = msg_get_u64(&m);
	s->cpu_seconds = msg_get_u64(&m);
	s->file_bytes = msg_get_u64(&m);
	s->open_files = msg_get_u64(&m);
	s->rows = msg_get_u16(&m);
	s->cols = msg_get_u16(&m);
	(void)msg_get_str(&m, cwd, sizeof(cwd));
	argc = msg_get_u16(&m);
	envc = msg_get_u16(&m);
	if (m.failed || (unsigned int)s->kind >= JOB_KIND_MAX ||
	    (s->flags & ~(uint32_t)JOB_FLAGS_ALL) != 0 || argc == 0 || argc > JOB_ARGV_MAX ||
	    envc > JOB_ENV_MAX || !kind_fits(s, argc))
		return -EPROTO;
	vec_size = (argc + envc + 2) * sizeof(char *);
	vec = malloc(vec_size + sizeof(cwd) + len);
	if (vec == NULL)
		return -ENOMEM;
	text = (char *)(vec + argc + envc + 2);
	end = text + sizeof(cwd) + len;
	s->cwd = memcpy(text, cwd, strlen(cwd) + 1);
	text += strlen(cwd) + 1;
	s->argv = vec;
	s->envp = vec + argc + 1;
	for (unsigned int i = 0; i < argc && !m.failed; i++)
		vec[i] = get_text(&m, &text, end);
	vec[argc] = NULL;
	for (unsigned int i = 0; i < envc && !m.failed; i++)
		vec[argc + 1 + i] = get_text(&m, &text, end);
	vec[argc + 1 + envc] = NULL;
	if (msg_end(&m) < 0) {
		free(vec);
		return -EPROTO;
	}
	*ret_block = vec;
	return 0;
}

ptrdiff_t job_exit_encode(const struct job_exit *x, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u8(&m, (uint8_t)x->how);
	msg_put_u32(&m, (uint32_t)x->code);
	msg_put_u32(&m, x->flags);
	msg_put_u64(&m, x->wall_us);
	msg_put_u64(&m, x->user_us);
	msg_put_u64(&m, x->sys_us);
	msg_put_u64(&m, x->max_rss_bytes);
	msg_put_u64(&m, x->stdout_bytes);
	msg_put_u64(&m, x->stderr_bytes);
	msg_put_str(&m, x->stage);
	msg_put_str(&m, x->only);
	return m.failed ? -EMSGSIZE : (ptrdiff_t)m.len;
}

int job_exit_decode(const void *buf, size_t len, struct job_exit *x)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	x->how = (enum job_how)msg_get_u8(&m);
	x->code = (int)msg_get_u32(&m);
	x->flags = msg_get_u32(&m);
	x->wall_us = msg_get_u64(&m);
	x->user_us = msg_get_u64(&m);
	x->sys_us = msg_get_u64(&m);
	x->max_rss_bytes = msg_get_u64(&m);
	x->stdout_bytes = msg_get_u64(&m);
	x->stderr_bytes = msg_get_u64(&m);
	(void)msg_get_str(&m, x->stage, sizeof(x->stage));
	(void)msg_get_str(&m, x->only, sizeof(x->only));
	if (msg_end(&m) < 0 || (unsigned int)x->how >= JOB_HOW_MAX || x->code < 0 ||
	    x->code > (x->how == JOB_SIGNALED ? 64
		       : x->how == JOB_EXITED ? 255
					      : 4095) ||
	    (x->flags & ~(uint32_t)JOB_EXIT_FLAGS_ALL) != 0)
		return -EPROTO;
	return 0;
}
