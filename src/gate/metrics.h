/* SPDX-License-Identifier: Apache-2.0 */
/* What happened, counted: metrics.tbl lists every series. /metrics prints it as Prometheus text. */
#pragma once

#include "base/json.h"
#include "gate/admit.h"
#include "wire/egressmsg.h"
#include "wire/fileop.h"

enum reject { REJECT_CONCURRENCY, REJECT_QUOTA, REJECT_UNSCHEDULABLE, REJECT_MAX };
enum adopted { ADOPTED_SESSION, ADOPTED_RUN, ADOPTED_BOX, ADOPTED_MAX };
enum outcome { OUTCOME_OK, OUTCOME_TIMED_OUT, OUTCOME_ERROR, OUTCOME_MAX };

enum { BUCKETS = 12, STATUS_CLASSES = 6 };

struct histogram {
	uint64_t bucket[BUCKETS + 1]; /* not cumulative; the last one is beyond all */
	uint64_t count, sum_us;
};

struct metrics {
	uint64_t rejected[OPERATION_MAX][REJECT_MAX];
	uint64_t completed[OPERATION_MAX][OUTCOME_MAX];
	struct histogram waited[OPERATION_MAX], lasted[OPERATION_MAX];
	struct histogram box_setup;
	uint64_t requests[STATUS_CLASSES]; /* by first digit */
	uint64_t boxes_made, boxes_failed, boxes_oom, tokens_refused, audit_lost, calls_refused;
	uint64_t adopted[ADOPTED_MAX];
	uint64_t file_calls[FILEOP_MAX], file_bytes_in, file_bytes_out;
	struct net_figures net; /* of all boxes; open is not used */
};

struct gate;

void metrics_waited(struct metrics *m, enum operation op, uint64_t us);
void metrics_rejected(struct metrics *m, enum operation op, enum reject why);
void metrics_completed(struct metrics *m, enum operation op, enum outcome how, uint64_t us);
void metrics_box(struct metrics *m, uint64_t setup_us);

/* All of it as text, appended to j's buffer. */
void metrics_print(const struct gate *g, struct json *j);
