/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of machines, one rule for all who read them: what a rule allows, what is looked up and what
 * a server is told must be the same name.
 *
 * Labels of 1 to 63 letters, digits, '-' and '_' with dots between them, at most 253 bytes in all.
 * The last label is no number, decimal or "0x…": such a name would be an address for some who read
 * it behind us ("127.1", "2130706433", "0x7f000001").
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	DNSNAME_MAX = 253,
	DNSNAME_SIZE = DNSNAME_MAX + 1, /* with its NUL */
	DNSNAME_LABEL = 63,
};

/* In lower case, without one dot at its end. -EINVAL: it is none, and ret is "". */
int dnsname_read(const char *p, size_t n, char ret[DNSNAME_SIZE]);

/* The text of an IPv4 address in its usual form: four decimal numbers without zeros in front.
 * -EINVAL: it is none, and ret stays. */
int dnsname_v4(const char *p, size_t n, uint8_t ret[4]);
