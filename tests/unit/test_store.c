/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/store: the role as it is, in a process of its own, on a directory of its own, asked over a real channel as a
 * gate would. As root it gives up root, as it does in the daemon.
 */
#include "store/store.h"

#include "base/clock.h"
#include "wire/msg.h"

#include "test_store_help.h"

#define AN_ID "01234567-89ab-4cde-8f01-23456789abcd"

/* --- files ------------------------------------------------------------------------------------------------------ */

TEST(store_keeps_a_file_and_gives_it_back)
{
	static const uint8_t sha_of_abc[] = { 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
					      0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
					      0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
					      0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad };
	struct store_meta put, got;
	struct timespec now;
	struct stat st;
	struct rig b;

	rig_up(&b);
	put = put_file(&b, "acme", "../etc/caf\xc3\xa9\n", "abc", 3);
	CHECK(store_id_is_valid(put.id));
	CHECK_STR(put.filename, "../etc/caf\xc3\xa9\n");
	CHECK_EQ_INT(put.size, 3);
	CHECK_MEM(put.sha256, sha_of_abc, sizeof(sha_of_abc));
	(void)clock_gettime(CLOCK_REALTIME, &now);
	CHECK(put.upload_time_us / US_PER_S + 60 > (uint64_t)now.tv_sec &&
	      put.upload_time_us / US_PER_S <= (uint64_t)now.tv_sec);
	CHECK(fstatat(b.dir_fd, put.id, &st, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(st.st_mode == (S_IFREG | 0600) && st.st_size == 3);
	CHECK_EQ_INT(st.st_uid, geteuid() == 0 ? NOBODY : geteuid());

	got = answer_meta(&b, ask_name(&b, STORE_OP_STAT, "acme", put.id));
	check_same(&got, &put);
	check_get(&b, "acme", put.id, 0, 0, "abc", 3);
	check_stored(&b, 1, 3);
	answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "acme", put.id));
	check_unknown(&b, "acme", put.id);
	check_stored(&b, 0, 0);
	CHECK_EQ_INT(count_entries(&b), 0);
	rig_down(&b);
}

