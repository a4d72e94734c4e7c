/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command line; each has its file. */
#pragma once

enum {
	EXIT_TIMEOUT = 124,     /* the program ran out of wall-clock time */
	EXIT_GLOVEBOX = 125,    /* ours: nothing is said about the program */
	EXIT_SIGNAL_BASE = 128, /* plus the signal that ended the program */
};

int verb_serve(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_invoke(int argc, char **argv);
int verb_shell(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_exec(int argc, char **argv);
int verb_cp(int argc, char **argv);
int verb_logs(int argc, char **argv);
int verb_kill(int argc, char **argv);
int verb_fork(int argc, char **argv);
int verb_ipybox(int argc, char **argv);
int verb_mcp(int argc, char **argv);
int verb_tools(int argc, char **argv);
int verb_env(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_demo(int argc, char **argv);
