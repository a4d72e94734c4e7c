// SPDX-License-Identifier: Apache-2.0
/* After a gate that died: what boxes are there, and what they are for. */
#include "gate/boxes.h"
#include "gate/record.h"

#include <stdio.h>

static void ask_next(struct gate *g, uint64_t after);

static void take_over(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n)
{
	int r = -1;

	if (n > 0 && record[0] == RECORD_SESSION)
		r = ci_session_adopt(g, info, record, n);
	else if (n > 0 && record[0] == RECORD_ONESHOT)
		r = ci_stream_adopt(g, info, record, n);
	else if (n > 0 && record[0] == RECORD_BOX)
		r = abox_adopt(g, info, record, n);
	if (r < 0) /* of no use to anybody */
		(void)keeper_ask_box(&g->keeper, OP_BOX_END, info->box, NULL, NULL);
}

/* Nothing is said to the tools process before: whose box is not known yet would be taken for gone, and its servers forgotten. */
static void adopted(struct gate *g)
{
	bool calls = g->tools.asks != NULL;

	g->adopting = false;
	for (const struct abox *a = g->aboxes; a != NULL; a = a->next)
		calls = calls || a->tools.n > 0;
	if (calls)
		tools_resume(g);
	g->serve(g);
}

/* box_info, then bytes: the record. Empty: that was all. */
static void on_list(void *arg, struct chan_msg *m, const struct err *e)
{
	static uint8_t record[BOX_RECORD_MAX];
	struct gate *g = arg;
	const uint8_t *p;
	struct box_info info;
	struct msg_in in;
	size_t n, head = BOX_INFO_BYTES;

	if (m == NULL || m->len == 0) {
		if (e != NULL)
			gate_log_err(g, "adopt_failed", e);
		adopted(g);
		return;
	}
	if (m->len < head || box_info_decode(m->body, head, &info) < 0) {
		adopted(g);
		return;
	}
	msg_in_init(&in, m->body + head, m->len - head);
	p = msg_get_bytes(&in, sizeof(record), &n);
	if (p != NULL && n > 0)
		(void)memcpy(record, p, n);
	take_over(g, &info, record, n);
	ask_next(g, info.box);
}

static void ask_next(struct gate *g, uint64_t after)
{
	if (keeper_ask_box(&g->keeper, OP_BOX_LIST, after, on_list, g) < 0)
		adopted(g);
}

void adopt_start(struct gate *g, void (*serve)(struct gate *g))
{
	g->serve = serve;
	g->adopting = true;
	ask_next(g, 0);
}
