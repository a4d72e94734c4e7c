// SPDX-License-Identifier: Apache-2.0
#include "gate/kernels.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/box_net.h"
#include "gate/ci.h"
#include "gate/genv.h"
#include "gate/jup.h"
#include "gate/pool.h"
#include "wire/json_text.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* From its start to its first word: an import of everything, on a busy machine. */
#define START_US (60 * US_PER_S)
/* Kernels of a box that die are replaced: so many at once, then one in each of these times. To make one is work for the whole machine, and a cell that ends
 * its kernel over and over is not to be felt by others. */
#define REPLACE_US (US_PER_S / 2)
enum { REPLACED_AT_ONCE = 8 };

static const char *const deaths[] = { "", "crashed", "oom", "timeout", "exited", "cancelled" };
_Static_assert(ARRAY_LEN(deaths) == DEATH_MAX, "a word for every end");

static const char *const states[] = { "none", "starting", "idle", "busy", "ending" };

const char *kernel_death_str(enum kernel_death d)
{
	return deaths[d];
}

const char *kernel_state_str(const struct kernel *k)
{
	return states[k->state];
}

bool kernel_name_ok(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9') &&
		    name[i] != '-' && name[i] != '_')
			return false;
	return n > 0 && n < KERNEL_NAME;
}

struct kernel *kernel_named(const struct abox *a, const char *name, size_t n)
{
	struct kernel *k = a->kernels;

	while (k != NULL && (strlen(k->name) != n || memcmp(k->name, name, n) != 0))
		k = k->next;
	return k;
}

/* --- UUIDs ------------------------------------------------------------------------------------------ */

/* The first 20 bits name the node, as the first 4 characters of other ids do. */
static void make_uuid(const struct abox *a, const char *name, char uuid[KERNEL_UUID])
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t hash[SHA256_DIGEST_LENGTH];
	char text[OWN_ID + KERNEL_NAME + 16];
	uint32_t node = 0;
	int n = snprintf(text, sizeof(text), "kernel %s %s", a->id, name);

	(void)SHA256((const unsigned char *)text, (size_t)n, hash);
	for (unsigned int i = 0; i < 4; i++) {
		const char *at = strchr(digits, a->id[i]);

		node = node << 5 | (uint32_t)(at != NULL && *at != '\0' ? at - digits : 0);
	}
	(void)snprintf(uuid, KERNEL_UUID,
		       "%05x%01x%02x-%02x%02x-4%01x%02x-%x%01x%02x-%02x%02x%02x%02x%02x%02x", node,
		       hash[0] & 15u, hash[1], hash[2], hash[3], hash[4] & 15u, hash[5],
		       8u + (hash[6] & 3u), (unsigned int)hash[6] >> 4, hash[7], hash[8], hash[9],
		       hash[10], hash[11], hash[12], hash[13]);
}

static uint32_t uuid_hash(const char *uuid, size_t n)
{
	uint32_t h = 0;

	for (size_t i = n < 6 ? 0 : n - 6; i < n; i++)
		h = h * 31 + (unsigned char)uuid[i];
	return h;
}

struct kernel *kernel_with_uuid(const struct gate *g, const struct tenant *t, const char *uuid,
				size_t n)
{
	struct table_item *i = table_first(&g->kernel_table, uuid_hash(uuid, n));

	for (; i != NULL; i = table_next(i)) {
		struct kernel *k = (struct kernel *)((char *)i - offsetof(struct kernel, by_uuid));

		if (k->a->tenant == t && strlen(k->uuid) == n && memcmp(k->uuid, uuid, n) == 0)
			return k;
	}
	return NULL;
}

struct kernel *kernel_new(struct abox *a, const char *name)
{
	struct kernel *k, **at = &a->kernels;
	unsigned int n = 0, taken = 0;
	uint8_t number = 1;

