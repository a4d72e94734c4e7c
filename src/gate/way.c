// SPDX-License-Identifier: Apache-2.0
#include "gate/way.h"

#include "base/own.h"
#include "gate/gate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct way_call {
	struct gate *g;
	const struct way_ops *ops; /* NULL: it is closed */
	void *arg;
	struct watch watch;
	struct timer deadline, soon;
	int fd;
	char *request;
	size_t len, sent;
	bool headed, paused;
	struct http_answer answer;
	struct http_slice held; /* of the body, in `in`: not taken yet */
	size_t in_at, in_len;
	char in[65536];
	struct deferred deferred;
};

int way_find(struct gate *g, const struct endpoint *e)
{
	struct endpoint v[ENDPOINTS_MAX];
	const char *bad;
	unsigned int nhosts;
	char *const *hosts = config_list(&g->config, CONF_EFAST_HOST, &nhosts);
	unsigned int nurls;
	char *const *urls = config_list(&g->config, CONF_RAYAI_URL, &nurls);
	int n = endpoints_read(config_str(&g->config, CONF_EFAST_URL), hosts, nhosts, v, &bad);

	n = endpoints_of_urls(urls, nurls, v, n, &bad);
	for (int i = 0; i < n; i++)
		if (endpoint_is(&v[i], e))
			return i;
	return -1;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void way_free(void *arg)
{
	struct way_call *w = arg;

	free(w->request);
	free(w);
}

void way_close(struct way_call *w)
{
	if (w->ops == NULL)
		return;
	w->ops = NULL;
	keeper_forget(&w->g->keeper, w);
	timer_clear(&w->g->loop, &w->deadline);
	timer_clear(&w->g->loop, &w->soon);
	if (w->fd >= 0)
		loop_unwatch(&w->g->loop, &w->watch);
	fd_close(&w->fd);
	loop_defer(&w->g->loop, &w->deferred, way_free, w);
}

static void failed(struct way_call *w, const char *why)
{
	const struct way_ops *ops = w->ops;

	way_close(w);
	ops->fail(w->arg, why); /* it stays until the end of this turn */
}

static void ended(struct way_call *w)
{
	const struct way_ops *ops = w->ops;

	way_close(w);
	ops->end(w->arg);
}

static void on_deadline(void *arg)
{
	failed(arg, "it takes too long");
}

/* --- what it answers -------------------------------------------------------------------------- */

/* Give on what is held. Whether all of it was taken. */
static bool give(struct way_call *w)
{
	const struct way_ops *ops = w->ops;
	size_t taken;

	if (w->held.n == 0)
		return true;
	taken = ops->body(w->arg, w->held.p, w->held.n);
	if (w->ops == NULL) /* it was closed meanwhile */
		return false;
	w->held.p += taken;
	w->held.n -= taken;
	w->paused = w->held.n > 0;
	if (w->paused)
		loop_change(&w->g->loop, &w->watch, 0);
	return !w->paused;
}

static bool feed(struct way_call *w)
{
	const char *why = NULL;
	ptrdiff_t n = http_answer_feed(&w->answer, w->in + w->in_at, w->in_len - w->in_at, &w->held,
				       &why);

	if (n < 0) {
		failed(w, why);
		return false;
	}
	w->in_at += (size_t)n;
	if (!w->headed && w->answer.status != 0) {
		w->headed = true;
		w->ops->head(w->arg, &w->answer);
	}
	return w->ops != NULL;
}

/* Whether there is room for more. */
static bool work(struct way_call *w)
{
	while (give(w)) {
		if (w->answer.done) {
			ended(w);
			return false;
		}
		if (w->in_at == w->in_len) {
			w->in_at = w->in_len = 0;
			return true;
		}
		if (!feed(w))
			return false;
	}
	return false;
}

static void on_soon(void *arg)
{
	struct way_call *w = arg;

	if (work(w))
		loop_change(&w->g->loop, &w->watch, EPOLLIN);
}

void way_more(struct way_call *w)
{
	if (w->ops == NULL || !w->paused)
		return;
	w->paused = false;
	if (timer_soon(&w->g->loop, &w->soon, on_soon, w) < 0)
		w->paused = true; /* and the deadline comes */
}

static void receive(struct way_call *w)
{
	ssize_t n = recv(w->fd, w->in, sizeof(w->in), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		w->in_len = (size_t)n;
		(void)work(w);
	} else if (n == 0 && http_answer_end(&w->answer)) {
		ended(w);
	} else {
		failed(w, n == 0 ? "it ended before its answer was whole" : strerrordesc_np(errno));
	}
}

/* --- asking ----------------------------------------------------------------------------------- */

static void send_some(struct way_call *w)
{
	ssize_t n =
		send(w->fd, w->request + w->sent, w->len - w->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		failed(w, strerrordesc_np(errno));
		return;
	}
	w->sent += n > 0 ? (size_t)n : 0;
	if (w->sent == w->len)
		loop_change(&w->g->loop, &w->watch, EPOLLIN);
}

static void on_event(void *arg, uint32_t events)
{
	struct way_call *w = arg;

	(void)events;
	if (w->sent < w->len)
		send_some(w);
	else if (!w->paused && w->soon.place == 0)
		receive(w);
}

static void on_opened(void *arg, struct chan_msg *m, const struct err *e)
{
	struct way_call *w = arg;

	if (m == NULL || m->nfds != 1) {
		if (m != NULL)
			chan_msg_close(m);
		failed(w, m == NULL ? e->text : "the keeper opened nothing");
		return;
	}
	w->fd = m->fds[0];
	if (loop_watch(&w->g->loop, &w->watch, w->fd, EPOLLOUT, on_event, w) < 0)
		failed(w, "it cannot be watched");
}

struct way_call *way_ask(struct gate *g, unsigned int which, char *request, size_t n,
			 uint64_t deadline_us, const struct way_ops *ops, void *arg)
{
	const uint8_t number = (uint8_t)which;
	struct way_call *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		free(request);
		return NULL;
	}
	w->g = g;
	w->ops = ops;
	w->arg = arg;
	w->fd = -1;
	w->watch.fd = -1;
	w->request = request;
	w->len = n;
	http_answer_init(&w->answer);
	if (timer_set(&g->loop, &w->deadline, deadline_us, on_deadline, w) == 0 &&
	    keeper_ask(&g->keeper, OP_WAY_OPEN, &number, sizeof(number), on_opened, w) == 0)
		return w;
	way_close(w);
	return NULL;
}
