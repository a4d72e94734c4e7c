// SPDX-License-Identifier: Apache-2.0
/* System calls that programs of boxes were refused: asked of the keeper, told to the owners of the boxes. */
#include "base/syscalls.h"
#include "gate/box.h"
#include "gate/gate.h"
#include "wire/msg.h"

/* Said once per gate: it is the machine that lacks it, not the box. */
static void deaf(struct gate *g)
{
	if (!g->refused_unseen)
		log_line(&g->log, LOG_WARN, "refused_calls_unseen",
			 log_str("why",
				 "somebody listens to this container's system calls already"));
	g->refused_unseen = true;
}

static void on_refusals(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gate *g = arg;
	struct msg_in in;

	(void)e;
	if (m == NULL)
		return;
	msg_in_init(&in, m->body, m->len);
	while (in.at < in.len && !in.failed) {
		uint64_t box = msg_get_u64(&in);
		uint32_t number = msg_get_u32(&in);

		if (in.failed)
			break;
		if (number == REFUSAL_DEAF) {
			deaf(g);
			continue;
		}
		g->metrics.calls_refused++;
		gboxes_refused(g, box, syscall_name(number));
	}
	chan_msg_close(m);
}

void refused_ask(struct gate *g)
{
	(void)keeper_ask(&g->keeper, OP_REFUSALS, NULL, 0, on_refusals, g);
}
