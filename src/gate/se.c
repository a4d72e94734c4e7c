// SPDX-License-Identifier: Apache-2.0
#include "gate/se.h"

#include "base/own.h"
#include "gate/ci.h"

#include <string.h>

#define HOME "HOME="

void se_limits(struct gate *g, struct box_request *q)
{
	const struct config *c = &g->config;

	ci_limits(g, q);
	q->limits.v[LIMIT_MEMORY] = config_u64(c, CONF_SE_MEMORY);
	q->limits.v[LIMIT_CPUS] = config_u64(c, CONF_SE_CPUS);
	q->limits.v[LIMIT_PROCESSES] = config_u64(c, CONF_SE_PROCESSES);
	q->limits.v[LIMIT_CPU_SECONDS] = 0;
	q->limits.v[LIMIT_OUTPUT] = config_u64(c, CONF_SE_OUTPUT_BYTES);
	q->limits.v[LIMIT_SCRATCH] = config_u64(c, CONF_SE_SCRATCH);
}

const char *const *se_environment(void)
{
	static const char *const all[] = {
#define ENV(name, value) name "=" value,
#include "policy/environment.tbl"
#undef ENV
		"PYTHONIOENCODING=utf-8",
	};
	static const char *v[ARRAY_LEN(all) + 2];

	if (v[0] != NULL)
		return v;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		v[i] = strncmp(all[i], HOME, strlen(HOME)) == 0 ? HOME "/workspace" : all[i];
	v[ARRAY_LEN(all)] = "PYTHONPATH=/workspace";
	return v;
}

void se_healthy(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "status", "success");
	json_close(&j, '}');
	req_json(r, 200, &j);
}
