// SPDX-License-Identifier: Apache-2.0
/*
 * Which handler a request goes to. The table is all there is: matching, body limits, who may, and /openapi.json
 * come from its rows.
 */
#include "base/own.h"
#include "gate/box_fork.h"
#include "gate/boxes.h"
#include "gate/env_builds.h"
#include "gate/ipy.h"
#include "gate/jup.h"
#include "gate/mcp.h"
#include "gate/meta.h"
#include "gate/ports.h"
#include "gate/published.h"
#include "gate/se.h"
#include "gate/tool_approvals.h"
#include "gate/tool_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct route routes[] = {
#define ROUTE(method, path, shape, body, max, flags, run, in, status, answer, doc) \
	{ method, path, SHAPE_##shape, BODY_##body, max, flags, run, in, status, answer, doc },
#include "gate/routes.tbl"
#undef ROUTE
};
const unsigned int nroutes = ARRAY_LEN(routes);

struct http_slice req_get(const struct req *r, const char *name)
{
	const struct http_header *h = http_find(&r->head, name);

	return h != NULL ? h->value : (struct http_slice){ 0 };
}

struct http_slice req_query(const struct req *r, const char *key)
{
	const struct http_slice *v = http_query(&r->target, key);

	return v != NULL ? *v : (struct http_slice){ 0 };
}

/* Where there is no route, who asked is known by where it came in. */
static enum shape shape_of(const struct req *r)
{
	const struct listener *l = r->conn != NULL ? r->conn->listener : NULL;

	if (r->route != NULL)
		return r->route->shape;
	if (l == NULL || (l->place & ROUTE_MAIN) != 0)
		return SHAPE_OWN;
	return (l->place & ROUTE_EXECUTOR) != 0 ? SHAPE_REASON : SHAPE_DETAIL;
}

