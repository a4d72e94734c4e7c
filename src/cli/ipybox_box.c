// SPDX-License-Identifier: Apache-2.0
/*
 * The box of `glovebox ipybox`: made on a server that is there or on one of our own, kept alive, and ended by a signal.
 */
#include "cli/ipybox.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/box_api.h"
#include "cli/box_body.h"
#include "cli/say.h"
#include "cli/wake.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { ALIVE_MAX_S = 60, READY_S = 60, MAKE_TIMEOUT_MS = 120000, END_TIMEOUT_MS = 15000 };

struct ipybox {
	const struct ipybox_opts *q;
	struct client c;
	struct server_near near;
	char id[80];
	int64_t ports[2];
	int64_t ttl_s;
	uint64_t alive_each_us;
	bool gone; /* there is nothing to end */
};

/* --- the server ----------------------------------------------------------------------------------- */

/* Until it has the images that kernels are started from: a box has those that there are when it is made. */
static int await_ready(struct ipybox *s, struct err *e)
{
	struct call q = { .method = "GET", .path = "/ready", .flags = CALL_INT };
	uint64_t deadline = clock_us() + READY_S * US_PER_S;
	int status = 0;

	while (status != 200 && clock_us() < deadline) {
		struct reply r;

		if (client_call(&s->c, &q, &r, e) < 0)
			return -1;
		status = r.status;
		reply_free(&r);
		if (status != 200 &&
		    client_wait(-1, 0, clock_us() + 50 * US_PER_MS, CALL_INT) == -EINTR)
			return err_set(e, ERR_SYS, EINTR, "start a server");
	}
	return 0;
}

static int start_server(struct ipybox *s, struct err *e)
{
	static struct box_bind binds[IPYBOX_BINDS_MAX];
	const char *roots[IPYBOX_BINDS_MAX + 1] = { NULL };

	for (unsigned int i = 0; i < s->q->nbinds; i++) {
		if (box_bind_take(s->q->binds[i], "/app", true, &binds[i], e) < 0)
			return -1;
		roots[i] = binds[i].root;
	}
	say("no server runs here: starting one for this box");
	if (server_near_start(&s->near, roots, true, e) < 0)
		return -1;
	client_init(&s->c, &s->near.url, "");
	return await_ready(s, e);
}

/* --- the box -------------------------------------------------------------------------------------- */

static int put_box(const struct ipybox *s, struct json *j, struct err *e)
{
	json_open(j, NULL, '{');
	json_open(j, "ports", '{');
	json_u64(j, "executor", s->q->executor_port);
	json_u64(j, "resource", s->q->resource_port);
	json_close(j, '}');
	json_open(j, "metadata", '{');
	json_str(j, IPYBOX_MARK);
	json_close(j, '}');
	json_i64(j, "idle_seconds", 0);
	if (s->q->environment != NULL)
		json_str(j, "environment", s->q->environment);
	net_words_put(&s->q->net, j);
	box_put_limits(j, &s->q->limits, s->q->limit_set);
	box_put_env(j, s->q->env, s->q->nenv);
	if (box_put_binds(j, s->q->binds, s->q->nbinds, "/app", s->near.life >= 0, e) < 0)
		return -1;
	json_close(j, '}');
	return 0;
}

static int take_box(struct ipybox *s, const struct reply *r, struct err *e)
{
	const struct jsonr_node *root = reply_root(r), *ports = jsonr_get(&r->doc, root, "ports");
	const char *id = node_str(&r->doc, root, "id");
	int64_t each;

	if (r->status != 201)
		return reply_refused(r, e);
	s->ports[0] = node_int(&r->doc, ports, "executor", 0);
	s->ports[1] = node_int(&r->doc, ports, "resource", 0);
	if (box_name_check(id, e) < 0 || strlen(id) >= sizeof(s->id) || s->ports[0] == 0 ||
	    s->ports[1] == 0)
		return err_set(e, ERR_PROTO, 0, "the server made no box with ports");
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	s->ttl_s = node_int(&r->doc, root, "ttl_seconds", 0);
	each = s->ttl_s / 3;
	if (each > ALIVE_MAX_S)
		each = ALIVE_MAX_S;
	s->alive_each_us = each > 0 ? (uint64_t)each * US_PER_S : US_PER_S;
	return 0;
}