	for (; *at != NULL; at = &(*at)->next, n++)
		taken |= 1u << (*at)->number;
	while ((taken & 1u << number) != 0)
		number++;
	k = n < BOX_KERNELS_MAX ? calloc(1, sizeof(*k)) : NULL;
	if (k == NULL)
		return NULL;
	make_uuid(a, name, k->uuid);
	if (table_add(&a->g->kernel_table, &k->by_uuid, uuid_hash(k->uuid, KERNEL_UUID - 1)) < 0) {
		free(k);
		return NULL;
	}
	k->a = a;
	k->number = number;
	(void)snprintf(k->name, sizeof(k->name), "%s", name);
	*at = k;
	return k;
}

static void kernel_free(void *arg)
{
	struct kernel *k = arg;

	free(k->info);
	free(k);
}

static void kernel_drop(struct kernel *k)
{
	struct kernel **at = &k->a->kernels;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	jup_drop(k);
	table_remove(&k->a->g->kernel_table, &k->by_uuid);
	timer_clear(&k->a->g->loop, &k->late);
	gjob_drop(&k->job);
	loop_defer(&k->a->g->loop, &k->deferred, kernel_free, k);
}

/* --- who waits for its end ------------------------------------------------------------------------ */

static void waiter_gone(struct req *r)
{
	struct kernel_waiter *w = r->work;

	w->r = NULL;
}

void kernel_await(struct kernel *k, struct req *r)
{
	struct kernel_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	w->g = r->g;
	w->r = r;
	w->next = k->waiters;
	k->waiters = w;
	r->work = w;
	r->gone = waiter_gone;
}

static void on_answer(void *arg)
{
	struct kernel_waiter *w = arg;
	struct req *r = w->r;

	free(w);
	if (r == NULL)
		return;
	r->gone = NULL;
	req_reply(r, 204, NULL, "", 0);
}

/* At the end of this turn: with an answer the next request of that connection begins. */
static void answer_waiters(struct kernel *k)
{
	while (k->waiters != NULL) {
		struct kernel_waiter *w = k->waiters;

		k->waiters = w->next;
		loop_defer(&w->g->loop, &w->deferred, on_answer, w);
	}
}

/* --- its end -------------------------------------------------------------------------------------- */

static void cancel_queue(struct kernel *k, const char *why)
{
	while (k->queue != NULL)
		cell_cancel(k->queue, why);
}

/* Its process is gone, and nobody runs in it any more. */
static void ended(struct kernel *k)
{
	struct abox *a = k->a;
	bool unwanted = k->unwanted, again = k->again;

	timer_clear(&a->g->loop, &k->late);
	if (!unwanted && !k->shunned && !k->failed) /* nobody asked for it */
		pace_count(&a->deaths, a->g->loop.now_us, REPLACE_US);
	if (k->jup != NULL && !unwanted && !k->shunned &&
	    !k->failed) /* it died: its clients want another one */
		again = jup_died(k);
	k->state = KERNEL_NONE;
	k->job_id = 0;
	k->again = k->shunned = false;
	if (unwanted)
		cancel_queue(k, "the kernel was ended");
	answer_waiters(k);
	if (unwanted)
		kernel_drop(k);
	else if (again || k->queue != NULL)
		kernel_turn(k);
	abox_changed(a);
}

/* It never said what it is. */
static void not_begun(struct kernel *k)
{
	char why[TASK_ERROR_TEXT];

	log_line(&k->a->g->log, LOG_WARN, "kernel_failed", log_str("box", k->a->id),
		 log_bool("warm", k->warm), log_str("said", k->said));
	if (k->warm && !k->chilled && ++k->tries < KERNEL_THAW_TRIES) {
		k->again = true;
	} else if (k->warm && !k->chilled && !k->copy) {
		k->chilled = true;
		k->again = true;
	} else {
		(void)snprintf(why, sizeof(why), "the kernel could not be started: %.100s",
			       k->nsaid > 0 ? k->said : "it ended without a word");
		jup_abort(k);
		cancel_queue(k, why);
		k->again = false;
		k->failed = true;
		jup_state(k, "dead");
	}
	ended(k);
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct kernel *k = arg;

	gjob_ack(&k->job, number);
	gjob_drop(&k->job);
	if (k->running != NULL) { /* the keeper was asked what it died of */
		k->gone = true;
		return;
	}
	if (k->state == KERNEL_STARTING && !k->shunned) {
		if (k->nsaid == 0 && x->how == JOB_EXITED)
			k->nsaid = (size_t)snprintf(k->said, sizeof(k->said),
						    "it ended with status %d", x->code);
		not_begun(k);
		return;
	}
	if (!k->shunned && k->death == DEATH_NONE)
		k->death = x->how == JOB_SIGNALED ? DEATH_CRASHED : DEATH_EXITED;
	ended(k);
}

