// SPDX-License-Identifier: Apache-2.0
#include "wire/dnsname.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* In lower case, if a label may have it; NUL: it may not. */
static char plain(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_' ? c : '\0';
}

/* As inet_aton() and browsers see it, octal included; label is in lower case. */
static bool is_number(const char *label, size_t n)
{
	bool hex = n >= 2 && label[0] == '0' && label[1] == 'x';

	for (size_t i = hex ? 2 : 0; i < n; i++)
		if (!is_digit(label[i]) && !(hex && label[i] >= 'a' && label[i] <= 'f'))
			return false;
	return true;
}

/* n bytes without a dot at their end. */
static int read_labels(const char *p, size_t n, char *ret)
{
	size_t label = 0; /* where it begins */

	for (size_t i = 0; i < n; i++) {
		ret[i] = p[i] == '.' ? '.' : plain(p[i]);
		if (ret[i] == '\0')
			return -EINVAL;
		if (ret[i] == '.' && i == label)
			return -EINVAL;
		if (ret[i] == '.')
			label = i + 1;
		else if (i - label >= DNSNAME_LABEL)
			return -EINVAL;
	}
	ret[n] = '\0';
	return label == n || is_number(ret + label, n - label) ? -EINVAL : 0;
}

int dnsname_read(const char *p, size_t n, char ret[DNSNAME_SIZE])
{
	int r = -EINVAL;

	if (n > 0 && p[n - 1] == '.')
		n--;
	if (n > 0 && n <= DNSNAME_MAX)
		r = read_labels(p, n, ret);
	if (r < 0)
		ret[0] = '\0';
	return r;
}

int dnsname_v4(const char *p, size_t n, uint8_t ret[4])
{
	uint8_t address[4];
	size_t at = 0;

	for (unsigned int i = 0; i < 4; i++) {
		unsigned int v = 0;
		size_t first;

		if (i > 0 && (at == n || p[at] != '.'))
			return -EINVAL;
		at += i > 0 ? 1 : 0;
		for (first = at; at < n && at - first < 3 && is_digit(p[at]); at++)
			v = v * 10 + (unsigned int)(p[at] - '0');
		if (at == first || v > UINT8_MAX || (at - first > 1 && p[first] == '0'))
			return -EINVAL;
		address[i] = (uint8_t)v;
	}
	if (at != n)
		return -EINVAL;
	(void)memcpy(ret, address, sizeof(address));
	return 0;
}
