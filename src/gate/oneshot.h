/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A one-shot: a fresh box, files in, one program, changed files out, the end of the box.
 *
 * Phases, in order; each is left by an event of keeper, store or box:
 *
 *   STAT     the files that it wants exist
 *   ADMIT    its turn
 *   BOX      the box is being made
 *   NET      what it may reach is put into force, if it may reach something
 *   STAGE    files go in, one after the other
 *   BEFORE   the workspace is listed, if anything was put there
 *   RECORD   what the next gate needs to know is with the keeper, if it is to outlive this one
 *   RUN      the program runs
 *   AFTER    the workspace is listed again
 *   FETCH    new and changed files go to the store, one after the other
 *   DONE     the result was told; the box is being ended
 *
 * Everything that it is given must stay where it is until RUN has begun; output is the owner's to acknowledge.
 */
#pragma once

#include "gate/admit.h"
#include "gate/box.h"
#include "gate/gate.h"
#include "gate/net_default.h"
#include "gate/stage.h"
#include "gate/store_link.h"
#include "wire/listing.h"

enum { ONESHOT_OWNER_MAX = 1024 };

struct oneshot_spec {
	enum operation operation;
	const struct tenant *tenant;
	const char *request; /* id of the request, for the audit; NULL: of another gate */
	struct box_request box;
	enum net_default network;
	enum warm_kind warm; /* what it is thawed from; WARM_MAX: nothing */
	struct stage_file
		*files; /* [0] is the program, which is never returned; a handler has none */
	size_t nfiles;
	const char *const *argv, *const *envp;
	const char *const
		*script;        /* the same for a Python that runs already: argv of the program */
	const char *input_path; /* with script: a file that is its standard input; NULL: none */
	const char *input;      /* NULL: none */
	size_t input_len;
	uint64_t timeout_us, output_max;
	const char *ignore; /* files of this name are never returned */
	/* A call of a handler: input is its request, what it returns comes as messages, and there are no files. */
	bool handler;
	/* To outlive this gate: bytes that the owner gets back. */
	const uint8_t *owner;
	size_t owner_len;
};

/* Why there is no result. Nothing was run when `ran` is false. */
struct oneshot_failure {
	int status; /* of HTTP */
	enum {
		ONESHOT_NO_FILE,
		ONESHOT_BUSY,
		ONESHOT_NO_BOX, /* or not with its network */
		ONESHOT_NO_STORE,
		ONESHOT_BOX_GONE,
		ONESHOT_AUDIT
	} why;
	size_t file; /* NO_FILE: which */
	bool ran;
	char text[256];
};

struct oneshot_file {
	char *path;
	char id[STORE_ID_LEN + 1];
};

struct oneshot_result {
	struct job_exit exit;
	uint64_t number; /* of the end, to be acknowledged */
	uint64_t duration_us;
	struct oneshot_file *files;
	size_t nfiles;
};

struct oneshot_ops {
	void (*running)(void *arg); /* the program was started: from here on there is a stream */
	void (*output)(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n);
	/* Of a handler; more: it goes on in the next. To be acknowledged, as output is. */
	void (*message)(void *arg, uint64_t number, bool more, const uint8_t *p, size_t n);
	/* One of these is the last call. */
	void (*result)(void *arg, const struct oneshot_result *r);
	void (*failed)(void *arg, const struct oneshot_failure *f);
};

struct oneshot;

/* NULL: no memory. The spec is copied, what it points to is not. Ops may be called before this returns. */
struct oneshot *oneshot_new(struct gate *g, const struct oneshot_spec *spec,
			    const struct oneshot_ops *ops, void *arg);
/* Go on. To be called once after oneshot_new(). */
void oneshot_start(struct oneshot *o);
/* Go on with a one-shot of another gate, from its record. The spec is what its owner made of its own bytes. */
struct oneshot *oneshot_resume(struct gate *g, const struct box_info *info, const uint8_t *record,
			       size_t n, const struct oneshot_spec *spec,
			       const struct oneshot_ops *ops, void *arg);
/* The owner's bytes of a record. 0 or -EPROTO. */
int oneshot_record_owner(const uint8_t *record, size_t n, const uint8_t **ret, size_t *ret_n);

/* Output up to this number was delivered. */
void oneshot_ack(struct oneshot *o, uint64_t number);
/* Whether the program has been started. */
bool oneshot_is_running(const struct oneshot *o);
/* The owner is done with it: the box is ended, whatever it does. No further call comes. After result() or failed()
 * this must be called, too. */
void oneshot_end(struct oneshot *o);
