// SPDX-License-Identifier: Apache-2.0
/*
 * A tunnel, from its beginning to its end: see tunnel.h for what it is for.
 *
 * Bytes that wait are bounded: nothing is read from one end while something waits for the other. It may outlive its connection by what that has said and the
 * other end has not taken yet (LINGER_US), never by more.
 */
#include "egress/tunnel.h"

#include "base/own.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { PIECE = 16 * 1024, PIECES_A_TURN = 8 };

enum side { TO_CLIENT, TO_SERVER };

struct tunnel {
	struct tunnel *next, **at;
	struct ebox *box;
	struct econn *c; /* NULL: it is over */
	enum side side;
	int outer, inner; /* the socket; our end of the pair */
	struct watch wouter, winner;
	SSL *ssl; /* NULL: what is outside is not in TLS */
	BIO *in, *out;
	struct answers *answers;
	struct queue to_inner, to_outer;
	bool outer_ended, inner_ended; /* nothing more comes from there */
	bool outer_shut, inner_shut;   /* and it was told so */
	bool shaken;                   /* hands */
	bool silent;          /* its end is not told in TLS: the server has not told its own */
	char why[TUNNEL_WHY]; /* it is not to be spoken to; "": it is */
	struct timer timer;
	struct timer more; /* there is more to do than others should wait for */
	struct deferred gone;
	bool ending;
};

static void step(struct tunnel *t);

/* --- the end ---------------------------------------------------------------------------------- */

static void free_tunnel(void *arg)
{
	struct tunnel *t = arg;

	SSL_free(t->ssl); /* and its BIOs */
	answers_free(t->answers);
	queue_done(&t->to_inner);
	queue_done(&t->to_outer);
	free(t);
}