static int make_box(struct ipybox *s, struct err *e)
{
	struct json j;
	struct call q = { .method = "POST",
			  .path = "/v1/boxes",
			  .body = &j,
			  .timeout_ms = MAKE_TIMEOUT_MS,
			  .flags = CALL_INT };
	struct reply r;
	int rc;

	json_init(&j);
	rc = put_box(s, &j, e);
	if (rc == 0)
		rc = client_call(&s->c, &q, &r, e);
	if (rc == 0) {
		rc = take_box(s, &r, e);
		reply_free(&r);
	}
	json_done(&j);
	return rc;
}

static void end_box(struct ipybox *s)
{
	char path[BOX_PATH];
	struct call q = {
		.method = "DELETE", .path = path, .timeout_ms = END_TIMEOUT_MS, .flags = CALL_NO_INT
	};
	struct reply r;
	struct err e;

	api_path(path, s->id, "%s", "");
	if (client_call(&s->c, &q, &r, &e) == 0)
		reply_free(&r);
	else if (s->near.life < 0)
		say("the box %s could not be ended: %s", s->id, e.text);
}

/* --- as long as it is wanted ------------------------------------------------------------------------ */

static int tell(const struct ipybox *s, struct err *e)
{
	struct json j;
	char text[256];
	int r, n;

	if (s->q->o.json) {
		json_init(&j);
		json_open(&j, NULL, '{');
		json_str(&j, "box", s->id);
		json_i64(&j, "executor_port", s->ports[0]);
		json_i64(&j, "resource_port", s->ports[1]);
		json_close(&j, '}');
		r = api_print_json(&j);
	} else {
		n = snprintf(
			text, sizeof(text),
			"executor on http://127.0.0.1:%lld\nresource on http://127.0.0.1:%lld\n",
			(long long)s->ports[0], (long long)s->ports[1]);
		r = wake_write(STDOUT_FILENO, text, (size_t)n, NULL, NULL);
		say("box %s; Ctrl-C ends it", s->id);
	}
	return r < 0 ? err_set(e, ERR_SYS, -r, "write to standard output") : 0;
}

/* It is still needed. 0; 1: it is gone. -1: nobody knows. */
static int keep_alive(struct ipybox *s, struct err *e)
{
	char path[BOX_PATH];
	struct json j;
	struct reply r;
	int rc;

	api_path(path, s->id, "%s", "");
	json_init(&j);
	json_open(&j, NULL, '{');
	json_i64(&j, "ttl_seconds", s->ttl_s);
	json_close(&j, '}');
	rc = api(&s->c, "PATCH", path, &j, &r, e);
	json_done(&j);
	if (rc == 0)
		reply_free(&r);
	else if (api_is_gone(&s->c))
		rc = 1;
	return rc;
}

static int attend(struct ipybox *s, struct err *e)
{
	uint64_t alive_us = clock_us() + s->alive_each_us;

	while (wake_end() == 0) {
		struct pollfd p = { .fd = wake_fd(), .events = POLLIN };
		struct wake w;
		int r;

		(void)poll(&p, 1, clock_poll_ms(alive_us));
		wake_take(&w);
		if (w.end != 0 || clock_us() < alive_us)
			continue;
		alive_us = clock_us() + s->alive_each_us;
		r = keep_alive(s, e);
		s->gone = r > 0;
		if (s->gone || (r < 0 && s->c.status == 0 && s->near.life >= 0))
			return -1; /* our own server does not come back */
	}
	return 0;
}

int ipybox_serve(const struct ipybox_opts *q, struct err *e)
{
	struct ipybox s = { .q = q, .near = { .life = -1 } };
	bool nobody = false;
	int r;

	(void)wake_start(0);
	r = client_find(&q->o, &s.c, &nobody, e);
	if (r < 0 && nobody)
		r = start_server(&s, e);
	else if (r < 0)
		return -1;
	if (r == 0)
		r = make_box(&s, e);
	if (r == 0) {
		r = tell(&s, e);
		if (r == 0)
			r = attend(&s, e);
		if (!s.gone)
			end_box(&s);
	}
	if (s.near.life >= 0 || !nobody)
		client_done(&s.c);
	server_near_stop(&s.near);
	if (r < 0 && wake_end() != 0 && e->sys == EINTR)
		return 0; /* who wants it to end before it has begun gets that */
	return r;
}
