/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/keeper: what can be said of it without a box. The keeper's surface (ops.c) is driven as a gate that is
 * compromised would: through the socket, with messages that do not fit their row.
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "wire/msg.h"

#include "test_help.h"

/* --- files that go into boxes ------------------------------------------------------------------------------- */

/* All boxes have the same one: it can be executed, and there is nothing else to do with it. */
TEST(archive_program_is_one_file_for_all)
{
	static struct keeper keeper;
	const char *const args[] = { "glovebox-archive", NULL }, *const env[] = { NULL };
	char path[32];
	struct err e;
	struct stat st;
	int fd, again, status, quiet;
	pid_t child;

	if (!blob_is_there(BLOB_ARCHIVE))
		SKIP("a build without the archive program");
	fd = blob_fd(&keeper, BLOB_ARCHIVE, &e);
	CHECK(fd >= 0);
	CHECK_EQ_INT(blob_fd(&keeper, BLOB_ARCHIVE, &e), fd);
	CHECK((fcntl(fd, F_GETFL) & O_PATH) != 0);
	CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0111);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC); /* as root may */
	if (again >= 0) {
		CHECK(write(again, "x", 1) < 0 && errno == EPERM);
		CHECK(ftruncate(again, 0) < 0 && errno == EPERM);
		(void)close(again);
	}
	child = fork();
	if (child == 0) {
		quiet = open("/dev/null", O_WRONLY);
		if (quiet >= 0)
			(void)dup2(quiet, STDERR_FILENO);
		(void)syscall(SYS_execveat, fd, "", args, env, AT_EMPTY_PATH);
		_exit(99);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EINVAL);
	(void)close(fd);
}

/* --- ids ---------------------------------------------------------------------------------------------------- */

static const struct ids rooted = { .base = 0x70000000, .per_slot = 8192, .slots = 1024 };
static const struct ids rootless = { .rootless = true, .base = 1, .per_slot = 512, .slots = 127 };

TEST(ids_of_a_box_lie_in_its_slot)
{
	static const struct ids *const kinds[] = { &rooted, &rootless };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct ids *ids = kinds[i];
		const unsigned int slots[] = { 0, 1, ids->slots - 1 };

		for (size_t slot = 0; slot < ARRAY_LEN(slots); slot++)
			for (unsigned int n = 0; n < ids_boxes(ids); n++)
				for (int root_user = 0; root_user <= 1; root_user++) {
					uint32_t first = ids->base + slots[slot] * ids->per_slot;
					struct box_ids b = ids_for(ids, slots[slot], n, root_user);

					CHECK(b.root >= first && b.root < first + ids->per_slot);
					CHECK(b.user >= first && b.user < first + ids->per_slot);
					CHECK_EQ_INT(b.root == b.user, root_user);
					CHECK_EQ_INT(b.in_root, 0);
					CHECK_EQ_INT(b.in_user, root_user ? 0 : BOX_USER);
				}
	}
}

/* The layer own-uids: two ids "that belong to this box alone". */
static void check_no_two_share(const struct ids *ids)
{
	bool *taken = calloc(ids->per_slot, sizeof(*taken));

	CHECK(taken != NULL);
	for (unsigned int n = 0; n < ids_boxes(ids); n++) {
		struct box_ids b = ids_for(ids, 3, n, false);
		uint32_t first = ids->base + 3 * ids->per_slot;

		if (taken[b.root - first] || taken[b.user - first])
			test_fail(__FILE__, __LINE__, "box %u has the ids of another", n);
		taken[b.root - first] = taken[b.user - first] = true;
	}
	CHECK(true);
	free(taken);
}

TEST(ids_of_two_boxes_of_root_differ)
{
	check_no_two_share(&rooted);
}

TEST(ids_of_two_boxes_of_a_user_differ)
{
	check_no_two_share(&rootless);
}

TEST(ids_without_a_range_are_one)
{
	const struct ids single = { .single = true, .slots = 1024 };

	for (int root_user = 0; root_user <= 1; root_user++) {
		struct box_ids b = ids_for(&single, 5, 7, root_user);

		CHECK(b.root == 0 && b.user == 0);
		CHECK_EQ_INT(b.in_root, b.in_user);
		CHECK_EQ_INT(b.in_user, root_user ? 0 : BOX_USER);
	}
}

/* --- the surface -------------------------------------------------------------------------------------------- */

static struct keeper k;
static int gate; /* the gate's end */

static void keeper_open(bool hello)
{
	int s[2];

	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[0], F_SETFL, O_NONBLOCK) == 0);
	memset(&k, 0, sizeof(k));
	k.gate_fd = s[1];
	k.epoll_fd = k.children_fd = k.blob_fd[BLOB_INIT] = -1;
	k.hello = hello;
	for (int i = 0; i < CG_KIND_MAX; i++)
		k.cgroups.base_fd[i] = -1;
	gate = s[0];
}