static void end(struct tunnel *t, bool broken)
{
	const struct linger now = { .l_onoff = 1 };
	struct egress *e = t->box->e;

	if (t->ending)
		return;
	t->ending = true;
	if (broken)
		(void)setsockopt(t->outer, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (t->c != NULL)
		t->c->tunnel[t->side] = NULL;
	t->c = NULL;
	timer_clear(&e->loop, &t->timer);
	timer_clear(&e->loop, &t->more);
	loop_unwatch(&e->loop, &t->wouter);
	loop_unwatch(&e->loop, &t->winner);
	fd_close(&t->outer);
	fd_close(&t->inner);
	*t->at = t->next;
	if (t->next != NULL)
		t->next->at = t->at;
	t->box->ntunnels--;
	e->ntunnels--;
	loop_defer(&e->loop, &t->gone, free_tunnel, t);
}

/* Something went wrong at this end: the connection ends, and both tunnels with it. */
static void broken(struct tunnel *t, enum egress_why why)
{
	struct econn *c = t->c;

	if (c != NULL)
		conn_end(c, why);
	end(t, true);
}

static void on_late(void *arg)
{
	struct tunnel *t = arg;

	broken(t, t->shaken || t->ssl == NULL ? EGRESS_BROKEN
		  : t->side == TO_CLIENT      ? EGRESS_CLIENT_TLS
					      : EGRESS_SERVER_TLS);
}

static void set_timer(struct tunnel *t, uint64_t us)
{
	struct loop *l = &t->box->e->loop;

	if (timer_set(l, &t->timer, l->now_us + us, on_late, t) < 0)
		broken(t, EGRESS_BROKEN);
}

void tunnels_let_go(struct econn *c, bool is_broken)
{
	for (int i = 0; i < 2; i++) {
		struct tunnel *t = c->tunnel[i];

		c->tunnel[i] = NULL;
		if (t == NULL)
			continue;
		t->c = NULL;
		/* Who was told in words why not is to hear them. */
		if (is_broken && !(i == TO_CLIENT && c->answered))
			end(t, true);
		else
			set_timer(t, LINGER_US);
	}
}

void tunnels_end(struct ebox *b)
{
	while (b->tunnels != NULL)
		end(b->tunnels, true);
}

/* --- TLS -------------------------------------------------------------------------------------- */

/* What the library wants to say. */
static int take_said(struct tunnel *t)
{
	while (t->ssl != NULL && BIO_ctrl_pending(t->out) > 0) {
		uint8_t *to = queue_room(&t->to_outer, PIECE);
		int n = to != NULL ? BIO_read(t->out, to, PIECE) : -1;

		if (n <= 0)
			return -ENOMEM;
		t->to_outer.end += (size_t)n;
	}
	return 0;
}

static void note_refusal(struct tunnel *t)
{
	long result = SSL_get_verify_result(t->ssl);

	(void)snprintf(t->why, sizeof(t->why), "%s",
		       result != X509_V_OK ? X509_verify_cert_error_string(result)
					   : "it does not speak TLS as it should");
}

/* 1: done; 0: more is wanted; -1: it failed. */
static int shake(struct tunnel *t)
{
	int rc = SSL_do_handshake(t->ssl), why = rc == 1 ? 0 : SSL_get_error(t->ssl, rc);

	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	if (rc != 1) {
		note_refusal(t);
		return -1;
	}
	t->shaken = true;
	timer_clear(&t->box->e->loop, &t->timer);
	return 1;
}

/* Plain bytes of the other side, to p. How many; 0: none now (t->outer_ended: nor later); -errno. */
static ssize_t read_tls(struct tunnel *t, uint8_t *p, size_t n)
{
	size_t got = 0;
	int why;

	if (SSL_read_ex(t->ssl, p, n, &got) == 1)
		return (ssize_t)got;
	why = SSL_get_error(t->ssl, 0);
	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	if (why != SSL_ERROR_ZERO_RETURN)
		return -EPROTO;
	t->outer_ended = true;
	return 0;
}

/* --- from the outside to the inside ------------------------------------------------------------- */

/* Bytes as they come, to p. The same. */
static ssize_t receive(struct tunnel *t, uint8_t *p, size_t n)
{
	ssize_t got = recv(t->outer, p, n, MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (got == 0)
		t->outer_ended = true;
	return got;
}

static int deliver(struct tunnel *t, const uint8_t *p, size_t n)
{
	return t->answers != NULL ? answers_feed(t->answers, p, n, &t->to_inner)
				  : queue_put(&t->to_inner, p, n);
}

/* 1: something moved, 0: not now, or -errno. */
static int inward(struct tunnel *t)
{
	uint8_t piece[PIECE];
	ssize_t n = 0;
	int r;

	if (t->c == NULL || queue_len(&t->to_inner) > 0 || t->why[0] != '\0')
		return 0;
	if (t->ssl != NULL && t->shaken && !t->outer_ended)
		n = read_tls(t, piece, sizeof(piece));
	if (n == 0 && !t->outer_ended) {
		n = receive(t, piece, sizeof(piece));
		if (n > 0 && t->ssl != NULL) {
			if (BIO_write(t->in, piece, (int)n) != (int)n)
				return -ENOMEM;
			if (t->shaken)
				return 1;
			r = shake(t);
			return r < 0 ? -EKEYREJECTED : 1;
		}
		if (n == 0 && t->outer_ended && t->ssl != NULL && !t->shaken) {
			note_refusal(t);
			return -EKEYREJECTED;
		}
		/* An end without a word of it: somebody may have cut off the rest. The program is to see it so, too. */
		if (n == 0 && t->outer_ended && t->ssl != NULL && t->side == TO_SERVER &&
		    t->c->tunnel[TO_CLIENT] != NULL)
			t->c->tunnel[TO_CLIENT]->silent = true;
	}
	if (n <= 0)
		return (int)n;
	r = deliver(t, piece, (size_t)n);
	explicit_bzero(piece, (size_t)n);
	return r < 0 ? r : 1;
}

/* --- from the inside to the outside ------------------------------------------------------------- */

static int outward(struct tunnel *t)
{
	uint8_t piece[PIECE];
	size_t put = 0;
	ssize_t n;

	if (queue_len(&t->to_outer) > 0 || t->inner_ended || (t->ssl != NULL && !t->shaken))
		return 0;
	n = recv(t->inner, piece, sizeof(piece), MSG_DONTWAIT);
	if (n < 0 && errno != ECONNRESET)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n <= 0) { /* a reset: it has not read all, and all that it has said is here */
		t->inner_ended = true;
		return 0;
	}
	if (t->ssl == NULL)
		return queue_put(&t->to_outer, piece, (size_t)n) < 0 ? -ENOMEM : 1;
	/* There is always room in memory: it takes all of it. */
	if (SSL_write_ex(t->ssl, piece, (size_t)n, &put) != 1 || put != (size_t)n) {
		ERR_clear_error();
		return -EPROTO;
	}
	explicit_bzero(piece, (size_t)n);
	return 1;
}

/* --- both ------------------------------------------------------------------------------------- */

static int tell_ends(struct tunnel *t)
{
	int r = 0;

	if (t->c != NULL && t->outer_ended && queue_len(&t->to_inner) == 0 && !t->inner_shut) {
		t->inner_shut = true;
		if (t->answers != NULL)
			r = answers_end(t->answers, &t->to_inner);
		if (r == 0 && queue_len(&t->to_inner) > 0)
			t->inner_shut = false; /* that first */
		else
			(void)shutdown(t->inner, SHUT_WR);
	}
	if (t->inner_ended && queue_len(&t->to_outer) == 0 && !t->outer_shut) {
		t->outer_shut = true;
		if (t->ssl != NULL && !t->silent) {
			(void)SSL_shutdown(t->ssl);
			ERR_clear_error();
			if (take_said(t) < 0 || queue_send(&t->to_outer, t->outer) < 0)
				return -EPIPE;
		}
		if (queue_len(&t->to_outer) == 0)
			(void)shutdown(t->outer, SHUT_WR);
	}
	return r;
}

/* What there is to wait for. */
static void update(struct tunnel *t)
{
	struct loop *l = &t->box->e->loop;
	uint32_t outer = 0, inner = 0;

	if (t->c != NULL && !t->outer_ended && queue_len(&t->to_inner) == 0 && t->why[0] == '\0')
		outer |= EPOLLIN;
	if (queue_len(&t->to_outer) > 0)
		outer |= EPOLLOUT;
	if (!t->inner_ended && queue_len(&t->to_outer) == 0 && (t->ssl == NULL || t->shaken))
		inner |= EPOLLIN;
	if (t->c != NULL && queue_len(&t->to_inner) > 0)
		inner |= EPOLLOUT;
	loop_change(l, &t->wouter, outer);
	loop_change(l, &t->winner, inner);
}

static void on_more(void *arg)
{
	step(arg);
}

static int move(struct tunnel *t)
{
	int r = 1;

	for (int pieces = 0; r > 0 && pieces < PIECES_A_TURN; pieces++) {
		int in = inward(t), out;

		if (in < 0)
			return in;
		out = outward(t);
		if (out < 0 || take_said(t) < 0)
			return out < 0 ? out : -ENOMEM;
		if (queue_send(&t->to_outer, t->outer) < 0 ||
		    (t->c != NULL && queue_send(&t->to_inner, t->inner) < 0))
			return -EPIPE;
		r = in + out;
	}
	/* What the library holds is not seen by who waits for the sockets. */
	if (r > 0 && timer_soon(&t->box->e->loop, &t->more, on_more, t) < 0)
		return -ENOMEM;
	return tell_ends(t);
}

static enum egress_why why_of(const struct tunnel *t, int error)
{
	if (t->ssl != NULL && (error == -EKEYREJECTED || error == -EPROTO))
		return t->side == TO_CLIENT ? EGRESS_CLIENT_TLS : EGRESS_SERVER_TLS;
	return error == -EBADMSG ? EGRESS_ANSWER : EGRESS_BROKEN;
}

/* An alert says more than a reset. */
static void say_last(struct tunnel *t)
{
	(void)take_said(t);
	(void)queue_send(&t->to_outer, t->outer);
}

static bool is_over(const struct tunnel *t)
{
	return t->outer_shut && queue_len(&t->to_outer) == 0 &&
	       (t->c == NULL || (t->inner_shut && queue_len(&t->to_inner) == 0));
}

static void step(struct tunnel *t)
{
	bool shaken = t->shaken;
	int r = move(t);

	/* The server is not who it should be. Who asks is told so, as an answer to what it asks. */
	if (r == -EKEYREJECTED && t->side == TO_SERVER && t->c != NULL) {
		say_last(t);
		timer_clear(&t->box->e->loop, &t->timer);
		update(t);
		conn_again(t->c);
	} else if (r < 0) {
		say_last(t);
		broken(t, why_of(t, r));
	} else if (is_over(t)) {
		end(t, false);
	} else {
		update(t);
		if (t->shaken && !shaken && t->side == TO_SERVER && t->c != NULL)
			conn_again(t->c);
	}
}

static void on_outer(void *arg, uint32_t events)
{
	struct tunnel *t = arg;

	if ((events & EPOLLERR) != 0)
		broken(t, EGRESS_BROKEN);
	else
		step(t);
}

static void on_inner(void *arg, uint32_t events)
{
	(void)events;
	step(arg);
}

/* --- the beginning ------------------------------------------------------------------------------ */

/* Takes the socket: *fd is the connection's end of the pair afterwards. */
static struct tunnel *tunnel_new(struct econn *c, enum side side, int *fd)
{
	struct ebox *b = c->box;
	struct tunnel *t;
	int pair[2];

	if (b->ntunnels >= TUNNELS_BOX || b->e->ntunnels >= TUNNELS_MAX)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
		free(t);
		return NULL;
	}
	if (!bounds_may_go_on(b->e, pair[1])) {
		fd_close(&pair[0]);
		fd_close(&pair[1]);
		free(t);
		return NULL;
	}
	*t = (struct tunnel){ .next = b->tunnels,
			      .at = &b->tunnels,
			      .box = b,
			      .c = c,
			      .side = side,
			      .outer = *fd,
			      .inner = pair[0],
			      .wouter = { .fd = -1 },
			      .winner = { .fd = -1 } };
	*fd = pair[1];
	c->tunnel[side] = t;
	if (t->next != NULL)
		t->next->at = &t->next;
	b->tunnels = t;
	b->ntunnels++;
	b->e->ntunnels++;
	return t;
}

