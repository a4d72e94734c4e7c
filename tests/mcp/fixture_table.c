// SPDX-License-Identifier: Apache-2.0
/* Tools, prompts and resources that the official conformance suite asks a server for, in its words. */
#include "fixture_table.h"

#include "base/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PNG                                                                \
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q" \
	"DwADhgGAWjR9awAAAABJRU5ErkJggg=="
#define WAV  "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
#define NONE "{\"type\":\"object\",\"properties\":{}}"

enum { STEP_US = 50 * 1000 };

/* --- content ---------------------------------------------------------------------------------- */

static void put_text(struct json *j, const char *text)
{
	json_open(j, NULL, '{');
	json_str(j, "type", "text");
	json_str(j, "text", text);
	json_close(j, '}');
}

static void put_data(struct json *j, const char *key, const char *type, const char *mime,
		     const char *data)
{
	json_open(j, key, '{');
	json_str(j, "type", type);
	json_str(j, "data", data);
	json_str(j, "mimeType", mime);
	json_close(j, '}');
}

static void put_resource(struct json *j, const char *key, const char *uri, const char *mime,
			 const char *text)
{
	json_open(j, key, '{');
	json_str(j, "type", "resource");
	json_open(j, "resource", '{');
	json_str(j, "uri", uri);
	json_str(j, "mimeType", mime);
	json_str(j, "text", text);
	json_close(j, '}');
	json_close(j, '}');
}

static void say(struct mcp_call *c, const char *text)
{
	mcp_text(c, false, text, strlen(text));
}

/* --- tools that answer at once ---------------------------------------------------------------- */

static void simple_text(struct mcp_call *c)
{
	say(c, "This is a simple text response for testing.");
}

static void image(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "content", '[');
	put_data(&j, NULL, "image", "image/png", PNG);
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void audio(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "content", '[');
	put_data(&j, NULL, "audio", "audio/wav", WAV);
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void embedded(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "content", '[');
	put_resource(&j, NULL, "test://embedded-resource", "text/plain",
		     "This is an embedded resource content.");
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void several(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "content", '[');
	put_text(&j, "Multiple content types test:");
	put_data(&j, NULL, "image", "image/png", PNG);
	put_resource(&j, NULL, "test://mixed-content-resource", "application/json",
		     "{\"test\":\"data\",\"value\":123}");
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void failing(struct mcp_call *c)
{
	mcp_textf(c, true, "This tool intentionally returns an error for testing");
}

static void tools_changed(struct mcp_call *c)
{
	mcp_changed(c->s, NULL, MCP_TOOLS);
	say(c, "the list of tools has changed");
}

static void prompts_changed(struct mcp_call *c)
{
	mcp_changed(c->s, NULL, MCP_PROMPTS);
	say(c, "the list of prompts has changed");
}

static void with_header(struct mcp_call *c)
{
	const struct jsonr_node *n = mcp_arg(c, "region", JSONR_STRING);

	mcp_textf(c, false, "region: %s", n != NULL ? n->string : "none");
}

/* --- tools that take their time --------------------------------------------------------------- */

struct slow {
	struct timer timer;
	struct mcp_call *c;
	unsigned int step;
	bool (*act)(struct slow *s); /* false: it was the last step, and the call is answered */
};

static struct loop *loop_of(const struct mcp_call *c)
{
	return c->s->arg;
}

static void on_step(void *arg)
{
	struct slow *s = arg;
	struct loop *l = loop_of(s->c);

	if (s->act(s)) {
		s->step++;
		(void)timer_set(l, &s->timer, l->now_us + STEP_US, on_step, s);
	} else {
		free(s);
	}
}

static void on_cancel(struct mcp_call *c)
{
	struct slow *s = c->work;

	timer_clear(loop_of(c), &s->timer);
	free(s);
}

static void slowly(struct mcp_call *c, bool (*act)(struct slow *s))
{
	struct slow *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		mcp_error(c, MCP_INTERNAL, NULL, "out of memory");
		return;
	}
	s->c = c;
	s->act = act;
	c->work = s;
	c->cancel = on_cancel;
	(void)timer_set(loop_of(c), &s->timer, loop_of(c)->now_us + 1000, on_step, s);
}

static bool progress_step(struct slow *s)
{
	if (s->step == 3) {
		say(s->c, "Tool with progress completed");
		return false;
	}
	mcp_progress(s->c, (uint64_t)s->step * 50 * 1000, 100 * 1000, "on the way");
	return true;
}

