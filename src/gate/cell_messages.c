// SPDX-License-Identifier: Apache-2.0
#include "gate/cell_messages.h"

#include "base/own.h"
#include "wire/json_text.h"

#include <errno.h>
#include <string.h>

enum {
	TYPE_LEN = 32,  /* of a message: longer than all that we know */
	MIME_LEN = 256, /* of a longer one nobody knows that it is JSON */
};

struct message {
	char type[TYPE_LEN]; /* "": none that we know */
	struct json_text content, metadata, buffers;
};

static bool is_none(struct json_text t)
{
	return t.p == NULL;
}

static bool is_string(struct json_text t)
{
	return json_text_kind(t) == '"';
}

static bool is_object(struct json_text t)
{
	return json_text_kind(t) == '{';
}

static bool is_object_or_none(struct json_text t)
{
	return is_none(t) || is_object(t);
}

static bool is_bool(struct json_text t)
{
	return json_text_kind(t) == 't';
}

static bool is_list_of_strings(struct json_text t)
{
	struct json_walk w = json_walk(t);
	struct json_text key, value;

	if (json_text_kind(t) != '[')
		return false;
	while (json_walk_next(&w, &key, &value))
		if (!is_string(value))
			return false;
	return true;
}

static bool is_word(struct json_text t, const char *word)
{
	char buf[32];

	return json_text_str(t, buf, sizeof(buf)) && strcmp(buf, word) == 0;
}

