// SPDX-License-Identifier: Apache-2.0
/*
 * The gate and the store of a server: children of the keeper, always a pair; and the tools process, which comes and goes by itself.
 *
 * The supervisor (`glovebox serve`) opened listeners, directories and the configuration, and says by
 * arguments which of them each role gets; the keeper passes them on without knowing what they are,
 * and keeps its own copies: a connection that comes while there is no gate waits in the kernel. When
 * one of the pair ends, the other is ended, and a new pair starts at once. Boxes with a record stay.
 * One that does not answer any more is killed, and it goes on from there.
 *
 * Should: start the next pair only when both of the last are reaped (the store has locks).
 * Must not: read what the gate says of itself, wait for anything, blame them for a pause of its own or
 * of the whole machine.
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	CHANNEL_FD = 3, /* of a servant: to the keeper */
	HIGH_FD = 128,  /* where descriptors are parked while the low ones are laid out */
	RETRY_US = 100 * 1000,
	LIVED_US = 1000 * 1000, /* who ended earlier is not followed at once */
	ASK_PARTS = 2,          /* of hang_us: how often they are asked whether they live */
	GATE_MISSES = 2,        /* that many answers missing in a row: it hangs */
	STORE_MISSES = 6,       /* it waits for disks */
	TOOLS_MISSES = 2,
	EGRESS_MISSES = 2,
	ANSWERS_BYTES = 8 * 1024 * 1024, /* that wait for a busy gate: about one of every box */
};

/* --- arguments -------------------------------------------------------------------------------- */