void req_refuse(struct req *r, int status, const char *code, const char *field, const char *fmt,
		...)
{
	enum shape shape = shape_of(r);
	char text[1024];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_init(&j);
	json_open(&j, NULL, '{');
	if (shape == SHAPE_DETAIL) {
		json_str(&j, "detail", text);
	} else if (shape == SHAPE_REASON) {
		json_str(&j, "reason", req_reason(status));
		json_str(&j, "message", text);
	} else if (r->route != NULL && r->route->shape == SHAPE_SANDBOX) {
		se_put_error(&j, req_reason(status), text);
	} else {
		json_open(&j, "error", '{');
		json_str(&j, "code", code);
		json_str(&j, "message", text);
		if (field != NULL)
			json_str(&j, "field", field);
		else
			json_null(&j, "field");
		json_null(&j, "hint");
		json_str(&j, "request_id", r->id);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	if (j.failed)
		req_abort(r);
	else
		req_json(r, status, &j);
}

/* {path*}, which stands for the rest of the path. It is the last part of its pattern, and what it takes is the handler's to
 * decode: no segment behind the slash, and none that is refused elsewhere, is refused here. */
static bool takes_rest(const char *part, size_t n)
{
	return n > 2 && part[0] == '{' && part[n - 2] == '*';
}

/* Whether the path of the request is this pattern's; takes what stands for {…}. */
static bool matches(struct req *r, const char *pattern)
{
	const struct http_target *t = &r->target;
	unsigned int seg = 0, param = 0;

	while (*pattern == '/' && pattern[1] != '\0') {
		size_t n = strcspn(++pattern, "/");

		if (takes_rest(pattern, n)) {
			struct http_slice rest = http_target_rest(t, seg);

			if (rest.p == NULL || param == REQ_PARAMS)
				return false;
			r->param[param] = rest;
			return true;
		}
		if (seg == t->nseg)
			return false;
		if (*pattern == '{') {
			if (param == REQ_PARAMS || t->seg[seg].n == 0)
				return false;
			r->param[param++] = t->seg[seg];
		} else if (t->seg[seg].n != n || memcmp(t->seg[seg].p, pattern, n) != 0) {
			return false;
		}
		seg++;
		pattern += n;
	}
	if (t->bad.status != 0)
		return false;
	if (*pattern == '/' && seg > 0) /* "/status/" */
		return seg + 1 == t->nseg && t->seg[seg].n == 0;
	return seg == t->nseg;
}

/* Whether it exists where the request came in. */
static bool is_here(const struct req *r, const struct route *row)
{
	unsigned int places = row->flags & ROUTE_PLACES;

	return (r->conn->listener->place & (places != 0 ? places : ROUTE_MAIN)) != 0;
}

static bool is_method(const struct req *r, const char *method)
{
	if (strcmp(method, "*") == 0 || http_slice_is(r->head.method, method))
		return true;
	return strcmp(method, "GET") == 0 && http_slice_is(r->head.method, "HEAD");
}

/* 00-<32 hex>-<16 hex>-<2 hex> */
static void take_trace(struct req *r)
{
	struct http_slice t = req_get(r, "traceparent");

	if (t.n != 55 || t.p[2] != '-' || t.p[35] != '-' || t.p[52] != '-')
		return;
	for (unsigned int i = 3; i < 35; i++)
		if (!((t.p[i] >= '0' && t.p[i] <= '9') || (t.p[i] >= 'a' && t.p[i] <= 'f')))
			return;
	(void)memcpy(r->trace, t.p + 3, 32);
}

/* Nothing here has this path, or none with this method. */
static int refuse_route(struct req *r, const struct route *other)
{
	char allow[64] = "";

	if (other == NULL) {
		req_refuse(r, 404, "not_found", NULL, "Not Found");
		return -1;
	}
	for (unsigned int i = 0; i < nroutes; i++)
		if (strcmp(routes[i].path, other->path) == 0 && is_here(r, &routes[i])) {
			size_t n = strlen(allow);

			(void)snprintf(allow + n, sizeof(allow) - n, "%s%s", n > 0 ? ", " : "",
				       routes[i].method);
		}
	r->route = other;
	req_header(r, "Allow", "%s", allow);
	req_refuse(r, 405, "method_not_allowed", NULL, "Method Not Allowed");
	return -1;
}

/* What is no target at all, or one that only a {path*} could take. It is told in the shape of the route that its path has, if any. */
static int refuse_target(struct req *r, const struct http_refusal *why)
{
	for (unsigned int i = 0; i < nroutes && r->route == NULL; i++)
		if (is_here(r, &routes[i]) && matches(r, routes[i].path))
			r->route = &routes[i];
	r->close = true;
	req_refuse(r, why->status, "malformed_request", NULL, "%s", why->why);
	return -1;
}

int route_find(struct req *r)
{
	const struct route *found = NULL, *other = NULL;
	struct http_refusal why;

	take_trace(r);
	r->head_only = http_slice_is(r->head.method, "HEAD");
	if (http_target_parse_open(r->head.target, &r->target, &why) < 0)
		return refuse_target(r, &why);
	for (unsigned int i = 0; i < nroutes && found == NULL; i++)
		if (is_here(r, &routes[i]) && matches(r, routes[i].path)) {
			other = &routes[i];
			if (is_method(r, routes[i].method))
				found = &routes[i];
		}
	if (other == NULL && r->target.bad.status != 0)
		return refuse_target(r, &r->target.bad);
	if (r->target.bad_query.status != 0 &&
	    (found == NULL || (found->flags & ROUTE_ANY_QUERY) == 0))
		return refuse_target(r, &r->target.bad_query);
	if (r->target.repeated &&
	    (found == NULL || (found->flags & (ROUTE_REPEATED | ROUTE_ANY_QUERY)) == 0)) {
		(void)http_refuse_repeated(&why);
		return refuse_target(r, &why);
	}
	/* Who may not ask does not learn what there is. */
	r->route = found;
	if (auth_check(r, found != NULL && (found->flags & ROUTE_OPEN) != 0) < 0)
		return -1;
	if (found != NULL && (found->flags & ROUTE_WS) != 0 && !r->head.upgrade_websocket) {
		req_header(r, "Upgrade", "websocket");
		req_refuse(r, 426, "upgrade_required", NULL, "this is a WebSocket");
		return -1;
	}
	return found == NULL ? refuse_route(r, other) : 0;
}
