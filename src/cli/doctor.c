// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

int verb_doctor(int argc, char **argv)
{
	(void)argc, (void)argv;
	return EXIT_GLOVEBOX;
}
