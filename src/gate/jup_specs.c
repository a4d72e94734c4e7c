// SPDX-License-Identifier: Apache-2.0
/* Jupyter's REST calls that clients make first: what this is, and what kinds of kernels there are. */
#include "gate/jup.h"

#include "base/own.h"
#include "gate/genv.h"

#include "config.gen.h"

#include <stdio.h>
#include <string.h>

/* Names under which the machine's own environment is known: Jupyter's, and that of clients which say what language they want. */
static const char *const names[] = { "python3", "python" };

bool jup_is_spec(const struct gate *g, const char *name)
{
	const struct genv *v;

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	v = genv_find(g, name);
	return v != NULL && v->row.id != 0 && v->row.cells;
}

static void put_spec(struct json *j, const char *key, const char *name)
{
	char shown[ENV_NAME + 32] = "Python 3 (Glovebox)";

	if (!env_is_own(name))
		(void)snprintf(shown, sizeof(shown), "%s (Glovebox)", name);
	json_open(j, key, '{');
	json_str(j, "name", name);
	json_open(j, "spec", '{');
	json_open(j, "argv", '[');
	json_close(j, ']');
	json_open(j, "env", '{');
	json_close(j, '}');
	json_str(j, "display_name", shown);
	json_str(j, "language", "python");
	json_str(j, "interrupt_mode", "message");
	json_open(j, "metadata", '{');
	json_close(j, '}');
	json_close(j, '}');
	json_open(j, "resources", '{');
	json_close(j, '}');
	json_close(j, '}');
}

void jup_specs(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "default", names[0]);
	json_open(&j, "kernelspecs", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		put_spec(&j, names[i], names[i]);
	for (const struct genv *v = genv_own(r->g)->next; v != NULL; v = v->next)
		if (!v->row.gone && v->row.cells)
			put_spec(&j, v->row.name, v->row.name);
	json_close(&j, '}');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void jup_spec(struct req *r)
{
	struct http_slice name = req_param(r);
	char text[ENV_NAME];
	struct json j;

	(void)snprintf(text, sizeof(text), "%.*s", name.n < ENV_NAME ? (int)name.n : 0, name.p);
	if (jup_is_spec(r->g, text)) {
		json_init(&j);
		put_spec(&j, NULL, text);
		req_json(r, 200, &j);
		return;
	}
	req_refuse(r, 404, "not_found", NULL, "Kernel spec %.*s not found",
		   (int)(name.n < 64 ? name.n : 64), name.p);
}

void jup_api(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "version", GLOVEBOX_VERSION);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

/* How busy it is, as a notebook server says it. */
void jup_status_get(struct req *r)
{
	uint64_t kernels = 0, connections = 0, last_ms = 0;
	struct abox *scope;
	struct json j;

	if (req_box(r, &scope) < 0)
		return;
	for (const struct abox *a = r->g->aboxes; a != NULL; a = a->next)
		for (const struct kernel *k = a->kernels; k != NULL; k = k->next) {
			if (!jup_sees(r, scope, k))
				continue;
			kernels++;
			connections += k->jup != NULL ? k->jup->nclients : 0;
			if (k->jup != NULL && k->jup->active_ms > last_ms)
				last_ms = k->jup->active_ms;
		}
	json_init(&j);
	json_open(&j, NULL, '{');
	own_time(&j, "started", r->g->started_ms);
	own_time(&j, "last_activity", last_ms > 0 ? last_ms : r->g->started_ms);
	json_u64(&j, "kernels", kernels);
	json_u64(&j, "connections", connections);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void jup_me(struct req *r)
{
	const char *name = r->tenant->name;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "identity", '{');
	json_str(&j, "username", name);
	json_str(&j, "name", name);
	json_str(&j, "display_name", name);
	json_str(&j, "initials", "");
	json_null(&j, "avatar_url");
	json_null(&j, "color");
	json_close(&j, '}');
	json_open(&j, "permissions", '{');
	json_close(&j, '}');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

/* --- a description -------------------------------------------------------------------------------- */

/* Behind "/api"; NULL: the route is none of this dialect's. */
static const char *own_path(const struct route *row)
{
	return row->shape == SHAPE_REASON && strncmp(row->path, "/api/", 5) == 0 ? row->path + 4
										 : NULL;
}

static void put_parameters(struct json *j, const struct route *row)
{
	json_open(j, "parameters", '[');
	for (const char *p = strchr(row->path, '{'); p != NULL; p = strchr(p + 1, '{')) {
		json_open(j, NULL, '{');
		json_bytes(j, "name", p + 1, strcspn(p + 1, "}"));
		json_str(j, "in", "path");
		json_str(j, "type", "string");
		json_bool(j, "required", true);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_operation(struct json *j, const struct route *row)
{
	char method[8], status[8];
	size_t n = 0;

	for (; n < sizeof(method) - 1 && row->method[n] != '\0'; n++)
		method[n] = (char)(row->method[n] | 0x20);
	method[n] = '\0';
	(void)snprintf(status, sizeof(status), "%d", row->status);
	json_open(j, method, '{');
	json_str(j, "summary", row->doc);
	put_parameters(j, row);
	json_open(j, "responses", '{');
	json_open(j, status, '{');
	json_str(j, "description", req_reason(row->status));
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

/* As a kernel gateway has it: Swagger 2.0. JSON is YAML, too. */
void jup_swagger(struct req *r)
{
	const struct http_target *t = &r->target;
	bool yaml = t->nseg > 0 && http_slice_is(t->seg[t->nseg - 1], "swagger.yaml");
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "swagger", "2.0");
	json_open(&j, "info", '{');
	json_str(&j, "title", "Glovebox as a Jupyter kernel gateway");
	json_str(&j, "version", GLOVEBOX_VERSION);
	json_close(&j, '}');
	json_str(&j, "basePath", "/api");
	json_open(&j, "paths", '{');
	for (unsigned int i = 0; i < nroutes; i++) {
		const char *path = own_path(&routes[i]);

		if (path == NULL || (i > 0 && strcmp(routes[i - 1].path, routes[i].path) == 0))
			continue;
		json_open(&j, path, '{');
		for (unsigned int k = i; k < nroutes && strcmp(routes[k].path, routes[i].path) == 0;
		     k++)
			put_operation(&j, &routes[k]);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	json_close(&j, '}');
	if (j.failed || !yaml) {
		req_json(r, 200, &j);
		return;
	}
	req_reply(r, 200, "text/x-yaml", j.buf, j.len);
	json_done(&j);
}

/* Files of a kernel's kind: there are none. */
void jup_nothing(struct req *r)
{
	req_refuse(r, 404, "not_found", NULL, "there is no such file");
}
