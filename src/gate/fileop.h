/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation on files of a box (wire/fileops.tbl), on behalf of a request.
 *
 * A file_call is the first member of what its handler needs. It is made (file_call_new), which is when it begins to count among
 * those of its box, and run, once; it ends by file_call_close(), which every way leads to: the operation has ended, was
 * refused, broke its word, the box has gone, the client has left. From then on nothing is heard of it, and at the end of the
 * turn it is freed. An operation that is closed before its end is ended in the box, too: what it was writing is not there.
 *
 * Both directions are as slow as the slower side. Output is acknowledged when the client's queue has room for more; input is
 * taken from the client as the box takes it. What the box says is hostile: a record is what wire/listing.h takes for one, and
 * an operation that says other things than its kind does is at its end.
 */
#pragma once

#include "gate/box.h"
#include "gate/file_paths.h"
#include "gate/req.h"
#include "wire/fileop.h"

struct abox;
struct file_call;

enum { FILE_CALLS_MAX = 16, FILE_WHY = 512 };

/* Troubles that are no errno of the box. */
enum file_trouble {
	FILE_GONE = -1,   /* the box has ended; `why` is the reason */
	FILE_BROKEN = -2, /* what it said makes no sense */
	FILE_FULL = -3,   /* FILE_CALLS_MAX are under way */
	FILE_NO_BOX = -4, /* the box cannot be reached yet */
	FILE_NO_MEMORY = -5,
	FILE_NO_AUDIT = -6,
};

/* How a dialect answers. */
struct file_shape {
	/* Where paths that are not from the root begin; NULL: in the working directory of the box. */
	const char *cwd;
	bool beneath; /* and which no link leads out of: EXDEV */
	/* error: an errno, or a file_trouble. path: as the box has it. why: more about it, or "". */
	void (*refuse)(struct req *r, int error, const char *path, const char *why);
	/* It was done. e: what is at the path now, NULL: nothing. */
	void (*done)(struct req *r, enum fileop op, const struct file_path *path,
		     const struct listing_entry *e);
	/* Headers about a file that is the answer; returns its type. NULL: it is to be saved, and has the type of its name. */
	const char *(*head)(struct req *r, const struct file_path *p);
	/* The name that a form gives to its file: 0 or -errno. NULL: file_path_take(). */
	int (*take_name)(struct file_path *p, const char *text, size_t n);
	int bad_form; /* status for a form that lacks something; 0: 422 */
};

/* What a handler hears. */
struct file_ops {
	/* A record: of a list each of them, of a read the one before its bytes. Of others it is c->entry at the end. -1: it is
	 * none of those that were asked for. May be NULL. */
	int (*record)(struct file_call *c, const struct listing_entry *e);
	/* Bytes of a read, an archive, a watch. -1 as above. */
	int (*bytes)(struct file_call *c, const uint8_t *p, size_t n);
	/* The box takes more input; NULL: the body of the request is the input. */
	void (*want)(struct file_call *c);
	/* It was done. */
	void (*end)(struct file_call *c);
	/* It was not; NULL: told in the shape's words, or the answer that is under way is cut. */
	void (*fail)(struct file_call *c, int error);
	/* It is freed; may be NULL. */
	void (*release)(struct file_call *c);
};

struct file_call {
	struct req *r; /* NULL: it is closed */
	struct abox *a;
	struct file_call *prev, *next; /* of its box */
	const struct file_shape *shape;
	const struct file_ops *ops;
	struct file_path path;
	enum fileop op;
	struct gjob job;
	bool running;
	bool fed;                          /* its input has ended */
	bool told;                         /* a record of it was there */
	uint64_t held;                     /* output up to here waits to be acknowledged; 0: none */
	const struct listing_entry *entry; /* the record, where it says one; else NULL */
	char why[FILE_WHY];                /* what it said on standard error */
	size_t why_len;
	struct listing_reader reader;
	struct deferred deferred;
};

/* Where its path begins. The box is there. */
const char *file_call_cwd(const struct file_call *c);
/* A call of `size` bytes, all zero but its file_call. NULL: answered. */
struct file_call *file_call_new(struct req *r, struct abox *a, const struct file_shape *shape,
				const struct file_path *path, const struct file_ops *ops,
				size_t size);
/* Begin; args is what stands behind the path, up to NULL. 0, or -1: answered, and closed. */
int file_call_run(struct file_call *c, enum fileop op, const char *const *args);
/* From here on the body of the request is its input. */
void file_call_take_body(struct file_call *c);
/* Input: how many bytes were taken; want() comes when there is room again. */
size_t file_call_feed(struct file_call *c, const void *p, size_t n);
/* That was all of it: only now the operation may come to its end. */
void file_call_fed(struct file_call *c);
/* Let go of it. May be called at any time, as often as one likes. */
void file_call_close(struct file_call *c);
/* Close it, and refuse; or cut the answer that is under way. */
void file_call_fail(struct file_call *c, int error);

/* The box has ended under them. */
void file_calls_end(struct abox *a);

/* What an error is called: a row of file_errors.tbl. */
struct file_error {
	int error;
	unsigned int code; /* enum own_error */
	const char *text;
};
const struct file_error *file_error(int error);
