// SPDX-License-Identifier: Apache-2.0
#include "tools/way.h"

#include <string.h>

bool mcp_header_check(const char *text)
{
	size_t n = strcspn(text, ":");

	if (n == 0 || text[n] != ':')
		return false;
	for (size_t i = 0; i < n; i++)
		if (strchr("!#$%&'*+-.^_`|~", text[i]) == NULL &&
		    !((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z') &&
		    !(text[i] >= '0' && text[i] <= '9'))
			return false;
	for (const char *p = text + n; *p != '\0'; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return true;
}