static int watch(struct tunnel *t)
{
	struct loop *l = &t->box->e->loop;

	return loop_watch(l, &t->wouter, t->outer, 0, on_outer, t) < 0 ||
			       loop_watch(l, &t->winner, t->inner, 0, on_inner, t) < 0
		       ? -ENOMEM
		       : 0;
}

static int begin_tls(struct tunnel *t, SSL_CTX *context)
{
	t->ssl = context != NULL ? SSL_new(context) : NULL;
	t->in = BIO_new(BIO_s_mem());
	t->out = BIO_new(BIO_s_mem());
	if (t->ssl == NULL || t->in == NULL || t->out == NULL) {
		BIO_free(t->in);
		BIO_free(t->out);
		t->in = t->out = NULL;
		return -ENOMEM;
	}
	(void)BIO_set_mem_eof_return(t->in, -1);
	SSL_set_bio(t->ssl, t->in, t->out);
	return 0;
}

static int begin_client(struct tunnel *t, const char *hello, size_t n)
{
	struct ebox *b = t->box;
	int r = begin_tls(t, secrets_server(b->e));

	if (r < 0)
		return r;
	SSL_set_accept_state(t->ssl);
	if (b->authority == NULL)
		b->authority = secrets_authority(b->e, b->id);
	if (b->authority == NULL || authority_use(b->authority, t->ssl, t->c->name) < 0 ||
	    BIO_write(t->in, hello, (int)n) != (int)n)
		return -ENOMEM;
	set_timer(t, HELLO_US);
	return 0;
}

