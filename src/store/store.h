/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the store: one context, one loop, no threads.
 *
 * Descriptors of transfers are non-blocking; the disk is what this process is there to wait for.
 * An event carries kind, generation and slot, so that one which is late for a slot that was freed
 * in the same turn is seen and dropped.
 */
#pragma once

#include "base/err.h"
#include "store/audit.h"
#include "store/files.h"
#include "wire/chan.h"
#include "wire/store.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the keeper puts them. 5 is the configuration, which the store does not read. */
enum store_fds {
	STORE_KEEPER_FD = 3,
	STORE_GATE_FD = 4,
	STORE_DIR_FD = 6,
	STORE_AUDIT_FD = 7, /* may be closed */
};

enum { PIECE = 1 << 20 }; /* moved for one transfer in one turn, at most */

struct settings {
	uint64_t uid, gid;                  /* CONFINE_KEEP_ID where not given */
	uint64_t file_ttl;                  /* seconds; 0: none */
	uint64_t sweep;                     /* seconds between sweeps */
	uint64_t store_bytes, tenant_bytes; /* quotas; 0: none */
	uint64_t nameless; /* use files without a name where the directory has them */
	uint64_t audit_max_bytes, audit_keep;
	const char *audit_name;
};

enum watch {
	WATCH_GATE,
	WATCH_KEEPER,
	WATCH_PUT,
	WATCH_GET,
};

/* A slot of a table of transfers. The generation changes when it is freed. */
struct slot {
	bool used;
	uint32_t generation;
};

struct put {
	struct slot slot;
	uint64_t request;
	int in_fd; /* -1: end of file was seen */
	struct content_temp temp;
	EVP_MD_CTX *hash;
	uint64_t size; /* read and written so far */
	bool committing;
	uint64_t commit_request, commit_size;
	struct store_put asked;
};

struct get {
	struct slot slot;
	int file_fd, pipe_fd;
	uint64_t at, left;
	bool copy; /* the file system cannot splice */
};

/* A PUT that failed before its COMMIT came. */
struct failed_put {
	uint64_t request;
	struct store_failure why;
};

/* An answer that the gate's socket had no room for. */
struct answer {
	struct answer *next;
	uint16_t type;
	uint64_t request;
	int fd; /* -1: none */
	size_t len;
	uint8_t body[];
};

struct store {
	struct settings set;
	int gate_fd, keeper_fd, epoll_fd;
	bool ended; /* a peer is gone: leave the loop */
	int status; /* to exit with */
	struct files files;
	struct audit audit;
	const EVP_MD *sha256;

	unsigned int puts_max, gets_max; /* fewer where descriptors are scarce */
	unsigned int nputs, ngets;
	uint64_t open_bytes; /* of all puts */
	struct put puts[STORE_PUTS_MAX];
	struct get gets[STORE_GETS_MAX];
	struct failed_put failed[STORE_PUTS_MAX]; /* a ring: the latest ones */
	unsigned int nfailed;

	struct answer *answers, **answers_end;
	unsigned int nanswers;
};

/* --- main.c --- */
int store_watch(struct store *s, int fd, uint32_t events, enum watch what, unsigned int index,
		uint32_t generation);
void store_unwatch(struct store *s, int fd);

/* --- reply.c: answers; none waits, and none is lost: what does not fit is sent later --- */
void reply_ok(struct store *s, uint64_t request, const void *body, size_t len, const int *fd);
void reply_meta(struct store *s, uint64_t request, const struct store_meta *m, const int *fd);
void reply_failure(struct store *s, uint64_t request, const struct store_failure *f);
void reply_failed(struct store *s, uint64_t request, enum store_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The gate's socket has room again. */
void reply_flush(struct store *s);
void reply_done(struct store *s);

/* What a person and a gate should make of an errno: sets the reason and "what: strerror". */
void failure_set(struct store_failure *f, int err, const char *what);

/* --- ops.c: the table. -1: the gate broke the protocol. --- */
int store_handle(struct store *s, struct chan_msg *m);
void store_flush(struct store *s);

/* --- put.c --- */

/* Takes fd. -1: the request number is that of a PUT which is open. */
int put_start(struct store *s, uint64_t request, const struct store_put *asked, int fd);
void put_commit(struct store *s, uint64_t request, const struct store_commit *c);
void put_abort(struct store *s, uint64_t request, uint64_t put);
void put_event(struct store *s, unsigned int index, uint32_t generation);
void puts_done(struct store *s);

/* --- get.c --- */
void get_start(struct store *s, uint64_t request, const struct store_get *asked);
void get_event(struct store *s, unsigned int index, uint32_t generation);
void gets_done(struct store *s);

/* Where a piece passes through: of one transfer at a time. */
extern uint8_t store_piece[PIECE];
