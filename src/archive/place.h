/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the staging directory to where it belongs: directories become one with those that are there, everything else takes the
 * place of what is there.
 */
#pragma once

#include "archive/archive.h"

/* Whether all that is in `from` can go to `to`, without moving anything. 0 or -1. */
int place_check(int from, int to, struct fault *f);
/* Move it, or copy it where nothing may change its directory. 0 or -1; then some of it is in place: only a disk or another process in the same directories can do that. */
int place_move(int from, int to, struct fault *f);
