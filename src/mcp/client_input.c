// SPDX-License-Identifier: Apache-2.0
/*
 * What the server asks of the client: by questions of its own (legacy), or by an answer that says what else it needs (modern), after
 * which the same is asked again with the answers, and with the server's state exactly as it came.
 *
 * Only the person can be asked. Models and directories of this machine are not for servers.
 */
#include "mcp/client_impl.h"

#include "base/own.h"

#include <string.h>

/* --- the person ----------------------------------------------------------------------------------- */

bool mcpc_elicit_defaults(struct json_text params, struct json *j)
{
	struct json_member m[] = { { .key = "requestedSchema" }, { .key = "mode" } };
	struct json_member properties = { .key = "properties" };
	struct json_text key, one;
	struct json_walk w;
	char mode[16];

	json_text_find(params, m, ARRAY_LEN(m));
	if (json_text_kind(m[1].value) != '\0' &&
	    (!json_text_str(m[1].value, mode, sizeof(mode)) || strcmp(mode, "form") != 0))
		return false; /* a page that somebody would have to open */
	if (json_text_kind(m[0].value) != '{')
		return false;
	json_text_find(m[0].value, &properties, 1);
	json_open(j, NULL, '{');
	json_str(j, "action", "accept");
	json_open(j, "content", '{');
	for (w = json_walk(properties.value); json_walk_next(&w, &key, &one);) {
		struct json_member otherwise = { .key = "default" };

		json_text_find(one, &otherwise, 1);
		if (json_text_kind(one) != '{' || json_text_kind(otherwise.value) == '\0')
			continue;
		json_text_put_key(key, j);
		json_text_put(otherwise.value, j, NULL);
	}
	json_close(j, '}');
	json_close(j, '}');
	return true;
}

static void elicit(struct mcpc *c, struct json_text params, struct json *j)
{
	struct json own;

	json_init(&own);
	if (c->way->elicit != NULL && c->way->elicit(c->way, params, &own) && !own.failed &&
	    own.len > 0) {
		json_value(j, NULL);
		json_raw(j, own.buf, own.len);
	} else {
		json_open(j, NULL, '{');
		json_str(j, "action", "decline");
		json_close(j, '}');
	}
	json_done(&own);
}

/* --- questions of the legacy era ------------------------------------------------------------------ */

void mcpc_question(struct mcpc *c, struct json_text id, const char *method, struct json_text params)
{
	struct json j;

	json_init(&j);
	if (strcmp(method, "ping") == 0) {
		json_raw(&j, "{}", 2);
		mcpc_send_answer(c, id, &j, 0, NULL);
	} else if (strcmp(method, "elicitation/create") == 0) {
		elicit(c, params, &j);
		if (j.failed)
			mcpc_send_answer(c, id, NULL, -32603, "no memory");
		else
			mcpc_send_answer(c, id, &j, 0, NULL);
	} else if (strcmp(method, "sampling/createMessage") == 0) {
		mcpc_send_answer(c, id, NULL, MCPC_E_NO_METHOD, "this client has no model");
	} else if (strcmp(method, "roots/list") == 0) {
		mcpc_send_answer(c, id, NULL, MCPC_E_NO_METHOD, "this client shows no directories");
	} else {
		mcpc_send_answer(c, id, NULL, MCPC_E_NO_METHOD,
				 "this client does not know the method");
	}
	json_done(&j);
}

/* --- what is missing in the modern era ------------------------------------------------------------ */

/* One of them. false: the request has ended. */
static bool answer_input(struct mcpc_request *r, struct json_text key, struct json_text input,
			 struct json *j)
{
	struct json_member m[] = { { .key = "method" }, { .key = "params" } };
	char method[64];

	json_text_find(input, m, ARRAY_LEN(m));
	mcpc_cut(m[0].value, method, sizeof(method));
	if (strcmp(method, "elicitation/create") != 0) {
		mcpc_finish_failed(
			r, "the server wants '%s' of this client, which does not have it", method);
		return false;
	}
	json_text_put_key(key, j);
	elicit(r->c, m[1].value, j);
	j->comma = true;
	return true;
}

/* The state, as it came. false: the request has ended. */
static bool keep_state(struct mcpc_request *r, struct json_text state)
{
	own_free_p(&r->state);
	if (json_text_kind(state) == '\0')
		return true;
	if (json_text_kind(state) != '"') {
		mcpc_finish_failed(r, "the server's 'requestState' is no string");
		return false;
	}
	r->state = mcpc_copy(state.p, state.n);
	if (r->state == NULL)
		mcpc_finish_failed(r, "no memory");
	return r->state != NULL;
}

void mcpc_input_required(struct mcpc_request *r, struct json_text result)
{
	struct json_member m[] = { { .key = "inputRequests" }, { .key = "requestState" } };
	struct json_text key, input;
	unsigned int n = 0;
	struct json_walk w;
	struct json j;

	json_text_find(result, m, ARRAY_LEN(m));
	if (++r->rounds > r->c->bounds.rounds) {
		mcpc_finish_failed(r, "the server has asked back %u times, and does again",
				   r->c->bounds.rounds);
		return;
	}
	if (json_text_kind(m[0].value) != '{' && json_text_kind(m[1].value) == '\0') {
		mcpc_finish_failed(r, "the server asks back, and does not say for what");
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	for (w = json_walk(m[0].value); json_walk_next(&w, &key, &input); n++) {
		if (n == MCPC_INPUTS_MAX)
			mcpc_finish_failed(r, "the server asks back for more than %d things",
					   MCPC_INPUTS_MAX);
		if (n == MCPC_INPUTS_MAX || !answer_input(r, key, input, &j)) {
			json_done(&j);
			return;
		}
	}
	json_close(&j, '}');
	own_free_p(&r->inputs);
	if (j.failed)
		json_done(&j);
	r->inputs = j.buf;
	if (r->inputs == NULL)
		mcpc_finish_failed(r, "no memory");
	else if (keep_state(r, m[1].value))
		mcpc_send_request(r);
}
