// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox serve`: the supervisor of a server.
 *
 * It reads the configuration, makes directories, opens listeners, certificate and the pipe for the log, and starts the
 * keeper with all that; the keeper starts store and gate. From then on it writes what they log to standard error, and
 * passes on what the operator wants: SIGTERM and SIGINT stop (a second one at once), SIGHUP reloads. Its end is the
 * keeper's end, and with it that of everything else.
 */
#include "cli/serve.h"
#include "cli/gate_program.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/io.h"
#include "base/layers.h"
#include "base/own.h"
#include "cli/environment.h"
#include "cli/keeper_client.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "wire/chan.h"
#include "wire/endpoint.h"
#include "wire/msg.h"
#include "wire/ops.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

enum {
	CHANNEL_FD = 3,
	FIRST_FD =
		10, /* descriptors for the keeper start here, clear of what it expects elsewhere */
	ARGS = 256,
	LOG_PIPE = 1024 * 1024,
	LOOK_US = 5 * 1000 * 1000, /* how often it is looked whether packages have changed */
};

struct supervisor {
	int argc;
	char **argv;
	struct config config;
	struct listeners listeners;
	char ways[ENDPOINTS_MAX][SERVE_WAY];
	int nways;
	struct tool_settings tools;
	struct environments envs;
	int envs_fd;
	struct building building;
	uint8_t seed[SERVE_SEED];
	int secrets_fd, config_fd, public_fd /* without secrets */, cert_fd, key_fd, files_fd,
		audit_fd, exec_fd, log_fd, log_write_fd;
	int channel, signals;
	pid_t keeper;
	bool served, tried, stopping, failed;
	bool log_waits; /* for standard error to take more */
	uint64_t watchdog_us, next_ping_us;
	bool asked;                        /* the keeper, whether it lives */
	uint64_t next_look_us, seen, told; /* environment_mark() */
};

static int high(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);

	if (fd >= 0)
		(void)close(fd);
	return moved;
}

/* --- what the others need ----------------------------------------------------------------------- */

static int make_config_fd(const struct config *c, enum config_secrets secrets, int *ret,
			  struct err *e)
{
	own_fd fd = high((int)syscall(SYS_memfd_create, "config", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	int r;

	if (fd < 0)
		return err_set(e, ERR_SYS, errno, "make a memory file");
	r = config_save(c, fd, secrets);
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "save the configuration");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_set(e, ERR_SYS, errno, "seal the configuration");
	*ret = fd_take(&fd);
	return 0;
}

static int open_pem(const struct config *c, enum config_key key, int *ret, struct err *e)
{
	const char *path = config_str(c, key);

	char begin[11] = "";

	*ret = high(open(path[0] != '\0' ? path : "/dev/null", O_RDONLY | O_CLOEXEC | O_NOCTTY));
	if (*ret < 0)
		return err_set(e, ERR_INPUT, errno, "%s '%s'", config_row(key)->key, path);
	if (path[0] != '\0' && pread(*ret, begin, sizeof(begin) - 1, 0) <= 0)
		return err_set(e, ERR_INPUT, 0, "%s '%s' is empty", config_row(key)->key, path);
	return 0;
}

static int open_gate(int *ret, struct err *e)
{
	int fd = gate_program_open(e);

	if (fd < 0)
		return -1;
	*ret = high(fd);
	return 0;
}

static int open_directories(struct supervisor *s, struct err *e)
{
	const char *audit = config_str(&s->config, CONF_AUDIT_FILE);
	char dir[PATH_MAX];
	struct stat st;
	char *slash;

	if (directory_open(config_str(&s->config, CONF_FILE_STORAGE_DIR), &s->files_fd, e) < 0)
		return -1;
	s->files_fd = high(s->files_fd);
	if (strcmp(audit, "none") == 0) {
		s->audit_fd = high(open("/dev/null", O_RDONLY | O_CLOEXEC));
		return 0;
	}
	(void)snprintf(dir, sizeof(dir), "%s", audit);
	slash = strrchr(dir, '/');
	if (slash == NULL)
		return err_set(e, ERR_INPUT, 0, "audit_file '%s' is no absolute path", audit);
	*slash = '\0';
	if (directory_open(dir, &s->audit_fd, e) < 0)
		return -1;
	s->audit_fd = high(s->audit_fd);
	/* It becomes the store's own, who makes and renames files in it. */
	if (s->audit_fd < 0 || fstat(s->audit_fd, &st) < 0 || (st.st_mode & 077) != 0) {
		(void)err_set(e, ERR_INPUT, 0,
			      "audit_file needs a directory of its own, private: '%s'", dir);
		return err_hint(e, "name one that does not exist, or chmod 700 '%s'", dir);
	}
	return 0;
}

static int open_log(struct supervisor *s, struct err *e)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYS, errno, "make a pipe");
	s->log_fd = high(pair[0]);
	s->log_write_fd = high(pair[1]);
	(void)fcntl(s->log_write_fd, F_SETPIPE_SZ, LOG_PIPE);
	(void)io_set_nonblock(s->log_write_fd, 1);
	(void)io_set_nonblock(s->log_fd, 1);
	return 0;
}

