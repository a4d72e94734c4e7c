// SPDX-License-Identifier: Apache-2.0
/* GET /health, /ready, /metrics. */
#include "base/clock.h"
#include "base/layers.h"
#include "gate/ci.h"
#include "gate/genv.h"

#include "config.gen.h"

#include <string.h>

/* The level of the dialect that clients look at to know what they may call. */
#define LEVEL "0.4.4"

static void put_missing(struct json *j, const struct gate *g)
{
	json_open(j, "missing_layers", '[');
	for (int i = 0; g->trial.any && i < LAYER_MAX; i++)
		if ((g->trial.layers & LAYER_BIT(i)) == 0 && g->trial.ok)
			json_str(j, NULL, layer_row((enum layer)i)->name);
	json_close(j, ']');
}

static void put_warm(struct json *j, const struct gate *g)
{
	json_open(j, "warm", '[');
	for (int i = 0; i < WARM_MAX; i++)
		if (genv_own(g)->warm.images[i].id != 0)
			json_str(j, NULL, warm_str((enum warm_kind)i));
	json_close(j, ']');
}

static void put_health(struct json *j, const struct gate *g)
{
	const struct trial *t = &g->trial;
	bool ok = t->any && t->ok;

	json_open(j, NULL, '{');
	json_str(j, "status", ok ? "ok" : "error");
	if (ok)
		json_null(j, "message");
	else
		json_str(j, "message", t->any ? t->why : "not checked yet");
	json_str(j, "version", LEVEL);
	json_str(j, "executor_backend", "native");
	json_str(j, "network_isolation",
		 net_default(g, NET_DEFAULT_CI)->mode == NET_NONE ? "network_namespace:none"
								  : "network_namespace:allow");
	json_str(j, "glovebox_version", GLOVEBOX_VERSION);
	if (config_bool(&g->config, CONF_NO_AUTH))
		json_bool(j, "no_auth", true);
	put_missing(j, g);
	put_warm(j, g);
	json_close(j, '}');
}

static void answer_health(struct req *r)
{
	const struct gate *g = r->g;
	uint64_t stuck_us = 3 * config_u64(&g->config, CONF_HEALTH_CHECK_INTERVAL) +
			    config_u64(&g->config, CONF_BACKEND_CHECK_TIMEOUT);
	bool stuck = g->trial.any && clock_us() - g->trial.done_us > stuck_us;
	struct json j;

	json_init(&j);
	put_health(&j, g);
	req_json(r, stuck ? 503 : 200, &j);
}

void ci_health(struct req *r)
{
	if (r->g->trial.any)
		answer_health(r);
	else /* the first is under way: a few milliseconds */
		trial_wait(r->g, r, answer_health);
}

static void answer_ready(struct req *r)
{
	struct json j;

	json_init(&j);
	put_health(&j, r->g);
	req_json(r, r->g->trial.ok && !r->g->stopping && warm_is_settled(r->g) ? 200 : 503, &j);
}

void ci_ready(struct req *r)
{
	trial_wait(r->g, r, answer_ready);
}

void ci_metrics(struct req *r)
{
	struct json j;

	json_init(&j);
	metrics_print(r->g, &j);
	if (j.failed)
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
	else
		req_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", j.buf, j.len);
	json_done(&j);
}