static void keeper_close(void)
{
	for (unsigned int i = 0; i < k.nboxes; i++)
		free(k.boxes[i].record);
	(void)close(k.gate_fd);
	(void)close(gate);
}

/* A box that is ready and has nothing behind it. */
static struct box *add_box(uint64_t id)
{
	struct box *b = &k.boxes[k.nboxes];

	*b = (struct box){ .state = BOX_READY,
			   .id = id,
			   .number = k.nboxes++,
			   .pid = -1,
			   .pidfd = -1,
			   .control_fd = -1,
			   .report_fd = -1,
			   .store_fd = { -1, -1, -1 },
			   .deadline_us = UINT64_MAX,
			   .layers = id * 3,
			   .setup_us = id * 5 };
	for (int i = 0; i < CG_KIND_MAX; i++)
		b->cgroup.fd[i] = -1;
	for (int i = 0; i < BOX_PORTS_MAX; i++)
		b->port_fd[i] = -1;
	return b;
}

/* What the keeper does with one message from the gate. */
static int ask(uint16_t type, uint64_t request, const void *body, size_t len, const int *fds,
	       unsigned int nfds)
{
	static struct chan_msg m;

	CHECK_EQ_INT(chan_send(gate, type, request, body, len, fds, nfds), 0);
	CHECK_EQ_INT(chan_recv(k.gate_fd, &m), 1);
	return ops_handle(&k, &m);
}

static int ask_u64(uint16_t type, uint64_t request, uint64_t v)
{
	uint8_t body[8];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, v);
	return ask(type, request, body, sizeof(body), NULL, 0);
}

static int hello(uint32_t version, uint32_t oldest)
{
	uint8_t body[8];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, version);
	msg_put_u32(&m, oldest);
	return ask(OP_HELLO, 9, body, sizeof(body), NULL, 0);
}

static void check_silent(void)
{
	static struct chan_msg m;

	CHECK_EQ_INT(chan_recv(gate, &m), -EAGAIN);
}

static const struct chan_msg *check_answer(uint16_t type, uint64_t request)
{
	static struct chan_msg m;

	CHECK_EQ_INT(chan_recv(gate, &m), 1);
	CHECK_EQ_INT(m.type, type);
	CHECK_EQ_INT(m.request, request);
	CHECK_EQ_INT(m.nfds, 0);
	return &m;
}

TEST(keeper_says_hello_once)
{
	const struct chan_msg *m;

	keeper_open(false);
	CHECK_EQ_INT(hello(KEEPER_PROTO_VERSION, KEEPER_PROTO_OLDEST), 0);
	CHECK(k.hello);
	m = check_answer(REPLY_OK, 9);
	CHECK_EQ_INT(m->len, 8);
	CHECK(hello(KEEPER_PROTO_VERSION, KEEPER_PROTO_OLDEST) < 0);
	keeper_close();
}

