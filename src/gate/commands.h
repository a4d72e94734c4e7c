/* SPDX-License-Identifier: Apache-2.0 */
/* A command of a box: a program with its arguments, as a task. */
#pragma once

#include "gate/tasks.h"

/* What is to be run. */
struct command_spec {
	const char *const *argv;
	const char *const *envp;
	const char *cwd;
	uint64_t timeout_us; /* 0: until the box ends */
	const char *input;
	size_t input_len;
	bool input_open;
	unsigned int flags;
	const char *summary;
};

extern const struct task_kind command_kind;

/* Start it. NULL: *ret_error is -errno. */
struct task *command_start(struct abox *a, const struct command_spec *spec,
			   const struct idem_key *key, int *ret_error);
void command_kill(struct task *t, uint64_t grace_us);
