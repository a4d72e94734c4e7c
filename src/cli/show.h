/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cell says, for a person: text as it comes, results behind `Out[n]:`, displays by their plainest form, tracebacks,
 * and images as files that a line names.
 */
#pragma once

#include "cli/filter.h"
#include "cli/follow.h"

struct show {
	const char *images; /* the directory for them; NULL: they are only named */
	bool prompts;       /* results are shown behind Out[n]: */
	bool colour;        /* that of our own words */
	bool is_text; /* output comes as text; otherwise as base64: all bytes, whatever they are */
	struct filter filter[2];
	struct bytes text;     /* of one event, on its way out */
	bool at_line_begin[2]; /* whether what was written to it ended a line */
	bool same_terminal;    /* both go to one: a line of one ends that of the other */
	bool clear_later;      /* clear_output(wait=True) came */
	int64_t count;         /* execution_count, for names of images */
	unsigned int nimages;
	int error; /* -errno: nobody takes what we write any more */
	int (*heard)(void *arg, unsigned int times); /* see wake_write() */
	void *arg;
};

void show_init(struct show *s, const char *images, bool prompts);
void show_done(struct show *s);
/* An event that shows something; others are passed over. */
void show_event(struct show *s, const struct follow_event *e);
/* Output as the server has it; to: 0 for standard output, 1 for standard error. */
void show_stream(struct show *s, const struct jsonr_node *data, int to);
/* The cell has ended: what is unfinished is over, colours are off, the cursor is at the beginning of a line. */
void show_end(struct show *s);
/* A text of ours on standard output, on a line of its own. */
void show_line(struct show *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whether to colour what goes there: a terminal, and NO_COLOR is not set. */
bool show_has_colour(int fd);

/* show_images.c: save what is an image among the data; whether there was one. */
bool show_image(struct show *s, const struct jsonr *d, const struct jsonr_node *data);
