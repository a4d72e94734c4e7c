// SPDX-License-Identifier: Apache-2.0
/*
 * One directory after the other. What a frame of the packing box has is offered to the other one at once; what that does not take waits here, and so does the
 * acknowledgement without which the packer stops. So no more waits than a ring of init's holds.
 */
#include "gate/box_carry.h"

#include "base/own.h"
#include "wire/fileop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { HELD_MAX = 1024 * 1024 };

static void next_dir(struct carry *c);

void carry_end(struct carry *c)
{
	if (!c->runs)
		return;
	c->runs = false;
	gjob_signal(&c->out, SIGTERM, 0);
	gjob_signal(&c->in, SIGTERM, 0);
	gjob_drop(&c->out);
	gjob_drop(&c->in);
	buf_done(&c->held);
}

static void fail(struct carry *c, const char *why)
{
	char text[sizeof(c->why)];

	(void)snprintf(text, sizeof(text), "%s", why);
	carry_end(c);
	c->done(c->arg, text);
}

/* As much as is taken. */
static void feed(struct carry *c)
{
	size_t n = buf_len(&c->held);

	if (n > 0)
		buf_take(&c->held, gjob_input(&c->in, buf_head(&c->held), n));
	if (buf_len(&c->held) > 0)
		return;
	if (c->number != 0)
		gjob_ack(&c->out, c->number);
	c->number = 0;
	if (c->packed && !c->told) {
		c->told = true;
		gjob_input_end(&c->in);
	}
}

/* A line for people. */
static void hear(struct carry *c, const uint8_t *p, size_t n)
{
	size_t len = 0;

	for (; len < n && len + 1 < sizeof(c->why) && p[len] != '\n'; len++)
		c->why[len] = (char)(p[len] >= 0x20 && p[len] < 0x7f ? p[len] : '?');
	c->why[len] = '\0';
}

/* --- the box that packs ----------------------------------------------------------------------------- */

static void on_packed_bytes(void *arg, uint64_t number, unsigned int stream, const uint8_t *p,
			    size_t n)
{
	struct carry *c = arg;

	if (stream == 2) {
		hear(c, p, n);
		gjob_ack(&c->out, number);
	} else if (buf_put(&c->held, p, n) < 0) {
		fail(c, "out of memory");
	} else {
		c->number = number;
		feed(c);
	}
}

static void on_packed(void *arg, const struct job_exit *x, uint64_t number)
{
	struct carry *c = arg;

	gjob_ack(&c->out, number);
	c->number = 0;
	if (x->how != JOB_EXITED || x->code != 0) {
		fail(c, c->why[0] != '\0' ? c->why : "its files cannot be read");
		return;
	}
	c->packed = true;
	feed(c);
}

/* --- the box that unpacks ----------------------------------------------------------------------------- */

/* The record of the directory: nobody asks for it. */
static void on_unpacked_bytes(void *arg, uint64_t number, unsigned int stream, const uint8_t *p,
			      size_t n)
{
	struct carry *c = arg;

	if (stream == 2)
		hear(c, p, n);
	gjob_ack(&c->in, number);
}

static void on_want(void *arg)
{
	feed(arg);
}

static void on_unpacked(void *arg, const struct job_exit *x, uint64_t number)
{
	struct carry *c = arg;

	gjob_ack(&c->in, number);
	if (x->how != JOB_EXITED || x->code != 0 || !c->told)
		fail(c, c->why[0] != '\0' ? c->why : "its files cannot be written");
	else
		next_dir(c);
}

static void on_failed(void *arg, int error, const char *why)
{
	(void)error;
	fail(arg, why);
}

static void on_lost(void *arg)
{
	fail(arg, "the box has ended");
}

static int start(struct carry *c, struct gbox *b, struct gjob *j, const char *const *argv,
		 uint32_t flags, const struct gjob_ops *ops)
{
	static const char *const envp[] = { NULL };
	struct job_spec spec = { .kind = JOB_FILE,
				 .flags = JOB_ATTENDED | flags,
				 .cwd = "/",
				 .argv = argv,
				 .envp = envp };

	return gjob_start(b, j, 0, &spec, ops, c);
}

static void next_dir(struct carry *c)
{
	static const struct gjob_ops out_ops = {
		.output = on_packed_bytes, .ended = on_packed, .failed = on_failed, .lost = on_lost
	};
	static const struct gjob_ops in_ops = { .output = on_unpacked_bytes,
						.want = on_want,
						.ended = on_unpacked,
						.failed = on_failed,
						.lost = on_lost };
	const char *dir = *c->dirs;
	const char *pack[] = { fileop_row(FILEOP_PACK)->name, dir, "tar", "all", NULL };
	const char *unpack[] = { fileop_row(FILEOP_UNPACK)->name, dir, "auto", "0", "0", NULL };

	if (dir == NULL) {
		c->runs = false;
		buf_done(&c->held);
		c->done(c->arg, NULL);
		return;
	}
	c->dirs++;
	c->packed = c->told = false;
	c->number = 0;
	c->why[0] = '\0';
	if (start(c, c->to, &c->in, unpack, JOB_STDIN, &in_ops) < 0 ||
	    start(c, c->from, &c->out, pack, 0, &out_ops) < 0)
		fail(c, "out of memory");
}

void carry_begin(struct carry *c, struct gbox *from, struct gbox *to, const char *const *dirs,
		 void (*done)(void *arg, const char *why), void *arg)
{
	*c = (struct carry){
		.from = from, .to = to, .dirs = dirs, .runs = true, .done = done, .arg = arg
	};
	buf_init(&c->held, HELD_MAX);
	next_dir(c);
}
