/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration. Input: one byte that says what the rest is: 0 the text of a file; 1 a saved configuration; 2 a
 * change to a saved one (where, 16 bits; how many bytes go, 8 bits; what comes in their place).
 *
 * Claims. A file: what is refused is refused with FILE:LINE and a text that can be shown; what is taken comes back the
 * same from its dump and from its saved form, and the dump does not depend on the secrets in it. A saved
 * configuration: what is taken is saved again as the same bytes; what is refused leaves nothing behind.
 */
#include "base/config_impl.h"
#include "base/own.h"

#include <sys/mman.h>

#include "fuzz_input.h"

static char text_out[CONFIG_SAVED_MAX];

static size_t save(const struct config *c)
{
	own_fd fd = memfd_create("saved", MFD_CLOEXEC);
	ssize_t n;

	MUST(fd >= 0 && config_save(c, fd, CONFIG_PLAIN) == 0);
	n = pread(fd, text_out, sizeof(text_out), 0);
	MUST(n > 0);
	return (size_t)n;
}

static void must_be_same(const struct config *a, const struct config *b, bool secrets)
{
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		const struct config_row *row = config_row((enum config_key)i);

		if (secrets || (row->flags & CONFIG_SECRET) == 0)
			MUST(conf_same(row, &a->v[i], &b->v[i]));
	}
}

static void must_be_empty(const struct config *c)
{
	for (unsigned int i = 0; i < CONF_MAX; i++)
		MUST(c->v[i].text == NULL && c->v[i].n == 0 && c->v[i].where == NULL);
}

static void must_be_readable(const struct err *e)
{
	char why[CONF_WHY];

	MUST(e->kind != ERR_NONE && e->text[0] != '\0');
	MUST(conf_clean(e->text, why) == 0 && conf_clean(e->hint, why) == 0);
}

/* The text on top of the defaults. */
static int read_file(struct config *c, const char *text, size_t n, struct err *e)
{
	bool secret;

	if (conf_set_defaults(c, e) < 0)
		abort();
	if (conf_read_text(c, "input", text, n, &secret, e) < 0)
		return -1;
	if (conf_set_derived(c, 0, NULL, e) < 0)
		abort();
	MUST(secret || c->v[CONF_TOKEN].n == 0);
	return 0;
}

static char *dump(const struct config *c, size_t *ret_n)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_n);

	MUST(f != NULL);
	config_dump(c, f);
	MUST(fclose(f) == 0);
	return text;
}

static void fuzz_file(const char *text, size_t n)
{
	struct config c = { 0 }, again = { 0 };
	struct err e = { 0 };
	size_t dumped, other;
	char *first, *second;

	if (read_file(&c, text, n, &e) < 0) {
		char *end = NULL;
		unsigned long line;

		MUST(strncmp(e.text, "input:", 6) == 0);
		line = strtoul(e.text + 6, &end, 10);
		MUST(line > 0 && line <= n && strncmp(end, ": ", 2) == 0);
		must_be_readable(&e);
		config_done(&c);
		return;
	}
	if (config_check(&c, &e) < 0)
		must_be_readable(&e);

	first = dump(&c, &dumped);
	MUST(read_file(&again, first, dumped, &e) == 0);
	must_be_same(&c, &again, false);
	config_done(&again);

	n = save(&c);
	MUST(config_restore(&again, text_out, n, &e) == 0);
	must_be_same(&c, &again, true);
	config_done(&again);

	for (unsigned int i = 0; i < c.v[CONF_TOKEN].n; i++)
		(void)memset(c.v[CONF_TOKEN].list[i], 'x', strlen(c.v[CONF_TOKEN].list[i]));
	second = dump(&c, &other);
	MUST(other == dumped && memcmp(first, second, dumped) == 0);
	free(first);
	free(second);
	config_done(&c);
}

static void fuzz_saved(const char *text, size_t n)
{
	struct config c = { 0 };
	struct err e = { 0 };

	if (config_restore(&c, text, n, &e) < 0) {
		must_be_readable(&e);
		must_be_empty(&c);
		return;
	}
	MUST(save(&c) == n && memcmp(text_out, text, n) == 0);
	if (config_check(&c, &e) < 0)
		must_be_readable(&e);
	config_done(&c);
}

static void fuzz_change(struct input *in)
{
	size_t at = take_u16(in), gone = take_u8(in), n;
	struct config c = { 0 };
	struct err e;
	char *text;

	MUST(read_file(&c, "", 0, &e) == 0);
	n = save(&c);
	config_done(&c);
	at = at < n ? at : n;
	gone = gone < n - at ? gone : n - at;
	text = malloc(n - gone + in->n + 1);
	MUST(text != NULL);
	(void)memcpy(text, text_out, at);
	if (in->n > 0)
		(void)memcpy(text + at, in->p, in->n);
	(void)memcpy(text + at + in->n, text_out + at + gone, n - at - gone);
	fuzz_saved(text, n - gone + in->n);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size);
	struct input in = { copy, size };
	unsigned int what = take_u8(&in) % 3;

	if (what == 0)
		fuzz_file((const char *)in.p, in.n);
	else if (what == 1)
		fuzz_saved((const char *)in.p, in.n);
	else
		fuzz_change(&in);
	free(copy);
	return 0;
}
