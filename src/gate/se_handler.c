// SPDX-License-Identifier: Apache-2.0
/*
 * POST /workspace/se/v2/execute_code: the caller's function handler(event) or handler(event, context), called once, in a box and an
 * interpreter of its own (kernel/glovebox_kernel/handler.py).
 *
 * The request is passed on to the box as it came, written anew: what is in an event is nobody's business here. The result comes as a
 * message on the channel of the interpreter, beside what is printed, and is looked through before it is passed on.
 */
#include "gate/se.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "base/utf8.h"
#include "gate/ci.h"
#include "wire/json_text.h"
#include "wire/jsonr.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CODE_MAX = 102400, /* characters */
	TIMEOUT_MAX_S = 3600,
	RESULT_MAX = 16 * 1024 * 1024 + 4096,
	PIECE = 16 * 1024, /* six times as long in JSON, at worst */
};

#define BEGIN "{\"stdout\":\""

/* As the reference has them. */
enum exit_code { EXIT_NOT_JSON = 3, EXIT_SYSTEM = 6, EXIT_KILLED = 137 };

struct handling {
	struct gate *g;
	struct req *r;
	struct oneshot *o;
	struct oneshot_spec spec;
	struct json request; /* for the box */
	struct buf out[2], result;
	bool whole, too_long; /* the result has come; or was more than there may be */
	uint64_t began_us;

	/* the answer: both streams, one after the other, and the rest */
	unsigned int telling; /* 0, 1: that stream, 2: the rest, 3: nothing more */
	struct json rest;
	struct timer again;
};

/* --- refusals --------------------------------------------------------------------------------- */

/* {"detail": {"error_code", "description", "error_detail", "solution", "error_link"}} */
static void refuse(struct req *r, int status, const char *code, const char *description,
		   const char *solution, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

static void refuse(struct req *r, int status, const char *code, const char *description,
		   const char *solution, const char *fmt, ...)
{
	char text[512];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "detail", '{');
	json_str(&j, "error_code", code);
	json_str(&j, "description", description);
	json_str(&j, "error_detail", text);
	json_str(&j, "solution", solution);
	json_str(&j, "error_link", "");
	json_close(&j, '}');
	json_close(&j, '}');
	req_json(r, status, &j);
}

static void no_memory(struct req *r)
{
	refuse(r, 503, "Sandbox.InternalError", "The server has no memory", "Try again later.",
	       "out of memory");
}

/* One member that is not what it should be, as pydantic tells it; key NULL: the body itself. */
static void wrong(struct req *r, const char *key, const char *type, const char *msg,
		  struct json_text input)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "detail", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "type", type);
	json_open(&j, "loc", '[');
	json_str(&j, NULL, "body");
	if (key != NULL)
		json_str(&j, NULL, key);
	json_close(&j, ']');
	json_str(&j, "msg", msg);
	if (input.n <= 4096) /* what is longer is not shown */
		json_text_put(input, &j, "input");
	json_close(&j, '}');
	json_close(&j, ']');
	json_close(&j, '}');
	req_json(r, 422, &j);
}

