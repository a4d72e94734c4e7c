// SPDX-License-Identifier: Apache-2.0
/*
 * What is asked of the client on behalf of a call. A function says what it wants and returns; it is called again with the
 * answers. In the modern era that is another request, with answers and a state of ours, which carries a seal because the client keeps it; in the
 * legacy era the questions go out on the stream of the answer, and the call goes on when all of them were answered.
 */
#include "mcp/impl.h"

#include "base/base64.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAC = 32, STAMP = 8 };
#define STATE_US (3600ull * 1000 * 1000)

/* --- seals ------------------------------------------------------------------------------------ */

/* Over the state, its time, who may bring it back, and to what. */
static bool seal(const struct mcp_call *c, const uint8_t *p, size_t n, uint8_t mac[MAC])
{
	const char *name =
		c->method->named != NULL ? member_text(&c->doc, c->params, c->method->named) : NULL;
	struct json j;
	bool ok;

	json_init(&j);
	json_raw(&j, (const char *)&c->owner, sizeof(c->owner));
	json_raw(&j, c->method->name, strlen(c->method->name) + 1);
	if (name != NULL)
		json_raw(&j, name, strlen(name) + 1);
	json_raw(&j, (const char *)p, n);
	ok = !j.failed && HMAC(EVP_sha256(), c->s->key, MCP_KEY, (const unsigned char *)j.buf,
			       j.len, mac, NULL) != NULL;
	json_done(&j);
	return ok;
}

static void put_state(const struct mcp_call *c, struct json *j)
{
	size_t n = STAMP + strlen(c->next_state);
	uint8_t bytes[MAC + STAMP + MCP_STATE_MAX];
	char text[BASE64_TEXT_LEN(sizeof(bytes))];

	(void)memcpy(bytes + MAC, &c->now_us, STAMP);
	(void)memcpy(bytes + MAC + STAMP, c->next_state, n - STAMP);
	if (!seal(c, bytes + MAC, n, bytes)) {
		j->failed = true;
		return;
	}
	json_bytes(j, "requestState", text, base64_encode(bytes, MAC + n, text));
}

static bool take_state(struct mcp_call *c, const struct jsonr_node *in)
{
	uint8_t bytes[BASE64_BYTES_MAX(BASE64_TEXT_LEN(MAC + STAMP + MCP_STATE_MAX))], mac[MAC];
	uint64_t stamp;
	size_t n;

	if (in->type != JSONR_STRING || in->len > BASE64_TEXT_LEN(MAC + STAMP + MCP_STATE_MAX) ||
	    base64_decode(in->string, in->len, bytes, &n) < 0 || n < MAC + STAMP ||
	    !seal(c, bytes + MAC, n - MAC, mac) || CRYPTO_memcmp(mac, bytes, MAC) != 0)
		return false;
	(void)memcpy(&stamp, bytes + MAC, STAMP);
	if (c->now_us > stamp + STATE_US)
		return false;
	c->state = strndup((const char *)bytes + MAC + STAMP, n - MAC - STAMP);
	return c->state != NULL;
}

int inputs_take(struct mcp_call *c)
{
	const struct jsonr_node *state = jsonr_get(&c->doc, c->params, "requestState");
	const struct jsonr_node *answers = jsonr_get(&c->doc, c->params, "inputResponses");

	if (answers != NULL && answers->type != JSONR_OBJECT)
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'inputResponses' must be an object");
	else if (state != NULL && !take_state(c, state))
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "'requestState' is not what this server said, or too old");
	else
		return 0;
	return -1;
}

/* --- what functions say ----------------------------------------------------------------------- */

void mcp_state(struct mcp_call *c, const char *text)
{
	free(c->next_state);
	c->next_state = strndup(text, MCP_STATE_MAX);
}

/* An answer that is of use: an object. */
static bool is_answer(const struct jsonr_node *n)
{
	return n != NULL && n->type == JSONR_OBJECT;
}