static void on_failed(void *arg, int error, const char *why)
{
	struct kernel *k = arg;

	(void)snprintf(k->said, sizeof(k->said), "%s", why);
	k->nsaid = strlen(k->said);
	if (k->adopted && error == EALREADY) { /* it ended, and the last gate knew */
		k->death = k->death == DEATH_NONE ? DEATH_CRASHED : k->death;
		if (k->running != NULL)
			k->gone = true;
		else
			ended(k);
	} else {
		not_begun(k);
	}
}

static void on_late(void *arg)
{
	struct kernel *k = arg;

	(void)snprintf(k->said, sizeof(k->said), "it did not say a word in time");
	k->nsaid = strlen(k->said);
	gjob_signal(&k->job, SIGKILL, 0);
}

/* --- its beginning -------------------------------------------------------------------------------- */

/* What a Python prints outside of cells is of interest when it fails. */
static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct kernel *k = arg;
	size_t room = sizeof(k->said) - 1;

	(void)stream;
	/* The last words: a traceback ends with what matters. */
	if (n > room) {
		p += n - room;
		n = room;
	}
	if (k->nsaid + n > room) {
		(void)memmove(k->said, k->said + (k->nsaid + n - room), room - n);
		k->nsaid = room - n;
	}
	(void)memcpy(k->said + k->nsaid, p, n);
	k->nsaid += n;
	k->said[k->nsaid] = '\0';
	gjob_ack(&k->job, number);
}

/* For clients that ask while it is busy: as the reply to kernel_info. */
static void keep_info(struct kernel *k, const char *p, size_t n)
{
	static const struct {
		const char *from, *to;
	} rows[] = { { "implementation", "implementation" },
		     { "ipython", "implementation_version" },
		     { "language_info", "language_info" },
		     { "banner", "banner" } };
	struct json_text said;
	struct json j;

	free(k->info);
	k->info = NULL;
	if (n > KERNEL_INFO_MAX || json_text_read(p, n, &said) < 0)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "status", "ok");
	json_str(&j, "protocol_version", "5.3");
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		struct json_member m = { .key = rows[i].from };

		json_text_find(said, &m, 1);
		json_text_put(m.value, &j, rows[i].to);
	}
	json_open(&j, "help_links", '[');
	json_close(&j, ']');
	json_close(&j, '}');
	json_raw(&j, "", 1);
	if (!j.failed)
		k->info = strdup(j.buf);
	json_done(&j);
}

/* What it is: from now on it takes cells. */
static void on_message(void *arg, uint64_t number, unsigned int flags, const uint8_t *p, size_t n)
{
	struct kernel *k = arg;
	bool starting = k->state == KERNEL_STARTING;

	if ((flags & FRAME_MORE) == 0 && (starting || k->info == NULL))
		keep_info(k, (const char *)p, n);
	if (k->info == NULL) /* else init keeps it: the next gate wants to hear it, too */
		gjob_ack(&k->job, number);
	if ((flags & FRAME_MORE) != 0 || !starting)
		return;
	timer_clear(&k->a->g->loop, &k->late);
	k->copy = false;
	k->tries = 0;
	k->state = KERNEL_IDLE;
	jup_state(k, "idle");
	kernel_turn(k);
	abox_changed(k->a);
}

static const struct gjob_ops job_ops = {
	.output = on_output, .message = on_message, .ended = on_ended, .failed = on_failed
};

static void put_variables(struct json *j, const char *const *e)
{
	for (; *e != NULL; e++) {
		const char *is = strchr(*e, '=');
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(is - *e), *e);
		json_str(j, name, is + 1);
	}
}