/* "5,8,9" */
static int take_descriptors(struct servant *s, char *list, struct err *e)
{
	char *save = NULL;

	for (char *w = strtok_r(list, ",", &save); w != NULL; w = strtok_r(NULL, ",", &save)) {
		uint64_t fd;

		if (s->npass == PASS_MAX || str_to_u64(w, HIGH_FD - 1, &fd) < 0 ||
		    fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
			return err_set(e, ERR_USAGE, 0, "descriptor '%s' of a role", w);
		s->pass[s->npass++] = (int)fd;
	}
	return 0;
}

static int take_word(struct servant *s, const char *word, struct err *e)
{
	if (s->nargs == STORE_ARGS_MAX)
		return err_set(e, ERR_USAGE, 0, "too many arguments of a role");
	s->args[s->nargs++] = word;
	return 0;
}

int server_argument(struct server *s, char *arg, struct err *e)
{
	uint64_t fd;

	if (strncmp(arg, "exec=", 5) == 0 && str_to_u64(arg + 5, HIGH_FD - 1, &fd) == 0) {
		s->on = true;
		s->exec_fd = (int)fd;
		return fcntl(s->exec_fd, F_SETFD, FD_CLOEXEC) < 0
			       ? err_set(e, ERR_USAGE, errno, "descriptor %d", s->exec_fd)
			       : 1;
	}
	if (strncmp(arg, "hang_us=", 8) == 0)
		return str_to_u64(arg + 8, UINT64_MAX / 2, &s->hang_us) < 0
			       ? err_set(e, ERR_USAGE, 0, "bad argument '%s' of the keeper", arg)
			       : 1;
	if (strncmp(arg, "gate-fds=", 9) == 0)
		return take_descriptors(&s->gate, arg + 9, e) < 0 ? -1 : 1;
	if (strncmp(arg, "tools-fds=", 10) == 0)
		return take_descriptors(&s->tools, arg + 10, e) < 0 ? -1 : 1;
	if (strncmp(arg, "store-fds=", 10) == 0)
		return take_descriptors(&s->store, arg + 10, e) < 0 ? -1 : 1;
	if (strncmp(arg, "store:", 6) == 0)
		return take_word(&s->store, arg + 6, e) < 0 ? -1 : 1;
	return 0;
}

/* --- start ------------------------------------------------------------------------------------ */

/* In the child: descriptors to their places, everything else closed. */
static _Noreturn void become(const struct servant *s, const char *role, int channel, int peer,
			     int exec_fd, uint32_t id)
{
	const char *argv[STORE_ARGS_MAX + 5] = { "glovebox-gate", role };
	char *const envp[] = { NULL };
	char uid[24], gid[24];
	unsigned int n = 2, fds = 0;
	int at[PASS_MAX + 3];
	sigset_t none;

	at[fds++] = fcntl(channel, F_DUPFD, HIGH_FD);
	if (peer >= 0)
		at[fds++] = fcntl(peer, F_DUPFD, HIGH_FD);
	for (unsigned int i = 0; i < s->npass; i++)
		at[fds++] = fcntl(s->pass[i], F_DUPFD, HIGH_FD);
	exec_fd = fcntl(exec_fd, F_DUPFD_CLOEXEC, HIGH_FD);
	for (unsigned int i = 0; i < fds; i++)
		if (at[i] < 0 || dup2(at[i], CHANNEL_FD + (int)i) < 0)
			_exit(125);
	for (unsigned int i = 0; i < fds; i++)
		(void)close(at[i]);
	if (syscall(SYS_close_range, CHANNEL_FD + fds, (unsigned int)exec_fd - 1, 0) < 0 ||
	    syscall(SYS_close_range, (unsigned int)exec_fd + 1, ~0u, 0) < 0)
		_exit(125);
	(void)snprintf(uid, sizeof(uid), "uid=%u", id);
	(void)snprintf(gid, sizeof(gid), "gid=%u", id);
	argv[n++] = uid;
	argv[n++] = gid;
	for (unsigned int i = 0; i < s->nargs; i++)
		argv[n++] = s->args[i];
	(void)setsid(); /* the terminal's Ctrl-C is the supervisor's business */
	for (int sig = 1; sig < 32; sig++)
		(void)signal(sig, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)syscall(SYS_execveat, exec_fd, "", argv, envp, AT_EMPTY_PATH);
	_exit(125);
}

int servant_spawn(struct servant *s, const char *role, int channel, int peer, int exec_fd,
		  uint32_t id)
{
	pid_t pid = fork();

	if (pid == 0)
		become(s, role, channel, peer, exec_fd, id);
	if (pid < 0)
		return -errno;
	s->pid = pid;
	s->asked = false;
	s->missed = 0;
	return 0;
}

/* The store's directories are its own. */
static void own_directories(const struct servant *s, uint32_t id)
{
	for (unsigned int i = 0; i < s->npass; i++) {
		struct stat st;

		/* Where everybody may write, so may the store; and it is everybody's. */
		if (fstat(s->pass[i], &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid != id &&
		    (st.st_mode & S_IWOTH) == 0)
			(void)!fchown(s->pass[i], id, id);
	}
}

static void close_store(struct keeper *k)
{
	if (k->server.store_fd >= 0)
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, k->server.store_fd, NULL);
	fd_close(&k->server.store_fd);
}

static int start_pair(struct keeper *k)
{
	struct server *s = &k->server;
	own_fd gate_end = -1, store_end = -1, peer0 = -1, peer1 = -1;
	const int bytes = ANSWERS_BYTES;
	uint32_t gate_id, store_id, tools_id;
	int pair[2], r = chan_pair(pair);

	if (r < 0)
		return r;
	k->gate_fd = pair[0];
	gate_end = pair[1];
	if (setsockopt(k->gate_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(k->gate_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	r = chan_pair(pair);
	if (r < 0)
		return r;
	peer0 = pair[0];
	peer1 = pair[1];
	r = chan_pair(pair);
	if (r < 0)
		return r;
	close_store(k);
	s->store_fd = pair[0];
	store_end = pair[1];
	ids_servants(&k->ids, k->instance.slot, &gate_id, &store_id, &tools_id);
	own_directories(&s->store, store_id);
	r = servant_spawn(&s->store, "store", store_end, peer1, s->exec_fd, store_id);
	if (r == 0)
		r = servant_spawn(&s->gate, "gate", gate_end, peer0, s->exec_fd, gate_id);
	if (r < 0)
		return r;
	k->gate_gone = false;
	k->hello = false;
	s->serving = false;
	s->ask_us = clock_us() + s->hang_us / ASK_PARTS;
	(void)io_set_nonblock(k->gate_fd, 1);
	(void)io_set_nonblock(s->store_fd, 1);
	keeper_watch(k, k->gate_fd, WATCH_GATE);
	keeper_watch(k, s->store_fd, WATCH_STORE);
	return 0;
}

void servant_end(const struct servant *s)
{
	if (s->pid > 0)
		(void)kill(s->pid, SIGKILL);
}

int server_start(struct keeper *k, struct err *e)
{
	struct server *s = &k->server;

	s->sup_fd = k->gate_fd;
	k->gate_fd = -1;
	k->gate_gone = true;
	s->store_fd = -1;
	s->tools_fd = -1;
	(void)e;
	(void)io_set_nonblock(s->sup_fd, 1);
	keeper_watch(k, s->sup_fd, WATCH_SUPERVISOR);
	s->start_us = clock_us();
	return 0;
}

static void tell(struct keeper *k, uint16_t type, const void *body, size_t len)
{
	if (k->server.sup_fd >= 0)
		(void)chan_send(k->server.sup_fd, type, 0, body, len, NULL, 0);
}

void server_lost(struct keeper *k, const char *role, int status)
{
	uint8_t body[64];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, (uint32_t)status);
	msg_put_str(&m, role);
	tell(k, SUPERVISE_LOST, body, m.len);
}

/* --- who hangs ---------------------------------------------------------------------------------- */

/* Count an answer that is missing, and kill who misses too many. It alone: a store that cannot die because it waits for
 * its disk leaves the gate to do what it can. However long nobody looked, that was one answer: we may have been
 * stopped ourselves, and everybody with us. (The clock does not run while the machine is suspended.) */
static void check_servant(struct keeper *k, struct servant *s, const char *role,
			  unsigned int misses)
{
	uint8_t body[64];
	struct msg_out m;

	if (!s->asked || s->pid <= 0) {
		s->missed = 0;
	} else if (++s->missed == misses) {
		servant_end(s);
		msg_out_init(&m, body, sizeof(body));
		msg_put_str(&m, role);
		tell(k, SUPERVISE_HUNG, body, m.len);
	}
}

/* Ask both whether they live; when to ask again. */
static uint64_t look_after(struct keeper *k)
{
	struct server *s = &k->server;
	uint64_t now = clock_us();

	if (s->hang_us == 0)
		return UINT64_MAX;
	if (now < s->ask_us)
		return s->ask_us;
	s->ask_us = now + s->hang_us / ASK_PARTS;
	check_servant(k, &s->gate, "gate", GATE_MISSES);
	if (!s->gate.asked && !k->gate_gone) {
		s->gate.asked = true;
		ops_tell(k, EVENT_PING, 0, NULL, 0, NULL);
	}
	check_servant(k, &s->store, "store", STORE_MISSES);
	/* Before they serve it puts its directory in order, for as long as that takes. */
	if (!s->store.asked && s->serving)
		s->store.asked = chan_send(s->store_fd, EVENT_PING, 0, NULL, 0, NULL, 0) == 0;
	check_servant(k, &s->tools, "tools process", TOOLS_MISSES);
	if (!s->tools.asked && s->tools_fd >= 0)
		s->tools.asked = chan_send(s->tools_fd, EVENT_PING, 0, NULL, 0, NULL, 0) == 0;
	check_servant(k, &k->egress.servant, "egress", EGRESS_MISSES);
	if (!k->egress.servant.asked && k->egress.fd >= 0)
		k->egress.servant.asked =
			chan_send(k->egress.fd, EVENT_PING, 0, NULL, 0, NULL, 0) == 0;
	return s->ask_us;
}

void server_store_event(struct keeper *k)
{
	static struct chan_msg m;
	int r = chan_recv(k->server.store_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0) {
		chan_msg_close(&m);
		k->server.store.asked = false;
	} else {
		close_store(k); /* we hear of its end by its status */
	}
}

/* --- the tools process ------------------------------------------------------------------------------ */

static void close_tools(struct keeper *k)
{
	if (k->server.tools_fd >= 0)
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, k->server.tools_fd, NULL);
	fd_close(&k->server.tools_fd);
}

/* With this end of the gate's stream. 0 or -errno. */
static int start_tools(struct keeper *k, int stream)
{
	uint32_t gate_id, store_id, tools_id;
	struct server *s = &k->server;
	own_fd end = -1;
	int pair[2], r = chan_pair(pair);

	if (r < 0)
		return r;
	s->tools_fd = pair[0];
	end = pair[1];
	ids_servants(&k->ids, k->instance.slot, &gate_id, &store_id, &tools_id);
	r = servant_spawn(&s->tools, "tools", end, stream, s->exec_fd, tools_id);
	if (r < 0) {
		fd_close(&s->tools_fd);
		return r;
	}
	s->tools_born_us = clock_us();
	(void)io_set_nonblock(s->tools_fd, 1);
	keeper_watch(k, s->tools_fd, WATCH_TOOLS);
	return 0;
}

int server_tools(struct keeper *k, int *ret_fd, struct err *e)
{
	struct server *s = &k->server;
	own_fd mine = -1, theirs = -1;
	int pair[2], r;

	if (!s->on || s->ending || s->tools.npass == 0)
		return err_set(e, ERR_INPUT, 0, "there is no tools process");
	/* It is ending, or was too often. */
	if ((s->tools.pid > 0 && s->tools_fd < 0) ||
	    (s->tools_failures >= STARTS_MAX && clock_us() - s->tools_born_us < LIVED_US))
		return err_set(e, ERR_SYS, EAGAIN, "the tools process ends soon after it begins");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_set(e, ERR_SYS, errno, "make a stream");
	mine = pair[0];
	theirs = pair[1];
	r = s->tools.pid > 0 ? chan_send(s->tools_fd, EVENT_PEER, 0, NULL, 0, &theirs, 1)
			     : start_tools(k, theirs);
	if (r < 0) /* one that has gone, and was not reaped yet, is followed by another */
		return err_set(e, ERR_SYS, s->tools.pid > 0 ? EAGAIN : -r,
			       "start the tools process");
	*ret_fd = fd_take(&mine);
	return 0;
}

/* It wants a connection: a number, as a gate says one (see WAY_OPEN). */
static void tools_way(struct keeper *k, const struct chan_msg *m)
{
	uint8_t body[ERR_TEXT + ERR_HINT + 32];
	own_fd fd = -1;
	struct err e;
	ptrdiff_t n;

	fd = way_open(&k->tool_ways, m->body[0], &e);
	if (fd >= 0) {
		(void)chan_send(k->server.tools_fd, REPLY_OK, m->request, NULL, 0, &fd, 1);
		return;
	}
	n = failed_encode(&e, body, sizeof(body));
	if (n > 0)
		(void)chan_send(k->server.tools_fd, REPLY_FAILED, m->request, body, (size_t)n, NULL,
				0);
}

void server_tools_event(struct keeper *k)
{
	static struct chan_msg m;
	int r = k->server.tools_fd < 0 ? -EAGAIN : chan_recv(k->server.tools_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0 && m.type == EVENT_PING && m.nfds == 0 && m.len == 0) {
		k->server.tools.asked = false;
	} else if (r > 0 && m.type == OP_WAY_OPEN && m.nfds == 0 && m.len == 1) {
		k->server.tools.asked = false;
		tools_way(k, &m);
	} else { /* gone, or it says what it should not; we hear of its end by its status */
		if (r > 0)
			chan_msg_close(&m);
		close_tools(k);
		servant_end(&k->server.tools);
	}
}

static void tools_reaped(struct keeper *k, int status)
{
	struct server *s = &k->server;

	s->tools.pid = 0;
	close_tools(k);
	s->tools_failures = clock_us() - s->tools_born_us < LIVED_US ? s->tools_failures + 1 : 0;
	if (!s->ending)
		server_lost(k, "tools process", status);
}

uint64_t server_turn(struct keeper *k)
{
	struct server *s = &k->server;

	if (k->gate_gone) /* also one that broke the protocol and has not noticed */
		servant_end(&s->gate);
	if (!s->on)
		return UINT64_MAX;
	if (s->gate.pid > 0 || s->store.pid > 0)
		return look_after(k);
	if (s->ending)
		return UINT64_MAX;
	if (s->start_us > clock_us())
		return s->start_us;
	if (start_pair(k) < 0) { /* no memory, no processes: again in a moment */
		fd_close(&k->gate_fd);
		servant_end(&s->store);
		servant_end(&s->gate);
		s->start_us = clock_us() + RETRY_US;
		return s->start_us;
	}
	return UINT64_MAX;
}

/* --- the end of one ----------------------------------------------------------------------------- */

static void end_everything(struct keeper *k)
{
	k->server.ending = true;
	servant_end(&k->server.gate);
	servant_end(&k->server.store);
	servant_end(&k->server.tools);
	servant_end(&k->egress.servant);
	keeper_drop_gate(k);
	for (unsigned int i = 0; i < k->nboxes; i++)
		if (k->boxes[i].state != BOX_FREE) {
			k->boxes[i].asked_to_end = true;
			box_end(k, &k->boxes[i]);
		}
}

static void give_up(struct keeper *k)
{
	uint8_t body[ERR_TEXT + ERR_HINT + 32];
	struct err e;
	ptrdiff_t n;

	(void)err_set(&e, ERR_SYS, 0, "the gate ended %d times before it could serve", STARTS_MAX);
	n = failed_encode(&e, body, sizeof(body));
	if (n > 0)
		tell(k, REPLY_FAILED, body, (size_t)n);
	end_everything(k);
}

void server_reaped(struct keeper *k, pid_t pid, int status)
{
	struct server *s = &k->server;
	uint64_t now = clock_us();
	bool gate = pid == s->gate.pid, first = s->gate.pid > 0 && s->store.pid > 0;

	if (s->on && pid == s->tools.pid) {
		tools_reaped(k, status);
		return;
	}
	if (!s->on || (!gate && pid != s->store.pid))
		return;
	if (gate)
		s->gate.pid = 0;
	else
		s->store.pid = 0;
	servant_end(&s->gate);
	servant_end(&s->store);
	ops_hear_out(k);
	keeper_drop_gate(k);
	if (s->ending)
		servant_end(&s->tools);
	if (!first || s->ending)
		return;
	/* The first of the pair is the one that has a reason. */
	server_lost(k, gate ? "gate" : "store", status);
	s->restarts++;
	s->start_us = now + (s->serving && now - s->start_us > LIVED_US ? 0 : RETRY_US);
	if (s->serving)
		s->failures = 0;
	else if (++s->failures == STARTS_MAX)
		give_up(k);
}

bool server_is_over(const struct keeper *k)
{
	const struct server *s = &k->server;

	return !s->on || (s->ending && s->gate.pid <= 0 && s->store.pid <= 0 && s->tools.pid <= 0);
}

/* --- the supervisor --------------------------------------------------------------------------- */

/* Configuration, certificate and key: the first, third and fourth descriptor of the gate. The next gate gets them, and
 * this one hears of it; egress first has the secrets that rules may name from then on. */
static void new_config(struct keeper *k, const int fds[4])
{
	struct server *s = &k->server;
	static const unsigned int at[] = { 0, 2, 3 };

	egress_secrets(k, fds[3]);
	if (s->gate.npass < 4)
		return;
	for (unsigned int i = 0; i < 3; i++)
		if (dup3(fds[i], s->gate.pass[at[i]], O_CLOEXEC) < 0)
			return;
	if (!k->gate_gone && chan_send(k->gate_fd, EVENT_CONFIG, 0, NULL, 0, fds, 3) < 0)
		keeper_drop_gate(k);
}

void server_sup_event(struct keeper *k)
{
	static struct chan_msg m;
	int r = chan_recv(k->server.sup_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0 && m.type == SUPERVISE_CONFIG && m.nfds == 4) {
		new_config(k, m.fds);
	} else if (r > 0 && m.type == SUPERVISE_ENVS && m.nfds == 1) {
		if (envs_take(k, m.fds[0]) == 0)
			ops_tell(k, EVENT_ENVS, 0, NULL, 0, NULL);
	} else if (r > 0 && m.type == SUPERVISE_BUILT) {
		ops_tell(k, EVENT_BUILT, 0, m.body, m.len, NULL);
	} else if (r > 0 && m.type == SUPERVISE_RENEW) {
		ops_tell(k, EVENT_RENEW, 0, NULL, 0, NULL);
	} else if (r > 0 && m.type == SUPERVISE_STOP && !k->gate_gone) {
		/* No further gate; boxes stay until this one has finished and left. */
		k->server.ending = true;
		ops_tell(k, EVENT_STOP, 0, NULL, 0, NULL);
	} else if (r > 0 && m.type == SUPERVISE_PING) {
		tell(k, SUPERVISE_ALIVE, NULL, 0);
	} else {
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, k->server.sup_fd, NULL);
		end_everything(k);
	}
	if (r > 0)
		chan_msg_close(&m);
}

void server_serving(struct keeper *k)
{
	uint8_t body[8];
	struct msg_out m;

	k->server.serving = true;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, k->server.restarts);
	tell(k, SUPERVISE_SERVING, body, m.len);
}

int server_build(struct keeper *k, const struct chan_msg *m)
{
	if (!k->server.on)
		return -1;
	tell(k, SUPERVISE_BUILD, m->body, m->len);
	return 0;
}

void server_tried(struct keeper *k, const struct chan_msg *m)
{
	tell(k, SUPERVISE_TRIED, m->body, m->len);
}
