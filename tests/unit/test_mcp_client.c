/* SPDX-License-Identifier: Apache-2.0 */
/* src/mcp/client.c, client_take.c, client_tools.c: eras, lists, results; and what a hostile server can do to them, which is little. */
#include "test_mcp_client.h"

/* --- eras ------------------------------------------------------------------------------------------ */

TEST(mcpc_speaks_modern_to_who_does)
{
	struct peer p;
	struct counted q;

	open_peer(&p, true, NULL);
	fresh(&q);
	mcpc_connect(&p.c, &q.r, 1);
	CHECK_STR(last(&p),
		  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/"
		  "discover\",\"params\":{\"_meta\":{"
		  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
		  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"test\",\"version\":\"1\"},"
		  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}}}");
	CHECK_STR(p.headers, "MCP-Protocol-Version: 2026-07-28\nMcp-Method: server/discover\n");
	say_result(&p, DISCOVERED);
	CHECK_EQ_INT(q.ends, 1);
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	CHECK_EQ_INT(p.c.era, MCPC_ERA_MODERN);
	CHECK_STR(p.c.server, "s 2");
	CHECK_EQ_INT(p.n, 1);
	mcpc_request_done(&q.r);
	close_peer(&p);
}

TEST(mcpc_asks_again_where_its_version_is_spoken)
{
	struct peer p;
	struct counted q;

	open_peer(&p, true, NULL);
	fresh(&q);
	mcpc_connect(&p.c, &q.r, 1);
	say_error(&p, -32022, ",\"data\":{\"supported\":[\"2026-07-28\"]}");
	CHECK(strstr(last(&p), "\"id\":2,\"method\":\"server/discover\"") != NULL);
	say_error(&p, -32022, ",\"data\":{\"supported\":[\"2026-07-28\"]}"); /* once is enough */
	CHECK(strstr(last(&p), "\"method\":\"initialize\"") != NULL);
	say_result(&p, INITIALIZED("2025-06-18"));
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	CHECK_STR(p.c.spoken, "2025-06-18");
	mcpc_request_done(&q.r);
	close_peer(&p);
}