/* A value that was looked through, in its own words: half of a surrogate pair stays half of one. */
static void put_as_it_is(struct json *j, const char *key, struct json_text t)
{
	json_value(j, key);
	json_raw(j, t.p, t.n);
	j->comma = true;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void done(struct handling *h)
{
	if (h->o != NULL)
		oneshot_end(h->o);
	timer_clear(&h->g->loop, &h->again);
	json_done(&h->request);
	json_done(&h->rest);
	buf_done(&h->out[0]);
	buf_done(&h->out[1]);
	buf_done(&h->result);
	free(h);
}

static void on_gone(struct req *r)
{
	done(r->work);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct handling *h = arg;

	(void)buf_put(&h->out[stream - 1], p, n); /* init keeps to the limit */
	oneshot_ack(h->o, number);
}

static void on_message(void *arg, uint64_t number, bool more, const uint8_t *p, size_t n)
{
	struct handling *h = arg;

	/* The first one counts; who tells more has other plans. */
	if (!h->whole && !h->too_long && buf_put(&h->result, p, n) < 0)
		h->too_long = true;
	h->whole = h->whole || (!more && !h->too_long);
	oneshot_ack(h->o, number);
}

static const char *how_it_ended(const struct job_exit *x, char *text, size_t size)
{
	if (x->how == JOB_SIGNALED && x->code == SIGKILL)
		return "System error: the interpreter was killed, as happens to who uses more "
		       "memory than "
		       "it may\n";
	if (x->how == JOB_SIGNALED)
		(void)snprintf(text, size, "System error: the interpreter was ended by signal %d\n",
			       x->code);
	else
		(void)snprintf(
			text, size,
			"System error: the interpreter ended with status %d and without a result\n",
			x->code);
	return text;
}

static bool is_ascii(struct json_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] >= 0x7f)
			return false;
	return t.p != NULL;
}

/* What the box says that came of it. false: nothing that makes sense. */
static bool take_result(const struct handling *h, int64_t *ret_code, struct json_text *ret)
{
	struct json_member m[] = { { .key = "exit_code" }, { .key = "result" } };
	struct json_text all;

	if (!h->whole || json_text_read(buf_head(&h->result), buf_len(&h->result), &all) < 0)
		return false;
	json_text_find(all, m, ARRAY_LEN(m));
	*ret = m[1].value;
	return m[1].value.p != NULL && json_text_i64(m[0].value, ret_code) && *ret_code >= 0 &&
	       *ret_code <= 255;
}

static void put_metrics(struct json *j, const struct handling *h, const struct job_exit *x)
{
	json_open(j, "metrics", '{');
	json_milli(j, "duration_ms", x->wall_us);
	json_milli(j, "memory_peak_mb", x->max_rss_bytes / 1024 * 1000 / 1024);
	json_milli(j, "cpu_time_ms", x->user_us + x->sys_us);
	json_milli(j, "timeout_seconds", h->spec.timeout_us / 1000);
	json_close(j, '}');
}

/* The next piece of the answer, of some `max` bytes. false: it was the last one. */
static bool put_piece(struct handling *h, struct json *j, size_t max)
{
	static const char *const after[] = { "\",\"stderr\":\"", "\"," };

	for (size_t end = j->len + max; h->telling < 2 && j->len < end && !j->failed;) {
		struct buf *b = &h->out[h->telling];
		size_t n = jsonr_cut(buf_head(b), buf_len(b), PIECE);

		if (n == 0 && buf_len(b) > 0) /* no text, whatever it is */
			n = PIECE;
		json_chars(j, buf_head(b), n);
		buf_take(b, n);
		if (buf_len(b) == 0) {
			json_raw(j, after[h->telling], strlen(after[h->telling]));
			h->telling++;
		}
	}
	if (h->telling == 2) {
		json_raw(j, h->rest.buf, h->rest.len);
		h->telling++;
	}
	return h->telling < 3;
}

static void tell(void *arg);

static void on_drained(struct req *r)
{
	tell(r->work);
}

/* As much as is good for others, and as the client takes. */
static void tell(void *arg)
{
	struct handling *h = arg;
	struct req *r = h->r;
	bool more;
	struct json j;
	int rc;

	timer_clear(&h->g->loop, &h->again);
	json_init(&j);
	more = put_piece(h, &j, RUN_TURN);
	rc = j.failed ? -ENOMEM : req_write(r, j.buf, j.len);
	json_done(&j);
	if (rc == 0 && more && req_queued(r) < REQ_HIGH) /* else drained() comes */
		rc = timer_soon(&h->g->loop, &h->again, tell, h);
	if (rc == -ENOMEM) { /* it must not end here as if it was whole */
		r->gone = NULL;
		r->drained = NULL;
		done(h);
		req_abort(r);
	} else if (rc == 0 && !more) { /* else gone() comes */
		r->gone = NULL;
		r->drained = NULL;
		done(h);
		req_end(r);
	}
}