TEST(keeper_speaks_with_versions_that_overlap)
{
	static const struct {
		uint32_t version, oldest;
		bool good;
	} cases[] = {
		{ KEEPER_PROTO_VERSION, KEEPER_PROTO_VERSION, true },
		{ KEEPER_PROTO_VERSION + 5, KEEPER_PROTO_VERSION, true },
		{ KEEPER_PROTO_VERSION + 5, KEEPER_PROTO_VERSION + 1, false },
		{ KEEPER_PROTO_OLDEST - 1, 0, false },
		{ UINT32_MAX, 0, true },
		{ UINT32_MAX, UINT32_MAX, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		keeper_open(false);
		CHECK_EQ_INT(hello(cases[i].version, cases[i].oldest) == 0, cases[i].good);
		CHECK_EQ_INT(k.hello, cases[i].good);
		keeper_close();
	}
}

/* Every type, in both states, at the bounds of its row and beyond: a message that does not fit ends the gate. */
TEST(keeper_takes_no_message_that_does_not_fit_its_row)
{
	enum { ST_HELLO = 1, ST_READY = 2 };
	static const struct {
		unsigned int type, states;
		size_t min, max;
		unsigned int fds;
	} rows[] = {
#define OP(id, state, min, max, fds, doc) { OP_##id, state, min, max, fds },
#include "wire/ops.tbl"
#undef OP
	};
	static const uint8_t body[CHAN_MAX - CHAN_HEADER];

	for (int ready = 0; ready <= 1; ready++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			keeper_open(ready);
			if (rows[i].min > 0) {
				CHECK(ask((uint16_t)rows[i].type, 1, body, rows[i].min - 1, NULL,
					  0) < 0);
				CHECK(ask((uint16_t)rows[i].type, 1, body, 0, NULL, 0) < 0);
			}
			CHECK(ask((uint16_t)rows[i].type, 1, body, rows[i].max + 1, NULL, 0) < 0);
			if ((rows[i].states & (ready ? ST_READY : ST_HELLO)) == 0) {
				CHECK(ask((uint16_t)rows[i].type, 1, body, rows[i].min, NULL, 0) <
				      0);
				CHECK(ask((uint16_t)rows[i].type, 1, body, rows[i].max, NULL, 0) <
				      0);
			}
			check_silent(); /* none of it came as far as a handler */
			keeper_close();
		}
}

TEST(keeper_takes_no_type_that_does_not_exist)
{
	static const uint8_t body[8];

	keeper_open(true);
	for (unsigned int type = OP_TYPE_MAX; type <= UINT16_MAX; type++)
		CHECK(ask((uint16_t)type, 1, body, sizeof(body), NULL, 0) < 0);
	CHECK(ask(OP_NONE, 1, body, sizeof(body), NULL, 0) < 0);
	check_silent();
	keeper_close();
}

TEST(keeper_closes_descriptors_that_no_row_asks_for)
{
	int fds[CHAN_FDS];
	unsigned int before;

	keeper_open(true);
	for (unsigned int i = 0; i < CHAN_FDS; i++)
		CHECK((fds[i] = dup(gate)) >= 0);
	before = count_fds();
	for (unsigned int type = 0; type < OP_TYPE_MAX; type++)
		for (unsigned int n = 1; n <= CHAN_FDS; n++) {
			static const uint8_t body[98];
			size_t len = type == OP_BOX_DEADLINE   ? 16
				     : type == OP_BOX_RECORD   ? 12
				     : type == OP_BOX_LIMITS   ? 98
				     : type == OP_BOX_PORT     ? 11
				     : type == OP_BOX_PORT_END ? 9
				     : type == OP_WAY_OPEN     ? 1
							       : 8;

			CHECK(ask((uint16_t)type, 1, body, len, fds, n) < 0);
			CHECK_EQ_INT(count_fds(), before);
		}
	check_silent();
	for (unsigned int i = 0; i < CHAN_FDS; i++)
		(void)close(fds[i]);
	keeper_close();
}

TEST(keeper_refuses_a_box_that_is_not_there)
{
	static const unsigned int types[] = { OP_BOX_ATTACH, OP_BOX_FIGURES, OP_BOX_END };
	static const uint64_t ids[] = { 0, 2, 8, UINT64_MAX };

	keeper_open(true);
	(void)add_box(7);
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		for (size_t n = 0; n < ARRAY_LEN(ids); n++) {
			const struct chan_msg *m;
			struct err e;

			/* The gate lives: it may ask for a box that has just gone. */
			CHECK_EQ_INT(ask_u64((uint16_t)types[i], 40 + n, ids[n]), 0);
			m = check_answer(REPLY_FAILED, 40 + n);
			CHECK_EQ_INT(failed_decode(m->body, m->len, &e), 0);
			CHECK_EQ_INT(e.kind, ERR_INPUT);
		}
	check_silent();
	keeper_close();
}

TEST(keeper_refuses_a_box_that_is_not_ready)
{
	static const enum box_state states[] = { BOX_FREE, BOX_SETUP, BOX_ENDING };

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		keeper_open(true);
		add_box(7)->state = states[i];
		CHECK_EQ_INT(ask_u64(OP_BOX_FIGURES, 3, 7), 0);
		(void)check_answer(REPLY_FAILED, 3);
		CHECK_EQ_INT(ask_u64(OP_BOX_END, 4, 7), 0);
		(void)check_answer(REPLY_FAILED, 4);
		CHECK_EQ_INT(k.boxes[0].request, 0);
		CHECK_EQ_INT(ask_u64(OP_BOX_LIST, 5, 0), 0);
		CHECK_EQ_INT(check_answer(REPLY_OK, 5)->len, 0);
		keeper_close();
	}
}

TEST(keeper_refuses_a_request_that_is_malformed)
{
	static struct box_request q;
	static uint8_t body[8192];
	ptrdiff_t n;

	keeper_open(true);
	memset(&q, 0, sizeof(q));
	limits_init(&q.limits);
	n = box_request_encode(&q, body, sizeof(body));
	CHECK(n > 8);
	for (size_t len = 8; len < (size_t)n; len++)
		CHECK(ask(OP_BOX_NEW, 1, body, len, NULL, 0) < 0);
	CHECK(ask(OP_BOX_NEW, 1, body, (size_t)n + 1, NULL, 0) < 0);
	check_silent();
	/* A limit out of range is an honest mistake, and answered. */
	q.limits.v[LIMIT_MEMORY] = 1;
	n = box_request_encode(&q, body, sizeof(body));
	CHECK_EQ_INT(ask(OP_BOX_NEW, 2, body, (size_t)n, NULL, 0), 0);
	(void)check_answer(REPLY_FAILED, 2);
	CHECK_EQ_INT(k.nboxes, 0);
	keeper_close();
}