/* --- the keeper --------------------------------------------------------------------------------- */

struct args {
	char *v[ARGS];
	unsigned int n;
};

static void add(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->n + 1 < ARGS && vasprintf(&a->v[a->n], fmt, ap) >= 0)
		a->n++;
	va_end(ap);
}

static void keeper_args(const struct supervisor *s, struct args *a)
{
	const struct config *c = &s->config;
	char *const *roots;
	char fds[512];
	unsigned int n;
	int len;

	add(a, "glovebox");
	add(a, "keeper");
	add(a, "exec=%d", s->exec_fd);
	add(a, "egress-exec=%d", s->exec_fd);
	add(a, "egress-secrets=%d", s->secrets_fd);
	add(a, "envs=%d", s->envs_fd);
	if (config_str(c, CONF_RESOLVER)[0] != '\0')
		add(a, "egress:servers=%s", config_str(c, CONF_RESOLVER));
	len = snprintf(fds, sizeof(fds), "%d,%d,%d,%d", s->config_fd, s->log_write_fd, s->cert_fd,
		       s->key_fd);
	for (unsigned int i = 0; i < s->listeners.n; i++)
		len += snprintf(fds + len, sizeof(fds) - (size_t)len, ",%d", s->listeners.v[i].fd);
	add(a, "gate-fds=%s", fds);
	add(a, "store-fds=%d,%d,%d", s->public_fd, s->files_fd, s->audit_fd);
	add(a, "tools-fds=%d", s->tools.fd);
	for (int i = 0; i < s->tools.nways; i++)
		add(a, "tool-way=%s", s->tools.ways[i]);
	add(a, "hang_us=%llu", (unsigned long long)config_u64(c, CONF_HANG_TIMEOUT));
	add(a, "store:file_ttl=%llu",
	    (unsigned long long)(config_u64(c, CONF_FILE_TTL) / US_PER_S));
	add(a, "store:store_bytes=%llu", (unsigned long long)config_u64(c, CONF_STORE_BYTES));
	if (strcmp(config_str(c, CONF_AUDIT_FILE), "none") != 0) {
		add(a, "store:audit_name=%s", strrchr(config_str(c, CONF_AUDIT_FILE), '/') + 1);
		add(a, "store:audit_max_bytes=%llu",
		    (unsigned long long)config_u64(c, CONF_AUDIT_MAX_BYTES));
		add(a, "store:audit_keep=%llu", (unsigned long long)config_u64(c, CONF_AUDIT_KEEP));
	}
	add(a, "ports=%u", config_enum(c, CONF_BOX_PORTS));
	add(a, "spare_cpus=%llu", (unsigned long long)config_u64(c, CONF_SPARE_CPUS));
	for (int i = 0; i < s->nways; i++)
		add(a, "way=%s", s->ways[i]);
	roots = config_list(c, CONF_MOUNT_ROOT, &n);
	for (unsigned int i = 0; i < n; i++)
		add(a, "root=%s", roots[i]);
	if (config_str(c, CONF_CGROUP)[0] != '\0')
		add(a, "cgroup=%s", config_str(c, CONF_CGROUP));
	a->v[a->n] = NULL;
}

static _Noreturn void exec_keeper(const struct supervisor *s, int channel, char *const *argv)
{
	const int fds[] = { s->exec_fd,  s->config_fd,  s->public_fd, s->log_write_fd,
			    s->cert_fd,  s->key_fd,     s->files_fd,  s->audit_fd,
			    s->tools.fd, s->secrets_fd, s->envs_fd };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (unsigned int i = 0; i < ARRAY_LEN(fds); i++)
		(void)fcntl(fds[i], F_SETFD, 0);
	for (unsigned int i = 0; i < s->listeners.n; i++)
		(void)fcntl(s->listeners.v[i].fd, F_SETFD, 0);
	if (dup2(channel, CHANNEL_FD) < 0)
		_exit(125);
	(void)execv("/proc/self/exe", argv);
	_exit(125);
}

