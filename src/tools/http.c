// SPDX-License-Identifier: Apache-2.0
#include "tools/http.h"

#include "base/clock.h"
#include "base/own.h"

#include "config.gen.h"

#include <stdio.h>
#include <string.h>

/* --- requests ------------------------------------------------------------------------------------- */

/* Request line and headers, but for those of the message, and without the empty line. */
static void put_head(const struct http *h, struct bytes *b, const char *method, const char *target)
{
	bytes_puts(b, method);
	bytes_puts(b, " ");
	bytes_puts(b, target);
	bytes_puts(b, " HTTP/1.1\r\nHost: ");
	bytes_puts(b, h->host);
	bytes_puts(b, "\r\nUser-Agent: glovebox/" GLOVEBOX_VERSION "\r\nConnection: close\r\n");
	for (unsigned int i = 0; i < h->place->nheaders; i++) {
		bytes_puts(b, h->place->headers[i]);
		bytes_puts(b, "\r\n");
	}
	if (h->session[0] != '\0') {
		bytes_puts(b, "Mcp-Session-Id: ");
		bytes_puts(b, h->session);
		bytes_puts(b, "\r\n");
	}
}

static void put_version(const struct http *h, struct bytes *b)
{
	if (h->link.client.spoken[0] != '\0')
		bytes_printf(b, "MCP-Protocol-Version: %s\r\n", h->link.client.spoken);
}

struct post *http_post_new(struct http *h, enum post_kind kind)
{
	struct post *p = calloc(1, sizeof(*p)), **at = &h->posts;

	if (p == NULL)
		return NULL;
	p->h = h;
	p->kind = kind;
	p->slot = -1;
	p->again_us = UINT64_MAX;
	fetch_init(&p->x, h->link.client.bounds.message_bytes);
	while (*at != NULL)
		at = &(*at)->next;
	*at = p;
	h->nposts++;
	return p;
}

static void begin(struct post *p)
{
	p->has_head = false;
	if (fetch_start(&p->x, p->h->dialer, p->h->at.host, p->h->secure) < 0)
		http_post_failed(p, clock_us());
}

void http_get(struct http *h, struct post *p)
{
	uint64_t retry_ms = p->x.sse.retry_ms;
	char last[SSE_ID];

	(void)memcpy(last, p->x.sse.last_id, sizeof(last));
	fetch_done(&p->x);
	fetch_init(&p->x, h->link.client.bounds.message_bytes);
	(void)memcpy(p->x.sse.last_id, last, sizeof(last));
	(void)memcpy(p->x.sse.next_id, last, sizeof(last));
	p->x.sse.retry_ms = retry_ms;
	p->again_us = UINT64_MAX;
	put_head(h, &p->x.out, "GET", h->target);
	put_version(h, &p->x.out);
	bytes_puts(&p->x.out, "Accept: text/event-stream\r\n");
	if (last[0] != '\0') {
		bytes_puts(&p->x.out, "Last-Event-ID: ");
		bytes_puts(&p->x.out, last);
		bytes_puts(&p->x.out, "\r\n");
	}
	bytes_puts(&p->x.out, "\r\n");
	begin(p);
}

static bool post_queued(struct http *h, const struct queued *q)
{
	struct post *p = http_post_new(h, POST_MESSAGE);

	if (p == NULL)
		return false;
	p->id = q->id;
	p->opens = q->opens;
	p->opened = q->opened;
	put_head(h, &p->x.out, "POST", h->post_target);
	bytes_puts(&p->x.out, q->head);
	bytes_puts(&p->x.out, "Content-Type: application/json\r\n"
			      "Accept: application/json, text/event-stream\r\n");
	bytes_printf(&p->x.out, "Content-Length: %zu\r\n\r\n", q->n);
	bytes_put(&p->x.out, q->text, q->n);
	begin(p);
	return true;
}

/* --- the queue ------------------------------------------------------------------------------------ */

static void free_queued(struct http *h, struct queued *q)
{
	h->nqueued--;
	h->queued_bytes -= q->n;
	free(q->head);
	free(q->text);
	free(q);
}

