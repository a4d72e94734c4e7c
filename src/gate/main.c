// SPDX-License-Identifier: Apache-2.0
/*
 * glovebox-gate: the roles that link libraries, `gate`, `store`, `tools` and `egress`. Started by the keeper, with descriptors laid out
 * as gate.h says.
 *
 * The gate: take the configuration, confine, say hello to the keeper, take over what the last gate had, serve.
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "egress/role.h"
#include "gate/box_net.h"
#include "gate/boxes.h"
#include "gate/env_builds.h"
#include "gate/gate.h"
#include "gate/mcp.h"
#include "gate/own.h"
#include "gate/tls.h"
#include "store/role.h"
#include "tools/role.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* --- small things ------------------------------------------------------------------------------ */

const char *gate_date(struct gate *g)
{
	struct timespec t;
	struct tm tm;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &t);
	if ((uint64_t)t.tv_sec != g->date_s) {
		g->date_s = (uint64_t)t.tv_sec;
		(void)gmtime_r(&t.tv_sec, &tm);
		(void)strftime(g->date, sizeof(g->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	}
	return g->date;
}

/* Not to be guessed from one another's, and not twice: a counter under a random permutation. */
void gate_request_id(struct gate *g, char id[REQ_ID])
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint64_t v[2] = { ++g->next_request ^ g->request_seed[0], g->request_seed[1] };

	for (unsigned int round = 0; round < 4; round++) {
		v[0] = (v[0] ^ v[1]) * 0x9e3779b97f4a7c15u;
		v[1] = ((v[1] << 23 | v[1] >> 41) ^ v[0] >> 29) * 0xbf58476d1ce4e5b9u;
	}
	for (unsigned int i = 0; i < REQ_ID - 1; i++) {
		id[i] = alphabet[v[i & 1] & 31];
		v[i & 1] = v[i & 1] >> 5 | v[i & 1] << 59;
	}
	id[REQ_ID - 1] = '\0';
}

void gate_log_err(struct gate *g, const char *event, const struct err *e)
{
	log_line(&g->log, LOG_ERROR, event, log_str("err", e->text),
		 log_str("hint", e->hint[0] != '\0' ? e->hint : NULL));
}

void gate_log_request(struct gate *g, const struct req *r, const char *how, uint64_t us)
{
	bool quiet = r->route != NULL && (r->route->flags & ROUTE_QUIET) != 0 && r->status < 400;
	struct http_slice target = r->head.target;
	const char *query = target.n > 0 ? memchr(target.p, '?', target.n) : NULL;

	if (query != NULL) /* may hold a token */
		target.n = (size_t)(query - target.p);
	if (r->status >= 100 && r->status < 600)
		g->metrics.requests[r->status / 100]++;
	log_line(&g->log, quiet ? LOG_DEBUG : LOG_INFO, "request", log_str("request_id", r->id),
		 log_str("trace", r->trace[0] != '\0' ? r->trace : NULL),
		 log_str("peer", r->conn->peer),
		 log_str("tenant", r->tenant != NULL ? r->tenant->name : NULL),
		 target.n > 0 ? log_bytes("method", r->head.method.p, r->head.method.n)
			      : log_none(),
		 target.n > 0 ? log_bytes("path", target.p, target.n) : log_none(),
		 log_i64("status", r->status), log_u64("bytes", r->body_bytes), log_u64("us", us),
		 log_str("end", how));
}

/* --- the keeper's events ------------------------------------------------------------------------ */

static void on_drained(void *arg)
{
	struct gate *g = arg;

	log_line(&g->log, LOG_WARN, "drain_timeout", log_u64("connections", g->nconns));
	g->loop.stop = true;
}

static void stop(struct gate *g)
{
	if (g->stopping)
		return;
	g->stopping = true;
	log_line(&g->log, LOG_INFO, "stopping", log_u64("connections", g->nconns));
	listeners_stop(g);
	conns_drain(g);
	pool_stop(g);
	(void)timer_set(&g->loop, &g->drain,
			g->loop.now_us + config_u64(&g->config, CONF_DRAIN_TIMEOUT), on_drained, g);
}

