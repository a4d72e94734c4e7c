/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a one-shot share; for others there is gate/oneshot.h. */
#pragma once

#include "gate/oneshot.h"

enum phase {
	PHASE_STAT,
	PHASE_ADMIT,
	PHASE_BOX,
	PHASE_NET,
	PHASE_STAGE,
	PHASE_BEFORE,
	PHASE_RECORD,
	PHASE_RUN,
	PHASE_AFTER,
	PHASE_FETCH,
	PHASE_DONE,
};

struct entry {
	uint64_t path_hash, state_hash; /* of the first listing only these are kept */
	char *path;
	uint64_t size;
};

struct oneshot {
	struct gate *g;
	struct oneshot_spec spec;
	const struct oneshot_ops *ops;
	void *arg;
	enum phase phase;
	struct deferred deferred;
	struct ticket ticket;
	struct gbox *box;
	struct gjob program; /* its end stays unacknowledged until the owner has delivered it */
	struct gjob job;     /* a file or a listing under way */
	uint64_t born_us;
	char request[REQ_ID];
	bool counted; /* against max_boxes */
	bool told, ended, adopted;
	bool pooled;  /* the program's job waits already */
	bool inlined; /* the program goes with GO, and is no file of ours */
	bool chilled; /* thawing failed: once more, cold */
	size_t at;    /* file that is being fetched */
	struct stage stage;
	struct listing_reader *reader;
	struct entry *before, *after;
	size_t nbefore, nafter, cap;

	/* a file on its way from the box to the store */
	struct store_upload upload;
	bool uploading;
	struct buf fetched;
	uint64_t fetched_number;
	bool fetch_headed; /* the record in front of its bytes has come */
	bool fetch_ended;
	struct oneshot_result result;
};

/* --- oneshot.c --- */

/* One of these is the last that the owner is told; what comes later is not. */
void oneshot_fail(struct oneshot *o, int status, int why, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void oneshot_tell_result(struct oneshot *o);

void oneshot_box_lost(struct oneshot *o);
/* Of a struct gjob_ops: init refused a job. */
void oneshot_job_failed(void *arg, int error, const char *why);
/* The workspace is as the program will find it: leave what the next gate needs with the keeper, then run. */
void oneshot_save_record(struct oneshot *o);

/* --- oneshot_fetch.c --- */

/* List the workspace. PHASE_BEFORE goes on with oneshot_save_record(); PHASE_AFTER fetches what is new or changed, and
 * then tells the result. */
void oneshot_list(struct oneshot *o, enum phase phase);
/* A file that was there before the program ran. 0 or -errno. */
int oneshot_add_before(struct oneshot *o, uint64_t path_hash, uint64_t state_hash);