static struct json_text get(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

static int read_message(const char *p, size_t n, struct message *ret)
{
	enum { TYPE, CONTENT, METADATA, BUFFERS };
	struct json_member m[] = {
		{ .key = "type" }, { .key = "content" }, { .key = "metadata" }, { .key = "buffers" }
	};
	struct json_text whole;

	if (json_text_read(p, n, &whole) < 0)
		return -EPROTO;
	json_text_find(whole, m, ARRAY_LEN(m));
	if (!is_string(m[TYPE].value) || !is_object(m[CONTENT].value))
		return -EPROTO;
	if (!json_text_str(m[TYPE].value, ret->type, sizeof(ret->type)))
		ret->type[0] = '\0';
	ret->content = m[CONTENT].value;
	ret->metadata = m[METADATA].value;
	ret->buffers = m[BUFFERS].value;
	return 0;
}

/* --- displays ------------------------------------------------------------------------------------- */

/* What nbformat takes for JSON. */
static bool is_json_mime(struct json_text mime)
{
	static const char begin[] = "application/", end[] = "+json";
	char buf[MIME_LEN];

	if (!json_text_str(mime, buf, sizeof(buf)) || strncmp(buf, begin, strlen(begin)) != 0)
		return false;
	return strcmp(buf, "application/json") == 0 ||
	       strcmp(buf + strlen(buf) - strlen(end), end) == 0;
}

static void put_joined(struct json_text list, struct json *j)
{
	struct json_walk w = json_walk(list);
	struct json_text key, value;

	json_value(j, NULL);
	json_raw(j, "\"", 1);
	while (json_walk_next(&w, &key, &value))
		json_text_put_chars(value, j);
	json_raw(j, "\"", 1);
}

static void put_data(struct json_text data, struct json *j)
{
	struct json_walk w = json_walk(data);
	struct json_text mime, value;

	json_open(j, "data", '{');
	while (json_walk_next(&w, &mime, &value)) {
		bool whole = is_string(value) || is_json_mime(mime);

		if (!whole && !is_list_of_strings(value))
			continue;
		json_text_put_key(mime, j);
		if (whole)
			json_text_put(value, j, NULL);
		else
			put_joined(value, j);
	}
	json_close(j, '}');
}

static void put_display_id(struct json_text transient, struct json *j)
{
	struct json_text id = get(transient, "display_id");

	if (json_text_kind(id) == '0')
		json_bytes(j, "display_id", id.p, id.n);
	else if (is_string(id))
		json_text_put(id, j, "display_id");
	else
		json_null(j, "display_id");
}

static void put_object(struct json_text t, struct json *j, const char *key)
{
	if (is_none(t))
		t = (struct json_text){ "{}", 2 };
	json_text_put(t, j, key);
}

static int put_display(const struct message *m, struct cell_said *ret)
{
	enum { DATA, METADATA, TRANSIENT };
	struct json_member c[] = { { .key = "data" },
				   { .key = "metadata" },
				   { .key = "transient" } };

	json_text_find(m->content, c, ARRAY_LEN(c));
	if (!is_object(c[DATA].value) || !is_object_or_none(c[METADATA].value))
		return -EPROTO;
	put_display_id(c[TRANSIENT].value, &ret->members);
	put_data(c[DATA].value, &ret->members);
	put_object(c[METADATA].value, &ret->members, "metadata");
	return 0;
}

/* false: it is something else than a number. */
static bool get_count(struct json_text content, bool *has, int64_t *ret)
{
	struct json_text count = get(content, "execution_count");
	char kind = json_text_kind(count);

	*has = json_text_i64(count, ret);
	return kind == '0' || kind == 'n' || kind == '\0';
}

static int put_result(const struct message *m, struct cell_said *ret)
{
	int64_t count = 0;
	bool has;

	if (!get_count(m->content, &has, &count) || put_display(m, ret) < 0)
		return -EPROTO;
	if (has)
		json_i64(&ret->members, "execution_count", count);
	else
		json_null(&ret->members, "execution_count");
	return 0;
}

/* --- the rest ------------------------------------------------------------------------------------- */

static int put_error_members(struct json_text content, struct json *j)
{
	enum { NAME, VALUE, TRACEBACK };
	struct json_member c[] = { { .key = "ename" },
				   { .key = "evalue" },
				   { .key = "traceback" } };

	json_text_find(content, c, ARRAY_LEN(c));
	if (!is_string(c[NAME].value) || !is_string(c[VALUE].value) ||
	    !is_list_of_strings(c[TRACEBACK].value))
		return -EPROTO;
	json_text_put(c[NAME].value, j, "name");
	json_text_put(c[VALUE].value, j, "value");
	json_text_put(c[TRACEBACK].value, j, "traceback");
	return 0;
}

static int put_error(const struct message *m, struct cell_said *ret)
{
	return put_error_members(m->content, &ret->members);
}

static int put_clear(const struct message *m, struct cell_said *ret)
{
	struct json_text wait = get(m->content, "wait");

	if (!is_bool(wait))
		return -EPROTO;
	ret->wait = *wait.p == 't';
	json_bool(&ret->members, "wait", ret->wait);
	return 0;
}

static int put_input(const struct message *m, struct cell_said *ret)
{
	struct json_text prompt = get(m->content, "prompt");
	struct json_text password = get(m->content, "password");

	if (!is_string(prompt) || !is_bool(password))
		return -EPROTO;
	json_text_put(prompt, &ret->members, "prompt");
	json_text_put(password, &ret->members, "password");
	return 0;
}

static int put_comm(const struct message *m, struct cell_said *ret)
{
	struct json_text buffers = m->buffers;

	if (is_none(buffers))
		buffers = (struct json_text){ "[]", 2 };
	if (!is_string(get(m->content, "comm_id")) || !is_object_or_none(m->metadata) ||
	    !is_list_of_strings(buffers))
		return -EPROTO;
	json_str(&ret->members, "type", m->type);
	json_text_put(m->content, &ret->members, "content");
	put_object(m->metadata, &ret->members, "metadata");
	json_text_put(buffers, &ret->members, "buffers");
	return 0;
}

static int put_comm_open(const struct message *m, struct cell_said *ret)
{
	return is_string(get(m->content, "target_name")) ? put_comm(m, ret) : -EPROTO;
}

static int put_code(const struct message *m, struct cell_said *ret)
{
	struct json_text code = get(m->content, "code");
	int64_t count = 0;
	bool has;

	if (!is_string(code) || !get_count(m->content, &has, &count))
		return -EPROTO;
	json_text_put(code, &ret->members, "code");
	if (has)
		json_i64(&ret->members, "execution_count", count);
	else
		json_null(&ret->members, "execution_count");
	return 0;
}

static const struct {
	const char *type;
	enum run_event event;
	int (*put)(const struct message *m, struct cell_said *ret);
} types[] = {
	{ "display_data", RUN_DISPLAY, put_display },
	{ "update_display_data", RUN_UPDATE, put_display },
	{ "execute_result", RUN_RESULT, put_result },
	{ "error", RUN_ERROR, put_error },
	{ "clear_output", RUN_CLEAR, put_clear },
	{ "input_request", RUN_INPUT, put_input },
	{ "comm_open", RUN_COMM, put_comm_open },
	{ "comm_msg", RUN_COMM, put_comm },
	{ "comm_close", RUN_COMM, put_comm },
	{ "execute_input", RUN_CODE, put_code },
};

int cell_said(const char *p, size_t n, struct cell_said *ret)
{
	struct message m;
	int rc;

	*ret = (struct cell_said){ .event = RUN_EVENT_MAX };
	json_init(&ret->members);
	rc = read_message(p, n, &m);
	for (size_t i = 0; i < ARRAY_LEN(types) && rc == 0; i++) {
		if (strcmp(m.type, types[i].type) != 0)
			continue;
		rc = types[i].put(&m, ret);
		if (rc == 0)
			ret->event = types[i].event;
		break;
	}
	return rc == 0 && ret->members.failed ? -ENOMEM : rc;
}

/* --- replies -------------------------------------------------------------------------------------- */

static int get_status(struct json_text content, enum cell_reply_status *ret)
{
	static const char *const names[] = {
		[CELL_REPLY_OK] = "ok",
		[CELL_REPLY_ERROR] = "error",
		[CELL_REPLY_ABORTED] = "aborted",
	};
	struct json_text status = get(content, "status");

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (is_word(status, names[i])) {
			*ret = (enum cell_reply_status)i;
			return 0;
		}
	}
	return -EPROTO;
}

