/* SPDX-License-Identifier: Apache-2.0 */
/* src/store: what is left when a store is killed, finds what is not its own, or has no room. */
#include "store/files.h"

#include <sqlite3.h>

#include "test_store_help.h"

#define AN_ID "01234567-89ab-4cde-8f01-23456789abcd"

/* --- its keeper --------------------------------------------------------------------------------------------------- */

/* As often as it is asked whether it lives, and for nothing else. */
TEST(store_gives_the_keeper_its_question_back)
{
	static struct chan_msg m;
	struct rig b;

	rig_up(&b);
	for (unsigned int i = 0; i < 10; i++) {
		CHECK_EQ_INT(chan_send(b.keeper_fd, 7, i, NULL, 0, NULL, 0), 0);
		CHECK_EQ_INT(chan_recv(b.keeper_fd, &m), 1);
		CHECK(m.type == 7 && m.request == i && m.len == 0);
	}
	CHECK(fcntl(b.keeper_fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK_EQ_INT(chan_recv(b.keeper_fd, &m), -EAGAIN);
	check_stored(&b, 0, 0);
	rig_down(&b);
}

/* --- ends without warning --------------------------------------------------------------------------------------- */

TEST(store_has_its_files_after_a_restart)
{
	char ids[4][STORE_ID_LEN + 1];
	struct store_meta m, got;
	struct rig b;

	rig_up(&b);
	m = put_text(&b, "text");
	for (int killed = 0; killed <= 1; killed++) {
		if (killed)
			rig_kill(&b);
		else
			rig_stop(&b);
		rig_start(&b);
		got = answer_meta(&b, ask_name(&b, STORE_OP_STAT, "t", m.id));
		check_same(&got, &m);
		check_text(&b, m.id, "text");
		CHECK_EQ_INT(list_ids(&b, "t", ids, 4), 1);
		check_stored(&b, 1, 4);
	}
	rig_down(&b);
}

TEST(store_leaves_nothing_of_an_upload_when_killed)
{
	static const char *const how[] = { "nameless=1", "nameless=0" };
	const struct store_put p = put_of("t", "f");
	uint64_t puts[2];
	struct rig b;
	int fds[2];

	for (size_t i = 0; i < ARRAY_LEN(how); i++) {
		rig_make(&b);
		rig_arg(&b, how[i]);
		rig_start(&b);
		for (unsigned int k = 0; k < 2; k++) { /* one half, one whole without COMMIT */
			puts[k] = put_begin(&b, &p, &fds[k]);
			CHECK_EQ_INT(io_write_all(fds[k], "half", 4), 0);
		}
		(void)close(fds[1]);
		CHECK_EQ_INT(figures(&b).puts, 2);
		CHECK(count_entries(&b) == (i == 0 ? 0 : 2) || i == 0);
		rig_kill(&b);
		(void)close(fds[0]);
		rig_start(&b);
		check_stored(&b, 0, 0);
		CHECK_EQ_INT(count_entries(&b), 0);
		answer_failed(&b, commit(&b, puts[1], 4), STORE_NOT_FOUND);
		check_text(&b, put_text(&b, "text").id, "text");
		CHECK_EQ_INT(count_entries(&b), 1);
		rig_down(&b);
	}
}

/* Every id in the directory is listed, with its content, and the other way round. */
static void check_whole(struct rig *b, const void *data, size_t size)
{
	static char ids[4096][STORE_ID_LEN + 1];
	unsigned int n = list_ids(b, "t", ids, 4096);

	CHECK_EQ_INT(count_entries(b), n);
	check_stored(b, n, n * size);
	for (unsigned int i = 0; i < n; i++) {
		struct stat st;

		CHECK(fstatat(b->dir_fd, ids[i], &st, AT_SYMLINK_NOFOLLOW) == 0);
		CHECK_EQ_INT(st.st_size, size);
	}
	if (n > 0)
		check_get(b, "t", ids[n - 1], 0, 0, data, size);
}

/* As fast as it goes, half of it deleted again, until the store is killed. Returns how many were kept for sure. */
static unsigned int put_until_killed(struct rig *b, const void *data, size_t size,
				     char (*kept)[STORE_ID_LEN + 1], unsigned int max)
{
	const struct store_put p = put_of("t", "f");
	unsigned int n = 0, round = 0;
	static struct chan_msg m;
	struct store_meta meta;
	uint8_t body[2048];

	while (n < max) {
		const struct store_commit c = { b->request + 1, size };
		int fds[2], r;

		CHECK(pipe2(fds, O_CLOEXEC) == 0);
		r = chan_send(b->gate_fd, STORE_OP_PUT, ++b->request, body,
			      (size_t)store_put_encode(&p, body, sizeof(body)), fds, 1);
		(void)close(fds[0]);
		if (r == 0)
			r = io_write_all(fds[1], data, size);
		(void)close(fds[1]);
		if (r < 0 ||
		    chan_send(b->gate_fd, STORE_OP_COMMIT, ++b->request, body,
			      (size_t)store_commit_encode(&c, body, sizeof(body)), NULL, 0) < 0)
			break;
		if (chan_recv(b->gate_fd, &m) <= 0 || m.request != b->request)
			break;
		CHECK_EQ_INT(store_meta_decode(m.body, m.len, &meta), 0);
		if (++round % 2 == 0) {
			struct store_name name = { .tenant = "t" };

			memcpy(name.id, meta.id, sizeof(meta.id));
			if (chan_send(b->gate_fd, STORE_OP_DELETE, ++b->request, body,
				      (size_t)store_name_encode(&name, body, sizeof(body)), NULL,
				      0) < 0 ||
			    chan_recv(b->gate_fd, &m) <= 0)
				break;
			continue;
		}
		memcpy(kept[n++], meta.id, sizeof(meta.id));
	}
	return n;
}

TEST(store_killed_at_any_moment_has_whole_files_or_none)
{
	enum { ROUNDS = 12, SIZE = 20000 };
	static char kept[2048][STORE_ID_LEN + 1];
	static uint8_t data[SIZE];
	uint64_t state = 7;
	struct rig b;

	(void)signal(SIGPIPE, SIG_IGN);
	rnd_fill(&state, data, sizeof(data));
	for (unsigned int round = 0; round < ROUNDS; round++) {
		unsigned int n;
		pid_t killer;

		rig_make(&b);
		if (round % 3 == 2)
			rig_arg(&b, "nameless=0");
		rig_start(&b);
		(void)put_file(&b, "t", "f", data, sizeof(data)); /* it is running */
		killer = fork();
		CHECK(killer >= 0);
		if (killer == 0) {
			const struct timespec t = { .tv_nsec =
							    (long)rnd_below(&state, 30) * 1000000 +
							    (long)(round * 137 % 1000) * 1000 };

			(void)nanosleep(&t, NULL);
			(void)kill(b.pid, SIGKILL);
			_exit(0);
		}
		(void)rnd(&state);
		n = put_until_killed(&b, data, sizeof(data), kept, 2048);
		CHECK(waitpid(killer, NULL, 0) == killer);
		CHECK_EQ_INT(rig_wait(&b), -SIGKILL);

		rig_start(&b);
		check_whole(&b, data, sizeof(data));
		for (unsigned int i = 0; i < n; i++)
			CHECK_STR(answer_meta(&b, ask_name(&b, STORE_OP_STAT, "t", kept[i])).id,
				  kept[i]);
		rig_down(&b);
	}
}

/* Runs in the store's directory, as its user, while no store does. */
static void with_index(const struct rig *b, void (*change)(struct index *ix))
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		struct index *ix;
		struct err e;

		CHECK(fchdir(b->dir_fd) == 0);
		CHECK(geteuid() != 0 || (setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
					 setresuid(NOBODY, NOBODY, NOBODY) == 0));
		CHECK_EQ_INT(index_open(&ix, &e), 0);
		change(ix);
		index_close(ix);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

#define ID(n) "00000000-0000-4000-8000-00000000000" #n

static void add_rows(struct index *ix)
{
	static const char *const ids[] = { ID(1), ID(2), ID(3), ID(4), ID(5) };

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct store_meta m = { .filename = "f", .size = 4, .upload_time_us = 1u << 30 };

		memcpy(m.id, ids[i], sizeof(m.id));
		CHECK_EQ_INT(index_add(ix, "t", &m), 0);
		CHECK_EQ_INT(index_add(ix, "t", &m), -EIO); /* the same id twice */
		if (i >= 2)
			CHECK_EQ_INT(index_ready(ix, ids[i]), 0);
	}
}

TEST(store_removes_what_a_killed_one_left)
{
	char ids[4][STORE_ID_LEN + 1];
	struct rig b;

	rig_make(&b);
	with_index(&b, add_rows);
	plant_file(&b, ID(1), "half"); /* pending, with its content */
	/* 2: pending, without */
	plant_file(&b, ID(3), "text"); /* whole */
	/* 4: ready, without */
	plant_file(&b, ID(5), "tex");  /* cut by a loss of power */
	plant_file(&b, ID(6), "????"); /* not ours, whatever it looks like */
	plant_file(&b, CONTENT_TEMP_PREFIX "00112233445566778899aabbccddeeff", "half");
	rig_start(&b);
	CHECK_EQ_INT(list_ids(&b, "t", ids, 4), 1);
	CHECK_STR(ids[0], ID(3));
	check_text(&b, ID(3), "text");
	check_unknown(&b, "t", ID(1));
	check_unknown(&b, "t", ID(6));
	check_stored(&b, 1, 4);
	CHECK_EQ_INT(count_entries(&b), 2);
	check_file(&b, ID(6), "????");
	rig_down(&b);
}

TEST(store_waits_for_one_that_is_about_to_end)
{
	struct store_meta m;
	struct rig b, second;

	rig_up(&b);
	m = put_text(&b, "text");
	second = b;
	rig_start(&second);
	CHECK_EQ_INT(chan_send(second.gate_fd, STORE_OP_FIGURES, 1, NULL, 0, NULL, 0), 0);
	pause_ms(50);
	check_text(&b, m.id, "text"); /* not disturbed */
	rig_kill(&b);
	CHECK_EQ_INT(answer_ok(&second, 1)->nfds, 0);
	check_text(&second, m.id, "text");
	rig_down(&second);
}

/* --- indexes that are not ours ---------------------------------------------------------------------------------- */

static void check_does_not_start(struct rig *b, const char *why)
{
	const struct chan_msg *m;
	struct store_failure f;

	rig_start(b);
	m = answer(b, 0);
	CHECK_EQ_INT(m->type, STORE_FAILED);
	CHECK_EQ_INT(store_failure_decode(m->body, m->len, &f), 0);
	if (strstr(f.text, why) == NULL)
		test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", f.text, why);
	CHECK_EQ_INT(rig_wait(b), 1);
}

static void run_sql(const struct rig *b, const char *sql)
{
	char path[256];
	sqlite3 *db;

	(void)snprintf(path, sizeof(path), "%s/" INDEX_NAME, b->dir);
	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	if (geteuid() == 0)
		CHECK(chown(path, NOBODY, NOBODY) == 0);
}

TEST(store_refuses_an_index_that_is_newer)
{
	struct store_meta m;
	struct rig b;

	rig_up(&b);
	m = put_text(&b, "text");
	rig_stop(&b);
	run_sql(&b, "PRAGMA user_version = 2");
	check_does_not_start(&b, "version 2");
	run_sql(&b, "PRAGMA user_version = 1");
	rig_start(&b);
	check_text(&b, m.id, "text");
	rig_down(&b);
}

TEST(store_refuses_an_index_of_somebody_else)
{
	struct rig b;

	rig_make(&b);
	run_sql(&b, "CREATE TABLE files(x); INSERT INTO files VALUES(1)");
	check_does_not_start(&b, "not an index of glovebox");
	run_sql(&b, "INSERT INTO files VALUES(2)"); /* it is as it was */
	CHECK(unlinkat(b.dir_fd, INDEX_NAME, 0) == 0);
	plant_file(&b, INDEX_NAME,
		   "no database at all, but longer than the head of one would be: "
		   "0123456789012345678901234567890123456789012345678901234567890");
	check_does_not_start(&b, "not a database");
	CHECK(unlinkat(b.dir_fd, INDEX_NAME, 0) == 0);
	plant_file(&b, "other", "");
	CHECK(symlinkat("other", b.dir_fd, INDEX_NAME) == 0);
	check_does_not_start(&b, "no plain file");
	check_file(&b, "other", "");
	CHECK(unlinkat(b.dir_fd, INDEX_NAME, 0) == 0);
	rig_down(&b);
}

/* --- an index that somebody holds --------------------------------------------------------------------------------- */

TEST(store_goes_on_when_the_index_was_held)
{
	const struct store_put p = put_of("t", "f");
	struct store_meta kept, gone;
	char path[256];
	struct rig b;
	sqlite3 *db;

	rig_make(&b);
	rig_arg(&b, "sweep=1");
	rig_start(&b);
	kept = put_text(&b, "kept");
	gone = put_text(&b, "gone");
	(void)snprintf(path, sizeof(path), "%s/" INDEX_NAME, b.dir);
	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
	answer_failed(&b, put_all(&b, &p, "text", 4), STORE_BUSY);
	answer_failed(&b, ask_name(&b, STORE_OP_DELETE, "t", gone.id), STORE_BUSY);
	check_text(&b, kept.id, "kept"); /* who reads is not held up */
	answer_failed(&b, ask_get(&b, "t", gone.id, 0, 0), STORE_NOT_FOUND);
	CHECK_EQ_INT(count_entries(&b), 1);
	CHECK(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	while (figures(&b).files > 1) /* the row goes by itself */
		pause_ms(20);
	check_unknown(&b, "t", gone.id);
	check_text(&b, put_text(&b, "text").id, "text");
	rig_down(&b);
}

/* --- contents, by each of the ways that a kernel may offer ------------------------------------------------------- */

TEST(store_content_gets_its_name_by_every_way)
{
	static const enum content_how hows[] = { CONTENT_NAMED, CONTENT_LINK_FD,
						 CONTENT_LINK_PROC };
	struct content c;
	struct rig b;

	rig_make(&b);
	CHECK_EQ_INT(content_init(&c, b.dir_fd, true), 0);
	for (size_t i = 0; i < ARRAY_LEN(hows); i++) {
		struct content_temp t;
		uint64_t size;
		int fd;

		c.how = hows[i];
		CHECK_EQ_INT(content_new(&c, &t), 0);
		CHECK_EQ_INT(io_write_all(t.fd, "text", 4), 0);
		CHECK_EQ_INT(content_keep(&c, &t, "../x"), -EINVAL);
		CHECK_EQ_INT(content_keep(&c, &t, AN_ID), 0);
		CHECK_EQ_INT(t.fd, -1);
		CHECK_EQ_INT(count_entries(&b), 1);
		check_file(&b, AN_ID, "text");

		/* A name that is taken stays whose it is. */
		CHECK_EQ_INT(content_new(&c, &t), 0);
		CHECK_EQ_INT(content_keep(&c, &t, AN_ID), -EEXIST);
		content_drop(&c, &t);
		content_drop(&c, &t);
		check_file(&b, AN_ID, "text");
		CHECK_EQ_INT(count_entries(&b), 1);

		CHECK_EQ_INT(content_open(&c, AN_ID, &fd, &size), 0);
		CHECK_EQ_INT(size, 4);
		(void)close(fd);
		CHECK_EQ_INT(content_open(&c, "../x", &fd, &size), -ENOENT);
		CHECK_EQ_INT(content_remove(&c, AN_ID), 0);
		CHECK_EQ_INT(content_remove(&c, AN_ID), 0);
		CHECK_EQ_INT(content_open(&c, AN_ID, &fd, &size), -ENOENT);
		CHECK_EQ_INT(count_entries(&b), 0);
	}
	rig_down(&b);
}

/* --- a full disk ------------------------------------------------------------------------------------------------ */

TEST(store_says_that_the_disk_is_full)
{
	const struct store_put p = put_of("t", "f");
	own_free char *data = calloc(1, 4 * MIB);
	struct store_meta m;
	uint64_t put;
	struct rig b;
	int fd;

	CHECK(data != NULL);
	mount_small(&b, "4m");
	rig_start(&b);
	m = put_file(&b, "t", "f", data, 2 * MIB);
	(void)signal(SIGPIPE, SIG_IGN);
	for (unsigned int i = 0; i < 3; i++) {
		put = put_begin(&b, &p, &fd);
		(void)io_write_all(fd, data, 4 * MIB); /* until it is closed */
		answer_failed(&b, put, STORE_FULL);
		(void)close(fd);
		answer_failed(&b, commit(&b, put, 4 * MIB), STORE_FULL);
	}
	check_stored(&b, 1, 2 * MIB);
	check_get(&b, "t", m.id, 0, 0, data, 2 * MIB);
	/* Small ones until nothing fits any more, row or content: full each time, and nothing half. */
	for (unsigned int i = 0;; i++) {
		static struct chan_msg msg;
		struct store_failure f;
		uint64_t done = put_all(&b, &p, data, 40000);

		CHECK(i < 200);
		CHECK_EQ_INT(chan_recv(b.gate_fd, &msg), 1);
		if (msg.type == STORE_OK)
			continue;
		CHECK_EQ_INT(store_failure_decode(msg.body, msg.len, &f), 0);
		CHECK_STR(store_reason_str(f.reason), "full");
		if (msg.request != done) /* of the PUT: that of the COMMIT is the same */
			answer_failed(&b, done, STORE_FULL);
		break;
	}
	answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "t", m.id));
	m = put_file(&b, "t", "f", data, 1 * MIB);
	check_get(&b, "t", m.id, 0, 0, data, 1 * MIB);
	rig_kill(&b);
	rig_start(&b);
	CHECK_EQ_INT(count_entries(&b), figures(&b).files);
	unmount_small(&b);
}