static int set_record(uint64_t box, const void *p, size_t n)
{
	uint8_t body[12 + BOX_RECORD_MAX];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, box);
	msg_put_bytes(&m, p, n);
	CHECK(!m.failed);
	return ask(OP_BOX_RECORD, 6, body, m.len, NULL, 0);
}

/* Boxes are listed in the order of their ids wherever they lie, each with its record as it was given. */
TEST(keeper_lists_boxes_with_their_records)
{
	static uint8_t record[BOX_RECORD_MAX];
	static const uint64_t ids[] = { 30, 10, 20, UINT64_MAX };
	static const uint64_t sorted[] = { 10, 20, 30, UINT64_MAX };
	static const size_t sizes[] = { 0, 1, 100, BOX_RECORD_MAX };
	uint64_t seed = 13, after = 0;

	rnd_fill(&seed, record, sizeof(record));
	keeper_open(true);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		(void)add_box(ids[i]);
	for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
		CHECK_EQ_INT(set_record(sorted[i], record, 50), 0); /* to be replaced */
		(void)check_answer(REPLY_OK, 6);
		CHECK_EQ_INT(set_record(sorted[i], record, sizes[i]), 0);
		(void)check_answer(REPLY_OK, 6);
	}
	for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
		const size_t info_len = BOX_INFO_BYTES;
		const struct chan_msg *m;
		struct box_info info;
		struct msg_in in;
		const uint8_t *p;
		size_t n;

		CHECK_EQ_INT(ask_u64(OP_BOX_LIST, 7, after), 0);
		m = check_answer(REPLY_OK, 7);
		CHECK(m->len > info_len);
		CHECK_EQ_INT(box_info_decode(m->body, info_len, &info), 0);
		CHECK(info.box == sorted[i] && info.layers == sorted[i] * 3);
		CHECK(info.setup_us == sorted[i] * 5);
		msg_in_init(&in, m->body + info_len, m->len - info_len);
		p = msg_get_bytes(&in, BOX_RECORD_MAX, &n);
		CHECK_EQ_INT(msg_end(&in), 0);
		CHECK_EQ_INT(n, sizes[i]);
		CHECK_MEM(p, record, n);
		after = info.box;
	}
	CHECK_EQ_INT(ask_u64(OP_BOX_LIST, 8, after), 0);
	CHECK_EQ_INT(check_answer(REPLY_OK, 8)->len, 0);
	keeper_close();
}

TEST(keeper_refuses_a_record_whose_length_lies)
{
	uint8_t body[12 + 4] = { 7 };

	keeper_open(true);
	(void)add_box(7);
	for (unsigned int n = 0; n < 256; n++) {
		body[8] = (uint8_t)n;
		CHECK_EQ_INT(ask(OP_BOX_RECORD, 1, body, sizeof(body), NULL, 0) == 0, n == 4);
	}
	(void)check_answer(REPLY_OK, 1);
	check_silent();
	CHECK_EQ_INT(k.boxes[0].record_len, 4);
	keeper_close();
}

/* --- ports -------------------------------------------------------------------------------------------------- */

/* Ask for a listener; what came with the answer, or -errno as the keeper says it. */
static int ask_port(uint64_t box, uint8_t which, uint16_t port, uint16_t *ret)
{
	static struct chan_msg m;
	uint8_t body[11];
	struct msg_out out;
	struct msg_in in;
	struct err e;

	msg_out_init(&out, body, sizeof(body));
	msg_put_u64(&out, box);
	msg_put_u8(&out, which);
	msg_put_u16(&out, port);
	CHECK_EQ_INT(ask(OP_BOX_PORT, 3, body, sizeof(body), NULL, 0), 0);
	CHECK_EQ_INT(chan_recv(gate, &m), 1);
	if (m.type == REPLY_FAILED) {
		CHECK_EQ_INT(failed_decode(m.body, m.len, &e), 0);
		return e.sys != 0 ? -e.sys : -EIO;
	}
	CHECK_EQ_INT(m.nfds, 1);
	msg_in_init(&in, m.body, m.len);
	*ret = msg_get_u16(&in);
	CHECK_EQ_INT(msg_end(&in), 0);
	return m.fds[0];
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	CHECK_EQ_INT(fstat(fd, &st), 0);
	return st.st_ino;
}