TEST(mcpc_falls_back_whatever_the_answer_is)
{
	static const char *const answers[] = {
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{\"code\":-32601,\"message\":\"?\"}}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{\"code\":-32022,\"data\":{\"supported\":"
		"[\"x\"]}}}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":5}",
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"no "
		"session\"}}",
		"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"?\"}}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":[]}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":null}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"supportedVersions\":[\"2025-11-25\"]}"
		"}",
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"supportedVersions\":\"2026-07-28\"}}",
	};

	for (unsigned int i = 0; i < ARRAY_LEN(answers); i++) {
		struct peer p;
		struct counted q;

		open_peer(&p, i % 2, NULL);
		fresh(&q);
		mcpc_connect(&p.c, &q.r, 1);
		say(&p, answers[i]);
		CHECK_STR(last(&p),
			  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{"
			  "\"protocolVersion\":\"2025-11-25\",\"clientInfo\":{\"name\":\"test\","
			  "\"version\":\"1\"},\"capabilities\":{\"elicitation\":{}}}}");
		CHECK_STR(p.headers, "");
		say_result(&p, INITIALIZED("2025-11-25"));
		CHECK_STR(last(&p),
			  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
		CHECK_STR(p.headers, p.way.http ? "MCP-Protocol-Version: 2025-11-25\n" : "");
		CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
		CHECK_EQ_INT(p.c.era, MCPC_ERA_LEGACY);
		mcpc_request_done(&q.r);
		close_peer(&p);
	}
}

TEST(mcpc_falls_back_when_nothing_comes)
{
	struct peer p;
	struct counted q;

	open_peer(&p, true, NULL);
	fresh(&q);
	q.r.deadline_us = 60000000;
	mcpc_connect(&p.c, &q.r, 100);
	CHECK_EQ_INT(mcpc_deadline(&p.c), 5000100);
	mcpc_tick(&p.c, 5000099);
	CHECK_EQ_INT(p.n, 1);
	mcpc_tick(&p.c, 5000100);
	CHECK_EQ_INT(p.n, 2);
	CHECK_EQ_INT(p.dropped, 1);
	CHECK_EQ_INT(mcpc_deadline(&p.c), 60000000);
	mcpc_tick(&p.c, 60000000);
	CHECK_EQ_INT(q.r.outcome, MCPC_FAILED);
	CHECK_STR(q.r.error, "no answer to 'initialize' in time");
	CHECK_EQ_INT(p.n, 2); /* nobody cancels an initialize */
	close_peer(&p);
}

TEST(mcpc_falls_back_after_a_failure_that_is_not_final)
{
	for (int final = 0; final < 2; final++) {
		struct peer p;
		struct counted q;

		open_peer(&p, true, NULL);
		fresh(&q);
		mcpc_connect(&p.c, &q.r, 1);
		mcpc_fail(&p.c, 1, final, 1, "status %d", 404);
		CHECK_EQ_INT(q.ends, final);
		CHECK_EQ_INT(p.n, final ? 1 : 2);
		mcpc_fail(&p.c, 2, false, 1, "status %d", 405);
		CHECK_EQ_INT(q.ends, 1);
		CHECK_STR(q.r.error, final ? "status 404" : "status 405");
		close_peer(&p);
	}
}

TEST(mcpc_speaks_what_it_knows_and_nothing_else)
{
	static const struct {
		const char *answer, *spoken;
	} rows[] = {
		{ INITIALIZED("2025-11-25"), "2025-11-25" },
		{ INITIALIZED("2025-03-26"), "2025-03-26" },
		{ INITIALIZED("2024-11-05"), "2024-11-05" },
		{ INITIALIZED("2026-07-28"), "" },
		{ INITIALIZED("1999-01-01"), "" },
		{ INITIALIZED(""), "" },
		{ "{}", "" },
		{ "{\"protocolVersion\":5}", "" },
		{ "7", "" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer p;
		struct counted q;

		open_peer(&p, true, NULL);
		p.way.legacy = true;
		fresh(&q);
		mcpc_connect(&p.c, &q.r, 1);
		CHECK_EQ_INT(p.n, 1);
		say_result(&p, rows[i].answer);
		CHECK_STR(p.c.spoken, rows[i].spoken);
		CHECK_EQ_INT(q.r.outcome, rows[i].spoken[0] != '\0' ? MCPC_DONE : MCPC_FAILED);
		mcpc_request_done(&q.r);
		close_peer(&p);
	}
}

/* --- lists ------------------------------------------------------------------------------------------ */

TEST(mcpc_lists_all_pages)
{
	struct peer p;
	struct counted q;

	open_peer(&p, true, NULL);
	connect_modern(&p);
	fresh(&q);
	mcpc_list(&p.c, &q.r, 1);
	say_result(&p, "{\"tools\":[" TOOL("a") "," TOOL("b") "],\"nextCursor\":\"x\\\"y\"}");
	CHECK(strstr(last(&p), "\"params\":{\"cursor\":\"x\\\"y\",\"_meta\"") != NULL);
	say_result(&p, "{\"tools\":[{\"name\":\"c\",\"description\":\"d\", \"inputSchema\" : "
		       "{ \"x\":1.50,\"\\u0061\":[ ] }}],\"nextCursor\":null}");
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	CHECK_EQ_INT(q.r.tools.n, 3);
	CHECK_STR(q.r.tools.v[0].name, "a");
	CHECK(mcpc_tool_find(&q.r.tools, "b") == &q.r.tools.v[1]);
	CHECK(mcpc_tool_find(&q.r.tools, "d") == NULL);
	/* Byte for byte. */
	CHECK_EQ_INT(q.r.tools.v[2].input.n, strlen("{ \"x\":1.50,\"\\u0061\":[ ] }"));
	CHECK_MEM(q.r.tools.v[2].input.p, "{ \"x\":1.50,\"\\u0061\":[ ] }", q.r.tools.v[2].input.n);
	mcpc_request_done(&q.r);
	close_peer(&p);
}

TEST(mcpc_leaves_off_tools_that_cannot_be_used)
{
	struct peer p;
	struct counted q;

	open_peer(&p, false, NULL);
	connect_legacy(&p);
	fresh(&q);
	mcpc_list(&p.c, &q.r, 1);
	say_result(&p,
		   "{\"tools\":[" TOOL("a") "," TOOL("a") "," TOOL(
			   "") ",5,null,{},"
			       "{\"name\":\"x\"},{\"name\":\"y\",\"inputSchema\":[]},{\"name\":5,"
			       "\"inputSchema\":{}},{\"name\":\"h\",\"inputSchema\":{"
			       "\"properties\":{\"p\":"
			       "{\"type\":\"number\",\"x-mcp-header\":\"P\"}}}}]}");
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	CHECK_EQ_INT(q.r.tools.n, 1);
	CHECK_EQ_INT(q.r.tools.dropped, 9);
	CHECK_STR(q.r.tools.why, "the tool 'a' is there twice");
	mcpc_request_done(&q.r);
	close_peer(&p);
}

TEST(mcpc_lists_do_not_go_on_for_ever)
{
	static const struct {
		const char *pages[6];
		const char *why;
	} rows[] = {
		{ { "{\"tools\":[],\"nextCursor\":\"a\"}", "{\"tools\":[],\"nextCursor\":\"a\"}" },
		  "the list of tools does not end: a page is followed by one that was there" },
		{ { "{\"tools\":[],\"nextCursor\":\"a\"}", "{\"tools\":[],\"nextCursor\":\"b\"}",
		    "{\"tools\":[],\"nextCursor\":\"a\"}" },
		  "the list of tools does not end: a page is followed by one that was there" },
		{ { "{\"tools\":[],\"nextCursor\":\"a\"}", "{\"tools\":[],\"nextCursor\":\"b\"}",
		    "{\"tools\":[],\"nextCursor\":\"c\"}", "{\"tools\":[],\"nextCursor\":\"d\"}" },
		  "the list of tools has more than 4 pages" },
		{ { "{\"tools\":[" TOOL("a") "," TOOL("b") "," TOOL("c") "," TOOL("d") "]}" },
		  "the server has more than 3 tools" },
		{ { "{\"tools\":[],\"nextCursor\":\"a\"}",
		    "{\"tools\":[{\"name\":\"long\",\"description\":"
		    "\"0123456789012345678901234567890123456789012345678901234567890123456789"
		    "0123456789012345678901234567890123456789012345678901234567890123456789\"}]}" },
		  "the list of tools has more than 150 bytes" },
		{ { "{\"tools\":[],\"nextCursor\":5}" },
		  "the list of tools goes on at a place that is none" },
		{ { "{\"tools\":{}}" }, "the answer is no list of tools" },
		{ { "{}" }, "the answer is no list of tools" },
		{ { "\"tools\"" }, "the answer to 'tools/list' is no object" },
	};
	struct mcpc_bounds b;

	mcpc_bounds_init(&b);
	b.list_pages = 4;
	b.list_tools = 3;
	b.list_bytes = 150;
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer p;
		struct counted q;

		open_peer(&p, true, &b);
		connect_modern(&p);
		fresh(&q);
		mcpc_list(&p.c, &q.r, 1);
		for (unsigned int k = 0; rows[i].pages[k] != NULL; k++) {
			CHECK_EQ_INT(q.ends, 0);
			say_result(&p, rows[i].pages[k]);
		}
		CHECK_EQ_INT(q.ends, 1);
		CHECK_EQ_INT(q.r.outcome, MCPC_FAILED);
		CHECK_STR(q.r.error, rows[i].why);
		CHECK_EQ_INT(q.r.tools.n, 0);
		mcpc_request_done(&q.r);
		close_peer(&p);
	}
}

/* --- calls ------------------------------------------------------------------------------------------ */

TEST(mcpc_takes_results_of_calls_and_nothing_else)
{
	static const struct {
		const char *answer;
		enum mcpc_outcome outcome;
		const char *text; /* the result, or what is wrong */
	} rows[] = {
		{ "\"result\":{\"content\":[ ]}", MCPC_DONE, "{\"content\":[ ]}" },
		{ "\"result\":{\"structuredContent\":{}}", MCPC_DONE,
		  "{\"structuredContent\":{}}" },
		{ "\"result\":{\"content\":[],\"isError\":true}", MCPC_DONE,
		  "{\"content\":[],\"isError\":true}" },
		{ "\"result\":{}", MCPC_FAILED,
		  "the answer is no result of a tool: it has no list 'content'" },
		{ "\"result\":{\"content\":\"x\"}", MCPC_FAILED,
		  "the answer is no result of a tool: it has no list 'content'" },
		{ "\"result\":{\"content\":[],\"isError\":\"yes\"}", MCPC_FAILED,
		  "the answer is no result of a tool: 'isError' is neither true nor false" },
		{ "\"result\":[]", MCPC_FAILED, "the answer to 'tools/call' is no object" },
		{ "\"result\":null", MCPC_FAILED, "the answer to 'tools/call' is no object" },
		{ "\"result\":{\"content\":[]},\"error\":{\"code\":1,\"message\":\"\"}",
		  MCPC_FAILED, "the answer to 'tools/call' is both a result and an error" },
		{ "\"result\":{\"content\":[]},\"error\":null", MCPC_DONE, "{\"content\":[]}" },
		{ "\"error\":{\"code\":-5,\"message\":\"no\\u00e9\"}", MCPC_REFUSED,
		  "no\xc3\xa9 (-5)" },
		{ "\"error\":{\"code\":-5}", MCPC_REFUSED,
		  "the server refuses, and does not say why (-5)" },
		{ "\"error\":{\"code\":\"x\"}", MCPC_FAILED,
		  "the answer to 'tools/call' is an error without a code" },
		{ "\"error\":[]", MCPC_FAILED,
		  "the answer to 'tools/call' is an error without a code" },
		{ "\"result\":{\"resultType\":\"task\",\"content\":[]}", MCPC_FAILED,
		  "the result is of the type 'task', which this client does not know" },
		{ "\"result\":{\"resultType\":\"complete\",\"content\":[]}", MCPC_DONE,
		  "{\"resultType\":\"complete\",\"content\":[]}" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer p;
		struct counted q;
		char text[256];

		open_peer(&p, false, NULL);
		connect_modern(&p);
		call(&p, &q, NULL);
		(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":ID,%s}",
			       rows[i].answer);
		say(&p, text);
		say(&p, text); /* and once more: it is for nobody */
		CHECK_EQ_INT(q.ends, 1);
		CHECK_EQ_INT(q.r.outcome, rows[i].outcome);
		CHECK_STR(q.r.outcome == MCPC_DONE ? q.r.text : q.r.error, rows[i].text);
		CHECK_EQ_INT(p.c.strays, 1);
		mcpc_request_done(&q.r);
		close_peer(&p);
	}
}

TEST(mcpc_passes_over_what_is_for_nobody_until_it_is_too_much)
{
	static const char *const junk[] = {
		"",
		"\xff\xfe\x00",
		"{",
		"null",
		"5",
		"{}",
		"[]",
		"[{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}]",
		"{\"jsonrpc\":\"1.0\",\"id\":3,\"result\":{\"content\":[]}}",
		"{\"id\":3,\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":\"3\",\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":-3,\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":3.0,\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":[3],\"error\":{\"code\":1}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"result\":{\"content\":[]}}",
		"{\"jsonrpc\":\"2.0\",\"id\":3}",
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":5}",
		"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
	};
	struct mcpc_bounds b;
	struct counted q;
	struct peer p;

	mcpc_bounds_init(&b);
	b.strays = ARRAY_LEN(junk);
	open_peer(&p, false, &b);
	connect_legacy(&p);
	call(&p, &q, NULL);
	CHECK_EQ_INT(p.ids[p.n - 1], 3);
	for (unsigned int i = 0; i < ARRAY_LEN(junk); i++) {
		mcpc_take(&p.c, 0, junk[i], strlen(junk[i]), 1);
		CHECK_EQ_INT(p.c.strays, i + 1);
		CHECK_EQ_INT(q.ends, 0);
	}
	say(&p, "x");
	CHECK_EQ_INT(q.ends, 1);
	CHECK_STR(q.r.error,
		  "the server sends too much that is for nobody, at last what is not JSON");
	call(&p, &q, NULL); /* and nothing works any more */
	CHECK_EQ_INT(q.ends, 1);
	CHECK_EQ_INT(q.r.outcome, MCPC_FAILED);
	close_peer(&p);
}

TEST(mcpc_takes_lists_of_messages_where_there_are_some)
{
	struct counted q;
	struct peer p;

	open_peer(&p, false, NULL);
	fresh(&q);
	p.way.legacy = true;
	mcpc_connect(&p.c, &q.r, 1);
	say_result(&p, INITIALIZED("2025-03-26"));
	mcpc_request_done(&q.r);
	call(&p, &q, NULL);
	say(&p, "[5,{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"},"
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[]}}]");
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	CHECK_EQ_INT(p.ntold, 1);
	CHECK_EQ_INT(p.c.strays, 1);
	mcpc_request_done(&q.r);
	close_peer(&p);
}

TEST(mcpc_messages_are_bounded)
{
	struct mcpc_bounds b;
	struct counted q;
	struct peer p;
	char text[600];

	mcpc_bounds_init(&b);
	b.message_bytes = 500;
	open_peer(&p, false, &b);
	connect_legacy(&p);
	call(&p, &q, NULL);
	(void)memset(text, ' ', sizeof(text));
	mcpc_take(&p.c, 0, text, 501, 1);
	CHECK_STR(q.r.error, "the server sends a message of more than 500 bytes");
	close_peer(&p);
}
