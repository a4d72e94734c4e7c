/* SPDX-License-Identifier: Apache-2.0 */
/* A store for tests: the role in a process of its own, on a directory of its own, and what a gate asks of it. */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_STORE_HELP_H
#define GLOVEBOX_TESTS_UNIT_TEST_STORE_HELP_H

#include "store/role.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"

#include "test_help.h"

enum { NOBODY = 65534, MIB = 1 << 20 };

static inline void copy_str(char *to, size_t size, const char *from)
{
	size_t n = strlen(from);

	CHECK(n < size);
	memcpy(to, from, n + 1);
}

/* --- a store ---------------------------------------------------------------------------------------------------- */

struct rig {
	char dir[64];
	int dir_fd, audit_fd; /* audit_fd: -1, or the same directory */
	int gate_fd, keeper_fd;
	pid_t pid;
	uint64_t request; /* the last one */
	bool narrow;      /* the store's socket holds few answers */
	rlim_t nofile;    /* its limit of descriptors, 0: as it is */
	const char *args[12];
};

/* A directory for a store; it is not running yet. */
static inline void rig_make(struct rig *b)
{
	memset(b, 0, sizeof(*b));
	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/test-store-XXXXXX");
	CHECK(mkdtemp(b->dir) != NULL);
	if (geteuid() == 0) {
		CHECK(chown(b->dir, NOBODY, NOBODY) == 0);
		b->args[0] = "uid=65534";
		b->args[1] = "gid=65534";
	}
	b->dir_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(b->dir_fd >= 0);
	b->audit_fd = b->gate_fd = b->keeper_fd = -1;
}

static inline void rig_arg(struct rig *b, const char *arg)
{
	for (size_t i = 0; i < ARRAY_LEN(b->args) - 1; i++)
		if (b->args[i] == NULL) {
			b->args[i] = arg;
			return;
		}
	CHECK(false);
}

__attribute__((noreturn)) static inline void be_store(const struct rig *b, int gate_fd,
						      int keeper_fd)
{
	const int from[] = { keeper_fd, gate_fd, -1, b->dir_fd, b->audit_fd };
	int high[ARRAY_LEN(from)];
	char *argv[ARRAY_LEN(b->args) + 2];
	char name[] = "store";
	int argc = 1;

	for (size_t i = 0; i < ARRAY_LEN(from); i++)
		high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 40);
	for (int i = 0; i < (int)ARRAY_LEN(from); i++)
		if (high[i] < 0 || dup2(high[i], i + 3) < 0)
			(void)close(i + 3);
	(void)syscall(SYS_close_range, 8, ~0U, 0);
	if (b->nofile > 0)
		(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){ b->nofile, b->nofile });
	argv[0] = name;
	for (; b->args[argc - 1] != NULL; argc++)
		argv[argc] = strdup(b->args[argc - 1]);
	argv[argc] = NULL;
	_exit(store_main(argc, argv));
}

static inline void rig_start(struct rig *b)
{
	int gate[2], keeper[2];

	CHECK(chan_pair(gate) == 0 && chan_pair(keeper) == 0);
	if (b->narrow)
		CHECK(setsockopt(gate[1], SOL_SOCKET, SO_SNDBUF, &(int){ 1 }, sizeof(int)) == 0);
	b->pid = fork();
	CHECK(b->pid >= 0);
	if (b->pid == 0)
		be_store(b, gate[1], keeper[1]);
	(void)close(gate[1]);
	(void)close(keeper[1]);
	b->gate_fd = gate[0];
	b->keeper_fd = keeper[0];
}