static void with_progress(struct mcp_call *c)
{
	slowly(c, progress_step);
}

static bool logging_step(struct slow *s)
{
	static const char *const texts[] = { "\"Tool execution started\"",
					     "\"Tool processing data\"",
					     "\"Tool execution completed\"" };

	if (s->step == ARRAY_LEN(texts)) {
		say(s->c, "Tool with logging executed successfully");
		return false;
	}
	mcp_log(s->c, MCP_INFO, "test", texts[s->step]);
	return true;
}

static void with_logging(struct mcp_call *c)
{
	slowly(c, logging_step);
}

/* --- tools that ask the client ---------------------------------------------------------------- */

#define ELICIT "elicitation/create"
#define SAMPLE "sampling/createMessage"
#define ROOTS  "roots/list"
#define ASK_NAME                                            \
	"{\"mode\":\"form\",\"message\":\"What is your "    \
	"name?\",\"requestedSchema\":{\"type\":\"object\"," \
	"\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}}"
#define ASK_OK                                                \
	"{\"mode\":\"form\",\"message\":\"Please "            \
	"confirm\",\"requestedSchema\":{\"type\":\"object\"," \
	"\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}}"
#define ASK_CONTEXT                                                               \
	"{\"mode\":\"form\",\"message\":\"What context should the prompt "        \
	"use?\",\"requestedSchema\":{"                                            \
	"\"type\":\"object\",\"properties\":{\"context\":{\"type\":\"string\"}}," \
	"\"required\":[\"context\"]}}"
#define ASK_COLOR                                                               \
	"{\"mode\":\"form\",\"message\":\"Step 2: What is your favorite "       \
	"color?\",\"requestedSchema\":{"                                        \
	"\"type\":\"object\",\"properties\":{\"color\":{\"type\":\"string\"}}," \
	"\"required\":[\"color\"]}}"
#define MESSAGE(text)                                                                       \
	"{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"" text \
	"\"}}],\"maxTokens\":100}"

static void tell_answer(struct mcp_call *c, const char *before, const struct mcp_input *in)
{
	struct json j;

	if (in->answer == NULL) {
		mcp_textf(c, true, "%s: the client refused", before);
		return;
	}
	json_init(&j);
	json_raw(&j, before, strlen(before));
	jsonr_write(in->doc, in->answer, &j, NULL);
	mcp_text(c, false, j.buf, j.len);
	json_done(&j);
}

static void ask_one(struct mcp_call *c, const char *key, const char *method, const char *params,
		    const char *before)
{
	const struct mcp_input *in = mcp_input(c, key, method, params);

	if (in != NULL)
		tell_answer(c, before, in);
}

/* params with an argument of the call in the middle. */
static char *around(const struct mcp_call *c, const char *before, const char *arg,
		    const char *after)
{
	const struct jsonr_node *n = mcp_arg(c, arg, JSONR_STRING);
	struct json j;

	json_init(&j);
	json_raw(&j, before, strlen(before));
	json_bytes(&j, NULL, n != NULL ? n->string : "", n != NULL ? n->len : 0);
	json_raw(&j, after, strlen(after) + 1);
	return j.failed ? NULL : j.buf;
}

static void sampling(struct mcp_call *c)
{
	char *params = around(c,
			      "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\","
			      "\"text\":",
			      "prompt", "}}],\"maxTokens\":100}");

	if (!mcp_can(c, "sampling"))
		mcp_textf(c, true, "the client cannot sample");
	else
		ask_one(c, "sample", SAMPLE, params, "LLM response: ");
	free(params);
}

static void elicitation(struct mcp_call *c)
{
	char *params =
		around(c, "{\"message\":", "message",
		       ",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		       "\"username\":{\"type\":\"string\",\"description\":\"User's response\"},"
		       "\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}},"
		       "\"required\":[\"username\",\"email\"]}}");

	if (!mcp_can(c, "elicitation"))
		mcp_textf(c, true, "the client cannot elicit");
	else
		ask_one(c, "elicit", ELICIT, params, "User response: ");
	free(params);
}

static void defaults(struct mcp_call *c)
{
	ask_one(c, "elicit", ELICIT,
		"{\"message\":\"Please "
		"review\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		"\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
		"\"age\":{\"type\":\"integer\",\"default\":30},"
		"\"score\":{\"type\":\"number\",\"default\":95.5},"
		"\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
		"\"default\":\"active\"},"
		"\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}}",
		"Elicitation completed: ");
}

