// SPDX-License-Identifier: Apache-2.0
/*
 * glovebox: one program, several roles and verbs. The table says which.
 */
#include "base/own.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "keeper/role.h"

#include "config.gen.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *doc;  /* NULL: a role, started by other roles only */
	const char *link; /* a link to the program of this name is this verb; or NULL */
} verbs[] = {
	{ "run", verb_run, "run a Python or shell program in a fresh box", NULL },
	{ "invoke", verb_invoke, "call the handler of a script in a fresh box", "sandbox-run" },
	{ "shell", verb_shell, "an interactive session in a box: Python, or a shell", NULL },
	{ "serve", verb_serve, "serve boxes over HTTP", "code-interpreter-api" },
	{ "ps", verb_ps, "the boxes of a server, and what runs in them", NULL },
	{ "exec", verb_exec, "run a command or a cell in a box that is there", NULL },
	{ "cp", verb_cp, "copy files into a box or out of it", NULL },
	{ "logs", verb_logs, "what cells and commands of a box have said", NULL },
	{ "fork", verb_fork, "boxes with the variables and files of one that is there", NULL },
	{ "kill", verb_kill, "end boxes", NULL },
	{ "ipybox", verb_ipybox, "a box on two ports, for programs that are written for ipybox",
	  "ipybox" },
	{ "mcp", verb_mcp, "MCP on standard input and output, for programs that start it", NULL },
	{ "tools", verb_tools, "list, call and make Python of tools of servers that speak MCP",
	  NULL },
	{ "env", verb_env, "what boxes can be made of: packages, other root file systems", NULL },
	{ "doctor", verb_doctor,
	  "what this machine offers, layer by layer, and how to get the rest", NULL },
	{ "demo", verb_demo, "ten famous attacks in a box, and how each is refused", NULL },
	{ "keeper", keeper_main, NULL, NULL },
};

static void usage(FILE *f)
{
	(void)fputs("usage: glovebox VERB [options] ...\n\n"
		    "Runs untrusted code in sealed boxes.\n\nverbs:\n",
		    f);
	for (unsigned int i = 0; i < ARRAY_LEN(verbs); i++)
		if (verbs[i].doc != NULL)
			(void)fprintf(f, "  %-10s %s\n", verbs[i].name, verbs[i].doc);
	(void)fputs("\n'glovebox VERB --help' says more; 'glovebox --version' which one this is.\n",
		    f);
}

/* 0, 1 and 2 are open, whatever started us: a file of ours must never become one of them. */
static void hold_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_NOCTTY);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		(void)close(fd);
}

/* Whoever started us may have ignored or blocked what we wait for. (SIGHUP stays as nohup(1) left it.) */
static void reset_signals(void)
{
	sigset_t none;

	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGALRM, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The verb that we are by the name we were called by; all arguments are its own then. */
static const struct verb *verb_of_link(const char *called)
{
	const char *slash = strrchr(called, '/'), *name = slash != NULL ? slash + 1 : called;

	for (unsigned int i = 0; i < ARRAY_LEN(verbs); i++)
		if (verbs[i].link != NULL && strcmp(name, verbs[i].link) == 0)
			return &verbs[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct verb *linked = verb_of_link(argc > 0 ? argv[0] : "");
	const char *name = argc > 1 ? argv[1] : "";

	hold_standard_descriptors();
	reset_signals();
	if (linked != NULL)
		return linked->run(argc, argv);
	for (unsigned int i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(name, verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	if (strcmp(name, "--version") == 0) {
		(void)printf("glovebox %s\n", GLOVEBOX_VERSION);
		return 0;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
		usage(stdout);
		return 0;
	}
	if (*name != '\0')
		say("unknown verb '%s'", name);
	usage(stderr);
	return EXIT_GLOVEBOX;
}
