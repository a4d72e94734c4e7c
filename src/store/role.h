/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of the store role, called by main() of glovebox-gate. What it expects of its
 * descriptors and arguments is in store/README.md. Returns the exit status.
 */
#pragma once

int store_main(int argc, char **argv);