static void enums(struct mcp_call *c)
{
	ask_one(c, "elicit", ELICIT,
		"{\"message\":\"Please "
		"choose\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		"\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
		"\"option3\"]},"
		"\"titledSingle\":{\"type\":\"string\",\"oneOf\":["
		"{\"const\":\"value1\",\"title\":\"First Option\"},"
		"{\"const\":\"value2\",\"title\":\"Second Option\"},"
		"{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
		"\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
		"\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
		"\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
		"\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
		"\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":["
		"{\"const\":\"value1\",\"title\":\"First Choice\"},"
		"{\"const\":\"value2\",\"title\":\"Second Choice\"},"
		"{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},\"required\":[]}}",
		"Elicitation completed: ");
}

static void ask_name(struct mcp_call *c)
{
	ask_one(c, "user_name", ELICIT, ASK_NAME, "Hello: ");
}

static void ask_sample(struct mcp_call *c)
{
	ask_one(c, "capital_question", SAMPLE, MESSAGE("What is the capital of France?"),
		"It is: ");
}

static void ask_roots(struct mcp_call *c)
{
	ask_one(c, "client_roots", ROOTS, "{}", "Roots: ");
}

/* With a state that must come back as it was. */
static void ask_with_state(struct mcp_call *c)
{
	const struct mcp_input *in;

	mcp_state(c, "first");
	in = mcp_input(c, "confirm", ELICIT, ASK_OK);
	if (in != NULL && c->modern && (c->state == NULL || strcmp(c->state, "first") != 0))
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'requestState' is missing");
	else if (in != NULL)
		say(c, "state-ok");
}

static void ask_all(struct mcp_call *c)
{
	const struct mcp_input *name, *greeting, *roots;

	mcp_state(c, "all");
	name = mcp_input(c, "user_name", ELICIT, ASK_NAME);
	greeting = mcp_input(c, "greeting", SAMPLE, MESSAGE("Generate a greeting"));
	roots = mcp_input(c, "client_roots", ROOTS, "{}");
	if (name != NULL && greeting != NULL && roots != NULL)
		tell_answer(c, "All there: ", name);
}

static void ask_twice(struct mcp_call *c)
{
	bool second = c->modern ? c->state != NULL && strncmp(c->state, "step", 4) == 0 : false;
	const struct mcp_input *in;

	if (!second) {
		mcp_state(c, "step1");
		in = mcp_input(c, "step1", ELICIT, ASK_NAME);
		if (in == NULL)
			return;
	}
	if (second && strcmp(c->state, "step1") == 0 &&
	    mcp_input(c, "step1", ELICIT, ASK_NAME) == NULL) {
		mcp_state(c, "step1");
		return;
	}
	mcp_state(c, "step2");
	in = mcp_input(c, "step2", ELICIT, ASK_COLOR);
	if (in != NULL)
		tell_answer(c, "Both: ", in);
}

static void ask_what_it_can(struct mcp_call *c)
{
	bool all = true;

	if (mcp_can(c, "elicitation"))
		all = mcp_input(c, "user_name", ELICIT, ASK_NAME) != NULL && all;
	if (mcp_can(c, "sampling"))
		all = mcp_input(c, "greeting", SAMPLE, MESSAGE("Generate a greeting")) != NULL &&
		      all;
	if (all)
		say(c, "nothing more to ask");
}

/* --- prompts ---------------------------------------------------------------------------------- */

static void message_begin(struct json *j)
{
	json_open(j, NULL, '{');
	json_str(j, "role", "user");
}

static void put_message(struct json *j, const char *text)
{
	message_begin(j);
	json_open(j, "content", '{');
	json_str(j, "type", "text");
	json_str(j, "text", text);
	json_close(j, '}');
	json_close(j, '}');
}

static void say_message(struct mcp_call *c, const char *text)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "messages", '[');
	put_message(&j, text);
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void simple_prompt(struct mcp_call *c)
{
	say_message(c, "This is a simple prompt for testing.");
}

static const char *text_arg(const struct mcp_call *c, const char *name)
{
	const struct jsonr_node *n = mcp_arg(c, name, JSONR_STRING);

	return n != NULL ? n->string : "";
}

