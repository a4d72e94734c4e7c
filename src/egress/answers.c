// SPDX-License-Identifier: Apache-2.0
/*
 * What a server says to requests that had a secret put in, when the rule says that it must not be read in the answer: each answer is read strictly and
 * written anew, with asterisks in place of the secret, in its headers and in its body.
 *
 * A secret is looked for in a body as it is without its framing, so that pieces of it hide nothing. An answer that is compressed could: it was asked for
 * without, and is refused all the same.
 */
#include "egress/tunnel.h"

#include "base/own.h"
#include "wire/http_answer.h"

#include <stdio.h>
#include <string.h>

enum { ASKED_MAX = 256 };

struct answers {
	struct http_answer a;
	bool headed;
	struct redact *redact;
	/* Of requests that were not answered yet: whether it was HEAD. */
	bool head[ASKED_MAX];
	unsigned int first, nasked;
};

struct answers *answers_new(struct redact *redact)
{
	struct answers *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return NULL;
	http_answer_init(&x->a);
	x->redact = redact;
	return x;
}

void answers_free(struct answers *x)
{
	if (x != NULL)
		redact_done(x->redact);
	if (x != NULL)
		free(x->redact);
	free(x);
}

int answers_asked(struct answers *x, bool head)
{
	if (x->nasked == ASKED_MAX)
		return -EBUSY;
	x->head[(x->first + x->nasked++) % ASKED_MAX] = head;
	return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* What is known of it now; whole: no more of this text comes. */
static int put_hidden(struct answers *x, const char *p, size_t n, bool whole, struct queue *to)
{
	uint8_t *at = queue_room(to, n + x->redact->nheld);
	size_t told;

	if (at == NULL || redact_feed(x->redact, p, n, at, &told) < 0)
		return -ENOMEM;
	to->end += told;
	if (!whole)
		return 0;
	at = queue_room(to, x->redact->nheld);
	if (at == NULL)
		return -ENOMEM;
	to->end += redact_end(x->redact, at);
	return 0;
}

static int put_text(struct queue *to, const char *text)
{
	return queue_put(to, text, strlen(text));
}

/* Said by us, of how the body comes. */
static bool is_framing(struct http_slice name)
{
	static const char *const names[] = { "Content-Length", "Transfer-Encoding", "Trailer",
					     "Connection", "Keep-Alive" };

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (http_slice_is_nocase(name, names[i]))
			return true;
	return false;
}

static int put_headers(struct answers *x, struct queue *to)
{
	int r = 0;

	for (unsigned int i = 0; i < x->a.nh && r == 0; i++) {
		const struct http_header *h = &x->a.h[i];

		if (is_framing(h->name))
			continue;
		r = put_hidden(x, h->name.p, h->name.n, true, to);
		if (r == 0)
			r = put_text(to, ": ");
		if (r == 0)
			r = put_hidden(x, h->value.p, h->value.n, true, to);
		if (r == 0)
			r = put_text(to, "\r\n");
	}
	return r;
}

static bool has_body(const struct answers *x)
{
	return x->a.framing != HTTP_ANSWER_NONE && !x->head[x->first];
}

static int put_head(struct answers *x, struct queue *to)
{
	struct http_slice coding = http_answer_get(&x->a, "Content-Encoding");
	char line[96];
	int r;

	if (x->a.status == 101 || (coding.n > 0 && !http_slice_is_nocase(coding, "identity")))
		return -EBADMSG;
	(void)snprintf(line, sizeof(line), "HTTP/1.1 %d \r\n", x->a.status);
	r = put_text(to, line);
	if (r == 0)
		r = put_headers(x, to);
	line[0] = '\0';
	if (x->a.framing == HTTP_ANSWER_LENGTH)
		(void)snprintf(line, sizeof(line), "Content-Length: %llu\r\n",
			       (unsigned long long)x->a.length);
	else if (x->a.framing == HTTP_ANSWER_CHUNKED)
		(void)snprintf(line, sizeof(line), "Transfer-Encoding: chunked\r\n");
	if (r == 0)
		r = put_text(to, line);
	return r < 0 ? r : put_text(to, x->a.keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
}

static int put_body(struct answers *x, struct http_slice data, struct queue *to)
{
	bool chunked = x->a.framing == HTTP_ANSWER_CHUNKED;
	struct queue piece = { 0 };
	char line[32];
	int r;

	if (!chunked)
		return put_hidden(x, data.p, data.n, x->a.done, to);
	r = put_hidden(x, data.p, data.n, x->a.done, &piece);
	if (r == 0 && queue_len(&piece) > 0) {
		(void)snprintf(line, sizeof(line), "%zx\r\n", queue_len(&piece));
		r = put_text(to, line);
		if (r == 0)
			r = queue_put(to, piece.p, queue_len(&piece));
		if (r == 0)
			r = put_text(to, "\r\n");
	}
	queue_done(&piece);
	if (r == 0 && x->a.done)
		r = put_text(to, "0\r\n\r\n");
	return r;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void next(struct answers *x)
{
	http_answer_init(&x->a);
	x->headed = false;
	x->first = (x->first + 1) % ASKED_MAX;
	x->nasked--;
}

int answers_feed(struct answers *x, const uint8_t *p, size_t n, struct queue *to)
{
	while (n > 0) {
		struct http_slice data = { "", 0 };
		unsigned int interim = x->a.interim;
		const char *why;
		ptrdiff_t used;
		int r = 0;

		if (x->nasked == 0)
			return -EBADMSG; /* an answer to nothing */
		used = http_answer_feed(&x->a, (const char *)p, n, &data, &why);
		if (used < 0)
			return -EBADMSG;
		p += used;
		n -= (size_t)used;
		/* There are clients that wait for it with their body. */
		if (x->a.interim > interim && x->a.interim_status == 100)
			r = put_text(to, "HTTP/1.1 100 Continue\r\n\r\n");
		if (r == 0 && !x->headed && x->a.status != 0) {
			x->headed = true;
			r = put_head(x, to);
			if (r == 0 && !has_body(x))
				x->a.done = true;
		}
		/* A body that ends with its head has its end told all the same. */
		if (r == 0 && x->headed && has_body(x) && (data.n > 0 || x->a.done))
			r = put_body(x, data, to);
		if (r < 0)
			return r;
		if (x->a.done)
			next(x);
	}
	return 0;
}

int answers_end(struct answers *x, struct queue *to)
{
	if (x->nasked == 0 || !x->headed)
		return x->a.nhead > 0 || x->nasked > 0 ? -EBADMSG : 0;
	if (!http_answer_end(&x->a))
		return -EBADMSG;
	return put_hidden(x, "", 0, true, to);
}
