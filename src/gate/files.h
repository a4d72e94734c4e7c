/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be done with files of a box, whatever the dialect: each answers the request, in the shape that it is given.
 *
 *   files.c            look at one, delete it, make a directory, move
 *   file_read.c        a file as the body of an answer
 *   box_upload.c       the body of a request as a file, or a part of a form
 *   box_archive.c      a directory as an archive, and back
 *   box_files.c        the calls of the own API about them, and its shape
 *   box_files_list.c   its list
 *   box_watch.c        its events of what changes
 *
 * They are built of file_call (fileop.h); a dialect that needs more than these is, too.
 */
#pragma once

#include "gate/boxes.h"
#include "gate/fileop.h"

/* --- files.c --- */

void file_stat(struct req *r, struct abox *a, const struct file_shape *s,
	       const struct file_path *p);
void file_delete(struct req *r, struct abox *a, const struct file_shape *s,
		 const struct file_path *p, bool recursive);
/* mode: octal, or "" */
void file_mkdir(struct req *r, struct abox *a, const struct file_shape *s,
		const struct file_path *p, const char *mode);
void file_move(struct req *r, struct abox *a, const struct file_shape *s, const struct file_path *p,
	       const struct file_path *to, bool overwrite);
/* Whether something may be changed; false: answered. */
bool file_may_change(struct req *r, const struct file_shape *s, const struct file_path *p);
/* The audit's line about what was changed. */
void file_audit(const struct file_call *c);

/* --- file_read.c --- */

/* With ranges and conditions of the request; of HEAD only what would be said of it. */
void file_read(struct req *r, struct abox *a, const struct file_shape *s,
	       const struct file_path *p);

/* --- box_upload.c --- */

/* What the body is to become. */
struct file_put {
	struct file_path path;
	bool has_path; /* else the form says where */
	char mode[8];  /* octal, or "" */
};

/* The body, byte by byte; conditions of the request hold. */
void file_write(struct req *r, struct abox *a, const struct file_shape *s,
		const struct file_put *put);
/* Part 'file' of a form. 0, or -1: answered. */
int file_form(struct req *r, struct abox *a, const struct file_shape *s,
	      const struct file_put *put);

/* --- box_archive.c --- */

/* What a directory becomes. */
struct file_archive {
	const char *format; /* "tar" or "tar.gz": also the end of its name */
	const char *what;   /* "all", or "files": only regular ones */
	const char *type;   /* as the answer says it */
};

void file_pack(struct req *r, struct abox *a, const struct file_shape *s, const struct file_path *p,
	       const struct file_archive *as);
void file_unpack(struct req *r, struct abox *a, const struct file_shape *s,
		 const struct file_path *p);

/* --- box_files.c --- */

extern const struct file_shape own_shape;

/* Members of an object about a file: the path is what the client calls it. */
void own_put_entry(struct json *j, const char *path, const struct listing_entry *e);
/* A path: key, and key_base64 beside it where it is not UTF-8. */
void own_put_path(struct json *j, const char *key, const char *path);
/* 0 or 1 of the query: *ret stays where it is not there. 0, or -1: answered. */
int own_query_flag(struct req *r, const char *key, bool *ret);
/* The box of a call, and ?path= below its ?root=; NULL: answered. */
struct abox *own_find_path(struct req *r, struct file_path *p);
