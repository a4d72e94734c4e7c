/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper keeps of a box for the next gate. The first byte says what kind of thing the box is for. */
#pragma once

#include "gate/gate.h"
#include "wire/msg.h"

#include <errno.h>

enum record_kind { RECORD_ONESHOT = 1, RECORD_SESSION = 2, RECORD_BOX = 3 };

/* Hand a record to the keeper; space is scratch for the message. 0 or -errno. */
static inline int record_save(struct gate *g, uint64_t box, const uint8_t *record, size_t n,
			      uint8_t *space, size_t size, keeper_fn fn, void *arg)
{
	struct msg_out m;

	msg_out_init(&m, space, size);
	msg_put_u64(&m, box);
	msg_put_bytes(&m, record, n);
	return m.failed ? -EMSGSIZE : keeper_ask(&g->keeper, OP_BOX_RECORD, space, m.len, fn, arg);
}