static int start_keeper(struct supervisor *s, struct err *e)
{
	struct args a = { 0 };
	int pair[2], r = chan_pair(pair);

	if (r < 0)
		return err_set(e, ERR_SYS, -r, "make a channel");
	s->channel = high(pair[0]);
	pair[1] = high(pair[1]);
	keeper_args(s, &a);
	s->keeper = fork();
	if (s->keeper == 0)
		exec_keeper(s, pair[1], a.v);
	(void)close(pair[1]);
	for (unsigned int i = 0; i < a.n; i++)
		free(a.v[i]);
	return s->keeper < 0 ? err_set(e, ERR_SYS, errno, "start the keeper") : 0;
}

/* --- what the keeper says ----------------------------------------------------------------------- */

static void say_served(struct supervisor *s)
{
	for (unsigned int i = 0; i < s->listeners.n; i++)
		(void)printf("listening on %s\n", s->listeners.v[i].url);
	(void)fflush(stdout);
	notify("READY=1\nSTATUS=serving");
}

static void list_layers(uint64_t set, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (int i = 0; i < LAYER_MAX && n < size; i++)
		if ((set & LAYER_BIT(i)) != 0)
			n += (size_t)snprintf(text + n, size - n, "%s%s", n > 0 ? ", " : "",
					      layer_row((enum layer)i)->name);
}

static void say_tried(struct supervisor *s, const struct chan_msg *m)
{
	uint64_t all = (LAYER_BIT(LAYER_MAX - 1) << 1) - 1, layers;
	const char *url = s->listeners.v[0].url;
	char have[1024], missing[1024];
	unsigned int nrules;
	struct msg_in in;
	struct err e;

	msg_in_init(&in, m->body, m->len);
	layers = msg_get_u64(&in);
	if (in.failed || failed_decode(m->body + in.at, m->len - in.at, &e) < 0 || s->tried)
		return;
	s->tried = true;
	if (e.kind != ERR_NONE) {
		(void)say_err(&e);
		say("no box can be made: every execution will be refused");
		return;
	}
	list_layers(layers, have, sizeof(have));
	list_layers(all & ~layers, missing, sizeof(missing));
	(void)fprintf(stderr, "sealed by: %s; missing: %s\n", have,
		      missing[0] != '\0' ? missing : "nothing");
	(void)fprintf(stderr, "warm: %s\n",
		      config_bool(&s->config, CONF_WARM)
			      ? "Python with its imports done, in about a second"
			      : "off, each box starts its own Python");
	(void)config_list(&s->config, CONF_CI_ALLOW, &nrules);
	(void)fprintf(
		stderr,
		"network of a box: none, unless it is asked for with rules; of Sandbox Runtime: "
		"%s; of Code Interpreter: %s\n",
		config_bool(&s->config, CONF_SE_ALLOW_NETWORK) ? "public addresses" : "none",
		nrules > 0 ? "what ci_allow says" : "none");
	if (strncmp(url, "http", 4) == 0) {
		(void)fprintf(stderr,
			      "try: curl -s %s/v1/execute -H 'Content-Type: application/json' "
			      "-d '{\"code\": \"print(6 * 7)\"}'\n",
			      url);
		(void)fprintf(stderr, "page: %s/\n", url);
	}
	(void)fprintf(stderr, "stop: Ctrl-C, or kill %d\n", (int)getpid());
}

static void say_lost(const struct chan_msg *m)
{
	const char *then;
	char role[16];
	struct msg_in in;
	int status;

	msg_in_init(&in, m->body, m->len);
	status = (int)msg_get_u32(&in);
	(void)msg_get_str(&in, role, sizeof(role));
	if (msg_end(&in) < 0)
		return;
	/* The tools process is started by who needs it. */
	then = strcmp(role, "tools process") == 0 ? "" : ", starting another";
	if (WIFSIGNALED(status))
		say("the %s was ended by signal %d%s", role, WTERMSIG(status), then);
	else
		say("the %s ended with status %d%s", role, WEXITSTATUS(status), then);
}

static void say_hung(const struct chan_msg *m)
{
	char role[16];
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	(void)msg_get_str(&in, role, sizeof(role));
	if (msg_end(&in) == 0)
		say("the %s does not answer, ending it", role);
}

