// SPDX-License-Identifier: Apache-2.0
#include "cli/keeper_client.h"

#include "base/own.h"
#include "base/syscalls.h"
#include "wire/chan.h"
#include "wire/egressmsg.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { CHANNEL_FD = 3, ARGS_MAX = 80 };

static int keeper_lost(struct err *e)
{
	return err_set(e, ERR_SYS, 0, "the keeper ended unexpectedly");
}

static int take_gone(struct keeper_client *k, const struct chan_msg *m)
{
	struct msg_in in;
	uint32_t why;

	msg_in_init(&in, m->body, m->len);
	(void)msg_get_u64(&in);
	why = msg_get_u32(&in);
	if (in.failed || why >= GONE_WHY_MAX ||
	    box_figures_decode(m->body + in.at, m->len - in.at, &k->gone) < 0)
		return -EPROTO;
	k->box_gone = true;
	k->gone_why = (enum gone_why)why;
	return 0;
}

/* Something that the network refused, or has let through for once: as a rule that would allow it. */
static void take_net(struct keeper_client *k, const struct chan_msg *m)
{
	struct egress_record r;
	char text[NET_RULE_TEXT];

	if (egress_record_decode(m->body, m->len, &r) < 0 || egress_record_rule(&r, text) < 0)
		return;
	for (unsigned int i = 0; i < k->nnet; i++)
		if (strcmp(k->net[i], text) == 0)
			return;
	if (k->nnet == KEEPER_NET_MAX) {
		k->net_more++;
		return;
	}
	k->net_learned[k->nnet] = r.why == EGRESS_LEARNED;
	(void)memcpy(k->net[k->nnet++], text, sizeof(text));
}

/* Send one request and wait for its answer; events that come in between are kept. */
static int call(struct keeper_client *k, uint16_t op, const void *body, size_t len,
		struct chan_msg *answer, struct err *e)
{
	uint64_t request = ++k->next_request;
	int r = chan_send(k->fd, op, request, body, len, NULL, 0);

	if (r < 0 && r != -EPIPE)
		return err_set(e, ERR_SYS, -r, "ask the keeper");
	for (;;) {
		r = chan_recv(k->fd, answer);
		if (r <= 0)
			return r == 0 ? keeper_lost(e) : err_set(e, ERR_SYS, -r, "hear the keeper");
		if (answer->type == EVENT_NET)
			take_net(k, answer);
		if (answer->type == EVENT_NET || answer->type == EVENT_NET_FIGURES ||
		    answer->type == EVENT_REFUSED ||
		    (answer->type == EVENT_GONE && take_gone(k, answer) == 0))
			continue;
		if (answer->type == REPLY_FAILED &&
		    (answer->request == request || answer->request == 0)) {
			if (failed_decode(answer->body, answer->len, e) < 0)
				(void)err_set(e, ERR_PROTO, 0,
					      "the keeper failed without a reason");
			return -1;
		}
		if (answer->type == REPLY_OK && answer->request == request)
			return 0;
		chan_msg_close(answer);
		return err_set(e, ERR_PROTO, 0, "the keeper answered what was not asked");
	}
}

static int call_box(struct keeper_client *k, uint16_t op, uint64_t box, struct chan_msg *answer,
		    struct err *e)
{
	uint8_t body[8];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, box);
	return call(k, op, body, m.len, answer, e);
}

static _Noreturn void exec_keeper(int fd, const char *const *args)
{
	const char *argv[ARGS_MAX + 3] = { "glovebox", "keeper" };
	unsigned int n = 2;

	for (; *args != NULL && n < ARGS_MAX + 2; args++)
		argv[n++] = *args;
	if (dup2(fd, CHANNEL_FD) < 0)
		_exit(125);
	(void)execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(125);
}

int keeper_start(struct keeper_client *k, const char *const *args, struct err *e)
{
	static struct chan_msg answer;
	uint8_t hello[8];
	struct msg_out m;
	int pair[2], r = chan_pair(pair);

	*k = (struct keeper_client){ .fd = -1 };
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "make a channel");
	k->pid = fork();
	if (k->pid == 0)
		exec_keeper(pair[1], args);
	(void)close(pair[1]);
	k->fd = pair[0];
	if (k->pid < 0)
		return err_set(e, ERR_SYS, errno, "start the keeper");
	msg_out_init(&m, hello, sizeof(hello));
	msg_put_u32(&m, KEEPER_PROTO_VERSION);
	msg_put_u32(&m, KEEPER_PROTO_OLDEST);
	return call(k, OP_HELLO, hello, m.len, &answer, e);
}

