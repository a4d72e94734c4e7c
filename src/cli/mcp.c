// SPDX-License-Identifier: Apache-2.0
/* `glovebox mcp`: the verb, and the loop that everything happens in. */
#include "cli/mcp.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/box_body.h"
#include "cli/ipybox.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	LAST_MS = 1000,  /* how long after the end of input answers are waited for */
	TIDY_MS = 10000, /* how long what is tidied up may take */
	FLUSH_MS = 1000, /* and who reads our output */
	OWN_POLLS = 3,   /* signals, input, output */
};

void bridge_heard(struct bridge *b, const struct err *e)
{
	if (e != NULL && !b->lost)
		say("%s", e->text);
	else if (e == NULL && b->lost)
		say("%s answers again", b->c.url.shown);
	b->lost = e != NULL;
}

/* --- bounds --------------------------------------------------------------------------------------- */

static size_t came(const struct pending *p)
{
	return p->body.n + p->sse.nline + p->sse.ndata;
}

static bool is_full(const struct bridge *b)
{
	return lines_out_waits(&b->out) > BRIDGE_OUT_HIGH;
}

/* Bytes of requests and answers that are held; *ret_most: whose answer is the longest so far. */
static size_t held(const struct bridge *b, const struct pending **ret_most)
{
	size_t n = b->in.line.n;

	*ret_most = NULL;
	for (const struct pending *p = b->pending; p != NULL; p = p->next) {
		n += came(p);
		n += p->text != NULL || (p->x != NULL && p->x->body != NULL) ? p->n : 0;
		if (*ret_most == NULL || came(p) > came(*ret_most))
			*ret_most = p;
	}
	return n;
}

/* Who may read on: nobody while our output waits, and while much is held only the one who will be done first. */
static void pause_some(struct bridge *b)
{
	const struct pending *most;
	bool much = held(b, &most) > BRIDGE_HELD_MAX;

	for (struct pending *p = b->pending; p != NULL; p = p->next)
		if (p->x != NULL && p->transfer == NULL)
			p->x->paused = is_full(b) || (much && p != most);
	if (b->hear != NULL)
		b->hear->paused = is_full(b);
}

static bool takes_lines(const struct bridge *b)
{
	const struct pending *most;

	return !b->initializing && b->npending < BRIDGE_PENDING_MAX && !is_full(b) &&
	       held(b, &most) < BRIDGE_HELD_MAX;
}

/* --- the loop ------------------------------------------------------------------------------------- */

static void take_lines(struct bridge *b)
{
	while (takes_lines(b) && lines_in_has(&b->in)) {
		char *text;
		size_t n;
		int r = lines_in_next(&b->in, &text, &n);

		if (r < 0)
			bridge_refuse_line(b, r);
		else if (r > 0)
			bridge_take_line(b, text, n);
	}
}

