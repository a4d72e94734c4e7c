/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a file that is a text by its name, as UTF-8: they are that, or GBK, or else Latin-1, in which any bytes are something. So the reference
 * reads them.
 *
 * A text is read in pieces, and a piece may end in the middle of a character: what is taken of it ends with a whole one.
 */
#pragma once

#include "gate/buf.h"
#include "gate/req.h"

struct abox;

/* Bytes beyond those that were asked for, on either side: a character has so many more than one at most. */
enum { SE_DECODE_EXTRA = 3 };

struct se_piece {
	const char *p; /* the first that was asked for */
	size_t before; /* bytes in front of it that are known, too */
	size_t n;      /* bytes from it on */
	size_t want;   /* those that were asked for; n at most */
	bool last;     /* the file ends with them, all n */
};

/* How many bytes of it are whole characters of UTF-8: as many as were asked for, a few less, or where that would be none, one
 * character. -1: it is no UTF-8. What is left of a character that began before the piece is taken as it is. */
ptrdiff_t se_utf8_part(const struct se_piece *piece);
/* As Latin-1. -ENOMEM. */
int se_latin1(const char *p, size_t n, struct buf *to);

/* Ask the box whether it is GBK: done() is called with the text and how many bytes it was, or with NULL if it is not, or if nobody knows. The
 * bytes stay the caller's, until then. It is r's for that time. */
struct se_gbk;
void se_gbk(struct req *r, struct abox *a, const struct se_piece *piece,
	    void (*done)(void *arg, struct req *r, const char *text, size_t n, size_t used),
	    void (*gone)(void *arg), void *arg);