/* Said of a stream that was cut. */
static void mark_cut(struct buf *b)
{
	static const char mark[] = "\n...[truncated]";

	b->max += sizeof(mark);
	(void)buf_put(b, mark, sizeof(mark) - 1);
}

static void answer(struct handling *h, const struct job_exit *x)
{
	struct json_text result = { 0 };
	struct req *r = h->r;
	int64_t code = EXIT_SYSTEM;
	char text[128];
	struct json j;

	if (!take_result(h, &code, &result)) {
		const char *why = h->whole ? "The result is no JSON that can be passed on: it "
					     "is nested too deeply\n"
					   : how_it_ended(x, text, sizeof(text));

		code = h->whole                 ? EXIT_NOT_JSON
		       : x->how == JOB_SIGNALED ? EXIT_KILLED
						: EXIT_SYSTEM;
		result = (struct json_text){ 0 };
		h->out[1].max += strlen(why);
		(void)buf_put(&h->out[1], why, strlen(why));
	}
	if (is_ascii(result))
		put_as_it_is(&h->rest, "result", result);
	else /* not our handler.py's words */
		json_text_put(result, &h->rest, "result");
	json_i64(&h->rest, "exit_code", code);
	put_metrics(&h->rest, h, x);
	json_close(&h->rest, '}');
	json_init(&j);
	json_raw(&j, BEGIN, strlen(BEGIN));
	j.failed = j.failed || h->rest.failed;
	if (buf_len(&h->out[0]) + buf_len(&h->out[1]) > RUN_TURN && !j.failed) {
		r->work = h;
		r->gone = on_gone;
		r->drained = on_drained;
		oneshot_end(h->o); /* what it said is here */
		h->o = NULL;
		req_begin(r, 200, "application/json", -1);
		(void)req_write(r, j.buf, j.len);
		json_done(&j);
		tell(h);
		return;
	}
	(void)put_piece(h, &j, SIZE_MAX / 2);
	if (j.failed) {
		json_done(&j);
		no_memory(r);
	} else {
		req_json(r, 200, &j);
	}
	done(h); /* the box ends behind the answer, not before it */
}

static void on_result(void *arg, const struct oneshot_result *res)
{
	struct handling *h = arg;
	struct req *r = h->r;

	metrics_completed(&r->g->metrics, OPERATION_HANDLER, ci_outcome(&res->exit),
			  clock_us() - h->began_us);
	r->gone = NULL;
	if ((res->exit.flags & JOB_CUT_STDOUT) != 0)
		mark_cut(&h->out[0]);
	if ((res->exit.flags & JOB_CUT_STDERR) != 0)
		mark_cut(&h->out[1]);
	if ((res->exit.flags & JOB_TIMED_OUT) == 0) {
		answer(h, &res->exit);
		return;
	}
	refuse(r, 500, "Sandbox.ExecTimeout", "The handler timed out",
	       "Give it more time by event.__timeout, or make it faster.",
	       "it had not returned after %llu.%03llu seconds",
	       (unsigned long long)(h->spec.timeout_us / US_PER_S),
	       (unsigned long long)(h->spec.timeout_us % US_PER_S / 1000));
	done(h);
}

