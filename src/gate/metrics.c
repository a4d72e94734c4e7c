// SPDX-License-Identifier: Apache-2.0
#include "gate/metrics.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/boxes.h"
#include "gate/gate.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
	uint64_t us;
	const char *text;
} bounds[] = {
	{ 50000, "0.05" },    { 100000, "0.1" },    { 250000, "0.25" },     { 500000, "0.5" },
	{ 1000000, "1.0" },   { 2500000, "2.5" },   { 5000000, "5.0" },     { 10000000, "10.0" },
	{ 30000000, "30.0" }, { 60000000, "60.0" }, { 120000000, "120.0" }, { 300000000, "300.0" },
};
_Static_assert(ARRAY_LEN(bounds) == BUCKETS, "a bound for every bucket");

/* Boxes are made in milliseconds: the same counters with other bounds. */
static const struct {
	uint64_t us;
	const char *text;
} box_bounds[] = {
	{ 500, "0.0005" }, { 1000, "0.001" }, { 2000, "0.002" },  { 3000, "0.003" },
	{ 5000, "0.005" }, { 8000, "0.008" }, { 13000, "0.013" }, { 20000, "0.02" },
	{ 50000, "0.05" }, { 100000, "0.1" }, { 500000, "0.5" },  { 2000000, "2.0" },
};
_Static_assert(ARRAY_LEN(box_bounds) == BUCKETS, "a bound for every bucket");

static const char *const reject_str[] = { "concurrency_limit", "quota_exceeded", "unschedulable" };
static const int reject_status[] = { 429, 503, 503 };
static const char *const outcome_str[] = { "ok", "timed_out", "error" };
static const char *const adopted_str[] = { "session", "run", "box" };
_Static_assert(ARRAY_LEN(adopted_str) == ADOPTED_MAX, "a name for all that is taken over");

static void observe(struct histogram *h, unsigned int bucket, uint64_t us)
{
	h->bucket[bucket]++;
	h->count++;
	h->sum_us += us;
}

static unsigned int bucket_of(uint64_t us)
{
	unsigned int i = 0;

	while (i < BUCKETS && us > bounds[i].us)
		i++;
	return i;
}

void metrics_waited(struct metrics *m, enum operation op, uint64_t us)
{
	observe(&m->waited[op], bucket_of(us), us);
}

void metrics_rejected(struct metrics *m, enum operation op, enum reject why)
{
	m->rejected[op][why]++;
}

void metrics_completed(struct metrics *m, enum operation op, enum outcome how, uint64_t us)
{
	m->completed[op][how]++;
	observe(&m->lasted[op], bucket_of(us), us);
}

void metrics_box(struct metrics *m, uint64_t setup_us)
{
	unsigned int i = 0;

	while (i < BUCKETS && setup_us > box_bounds[i].us)
		i++;
	m->boxes_made++;
	observe(&m->box_setup, i, setup_us);
}

/* --- text --------------------------------------------------------------------------------------- */