static int begin_server(struct tunnel *t)
{
	static const uint8_t http1[] = "\x08http/1.1";
	int r = begin_tls(t, secrets_client(t->box->e));

	if (r < 0)
		return r;
	SSL_set_connect_state(t->ssl);
	if (SSL_set_tlsext_host_name(t->ssl, t->c->name) != 1 ||
	    SSL_set1_host(t->ssl, t->c->name) != 1 ||
	    SSL_set_alpn_protos(t->ssl, http1, sizeof(http1) - 1) != 0)
		return -ENOMEM;
	set_timer(t, DIAL_US);
	return 0;
}

/* Both begin to speak when everything is there. */
static int go(struct tunnel *t)
{
	if (t->ssl != NULL && shake(t) < 0)
		return -EBADMSG;
	step(t);
	return 0;
}

int tunnel_open(struct econn *c)
{
	struct tunnel *client, *server;
	int r;

	if (c->tunnel[TO_CLIENT] != NULL || c->tunnel[TO_SERVER] != NULL)
		return -EBADMSG;
	client = tunnel_new(c, TO_CLIENT, &c->client_fd);
	server = client != NULL ? tunnel_new(c, TO_SERVER, &c->server_fd) : NULL;
	if (server == NULL)
		return -EBUSY;
	r = begin_client(client, c->hold, c->held);
	if (r == 0)
		r = begin_server(server);
	if (r == 0 && inject_hides(c))
		r = tunnel_hide(c);
	c->held = c->looked = 0;
	if (r == 0)
		r = conn_moved(c);
	if (r == 0 && (watch(client) < 0 || watch(server) < 0))
		r = -ENOMEM;
	if (r == 0)
		r = go(client);
	return r == 0 && !c->ending ? go(server) : r;
}

int tunnel_hide(struct econn *c)
{
	struct tunnel *t = c->tunnel[TO_SERVER];
	struct redact *hidden = calloc(1, sizeof(*hidden));
	bool fresh = t == NULL;

	if (hidden == NULL)
		return -ENOMEM;
	redact_init(hidden);
	if (fresh)
		t = tunnel_new(c, TO_SERVER, &c->server_fd);
	if (t == NULL || inject_hidden(c, hidden) < 0) {
		redact_done(hidden);
		free(hidden);
		return t == NULL ? -EBUSY : -ENOMEM;
	}
	t->answers = answers_new(hidden);
	if (t->answers == NULL) {
		redact_done(hidden);
		free(hidden);
		return -ENOMEM;
	}
	if (!fresh)
		return 0;
	if (conn_moved(c) < 0 || watch(t) < 0)
		return -ENOMEM;
	step(t);
	return 0;
}

int tunnel_asks(struct econn *c, bool head)
{
	struct tunnel *t = c->tunnel[TO_SERVER];

	return t != NULL && t->answers != NULL ? answers_asked(t->answers, head) : 0;
}

bool tunnel_waits(const struct econn *c)
{
	const struct tunnel *t = c->tunnel[TO_SERVER];

	return t != NULL && t->ssl != NULL && !t->shaken && t->why[0] == '\0';
}

const char *tunnel_refused(const struct econn *c)
{
	const struct tunnel *t = c->tunnel[TO_SERVER];

	return t != NULL && t->why[0] != '\0' ? t->why : NULL;
}