static void on_failed(void *arg, const struct oneshot_failure *f)
{
	struct handling *h = arg;
	struct req *r = h->r;
	const struct config *c = &r->g->config;

	r->gone = NULL;
	if (f->status == 429) {
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(c, CONF_EXECUTION_RETRY_AFTER) / US_PER_S));
		refuse(r, 503, "Sandbox.TooManyRequestsExection", "As many are under way as may be",
		       "Try again later.", "%llu executions are under way",
		       (unsigned long long)config_u64(c, CONF_MAX_CONCURRENT_EXECUTIONS));
	} else if (f->status == 503) {
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(c, CONF_CAPACITY_RETRY_AFTER) / US_PER_S));
		refuse(r, 503, "Sandbox.NotInitialized", "No sandbox can be had at the moment",
		       "Try again later, or ask who runs this server.", "%s", f->text);
	} else {
		refuse(r, 500, "Sandbox.ExecException", "The handler could not be run to its end",
		       "Try again, with less memory if it uses much.", "%s", f->text);
	}
	if (f->status != 429) /* the request is gone, with its answer */
		metrics_completed(&h->g->metrics, OPERATION_HANDLER, OUTCOME_ERROR,
				  clock_us() - h->began_us);
	done(h);
}

/* --- the request ------------------------------------------------------------------------------ */

/* Seconds of event.__timeout, if that is a number; what is none is nobody's timeout. */
static uint64_t timeout_us(const struct gate *g, struct json_text event)
{
	uint64_t standard = config_u64(&g->config, CONF_SE_TIMEOUT);
	struct json_member m = { .key = "__timeout" };
	char text[64];
	double s;

	json_text_find(event, &m, 1);
	if (json_text_kind(m.value) != '0' || m.value.n >= sizeof(text))
		return standard;
	(void)memcpy(text, m.value.p, m.value.n);
	text[m.value.n] = '\0';
	s = strtod(text, NULL);
	if (!(s > 0))
		return standard;
	if (s > TIMEOUT_MAX_S)
		s = TIMEOUT_MAX_S;
	if (s < 0.001) /* and 0 would be no limit at all */
		s = 0.001;
	return (uint64_t)(s * 1000 + 0.999) * 1000;
}

/* ?timeout_ms= wins, for who does not want to change the event. -1: answered. */
static int take_timeout(struct handling *h)
{
	const char *key = "timeout_ms";
	struct http_slice v = req_query(h->r, key);
	uint64_t ms;

	if (http_query(&h->r->target, key) == NULL)
		return 0;
	if (v.n == 0 || v.n > 10 || str_to_u64(v.p, TIMEOUT_MAX_S * 1000, &ms) < 0 || ms == 0) {
		refuse(h->r, 400, "Sandbox.InvalidParameter", "A parameter is not valid",
		       "Leave it out, or give a number of milliseconds.",
		       "timeout_ms is no number from 1 to %d", TIMEOUT_MAX_S * 1000);
		return -1;
	}
	h->spec.timeout_us = ms * 1000;
	return 0;
}

/* Whether the code is not too long; where it is to be thawed from. -1: answered. */
static int take_code(struct handling *h, struct json_text t)
{
	char *code = malloc(t.n + 1);
	size_t chars = 0;

	if (code == NULL) {
		no_memory(h->r);
		return -1;
	}
	h->spec.warm = WARM_LEAN;
	if (json_text_str(t, code, t.n + 1)) { /* else it has a NUL, which Python will say */
		for (const char *p = code; *p != '\0'; p++)
			chars += ((unsigned char)*p & 0xc0) != 0x80;
		h->spec.warm = warm_pick(h->r->g, code, strlen(code));
	}
	free(code);
	if (chars <= CODE_MAX)
		return 0;
	refuse(h->r, 400, "Sandbox.InvalidParameter", "A parameter is not valid",
	       "Shorten the code.", "handler_code has %zu characters, %d are allowed", chars,
	       CODE_MAX);
	return -1;
}

/* The members of an object, none of which may be there twice. */
static bool find_once(struct json_text object, struct json_member *m, size_t n)
{
	struct json_walk w = json_walk(object);
	struct json_text key, value;
	char name[32];

	while (json_walk_next(&w, &key, &value))
		for (size_t i = 0; i < n; i++) {
			if (!json_text_str(key, name, sizeof(name)) || strcmp(name, m[i].key) != 0)
				continue;
			if (m[i].value.p != NULL)
				return false;
			m[i].value = value;
		}
	return true;
}