static int load_config(struct config *c, int fd, struct err *e)
{
	off_t size = lseek(fd, 0, SEEK_END);
	void *p;
	int r;

	if (size <= 0 || size > CONFIG_SAVED_MAX)
		return err_set(e, ERR_SYS, errno, "read the configuration");
	p = malloc((size_t)size);
	if (p == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read the configuration");
	if (pread(fd, p, (size_t)size, 0) != size) {
		free(p);
		return err_set(e, ERR_SYS, errno, "read the configuration");
	}
	r = config_restore(c, p, (size_t)size, e);
	OPENSSL_cleanse(p, (size_t)size);
	free(p);
	return r;
}

/* All of a small file, from its beginning; "" for what is none. */
static char *read_all(int fd, size_t *ret_n)
{
	char *p = malloc(GATE_PEM_MAX);
	ssize_t n = p == NULL ? -1 : pread(fd, p, GATE_PEM_MAX, 0);

	*ret_n = n > 0 ? (size_t)n : 0;
	return p;
}

/* Certificate and key come as descriptors: once we serve, we can open no file. */
static int start_tls(struct gate *g, int cert_fd, int key_fd, struct err *e)
{
	struct tls_context *tls;
	size_t cert_len, key_len;
	own_free char *cert = read_all(cert_fd, &cert_len), *key = read_all(key_fd, &key_len);

	if (cert == NULL || key == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read the certificate");
	if (config_str(&g->config, CONF_TLS_CERT)[0] == '\0')
		return 0;
	tls = tls_context_new(cert, cert_len, key, key_len, e);
	OPENSSL_cleanse(key, key_len);
	if (tls == NULL)
		return -1;
	tls_context_free(g->tls); /* connections keep their own reference */
	g->tls = tls;
	for (unsigned int i = 0; i < g->nlisteners; i++)
		if (!g->listeners[i].unix_socket)
			g->listeners[i].tls = tls;
	return 0;
}

static void apply_config(struct gate *g)
{
	g->log.level = (enum log_level)config_enum(&g->config, CONF_LOG_LEVEL);
	g->log.format = (enum log_format)config_enum(&g->config, CONF_LOG_FORMAT);
}

static void reload(struct gate *g, const int fds[3])
{
	struct config fresh = { 0 };
	struct err e;

	if (load_config(&fresh, fds[0], &e) < 0 || config_reload(&g->config, &fresh, &e) < 0) {
		gate_log_err(g, "reload_failed", &e);
	} else {
		apply_config(g);
		if (auth_start(g, &e) < 0 || start_tls(g, fds[1], fds[2], &e) < 0)
			gate_log_err(g, "reload_failed", &e);
		pool_turn(g);
		log_line(&g->log, LOG_INFO, "reloaded");
	}
	config_done(&fresh);
}

static void on_keeper_event(struct gate *g, struct chan_msg *m)
{
	struct box_figures f;
	struct msg_in in;
	uint64_t box;
	uint32_t why;

	if (m->type == EVENT_STOP) {
		stop(g);
	} else if (m->type == EVENT_CONFIG && m->nfds == 3) {
		reload(g, m->fds);
	} else if (m->type == EVENT_BUILT) {
		env_builds_event(g, m);
	} else if (m->type == EVENT_ENVS) {
		genvs_ask(g, NULL);
	} else if (m->type == EVENT_RENEW) {
		warm_renew(g);
	} else if (m->type == EVENT_NET) {
		box_net_event(g, m);
	} else if (m->type == EVENT_NET_FIGURES) {
		box_net_figures(g, m);
	} else if (m->type == EVENT_REFUSED) {
		refused_ask(g);
	} else if (m->type == EVENT_PING) {
		(void)keeper_ask(&g->keeper, OP_ALIVE, NULL, 0, NULL, NULL);
	} else if (m->type == EVENT_GONE) {
		msg_in_init(&in, m->body, m->len);
		box = msg_get_u64(&in);
		why = msg_get_u32(&in);
		if (!in.failed && why < GONE_WHY_MAX &&
		    box_figures_decode(m->body + in.at, m->len - in.at, &f) == 0)
			gboxes_gone(g, box, (enum gone_why)why, &f);
	}
	chan_msg_close(m);
}

/* --- start -------------------------------------------------------------------------------------- */

static void each_turn(void *arg)
{
	struct gate *g = arg;

	aboxes_save(g);
	tools_flush(g);
	gboxes_flush(g);
	(void)log_flush(&g->log);
	if (g->stopping && g->nconns == 0) {
		audit_sum_refused(g);
		/* Our end is the store's: what it was asked to write is written first. */
		if (g->store.link.waiting == 0)
			g->loop.stop = true;
	}
}

/* The store works: now others may come. */
static void on_store(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct gate *g = arg;
	struct err e;

	if (m == NULL) {
		log_line(&g->log, LOG_ERROR, "store_failed", log_str("why", f->text));
		g->loop.stop = true;
		return;
	}
	chan_msg_close(m);
	if (listeners_start(g, &e) < 0) {
		gate_log_err(g, "listen_failed", &e);
		g->loop.stop = true;
		return;
	}
	(void)keeper_ask(&g->keeper, OP_SERVING, NULL, 0, NULL, NULL);
	trial_start(g);
	warm_start(g);
}

static void serve(struct gate *g)
{
	if (store_ask(&g->store, STORE_OP_FIGURES, NULL, 0, -1, on_store, g) < 0)
		g->loop.stop = true;
}

static void adopt(struct gate *g)
{
	adopt_start(g, serve);
}

static void on_hello(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gate *g = arg;

	if (m == NULL) {
		gate_log_err(g, "keeper_refused", e);
		g->loop.stop = true;
		return;
	}
	chan_msg_close(m);
	genvs_ask(g, adopt);
}

static int say_hello(struct gate *g, struct err *e)
{
	uint8_t hello[8];
	struct msg_out m;
	int r;

	msg_out_init(&m, hello, sizeof(hello));
	msg_put_u32(&m, KEEPER_PROTO_VERSION);
	msg_put_u32(&m, KEEPER_PROTO_OLDEST);
	r = keeper_ask(&g->keeper, OP_HELLO, hello, m.len, on_hello, g);
	return r < 0 ? err_set(e, ERR_SYS, -r, "say hello to the keeper") : 0;
}

/* A short slice: who has one is let in sooner when it wakes, and is not given more. Kernels before 6.12 do not care. */
static void shorten_slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t slice_ns, deadline_ns, period_ns;
	} own;

	if (syscall(SYS_sched_getattr, 0, &own, sizeof(own), 0u) < 0 || own.policy != 0)
		return; /* it was given a class of its own */
	own.slice_ns = 100000;
	(void)syscall(SYS_sched_setattr, 0, &own, 0u);
}