const struct mcp_input *mcp_input(struct mcp_call *c, const char *key, const char *method,
				  const char *params)
{
	struct mcp_input *in = NULL;
	const struct jsonr_node *answer;

	for (unsigned int i = 0; i < c->ninputs && in == NULL; i++)
		if (strcmp(c->inputs[i].key, key) == 0)
			in = &c->inputs[i];
	if (in != NULL && (in->answer != NULL || in->refused))
		return in;
	if (in == NULL && c->ninputs < MCP_INPUTS_MAX) {
		in = &c->inputs[c->ninputs];
		in->key = strdup(key);
		in->method = strdup(method);
		in->params = strdup(params);
		if (in->key == NULL || in->method == NULL || in->params == NULL) {
			free(in->key);
			free(in->method);
			free(in->params);
			(void)memset(in, 0, sizeof(*in));
			in = NULL;
		} else {
			c->ninputs++;
		}
	}
	c->nwanted++;
	if (in == NULL)
		return NULL; /* there is no room: it is never answered, and asked for again */
	answer = c->modern ? jsonr_get(&c->doc,
				       member(&c->doc, c->params, "inputResponses", JSONR_OBJECT),
				       key)
			   : NULL;
	if (!is_answer(answer))
		return NULL;
	c->nwanted--;
	in->doc = &c->doc;
	in->answer = answer;
	return in;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* The modern way: as the answer. */
static void ask_modern(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "inputRequests", '{');
	for (unsigned int i = 0; i < c->ninputs; i++) {
		if (c->inputs[i].answer != NULL)
			continue;
		json_open(&j, c->inputs[i].key, '{');
		json_str(&j, "method", c->inputs[i].method);
		put_json(&j, "params", c->inputs[i].params);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	if (c->next_state != NULL)
		put_state(c, &j);
	mcp_result_end(c, &j);
}

static bool ask(struct mcp_call *c, struct mcp_input *in)
{
	struct json j;

	(void)snprintf(in->id, sizeof(in->id), "gb-%llu", (unsigned long long)++c->s->next_id);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	json_str(&j, "id", in->id);
	json_str(&j, "method", in->method);
	put_json(&j, "params", in->params);
	json_close(&j, '}');
	return link_send(c->link, &j, false);
}

void inputs_ask(struct mcp_call *c)
{
	if (c->modern) {
		ask_modern(c);
		return;
	}
	for (unsigned int i = 0; i < c->ninputs; i++)
		if (c->inputs[i].answer == NULL && !c->inputs[i].refused &&
		    c->inputs[i].id[0] == '\0' && !ask(c, &c->inputs[i])) {
			mcp_error(
				c, MCP_INTERNAL, NULL,
				"the client cannot be asked: it does not take a stream of events");
			return;
		}
}

/* Whether all questions of a call have their answers. */
static bool is_answered(const struct mcp_call *c)
{
	for (unsigned int i = 0; i < c->ninputs; i++)
		if (c->inputs[i].answer == NULL && !c->inputs[i].refused)
			return false;
	return true;
}

/* The message becomes the question's own: its text lives only as long as the call that takes it. */
static void take_answer(struct mcp_input *in, const struct jsonr *doc,
			const struct jsonr_node *result)
{
	struct json j;

	json_init(&j);
	if (is_answer(result))
		jsonr_write(doc, result, &j, NULL);
	if (j.failed || j.len == 0 || jsonr_parse(&in->own, j.buf, j.len, NULL) < 0) {
		json_done(&j);
		in->refused = true;
		return;
	}
	in->text = j.buf;
	in->doc = &in->own;
	in->answer = jsonr_root(&in->own);
}

bool inputs_answer(struct mcp_server *s, const struct mcp_session *se, const struct jsonr *doc,
		   const struct jsonr_node *root)
{
	const char *id = member_text(doc, root, "id");

	for (struct mcp_call *c = s->calls; c != NULL && id != NULL && se != NULL; c = c->next) {
		if (c->session != se)
			continue;
		for (unsigned int i = 0; i < c->ninputs; i++) {
			struct mcp_input *in = &c->inputs[i];

			if (strcmp(in->id, id) != 0 || in->answer != NULL || in->refused)
				continue;
			take_answer(in, doc, jsonr_get(doc, root, "result"));
			if (!is_answered(c))
				return true;
			free(c->state);
			c->state = c->next_state;
			c->next_state = NULL;
			call_step(c);
			return true;
		}
	}
	return false;
}

void inputs_done(struct mcp_call *c)
{
	for (unsigned int i = 0; i < c->ninputs; i++) {
		free(c->inputs[i].key);
		free(c->inputs[i].method);
		free(c->inputs[i].params);
		jsonr_done(&c->inputs[i].own);
		free(c->inputs[i].text);
	}
	c->ninputs = 0;
}