static void prompt_with_args(struct mcp_call *c)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "Prompt with arguments: arg1='%s', arg2='%s'",
		       text_arg(c, "arg1"), text_arg(c, "arg2"));
	say_message(c, text);
}

static void prompt_with_resource(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "messages", '[');
	message_begin(&j);
	put_resource(&j, "content", text_arg(c, "resourceUri"), "text/plain",
		     "Embedded resource content for testing.");
	json_close(&j, '}');
	put_message(&j, "Please process the embedded resource above.");
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void prompt_with_image(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "messages", '[');
	message_begin(&j);
	put_data(&j, "content", "image", "image/png", PNG);
	json_close(&j, '}');
	put_message(&j, "Please analyze the image above.");
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void prompt_that_asks(struct mcp_call *c)
{
	if (mcp_input(c, "user_context", ELICIT, ASK_CONTEXT) != NULL)
		say_message(c, "Prompt with context");
}

/* --- resources -------------------------------------------------------------------------------- */

static void list_resources(struct mcp_call *c)
{
	static const char *const rows[][4] = {
		{ "test://static-text", "Static text", "a text that stays", "text/plain" },
		{ "test://static-binary", "Static binary", "bytes that stay", "image/png" },
		{ "test://watched-resource", "Watched", "can be subscribed to", "text/plain" },
	};
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "resources", '[');
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		json_open(&j, NULL, '{');
		json_str(&j, "uri", rows[i][0]);
		json_str(&j, "name", rows[i][1]);
		json_str(&j, "description", rows[i][2]);
		json_str(&j, "mimeType", rows[i][3]);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void read_resource(struct mcp_call *c)
{
	const char *mime = "text/plain", *key = "text", *value = NULL;
	char id[64], text[256];
	struct json j;

	if (strcmp(c->uri, "test://static-text") == 0 ||
	    strcmp(c->uri, "test://watched-resource") == 0) {
		value = "This is the content of the static text resource.";
	} else if (strcmp(c->uri, "test://static-binary") == 0) {
		mime = "image/png";
		key = "blob";
		value = PNG;
	} else if (sscanf(c->uri, "test://template/%63[^/]/data", id) == 1) {
		mime = "application/json";
		(void)snprintf(text, sizeof(text),
			       "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}",
			       id, id);
		value = text;
	}
	if (value == NULL) {
		mcp_no_resource(c);
		return;
	}
	mcp_result_begin(c, &j);
	json_open(&j, "contents", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "uri", c->uri);
	json_str(&j, "mimeType", mime);
	json_str(&j, key, value);
	json_close(&j, '}');
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void complete(struct mcp_call *c)
{
	static const char *const words[] = { "paris", "park", "party" };
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "completion", '{');
	json_open(&j, "values", '[');
	for (unsigned int i = 0; i < ARRAY_LEN(words); i++)
		json_str(&j, NULL, words[i]);
	json_close(&j, ']');
	json_u64(&j, "total", ARRAY_LEN(words));
	json_bool(&j, "hasMore", false);
	json_close(&j, '}');
	mcp_result_end(c, &j);
}

static bool subscribe(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	(void)owner;
	return strncmp(uri, "test://", 7) == 0;
}

static void unsubscribe(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	(void)owner;
	(void)uri;
}

/* --- the table -------------------------------------------------------------------------------- */

#define JSON_SCHEMA                                                                               \
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","      \
	"\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{" \
	"\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"                     \
	"\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/"         \
	"address\"},"                                                                             \
	"\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"                 \
	"\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"                       \
	"\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"        \
	"\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"                       \
	"\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},"                  \
	"\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}"
#define ONE_TEXT(name)                                 \
	"{\"type\":\"object\",\"properties\":{\"" name \
	"\":{\"type\":\"string\"}},\"required\":[\"" name "\"]}"
#define REGION                                                                  \
	"{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\"," \
	"\"x-mcp-header\":\"Region\"},\"query\":{\"type\":\"string\"}},\"required\":[\"region\"]}"