static void tell_built(struct supervisor *s, const struct envbuilt *b)
{
	static uint8_t body[ENVBUILD_LOG + ENV_NAME + 64];
	ptrdiff_t n = envbuilt_encode(b, body, sizeof(body));

	if (n > 0)
		(void)chan_send(s->channel, SUPERVISE_BUILT, 0, body, (size_t)n, NULL, 0);
}

/* It has come from a gate. */
static void on_build(struct supervisor *s, const struct chan_msg *m)
{
	static struct envbuild b;
	static struct envbuilt refused;
	int r;

	if (envbuild_decode(m->body, m->len, &b) < 0)
		return;
	r = config_bool(&s->config, CONF_ENVIRONMENT_BUILDS)
		    ? serve_build_start(&s->building, &b, s->envs.dir.path)
		    : -EPERM;
	if (r == 0)
		return;
	refused = (struct envbuilt){ .status = r == -EPERM   ? ENVBUILT_FORBIDDEN
					       : r == -EBUSY ? ENVBUILT_BUSY
							     : EXIT_GLOVEBOX };
	(void)snprintf(refused.name, sizeof(refused.name), "%s", b.name);
	tell_built(s, &refused);
}

/* false: the keeper is gone. */
static bool on_channel(struct supervisor *s)
{
	static struct chan_msg m;
	struct err e;
	int r = chan_recv(s->channel, &m);

	if (r == -EAGAIN || r == -EINTR)
		return true;
	if (r <= 0)
		return false;
	chan_msg_close(&m);
	if (m.type == SUPERVISE_SERVING && !s->served) {
		s->served = true;
		say_served(s);
	} else if (m.type == SUPERVISE_TRIED) {
		say_tried(s, &m);
	} else if (m.type == SUPERVISE_LOST) {
		say_lost(&m);
	} else if (m.type == SUPERVISE_HUNG) {
		say_hung(&m);
	} else if (m.type == SUPERVISE_BUILD) {
		on_build(s, &m);
	} else if (m.type == SUPERVISE_ALIVE) {
		s->asked = false;
		notify("WATCHDOG=1");
	} else if (m.type == REPLY_FAILED) {
		s->failed = true;
		if (failed_decode(m.body, m.len, &e) == 0)
			(void)say_err(&e);
	}
	return true;
}

/* --- what the operator says ----------------------------------------------------------------------- */

static void tell_environments(struct supervisor *s)
{
	own_fd fd = -1;
	struct err e;

	if (serve_envs_table(&s->envs, &fd, &e) < 0)
		(void)say_err(&e);
	else
		(void)chan_send(s->channel, SUPERVISE_ENVS, 0, NULL, 0, &fd, 1);
}

/* What came of it is told first: who hears that it was built can use it. */
static void on_building(struct supervisor *s)
{
	if (!serve_build_event(&s->building))
		return;
	tell_environments(s);
	tell_built(s, &s->building.built);
}

static void reload(struct supervisor *s)
{
	struct config fresh = { 0 };
	struct config_changes changes;
	own_fd config_fd = -1, cert_fd = -1, key_fd = -1, secrets_fd = -1;
	struct err e;

	notify("RELOADING=1");
	if (config_load(&fresh, s->argc, s->argv, environ, &e) < 0 || serve_rules(&fresh, &e) < 0 ||
	    serve_secrets(&fresh, s->seed, &secrets_fd, &e) < 0) {
		(void)say_err(&e);
		say("the configuration stays as it was");
		config_done(&fresh);
		notify("READY=1");
		return;
	}
	config_changes(&s->config, &fresh, &changes);
	for (unsigned int i = 0; i < changes.nrestart; i++)
		say("'%s' has changed, which needs a restart", config_row(changes.restart[i])->key);
	if (config_reload(&s->config, &fresh, &e) < 0 ||
	    make_config_fd(&s->config, CONFIG_HASHED, &config_fd, &e) < 0 ||
	    open_pem(&s->config, CONF_TLS_CERT, &cert_fd, &e) < 0 ||
	    open_pem(&s->config, CONF_TLS_KEY, &key_fd, &e) < 0) {
		(void)say_err(&e);
		say("the configuration stays as it was");
	} else {
		const int fds[] = { config_fd, cert_fd, key_fd, secrets_fd };

		(void)chan_send(s->channel, SUPERVISE_CONFIG, 0, NULL, 0, fds, 4);
		tell_environments(s);
	}
	config_done(&fresh);
	notify("READY=1");
}