static int start(struct gate *g, uint32_t uid, uint32_t gid, struct err *e)
{
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	io_raise_limit(RLIMIT_NOFILE);
	shorten_slice();
	if (load_config(&g->config, GATE_CONFIG_FD, e) < 0)
		return -1;
	log_init(&g->log, GATE_LOG_FD, LOG_INFO, LOG_TEXT);
	apply_config(g);
	if (getrandom(g->request_seed, sizeof(g->request_seed), 0) != sizeof(g->request_seed))
		return err_set(e, ERR_SYS, errno, "get random numbers");
	r = loop_init(&g->loop);
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "make the event loop");
	own_node(g);
	g->started_ms = own_now_ms();
	g->loop.each_turn = each_turn;
	g->loop.arg = g;
	if (start_tls(g, GATE_CERT_FD, GATE_KEY_FD, e) < 0 || auth_start(g, e) < 0 ||
	    genvs_start(g, e) < 0 || mcp_start(g, e) < 0 || confine_gate(uid, gid, e) < 0 ||
	    store_link_start(g, &g->store, GATE_STORE_FD, e) < 0 ||
	    keeper_link_start(g, &g->keeper, GATE_KEEPER_FD, on_keeper_event, e) < 0)
		return -1;
	return say_hello(g, e);
}

static int take_id(const char *arg, const char *key, uint32_t *ret)
{
	size_t n = strlen(key);
	uint64_t v;

	if (strncmp(arg, key, n) != 0 || str_to_u64(arg + n, UINT32_MAX - 1, &v) < 0)
		return -1;
	*ret = (uint32_t)v;
	return 0;
}

static int gate_main(int argc, char **argv)
{
	static struct gate g;
	uint32_t uid = 0, gid = 0;
	struct err e;

	for (int i = 1; i < argc; i++)
		if (take_id(argv[i], "uid=", &uid) < 0 && take_id(argv[i], "gid=", &gid) < 0)
			return 2;
	if (start(&g, uid, gid, &e) < 0) {
		(void)dprintf(STDERR_FILENO, "glovebox gate: %s\n", e.text);
		return 1;
	}
	loop_run(&g.loop);
	(void)log_flush(&g.log);
	_exit(0); /* nothing is left to do, and confined as we are, exit handlers could not do it */
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "gate") == 0)
		return gate_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "store") == 0)
		return store_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "tools") == 0)
		return tools_main(argc - 1, argv + 1, confine_gate);
	if (argc > 1 && strcmp(argv[1], "egress") == 0)
		return egress_main(argc - 1, argv + 1, confine_egress);
	(void)fputs("glovebox-gate: a part of glovebox, started by `glovebox serve`\n", stderr);
	return 2;
}