/* One turn: wait until something happens, or the deadline, and let it. */
static void turn(struct bridge *b, bool reads, uint64_t deadline_us)
{
	struct pollfd p[OWN_POLLS + EXCHANGES_MAX];
	struct wake w;
	unsigned int n;

	p[0] = (struct pollfd){ .fd = b->over ? -1 : wake_fd(), .events = POLLIN };
	/* Also while nothing is read: who waits for us to end is not to wait for what we wait for. */
	p[1] = (struct pollfd){ .fd = reads || !b->left ? b->in.fd : -1,
				.events = reads ? POLLIN : 0 };
	p[2] = (struct pollfd){ .fd = b->out.broken ? -1 : b->out.fd };
	if (lines_out_waits(&b->out) > 0)
		p[2].events = POLLOUT;
	n = exchanges_poll(&b->all, p + OWN_POLLS, &deadline_us);
	if (poll(p, OWN_POLLS + n, clock_poll_ms(deadline_us)) < 0)
		for (unsigned int i = 0; i < OWN_POLLS + n; i++)
			p[i].revents = 0;
	wake_take(&w);
	if (reads && p[1].revents != 0)
		lines_in_fill(&b->in);
	b->left |= b->in.ended || (p[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
	if ((p[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
		b->out.broken = true;
	else if ((p[2].revents & POLLOUT) != 0)
		lines_out_flush(&b->out);
	exchanges_step(&b->all, p + OWN_POLLS);
}

/* The client has left, and all that it said was read, or cannot be. */
static bool is_left(const struct bridge *b)
{
	return b->in.ended ? !lines_in_has(&b->in) : b->left && !takes_lines(b);
}

/* Until the client leaves, by the end of input or output, or a signal comes. */
static void attend(struct bridge *b)
{
	uint64_t last_us = UINT64_MAX; /* when nothing is waited for any more */

	while (wake_end() == 0 && !b->out.broken && clock_us() < last_us) {
		uint64_t deadline_us = last_us;
		bool reads;

		take_lines(b);
		bridge_go(b);
		if (b->in.ended && !lines_in_has(&b->in) && !bridge_is_awaited(b))
			break;
		if (!is_left(b))
			last_us = UINT64_MAX;
		else if (last_us == UINT64_MAX)
			last_us = clock_us() + LAST_MS * US_PER_MS;
		bridge_box_tick(b, &deadline_us);
		bridge_session_tick(b, &deadline_us);
		pause_some(b);
		reads = !b->in.ended && !lines_in_has(&b->in) && takes_lines(b);
		turn(b, reads, deadline_us < last_us ? deadline_us : last_us);
	}
}

/* What was said is still written, nothing is asked any more, and nothing of ours stays. */
static void tidy_up(struct bridge *b)
{
	uint64_t flush_us = clock_us() + FLUSH_MS * US_PER_MS;
	uint64_t end_us = clock_us() + TIDY_MS * US_PER_MS;

	b->over = true;
	while (b->pending != NULL)
		pending_free(b->pending);
	if (b->near.life < 0) { /* a server of our own takes all of it along */
		bridge_session_end(b);
		bridge_box_end(b);
	} else {
		exchanges_done(&b->all);
		b->hear = NULL;
	}
	while ((b->all.n > 0 && clock_us() < end_us) ||
	       (lines_out_waits(&b->out) > 0 && !b->out.broken && clock_us() < flush_us))
		turn(b, false, b->all.n > 0 ? end_us : flush_us);
	if (b->box_state == BRIDGE_BOX_MAKING && b->near.life < 0)
		say("a box may be left: the server did not say whether it made one");
	exchanges_done(&b->all);
}

/* --- the verb ------------------------------------------------------------------------------------- */

static int start_server(struct bridge *b, struct err *e)
{
	static struct box_bind binds[BRIDGE_BINDS_MAX];
	const char *roots[BRIDGE_BINDS_MAX + 1] = { NULL };

	for (unsigned int i = 0; i < b->o->nbinds; i++) {
		if (box_bind_take(b->o->binds[i], bridge_workdir(b->o), true, &binds[i], e) < 0)
			return -1;
		roots[i] = binds[i].root;
	}
	say("no server runs here: starting one for this connection");
	if (server_near_start(&b->near, roots, false, e) < 0)
		return -1;
	client_init(&b->c, &b->near.url, "");
	return 0;
}

/* Unless it is said: where people have what they work with. One that is missing is none. */
static int allow_dirs(struct bridge *b, struct err *e)
{
	const char *usual[] = { getenv("HOME"), "/tmp" };
	struct err ignored;

	for (unsigned int i = 0; i < b->o->ndirs; i++)
		if (host_dirs_add(&b->dirs, b->o->dirs[i], e) < 0)
			return -1;
	for (unsigned int i = 0; i < ARRAY_LEN(usual) && b->o->ndirs == 0; i++)
		if (usual[i] != NULL && usual[i][0] == '/')
			(void)host_dirs_add(&b->dirs, usual[i], &ignored);
	return 0;
}

static int open_bridge(struct bridge *b, struct err *e)
{
	bool nobody = false;

	b->near.life = -1;
	b->last = &b->pending;
	b->hear_us = UINT64_MAX;
	lines_in_init(&b->in, STDIN_FILENO, LINES_MAX);
	lines_out_init(&b->out, STDOUT_FILENO);
	sse_init(&b->hear_sse, BRIDGE_ANSWER_MAX);
	if (allow_dirs(b, e) < 0)
		return -1;
	if (client_find(&b->o->o, &b->c, &nobody, e) < 0 &&
	    (!nobody || b->o->box != NULL || start_server(b, e) < 0))
		return -1;
	client_done(&b->c); /* each request has a connection of its own */
	exchanges_init(&b->all, &b->c);
	return 0;
}

static void close_bridge(struct bridge *b)
{
	client_done(&b->c);
	server_near_stop(&b->near);
	lines_in_done(&b->in);
	lines_out_done(&b->out);
	sse_done(&b->hear_sse);
	bridge_params_done(b);
	bytes_done(&b->box_answer);
	host_dirs_done(&b->dirs);
}

static int bridge_run(struct bridge_opts *o, int argc, char **argv)
{
	static struct bridge b;
	struct err e;
	int r = bridge_opts_take(o, argc, argv, &e);

	if (r != 0)
		return r < 0 ? say_err(&e) : 0;
	(void)wake_start(0);
	if (o->print_config) {
		r = bridge_print_config(o->as_ipybox, argc, argv);
		if (r == 0)
			return 0;
		(void)err_set(&e, ERR_SYS, -r, "write to standard output");
		return say_err(&e);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	b.o = o;
	r = open_bridge(&b, &e);
	if (r == 0) {
		if (isatty(STDIN_FILENO))
			say("this is MCP, for a program: one JSON message per line; --print-config "
			    "prints how to tell one, Ctrl-D ends it");
		attend(&b);
		tidy_up(&b);
	}
	close_bridge(&b);
	if (r < 0 && wake_end() != 0 && e.sys == EINTR)
		return 0; /* who wants it to end before it has begun gets that */
	return r < 0 ? say_err(&e) : 0;
}

int verb_mcp(int argc, char **argv)
{
	static struct bridge_opts o;

	return bridge_run(&o, argc, argv);
}

int ipybox_mcp(int argc, char **argv)
{
	static struct bridge_opts o = { .as_ipybox = true };

	return bridge_run(&o, argc, argv);
}