TEST(keeper_opens_a_port_on_loopback_and_hands_the_same_one_out_again)
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);
	uint16_t port = 0, again = 0;
	int first, second;

	keeper_open(true);
	k.ports_allowed = PORTS_ANY;
	(void)add_box(7);
	first = ask_port(7, PORT_EXECUTOR, 0, &port);
	CHECK(first >= 0);
	CHECK_EQ_INT(getsockname(first, (struct sockaddr *)&a, &len), 0);
	CHECK_EQ_INT(a.sin_family, AF_INET);
	CHECK_EQ_INT(ntohl(a.sin_addr.s_addr), INADDR_LOOPBACK);
	CHECK_EQ_INT(ntohs(a.sin_port), port);
	second = ask_port(7, PORT_EXECUTOR, 1,
			  &again); /* what the next gate asks for is no matter */
	CHECK(second >= 0);
	CHECK_EQ_INT(again, port);
	CHECK(inode_of(first) == inode_of(second));
	(void)close(second);
	second = ask_port(7, PORT_RESOURCE, 0, &again);
	CHECK(second >= 0 && again != port);
	CHECK_EQ_INT(k.nports, 2);
	box_end(&k, &k.boxes[0]);
	CHECK_EQ_INT(k.nports, 0);
	CHECK_EQ_INT(k.boxes[0].port_fd[PORT_EXECUTOR], -1);
	(void)close(first);
	(void)close(second);
	keeper_close();
}

TEST(keeper_opens_no_port_that_it_may_not)
{
	static const struct {
		enum ports_allowed allowed;
		uint16_t port;
	} cases[] = {
		{ PORTS_NONE, 0 }, { PORTS_NONE, 2000 }, { PORTS_FREE, 2000 },
		{ PORTS_ANY, 1 },  { PORTS_ANY, 22 },    { PORTS_ANY, 1023 },
	};
	uint16_t port = 0, taken = 0;
	int fd, other;

	keeper_open(true);
	(void)add_box(7);
	(void)add_box(8);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		k.ports_allowed = cases[i].allowed;
		CHECK(ask_port(7, PORT_EXECUTOR, cases[i].port, &port) < 0);
	}
	k.ports_allowed = PORTS_FREE;
	fd = ask_port(7, PORT_EXECUTOR, 0, &taken);
	CHECK(fd >= 0);
	k.ports_allowed = PORTS_ANY;
	CHECK_EQ_INT(ask_port(8, PORT_EXECUTOR, taken, &port), -EADDRINUSE);
	/* Those inside are there from a box's birth, or not at all. */
	CHECK(ask_port(7, PORT_INSIDE_EXECUTOR, 0, &port) < 0);
	k.nports = PORTS_MAX;
	CHECK(ask_port(8, PORT_EXECUTOR, 0, &port) < 0);
	k.nports = 1;
	box_end(&k, &k.boxes[0]);
	(void)close(fd);
	other = ask_port(8, PORT_EXECUTOR, taken, &port); /* gone with its box */
	CHECK(other >= 0 && port == taken);
	(void)close(other);
	box_end(&k, &k.boxes[1]);
	keeper_close();
}

TEST(keeper_takes_no_port_that_does_not_exist)
{
	uint8_t body[11] = { 7 };

	keeper_open(true);
	(void)add_box(7);
	for (unsigned int which = BOX_PORTS_MAX; which < 256; which++) {
		body[8] = (uint8_t)which;
		CHECK(ask(OP_BOX_PORT, 1, body, sizeof(body), NULL, 0) < 0);
	}
	check_silent();
	keeper_close();
}

static int end_port(uint64_t box, uint8_t which)
{
	uint8_t body[9];
	struct msg_out out;

	msg_out_init(&out, body, sizeof(body));
	msg_put_u64(&out, box);
	msg_put_u8(&out, which);
	return ask(OP_BOX_PORT_END, 3, body, sizeof(body), NULL, 0);
}

/* A gate ends the listeners of published ports, and no others. */
TEST(keeper_ends_a_published_port_for_whoever_has_a_copy_of_it)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	uint16_t port = 0, other = 0;
	int fd, caller;

	keeper_open(true);
	k.ports_allowed = PORTS_FREE;
	(void)add_box(7);
	fd = ask_port(7, PORT_PUBLISHED, 0, &port);
	CHECK(fd >= 0);
	a.sin_port = htons(port);
	CHECK_EQ_INT(end_port(7, PORT_PUBLISHED), 0);
	(void)check_answer(REPLY_OK, 3);
	CHECK_EQ_INT(k.nports, 0);
	CHECK_EQ_INT(k.boxes[0].port_fd[PORT_PUBLISHED], -1);
	caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(caller >= 0);
	CHECK_EQ_INT(connect(caller, (struct sockaddr *)&a, sizeof(a)), -1);
	CHECK_EQ_INT(errno, ECONNREFUSED);
	(void)close(caller);
	(void)close(fd);
	CHECK_EQ_INT(end_port(7, PORT_PUBLISHED), 0); /* nobody listens: well */
	(void)check_answer(REPLY_OK, 3);
	fd = ask_port(7, PORT_PUBLISHED, 0, &other);
	CHECK(fd >= 0);
	(void)close(fd);
	for (unsigned int which = 0; which < 256; which++) {
		if (which < PORT_PUBLISHED || which >= BOX_PORTS_MAX)
			CHECK(end_port(7, (uint8_t)which) < 0);
	}
	CHECK_EQ_INT(k.nports, 1);
	box_end(&k, &k.boxes[0]);
	keeper_close();
}