/* Whether it ended in order. */
static bool reap(struct keeper_client *k)
{
	int status = 0;

	fd_close(&k->fd);
	while (k->pid > 0 && waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
		;
	k->pid = -1;
	return WIFEXITED(status);
}

void keeper_sweep(void)
{
	static const char *const none[] = { NULL };
	struct keeper_client sweeper;
	struct err ignored;

	(void)keeper_start(&sweeper, none, &ignored);
	(void)reap(&sweeper);
}

void keeper_stop(struct keeper_client *k)
{
	if (!reap(k))
		keeper_sweep();
}

int keeper_box_new(struct keeper_client *k, const struct box_request *q, struct box_info *info,
		   int *ret_stream, struct err *e)
{
	static struct chan_msg answer;
	static uint8_t body[8192];
	ptrdiff_t n = box_request_encode(q, body, sizeof(body));

	if (n < 0)
		return err_set(e, ERR_INPUT, 0, "the mounts of this box are too long");
	if (call(k, OP_BOX_NEW, body, (size_t)n, &answer, e) < 0)
		return -1;
	if (answer.nfds != 1 || box_info_decode(answer.body, answer.len, info) < 0) {
		chan_msg_close(&answer);
		return err_set(e, ERR_PROTO, 0, "the keeper's answer is malformed");
	}
	*ret_stream = answer.fds[0];
	return 0;
}

int keeper_box_attach(struct keeper_client *k, uint64_t box, int *ret_stream, struct err *e)
{
	static struct chan_msg answer;

	if (call_box(k, OP_BOX_ATTACH, box, &answer, e) < 0)
		return -1;
	if (answer.nfds != 1)
		return err_set(e, ERR_PROTO, 0, "the keeper's answer is malformed");
	*ret_stream = answer.fds[0];
	return 0;
}

int keeper_box_deadline(struct keeper_client *k, uint64_t box, uint64_t us, struct err *e)
{
	static struct chan_msg answer;
	uint8_t body[16];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, box);
	msg_put_u64(&m, us);
	return call(k, OP_BOX_DEADLINE, body, m.len, &answer, e);
}

int keeper_box_net(struct keeper_client *k, uint64_t box, const struct net_policy *p, struct err *e)
{
	static struct chan_msg answer;
	static uint8_t body[CHAN_MAX - CHAN_HEADER];
	ptrdiff_t n = box_net_of_policy(box, p, body, sizeof(body));

	if (n < 0)
		return err_set(e, ERR_INPUT, 0, "a box cannot have that many rules");
	return call(k, OP_BOX_NET, body, (size_t)n, &answer, e);
}

static int figures(struct keeper_client *k, uint16_t op, uint64_t box, struct box_figures *f,
		   struct err *e)
{
	static struct chan_msg answer;

	if (call_box(k, op, box, &answer, e) < 0)
		return -1;
	if (box_figures_decode(answer.body, answer.len, f) < 0)
		return err_set(e, ERR_PROTO, 0, "the keeper's figures are malformed");
	return 0;
}

int keeper_box_figures(struct keeper_client *k, uint64_t box, struct box_figures *f, struct err *e)
{
	return figures(k, OP_BOX_FIGURES, box, f, e);
}

int keeper_box_end(struct keeper_client *k, uint64_t box, struct box_figures *f, struct err *e)
{
	if (k->box_gone) {
		*f = k->gone;
		return 0;
	}
	if (figures(k, OP_BOX_END, box, f, e) == 0)
		return 0;
	if (!k->box_gone)
		return -1;
	*f = k->gone; /* it went while we asked */
	return 0;
}

int keeper_refused(struct keeper_client *k, const char **names, unsigned int max, struct err *e)
{
	static struct chan_msg answer;
	unsigned int n = 0;
	struct msg_in in;

	if (call(k, OP_REFUSALS, NULL, 0, &answer, e) < 0)
		return -1;
	msg_in_init(&in, answer.body, answer.len);
	while (in.at < in.len && !in.failed && n < max) {
		uint32_t number;

		(void)msg_get_u64(&in);
		number = msg_get_u32(&in);
		if (!in.failed && number != REFUSAL_DEAF)
			names[n++] = syscall_name(number);
	}
	chan_msg_close(&answer);
	return (int)n;
}

int keeper_event(struct keeper_client *k, struct err *e)
{
	static struct chan_msg m;
	int r = chan_recv(k->fd, &m);

	if (r <= 0)
		return keeper_lost(e);
	if (m.type == EVENT_NET)
		take_net(k, &m);
	if (m.type == EVENT_NET || m.type == EVENT_NET_FIGURES ||
	    m.type == EVENT_REFUSED) /* who wants to know asks at the end */
		return 0;
	if (m.type != EVENT_GONE || take_gone(k, &m) < 0) {
		chan_msg_close(&m);
		return err_set(e, ERR_PROTO, 0, "the keeper sent what was not asked for");
	}
	return 0;
}