TEST(store_keeps_contents_of_every_size)
{
	static const struct {
		size_t size;
		const char *sha256; /* by sha256sum(1) */
	} rows[] = {
		{ 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ 1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" },
		{ 4095, "79af48a39b35d88cd47a5943c4d072e96ccee2fa03c72f25eda81d28fe1d7fa2" },
		{ 65536, "568f12ba93e8dab920795c710afd644df68be7132c0e49e8bb72270d8339bc40" },
		{ 65537, "74a4892d761097f88f8bc5b5ae6c3113f4ea7f2b4cf974fb0af6aef674ee74ee" },
		{ MIB - 1, "f026d0087f9ff402b3a63fa604c0f5943093fd9b7a0d1044c57dac59785d4e86" },
		{ MIB, "07f4465ef6fe98070beaf8d8d01454b5d11f6cd4ff86a139d92cd031b46ddfdc" },
		{ MIB + 1, "7d129a470ea3dee543fdd2b4423cb950a5037750f9427a1b4b6488a7b7ff574c" },
		{ 3 * MIB, "ec04d946f3ed0c76c53efa46361d6342d4c2c8d616d5656871182f9db48dd29d" },
	};
	own_free uint8_t *data = malloc(3 * MIB);
	struct rig b;

	CHECK(data != NULL);
	for (unsigned int i = 0; i < 3 * MIB; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	rig_up(&b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct store_meta m = put_file(&b, "t", "f", data, rows[i].size);
		char hex[2 * STORE_SHA256 + 1];

		for (unsigned int k = 0; k < STORE_SHA256; k++)
			(void)snprintf(hex + 2 * k, 3, "%02x", m.sha256[k]);
		CHECK_STR(hex, rows[i].sha256);
		CHECK_EQ_INT(m.size, rows[i].size);
		check_get(&b, "t", m.id, 0, 0, data, rows[i].size);
	}
	rig_down(&b);
}

TEST(store_gives_back_a_part)
{
	struct store_meta m;
	struct rig b;

	rig_up(&b);
	m = put_text(&b, "0123456789");
	check_get(&b, "t", m.id, 0, 4, "0123", 4);
	check_get(&b, "t", m.id, 7, 0, "789", 3);
	check_get(&b, "t", m.id, 7, 100, "789", 3);
	check_get(&b, "t", m.id, 3, 2, "34", 2);
	check_get(&b, "t", m.id, 10, 0, "", 0);
	check_get(&b, "t", m.id, UINT64_MAX, UINT64_MAX, "", 0);
	check_get(&b, "t", m.id, 1, UINT64_MAX, "123456789", 9);
	rig_down(&b);
}

TEST(store_commit_waits_for_the_end_of_the_content)
{
	const struct store_put p = put_of("t", "f");
	struct store_meta m;
	uint64_t put, done;
	struct rig b;
	int fd;

	rig_up(&b);
	put = put_begin(&b, &p, &fd);
	done = commit(&b, put, 6);
	CHECK_EQ_INT(io_write_all(fd, "abc", 3), 0);
	CHECK_EQ_INT(figures(&b).puts, 1); /* no answer came before this one's */
	CHECK_EQ_INT(io_write_all(fd, "def", 3), 0);
	answer_failed(&b, commit(&b, put, 6), STORE_BUSY);
	(void)close(fd);
	m = answer_meta(&b, done);
	check_text(&b, m.id, "abcdef");
	CHECK_EQ_INT(figures(&b).puts, 0);
	answer_failed(&b, commit(&b, put, 6), STORE_NOT_FOUND);
	rig_down(&b);
}

TEST(store_takes_content_from_a_socket)
{
	const struct store_put p = put_of("t", "f");
	uint8_t body[2048];
	struct rig b;
	uint64_t put;
	int fds[2];

	rig_up(&b);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	put = ask(&b, STORE_OP_PUT, body, store_put_encode(&p, body, sizeof(body)), fds[0]);
	(void)close(fds[0]);
	CHECK_EQ_INT(io_write_all(fds[1], "hello", 5), 0);
	(void)close(fds[1]);
	check_text(&b, answer_meta(&b, commit(&b, put, 5)).id, "hello");
	rig_down(&b);
}

TEST(store_refuses_content_from_a_file)
{
	const struct store_put p = put_of("t", "f");
	uint8_t body[2048];
	struct rig b;
	uint64_t put;

	rig_up(&b);
	put = ask(&b, STORE_OP_PUT, body, store_put_encode(&p, body, sizeof(body)), b.dir_fd);
	answer_failed(&b, put, STORE_BROKEN);
	answer_failed(&b, commit(&b, put, 0), STORE_BROKEN);
	CHECK_EQ_INT(figures(&b).puts, 0);
	rig_down(&b);
}

TEST(store_refuses_a_wrong_size)
{
	const struct store_put p = put_of("t", "f");
	uint64_t put;
	struct rig b;
	int fd;

	rig_up(&b);
	for (uint64_t size = 0; size <= 4; size++) {
		put = put_begin(&b, &p, &fd);
		CHECK_EQ_INT(io_write_all(fd, "ab", 2), 0);
		(void)close(fd);
		if (size != 2)
			answer_failed(&b, commit(&b, put, size), STORE_BROKEN);
		else
			CHECK_EQ_INT(answer_meta(&b, commit(&b, put, size)).size, 2);
	}
	check_stored(&b, 1, 2);
	CHECK_EQ_INT(count_entries(&b), 1);
	rig_down(&b);
}

TEST(store_refuses_what_is_too_large_at_once)
{
	struct store_put p = put_of("t", "f");
	char data[4096] = { 0 };
	uint64_t put;
	struct rig b;
	int fd;

	rig_up(&b);
	p.max_bytes = sizeof(data) - 1;
	put = put_begin(&b, &p, &fd);
	CHECK_EQ_INT(io_write_all(fd, data, sizeof(data)), 0);
	answer_failed(&b, put, STORE_TOO_LARGE); /* without COMMIT, without end of file */
	(void)signal(SIGPIPE, SIG_IGN);
	CHECK_EQ_INT(io_write_all(fd, data, 1), -EPIPE);
	(void)close(fd);
	answer_failed(&b, commit(&b, put, sizeof(data)), STORE_TOO_LARGE);
	answer_failed(&b, commit(&b, put, sizeof(data)), STORE_TOO_LARGE);

	/* COMMIT came first: both are answered. */
	put = put_begin(&b, &p, &fd);
	(void)commit(&b, put, sizeof(data));
	CHECK_EQ_INT(figures(&b).puts, 1);
	CHECK_EQ_INT(io_write_all(fd, data, sizeof(data)), 0);
	(void)close(fd);
	answer_failed(&b, put, STORE_TOO_LARGE);
	answer_failed(&b, put + 1, STORE_TOO_LARGE);

	p.max_bytes = sizeof(data);
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, data, sizeof(data))).size, sizeof(data));
	p.max_bytes = 0;
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, data, 0)).size, 0);
	put = put_begin(&b, &p, &fd);
	CHECK_EQ_INT(io_write_all(fd, data, 1), 0);
	answer_failed(&b, put, STORE_TOO_LARGE);
	(void)close(fd);
	check_stored(&b, 2, sizeof(data));
	CHECK_EQ_INT(figures(&b).puts, 0);
	CHECK_EQ_INT(count_entries(&b), 2);
	rig_down(&b);
}

