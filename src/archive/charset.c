// SPDX-License-Identifier: Apache-2.0
/*
 * The character set of this program, for the library: names are UTF-8, or bytes.
 *
 * pax headers are UTF-8, and libarchive makes of them what the locale wants. Without one that would be ASCII, and every other name
 * a complaint; with one it would depend on which locales a box has, and on the modules of iconv in it. Told that the locale is UTF-8 it
 * converts nothing.
 */
#include <langinfo.h>

/* In the place of the C library's. */
char *nl_langinfo(nl_item item)
{
	static char charset[] = "UTF-8", nothing[] = "";

	return item == CODESET ? charset : nothing;
}