/* --- ways out ------------------------------------------------------------------------------------------------ */

/* What came with the answer, or -1. */
static int ask_way(uint8_t which)
{
	static struct chan_msg m;

	CHECK_EQ_INT(ask(OP_WAY_OPEN, 3, &which, sizeof(which), NULL, 0), 0);
	CHECK_EQ_INT(chan_recv(gate, &m), 1);
	if (m.type == REPLY_FAILED)
		return -1;
	CHECK(m.nfds == 1 && m.len == 0);
	return m.fds[0];
}

/* A gate chooses among the places that the keeper was told, by their number. */
TEST(keeper_connects_to_what_it_was_told)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in6 b = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t len = sizeof(a), len6 = sizeof(b);
	int v4 = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, there;
	int v6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[64];
	struct err e;

	CHECK(v4 >= 0 && bind(v4, (struct sockaddr *)&a, len) == 0 && listen(v4, 1) == 0);
	CHECK_EQ_INT(getsockname(v4, (struct sockaddr *)&a, &len), 0);
	keeper_open(true);
	k.ways.n = 0;
	(void)snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(a.sin_port));
	CHECK_EQ_INT(ways_argument(&k.ways, "", &e), 0);
	CHECK_EQ_INT(ways_argument(&k.ways, text, &e), 0);
	CHECK_EQ_INT(ask_way(0), -1); /* nobody knows where that is */
	fd = ask_way(1);
	CHECK(fd >= 0);
	there = accept(v4, NULL, NULL);
	CHECK(there >= 0 && write(there, "x", 1) == 1 && recv(fd, text, 1, 0) == 1);
	(void)close(fd);
	(void)close(there);
	if (v6 >= 0 && bind(v6, (struct sockaddr *)&b, len6) == 0) { /* this machine has it */
		CHECK(listen(v6, 1) == 0 && getsockname(v6, (struct sockaddr *)&b, &len6) == 0);
		(void)snprintf(text, sizeof(text), "::1:%u", ntohs(b.sin6_port));
		CHECK_EQ_INT(ways_argument(&k.ways, text, &e), 0);
		fd = ask_way(2);
		there = accept(v6, NULL, NULL);
		CHECK(fd >= 0 && there >= 0);
		(void)close(fd);
		(void)close(there);
	}
	for (unsigned int which = k.ways.n; which < 256; which++)
		CHECK_EQ_INT(ask_way((uint8_t)which), -1);
	(void)close(v4);
	(void)close(v6);
	k.ways.n = 0;
	keeper_close();
}

TEST(keeper_is_told_ways_in_numbers)
{
	static const char *const bad[] = { "x",
					   "localhost:80",
					   "127.0.0.1",
					   "127.0.0.1:",
					   "127.0.0.1:0",
					   "127.0.0.1:65536",
					   ":80",
					   "::1:x",
					   "fe80::1%lo:80",
					   "127.0.0.1:8 ",
					   "1.2.3:80" };
	struct err e;

	keeper_open(true);
	k.ways.n = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ_INT(ways_argument(&k.ways, bad[i], &e), -1);
	CHECK_EQ_INT(k.ways.n, 0);
	for (unsigned int i = 0; i < WAYS_MAX; i++)
		CHECK_EQ_INT(ways_argument(&k.ways, "10.0.0.1:80", &e), 0);
	CHECK_EQ_INT(ways_argument(&k.ways, "10.0.0.1:80", &e), -1);
	k.ways.n = 0;
	keeper_close();
}

TEST(keeper_deadline_is_from_now_and_can_be_taken_back)
{
	static const struct {
		uint64_t us;
		bool none;
	} cases[] = {
		{ 0, true },
		{ 1, false },
		{ 3600000000, false },
		{ UINT64_MAX, true },
		{ UINT64_MAX / 2 + 1, true },
	};

	keeper_open(true);
	(void)add_box(7);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t body[16];
		struct msg_out m;

		msg_out_init(&m, body, sizeof(body));
		msg_put_u64(&m, 7);
		msg_put_u64(&m, cases[i].us);
		CHECK_EQ_INT(ask(OP_BOX_DEADLINE, i, body, sizeof(body), NULL, 0), 0);
		(void)check_answer(REPLY_OK, i);
		CHECK_EQ_INT(k.boxes[0].deadline_us == UINT64_MAX, cases[i].none);
		CHECK(k.boxes[0].deadline_us >= cases[i].us);
	}
	keeper_close();
}

/* --- limits of a spare box ----------------------------------------------------------------------------------- */

static int set_limits(uint64_t box, const struct limits *l)
{
	uint8_t body[128];
	ptrdiff_t n = box_limits_encode(box, l, body, sizeof(body));

	CHECK(n > 0);
	return ask(OP_BOX_LIMITS, 5, body, (size_t)n, NULL, 0);
}