TEST(store_does_not_keep_what_is_the_same)
{
	struct store_put p = put_of("t", "f");
	struct store_meta m;
	struct rig b;

	rig_up(&b);
	m = put_text(&b, "the same");
	p.has_unless = true;
	memcpy(p.unless_sha256, m.sha256, sizeof(m.sha256));
	answer_failed(&b, put_all(&b, &p, "the same", 8), STORE_SAME);
	check_stored(&b, 1, 8);
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, "the name", 8)).size, 8);
	check_stored(&b, 2, 16);
	CHECK_EQ_INT(count_entries(&b), 2);
	rig_down(&b);
}

TEST(store_forgets_what_is_aborted)
{
	const struct store_put p = put_of("t", "f");
	uint64_t put, done, gone;
	struct rig b;
	int fd;

	rig_up(&b);
	put = put_begin(&b, &p, &fd);
	CHECK_EQ_INT(io_write_all(fd, "abc", 3), 0);
	answer_empty(&b, abort_put(&b, put));
	(void)close(fd);
	answer_failed(&b, commit(&b, put, 3), STORE_NOT_FOUND);
	answer_empty(&b, abort_put(&b, put));
	answer_empty(&b, abort_put(&b, 4711));

	put = put_begin(&b, &p, &fd);
	done = commit(&b, put, 3);
	gone = abort_put(&b, put);
	answer_failed(&b, done, STORE_BROKEN);
	answer_empty(&b, gone);
	(void)close(fd);
	check_stored(&b, 0, 0);
	CHECK_EQ_INT(figures(&b).puts, 0);
	CHECK_EQ_INT(count_entries(&b), 0);
	rig_down(&b);
}

TEST(store_tells_tenants_apart)
{
	char ids[4][STORE_ID_LEN + 1];
	struct store_meta a, z;
	struct rig b;

	rig_up(&b);
	a = put_file(&b, "a", "f", "of a", 4);
	z = put_file(&b, "", "f", "of nobody", 9);
	check_unknown(&b, "", a.id);
	check_unknown(&b, "A", a.id);
	check_unknown(&b, "a", z.id);
	CHECK_EQ_INT(list_ids(&b, "a", ids, 4), 1);
	CHECK_STR(ids[0], a.id);
	CHECK_EQ_INT(list_ids(&b, "", ids, 4), 1);
	CHECK_STR(ids[0], z.id);
	CHECK_EQ_INT(list_ids(&b, "b", ids, 4), 0);
	check_get(&b, "a", a.id, 0, 0, "of a", 4);
	rig_down(&b);
}

TEST(store_lists_all_files_in_pages)
{
	enum { N = 50 };
	static char want[N][STORE_ID_LEN + 1], got[N][STORE_ID_LEN + 1];
	char name[STORE_FILENAME_MAX + 1];
	struct rig b;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	rig_up(&b);
	for (unsigned int i = 0; i < N; i++)
		memcpy(want[i], put_file(&b, "t", name, "x", 1).id, sizeof(want[i]));
	qsort(want, N, sizeof(want[0]), (int (*)(const void *, const void *))strcmp);
	CHECK_EQ_INT(list_ids(&b, "t", got, N), N);
	CHECK_MEM(got, want, sizeof(want));
	rig_down(&b);
}

/* --- names that are not ours ------------------------------------------------------------------------------------ */

TEST(store_finds_nothing_by_what_is_no_id)
{
	static const char *const bad[] = {
		"",
		".",
		"..",
		"../x",
		"/etc/passwd",
		"../../../../../../etc/passwd",
		INDEX_NAME,
		"glovebox-files.sqlite3-wal",
		"foreign",
		"%",
		"' OR 1=1 --",
		"*",
		AN_ID,
		".glovebox-tmp-00112233445566778899aabbccddeeff",
		"\xff\xfe",
	};
	char upper[STORE_ID_LEN + 1];
	struct store_meta m;
	struct rig b;

	rig_make(&b);
	plant_file(&b, "foreign", "foreign");
	plant_file(&b, AN_ID, "looks like ours");
	rig_start(&b);
	m = put_text(&b, "text");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_unknown(&b, "t", bad[i]);
	for (unsigned int i = 0; i <= STORE_ID_LEN; i++)
		upper[i] = m.id[i] >= 'a' && m.id[i] <= 'f' ? (char)(m.id[i] - 'a' + 'A') : m.id[i];
	check_unknown(&b, "t", upper);
	check_text(&b, m.id, "text");
	check_file(&b, AN_ID, "looks like ours");
	rig_down(&b);
}