static void put(struct json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct json *j, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0)
		json_raw(j, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void put_seconds(struct json *j, const char *name, const char *label, uint64_t us)
{
	put(j, "%s_sum%s %llu.%06llu\n", name, label, (unsigned long long)(us / 1000000),
	    (unsigned long long)(us % 1000000));
}

static void put_histogram(struct json *j, const char *name, const char *operation,
			  const struct histogram *h, const char *(*bound)(unsigned int i))
{
	char label[96] = "";
	uint64_t sum = 0;

	for (unsigned int i = 0; i <= BUCKETS; i++) {
		sum += h->bucket[i];
		put(j, "%s_bucket{%s%s%sle=\"%s\"} %llu\n", name,
		    operation != NULL ? "operation=\"" : "", operation != NULL ? operation : "",
		    operation != NULL ? "\"," : "", i < BUCKETS ? bound(i) : "+Inf",
		    (unsigned long long)sum);
	}
	if (operation != NULL)
		(void)snprintf(label, sizeof(label), "{operation=\"%s\"}", operation);
	put_seconds(j, name, label, h->sum_us);
	put(j, "%s_count%s %llu\n", name, label, (unsigned long long)h->count);
}

static const char *bound_text(unsigned int i)
{
	return bounds[i].text;
}

static const char *box_bound_text(unsigned int i)
{
	return box_bounds[i].text;
}

static void print_active(const struct gate *g, struct json *j, const char *name)
{
	for (int op = 0; op < OPERATION_MAX; op++)
		put(j, "%s{operation=\"%s\"} %u\n", name, operation_str((enum operation)op),
		    g->admit.by_operation[op]);
}

static void print_limit(const struct gate *g, struct json *j, const char *name)
{
	put(j, "%s %llu\n", name,
	    (unsigned long long)config_u64(&g->config, CONF_MAX_CONCURRENT_EXECUTIONS));
}

static void print_rejected(const struct gate *g, struct json *j, const char *name)
{
	for (int op = 0; op < OPERATION_MAX; op++)
		for (int why = 0; why < REJECT_MAX; why++)
			put(j, "%s{operation=\"%s\",status=\"%d\",reason=\"%s\"} %llu\n", name,
			    operation_str((enum operation)op), reject_status[why], reject_str[why],
			    (unsigned long long)g->metrics.rejected[op][why]);
}

static void print_completed(const struct gate *g, struct json *j, const char *name)
{
	for (int op = 0; op < OPERATION_MAX; op++)
		for (int how = 0; how < OUTCOME_MAX; how++)
			put(j, "%s{operation=\"%s\",outcome=\"%s\"} %llu\n", name,
			    operation_str((enum operation)op), outcome_str[how],
			    (unsigned long long)g->metrics.completed[op][how]);
}

static void print_waited(const struct gate *g, struct json *j, const char *name)
{
	for (int op = 0; op < OPERATION_MAX; op++)
		put_histogram(j, name, operation_str((enum operation)op), &g->metrics.waited[op],
			      bound_text);
}

static void print_lasted(const struct gate *g, struct json *j, const char *name)
{
	for (int op = 0; op < OPERATION_MAX; op++)
		put_histogram(j, name, operation_str((enum operation)op), &g->metrics.lasted[op],
			      bound_text);
}

static void print_setup(const struct gate *g, struct json *j, const char *name)
{
	put_histogram(j, name, NULL, &g->metrics.box_setup, box_bound_text);
}

static void print_requests(const struct gate *g, struct json *j, const char *name)
{
	for (unsigned int i = 1; i < STATUS_CLASSES; i++)
		put(j, "%s{status=\"%uxx\"} %llu\n", name, i,
		    (unsigned long long)g->metrics.requests[i]);
}

static void print_adopted(const struct gate *g, struct json *j, const char *name)
{
	for (int i = 0; i < ADOPTED_MAX; i++)
		put(j, "%s{what=\"%s\"} %llu\n", name, adopted_str[i],
		    (unsigned long long)g->metrics.adopted[i]);
}

static void print_images(const struct gate *g, struct json *j, const char *name)
{
	for (int i = 0; i < WARM_MAX; i++)
		put(j, "%s{image=\"%s\"} %d\n", name, warm_str((enum warm_kind)i),
		    genv_own(g)->warm.images[i].id != 0);
}

static void print_zygotes(const struct gate *g, struct json *j, const char *name)
{
	put(j, "%s{outcome=\"made\"} %llu\n", name, (unsigned long long)g->warmed.made);
	put(j, "%s{outcome=\"failed\"} %llu\n", name, (unsigned long long)g->warmed.failed);
}

static void print_pool(const struct gate *g, struct json *j, const char *name)
{
	for (int i = 0; i < WARM_MAX; i++) {
		const char *image = warm_str((enum warm_kind)i);
		unsigned int waiting, making;
		uint64_t oldest_us;

		pool_count(g, (enum warm_kind)i, &waiting, &making, &oldest_us);
		put(j, "%s{image=\"%s\",state=\"waiting\"} %u\n", name, image, waiting);
		put(j, "%s{image=\"%s\",state=\"making\"} %u\n", name, image, making);
	}
}

static void print_pool_age(const struct gate *g, struct json *j, const char *name)
{
	for (int i = 0; i < WARM_MAX; i++) {
		unsigned int waiting, making;
		uint64_t oldest_us;

		pool_count(g, (enum warm_kind)i, &waiting, &making, &oldest_us);
		put(j, "%s{image=\"%s\"} %llu\n", name, warm_str((enum warm_kind)i),
		    (unsigned long long)(oldest_us / US_PER_S));
	}
}

static void print_pool_taken(const struct gate *g, struct json *j, const char *name)
{
	for (int i = 0; i < WARM_MAX; i++) {
		const char *image = warm_str((enum warm_kind)i);

		put(j, "%s{image=\"%s\",outcome=\"hit\"} %llu\n", name, image,
		    (unsigned long long)g->pool.hits[i]);
		put(j, "%s{image=\"%s\",outcome=\"miss\"} %llu\n", name, image,
		    (unsigned long long)g->pool.misses[i]);
	}
}

static void put_by_image(struct json *j, const char *name, const uint64_t v[WARM_MAX])
{
	for (int i = 0; i < WARM_MAX; i++)
		put(j, "%s{image=\"%s\"} %llu\n", name, warm_str((enum warm_kind)i),
		    (unsigned long long)v[i]);
}

static void print_pool_made(const struct gate *g, struct json *j, const char *name)
{
	put_by_image(j, name, g->pool.made);
}

static void print_pool_lost(const struct gate *g, struct json *j, const char *name)
{
	put_by_image(j, name, g->pool.lost);
}

static void print_files(const struct gate *g, struct json *j, const char *name)
{
	unsigned int n = 0;

	for (const struct abox *a = g->aboxes; a != NULL; a = a->next)
		n += a->nfiles;
	put(j, "%s %u\n", name, n);
}

static void print_files_begun(const struct gate *g, struct json *j, const char *name)
{
	for (int i = 0; i < FILEOP_MAX; i++)
		put(j, "%s{operation=\"%s\"} %llu\n", name, fileop_row((enum fileop)i)->name,
		    (unsigned long long)g->metrics.file_calls[i]);
}

static void print_file_bytes(const struct gate *g, struct json *j, const char *name)
{
	put(j, "%s{direction=\"in\"} %llu\n", name, (unsigned long long)g->metrics.file_bytes_in);
	put(j, "%s{direction=\"out\"} %llu\n", name, (unsigned long long)g->metrics.file_bytes_out);
}

static void print_net_open(const struct gate *g, struct json *j, const char *name)
{
	uint64_t n = 0;

	for (const struct gbox *b = g->boxes; b != NULL; b = b->next)
		n += b->owner.counted.open;
	put(j, "%s %llu\n", name, (unsigned long long)n);
}

static void print_net_bytes(const struct gate *g, struct json *j, const char *name)
{
	put(j, "%s{direction=\"sent\"} %llu\n", name, (unsigned long long)g->metrics.net.sent);
	put(j, "%s{direction=\"received\"} %llu\n", name,
	    (unsigned long long)g->metrics.net.received);
}

#define PRINT(fn, value)                                                       \
	static void fn(const struct gate *g, struct json *j, const char *name) \
	{                                                                      \
		put(j, "%s %llu\n", name, (unsigned long long)(value));        \
	}

PRINT(print_net_connections, g->metrics.net.connections)
PRINT(print_net_refused, g->metrics.net.refused)
PRINT(print_net_questions, g->metrics.net.questions)
PRINT(print_connections, g->nconns)
PRINT(print_accepted, g->figures.accepted)
PRINT(print_paused, g->figures.paused)
PRINT(print_timeouts, g->figures.timeouts)
PRINT(print_malformed, g->figures.malformed)
PRINT(print_tokens, g->metrics.tokens_refused)
PRINT(print_pool_replaced, g->pool.replaced)
PRINT(print_pool_yielded, g->pool.yielded)
PRINT(print_boxes, g->nboxes)
PRINT(print_made, g->metrics.boxes_made)
PRINT(print_failed, g->metrics.boxes_failed)
PRINT(print_oom, g->metrics.boxes_oom)
PRINT(print_refused, g->metrics.calls_refused)
PRINT(print_sessions, g->nsessions)
PRINT(print_audit, g->metrics.audit_lost)

void metrics_print(const struct gate *g, struct json *j)
{
	static const struct {
		const char *name, *type, *help;
		void (*print)(const struct gate *g, struct json *j, const char *name);
	} series[] = {
#define SERIES(name, type, help, print) { name, type, help, print },
#include "gate/metrics.tbl"
#undef SERIES
	};

	for (unsigned int i = 0; i < ARRAY_LEN(series); i++) {
		put(j, "# HELP %s %s\n# TYPE %s %s\n", series[i].name, series[i].help,
		    series[i].name, series[i].type);
		series[i].print(g, j, series[i].name);
	}
}
