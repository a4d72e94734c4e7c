// SPDX-License-Identifier: Apache-2.0
/*
 * How a client and its server find the era that both speak.
 *
 * Connecting is one request that is sent up to three times: server/discover; the same again if the server names another version
 * which we speak; initialize, if whatever came is no answer of the modern era, or nothing comes for a while. So a request has
 * another id each time it is sent, and what comes late for an old one is for nobody.
 */
#include "mcp/client_impl.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>

static const char *const legacy[] = { MCPC_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05" };

static bool speaks(struct json_text versions, const char *version)
{
	struct json_walk w = json_walk(versions);
	struct json_text key, value;
	char text[MCPC_VERSION];

	if (json_text_kind(versions) != '[')
		return false;
	while (json_walk_next(&w, &key, &value))
		if (json_text_str(value, text, sizeof(text)) && strcmp(text, version) == 0)
			return true;
	return false;
}

/* What the server calls itself. */
static void take_server(struct mcpc *c, struct json_text info)
{
	struct json_member m[] = { { .key = "name" }, { .key = "version" } };
	char name[64], version[40];

	json_text_find(info, m, ARRAY_LEN(m));
	mcpc_cut(m[0].value, name, sizeof(name));
	mcpc_cut(m[1].value, version, sizeof(version));
	(void)snprintf(c->server, sizeof(c->server), "%s%s%s", name, version[0] != '\0' ? " " : "",
		       version);
}

static void put_initialize(struct mcpc_request *r)
{
	struct json j;

	json_init(&j);
	json_str(&j, "protocolVersion", MCPC_LEGACY);
	mcpc_put_client(r->c, &j, "clientInfo", "capabilities");
	own_free_p(&r->members);
	if (j.failed)
		json_done(&j);
	r->members = j.buf;
}

void mcpc_fall_back(struct mcpc_request *r)
{
	struct mcpc *c = r->c;

	if (c->way->drop != NULL && r->id != 0)
		c->way->drop(c->way, r->id);
	r->kind = MCPC_INITIALIZE;
	r->method = "initialize";
	r->probe_us = UINT64_MAX;
	put_initialize(r);
	mcpc_send_request(r);
}

static void probe_again(struct mcpc_request *r, uint64_t now_us)
{
	r->kind = MCPC_PROBE_AGAIN;
	r->probe_us = now_us + r->c->bounds.probe_us;
	mcpc_send_request(r);
}

static void connected(struct mcpc_request *r, enum mcpc_era era, const char *version,
		      struct json_text info, struct json_text result)
{
	struct mcpc *c = r->c;

	c->era = era;
	(void)snprintf(c->spoken, sizeof(c->spoken), "%s", version);
	take_server(c, info);
	if (era == MCPC_ERA_LEGACY)
		mcpc_send_notification(c, "notifications/initialized", NULL, true);
	if (mcpc_keep(r, result, &r->result))
		mcpc_finish(r, MCPC_DONE);
}

void mcpc_probe_answered(struct mcpc_request *r, struct json_text result, struct json_text error,
			 uint64_t now_us)
{
	struct json_member m[] = { { .key = "supportedVersions" },
				   { .key = "serverInfo" },
				   { .key = "_meta" } };
	struct json_member meta = { .key = MCPC_META "serverInfo" };
	struct json_member e[] = { { .key = "code" }, { .key = "data" } };
	struct json_member supported = { .key = "supported" };
	int64_t code = 0;

	if (json_text_kind(error) != '\0') {
		json_text_find(error, e, ARRAY_LEN(e));
		json_text_find(e[1].value, &supported, 1);
		if (json_text_i64(e[0].value, &code) && code == MCPC_E_NO_VERSION &&
		    r->kind == MCPC_PROBE && speaks(supported.value, MCPC_MODERN))
			probe_again(r, now_us);
		else
			mcpc_fall_back(r);
		return;
	}
	json_text_find(result, m, ARRAY_LEN(m));
	json_text_find(m[2].value, &meta, 1);
	if (!speaks(m[0].value, MCPC_MODERN)) {
		mcpc_fall_back(r);
		return;
	}
	connected(r, MCPC_ERA_MODERN, MCPC_MODERN,
		  json_text_kind(meta.value) == '{' ? meta.value : m[1].value, result);
}

void mcpc_initialize_answered(struct mcpc_request *r, struct json_text result)
{
	struct json_member m[] = { { .key = "protocolVersion" }, { .key = "serverInfo" } };
	char version[64];

	json_text_find(result, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, version, sizeof(version))) {
		mcpc_finish_failed(r,
				   "the answer to 'initialize' names no version of the protocol");
		return;
	}
	for (unsigned int i = 0; i < ARRAY_LEN(legacy); i++)
		if (strcmp(legacy[i], version) == 0) {
			connected(r, MCPC_ERA_LEGACY, legacy[i], m[1].value, result);
			return;
		}
	mcpc_finish_failed(
		r, "the server speaks version '%s' of the protocol, which this client does not",
		version);
}

void mcpc_connect(struct mcpc *c, struct mcpc_request *r, uint64_t now_us)
{
	if (!mcpc_begin(c, r, MCPC_PROBE, "server/discover"))
		return;
	if (c->way->legacy) {
		mcpc_fall_back(r);
		return;
	}
	r->probe_us = now_us + c->bounds.probe_us;
	mcpc_send_request(r);
}
