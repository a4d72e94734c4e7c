// SPDX-License-Identifier: Apache-2.0
#include "gate/warm.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/boxes.h"
#include "gate/ci.h"
#include "gate/genv.h"
#include "gate/pool.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	IMPORTS_MAX = 128,
	FREEZE_US = 120 * 1000 * 1000,
	RETRY_US = 1000 * 1000, /* doubled with every failure in a row, up to a minute */
	RETRY_DOUBLINGS = 6,
	TRIES = 3, /* of an environment that was built: its Python may be one that cannot be frozen */
	LATE_US = 15 * 1000 * 1000, /* a box is made in less, or not at all */
};

#define FREEZE_MEMORY (UINT64_C(4) << 30)

/* What programs of the usual kind import, in a few milliseconds altogether. */
#define LEAN_IMPORTS                                                                           \
	"abc base64 bisect collections contextlib copy csv dataclasses datetime decimal enum " \
	"fractions functools glob hashlib heapq io itertools json logging math operator os "   \
	"pathlib random re shutil statistics string struct subprocess tempfile textwrap "      \
	"threading time traceback typing urllib.parse uuid warnings"

enum { FREEZE_ARGS = 6 };

/* Behind Python. A program is started without options, and so is its zygote: sys.flags is part of the image. */
static const struct {
	const char *name, *argv[FREEZE_ARGS];
} kinds[] = {
	[WARM_LEAN] = { "lean", { "/proc/self/fd/6", "--freeze" } },
	[WARM_FULL] = { "full", { "/proc/self/fd/6", "--freeze" } },
	[WARM_KERNEL] = { "kernel", { "-I", "-B", "/proc/self/fd/6", "--freeze-kernel" } },
};
_Static_assert(ARRAY_LEN(kinds) == WARM_MAX, "how to make every kind");

const char *warm_str(enum warm_kind kind)
{
	return kinds[kind].name;
}

/* Of one that has the machine's own packages, those and what it has beside them. */
static void imports_of(const struct warm_image *w, char *ret, size_t size)
{
	const struct env_row *r = &w->env->row;
	const char *usual = w->kind == WARM_LEAN ? LEAN_IMPORTS
						 : config_str(&w->g->config, CONF_ZYGOTE_IMPORTS);

	(void)snprintf(ret, size, "%s %s", r->kind == ENV_PACKAGES ? usual : "", r->imports);
}

/* By which the keeper knows it, and the next gate: those of the machine by their kind alone. */
static void label_of(const struct warm_image *w, char ret[IMAGE_LABEL_MAX])
{
	int n = snprintf(ret, IMAGE_LABEL_MAX, "%s", kinds[w->kind].name);

	if (w->env->row.id != 0)
		(void)snprintf(ret + n, IMAGE_LABEL_MAX - (size_t)n, "#%u", w->env->row.id);
}

static void begin(void *arg);

/* --- making one ------------------------------------------------------------------------------- */

static void drop(struct gate *g, uint32_t image)
{
	uint8_t body[4];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, image);
	if (image != 0)
		(void)keeper_ask(&g->keeper, OP_IMAGE_DROP, body, m.len, NULL, NULL);
}

static void again(struct warm_image *w, uint64_t after_us)
{
	(void)timer_set(&w->g->loop, &w->again, w->g->loop.now_us + after_us, begin, w);
}

static void failed(struct warm_image *w, const char *why)
{
	unsigned int doublings =
		w->failures < RETRY_DOUBLINGS ? w->failures : (unsigned int)RETRY_DOUBLINGS;

	log_line(&w->g->log, LOG_WARN, "zygote_failed", log_str("image", warm_str(w->kind)),
		 log_str("environment", w->env->row.name), log_str("why", why));
	w->g->warmed.failed++;
	w->failures++;
	drop(w->g, w->making);
	w->making = 0;
	w->box = NULL;
	if (w->env->row.id == 0 || (!w->env->row.gone && w->failures < TRIES))
		again(w, (uint64_t)RETRY_US << doublings);
	genv_give(w->env);
}

