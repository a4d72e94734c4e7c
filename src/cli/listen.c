// SPDX-License-Identifier: Apache-2.0
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/serve.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BACKLOG = 4096, LISTENING = 10 /* a state in /proc/net/tcp */ };

/* --- who has a port ----------------------------------------------------------------------------- */

/* The inode of a listening socket on this port, from a table of the kernel; 0: none. */
static unsigned long listening_inode(const char *table, unsigned int port)
{
	FILE *f = fopen(table, "re");
	unsigned long found = 0;
	char line[512];

	if (f == NULL)
		return 0;
	while (found == 0 && fgets(line, sizeof(line), f) != NULL) {
		/* number, local address:port, remote, state, queues, timer, retransmits, uid, timeout, inode */
		char *word[10] = { NULL }, *save = NULL, *colon;
		unsigned int n = 0;

		for (char *w = strtok_r(line, " ", &save); w != NULL && n < ARRAY_LEN(word);
		     w = strtok_r(NULL, " ", &save))
			word[n++] = w;
		colon = n == ARRAY_LEN(word) ? strrchr(word[1], ':') : NULL;
		if (colon != NULL && strtoul(colon + 1, NULL, 16) == port &&
		    strtoul(word[3], NULL, 16) == LISTENING)
			found = strtoul(word[9], NULL, 10);
	}
	(void)fclose(f);
	return found;
}

static bool has_socket(const char *pid, unsigned long inode)
{
	char path[288], want[32], target[64];
	const struct dirent *d;
	bool found = false;
	DIR *dir;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	(void)snprintf(want, sizeof(want), "socket:[%lu]", inode);
	dir = opendir(path);
	if (dir == NULL)
		return false;
	fd = dirfd(dir);
	while (!found && fd >= 0 && (d = readdir(dir)) != NULL) {
		ssize_t n = readlinkat(fd, d->d_name, target, sizeof(target) - 1);

		if (n > 0) {
			target[n] = '\0';
			found = strcmp(target, want) == 0;
		}
	}
	(void)closedir(dir);
	return found;
}

/* "process 123 (name)" */
static void name_owner(unsigned int port, char text[128])
{
	unsigned long inode = listening_inode("/proc/net/tcp", port);
	const struct dirent *d;
	DIR *proc = opendir("/proc");

	(void)snprintf(text, 128, "another process");
	if (inode == 0)
		inode = listening_inode("/proc/net/tcp6", port);
	while (inode != 0 && proc != NULL && (d = readdir(proc)) != NULL) {
		char path[288], comm[64];
		uint64_t pid;

		if (str_to_u64(d->d_name, UINT32_MAX, &pid) < 0 || !has_socket(d->d_name, inode))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%s/comm", d->d_name);
		if (io_read_text(AT_FDCWD, path, comm, sizeof(comm)) < 0)
			comm[0] = '\0';
		(void)snprintf(text, 128, "process %llu (%s)", (unsigned long long)pid, comm);
		break;
	}
	if (proc != NULL)
		(void)closedir(proc);
}

/* --- opening ------------------------------------------------------------------------------------ */

static void name_socket(struct listen_socket *s, const struct config_listen *where, bool tls)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);
	char ip[INET6_ADDRSTRLEN] = "";
	const char *scheme = tls ? "https" : "http";

	if (where->addr.sa.sa_family == AF_UNIX) {
		(void)snprintf(s->url, sizeof(s->url), "unix:%s", where->addr.un.sun_path);
		return;
	}
	(void)getsockname(s->fd, (struct sockaddr *)&a, &len);
	if (a.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&a;

		(void)inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		(void)snprintf(s->url, sizeof(s->url), "%s://%s:%u", scheme, ip,
			       ntohs(in->sin_port));
	} else {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&a;

		(void)inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
		(void)snprintf(s->url, sizeof(s->url), "%s://[%s]:%u", scheme, ip,
			       ntohs(in->sin6_port));
	}
}

/* A socket that nobody listens on any more was left by a server that was killed. */
static void remove_stale(const struct sockaddr_un *un, socklen_t len)
{
	own_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	if (connect(fd, (const struct sockaddr *)un, len) < 0 && errno == ECONNREFUSED)
		(void)unlink(un->sun_path);
}

static int bind_failed(const struct config_listen *where, const char *item, int error,
		       struct err *e)
{
	unsigned int port = 0;
	char owner[128];

	if (where->addr.sa.sa_family == AF_INET)
		port = ntohs(where->addr.in.sin_port);
	else if (where->addr.sa.sa_family == AF_INET6)
		port = ntohs(where->addr.in6.sin6_port);
	if (error != EADDRINUSE || port == 0)
		return err_set(e, ERR_INPUT, error, "listen on '%s'", item);
	name_owner(port, owner);
	(void)err_set(e, ERR_INPUT, 0, "port %u is taken by %s", port, owner);
	return err_hint(e, "'--listen ADDRESS:PORT' chooses another one, port 0 a free one");
}

static int open_one(struct listen_socket *s, const char *item, bool tls, struct err *e)
{
	struct config_listen where;
	int one = 1, zero = 0, family;
	own_fd fd = -1;

	if (config_listen_parse(item, &where) < 0)
		return err_set(e, ERR_INPUT, 0, "listener '%s'", item);
	family = where.addr.sa.sa_family;
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, ERR_SYS, errno, "make a socket for '%s'", item);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, where.any ? &zero : &one,
				 sizeof(one));
	if (family == AF_UNIX)
		remove_stale(&where.addr.un, where.len);
	if (bind(fd, &where.addr.sa, where.len) < 0)
		return bind_failed(&where, item, errno, e);
	if (family == AF_UNIX) {
		(void)snprintf(s->path, sizeof(s->path), "%s", where.addr.un.sun_path);
		(void)chmod(s->path, 0660);
	}
	if (listen(fd, BACKLOG) < 0)
		return bind_failed(&where, item, errno, e);
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	name_socket(s, &where, tls);
	return s->fd < 0 ? err_set(e, ERR_SYS, errno, "listen on '%s'", item) : 0;
}

int listeners_open(struct listeners *l, const struct config *c, struct err *e)
{
	bool tls = config_str(c, CONF_TLS_CERT)[0] != '\0';
	unsigned int n;
	char *const *items = config_list(c, CONF_LISTEN, &n);

	if (n > LISTENERS_MAX)
		return err_set(e, ERR_INPUT, 0, "at most %d listeners", LISTENERS_MAX);
	for (unsigned int i = 0; i < n; i++) {
		l->v[i] = (struct listen_socket){ .fd = -1 };
		l->n = i + 1;
		if (open_one(&l->v[i], items[i], tls, e) < 0)
			return -1;
	}
	return 0;
}

void listeners_close(struct listeners *l)
{
	for (unsigned int i = 0; i < l->n; i++) {
		fd_close(&l->v[i].fd);
		if (l->v[i].path[0] != '\0')
			(void)unlink(l->v[i].path);
	}
	l->n = 0;
}

int directory_open(const char *path, int *ret_fd, struct err *e)
{
	char copy[PATH_MAX];

	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
		return err_set(e, ERR_INPUT, ENAMETOOLONG, "directory '%s'", path);
	for (char *p = strchr(copy + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return err_set(e, ERR_INPUT, errno, "make directory '%s'", copy);
		*p = '/';
	}
	if (mkdir(copy, 0700) < 0 && errno != EEXIST)
		return err_set(e, ERR_INPUT, errno, "make directory '%s'", copy);
	*ret_fd = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(e, ERR_INPUT, errno, "open directory '%s'", copy) : 0;
}