/* Wait for its end; returns its exit status, or minus the signal. */
static inline int rig_wait(struct rig *b)
{
	int status;

	CHECK(waitpid(b->pid, &status, 0) == b->pid);
	fd_close(&b->gate_fd);
	fd_close(&b->keeper_fd);
	b->pid = 0;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static inline void rig_stop(struct rig *b)
{
	fd_close(&b->gate_fd);
	CHECK_EQ_INT(rig_wait(b), 0);
}

static inline void rig_kill(struct rig *b)
{
	CHECK(kill(b->pid, SIGKILL) == 0);
	CHECK_EQ_INT(rig_wait(b), -SIGKILL);
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static inline void rig_remove(struct rig *b)
{
	fd_close(&b->dir_fd);
	CHECK(nftw(b->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static inline void rig_up(struct rig *b)
{
	rig_make(b);
	rig_start(b);
}

static inline void rig_down(struct rig *b)
{
	if (b->pid != 0)
		rig_stop(b);
	rig_remove(b);
}

/* --- what a gate does ------------------------------------------------------------------------------------------- */

static inline uint64_t ask(struct rig *b, enum store_op op, const void *body, ptrdiff_t n, int fd)
{
	CHECK(n >= 0);
	CHECK_EQ_INT(chan_send(b->gate_fd, (uint16_t)op, ++b->request, body, (size_t)n, &fd,
			       fd >= 0 ? 1 : 0),
		     0);
	return b->request;
}

/* The next answer, which must be of that request. */
static const struct chan_msg *answer(struct rig *b, uint64_t request)
{
	static struct chan_msg m;

	CHECK_EQ_INT(chan_recv(b->gate_fd, &m), 1);
	CHECK_EQ_INT(m.request, request);
	return &m;
}

static const struct chan_msg *answer_ok(struct rig *b, uint64_t request)
{
	const struct chan_msg *m = answer(b, request);
	struct store_failure f;

	if (m->type == STORE_FAILED && store_failure_decode(m->body, m->len, &f) == 0)
		test_fail(__FILE__, __LINE__, "request %llu failed: %s: %s",
			  (unsigned long long)request, store_reason_str(f.reason), f.text);
	CHECK_EQ_INT(m->type, STORE_OK);
	return m;
}

static inline struct store_meta answer_meta(struct rig *b, uint64_t request)
{
	const struct chan_msg *m = answer_ok(b, request);
	struct store_meta meta;

	CHECK_EQ_INT(m->nfds, 0);
	CHECK_EQ_INT(store_meta_decode(m->body, m->len, &meta), 0);
	return meta;
}

static inline void check_same(const struct store_meta *got, const struct store_meta *want)
{
	CHECK_STR(got->id, want->id);
	CHECK_STR(got->filename, want->filename);
	CHECK(got->size == want->size && got->upload_time_us == want->upload_time_us);
	CHECK_MEM(got->sha256, want->sha256, STORE_SHA256);
}

static inline void answer_empty(struct rig *b, uint64_t request)
{
	const struct chan_msg *m = answer_ok(b, request);

	CHECK_EQ_INT(m->len, 0);
	CHECK_EQ_INT(m->nfds, 0);
}

static inline void answer_failed(struct rig *b, uint64_t request, enum store_reason reason)
{
	const struct chan_msg *m = answer(b, request);
	struct store_failure f;

	CHECK_EQ_INT(m->type, STORE_FAILED);
	CHECK_EQ_INT(m->nfds, 0);
	CHECK_EQ_INT(store_failure_decode(m->body, m->len, &f), 0);
	CHECK_STR(store_reason_str(f.reason), store_reason_str(reason));
	CHECK(f.text[0] != '\0');
}

static inline struct store_put put_of(const char *tenant, const char *filename)
{
	struct store_put p = { .max_bytes = UINT64_MAX };

	copy_str(p.tenant, sizeof(p.tenant), tenant);
	copy_str(p.filename, sizeof(p.filename), filename);
	return p;
}

/* Returns the request; *ret_fd is where the content goes. */
static inline uint64_t put_begin(struct rig *b, const struct store_put *p, int *ret_fd)
{
	uint8_t body[2048];
	uint64_t request;
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	request = ask(b, STORE_OP_PUT, body, store_put_encode(p, body, sizeof(body)), fds[0]);
	(void)close(fds[0]);
	*ret_fd = fds[1];
	return request;
}

/* Until the store has read all that was written. */
static inline void wait_read(int fd)
{
	int left;

	do
		CHECK(ioctl(fd, FIONREAD, &left) == 0);
	while (left > 0);
}

static inline uint64_t commit(struct rig *b, uint64_t put, uint64_t size)
{
	const struct store_commit c = { put, size };
	uint8_t body[16];

	return ask(b, STORE_OP_COMMIT, body, store_commit_encode(&c, body, sizeof(body)), -1);
}

static inline uint64_t abort_put(struct rig *b, uint64_t put)
{
	uint8_t body[8];

	return ask(b, STORE_OP_ABORT, body, store_abort_encode(put, body, sizeof(body)), -1);
}

/* PUT, content, COMMIT. Returns the request of COMMIT. */
static inline uint64_t put_all(struct rig *b, const struct store_put *p, const void *data, size_t n)
{
	uint64_t put;
	int fd;

	put = put_begin(b, p, &fd);
	CHECK_EQ_INT(io_write_all(fd, data, n), 0);
	(void)close(fd);
	return commit(b, put, n);
}

static inline struct store_meta put_file(struct rig *b, const char *tenant, const char *filename,
					 const void *data, size_t n)
{
	const struct store_put p = put_of(tenant, filename);

	return answer_meta(b, put_all(b, &p, data, n));
}

static inline struct store_meta put_text(struct rig *b, const char *text)
{
	return put_file(b, "t", "name", text, strlen(text));
}

static inline uint64_t ask_name(struct rig *b, enum store_op op, const char *tenant, const char *id)
{
	struct store_name n = { 0 };
	uint8_t body[256];

	copy_str(n.tenant, sizeof(n.tenant), tenant);
	copy_str(n.id, sizeof(n.id), id);
	return ask(b, op, body, store_name_encode(&n, body, sizeof(body)), -1);
}

static inline uint64_t ask_get(struct rig *b, const char *tenant, const char *id, uint64_t offset,
			       uint64_t length)
{
	struct store_get g = { .offset = offset, .length = length };
	uint8_t body[256];

	copy_str(g.name.tenant, sizeof(g.name.tenant), tenant);
	copy_str(g.name.id, sizeof(g.name.id), id);
	return ask(b, STORE_OP_GET, body, store_get_encode(&g, body, sizeof(body)), -1);
}

/* The pipe of a GET, blocking; the meta if wanted. */
static inline int answer_pipe(struct rig *b, uint64_t request, struct store_meta *ret)
{
	const struct chan_msg *m = answer_ok(b, request);
	struct store_meta meta;

	CHECK_EQ_INT(m->nfds, 1);
	CHECK_EQ_INT(store_meta_decode(m->body, m->len, &meta), 0);
	if (ret != NULL)
		*ret = meta;
	CHECK_EQ_INT(io_set_nonblock(m->fds[0], 0), 0);
	return m->fds[0];
}

/* Content from offset on, compared with n bytes. */
static inline void check_get(struct rig *b, const char *tenant, const char *id, uint64_t offset,
			     uint64_t length, const void *want, size_t n)
{
	own_fd fd = answer_pipe(b, ask_get(b, tenant, id, offset, length), NULL);
	own_free char *got = malloc(n + 1);

	CHECK(got != NULL);
	CHECK_EQ_INT(io_read_full(fd, got, n + 1), n);
	CHECK_MEM(got, want, n);
}

static inline void check_text(struct rig *b, const char *id, const char *want)
{
	check_get(b, "t", id, 0, 0, want, strlen(want));
}

static inline void check_unknown(struct rig *b, const char *tenant, const char *id)
{
	answer_failed(b, ask_name(b, STORE_OP_STAT, tenant, id), STORE_NOT_FOUND);
	answer_failed(b, ask_get(b, tenant, id, 0, 0), STORE_NOT_FOUND);
	answer_failed(b, ask_name(b, STORE_OP_DELETE, tenant, id), STORE_NOT_FOUND);
}

static inline struct store_figures figures(struct rig *b)
{
	const struct chan_msg *m = answer_ok(b, ask(b, STORE_OP_FIGURES, NULL, 0, -1));
	struct store_figures f;

	CHECK_EQ_INT(store_figures_decode(m->body, m->len, &f), 0);
	return f;
}

static inline void check_stored(struct rig *b, uint64_t files, uint64_t bytes)
{
	struct store_figures f = figures(b);

	CHECK_EQ_INT(f.files, files);
	CHECK_EQ_INT(f.bytes, bytes);
}

/* All ids of a tenant, in order, by as many requests as it takes. Returns how many. */
static inline unsigned int list_ids(struct rig *b, const char *tenant, char ids[][STORE_ID_LEN + 1],
				    unsigned int max)
{
	char after[STORE_ID_LEN + 1] = "";
	unsigned int n = 0;
	bool more = true;

	while (more) {
		const struct chan_msg *m = answer_ok(b, ask_name(b, STORE_OP_LIST, tenant, after));
		struct store_list_in in;
		struct store_meta meta;
		int r;

		CHECK_EQ_INT(store_list_open(&in, m->body, m->len), 0);
		while ((r = store_list_next(&in, &meta)) > 0) {
			CHECK(n < max && strcmp(meta.id, after) > 0);
			memcpy(after, meta.id, sizeof(after));
			memcpy(ids[n++], meta.id, sizeof(after));
		}
		CHECK_EQ_INT(r, 0);
		more = in.more;
	}
	return n;
}

/* --- what is in the directory ----------------------------------------------------------------------------------- */

/* Entries that are neither the index nor the audit file. */
static inline unsigned int count_entries(const struct rig *b)
{
	DIR *d = opendir(b->dir);
	const struct dirent *found;
	unsigned int n = 0;

	CHECK(d != NULL);
	while ((found = readdir(d)) != NULL)
		n += strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0 &&
		     strncmp(found->d_name, INDEX_NAME, strlen(INDEX_NAME)) != 0 &&
		     strncmp(found->d_name, "audit", 5) != 0;
	(void)closedir(d);
	return n;
}

static inline void plant_file(const struct rig *b, const char *name, const char *text)
{
	own_fd fd = openat(b->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ_INT(io_write_all(fd, text, strlen(text)), 0);
	if (geteuid() == 0)
		CHECK(fchown(fd, NOBODY, NOBODY) == 0);
}

static inline void check_file(const struct rig *b, const char *name, const char *want)
{
	char got[4096];
	own_fd fd = openat(b->dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	n = io_read_full(fd, got, sizeof(got) - 1);
	CHECK(n >= 0);
	got[n] = '\0';
	CHECK_STR(got, want);
}

static inline bool exists(const struct rig *b, const char *name)
{
	struct stat st;

	return fstatat(b->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- a small disk ---------------------------------------------------------------------------------------------- */

/* The store's directory becomes a file system of its own, which only this test sees. */
static inline void mount_small(struct rig *b, const char *size)
{
	char options[64];

	if (geteuid() != 0)
		SKIP("needs root to mount a file system");
	(void)snprintf(options, sizeof(options), "size=%s,mode=0700,uid=65534,gid=65534", size);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("may not have a mount namespace");
	rig_make(b);
	if (mount("store", b->dir, "tmpfs", MS_NODEV | MS_NOSUID, options) < 0) {
		rig_remove(b);
		SKIP("may not mount a tmpfs");
	}
	(void)close(b->dir_fd);
	b->dir_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(b->dir_fd >= 0);
}

static inline void unmount_small(struct rig *b)
{
	if (b->pid != 0)
		rig_stop(b);
	fd_close(&b->dir_fd);
	CHECK(umount2(b->dir, MNT_DETACH) == 0);
	CHECK(rmdir(b->dir) == 0);
}

static inline void pause_ms(long ms)
{
	const struct timespec t = { .tv_nsec = ms * 1000000 };

	(void)nanosleep(&t, NULL);
}

#endif