TEST(store_leaves_files_of_others_alone)
{
	static const char *const names[] = { "notes.txt",
					     AN_ID,
					     AN_ID ".meta.json",
					     ".hidden",
					     CONTENT_TEMP_PREFIX "not-ours",
					     CONTENT_TEMP_PREFIX,
					     "glovebox-files.sqlite3.bak" };
	char ids[8][STORE_ID_LEN + 1];
	struct store_meta m;
	struct rig b;

	rig_make(&b);
	rig_arg(&b, "file_ttl=1");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		plant_file(&b, names[i], names[i]);
	CHECK(mkdirat(b.dir_fd, "sub", 0700) == 0);
	for (unsigned int round = 0; round < 3; round++) {
		rig_start(&b);
		m = put_text(&b, "ours");
		CHECK(list_ids(&b, "t", ids, 8) >= 1);
		answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "t", m.id));
		(void)put_text(&b, "ours, too");
		if (round == 1)
			rig_kill(&b);
		else
			rig_stop(&b);
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		check_file(&b, names[i], names[i]);
	CHECK(exists(&b, "sub"));
	rig_down(&b);
}

TEST(store_follows_nothing_that_is_planted_at_an_id)
{
	struct store_meta link, fifo, dir, longer;
	struct rig b;

	rig_up(&b);
	link = put_text(&b, "link");
	fifo = put_text(&b, "fifo");
	dir = put_text(&b, "dir");
	longer = put_text(&b, "longer");
	plant_file(&b, "secret", "link");
	CHECK(unlinkat(b.dir_fd, link.id, 0) == 0 && symlinkat("secret", b.dir_fd, link.id) == 0);
	CHECK(unlinkat(b.dir_fd, fifo.id, 0) == 0 && mkfifoat(b.dir_fd, fifo.id, 0666) == 0);
	CHECK(unlinkat(b.dir_fd, dir.id, 0) == 0 && mkdirat(b.dir_fd, dir.id, 0777) == 0);
	plant_file(&b, longer.id, "longer than it was");
	answer_failed(&b, ask_get(&b, "t", link.id, 0, 0), STORE_NOT_FOUND);
	answer_failed(&b, ask_get(&b, "t", fifo.id, 0, 0), STORE_NOT_FOUND);
	answer_failed(&b, ask_get(&b, "t", dir.id, 0, 0), STORE_NOT_FOUND);
	answer_failed(&b, ask_get(&b, "t", longer.id, 0, 0), STORE_BROKEN);
	CHECK_EQ_INT(figures(&b).gets, 0);
	answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "t", link.id));
	check_unknown(&b, "t", link.id);
	check_file(&b, "secret", "link");
	rig_kill(&b);

	rig_start(&b); /* rows whose content is not theirs go, what is there stays */
	check_unknown(&b, "t", fifo.id);
	check_unknown(&b, "t", dir.id);
	check_unknown(&b, "t", longer.id);
	check_stored(&b, 0, 0);
	CHECK(exists(&b, link.id) && exists(&b, fifo.id) && exists(&b, dir.id));
	check_file(&b, "secret", "link");
	rig_down(&b);
}

/* --- bounds ----------------------------------------------------------------------------------------------------- */

TEST(store_has_a_quota)
{
	const struct store_put p = put_of("t", "f");
	char data[1000] = { 0 };
	struct store_meta m;
	uint64_t put;
	struct rig b;
	int open_fd, fd;

	rig_make(&b);
	rig_arg(&b, "store_bytes=3000");
	rig_start(&b);
	m = put_file(&b, "a", "f", data, 1000);
	(void)put_file(&b, "b", "f", data, 1000);
	/* What is open counts. */
	(void)put_begin(&b, &p, &open_fd);
	CHECK_EQ_INT(io_write_all(open_fd, data, 600), 0);
	wait_read(open_fd);
	put = put_begin(&b, &p, &fd);
	CHECK_EQ_INT(io_write_all(fd, data, 401), 0);
	(void)close(fd);
	answer_failed(&b, put, STORE_FULL);
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, data, 400)).size, 400);
	rig_kill(&b);
	(void)close(open_fd);

	rig_start(&b);
	check_stored(&b, 3, 2400);
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, data, 600)).size, 600);
	put = put_begin(&b, &p, &fd);
	CHECK_EQ_INT(io_write_all(fd, data, 1), 0);
	answer_failed(&b, put, STORE_FULL);
	(void)close(fd);
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, data, 0)).size, 0);
	answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "a", m.id));
	CHECK_EQ_INT(answer_meta(&b, put_all(&b, &p, data, 1000)).size, 1000);
	rig_down(&b);
}

