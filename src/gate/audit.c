// SPDX-License-Identifier: Apache-2.0
/*
 * The audit file: one JSON object per event, appended by the store. What could not be written is counted; until it
 * can be again, nothing is run, if the operator wants it so (audit_on_error = refuse).
 */
#include "base/clock.h"
#include "gate/gate.h"

#include <stdio.h>
#include <string.h>

enum {
	SCHEMA = 1,
	RETRY_US = 1000 * 1000,
	REFUSED_US = 60 * 1000 * 1000,
	REFUSED_LINES = 60, /* in that time; the others are summed up */
};

static bool is_on(const struct gate *g)
{
	return strcmp(config_str(&g->config, CONF_AUDIT_FILE), "none") != 0;
}

static void on_written(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct gate *g = arg;

	if (m != NULL) {
		chan_msg_close(m);
		if (g->audit_failed_us != 0)
			log_line(&g->log, LOG_INFO, "audit_recovered");
		g->audit_failed_us = 0;
		return;
	}
	if (g->audit_failed_us == 0)
		log_line(&g->log, LOG_ERROR, "audit_failed",
			 log_str("why", f != NULL ? f->text : "the store is busy"));
	g->metrics.audit_lost++;
	g->audit_failed_us = clock_us();
}

void audit_write(struct gate *g, const char *event, const struct req *r, const char *const *pairs)
{
	uint8_t body[STORE_LINE_MAX + 8];
	struct timespec t;
	struct tm tm;
	char when[40];
	struct json j;
	ptrdiff_t n;
	size_t len;

	if (!is_on(g))
		return;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	(void)gmtime_r(&t.tv_sec, &tm);
	len = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(when + len, sizeof(when) - len, ".%03ldZ", t.tv_nsec / 1000000);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_u64(&j, "schema", SCHEMA);
	json_str(&j, "time", when);
	json_str(&j, "event", event);
	if (r != NULL) {
		json_str(&j, "request", r->id);
		if (r->trace[0] != '\0')
			json_str(&j, "trace", r->trace);
		if (r->route != NULL)
			json_str(&j, "route", r->route->path);
	}
	for (; pairs[0] != NULL; pairs += 2)
		json_str(&j, pairs[0], pairs[1]);
	json_close(&j, '}');
	n = j.failed ? -1 : store_audit_encode(j.buf, j.len, body, sizeof(body));
	json_done(&j);
	if (n < 0 || store_ask(&g->store, STORE_OP_AUDIT, body, (size_t)n, -1, on_written, g) < 0)
		on_written(g, NULL, NULL);
}

/* --- refused tokens: the one event that anybody can cause ------------------------------------------ */

void audit_sum_refused(struct gate *g)
{
	struct audit_refused *a = &g->audit_refused;
	char count[24];

	timer_clear(&g->loop, &a->over);
	if (a->n > REFUSED_LINES) {
		(void)snprintf(count, sizeof(count), "%llu",
			       (unsigned long long)(a->n - REFUSED_LINES));
		audit(g, "token_refused", NULL, "why", "many", "count", count, NULL);
	}
	a->n = 0;
}

static void on_over(void *arg)
{
	audit_sum_refused(arg);
}

void audit_token_refused(struct req *r, const char *why)
{
	struct gate *g = r->g;
	struct audit_refused *a = &g->audit_refused;

	/* Without a timer there is nobody to sum up. */
	if (a->n == 0 &&
	    timer_set(&g->loop, &a->over, g->loop.now_us + REFUSED_US, on_over, g) < 0) {
		audit(g, "token_refused", r, "peer", r->conn->peer, "why", why, NULL);
		return;
	}
	if (a->n++ < REFUSED_LINES)
		audit(g, "token_refused", r, "peer", r->conn->peer, "why", why, NULL);
}

bool audit_allows(const struct gate *g)
{
	if (g->audit_failed_us == 0 || config_enum(&g->config, CONF_AUDIT_ON_ERROR) != 0)
		return true;
	/* From time to time somebody must try, or nobody would notice that it works again. */
	return clock_us() - g->audit_failed_us > RETRY_US;
}
