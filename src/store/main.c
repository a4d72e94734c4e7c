// SPDX-License-Identifier: Apache-2.0
/*
 * The store role: everything that waits for a disk, beside the gate that must not.
 *
 * Start: take the arguments of the (trusted) starter, give up privileges, lock the directory,
 * open the index, clean up after a predecessor that was killed. Then one loop over the gate's
 * channel, uploads and downloads. Keeper or gate gone: forget what is open and exit. Messages are
 * from the gate, and untrusted: see ops.c.
 */
#include "store/confine.h"
#include "store/role.h"
#include "store/store.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
	REQUESTS_PER_TURN = AUDIT_BATCH,
	FDS_PER_TRANSFER = 2,
	FDS_SPARE = 64, /* our own, and those in answers that wait */
};

uint8_t store_piece[PIECE] __attribute__((aligned(4096)));

/* --- events --------------------------------------------------------------------------------- */

static uint64_t event_data(enum watch what, unsigned int index, uint32_t generation)
{
	return (uint64_t)what << 56 | (uint64_t)(index & 0xffffu) << 32 | generation;
}

int store_watch(struct store *s, int fd, uint32_t events, enum watch what, unsigned int index,
		uint32_t generation)
{
	struct epoll_event ev = { .events = events,
				  .data.u64 = event_data(what, index, generation) };

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void store_unwatch(struct store *s, int fd)
{
	(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void end_with(struct store *s, const char *why)
{
	(void)dprintf(STDERR_FILENO, "glovebox store: %s\n", why);
	s->ended = true;
	s->status = 1;
}

static void gate_event(struct store *s, uint32_t events)
{
	static struct chan_msg m;

	if (s->answers != NULL) {
		/* Nothing is read before it has taken its answers; a hangup would come for ever. */
		if ((events & EPOLLOUT) != 0)
			reply_flush(s);
		else if ((events & (EPOLLHUP | EPOLLERR)) != 0)
			s->ended = true;
		return;
	}
	for (unsigned int i = 0; i < REQUESTS_PER_TURN && s->answers == NULL && !s->ended; i++) {
		int r = chan_recv(s->gate_fd, &m);

		if (r == -EAGAIN)
			break;
		if (r == 0)
			s->ended = true;
		else if (r < 0 || store_handle(s, &m) < 0)
			end_with(s, "the gate broke the protocol");
	}
	store_flush(s);
}

/* It asks whether we live, and wants its question back; else there is its end. */
static void keeper_event(struct store *s)
{
	char unread[64];
	ssize_t n = recv(s->keeper_fd, unread, sizeof(unread), MSG_DONTWAIT);

	if (n > 0)
		(void)!send(s->keeper_fd, unread, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		s->ended = true;
}

static void dispatch(struct store *s, const struct epoll_event *ev)
{
	unsigned int index = (unsigned int)(ev->data.u64 >> 32) & 0xffffu;
	uint32_t generation = (uint32_t)ev->data.u64;

	switch ((enum watch)(ev->data.u64 >> 56)) {
	case WATCH_GATE:
		gate_event(s, ev->events);
		break;
	case WATCH_KEEPER:
		keeper_event(s);
		break;
	case WATCH_PUT:
		put_event(s, index, generation);
		break;
	case WATCH_GET:
		get_event(s, index, generation);
		break;
	}
}

static void loop(struct store *s)
{
	uint64_t sweep_us = clock_us() + s->set.sweep * US_PER_S;

	while (!s->ended) {
		struct epoll_event events[64];
		int n = epoll_wait(s->epoll_fd, events, (int)ARRAY_LEN(events),
				   clock_poll_ms(sweep_us));

		/* The kernel hands out what is ready in turn, so that no transfer is left out. */
		for (int i = 0; i < n && !s->ended; i++)
			dispatch(s, &events[i]);
		if (clock_us() >= sweep_us)
			sweep_us = clock_us() +
				   (files_sweep(&s->files) > 0 ? 0 : s->set.sweep * US_PER_S);
	}
}

/* --- start ---------------------------------------------------------------------------------- */

struct setting {
	const char *key;
	size_t at; /* of a uint64_t in struct settings */
	uint64_t max;
};

static const struct setting settings[] = {
	{ "uid", offsetof(struct settings, uid), UINT32_MAX - 1 },
	{ "gid", offsetof(struct settings, gid), UINT32_MAX - 1 },
	{ "file_ttl", offsetof(struct settings, file_ttl), UINT32_MAX },
	{ "sweep", offsetof(struct settings, sweep), UINT32_MAX },
	{ "store_bytes", offsetof(struct settings, store_bytes), INT64_MAX },
	{ "tenant_bytes", offsetof(struct settings, tenant_bytes), INT64_MAX },
	{ "nameless", offsetof(struct settings, nameless), 1 },
	{ "audit_max_bytes", offsetof(struct settings, audit_max_bytes), INT64_MAX },
	{ "audit_keep", offsetof(struct settings, audit_keep), 1000 },
};

static int take_argument(struct settings *set, const char *arg, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		size_t n = strlen(settings[i].key);
		uint64_t v;

		if (strncmp(arg, settings[i].key, n) != 0 || arg[n] != '=')
			continue;
		if (str_to_u64(arg + n + 1, settings[i].max, &v) < 0)
			return err_set(e, ERR_USAGE, 0, "bad argument '%s' of the store", arg);
		(void)memcpy((char *)set + settings[i].at, &v, sizeof(v));
		return 0;
	}
	if (strncmp(arg, "audit_name=", 11) == 0) {
		set->audit_name = arg + 11;
		if (!path_is_plain(set->audit_name) || strchr(set->audit_name, '/') != NULL ||
		    strlen(set->audit_name) >= AUDIT_NAME)
			return err_set(e, ERR_USAGE, 0, "bad argument '%s' of the store", arg);
		return 0;
	}
	return err_set(e, ERR_USAGE, 0, "unknown argument '%s' of the store", arg);
}

static int take_arguments(struct settings *set, int argc, char **argv, struct err *e)
{
	*set = (struct settings){
		.uid = CONFINE_KEEP_ID,
		.gid = CONFINE_KEEP_ID,
		.sweep = 30,
		.nameless = 1,
		.audit_keep = 4,
		.audit_name = "audit.jsonl",
	};
	for (int i = 1; i < argc; i++)
		if (take_argument(set, argv[i], e) < 0)
			return -1;
	return 0;
}

static bool is_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A descriptor that cannot be taken over would end us: chan_recv() calls it a cut message. */
static void set_bounds(struct store *s)
{
	struct rlimit l;
	rlim_t each;

	s->puts_max = STORE_PUTS_MAX;
	s->gets_max = STORE_GETS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	each = l.rlim_cur > FDS_SPARE ? (l.rlim_cur - FDS_SPARE) / (2 * FDS_PER_TRANSFER) : 1;
	if (each < STORE_PUTS_MAX)
		s->puts_max = (unsigned int)each;
	if (each < STORE_GETS_MAX)
		s->gets_max = (unsigned int)each;
}

static int settle(struct store *s, struct err *e)
{
	static const int ignored[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ };

	/* Our end comes by the channels: with systemd everybody gets SIGTERM at once, and the gate
	 * may have something to store yet. */
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	set_bounds(s);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0 || io_set_nonblock(s->gate_fd, 1) < 0 ||
	    store_watch(s, s->gate_fd, EPOLLIN, WATCH_GATE, 0, 0) < 0 ||
	    store_watch(s, s->keeper_fd, EPOLLIN, WATCH_KEEPER, 0, 0) < 0)
		return err_set(e, ERR_SYS, errno, "make the event loop");
	/* No file of configuration: what we hash with is not for others to choose. */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
		return err_set(e, ERR_SYS, 0, "start libcrypto");
	s->sha256 = EVP_sha256();
	return 0;
}

static int start(struct store *s, int argc, char **argv, struct err *e)
{
	int audit_dir = is_directory(STORE_AUDIT_FD) ? STORE_AUDIT_FD : -1;

	for (int fd = STORE_KEEPER_FD; fd <= STORE_AUDIT_FD; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (take_arguments(&s->set, argc, argv, e) < 0)
		return -1;
	if (!is_directory(STORE_DIR_FD))
		return err_set(e, ERR_USAGE, 0, "descriptor %d of the store is no directory",
			       STORE_DIR_FD);
	if (settle(s, e) < 0 ||
	    confine_store(s->set.uid, s->set.gid, STORE_DIR_FD, audit_dir, e) < 0)
		return -1;
	audit_init(&s->audit, audit_dir, s->set.audit_name, s->set.audit_max_bytes,
		   s->set.audit_keep);
	return files_open(&s->files, STORE_DIR_FD, s->set.nameless != 0, s->set.file_ttl * US_PER_S,
			  e);
}

/* Request 0: the start itself. For a person, who may see no gate's log yet, also to stderr. */
static void say_failed(struct store *s, const struct err *e)
{
	(void)dprintf(STDERR_FILENO, "glovebox store: %s%s%s\n", e->text,
		      e->hint[0] != '\0' ? "; " : "", e->hint);
	reply_failed(s, 0, STORE_BROKEN, "%.200s", e->text);
}

int store_main(int argc, char **argv)
{
	static struct store s;
	struct err e;

	s.gate_fd = STORE_GATE_FD;
	s.keeper_fd = STORE_KEEPER_FD;
	s.epoll_fd = -1;
	s.audit.fd = -1;
	s.files.lock_fd = -1;
	if (start(&s, argc, argv, &e) == 0) {
		loop(&s);
	} else {
		say_failed(&s, &e);
		s.status = 1;
	}
	puts_done(&s);
	gets_done(&s);
	reply_done(&s);
	audit_close(&s.audit);
	files_close(&s.files);
	fd_close(&s.epoll_fd);
	return s.status;
}