TEST(store_has_a_quota_per_tenant)
{
	const struct store_put p = put_of("a", "f");
	char data[1000] = { 0 };
	struct store_meta m;
	uint64_t put;
	struct rig b;
	int fd;

	rig_make(&b);
	rig_arg(&b, "tenant_bytes=1500");
	rig_start(&b);
	for (unsigned int round = 0; round < 2; round++) {
		m = put_file(&b, "a", "f", data, 1000);
		(void)put_file(&b, "b", "f", data, 500);
		put = put_begin(&b, &p, &fd);
		CHECK_EQ_INT(io_write_all(fd, data, 501), 0);
		(void)close(fd);
		answer_failed(&b, put, STORE_FULL);
		rig_stop(&b);
		rig_start(&b); /* and it is known after a restart */
		put = put_begin(&b, &p, &fd);
		CHECK_EQ_INT(io_write_all(fd, data, 501), 0);
		(void)close(fd);
		answer_failed(&b, put, STORE_FULL);
		answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "a", m.id));
	}
	rig_down(&b);
}

TEST(store_takes_so_many_uploads_at_once)
{
	const struct store_put p = put_of("t", "f");
	static int fds[STORE_PUTS_MAX + 1];
	static uint64_t puts[STORE_PUTS_MAX + 1];
	struct rig b;

	rig_up(&b);
	for (unsigned int i = 0; i <= STORE_PUTS_MAX; i++)
		puts[i] = put_begin(&b, &p, &fds[i]);
	answer_failed(&b, puts[STORE_PUTS_MAX], STORE_BUSY);
	answer_failed(&b, commit(&b, puts[STORE_PUTS_MAX], 0), STORE_BUSY);
	CHECK_EQ_INT(figures(&b).puts, STORE_PUTS_MAX);
	(void)close(fds[STORE_PUTS_MAX]);
	for (unsigned int i = 0; i < STORE_PUTS_MAX; i++) {
		CHECK_EQ_INT(io_write_all(fds[i], "x", 1), 0);
		(void)close(fds[i]);
		CHECK_EQ_INT(answer_meta(&b, commit(&b, puts[i], 1)).size, 1);
	}
	check_stored(&b, STORE_PUTS_MAX, STORE_PUTS_MAX);
	CHECK_EQ_INT(figures(&b).puts, 0);
	rig_down(&b);
}

TEST(store_takes_so_many_downloads_at_once)
{
	static int fds[STORE_GETS_MAX];
	own_free char *data = calloc(1, 2 * MIB);
	struct store_meta m;
	struct rig b;

	CHECK(data != NULL);
	rig_up(&b);
	m = put_file(&b, "t", "f", data, 2 * MIB); /* more than a pipe holds */
	for (unsigned int i = 0; i < STORE_GETS_MAX; i++)
		fds[i] = answer_pipe(&b, ask_get(&b, "t", m.id, 0, 0), NULL);
	answer_failed(&b, ask_get(&b, "t", m.id, 0, 0), STORE_BUSY);
	CHECK_EQ_INT(figures(&b).gets, STORE_GETS_MAX);
	for (unsigned int i = 0; i < STORE_GETS_MAX; i++) /* nobody reads on */
		(void)close(fds[i]);
	while (figures(&b).gets > 0)
		;
	check_get(&b, "t", m.id, 0, 0, data, 2 * MIB);
	rig_down(&b);
}

/* Whether the last PUT was answered, which is to say refused. */
static bool last_was_refused(struct rig *b)
{
	static struct chan_msg m;
	uint64_t put = b->request, after = ask(b, STORE_OP_FIGURES, NULL, 0, -1);

	CHECK_EQ_INT(chan_recv(b->gate_fd, &m), 1);
	if (m.request == after)
		return false;
	CHECK(m.request == put && m.type == STORE_FAILED);
	CHECK_EQ_INT(answer_ok(b, after)->nfds, 0);
	return true;
}