static void put_env(struct json *j, const struct abox *a)
{
	const char *key, *value;
	size_t at = 0;

	json_open(j, "env", '{');
	put_variables(j, ci_environment());
	put_variables(j, genv_variables(a->box->env));
	put_variables(j, box_net_variables(a));
	while (texts_next(&a->env, &at, &key, &value))
		json_str(j, key, value); /* a later one wins */
	json_close(j, '}');
}

static int go(struct kernel *k)
{
	struct json j;
	int r;

	json_init(&j);
	json_open(&j, NULL, '{');
	put_env(&j, k->a);
	json_str(&j, "cwd", k->a->box->cwd);
	json_bool(&j, "history", true);
	json_bool(&j, "sync", true);
	json_close(&j, '}');
	r = j.failed ? -ENOMEM : gjob_go(&k->job, 0, 0, j.buf, j.len);
	json_done(&j);
	return r;
}

static void start(struct kernel *k)
{
	struct abox *a = k->a;
	int r = 0;

	k->state = KERNEL_STARTING;
	k->failed = false;
	jup_state(k, "starting");
	k->nsaid = 0;
	k->said[0] = '\0';
	k->adopted = false;
	if (!a->box->env->row.cells || a->box->env->python == NULL) {
		(void)snprintf(k->said, sizeof(k->said), "environment '%.63s' has no IPython",
			       a->box->env->row.name);
		k->nsaid = strlen(k->said);
		k->chilled = true; /* nor would it have one then */
		not_begun(k);
		return;
	}
	if (a->has_pooled && !k->chilled) {
		a->has_pooled = false;
		k->warm = true;
		gjob_give(&a->pooled, &k->job, &job_ops, k);
	} else {
		k->warm = a->box->info.image != 0 && !k->chilled;
		r = kernel_job_start(a->box, &k->job, 0, k->warm, &job_ops, k);
	}
	k->job_id = r == 0 ? k->job.id : 0;
	k->started_ms = own_now_ms();
	if (r == 0)
		r = go(k);
	if (r < 0) {
		gjob_drop(&k->job);
		(void)snprintf(k->said, sizeof(k->said), "no memory");
		k->nsaid = strlen(k->said);
		k->chilled = true; /* once is enough */
		not_begun(k);
		return;
	}
	(void)timer_set(&a->g->loop, &k->late, a->g->loop.now_us + START_US, on_late, k);
	abox_changed(a);
}

static void on_turn(void *arg)
{
	kernel_turn(arg);
}

/* Too many have died lately: its turn comes. */
static bool is_put_off(struct kernel *k)
{
	struct loop *l = &k->a->g->loop;
	uint64_t at = pace_at(&k->a->deaths, REPLACE_US, REPLACED_AT_ONCE);

	return at > l->now_us && timer_set(l, &k->late, at, on_turn, k) == 0;
}

void kernel_turn(struct kernel *k)
{
	if (k->a->state != ABOX_READY || k->a->box == NULL)
		return;
	if (k->gone && k->running == NULL) {
		k->gone = false;
		ended(k);
		return;
	}
	if (k->state == KERNEL_NONE && !is_put_off(k))
		start(k);
	while (k->state == KERNEL_IDLE && k->queue != NULL) {
		struct cell *c = k->queue;

		k->queue = c->next;
		if (k->queue == NULL)
			k->last = NULL;
		c->next = NULL;
		k->nqueued--;
		k->running = c;
		k->state = KERNEL_BUSY;
		if ((c->t.flags & TASK_ASIDE) == 0) { /* a question tells nobody */
			c->restarted = k->death;
			k->death = DEATH_NONE;
		}
		if (cell_send(c) < 0)
			task_finish(&c->t, TASK_CRASHED);
	}
}

void kernel_kill(struct kernel *k, enum kernel_death why)
{
	if (k->state == KERNEL_NONE)
		return;
	if (why != DEATH_NONE)
		k->death = why;
	gjob_signal(&k->job, SIGKILL, 0);
}