/* The body, as it is told to the box. -1: answered. */
static int take_body(struct handling *h)
{
	static const char braces[] = "{}";
	struct json_member m[] = { { .key = "handler_code" },
				   { .key = "event" },
				   { .key = "context" } };
	struct req *r = h->r;
	struct json_text body;
	int rc = json_text_read(r->body, r->body_len, &body);

	if (rc == 0 && !utf8_is_valid(r->body)) /* which has no NUL, then */
		rc = -EINVAL;
	if (rc < 0) {
		wrong(r, NULL, "json_invalid",
		      rc == -E2BIG ? "JSON decode error: too deep, or a number too long"
				   : "JSON decode error",
		      (struct json_text){ braces, 2 });
		return -1;
	}
	if (json_text_kind(body) != '{') {
		wrong(r, NULL, "model_attributes_type",
		      "Input should be a valid dictionary or object to extract fields from", body);
		return -1;
	}
	if (!find_once(body, m, ARRAY_LEN(m))) {
		wrong(r, NULL, "json_invalid", "JSON decode error: a key is there twice",
		      (struct json_text){ braces, 2 });
		return -1;
	}
	if (m[0].value.p == NULL || json_text_kind(m[0].value) != '"') {
		bool missing = m[0].value.p == NULL;

		wrong(r, m[0].key, missing ? "missing" : "string_type",
		      missing ? "Field required" : "Input should be a valid string",
		      missing ? body : m[0].value);
		return -1;
	}
	for (int i = 1; i < 3; i++) {
		if (m[i].value.p == NULL) {
			m[i].value = (struct json_text){ braces, 2 };
		} else if (json_text_kind(m[i].value) != '{') {
			wrong(r, m[i].key, "dict_type", "Input should be a valid dictionary",
			      m[i].value);
			return -1;
		}
	}
	if (take_code(h, m[0].value) < 0)
		return -1;
	h->spec.timeout_us = timeout_us(r->g, m[1].value);
	if (take_timeout(h) < 0)
		return -1;
	json_open(&h->request, NULL, '{');
	for (unsigned int i = 0; i < ARRAY_LEN(m); i++)
		put_as_it_is(&h->request, m[i].key, m[i].value);
	json_close(&h->request, '}');
	if (!h->request.failed)
		return 0;
	no_memory(r);
	return -1;
}

static void prepare(struct handling *h)
{
	struct gate *g = h->r->g;

	se_limits(g, &h->spec.box);
	h->spec.handler = true;
	h->spec.operation = OPERATION_HANDLER;
	h->spec.network = NET_DEFAULT_SE;
	h->spec.tenant = h->r->tenant;
	h->spec.request = h->r->id;
	h->spec.envp = se_environment();
	h->spec.ignore = "";
	h->spec.input = h->request.buf;
	h->spec.input_len = h->request.len;
	h->spec.output_max = config_u64(&g->config, CONF_SE_OUTPUT_BYTES);
	buf_init(&h->out[0], (size_t)h->spec.output_max + 64);
	buf_init(&h->out[1], (size_t)h->spec.output_max + 64);
	buf_init(&h->result, RESULT_MAX);
}

void se_handler(struct req *r)
{
	static const struct oneshot_ops ops = {
		.output = on_output, .message = on_message, .result = on_result, .failed = on_failed
	};
	struct handling *h = calloc(1, sizeof(*h));

	if (h == NULL) {
		no_memory(r);
		return;
	}
	h->g = r->g;
	h->r = r;
	h->began_us = clock_us();
	json_init(&h->request);
	json_init(&h->rest);
	if (take_body(h) < 0) {
		json_done(&h->request);
		free(h);
		return;
	}
	prepare(h);
	h->o = oneshot_new(r->g, &h->spec, &ops, h);
	if (h->o == NULL) {
		no_memory(r);
		done(h);
		return;
	}
	r->work = h;
	r->gone = on_gone;
	oneshot_start(h->o);
}