/* clang-format off */
static const struct mcp_tool tools[] = {
	{ .name = "test_simple_text", .doc = "a text", .input = NONE, .run = simple_text },
	{ .name = "test_image_content", .doc = "an image", .input = NONE, .run = image },
	{ .name = "test_audio_content", .doc = "a sound", .input = NONE, .run = audio },
	{ .name = "test_embedded_resource", .doc = "a resource", .input = NONE, .run = embedded },
	{ .name = "test_multiple_content_types", .doc = "one of each", .input = NONE, .run = several },
	{ .name = "test_error_handling", .doc = "an error", .input = NONE, .run = failing },
	{ .name = "test_tool_with_progress", .doc = "says how far it is", .input = NONE, .run = with_progress },
	{ .name = "test_tool_with_logging", .doc = "says what it does", .input = NONE, .run = with_logging },
	{ .name = "test_logging_tool", .doc = "says what it does", .input = NONE, .run = with_logging },
	{ .name = "json_schema_2020_12_tool", .doc = "Tool with JSON Schema 2020-12 features", .input = JSON_SCHEMA, .run = simple_text },
	{ .name = "test_sampling", .doc = "asks a model", .input = ONE_TEXT("prompt"), .run = sampling },
	{ .name = "test_elicitation", .doc = "asks a person", .input = ONE_TEXT("message"), .run = elicitation },
	{ .name = "test_elicitation_sep1034_defaults", .doc = "asks with defaults", .input = NONE, .run = defaults },
	{ .name = "test_elicitation_sep1330_enums", .doc = "asks for choices", .input = NONE, .run = enums },
	{ .name = "test_missing_capability", .doc = "needs sampling", .input = NONE, .capability = "sampling", .run = simple_text },
	{ .name = "test_streaming_elicitation", .doc = "asks a person", .input = NONE, .run = ask_name },
	{ .name = "test_trigger_tool_change", .doc = "changes the list of tools", .input = NONE, .run = tools_changed },
	{ .name = "test_trigger_prompt_change", .doc = "changes the list of prompts", .input = NONE, .run = prompts_changed },
	{ .name = "test_input_required_result_elicitation", .doc = "asks a person", .input = NONE, .run = ask_name },
	{ .name = "test_input_required_result_sampling", .doc = "asks a model", .input = NONE, .run = ask_sample },
	{ .name = "test_input_required_result_list_roots", .doc = "asks for roots", .input = NONE, .run = ask_roots },
	{ .name = "test_input_required_result_request_state", .doc = "keeps a state", .input = NONE, .run = ask_with_state },
	{ .name = "test_input_required_result_multiple_inputs", .doc = "asks three things", .input = NONE, .run = ask_all },
	{ .name = "test_input_required_result_multi_round", .doc = "asks twice", .input = NONE, .run = ask_twice },
	{ .name = "test_input_required_result_tampered_state", .doc = "keeps a state", .input = NONE, .run = ask_with_state },
	{ .name = "test_input_required_result_capabilities", .doc = "asks what can be answered", .input = NONE, .run = ask_what_it_can },
	{ .name = "test_x_mcp_header", .doc = "repeats a parameter in a header", .input = REGION, .header_param = "region", .header = "Region", .run = with_header },
};

static const struct mcp_argument two_args[] = { { "arg1", "the first", true }, { "arg2", "the second", true } };
static const struct mcp_argument uri_arg[] = { { "resourceUri", "what to embed", true } };

static const struct mcp_prompt prompts[] = {
	{ .name = "test_simple_prompt", .doc = "a prompt", .run = simple_prompt },
	{ .name = "test_prompt_with_arguments", .doc = "with arguments", .args = two_args, .nargs = 2, .run = prompt_with_args },
	{ .name = "test_prompt_with_embedded_resource", .doc = "with a resource", .args = uri_arg, .nargs = 1, .run = prompt_with_resource },
	{ .name = "test_prompt_with_image", .doc = "with an image", .run = prompt_with_image },
	{ .name = "test_input_required_result_prompt", .doc = "asks a person", .run = prompt_that_asks },
};

static const struct mcp_template templates[] = {
	{ "Template", "test://template/{id}/data", "data of an id", "application/json" },
};

const struct mcp_table fixture_table = {
	.name = "glovebox-fixture", .version = "1.0.0",
	.tools = tools, .ntools = ARRAY_LEN(tools),
	.prompts = prompts, .nprompts = ARRAY_LEN(prompts),
	.templates = templates, .ntemplates = ARRAY_LEN(templates),
	.tools_change = true, .prompts_change = true,
	.resources = list_resources, .read = read_resource, .complete = complete,
	.subscribe = subscribe, .unsubscribe = unsubscribe,
};
/* clang-format on */