static void check_refused(enum err_kind kind)
{
	const struct chan_msg *m = check_answer(REPLY_FAILED, 5);
	struct err e;

	CHECK_EQ_INT(failed_decode(m->body, m->len, &e), 0);
	CHECK_EQ_INT(e.kind, kind);
}

/* Its descriptors are not those of file systems: what comes as far as them fails. */
static struct box *add_spare(uint64_t id)
{
	struct box *b = add_box(id);

	b->spare = true;
	for (int s = 0; s < STORE_MAX; s++)
		CHECK((b->store_fd[s] = dup(gate)) >= 0);
	return b;
}

TEST(keeper_changes_limits_of_spare_boxes_only)
{
	struct limits l;

	limits_init(&l);
	keeper_open(true);
	(void)add_box(7);
	CHECK_EQ_INT(set_limits(8, &l), 0);
	check_refused(ERR_INPUT);
	CHECK_EQ_INT(set_limits(7, &l), 0);
	check_refused(ERR_INPUT);
	CHECK_EQ_INT(k.boxes[0].state, BOX_READY); /* nothing happened to it */
	keeper_close();
}

TEST(keeper_refuses_limits_out_of_range)
{
	unsigned int before;
	struct limits l;

	keeper_open(true);
	(void)add_spare(7);
	before = count_fds();
	limits_init(&l);
	l.v[LIMIT_MEMORY] = 1;
	CHECK_EQ_INT(set_limits(7, &l), 0);
	check_refused(ERR_INPUT);
	CHECK(k.boxes[0].spare && k.boxes[0].state == BOX_READY);
	CHECK_EQ_INT(count_fds(), before);
	box_taken(&k.boxes[0]);
	keeper_close();
}

/* All of them, or the end: a box with some of its limits is nobody's. */
TEST(keeper_ends_a_box_whose_limits_cannot_be_set)
{
	unsigned int before;
	struct limits l;

	limits_init(&l);
	keeper_open(true);
	before = count_fds();
	(void)add_spare(7);
	CHECK_EQ_INT(set_limits(7, &l), 0);
	check_refused(ERR_SYS);
	CHECK_EQ_INT(k.boxes[0].state, BOX_ENDING);
	CHECK(k.boxes[0].asked_to_end && k.boxes[0].request == 0); /* no second word about it */
	CHECK_EQ_INT(count_fds(), before);
	keeper_close();
}

/* Whoever has it has it with the limits that it had then. */
TEST(keeper_changes_no_limits_of_a_box_that_was_taken)
{
	static const uint16_t ops[] = { OP_BOX_DEADLINE, OP_BOX_RECORD };

	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		uint8_t body[16] = { 7 };
		unsigned int before;
		struct limits l;

		limits_init(&l);
		keeper_open(true);
		before = count_fds();
		(void)add_spare(7);
		CHECK_EQ_INT(ask(ops[i], 6, body, ops[i] == OP_BOX_DEADLINE ? 16 : 12, NULL, 0), 0);
		(void)check_answer(REPLY_OK, 6);
		CHECK_EQ_INT(count_fds(), before); /* it could not even if it wanted to */
		CHECK_EQ_INT(set_limits(7, &l), 0);
		check_refused(ERR_INPUT);
		CHECK_EQ_INT(k.boxes[0].state, BOX_READY);
		keeper_close();
	}
}

/* --- who hangs ---------------------------------------------------------------------------------------------- */

static int store, supervisor; /* their ends */

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	(void)alarm(60); /* should nobody be left to end it */
	for (;;)
		(void)pause();
}

/* A server whose gate and store are processes that do nothing; what they say is said here. */
static void pair_open(void)
{
	int s[2];

	keeper_open(true);
	CHECK(fcntl(k.gate_fd, F_SETFL, O_NONBLOCK) == 0);
	k.server.on = k.server.serving = true;
	k.server.hang_us = 20 * 1000000;
	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(s[1], F_SETFL, O_NONBLOCK) == 0);
	store = s[0];
	k.server.store_fd = s[1];
	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[0], F_SETFL, O_NONBLOCK) == 0);
	supervisor = s[0];
	k.server.sup_fd = s[1];
	k.server.gate.pid = start_sleeper();
	k.server.store.pid = start_sleeper();
}

static void pair_close(void)
{
	const int fds[] = { store, supervisor, k.server.store_fd, k.server.sup_fd };
	const pid_t pids[] = { k.server.gate.pid, k.server.store.pid };

	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		if (pids[i] > 0) {
			(void)kill(pids[i], SIGKILL);
			(void)waitpid(pids[i], NULL, 0);
		}
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	keeper_close();
}

/* It is time to ask again, whatever the clock says. */
static void tick(void)
{
	k.server.ask_us = 0;
	(void)server_turn(&k);
}