void kernel_end(struct kernel *k, bool again)
{
	k->again = again;
	k->unwanted = !again;
	jup_abort(k);
	cancel_queue(k, again ? "the kernel was restarted" : "the kernel was ended");
	if (k->state == KERNEL_NONE) {
		ended(k);
		return;
	}
	k->shunned = true;
	k->death = DEATH_NONE;
	if (k->state != KERNEL_BUSY) /* nothing more is sent to it */
		k->state = KERNEL_DYING;
	kernel_kill(k, DEATH_NONE);
	abox_changed(k->a);
}

void kernels_end(struct abox *a)
{
	while (a->kernels != NULL) {
		struct kernel *k = a->kernels;

		cancel_queue(k, "the box has ended");
		answer_waiters(k);
		kernel_drop(k);
	}
}

/* --- another gate --------------------------------------------------------------------------------- */

void kernels_save(const struct abox *a, struct msg_out *m)
{
	uint8_t n = 0;

	for (const struct kernel *k = a->kernels; k != NULL; k = k->next)
		n++;
	msg_put_u8(m, n);
	for (const struct kernel *k = a->kernels; k != NULL; k = k->next) {
		msg_put_str(m, k->name);
		msg_put_u8(m, k->number);
		msg_put_u8(m, (uint8_t)k->state);
		msg_put_u8(m, (uint8_t)k->death);
		msg_put_u8(m, (uint8_t)((k->warm ? 1u : 0) | (k->chilled ? 2u : 0) |
					(k->again ? 4u : 0) | (k->unwanted ? 8u : 0) |
					(k->shunned ? 16u : 0)));
		msg_put_u64(m, k->job_id);
		msg_put_u64(m, k->started_ms);
		msg_put_u64(m, (uint64_t)k->count);
	}
}

int kernels_load(struct abox *a, struct msg_in *in)
{
	for (unsigned int n = msg_get_u8(in); n > 0; n--) {
		char name[KERNEL_NAME];
		struct kernel *k;
		unsigned int flags;

		(void)msg_get_str(in, name, sizeof(name));
		k = in->failed ? NULL : kernel_new(a, name);
		if (k == NULL)
			return -EPROTO;
		k->number = msg_get_u8(in) & 31;
		k->state = (enum kernel_state)msg_get_u8(in);
		k->death = (enum kernel_death)msg_get_u8(in);
		flags = msg_get_u8(in);
		k->warm = (flags & 1) != 0;
		k->chilled = (flags & 2) != 0;
		k->again = (flags & 4) != 0;
		k->unwanted = (flags & 8) != 0;
		k->shunned = (flags & 16) != 0;
		k->job_id = msg_get_u64(in);
		k->started_ms = msg_get_u64(in);
		k->count = (int64_t)msg_get_u64(in);
		k->adopted = true;
		if (in->failed || k->state > KERNEL_DYING || k->death >= DEATH_MAX)
			return -EPROTO;
	}
	return 0;
}

/* As tasks_adopt() does it: nothing is run that init does not know. One that was just starting may not have heard GO. */
void kernels_adopt(struct abox *a)
{
	static const char *const argv[] = { "/nonexistent", NULL };
	static const char *const envp[] = { NULL };
	struct job_spec spec = { .kind = JOB_EXEC, .cwd = "/", .argv = argv, .envp = envp };

	for (struct kernel *k = a->kernels, *next; k != NULL; k = next) {
		next = k->next;
		if (k->job_id == 0) {
			k->state = KERNEL_NONE;
			continue;
		}
		if (gjob_start(a->box, &k->job, k->job_id, &spec, &job_ops, k) < 0) {
			ended(k);
			continue;
		}
		k->job.adopted = true;
		if (k->state == KERNEL_STARTING) {
			(void)go(k);
			(void)timer_set(&a->g->loop, &k->late, a->g->loop.now_us + START_US,
					on_late, k);
		}
		if (k->shunned || k->state == KERNEL_DYING)
			gjob_signal(&k->job, SIGKILL, 0);
		if (k->state == KERNEL_BUSY && k->running == NULL)
			k->state = KERNEL_IDLE;
	}
}
