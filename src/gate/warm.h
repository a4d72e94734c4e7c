/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of a Python that has done its imports, made in boxes of their own, for boxes to be thawed from.
 *
 * Two are for programs: one has imported what is small, the other what is large (zygote_imports). Which one a program gets is a guess by
 * its text; a wrong one costs an import, nothing else. The third is a kernel, with IPython and what is large. Until there is an image,
 * and on a machine that cannot have one, every start is cold.
 *
 * Every environment has its own. Those of the machine are made when a gate starts; others have a kernel only, which is made when somebody first asks for it, and
 * goes when nobody has for as long as an image lasts.
 */
#pragma once

#include "gate/box.h"

enum warm_kind { WARM_LEAN, WARM_FULL, WARM_KERNEL, WARM_MAX };

enum { WARM_SAID = 512 };

struct genv;

struct warm_image {
	struct gate *g;
	struct genv *env;
	enum warm_kind kind;
	uint32_t id;     /* complete, in the keeper; 0: none */
	uint32_t making; /* the next one; 0: not under way */
	uint32_t old;    /* the one before: boxes are still being made from it */
	struct gbox *box;
	struct gjob job;
	struct job_exit exit;
	char said[WARM_SAID]; /* what the zygote printed: why it failed */
	size_t nsaid;
	uint64_t began_us;
	unsigned int failures; /* in a row */
	struct timer again, late;
};

/* Of one environment. */
struct warm {
	struct warm_image images[WARM_MAX];
	bool wanted; /* since an image was last made */
};

struct warm_counts { /* for metrics */
	uint64_t made, failed;
};

const char *warm_str(enum warm_kind kind);
/* Of a new environment: nothing is there, and nothing under way. */
void warm_init(struct genv *v);
/* It goes. */
void warm_end(struct genv *v);
/* Find the images of the gate before this one, make what is missing. */
void warm_start(struct gate *g);
/* What the machine has, has changed: make them anew; the old ones serve meanwhile. */
void warm_renew(struct gate *g);
/* Somebody makes a box of it, or will: its kernel is to be there. */
void warm_want(struct genv *v);
/* It is known, and may have sessions made ahead. */
void warm_settle(struct genv *v);
/* Whether each image of the machine's own was tried: there is one, or a start is cold for a while. */
bool warm_is_settled(const struct gate *g);
/* The kind of image for this program, of the machine's own; WARM_MAX: start it cold. */
enum warm_kind warm_pick(const struct gate *g, const char *code, size_t n);
/* The image to make a box from; 0: none. */
uint32_t warm_image(const struct genv *v, enum warm_kind kind);
/* Whether a box can be made from this one. */
bool warm_has(const struct gate *g, uint32_t image);
