// SPDX-License-Identifier: Apache-2.0
/*
 * embed-pages FILE...: the files as arrays of C, page.html as page_html[], _x.py as x_py[]. A build tool: nothing of
 * it is shipped, and nothing that it reads is untrusted. A header comes out, so that meta.c is
 * compiled again when a page changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *p = slash != NULL ? slash + 1 : path;

	for (p += strspn(p, "_"); *p != '\0'; p++)
		(void)putchar(*p == '.' || *p == '-' ? '_' : *p);
}

static void embed(const char *path)
{
	FILE *f = fopen(path, "rb");
	unsigned int n = 0;
	int c;

	if (f == NULL) {
		perror(path);
		exit(1);
	}
	(void)printf("static const unsigned char ");
	print_name(path);
	(void)printf("[] = {");
	while ((c = getc(f)) != EOF)
		(void)printf("%s%d,", n++ % 24 == 0 ? "\n\t" : "", c);
	(void)printf("\n};\n");
	if (ferror(f) != 0 || n == 0) {
		(void)fprintf(stderr, "embed-pages: cannot read '%s', or it is empty\n", path);
		exit(1);
	}
	(void)fclose(f);
}

int main(int argc, char **argv)
{
	(void)printf("/* Made by src/gate/pages/embed.c. */\n#pragma once\n");
	for (int i = 1; i < argc; i++)
		embed(argv[i]);
	return fflush(stdout) == 0 ? 0 : 1;
}