TEST(store_takes_fewer_where_descriptors_are_scarce)
{
	const struct store_put p = put_of("t", "f");
	unsigned int n = 0;
	struct rig b;
	int fds[20];

	rig_make(&b);
	b.nofile = 100;
	rig_start(&b);
	for (; n < ARRAY_LEN(fds); n++) {
		(void)put_begin(&b, &p, &fds[n]);
		if (last_was_refused(&b))
			break;
	}
	CHECK(n > 4 && n < ARRAY_LEN(fds));
	for (unsigned int i = 0; i <= n; i++)
		(void)close(fds[i]);
	rig_down(&b);
}

TEST(store_remembers_the_latest_failures)
{
	const struct store_put p = put_of("t", "f");
	uint64_t first = 0, last = 0;
	uint8_t body[2048];
	struct rig b;

	rig_up(&b);
	for (unsigned int i = 0; i < 3 * STORE_PUTS_MAX; i++) {
		last = ask(&b, STORE_OP_PUT, body, store_put_encode(&p, body, sizeof(body)),
			   b.dir_fd);
		first = i == 0 ? last : first;
		answer_failed(&b, last, STORE_BROKEN);
	}
	answer_failed(&b, commit(&b, last, 1), STORE_BROKEN);
	answer_failed(&b, commit(&b, last - STORE_PUTS_MAX + 1, 1), STORE_BROKEN);
	answer_failed(&b, commit(&b, last - STORE_PUTS_MAX, 1), STORE_NOT_FOUND);
	answer_failed(&b, commit(&b, first, 1), STORE_NOT_FOUND);
	rig_down(&b);
}

TEST(store_moves_many_files_at_once)
{
	enum { N = 24, SIZE = 700000 };
	const struct store_put p = put_of("t", "f");
	own_free uint8_t *data = malloc(SIZE);
	struct store_meta metas[N];
	uint64_t puts[N], state = 5;
	int in[N], out[N];
	struct rig b;

	CHECK(data != NULL);
	rnd_fill(&state, data, SIZE);
	rig_up(&b);
	for (unsigned int i = 0; i < N; i++)
		puts[i] = put_begin(&b, &p, &in[i]);
	/* Piece by piece, of other lengths each: i bytes less than the whole. */
	for (size_t at = 0; at < SIZE; at += 7000)
		for (unsigned int i = 0; i < N; i++)
			CHECK_EQ_INT(
				io_write_all(in[i], data + at, at + 7000 < SIZE ? 7000 : 7000 - i),
				0);
	for (unsigned int i = 0; i < N; i++) {
		(void)close(in[i]);
		metas[i] = answer_meta(&b, commit(&b, puts[i], SIZE - i));
	}
	for (unsigned int i = 0; i < N; i++)
		out[i] = answer_pipe(&b, ask_get(&b, "t", metas[i].id, 0, 0), NULL);
	for (size_t at = 0; at < SIZE; at += 100000)
		for (unsigned int i = 0; i < N; i++) {
			static uint8_t piece[100000];
			size_t n = at + 100000 < SIZE ? 100000 : 100000 - i;

			CHECK_EQ_INT(io_read_full(out[i], piece, n), n);
			CHECK_MEM(piece, data + at, n);
		}
	for (unsigned int i = 0; i < N; i++) {
		CHECK_EQ_INT(io_read_full(out[i], data, 1), 0);
		(void)close(out[i]);
	}
	while (figures(&b).gets > 0)
		;
	check_stored(&b, N, (uint64_t)N * SIZE - N * (N - 1) / 2);
	rig_down(&b);
}

TEST(store_loses_no_answer_when_the_gate_is_slow)
{
	static struct chan_msg m;
	unsigned int sent = 0, got = 0;
	struct store_meta f;
	struct rig b;

	rig_make(&b);
	b.narrow = true;
	rig_start(&b);
	f = put_text(&b, "text");
	CHECK_EQ_INT(io_set_nonblock(b.gate_fd, 1), 0);
	for (unsigned int full = 0; full < 50; full++) {
		uint64_t first = b.request + 1;

		while (sent < 5000 &&
		       chan_send(b.gate_fd, STORE_OP_FIGURES, first + sent, NULL, 0, NULL, 0) == 0)
			sent++;
		(void)sched_yield();
		if (sent == 5000)
			break;
	}
	CHECK(sent > 100);
	CHECK_EQ_INT(io_set_nonblock(b.gate_fd, 0), 0);
	for (; got < sent; got++) {
		CHECK_EQ_INT(chan_recv(b.gate_fd, &m), 1);
		CHECK_EQ_INT(m.request, b.request + 1 + got);
		CHECK_EQ_INT(m.type, STORE_OK);
	}
	b.request += sent;
	check_text(&b, f.id, "text");
	rig_down(&b);
}

