/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server of MCP says. Input: one byte that says over what it is said (1: HTTP, 2: the old one, 4: questions are accepted, 8: messages come in
 * answer to what was asked last, 16: the call is cancelled at the end), then lines, a message each; '@' in one is the id of what was asked last. The
 * client connects, lists, calls the first tool, and asks something else: each when the one before has ended.
 *
 * Claims: each request ends once, with what it came to; what goes out is one line of JSON-RPC, its id another one each time; headers
 * are fit for HTTP; results are JSON and lie in their text; lists are within their bounds, and every tool keeps the rules.
 */
#include "base/own.h"
#include "mcp/client.h"

#include "fuzz_input.h"

enum { ROUNDS = 4, LIST_BYTES = 4096, LIST_TOOLS = 16 };

struct peer {
	struct mcpc_way way; /* the first member */
	struct mcpc c;
	struct mcpc_request r[ROUNDS];
	unsigned int round, ends;
	uint64_t last;
	bool accept;
};

static void check_json(const char *p, size_t n)
{
	struct json_text t;

	MUST(json_text_read(p, n, &t) == 0);
}

static int on_send(struct mcpc_way *w, const struct mcpc_message *m)
{
	struct json_member part[] = { { .key = "jsonrpc" }, { .key = "id" } };
	struct peer *p = (struct peer *)w;
	int64_t id;

	check_json(m->text, m->n);
	MUST(memchr(m->text, '\n', m->n) == NULL && m->text[0] == '{');
	json_text_find((struct json_text){ m->text, m->n }, part, 2);
	MUST(part[0].value.n == 5 && memcmp(part[0].value.p, "\"2.0\"", 5) == 0);
	if (m->id != 0) {
		MUST(json_text_i64(part[1].value, &id) && (uint64_t)id == m->id && m->id > p->last);
		p->last = m->id;
	}
	MUST(m->nheaders == 0 || p->way.http);
	for (unsigned int i = 0; i < m->nheaders; i++) {
		size_t n = strlen(m->headers[i].value);

		for (const char *s = m->headers[i].name; *s != '\0'; s++)
			MUST(*s > ' ' && *s < 0x7f && *s != ':');
		for (size_t k = 0; k < n; k++)
			MUST(m->headers[i].value[k] >= ' ' && m->headers[i].value[k] < 0x7f);
		MUST(n > 0 && m->headers[i].value[0] != ' ' && m->headers[i].value[n - 1] != ' ');
	}
	return 0;
}

static bool on_elicit(struct mcpc_way *w, struct json_text params, struct json *j)
{
	if (!((struct peer *)w)->accept)
		return false;
	if (!mcpc_elicit_defaults(params, j))
		return false;
	check_json(j->buf, j->len);
	return true;
}

static void on_progress(struct mcpc_request *r, struct json_text params)
{
	MUST(r->outcome == MCPC_PENDING);
	check_json(params.p, params.n);
}

static void check_tools(const struct mcpc_tools *t)
{
	char why[MCPC_ERROR];
	size_t bytes = 0;

	MUST(t->n + t->dropped <= LIST_TOOLS && t->bytes <= LIST_BYTES);
	for (unsigned int i = 0; i < t->n; i++) {
		check_json(t->v[i].text, t->v[i].n);
		MUST(t->v[i].name[0] != '\0' && mcpc_tool_find(t, t->v[i].name) == &t->v[i]);
		MUST(t->v[i].input.p >= t->v[i].text &&
		     t->v[i].input.p + t->v[i].input.n <= t->v[i].text + t->v[i].n);
		MUST(mcpc_headers_check(t->v[i].input, why) && why[0] == '\0');
		bytes += t->v[i].n;
	}
	MUST(bytes <= t->bytes);
}

static void on_done(struct mcpc_request *r)
{
	struct peer *p = r->arg;

	MUST(r == &p->r[p->ends] && r->outcome != MCPC_PENDING);
	MUST((r->error[0] != '\0') == (r->outcome != MCPC_DONE));
	p->ends++;
	if (r->result.p != NULL) {
		MUST(r->outcome == MCPC_DONE && r->result.p == r->text);
		check_json(r->result.p, r->result.n);
	}
	check_tools(&r->tools);
}

/* What follows, if it is its turn. */
static void go_on(struct peer *p)
{
	static const char args[] = "{\"region\":\"a\\u00e9\",\"deep\":{\"n\":5}}";
	struct json_text t;

	while (p->round == p->ends && p->round < ROUNDS) {
		struct mcpc_request *r = &p->r[p->round];
		const struct mcpc_tools *tools = &p->r[1].tools;

		r->done = on_done;
		r->progress = p->round % 2 == 0 ? on_progress : NULL;
		r->arg = p;
		r->deadline_us = 1000;
		MUST(json_text_read(args, sizeof(args) - 1, &t) == 0);
		switch (p->round++) {
		case 0:
			mcpc_connect(&p->c, r, 1);
			break;
		case 1:
			mcpc_list(&p->c, r, 1);
			break;
		case 2:
			mcpc_call(&p->c, r, tools->n > 0 ? tools->v[0].name : "t", t,
				  tools->n > 0 ? &tools->v[0] : NULL, 1);
			break;
		default:
			mcpc_ask(&p->c, r, "prompts/list", "", 0, NULL, 1);
			break;
		}
	}
}

static void hear(struct peer *p, const uint8_t *data, size_t n, bool of)
{
	struct json text;
	char *copy;

	json_init(&text);
	json_raw(&text, "", 1); /* so that there is one */
	text.len = 0;
	for (size_t i = 0; i < n; i++) {
		char id[24];

		(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)p->last);
		if (data[i] == '@')
			json_raw(&text, id, strlen(id));
		else
			json_raw(&text, (const char *)data + i, 1);
	}
	copy = (char *)exact_copy(text.buf, text.len);
	mcpc_take(&p->c, of ? p->last : 0, copy, text.len, 2);
	free(copy);
	json_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct peer p = { .way = { .send = on_send, .elicit = on_elicit } };
	struct input in = { data, size };
	uint8_t how = take_u8(&in);
	struct mcpc_bounds b;

	mcpc_bounds_init(&b);
	b.list_bytes = LIST_BYTES;
	b.list_tools = LIST_TOOLS;
	b.list_pages = 4;
	b.strays = 8;
	b.message_bytes = 8192;
	b.probe_us = 10;
	p.way.http = (how & 1) != 0;
	p.way.legacy = (how & 2) != 0;
	p.accept = (how & 4) != 0;
	mcpc_init(&p.c, &p.way, &b, "fuzz", "1");
	go_on(&p);
	while (in.n > 0) {
		const uint8_t *end = memchr(in.p, '\n', in.n);
		size_t n = end != NULL ? (size_t)(end - in.p) : in.n;

		hear(&p, in.p, n, (how & 8) != 0);
		go_on(&p);
		n += end != NULL;
		in.p += n;
		in.n -= n;
	}
	mcpc_tick(&p.c, 20);
	MUST(p.ends + 1 >= p.round);
	if ((how & 16) != 0 && p.ends < p.round)
		mcpc_cancel(&p.r[p.ends], "enough", 30);
	mcpc_tick(&p.c, 1000);
	MUST(p.ends == p.round && p.c.nrequests == 0);
	mcpc_done(&p.c);
	MUST(p.ends == p.round);
	for (unsigned int i = 0; i < p.round; i++)
		mcpc_request_done(&p.r[i]);
	return 0;
}
