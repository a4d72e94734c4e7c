/* SPDX-License-Identifier: Apache-2.0 */
/* The program of the roles that link libraries: beside us, or where it is installed. */
#pragma once

#include "base/err.h"

/* A descriptor, by which it can be executed, or -1. */
int gate_program_open(struct err *e);