/* Answers that carry a descriptor wait, too. */
TEST(store_loses_no_download_when_the_gate_is_slow)
{
	enum { N = 200 };
	struct store_meta f;
	uint64_t first;
	struct rig b;

	rig_make(&b);
	b.narrow = true;
	rig_start(&b);
	f = put_text(&b, "text");
	first = b.request + 1;
	for (unsigned int i = 0; i < N; i++)
		(void)ask_get(&b, "t", f.id, 0, 0);
	for (unsigned int i = 0; i < N; i++) {
		own_fd fd = answer_pipe(&b, first + i, NULL);
		char got[5];

		CHECK_EQ_INT(io_read_full(fd, got, sizeof(got)), 4);
	}
	while (figures(&b).gets > 0)
		;
	rig_down(&b);
}

/* --- what a gate must not do ------------------------------------------------------------------------------------ */

static void check_ends_it(uint16_t type, const void *body, size_t len, const int *fds,
			  unsigned int nfds)
{
	struct chan_msg *m = malloc(sizeof(*m));
	struct rig b;

	CHECK(m != NULL);
	rig_up(&b);
	(void)put_text(&b, "text");
	CHECK_EQ_INT(chan_send(b.gate_fd, type, 99, body, len, fds, nfds), 0);
	CHECK_EQ_INT(chan_recv(b.gate_fd, m), 0);
	CHECK_EQ_INT(rig_wait(&b), 1);
	rig_remove(&b);
	free(m);
}

TEST(store_ends_when_a_message_does_not_fit_its_row)
{
	static const uint8_t zeros[CHAN_MAX - CHAN_HEADER];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	check_ends_it(0, NULL, 0, NULL, 0);
	check_ends_it(STORE_OP_MAX, NULL, 0, NULL, 0);
	check_ends_it(STORE_OK, NULL, 0, NULL, 0);
	for (unsigned int op = 1; op < STORE_OP_MAX; op++) {
		const struct store_op_row *row = store_op_row(op);

		check_ends_it((uint16_t)op, zeros, row->max + 1, &null, row->fds);
		if (row->min > 0)
			check_ends_it((uint16_t)op, zeros, row->min - 1, &null, row->fds);
		check_ends_it((uint16_t)op, zeros, row->min, &null, 1 - row->fds);
	}
	(void)close(null);
}

