/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the keeper role, called by main() for `glovebox keeper`. */
#pragma once

int keeper_main(int argc, char **argv);