static int send_message(struct mcpc_way *w, const struct mcpc_message *m)
{
	struct http *h = (struct http *)w;
	struct queued *q;
	struct bytes head;

	if (h->nqueued >= HTTP_QUEUE_MAX ||
	    m->n > h->link.client.bounds.message_bytes - h->queued_bytes)
		return -ENOBUFS;
	bytes_init(&head, 1 << 20);
	for (unsigned int i = 0; i < m->nheaders; i++) {
		bytes_puts(&head, m->headers[i].name);
		bytes_puts(&head, ": ");
		bytes_puts(&head, m->headers[i].value);
		bytes_puts(&head, "\r\n");
	}
	bytes_puts(&head, "");
	q = calloc(1, sizeof(*q));
	if (q != NULL)
		q->text = malloc(m->n + 1);
	if (q == NULL || q->text == NULL || head.failed) {
		bytes_done(&head);
		free(q != NULL ? q->text : NULL);
		free(q);
		return -ENOMEM;
	}
	(void)memcpy(q->text, m->text, m->n);
	q->n = m->n;
	q->head = head.p;
	q->id = m->id;
	q->opens = m->opens;
	q->opened = m->opened;
	if (h->last != NULL && h->first != NULL)
		h->last->next = q;
	else
		h->first = q;
	h->last = q;
	h->nqueued++;
	h->queued_bytes += q->n;
	return 0;
}

/* Those that are under way are let go at the end of the turn: this may be one of their own events. */
static void drop_request(struct mcpc_way *w, uint64_t id)
{
	struct http *h = (struct http *)w;
	struct queued **at = &h->first, *before = NULL;

	for (struct post *p = h->posts; p != NULL; p = p->next)
		if (p->id == id)
			p->over = true;
	while (*at != NULL && (*at)->id != id) {
		before = *at;
		at = &before->next;
	}
	if (*at != NULL) {
		struct queued *q = *at;

		*at = q->next;
		if (h->last == q)
			h->last = before;
		free_queued(h, q);
	}
}

static bool is_barred(const struct http *h, uint64_t now_us)
{
	if (h->post_target[0] == '\0' || now_us < h->barred_us)
		return true;
	for (const struct post *p = h->posts; p != NULL; p = p->next)
		if (p->opened && !p->over)
			return true;
	return false;
}

static void launch(struct http *h, uint64_t now_us)
{
	while (h->first != NULL && h->nposts < HTTP_POSTS_MAX && !is_barred(h, now_us)) {
		struct queued *q = h->first;

		if (!post_queued(h, q)) {
			mcpc_lost(&h->link.client, "no memory for a request");
			return;
		}
		h->first = q->next;
		free_queued(h, q);
	}
}

/* --- its turn ------------------------------------------------------------------------------------- */

static void sweep(struct http *h)
{
	struct post **at = &h->posts;

	while (*at != NULL) {
		struct post *p = *at;

		if (!p->over) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		fetch_done(&p->x);
		free(p);
		h->nposts--;
	}
}

static unsigned int wait_for(struct toolway *l, struct pollfd *fds, uint64_t *deadline_us)
{
	struct http *h = (struct http *)l;
	unsigned int n = 0;

	launch(h, clock_us());
	sweep(h);
	for (struct post *p = h->posts; p != NULL; p = p->next) {
		p->slot = -1;
		if (p->again_us < *deadline_us)
			*deadline_us = p->again_us;
		if (p->again_us != UINT64_MAX || p->x.dialing || n == MCP_POLL_MAX)
			continue;
		if (p->x.fd < 0) { /* there will be no stream: hear of it at once */
			*deadline_us = 0;
			continue;
		}
		p->slot = (int)n;
		fds[n++] = (struct pollfd){ .fd = p->x.fd, .events = fetch_events(&p->x) };
	}
	if (h->first != NULL && h->barred_us != 0 && h->barred_us < *deadline_us &&
	    h->barred_us > clock_us())
		*deadline_us = h->barred_us;
	return n;
}