/* What is made from it is made by now. */
static void on_late(void *arg)
{
	struct warm_image *w = arg;

	timer_clear(&w->g->loop, &w->late);
	drop(w->g, w->old);
	w->old = 0;
}

static void on_sealed(void *arg, struct chan_msg *m, const struct err *e)
{
	struct warm_image *w = arg;
	struct msg_in in;
	uint64_t bytes;

	if (m == NULL) {
		failed(w, e->text);
		return;
	}
	msg_in_init(&in, m->body, m->len);
	bytes = msg_get_u64(&in);
	chan_msg_close(m);
	log_line(&w->g->log, LOG_INFO, "warm", log_str("image", warm_str(w->kind)),
		 log_u64("bytes", bytes), log_u64("ms", (clock_us() - w->began_us) / 1000),
		 log_str("environment", w->env->row.name));
	on_late(w);
	w->old = w->id;
	(void)timer_set(&w->g->loop, &w->late, w->g->loop.now_us + LATE_US, on_late, w);
	w->id = w->making;
	w->making = 0;
	w->failures = 0;
	w->g->warmed.made++;
	w->env->warm.wanted = false;
	again(w, config_u64(&w->g->config, CONF_ZYGOTE_RENEW));
	pool_turn(w->g);
	genv_give(w->env);
}

/* The box is gone, and with it everybody who could write. */
static void on_box_ended(void *arg, const struct box_figures *f)
{
	struct warm_image *w = arg;
	uint8_t body[12];
	struct msg_out m;

	(void)f;
	w->box = NULL;
	if (w->exit.how != JOB_EXITED || w->exit.code != 0) {
		failed(w, w->nsaid > 0 ? w->said : "it ended without a word");
		return;
	}
	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, w->making);
	msg_put_u64(&m, 0);
	if (keeper_ask(&w->g->keeper, OP_IMAGE_SEAL, body, m.len, on_sealed, w) < 0)
		failed(w, "the keeper cannot be asked");
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct warm_image *w = arg;
	size_t room = sizeof(w->said) - 1 - w->nsaid;

	(void)stream;
	if (n > room)
		n = room;
	(void)memcpy(w->said + w->nsaid, p, n);
	w->nsaid += n;
	w->said[w->nsaid] = '\0';
	gjob_ack(&w->job, number);
}

static void on_frozen(void *arg, const struct job_exit *x, uint64_t number)
{
	struct warm_image *w = arg;

	(void)number;
	w->exit = *x;
	gbox_end(w->box, on_box_ended, w);
}

static void on_refused(void *arg, int error, const char *why)
{
	struct warm_image *w = arg;

	(void)error;
	(void)snprintf(w->said, sizeof(w->said), "%s", why);
	w->nsaid = strlen(w->said);
	w->exit = (struct job_exit){ .how = JOB_FAILED };
	gbox_end(w->box, on_box_ended, w);
}

static void on_ready(void *arg, struct gbox *b)
{
	static const struct gjob_ops ops = { .output = on_output,
					     .ended = on_frozen,
					     .failed = on_refused };
	const char *argv[1 + FREEZE_ARGS + IMPORTS_MAX];
	struct warm_image *w = arg;
	char names[4096];
	unsigned int n = 0;
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_KIT | JOB_SWEEP,
				 .timeout_us = FREEZE_US,
				 .output_max = WARM_SAID,
				 .cwd = "/workspace",
				 .argv = argv };
	char *save = NULL;
	struct box_env env;
	int r;

	argv[n++] = w->env->python;
	for (const char *const *more = kinds[w->kind].argv; *more != NULL; more++)
		argv[n++] = *more;
	imports_of(w, names, sizeof(names));
	for (char *name = strtok_r(names, " ", &save); name != NULL && n < ARRAY_LEN(argv) - 1;
	     name = strtok_r(NULL, " ", &save))
		argv[n++] = name;
	argv[n] = NULL;
	r = genv_begin(&env, w->env);
	spec.envp = env.v;
	if (r == 0)
		r = gjob_start(b, &w->job, 0, &spec, &ops, w);
	box_env_done(&env);
	if (r < 0)
		on_refused(w, ENOMEM, "no memory");
}