TEST(store_ends_when_a_message_does_not_decode)
{
	uint8_t body[256] = { 0 };
	const struct store_put p = put_of("t", "f");
	struct msg_out m;
	struct rig b;
	int fd, fds[2];

	memset(body, 0xff, sizeof(body));
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	check_ends_it(STORE_OP_PUT, body, 40, fds, 1);
	check_ends_it(STORE_OP_GET, body, 40, NULL, 0);
	check_ends_it(STORE_OP_STAT, body, 40, NULL, 0);
	check_ends_it(STORE_OP_DELETE, body, 40, NULL, 0);
	check_ends_it(STORE_OP_LIST, body, 40, NULL, 0);
	msg_out_init(&m, body, sizeof(body));
	msg_put_str(&m, "two\nlines");
	check_ends_it(STORE_OP_AUDIT, body, m.len, NULL, 0);

	/* A number of a PUT that is open. */
	rig_up(&b);
	(void)put_begin(&b, &p, &fd);
	CHECK_EQ_INT(chan_send(b.gate_fd, STORE_OP_PUT, b.request, body,
			       (size_t)store_put_encode(&p, body, sizeof(body)), fds, 1),
		     0);
	CHECK_EQ_INT(rig_wait(&b), 1);
	rig_remove(&b);
	(void)close(fd);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

TEST(store_ends_with_its_keeper_or_its_gate)
{
	const struct store_put p = put_of("t", "f");
	struct rig b;
	int fd;

	for (int keeper = 0; keeper <= 1; keeper++) {
		rig_up(&b);
		(void)put_begin(&b, &p, &fd);
		CHECK_EQ_INT(figures(&b).puts, 1);
		/* What the keeper says is of no interest, that it is there is. */
		CHECK_EQ_INT(chan_send(b.keeper_fd, 1, 1, "hello", 5, &fd, 1), 0);
		CHECK_EQ_INT(figures(&b).puts, 1);
		fd_close(keeper ? &b.keeper_fd : &b.gate_fd);
		CHECK_EQ_INT(rig_wait(&b), 0);
		CHECK_EQ_INT(count_entries(&b), 0);
		rig_remove(&b);
		(void)close(fd);
	}
}

TEST(store_takes_known_arguments_only)
{
	static const char *const bad[] = { "x=1",
					   "uid",
					   "uid=-1",
					   "uid=",
					   "file_ttl=x",
					   "audit_name=../x",
					   "audit_name=a/b",
					   "audit_name=",
					   "store_bytes=1k" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct rig b;

		rig_make(&b);
		rig_arg(&b, bad[i]);
		rig_start(&b);
		answer_failed(&b, 0, STORE_BROKEN);
		CHECK_EQ_INT(rig_wait(&b), 1);
		CHECK(!exists(&b, INDEX_NAME));
		rig_remove(&b);
	}
}

/* --- time to live ----------------------------------------------------------------------------------------------- */

static bool is_gone(struct rig *b, const char *id)
{
	static struct chan_msg m;
	struct store_failure f;
	uint64_t request = ask_name(b, STORE_OP_STAT, "t", id);

	CHECK_EQ_INT(chan_recv(b->gate_fd, &m), 1);
	CHECK_EQ_INT(m.request, request);
	if (m.type == STORE_OK)
		return false;
	CHECK_EQ_INT(store_failure_decode(m.body, m.len, &f), 0);
	CHECK_EQ_INT(f.reason, STORE_NOT_FOUND);
	return true;
}

TEST(store_does_not_find_what_has_expired)
{
	char ids[4][STORE_ID_LEN + 1];
	struct store_meta m;
	struct rig b;

	rig_make(&b);
	rig_arg(&b, "file_ttl=1");
	rig_arg(&b, "sweep=3600");
	rig_start(&b);
	m = put_text(&b, "text");
	check_text(&b, m.id, "text");
	while (!is_gone(&b, m.id))
		pause_ms(20);
	check_unknown(&b, "t", m.id);
	CHECK_EQ_INT(list_ids(&b, "t", ids, 4), 0);
	check_stored(&b, 1, 4); /* not swept yet */
	CHECK(exists(&b, m.id));
	rig_stop(&b);
	rig_start(&b); /* a sweep comes with the start */
	check_stored(&b, 0, 0);
	CHECK_EQ_INT(count_entries(&b), 0);
	rig_down(&b);
}

TEST(store_sweeps_what_has_expired)
{
	struct rig b;

	rig_make(&b);
	rig_arg(&b, "file_ttl=1");
	rig_arg(&b, "sweep=1");
	rig_start(&b);
	for (unsigned int i = 0; i < 150; i++) /* more than in one go */
		(void)put_text(&b, "text");
	while (figures(&b).files > 0)
		pause_ms(20);
	CHECK_EQ_INT(count_entries(&b), 0);
	rig_down(&b);
}

/* --- how fast --------------------------------------------------------------------------------------------------- */

/* Not among the tests, whose machine may be busy: `unit-tests store_speed` prints figures. */
TEST_HIDDEN(store_speed)
{
	const struct store_put p = put_of("t", "f");
	const uint64_t size = 1ULL << 30;
	own_free char *data = malloc(MIB);
	struct store_meta m;
	uint64_t put, at, start;
	struct rig b;
	int fd;

	CHECK(data != NULL);
	memset(data, 'x', MIB);
	mount_small(&b, "2g");
	rig_start(&b);
	(void)figures(&b);
	for (unsigned int round = 0; round < 3; round++) {
		start = clock_us();
		put = put_begin(&b, &p, &fd);
		for (at = 0; at < size; at += MIB)
			CHECK_EQ_INT(io_write_all(fd, data, MIB), 0);
		(void)close(fd);
		m = answer_meta(&b, commit(&b, put, size));
		(void)fprintf(stderr, "# put: %.2f GB/s\n",
			      (double)size / (double)(clock_us() - start) / 1000.0);
		start = clock_us();
		fd = answer_pipe(&b, ask_get(&b, "t", m.id, 0, 0), NULL);
		for (at = 0; at < size;) {
			ssize_t n = read(fd, data, MIB);

			CHECK(n > 0);
			at += (uint64_t)n;
		}
		(void)close(fd);
		(void)fprintf(stderr, "# get: %.2f GB/s\n",
			      (double)size / (double)(clock_us() - start) / 1000.0);
		start = clock_us();
		for (unsigned int i = 0; i < 1000; i++)
			(void)put_text(&b, "text");
		(void)fprintf(stderr, "# small files: %.0f us each\n",
			      (double)(clock_us() - start) / 1000.0);
		answer_empty(&b, ask_name(&b, STORE_OP_DELETE, "t", m.id));
	}
	unmount_small(&b);
}
