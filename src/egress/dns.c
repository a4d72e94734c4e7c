// SPDX-License-Identifier: Apache-2.0
/*
 * Questions for names, answered here and now: no question leaves this process, so what is in one tells nobody anything.
 *
 * A name that may be reached on some port has an address that stands for it. Any other name has one, too: NOWHERE, to which no box has a route, so that who
 * connects hears at once that the network is unreachable, and which name it was is in the record. There are no addresses of IPv6: whether the other
 * side has one is seen when it is connected to, and a client that had both would have nothing to choose by.
 */
#include "egress/egress.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>
#include <sys/socket.h>

enum { TTL_S = NAME_US / US_PER_S, TTL_REFUSED_S = 1, TCP_LENGTH = 2, CONTROL = 64 };

static const uint8_t nowhere[4] = { 192, 0, 2, 1 };

struct edns_conn {
	struct edns_conn *next;
	struct ebox *box;
	struct watch watch;
	struct timer timer;
	size_t n;
	struct deferred gone;
	uint8_t buf[TCP_LENGTH + DNS_QUERY_MAX];
};

static bool may_ask(struct ebox *b)
{
	if (!bucket_take(&b->questions, b->e->loop.now_us, QUESTIONS_A_SECOND, QUESTIONS_AT_ONCE))
		return false;
	b->figures.questions++;
	figures_changed(b);
	return true;
}

static void tell_refused(struct ebox *b, const char *name, int rule, enum egress_why why)
{
	struct egress_record r = { .box = b->id, .question = true, .rule = rule, .why = why };

	(void)memcpy(r.name, name, strlen(name) + 1);
	b->figures.refused++;
	if (bucket_take(&b->refusals, b->e->loop.now_us, REFUSALS_A_SECOND, REFUSALS_AT_ONCE))
		keeper_tell(b->e, &r);
}

static void answer_name(struct ebox *b, const struct dns_query *q, struct dns_reply *r)
{
	struct net_verdict v = net_decide_name(&b->policy, q->name);
	struct ename *n = NULL;

	r->ttl = v.allowed ? TTL_S : TTL_REFUSED_S;
	if (q->type != DNS_A && q->type != DNS_ANY)
		return;
	if (v.allowed) {
		n = names_take(&b->names, q->name, b->e->loop.now_us);
		if (n == NULL) {
			r->code = DNS_SERVFAIL;
			tell_refused(b, q->name, v.rule, EGRESS_TOO_MANY);
			return;
		}
		names_address(n, r->address);
	} else {
		(void)memcpy(r->address, nowhere, sizeof(nowhere));
		tell_refused(b, q->name, v.rule, EGRESS_NOT_ALLOWED);
	}
	r->has_address = true;
}

static void answer_pointer(const struct ebox *b, const struct dns_query *q, struct dns_reply *r)
{
	const struct ename *n = NULL;
	uint8_t address[4];

	r->ttl = TTL_S;
	if (dns_pointer_address(q->name, address) == 0)
		n = names_of(&b->names, address);
	if (n != NULL)
		r->pointer = n->name;
	else
		r->code = DNS_NXDOMAIN;
}

/* How long the answer is; 0: there is none. */
static size_t answer(struct ebox *b, const uint8_t *p, size_t n, uint8_t *buf, size_t cap, bool tcp)
{
	struct dns_reply reply = { .code = DNS_OK };
	struct dns_query q;
	int r = dns_read(p, n, &q);

	if (r < 0)
		return 0;
	reply.code = (enum dns_code)r;
	if (tcp)
		q.room = cap;
	if (r == DNS_OK && q.type == DNS_PTR)
		answer_pointer(b, &q, &reply);
	else if (r == DNS_OK && q.name[0] != '\0')
		answer_name(b, &q, &reply);
	else if (r == DNS_OK)
		reply.code = DNS_REFUSED;
	return dns_write(&q, p, n, &reply, buf, cap);
}

