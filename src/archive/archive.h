/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of glovebox-archive share. See README.md for who does what. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an archive is unpacked to first, and what a file is written to. No listing shows such names, nor does an archive have
 * them. */
#define STAGING_PREFIX ".glovebox-unpack-"
#define WRITING_PREFIX ".glovebox-put-"

enum {
	FAULT_TEXT = 512,
	SHOWN_MAX = 256, /* bytes of a name that a person is shown */
};

/* Why the program fails: its exit status, and a line for whoever asked. The first one stays. */
struct fault {
	int error; /* an errno; 0: none */
	char text[FAULT_TEXT];
};

/* Returns -1. */
int fault_set(struct fault *f, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A name as text for a person: cut if it is long, with '?' in the place of what is no text. Returns out. */
const char *shown(const char *name, char out[SHOWN_MAX]);

bool is_staging_name(const char *name);
/* One of both. */
bool is_hidden_name(const char *name);

/* The verbs, with their arguments. 0 or -1. */
int pack(char *const args[], struct fault *f);
int unpack(char *const args[], struct fault *f);