static int read_error(struct json_text content, struct cell_reply *ret)
{
	struct json_text name = get(content, "ename");

	if (is_none(name))
		return 0;
	ret->has_error = true;
	ret->interrupted = is_word(name, "KeyboardInterrupt");
	return put_error_members(content, &ret->error);
}

static bool is_reply(const char *type)
{
	static const char end[] = "_reply";
	size_t n = strlen(type);

	return n > strlen(end) && strcmp(type + n - strlen(end), end) == 0;
}

int cell_reply_said(const char *p, size_t n, struct cell_said *ret)
{
	struct message m;
	int rc;

	*ret = (struct cell_said){ .event = RUN_EVENT_MAX };
	json_init(&ret->members);
	rc = read_message(p, n, &m);
	if (rc == 0 && !is_reply(m.type))
		rc = -EPROTO;
	if (rc < 0)
		return rc;
	json_str(&ret->members, "type", m.type);
	json_text_put(m.content, &ret->members, "content");
	ret->event = RUN_REPLY;
	return ret->members.failed ? -ENOMEM : 0;
}

int cell_replied(const char *p, size_t n, struct cell_reply *ret)
{
	struct message m;
	int rc;

	*ret = (struct cell_reply){ 0 };
	json_init(&ret->error);
	rc = read_message(p, n, &m);
	if (rc < 0)
		return rc;
	if (strcmp(m.type, "execute_reply") != 0 || get_status(m.content, &ret->status) < 0 ||
	    !get_count(m.content, &ret->has_count, &ret->execution_count))
		return -EPROTO;
	if (ret->status == CELL_REPLY_ERROR)
		rc = read_error(m.content, ret);
	return rc == 0 && ret->error.failed ? -ENOMEM : rc;
}