void dns_event(struct ebox *b)
{
	uint8_t query[DNS_QUERY_MAX], buf[DNS_MESSAGE_MAX];

	for (int i = 0; i < QUESTIONS_A_TURN; i++) {
		struct sockaddr_storage from = { 0 };
		union {
			struct cmsghdr align;
			char bytes[CONTROL];
		} control;
		struct iovec io = { .iov_base = query, .iov_len = sizeof(query) };
		struct msghdr m = { .msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &io,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(b->fd[EGRESS_DNS], &m, 0);

		if (n < 0)
			return;
		if ((m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || !may_ask(b))
			continue;
		io.iov_base = buf;
		io.iov_len = answer(b, query, (size_t)n, buf, sizeof(buf), /* tcp= */ false);
		/* With what came beside the question: so it comes from whom was asked. */
		if (io.iov_len > 0)
			(void)sendmsg(b->fd[EGRESS_DNS], &m, MSG_DONTWAIT);
	}
}

/* --- by TCP: one question at a time ------------------------------------------------------------------ */

static void free_conn(void *arg)
{
	free(arg);
}

static void end_conn(struct edns_conn *c)
{
	struct loop *l = &c->box->e->loop;
	struct edns_conn **at = &c->box->dns_conns;
	int fd = c->watch.fd;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->box->ndns_conns--;
	timer_clear(l, &c->timer);
	loop_unwatch(l, &c->watch);
	fd_close(&fd);
	loop_defer(l, &c->gone, free_conn, c);
}

void dns_conns_end(struct ebox *b)
{
	while (b->dns_conns != NULL)
		end_conn(b->dns_conns);
}

static void on_conn_timer(void *arg)
{
	end_conn(arg);
}

/* All that is there of whole questions. -1: it is over. */
static int answer_conn(struct edns_conn *c)
{
	uint8_t buf[TCP_LENGTH + DNS_MESSAGE_MAX];

	while (c->n >= TCP_LENGTH) {
		size_t len = (size_t)c->buf[0] << 8 | c->buf[1], n;

		if (len > DNS_QUERY_MAX || !may_ask(c->box))
			return -1;
		if (c->n < TCP_LENGTH + len)
			return 0;
		n = answer(c->box, c->buf + TCP_LENGTH, len, buf + TCP_LENGTH, DNS_MESSAGE_MAX,
			   /* tcp= */ true);
		buf[0] = (uint8_t)(n >> 8);
		buf[1] = (uint8_t)n;
		/* Who asks and does not read is not waited for. */
		if (n == 0 || send(c->watch.fd, buf, TCP_LENGTH + n, MSG_DONTWAIT | MSG_NOSIGNAL) !=
				      (ssize_t)(TCP_LENGTH + n))
			return -1;
		c->n -= TCP_LENGTH + len;
		(void)memmove(c->buf, c->buf + TCP_LENGTH + len, c->n);
	}
	return 0;
}

static void on_conn(void *arg, uint32_t events)
{
	struct edns_conn *c = arg;
	ssize_t n = recv(c->watch.fd, c->buf + c->n, sizeof(c->buf) - c->n, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end_conn(c);
		return;
	}
	c->n += (size_t)n;
	if (answer_conn(c) < 0)
		end_conn(c);
}

int dns_accept(struct ebox *b)
{
	/* cppcheck-suppress nullPointer ; who it is does not matter */
	own_fd fd = accept4(b->fd[EGRESS_DNS_TCP], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct edns_conn *c;

	if (fd < 0)
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	if (b->ndns_conns >= DNS_CONNS_MAX || !bounds_may_begin(b->e, fd))
		return 0;
	c = calloc(1, sizeof(*c));
	if (c == NULL || loop_watch(&b->e->loop, &c->watch, fd, EPOLLIN, on_conn, c) < 0 ||
	    timer_set(&b->e->loop, &c->timer, b->e->loop.now_us + HELLO_US, on_conn_timer, c) < 0) {
		if (c != NULL)
			loop_unwatch(&b->e->loop, &c->watch);
		free(c);
		return 0;
	}
	(void)fd_take(&fd);
	c->box = b;
	c->next = b->dns_conns;
	b->dns_conns = c;
	b->ndns_conns++;
	return 0;
}
