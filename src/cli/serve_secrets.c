// SPDX-License-Identifier: Apache-2.0
/*
 * What egress is told beside what the keeper says: secrets that rules may put into requests, who vouches for the servers that they go to, and a seed for
 * the authorities of boxes. Secrets are fetched here, by who has the operator's environment and files, each time anew; nothing of them is kept.
 */
#include "cli/serve.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "wire/secretspec.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CA_MAX = 1 << 20,
	WORDS_MAX = 64,
	COMMAND_US = 10 * 1000 * 1000, /* how long a command may take: the server waits for it */
};

/* --- where they are ----------------------------------------------------------------------------- */

/* SECRET_VALUE + 2 bytes at most: one more than there may be, and the end of a line. How many, or -errno. */
static ssize_t of_env(const char *name, char *ret)
{
	const char *value = getenv(name);

	if (value == NULL)
		return -ENOENT;
	return snprintf(ret, SECRET_VALUE + 2, "%s", value) > SECRET_VALUE ? SECRET_VALUE + 1
									   : (ssize_t)strlen(ret);
}

static ssize_t of_file(const char *path, char *ret)
{
	own_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : io_read_full(fd, ret, SECRET_VALUE + 2);
}

static _Noreturn void become(const char *command, int out)
{
	char *argv[WORDS_MAX + 1], *save = NULL, *words = strdup(command);
	unsigned int n = 0;
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	for (char *w = words != NULL ? strtok_r(words, " ", &save) : NULL;
	     w != NULL && n < WORDS_MAX; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	argv[n] = NULL;
	(void)setpgid(0, 0);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0) < 0)
		_exit(126);
	if (argv[0] != NULL)
		(void)execv(argv[0], argv);
	_exit(127);
}

/* What it says until it ends, or until it has taken too long. */
static ssize_t hear(int fd, char *ret)
{
	const uint64_t due = clock_us() + COMMAND_US;
	size_t n = 0;

	while (n < SECRET_VALUE + 2) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (clock_us() >= due || poll(&p, 1, clock_poll_ms(due)) == 0)
			return -ETIMEDOUT;
		got = read(fd, ret + n, SECRET_VALUE + 2 - n);
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (got == 0)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)n;
}

