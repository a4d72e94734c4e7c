// SPDX-License-Identifier: Apache-2.0
/*
 * Pages. Their texts lie in pages/ and are part of the program, as they are there. A browser runs
 * nothing on them but our scripts and asks nobody but this server: so says the policy that goes
 * with every one of them.
 */
#include "gate/meta.h"

#include "base/own.h"
#include "gate/gate.h"
#include "gate/pages.gen.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define HTML   "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define STYLE  "text/css; charset=utf-8"

enum { TAG_BYTES = 16, TAG = 2 * TAG_BYTES + 3 };

static const struct page {
	const char *path; /* of its route */
	const char *type;
	const unsigned char *p;
	size_t n;
} pages[] = {
	{ "/", HTML, page_html, sizeof(page_html) },
	{ "/docs", HTML, docs_html, sizeof(docs_html) },
	{ "/assets/common.js", SCRIPT, common_js, sizeof(common_js) },
	{ "/assets/page.js", SCRIPT, page_js, sizeof(page_js) },
	{ "/assets/docs.js", SCRIPT, docs_js, sizeof(docs_js) },
	{ "/assets/style.css", STYLE, style_css, sizeof(style_css) },
};

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
			     "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
			     "form-action 'none'; frame-ancestors 'none'";

/* "…", by the content. */
static void make_tag(const void *p, size_t n, char tag[TAG])
{
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	int len = 0;

	(void)SHA256(p, n, sha256);
	tag[len++] = '"';
	for (unsigned int i = 0; i < TAG_BYTES; i++)
		len += snprintf(tag + len, 3, "%02x", sha256[i]);
	tag[len++] = '"';
	tag[len] = '\0';
}

/* Whether the client has it: a tag with its quotes can stand in a list of tags as itself only. */
static bool has_tag(const struct req *r, const char *tag)
{
	struct http_slice known = req_get(r, "If-None-Match");

	if (known.n == 0)
		return false;
	return http_slice_is(known, "*") || memmem(known.p, known.n, tag, strlen(tag)) != NULL;
}

static void reply(struct req *r, const char *type, const void *p, size_t n)
{
	char tag[TAG];

	make_tag(p, n, tag);
	req_header(r, "Content-Security-Policy", "%s", policy);
	req_header(r, "Cross-Origin-Opener-Policy", "same-origin");
	req_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	req_header(r, "Referrer-Policy", "same-origin");
	req_header(r, "Cache-Control", "no-cache");
	req_header(r, "ETag", "%s", tag);
	if (has_tag(r, tag)) {
		req_begin(r, 304, NULL, (int64_t)n); /* the length of what is not sent again */
		req_end(r);
	} else {
		req_reply(r, 200, type, p, n);
	}
}

void meta_page(struct req *r)
{
	for (unsigned int i = 0; i < ARRAY_LEN(pages); i++)
		if (strcmp(pages[i].path, r->route->path) == 0) {
			reply(r, pages[i].type, pages[i].p, pages[i].n);
			return;
		}
	req_refuse(r, 404, "not_found", NULL, "Not Found");
}

void meta_openapi(struct req *r)
{
	static struct json text; /* made once; always the same */

	if (text.buf == NULL)
		openapi_write(&text);
	if (text.failed) {
		json_done(&text);
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return;
	}
	reply(r, "application/json", text.buf, text.len);
}