static void step(struct toolway *l, const struct pollfd *fds, unsigned int n, uint64_t now_us)
{
	struct http *h = (struct http *)l;

	for (struct post *p = h->posts; p != NULL; p = p->next) {
		if (p->over)
			continue;
		if (p->again_us <= now_us)
			http_get(h, p);
		else if (p->again_us == UINT64_MAX && !p->x.dialing && p->x.fd < 0)
			http_post_step(p, now_us);
		else if (p->slot >= 0 && (unsigned int)p->slot < n && fds[p->slot].revents != 0)
			http_post_step(p, now_us);
		p->slot = -1;
	}
	launch(h, now_us);
	sweep(h);
}

static bool is_idle(const struct toolway *l)
{
	const struct http *h = (const struct http *)l;

	for (const struct post *p = h->posts; p != NULL; p = p->next)
		if (!p->over && (p->kind == POST_LEAVE || (p->kind == POST_MESSAGE && p->id == 0)))
			return false;
	return h->first == NULL;
}

/* --- its end -------------------------------------------------------------------------------------- */

static void drop_all(struct http *h)
{
	for (struct post *p = h->posts; p != NULL; p = p->next)
		p->over = true;
	while (h->first != NULL) {
		struct queued *q = h->first;

		h->first = q->next;
		free_queued(h, q);
	}
}

/* The session is over; who does not answer has heard it all the same. */
static void leave(struct toolway *l)
{
	struct http *h = (struct http *)l;
	struct post *p;

	drop_all(h);
	if (h->session[0] == '\0' || l->client.era != MCPC_ERA_LEGACY)
		return;
	p = http_post_new(h, POST_LEAVE);
	if (p == NULL)
		return;
	put_head(h, &p->x.out, "DELETE", h->post_target);
	put_version(h, &p->x.out);
	bytes_puts(&p->x.out, "\r\n");
	begin(p);
}

static void end(struct toolway *l)
{
	struct http *h = (struct http *)l;

	drop_all(h);
	sweep(h);
	h->dialer->done(h->dialer);
	free(h);
}

/* --- its beginning -------------------------------------------------------------------------------- */

static int find_place(struct http *h, const char *url, struct err *e)
{
	const char *rest;
	int r = endpoint_of_any_url(url, &h->at, &rest, &h->secure);
	int n;

	if (r == 0 && h->secure && h->dialer->tls == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "this client does not speak https");
		return err_hint(e, "use a tunnel or a proxy on this machine, and its http:// URL");
	}
	if (r < 0) {
		(void)err_set(e, ERR_USAGE, 0, "'%.200s' is no URL of a server", url);
		return err_hint(e, "write http://HOST:PORT/mcp, or -- PROGRAM ARGS for one that is "
				   "started");
	}
	n = snprintf(h->target, sizeof(h->target), "%s%.*s", rest[0] == '/' ? "" : "/",
		     (int)strcspn(rest, "#"), rest);
	if (n >= (int)sizeof(h->target))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "the URL of the server");
	endpoint_text(&h->at, h->host);
	(void)snprintf(h->shown, sizeof(h->shown), "http%s://%s", h->secure ? "s" : "", h->host);
	return 0;
}

struct toolway *toolway_http_open(const struct mcp_place *place, const struct mcpc_bounds *b,
				  struct dialer *d, struct err *e)
{
	static const struct mcp_transport transport = { wait_for, step, is_idle, leave, end, NULL };
	struct http *h = calloc(1, sizeof(*h));
	struct post *p;

	if (h == NULL) {
		d->done(d);
		(void)err_set(e, ERR_SYS, ENOMEM, "speak to a server");
		return NULL;
	}
	h->dialer = d;
	h->place = place;
	h->old = place->old;
	h->link.transport = &transport;
	h->link.way.http = true;
	h->link.way.legacy = place->old;
	h->link.way.send = send_message;
	h->link.way.drop = drop_request;
	mcpc_init(&h->link.client, &h->link.way, b, "glovebox", GLOVEBOX_VERSION);
	if (find_place(h, place->url, e) < 0 || d->find(d, &h->at, e) < 0) {
		end(&h->link);
		return NULL;
	}
	if (!h->old) {
		(void)memcpy(h->post_target, h->target, sizeof(h->target));
		return &h->link;
	}
	p = http_post_new(h, POST_STANDING);
	if (p != NULL)
		http_get(h, p);
	return &h->link;
}
