/* SPDX-License-Identifier: Apache-2.0 */
/* src/mcp/client_input.c, client_headers.c, client.c: what a server asks, headers, cancelling, ends. */
#include "test_mcp_client.h"

/* --- asking back ------------------------------------------------------------------------------------ */

#define ASKED(inputs, state) \
	"{\"resultType\":\"input_required\",\"inputRequests\":" inputs state "}"
#define FORM                                                                                    \
	"{\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":" \
	"{\"type\":\"object\",\"properties\":{\"n\":{\"default\":1.50},\"s\":{}}}}}"

TEST(mcpc_answers_what_is_asked_back)
{
	struct counted q;
	struct peer p;

	open_peer(&p, false, NULL);
	connect_modern(&p);
	p.accept = true;
	call(&p, &q, "{\"a\": 1}");
	CHECK(strstr(last(&p), "\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"tool\","
			       "\"arguments\":{\"a\":1},\"_meta\":") != NULL);
	say_result(&p, ASKED("{\"k\":" FORM "}", ",\"requestState\":\"a\\/\\u0062\\\"\""));
	CHECK(strstr(last(&p),
		     "\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"tool\","
		     "\"arguments\":{\"a\":1},\"inputResponses\":{\"k\":{\"action\":\"accept\","
		     "\"content\":{\"n\":1.50}}},\"requestState\":\"a\\/"
		     "\\u0062\\\"\",\"_meta\":") != NULL);
	p.accept = false;
	say_result(&p, ASKED("{\"x\":" FORM ",\"y\":" FORM "}", "")); /* the state is not kept */
	CHECK(strstr(last(&p),
		     "\"inputResponses\":{\"x\":{\"action\":\"decline\"},\"y\":{\"action\":"
		     "\"decline\"}},\"_meta\":") != NULL);
	say_result(&p, "{\"resultType\":\"input_required\",\"requestState\":\"only\"}");
	CHECK(strstr(last(&p), "\"inputResponses\":{},\"requestState\":\"only\",\"_meta\"") !=
	      NULL);
	say_result(&p, "{\"content\":[]}");
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	CHECK_EQ_INT(q.ends, 1);
	mcpc_request_done(&q.r);
	call(&p, &q, NULL); /* another one has none of it */
	CHECK(strstr(last(&p), "inputResponses") == NULL &&
	      strstr(last(&p), "requestState") == NULL);
	close_peer(&p);
}

TEST(mcpc_refuses_to_be_asked_back_for_anything)
{
	static const struct {
		const char *result, *why;
	} rows[] = {
		{ ASKED("{\"k\":{\"method\":\"sampling/createMessage\"}}", ""),
		  "the server wants 'sampling/createMessage' of this client, which does not have "
		  "it" },
		{ ASKED("{\"k\":5}", ""),
		  "the server wants '' of this client, which does not have it" },
		{ ASKED("[]", ""), "the server asks back, and does not say for what" },
		{ ASKED("{}", ",\"requestState\":{\"a\":\n1}"),
		  "the server's 'requestState' is no string" },
		{ ASKED("{\"1\":" FORM ",\"2\":" FORM ",\"3\":" FORM ",\"4\":" FORM ",\"5\":" FORM
			",\"6\":" FORM ",\"7\":" FORM ",\"8\":" FORM ",\"9\":" FORM ",\"10\":" FORM
			",\"11\":" FORM ",\"12\":" FORM ",\"13\":" FORM ",\"14\":" FORM
			",\"15\":" FORM ",\"16\":" FORM ",\"17\":" FORM "}",
			""),
		  "the server asks back for more than 16 things" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		struct counted q;
		struct peer p;

		open_peer(&p, true, NULL);
		connect_modern(&p);
		call(&p, &q, NULL);
		say_result(&p, rows[i].result);
		CHECK_EQ_INT(q.ends, 1);
		CHECK_STR(q.r.error, rows[i].why);
		close_peer(&p);
	}
}

TEST(mcpc_is_not_asked_back_for_ever)
{
	struct counted q;
	struct peer p;

	open_peer(&p, true, NULL);
	connect_modern(&p);
	call(&p, &q, NULL);
	for (unsigned int i = 0; i < 17; i++) {
		CHECK_EQ_INT(q.ends, 0);
		say_result(&p, ASKED("{\"k\":" FORM "}", ""));
	}
	CHECK_STR(q.r.error, "the server has asked back 16 times, and does again");
	close_peer(&p);
}

TEST(mcpc_answers_questions)
{
	static const struct {
		const char *question, *answer;
	} rows[] = {
		{ "\"id\":0,\"method\":\"ping\"", "\"id\":0,\"result\":{}}" },
		{ "\"id\":\"a\\\"b\",\"method\":\"ping\"", "\"id\":\"a\\\"b\",\"result\":{}}" },
		{ "\"id\":7,\"method\":\"roots/list\"",
		  "\"id\":7,\"error\":{\"code\":-32601,\"message\":\"this client shows no "
		  "directories\"}}" },
		{ "\"id\":7,\"method\":\"sampling/createMessage\",\"params\":[]",
		  "\"id\":7,\"error\":{\"code\":-32601,\"message\":\"this client has no "
		  "model\"}}" },
		{ "\"id\":7,\"method\":\"what/ever\"",
		  "\"id\":7,\"error\":{\"code\":-32601,\"message\":\"this client does not know the "
		  "method\"}}" },
		{ "\"id\":7,\"method\":\"elicitation/create\",\"params\":{\"requestedSchema\":{"
		  "\"properties\":{\"name\":{\"default\":\"J\"},\"age\":{\"default\":30},\"none\":{"
		  "}}}}",
		  "\"id\":7,\"result\":{\"action\":\"accept\",\"content\":{\"name\":\"J\",\"age\":"
		  "30}}}" },
		{ "\"id\":7,\"method\":\"elicitation/"
		  "create\",\"params\":{\"mode\":\"url\",\"url\":\"http://"
		  "x\",\"requestedSchema\":{}}",
		  "\"id\":7,\"result\":{\"action\":\"decline\"}}" },
		{ "\"id\":7,\"method\":\"elicitation/create\"",
		  "\"id\":7,\"result\":{\"action\":\"decline\"}}" },
	};
	struct peer p;

	open_peer(&p, true, NULL);
	connect_legacy(&p);
	p.accept = true;
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		char text[512], want[512];

		(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",%s}", rows[i].question);
		(void)snprintf(want, sizeof(want), "{\"jsonrpc\":\"2.0\",%s", rows[i].answer);
		say(&p, text);
		CHECK_STR(last(&p), want);
		CHECK_EQ_INT(p.ids[p.n - 1], 0);
		CHECK_STR(p.headers, "MCP-Protocol-Version: 2025-11-25\n");
	}
	close_peer(&p);
}

TEST(mcpc_modern_servers_ask_nothing)
{
	struct peer p;

	open_peer(&p, false, NULL);
	connect_modern(&p);
	say(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
	CHECK_EQ_INT(p.n, 1);
	CHECK_EQ_INT(p.c.strays, 1);
	close_peer(&p);
}

/* --- progress, cancelling, time --------------------------------------------------------------------- */

TEST(mcpc_progress_is_for_who_wants_it)
{
	struct counted q, other;
	struct peer p;

	open_peer(&p, false, NULL);
	connect_legacy(&p);
	call(&p, &other, NULL);
	fresh(&q);
	q.r.progress = on_progress;
	mcpc_call(&p.c, &q.r, "t", (struct json_text){ 0 }, NULL, 1);
	CHECK(strstr(last(&p), "\"_meta\":{\"progressToken\":4}") != NULL);
	for (int i = 0; i < 6; i++) {
		char text[128];

		(void)snprintf(text, sizeof(text),
			       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
			       "\"params\":{\"progressToken\":%d,\"progress\":1}}",
			       i);
		say(&p, text);
	}
	say(&p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}");
	CHECK_EQ_INT(q.steps, 1);
	CHECK_EQ_INT(other.steps, 0);
	CHECK_EQ_INT(p.c.strays, 0);
	close_peer(&p);
	CHECK_EQ_INT(q.ends + other.ends, 2);
}

TEST(mcpc_cancels)
{
	static const struct {
		bool http, modern;
		const char *said;
	} rows[] = {
		{ true, true, NULL }, /* who hangs up has said so */
		{ true, false, "" },
		{ false, true, "" },
		{ false, false, "" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		struct counted q;
		unsigned int sent;
		struct peer p;
		char want[128];

		open_peer(&p, rows[i].http, NULL);
		if (rows[i].modern)
			connect_modern(&p);
		else
			connect_legacy(&p);
		call(&p, &q, NULL);
		sent = p.n;
		(void)snprintf(
			want, sizeof(want),
			"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
			"\"requestId\":%llu,\"reason\":\"why\"}}",
			(unsigned long long)p.ids[sent - 1]);
		p.ndropped = 0;
		mcpc_cancel(&q.r, "why", 1);
		CHECK_EQ_INT(q.r.outcome, MCPC_CANCELLED);
		CHECK_EQ_INT(p.ndropped, 1);
		CHECK_EQ_INT(p.dropped, p.ids[sent - 1]);
		CHECK_EQ_INT(p.n, rows[i].said != NULL ? sent + 1 : sent);
		if (rows[i].said != NULL)
			CHECK_STR(last(&p), want);
		mcpc_cancel(&q.r, "again", 1);
		CHECK_EQ_INT(q.ends, 1);
		close_peer(&p);
	}
}

TEST(mcpc_answers_have_a_deadline)
{
	struct counted q;
	struct peer p;

	open_peer(&p, false, NULL);
	connect_legacy(&p);
	fresh(&q);
	q.r.deadline_us = 50;
	mcpc_call(&p.c, &q.r, "t", (struct json_text){ 0 }, NULL, 1);
	CHECK_EQ_INT(mcpc_deadline(&p.c), 50);
	mcpc_tick(&p.c, 49);
	CHECK_EQ_INT(q.ends, 0);
	mcpc_tick(&p.c, 50);
	CHECK_STR(q.r.error, "no answer to 'tools/call' in time");
	CHECK(strstr(last(&p), "notifications/cancelled") != NULL);
	CHECK_EQ_INT(mcpc_deadline(&p.c), UINT64_MAX);
	close_peer(&p);
}

/* --- ends ------------------------------------------------------------------------------------------- */

struct chained {
	struct mcpc_request r; /* the first member */
	unsigned int left;
};

static void on_chained(struct mcpc_request *r)
{
	struct chained *q = (struct chained *)r;

	mcpc_request_done(r);
	if (q->left-- > 0)
		mcpc_list(r->c, r, 1);
}

TEST(mcpc_requests_may_follow_each_other)
{
	struct chained q = { .r = { .done = on_chained, .deadline_us = UINT64_MAX }, .left = 5 };
	struct peer p;

	open_peer(&p, true, NULL);
	connect_modern(&p);
	mcpc_list(&p.c, &q.r, 1);
	say_result(&p, "{\"tools\":[" TOOL("a") "]}");
	say_result(&p, "{\"tools\":5}");
	CHECK_EQ_INT(q.left, 3);
	mcpc_lost(&p.c, "it is gone"); /* each of those that follow fails at once */
	CHECK_EQ_INT(q.left, UINT_MAX);
	CHECK_STR(q.r.error, "it is gone");
	close_peer(&p);
}

TEST(mcpc_who_cannot_send_has_lost)
{
	struct counted q, other;
	struct peer p;

	open_peer(&p, true, NULL);
	connect_modern(&p);
	call(&p, &other, NULL);
	p.cannot_send = true;
	call(&p, &q, NULL);
	CHECK_EQ_INT(q.ends + other.ends, 2);
	CHECK_STR(other.r.error, "cannot send to the server: Broken pipe");
	close_peer(&p);
}

TEST(mcpc_asks_nothing_before_it_is_connected_and_not_too_much)
{
	struct mcpc_bounds b;
	struct counted q[3];
	struct peer p;

	mcpc_bounds_init(&b);
	b.requests = 2;
	open_peer(&p, true, &b);
	call(&p, &q[0], NULL);
	CHECK_STR(q[0].r.error, "there is no connection yet");
	connect_modern(&p);
	for (unsigned int i = 0; i < 3; i++)
		call(&p, &q[i], NULL);
	CHECK_EQ_INT(q[1].ends, 0);
	CHECK_STR(q[2].r.error, "more than 2 requests are under way");
	close_peer(&p);
}

/* --- headers ---------------------------------------------------------------------------------------- */

TEST(mcpc_values_of_headers)
{
	static const struct {
		const char *text, *value;
	} rows[] = {
		{ "us-west1", "us-west1" },
		{ "a b", "a b" },
		{ "", "=?base64?"
		      "?=" },
		{ " a", "=?base64?IGE=?=" },
		{ "a ", "=?base64?YSA=?=" },
		{ "\ta", "=?base64?CWE=?=" },
		{ "a\r\nb", "=?base64?YQ0KYg==?=" },
		{ "\xc3\xa9", "=?base64?w6k=?=" },
		{ "\x7f", "=?base64?fw==?=" },
		{ "=?base64?x", "=?base64?PT9iYXNlNjQ/eA==?=" },
		{ "=?base64", "=?base64" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		char *got = mcpc_header_value(rows[i].text, strlen(rows[i].text));

		CHECK_STR(got, rows[i].value);
		free(got);
	}
}

#define PARAM(type, name) "{\"type\":\"" type "\",\"x-mcp-header\":\"" name "\"}"

TEST(mcpc_rules_for_headers_of_parameters)
{
	static const struct {
		const char *schema, *why; /* "": it keeps them */
	} rows[] = {
		{ "{}", "" },
		{ "{\"properties\":5}", "" },
		{ "{\"properties\":{\"x-mcp-header\":{\"type\":\"string\"}}}", "" },
		{ "{\"default\":{\"x-mcp-header\":\"\"},\"examples\":[{\"x-mcp-header\":\"\"}]}",
		  "" },
		{ "{\"properties\":{\"a\":" PARAM("string", "A") ",\"b\":" PARAM(
			  "integer", "B") ",\"c\":" PARAM("boolean", "C-1") "}}",
		  "" },
		{ "{\"properties\":{\"o\":{\"properties\":{\"a\":" PARAM("string", "A") "}}}}",
		  "" },
		{ "{\"properties\":{\"a\":" PARAM("string", "") "}}", "is no name, or a long one" },
		{ "{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":5}}}",
		  "is no name, or a long one" },
		{ "{\"properties\":{\"a\":{\"x-mcp-header\":\"A\"}}}",
		  "is for strings, integers and booleans only" },
		{ "{\"properties\":{\"a\":" PARAM("number", "A") "}}",
		  "is for strings, integers and booleans only" },
		{ "{\"properties\":{\"a\":" PARAM("object", "A") "}}",
		  "is for strings, integers and booleans only" },
		{ "{\"properties\":{\"a\":" PARAM("string", "A") ",\"b\":" PARAM("string",
										 "a") "}}",
		  "names one header twice" },
		{ "{\"properties\":{\"a\":" PARAM("string", "A B") "}}",
		  "has a character that no name of a header has" },
		{ "{\"properties\":{\"a\":" PARAM("string", "A:B") "}}",
		  "has a character that no name of a header has" },
		{ "{\"properties\":{\"a\":" PARAM("string", "R\xc3\xa9") "}}",
		  "has a character that no name of a header has" },
		{ "{\"properties\":{\"a\":" PARAM("string", "A\\t1") "}}",
		  "has a character that no name of a header has" },
		{ "{\"x-mcp-header\":\"A\",\"type\":\"string\"}", "stands where no parameter is" },
		{ "{\"items\":" PARAM("string", "A") "}", "stands where no parameter is" },
		{ "{\"anyOf\":[{\"properties\":{\"a\":" PARAM("string", "A") "}}]}",
		  "stands where no parameter is" },
		{ "{\"$defs\":{\"d\":" PARAM("string", "A") "}}", "stands where no parameter is" },
		{ "{\"properties\":{\"l\":{\"items\":" PARAM("string", "A") "}}}",
		  "stands where no parameter is" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		char why[MCPC_ERROR], want[MCPC_ERROR];
		struct json_text t;
		bool ok;

		CHECK_EQ_INT(json_text_read(rows[i].schema, strlen(rows[i].schema), &t), 0);
		ok = mcpc_headers_check(t, why);
		(void)snprintf(want, sizeof(want), "'x-mcp-header' %s", rows[i].why);
		CHECK_STR(why, rows[i].why[0] == '\0' ? "" : want);
		CHECK_EQ_INT(ok, rows[i].why[0] == '\0');
	}
}

TEST(mcpc_repeats_parameters_in_headers)
{
	static const char args[] =
		"{\"region\":\"us\",\"n\":-42,\"yes\":true,\"no\":false,\"nil\":null,"
		"\"deep\":{\"x\":\" p\"},\"list\":[1],\"plain\":\"q\"}";
	struct counted q, list;
	struct json_text t;
	struct peer p;

	open_peer(&p, true, NULL);
	connect_modern(&p);
	fresh(&list);
	mcpc_list(&p.c, &list.r, 1);
	say_result(
		&p,
		"{\"tools\":[{\"name\":\"t\\u00e9\",\"inputSchema\":{\"properties\":{"
		"\"region\":" PARAM("string", "Region") ",\"n\":" PARAM(
			"integer", "N") ","
					"\"yes\":" PARAM("boolean", "Y") ",\"no\":" PARAM(
						"boolean", "No") ","
								 "\"nil\":" PARAM("string", "Nil") ",\"not-there\":" PARAM(
									 "string",
									 "Not") ","
										"\"deep\":{"
										"\"properties\":{"
										"\"x\":" PARAM(
											"string",
											"Deep") "}}"
												","
												"\""
												"li"
												"st"
												"\""
												":" PARAM(
													"string",
													"List") ",\"plain\":{\"type\":\"string\"}}}}]}");
	CHECK_EQ_INT(list.r.tools.n, 1);
	CHECK_EQ_INT(json_text_read(args, strlen(args), &t), 0);
	fresh(&q);
	mcpc_call(&p.c, &q.r, list.r.tools.v[0].name, t, &list.r.tools.v[0], 1);
	CHECK_STR(p.headers, "MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\n"
			     "Mcp-Name: =?base64?dMOp?=\nMcp-Param-Region: us\nMcp-Param-N: -42\n"
			     "Mcp-Param-Y: true\nMcp-Param-No: false\n"
			     "Mcp-Param-Deep: =?base64?IHA=?=\n");
	close_peer(&p);
	mcpc_request_done(&list.r);
}