static bool is_asked(int fd)
{
	static struct chan_msg m;
	int r = chan_recv(fd, &m);

	CHECK(r == -EAGAIN || (r == 1 && m.type == EVENT_PING && m.len == 0));
	return r == 1;
}

static void answer_as_gate(void)
{
	CHECK_EQ_INT(ask(OP_ALIVE, 4, NULL, 0, NULL, 0), 0);
	(void)check_answer(REPLY_OK, 4);
}

static void answer_as_store(void)
{
	CHECK_EQ_INT(chan_send(store, EVENT_PING, 0, NULL, 0, NULL, 0), 0);
	server_store_event(&k);
}

static void check_lives(pid_t pid)
{
	CHECK_EQ_INT(waitpid(pid, NULL, WNOHANG), 0);
}

/* Killed, and the supervisor was told of nobody else. */
static void check_killed(pid_t *pid, const char *role)
{
	static struct chan_msg m;
	struct msg_in in;
	char text[16];
	int status;

	CHECK_EQ_INT(waitpid(*pid, &status, 0), *pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	*pid = 0;
	CHECK_EQ_INT(chan_recv(supervisor, &m), 1);
	CHECK_EQ_INT(m.type, SUPERVISE_HUNG);
	msg_in_init(&in, m.body, m.len);
	(void)msg_get_str(&in, text, sizeof(text));
	CHECK_EQ_INT(msg_end(&in), 0);
	CHECK_STR(text, role);
	CHECK_EQ_INT(chan_recv(supervisor, &m), -EAGAIN);
}

/* For the watchdog of a service manager. */
TEST(keeper_tells_the_supervisor_that_it_lives)
{
	static struct chan_msg m;

	pair_open();
	for (int i = 0; i < 3; i++) {
		CHECK_EQ_INT(chan_send(supervisor, SUPERVISE_PING, 0, NULL, 0, NULL, 0), 0);
		server_sup_event(&k);
		CHECK_EQ_INT(chan_recv(supervisor, &m), 1);
		CHECK(m.type == SUPERVISE_ALIVE && m.len == 0);
	}
	CHECK(!k.server.ending);
	pair_close();
}

TEST(keeper_leaves_who_answers_alone)
{
	pair_open();
	for (int i = 0; i < 100; i++) {
		tick();
		CHECK(is_asked(gate));
		CHECK(is_asked(store));
		answer_as_gate();
		answer_as_store();
	}
	check_lives(k.server.gate.pid);
	check_lives(k.server.store.pid);
	pair_close();
}

TEST(keeper_kills_a_gate_that_misses_two_questions_in_a_row)
{
	pair_open();
	for (int i = 0; i < 3; i++) { /* one miss is none */
		tick();
		CHECK(is_asked(gate));
		tick();
		CHECK(!is_asked(gate)); /* it has the question */
		answer_as_store();
		answer_as_gate();
	}
	tick();
	tick();
	check_lives(k.server.gate.pid);
	answer_as_store();
	tick();
	check_killed(&k.server.gate.pid, "gate");
	check_lives(k.server.store.pid);
	pair_close();
}

/* Every message is a sign of life, also one that asks for something. */
TEST(keeper_takes_a_request_for_an_answer)
{
	pair_open();
	for (int i = 0; i < 10; i++) {
		tick();
		answer_as_store();
		(void)is_asked(gate);
		CHECK_EQ_INT(ask_u64(OP_BOX_LIST, 5, 0), 0);
		(void)check_answer(REPLY_OK, 5);
	}
	check_lives(k.server.gate.pid);
	pair_close();
}

TEST(keeper_gives_a_store_more_time)
{
	pair_open();
	for (int i = 0; i < 6; i++) {
		tick();
		(void)is_asked(gate);
		answer_as_gate();
		check_lives(k.server.store.pid);
	}
	tick();
	check_killed(&k.server.store.pid, "store");
	check_lives(k.server.gate.pid);
	pair_close();
}

/* What a predecessor left can be much. */
TEST(keeper_asks_no_store_that_does_not_serve_yet)
{
	pair_open();
	k.server.serving = false;
	for (int i = 0; i < 10; i++) {
		tick();
		CHECK(is_asked(gate));
		CHECK(!is_asked(store));
		answer_as_gate();
	}
	check_lives(k.server.store.pid);
	pair_close();
}

/* After a pause of everybody the clock is far ahead: that is one question, not many. */
TEST(keeper_counts_a_long_pause_as_one_miss)
{
	uint64_t due;

	pair_open();
	tick();
	CHECK(is_asked(gate));
	k.server.ask_us = 1;
	due = server_turn(&k);
	CHECK(due > 1 && due == k.server.ask_us);
	CHECK(server_turn(&k) == due); /* not due again */
	check_lives(k.server.gate.pid);
	CHECK_EQ_INT(k.server.gate.missed, 1);
	pair_close();
}