/* Words between spaces, no shell. */
static ssize_t of_command(const char *command, char *ret)
{
	int pair[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become(command, pair[1]);
	(void)close(pair[1]);
	n = pid < 0 ? -errno : hear(pair[0], ret);
	(void)close(pair[0]);
	if (pid < 0)
		return n;
	(void)setpgid(pid, pid);
	if (n < 0) /* and whatever it has started */
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return n < 0 ? n : status != 0 ? -ECHILD : n;
}

/* --- one ---------------------------------------------------------------------------------------- */

static const char *say_where(const struct secret_spec *s, char text[160])
{
	static const char *const what[SECRET_SOURCE_MAX] = { "the variable", "the file",
							     "the command" };

	/* Arguments of a command may be nobody's business. */
	(void)snprintf(text, 160, "%s '%.*s'", what[s->source],
		       (int)strcspn(s->where, s->source == SECRET_COMMAND ? " " : ""), s->where);
	return text;
}

static int refuse(const struct secret_spec *s, int error, const char *why, struct err *e)
{
	char where[160];

	return err_set(e, ERR_INPUT, error, "secret '%s': %s %s", s->name, say_where(s, where),
		       why);
}

static int fetch(const struct secret_spec *s, char *ret, struct err *e)
{
	static ssize_t (*const from[SECRET_SOURCE_MAX])(const char *where, char *ret) = {
		[SECRET_ENV] = of_env, [SECRET_FILE] = of_file, [SECRET_COMMAND] = of_command
	};
	ssize_t n = from[s->source](s->where, ret);

	if (n == -ENOENT && s->source == SECRET_ENV)
		return refuse(s, 0, "is not set", e);
	if (n == -ECHILD)
		return refuse(s, 0, "has failed", e);
	if (n < 0)
		return refuse(s, (int)-n, "cannot be read", e);
	if (n > 0 && ret[n - 1] == '\n')
		n--;
	if (n > 0 && ret[n - 1] == '\r')
		n--;
	if (n > SECRET_VALUE || n < SECRET_SHORTEST)
		return refuse(s, 0,
			      n > SECRET_VALUE ? "has more than a secret may have"
					       : "has less than 8 characters, which is no secret",
			      e);
	ret[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (ret[i] < ' ' || ret[i] > '~')
			return refuse(s, 0, "has something that no header can have", e);
	if (ret[0] == ' ' || ret[n - 1] == ' ')
		return refuse(s, 0, "begins or ends with a space", e);
	return 0;
}

static int put_secret(const char *text, struct json *j, struct err *e)
{
	static struct secret_spec s;
	static char value[SECRET_VALUE + 3];
	char key[NET_SECRET];

	if (secret_spec_read(text, &s, e) < 0 || fetch(&s, value, e) < 0) {
		explicit_bzero(value, sizeof(value));
		return -1;
	}
	secret_spec_key(&s, key);
	json_open(j, NULL, '{');
	json_str(j, "name", key);
	json_open(j, "hosts", '[');
	for (unsigned int i = 0; i < s.nhosts; i++) {
		char host[NET_NAME + 2];

		(void)snprintf(host, sizeof(host), "%s%s", s.hosts[i].below ? "*." : "",
			       s.hosts[i].name);
		json_str(j, NULL, host);
	}
	json_close(j, ']');
	json_str(j, "value", value);
	json_close(j, '}');
	explicit_bzero(value, sizeof(value));
	return 0;
}

/* --- all of them ---------------------------------------------------------------------------------- */

static void put_seed(const uint8_t seed[SERVE_SEED], struct json *j)
{
	char hex[2 * SERVE_SEED + 1];

	for (unsigned int i = 0; i < SERVE_SEED; i++)
		(void)snprintf(hex + 2 * (size_t)i, 3, "%02x", seed[i]);
	json_str(j, "seed", hex);
	explicit_bzero(hex, sizeof(hex));
}

static int put_authorities(const struct config *c, struct json *j, struct err *e)
{
	const char *path = config_str(c, CONF_SECRET_CA_FILE);
	own_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	own_free char *text = NULL;
	ssize_t n;

	if (fd < 0)
		return err_set(e, ERR_INPUT, errno, "secret_ca_file '%s'", path);
	text = malloc(CA_MAX + 1);
	n = text == NULL ? -ENOMEM : io_read_full(fd, text, CA_MAX);
	if (n < 0 || n == CA_MAX)
		return err_set(e, ERR_INPUT, n < 0 ? (int)-n : EFBIG, "secret_ca_file '%s'", path);
	text[n] = '\0';
	if (strlen(text) != (size_t)n || strstr(text, "-----BEGIN CERTIFICATE-----") == NULL)
		return err_set(e, ERR_INPUT, 0, "secret_ca_file '%s' has no certificate", path);
	json_str(j, "authorities", text);
	return 0;
}

static int seal(const struct json *j, int *ret, struct err *e)
{
	int fd = j->failed ? -ENOMEM : io_sealed("secrets", j->buf, j->len);

	if (fd < 0)
		return err_set(e, ERR_SYS, -fd, "put the secrets into a memory file");
	*ret = fd;
	return 0;
}

int serve_secrets(const struct config *c, const uint8_t seed[SERVE_SEED], int *ret_fd,
		  struct err *e)
{
	unsigned int n;
	char *const *v = config_list(c, CONF_SECRET, &n);
	struct json j;
	int r = 0;

	json_init(&j);
	json_open(&j, NULL, '{');
	put_seed(seed, &j);
	if (n > 0)
		r = put_authorities(c, &j, e);
	else
		json_str(&j, "authorities", "");
	json_open(&j, "secrets", '[');
	for (unsigned int i = 0; i < n && r == 0; i++)
		r = put_secret(v[i], &j, e);
	json_close(&j, ']');
	json_close(&j, '}');
	if (r == 0)
		r = seal(&j, ret_fd, e);
	if (j.buf != NULL)
		explicit_bzero(j.buf, j.len);
	json_done(&j);
	return r;
}