static void on_signal(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			reload(s);
		} else if (info.ssi_signo != SIGCHLD && !s->stopping) {
			s->stopping = true;
			notify("STOPPING=1");
			(void)chan_send(s->channel, SUPERVISE_STOP, 0, NULL, 0, NULL, 0);
			/* Closed here they would still take connections: the keeper has them. */
			for (unsigned int i = 0; i < s->listeners.n; i++)
				(void)shutdown(s->listeners.v[i].fd, SHUT_RDWR);
		} else if (info.ssi_signo != SIGCHLD) {
			fd_close(&s->channel); /* at once */
		}
	}
}

/* --- the log ------------------------------------------------------------------------------------ */

/* Whole lines of other processes of ours; they escape what is not theirs. Never waits for whoever
 * reads standard error: the operator's signals are heard all the same. */
static void on_log(struct supervisor *s)
{
	static char buf[PIPE_BUF]; /* as much as fits where anything does */
	struct pollfd err = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	do {
		s->log_waits = poll(&err, 1, 0) == 0;
		n = s->log_waits ? 0 : read(s->log_fd, buf, sizeof(buf));
		if (n > 0)
			(void)io_write_all(STDERR_FILENO, buf, (size_t)n);
	} while (n > 0);
}

/* --- the loop ----------------------------------------------------------------------------------- */

/* The service manager hears of life when the keeper answers: a keeper that hangs is not vouched for, and the keeper
 * looks after the others. One question at a time: the channel must have room for a stop. */
static void watchdog(struct supervisor *s)
{
	if (s->watchdog_us == 0 || clock_us() < s->next_ping_us)
		return;
	if (!s->asked)
		s->asked = chan_send(s->channel, SUPERVISE_PING, 0, NULL, 0, NULL, 0) == 0;
	s->next_ping_us = clock_us() + s->watchdog_us / 2;
}

/* Packages that come and go are told when they have settled: seen twice in a row. */
static void look_at_environment(struct supervisor *s)
{
	uint64_t now = clock_us(), mark;

	if (!config_bool(&s->config, CONF_WARM) || now < s->next_look_us)
		return;
	s->next_look_us = now + LOOK_US;
	mark = environment_mark();
	if (s->told == 0)
		s->told = mark;
	if (mark == s->seen && mark != s->told) {
		s->told = mark;
		(void)chan_send(s->channel, SUPERVISE_RENEW, 0, NULL, 0, NULL, 0);
	}
	s->seen = mark;
}

static uint64_t next_turn(const struct supervisor *s)
{
	uint64_t next = s->watchdog_us > 0 ? s->next_ping_us : UINT64_MAX;

	if (config_bool(&s->config, CONF_WARM) && s->next_look_us < next)
		next = s->next_look_us;
	return next;
}

static void loop(struct supervisor *s)
{
	enum { CHANNEL, LOG, SIGNALS, ENVIRONMENTS, BUILDING, N };
	bool alive = true;

	while (alive && s->channel >= 0) {
		struct pollfd p[N] = {
			[CHANNEL] = { .fd = s->channel, .events = POLLIN },
			[LOG] = { .fd = s->log_fd, .events = POLLIN },
			[SIGNALS] = { .fd = s->signals, .events = POLLIN },
			[ENVIRONMENTS] = { .fd = s->envs.watch_fd, .events = POLLIN },
			[BUILDING] = { .fd = s->building.pid > 0 ? s->building.fd : -1,
				       .events = POLLIN },
		};

		if (s->log_waits)
			p[LOG] = (struct pollfd){ .fd = STDERR_FILENO, .events = POLLOUT };
		watchdog(s);
		look_at_environment(s);
		if (poll(p, N, clock_poll_ms(next_turn(s))) < 0)
			continue;
		if (p[LOG].revents != 0)
			on_log(s);
		if (p[CHANNEL].revents != 0)
			alive = on_channel(s);
		if (p[SIGNALS].revents != 0)
			on_signal(s);
		if (p[ENVIRONMENTS].revents != 0 && serve_envs_changed(&s->envs))
			tell_environments(s);
		if (p[BUILDING].revents != 0)
			on_building(s);
	}
}

static int block_signals(struct supervisor *s, struct err *e)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = high(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
	return s->signals < 0 ? err_set(e, ERR_SYS, errno, "watch signals") : 0;
}

static void say_start(const struct supervisor *s)
{
	char ignored[1024];
	unsigned int n;

	if (config_ignored(environ, ignored, sizeof(ignored)) > 0)
		say("set, but has no effect here: %s", ignored);
	(void)config_list(&s->config, CONF_TOKEN, &n);
	if (config_bool(&s->config, CONF_NO_AUTH))
		say("warning: no_auth lets everybody in who can connect");
}