static void on_box_failed(void *arg, const struct err *e)
{
	failed(arg, e->text);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	struct warm_image *w = arg;

	(void)why;
	failed(w, f != NULL && f->oom_kills > 0 ? "out of memory" : "its box ended");
}

static void on_image(void *arg, struct chan_msg *m, const struct err *e)
{
	static const struct gbox_ops ops = { .ready = on_ready,
					     .failed = on_box_failed,
					     .gone = on_gone };
	struct warm_image *w = arg;
	struct box_request q;
	struct msg_in in;
	struct err own;

	if (m == NULL) {
		failed(w, e->text);
		return;
	}
	msg_in_init(&in, m->body, m->len);
	w->making = msg_get_u32(&in);
	chan_msg_close(m);
	ci_limits(w->g, &q);
	q.flags = BOX_FREEZES;
	q.limits.v[LIMIT_MEMORY] = q.limits.v[LIMIT_FILE] = FREEZE_MEMORY;
	q.limits.v[LIMIT_CPU_SECONDS] = 0;
	q.image = w->making;
	q.env = w->env->row.id;
	w->box = gbox_new(w->g, &q, &ops, w, &own);
	if (w->box == NULL)
		failed(w, own.text);
}

/* Of an environment that nobody has used since it was made, or can. */
static bool has_had_its_time(const struct warm_image *w)
{
	return w->env->row.id != 0 &&
	       (w->env->row.gone || (w->id != 0 && !w->env->warm.wanted && w->env->row.pool == 0));
}

static void begin(void *arg)
{
	struct warm_image *w = arg;
	uint8_t body[IMAGE_LABEL_MAX + 8];
	char label[IMAGE_LABEL_MAX];
	struct msg_out m;

	if (w->making != 0 || w->g->stopping || !config_bool(&w->g->config, CONF_WARM))
		return;
	if (has_had_its_time(w)) {
		drop(w->g, w->id);
		w->id = 0;
		return;
	}
	genv_take(w->env);
	w->began_us = clock_us();
	w->nsaid = 0;
	label_of(w, label);
	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, label);
	w->making = UINT32_MAX; /* until the keeper has given it a number */
	if (keeper_ask(&w->g->keeper, OP_IMAGE_NEW, body, m.len, on_image, w) < 0)
		failed(w, "the keeper cannot be asked");
}

/* --- life ------------------------------------------------------------------------------------- */

void warm_init(struct genv *v)
{
	for (int i = 0; i < WARM_MAX; i++)
		v->warm.images[i] =
			(struct warm_image){ .g = v->g, .env = v, .kind = (enum warm_kind)i };
}

void warm_end(struct genv *v)
{
	for (int i = 0; i < WARM_MAX; i++) {
		struct warm_image *w = &v->warm.images[i];

		timer_clear(&v->g->loop, &w->again);
		on_late(w);
		drop(v->g, w->id);
		w->id = 0;
	}
}

void warm_want(struct genv *v)
{
	struct warm_image *w = &v->warm.images[WARM_KERNEL];

	v->warm.wanted = true;
	if (v->row.id != 0 && v->row.cells && v->python != NULL && w->id == 0 && w->failures == 0)
		begin(w);
}

void warm_settle(struct genv *v)
{
	if (v->row.pool > 0 && !v->row.gone)
		warm_want(v);
}

/* Whose image this is, by its label. NULL: nobody's. */
static struct warm_image *image_of(struct gate *g, const char *label)
{
	for (struct genv *v = g->envs; v != NULL; v = v->next)
		for (int i = 0; i < WARM_MAX; i++) {
			char own[IMAGE_LABEL_MAX];

			label_of(&v->warm.images[i], own);
			if (strcmp(own, label) == 0)
				return &v->warm.images[i];
		}
	return NULL;
}

/* Of the gate before this one. What is not complete, or there twice, goes: the older one. */
static void on_list(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gate *g = arg;
	struct msg_in in;

	(void)e;
	if (m != NULL) {
		msg_in_init(&in, m->body, m->len);
		while (in.at < in.len && !in.failed) {
			uint32_t id = msg_get_u32(&in);
			bool sealed = msg_get_u8(&in) != 0;
			char label[IMAGE_LABEL_MAX];
			struct warm_image *w;

			(void)msg_get_u64(&in);
			(void)msg_get_str(&in, label, sizeof(label));
			if (in.failed)
				break;
			w = sealed ? image_of(g, label) : NULL;
			if (w == NULL || w->id > id) {
				drop(g, id);
				continue;
			}
			drop(g, w->id);
			w->id = id;
		}
		chan_msg_close(m);
	}
	for (struct genv *v = g->envs; v != NULL; v = v->next) {
		for (int i = 0; i < WARM_MAX; i++) {
			struct warm_image *w = &v->warm.images[i];

			if (w->id != 0)
				again(w, config_u64(&g->config, CONF_ZYGOTE_RENEW));
			else if (v->row.id == 0)
				begin(w);
		}
		warm_settle(v);
	}
	pool_turn(g);
}

void warm_start(struct gate *g)
{
	if (config_bool(&g->config, CONF_WARM))
		(void)keeper_ask(&g->keeper, OP_IMAGE_LIST, NULL, 0, on_list, g);
}

void warm_renew(struct gate *g)
{
	for (struct genv *v = g->envs; v != NULL; v = v->next)
		for (int i = 0; i < WARM_MAX; i++)
			if (v->row.id == 0 ||
			    (v->row.kind == ENV_PACKAGES && v->warm.images[i].id != 0))
				begin(&v->warm.images[i]);
}

bool warm_is_settled(const struct gate *g)
{
	const struct warm *own = &genv_own(g)->warm;

	for (int i = 0; i < WARM_MAX && config_bool(&g->config, CONF_WARM); i++)
		if (own->images[i].id == 0 && own->images[i].failures == 0)
			return false;
	return true;
}

/* --- choosing --------------------------------------------------------------------------------- */

static bool is_word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* Whether the text has this name as a word of its own. */
static bool mentions(const char *code, size_t n, const char *name, size_t len)
{
	const char *p = code;

	while ((p = memmem(p, n - (size_t)(p - code), name, len)) != NULL) {
		if ((p == code || !is_word(p[-1])) && (p + len == code + n || !is_word(p[len])))
			return true;
		p += len;
	}
	return false;
}

uint32_t warm_image(const struct genv *v, enum warm_kind kind)
{
	return kind < WARM_MAX && config_bool(&v->g->config, CONF_WARM) ? v->warm.images[kind].id
									: 0;
}

bool warm_has(const struct gate *g, uint32_t image)
{
	for (const struct genv *v = g->envs; v != NULL; v = v->next)
		for (int i = 0; i < WARM_MAX; i++)
			if (image == v->warm.images[i].id || image == v->warm.images[i].old)
				return true;
	return false;
}

enum warm_kind warm_pick(const struct gate *g, const char *code, size_t n)
{
	const char *name = config_str(&g->config, CONF_ZYGOTE_IMPORTS);
	const struct genv *own = genv_own(g);
	bool lean = warm_image(own, WARM_LEAN) != 0, full = warm_image(own, WARM_FULL) != 0;

	if (!full)
		return lean ? WARM_LEAN : WARM_MAX;
	while (*name != '\0') {
		size_t whole = strcspn(name, " "), top = strcspn(name, " .");

		if (top > 0 && mentions(code, n, name, top))
			return WARM_FULL;
		name += whole + strspn(name + whole, " ");
	}
	return lean ? WARM_LEAN : WARM_FULL;
}