/* What we hold, and what the keeper needs to lay out the descriptors of the others. */
static int check_descriptors(struct err *e)
{
	enum { NEEDED = 256 };
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_max < NEEDED)
		return err_set(e, ERR_INPUT, 0,
			       "at most %llu files may be open, at least %d are needed",
			       (unsigned long long)l.rlim_max, NEEDED);
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	return 0;
}

static int start(struct supervisor *s, struct err *e)
{
	(void)umask(022); /* ours, not that of whoever starts us: directories must be usable */
	if (check_descriptors(e) < 0 || serve_rules(&s->config, e) < 0)
		return -1;
	if (open_gate(&s->exec_fd, e) < 0 ||
	    make_config_fd(&s->config, CONFIG_HASHED, &s->config_fd, e) < 0 ||
	    make_config_fd(&s->config, CONFIG_WITHHELD, &s->public_fd, e) < 0 ||
	    open_pem(&s->config, CONF_TLS_CERT, &s->cert_fd, e) < 0 ||
	    open_pem(&s->config, CONF_TLS_KEY, &s->key_fd, e) < 0 || open_directories(s, e) < 0 ||
	    open_log(s, e) < 0 || block_signals(s, e) < 0)
		return -1;
	s->nways = serve_ways(&s->config, s->ways, e);
	if (s->nways < 0 || serve_tools(&s->config, &s->tools, e) < 0)
		return -1;
	s->tools.fd = high(s->tools.fd);
	if (getrandom(s->seed, sizeof(s->seed), 0) != (ssize_t)sizeof(s->seed))
		return err_set(e, ERR_SYS, errno, "draw a random number");
	if (serve_secrets(&s->config, s->seed, &s->secrets_fd, e) < 0)
		return -1;
	s->secrets_fd = high(s->secrets_fd);
	if (serve_envs_start(&s->envs, config_str(&s->config, CONF_ENVIRONMENTS_DIR), e) < 0 ||
	    serve_envs_table(&s->envs, &s->envs_fd, e) < 0)
		return -1;
	s->envs_fd = high(s->envs_fd);
	if (listeners_open(&s->listeners, &s->config, e) < 0)
		return -1;
	return start_keeper(s, e);
}

/* The keeper is on its way out: hear it to the end, and look after what it left if it was killed. */
static int finish(struct supervisor *s)
{
	int status = 0;

	fd_close(&s->log_write_fd);
	serve_build_end(&s->building);
	while (s->keeper > 0 && waitpid(s->keeper, &status, 0) < 0 && errno == EINTR)
		;
	on_log(s);
	listeners_close(&s->listeners);
	if (WIFSIGNALED(status)) {
		say("the keeper was ended by signal %d; its boxes are gone", WTERMSIG(status));
		keeper_sweep();
		return EXIT_GLOVEBOX;
	}
	if (!s->failed && (!s->stopping || WEXITSTATUS(status) != 0))
		say("the keeper ended with status %d", WEXITSTATUS(status));
	if (s->failed || !s->stopping || WEXITSTATUS(status) != 0)
		return EXIT_GLOVEBOX;
	return 0;
}

int verb_serve(int argc, char **argv)
{
	static struct supervisor s = { .secrets_fd = -1,
				       .config_fd = -1,
				       .public_fd = -1,
				       .cert_fd = -1,
				       .key_fd = -1,
				       .files_fd = -1,
				       .audit_fd = -1,
				       .exec_fd = -1,
				       .log_fd = -1,
				       .log_write_fd = -1,
				       .channel = -1 };
	const char *usec = getenv("WATCHDOG_USEC");
	struct err e;

	s.argc = argc;
	s.argv = argv;
	if (config_load(&s.config, argc, argv, environ, &e) < 0)
		return say_err(&e);
	if (s.config.help) {
		(void)fputs("usage: glovebox serve [options]\n\n"
			    "Serves boxes over HTTP. Every option is also a key of a file "
			    "(--config FILE) and a "
			    "variable GLOVEBOX_<KEY>.\n\n",
			    stdout);
		config_help(stdout);
		return 0;
	}
	if (s.config.dump) {
		config_dump(&s.config, stdout);
		return 0;
	}
	if (usec != NULL)
		s.watchdog_us = strtoull(usec, NULL, 10);
	say_start(&s);
	if (start(&s, &e) < 0) {
		listeners_close(&s.listeners);
		return say_err(&e);
	}
	loop(&s);
	return finish(&s);
}
