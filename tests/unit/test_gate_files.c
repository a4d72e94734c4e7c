/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/gate: files of a box, between a client and an init that the test plays: what a hostile box may say, what becomes of
 * transfers that end early, and who is held back.
 */
#include "gate/files.h"
#include "wire/frame.h"
#include "wire/job.h"
#include "wire/msg.h"
#include "wire/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "test.h"
#include "test_gate_http.h"

/* --- init ------------------------------------------------------------------------------------------------------- */

enum { HEARD_MAX = 512 };

/* What init was sent since it was last asked: types, and the last words of each. */
static struct {
	uint16_t type[HEARD_MAX];
	unsigned int n;
	uint64_t job, ack;
	char line[8192]; /* words of the last RUN */
	char input[1 << 20];
	size_t ninput;
	uint32_t flags, sig;
} init;

static void take_run(const struct frame *f)
{
	struct job_spec spec;
	void *block = NULL;
	size_t n = 0;

	CHECK_EQ_INT(job_spec_decode(f->payload, f->len, &spec, &block), 0);
	CHECK_EQ_INT(spec.kind, JOB_FILE);
	CHECK_STR(spec.cwd, "/workspace");
	init.job = f->id;
	init.flags = spec.flags;
	init.line[0] = '\0';
	for (size_t i = 0; spec.argv[i] != NULL; i++)
		n += (size_t)snprintf(init.line + n, sizeof(init.line) - n, "%s[%s]",
				      i > 0 ? " " : "", spec.argv[i]);
	free(block);
}

static void take_frame(const struct frame *f)
{
	struct msg_in in;

	CHECK(init.n < HEARD_MAX);
	init.type[init.n++] = f->type;
	msg_in_init(&in, f->payload, f->len);
	if (f->type == FRAME_RUN)
		take_run(f);
	if (f->type == FRAME_ACK)
		init.ack = f->number;
	if (f->type == FRAME_SIGNAL)
		init.sig = msg_get_u32(&in);
	if (f->type == FRAME_INPUT) {
		CHECK(init.ninput + f->len <= sizeof(init.input));
		(void)memcpy(init.input + init.ninput, f->payload, f->len);
		init.ninput += f->len;
	}
}

static void init_hears(int box)
{
	static uint8_t buf[1 << 20];
	ssize_t n;

	(void)memset(&init, 0, sizeof(init));
	turn();
	n = recv(box, buf, sizeof(buf), MSG_DONTWAIT);
	for (ssize_t at = 0; at < n;) {
		struct frame f;
		ptrdiff_t used = frame_parse(buf + at, (size_t)(n - at), FRAME_TO_BOX, &f);

		CHECK(used > 0);
		take_frame(&f);
		at += used;
	}
}

static bool was_sent(uint16_t type)
{
	for (unsigned int i = 0; i < init.n; i++)
		if (init.type[i] == type)
			return true;
	return false;
}

/* The one job that init was asked for, which has begun. */
static uint64_t job_of(int box, const char *line)
{
	uint8_t pid[4] = { 7 };

	init_hears(box);
	CHECK_STR(init.line, line);
	CHECK((init.flags & JOB_ATTENDED) != 0);
	say(box, FRAME_STARTED, init.job, 1, pid, sizeof(pid));
	turn();
	return init.job;
}

static void say_bytes(int box, uint64_t job, uint64_t number, unsigned int stream, const void *p,
		      size_t n)
{
	static uint8_t frame[FRAME_HEADER + FRAME_PAYLOAD_MAX];

	frame_put_header(frame, FRAME_OUTPUT, (uint16_t)stream, job, number, n);
	(void)memcpy(frame + FRAME_HEADER, p, n);
	CHECK_EQ_INT(send(box, frame, FRAME_HEADER + n, 0), FRAME_HEADER + n);
	turn();
}

static size_t record(uint8_t *buf, char type, uint64_t size, const char *path, unsigned int flags)
{
	static struct listing_entry e;
	ptrdiff_t n;

	e = (struct listing_entry){ .type = type,
				    .flags = (uint8_t)flags,
				    .mode = 0644,
				    .size = size,
				    .mtime_ns = 1600000000000000000u,
				    .inode = 7 };
	(void)snprintf(e.path, sizeof(e.path), "%s", path);
	n = listing_encode(&e, buf, LISTING_HEADER + LISTING_RECORD_MAX);
	CHECK(n > 0);
	return (size_t)n;
}

static void say_record(int box, uint64_t job, uint64_t number, char type, uint64_t size,
		       const char *path)
{
	uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];

	say_bytes(box, job, number, 1, buf, record(buf, type, size, path, 0));
}

static void say_status(int box, uint64_t job, uint64_t number, enum job_how how, int code)
{
	struct job_exit x = { .how = how, .code = code };
	uint8_t body[256];

	say(box, FRAME_EXIT, job, number, body, (size_t)job_exit_encode(&x, body, sizeof(body)));
	turn();
}

/* --- a client ----------------------------------------------------------------------------------------------------- */

static void say_head(int c, const char *line, const char *headers)
{
	char text[10000];
	int n = snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", line,
			 headers);

	CHECK_EQ_INT(send(c, text, (size_t)n, 0), n);
	turn();
}

static bool is_cut(int c)
{
	char byte;

	turn();
	return recv(c, &byte, 1, 0) == 0;
}

/* A box that is named n, and a client. */
static int begin(int *ret_client)
{
	gate_open();
	*ret_client = client();
	return ready_box(*ret_client, "{`name`:`n`}");
}

#define READ_F "[read] [f] [follow] [0] [] [] []"

/* --- routes ------------------------------------------------------------------------------------------------------- */

TEST(files_paths_of_a_target)
{
	static const struct {
		const char *line;
		int status;
		const char *says;
	} rows[] = {
		{ "GET /v1/boxes/name:n/files/a/../b", 422, "`code`:`invalid_path`" },
		{ "GET /v1/boxes/name:n/files/a//b", 422, "`code`:`invalid_path`" },
		{ "GET /v1/boxes/name:n/files/", 422, "`code`:`invalid_path`" },
		{ "GET /v1/boxes/name:n/files/a/", 422, "`code`:`invalid_path`" },
		{ "GET /v1/boxes/name:n/files/%2e%2e", 422, "`code`:`invalid_path`" },
		{ "GET /v1/boxes/name:n/files/a%00", 400, "`code`:`malformed_request`" },
		{ "GET /v1/boxes/name:n/files/a%", 400, "`code`:`malformed_request`" },
		{ "GET /v1/boxes/name:n/files/f?root=/tmp", 422, "`field`:`root`" },
		{ "GET /v1/boxes/name:n/files/f?stat=2", 422, "`field`:`stat`" },
		{ "GET /v1/boxes/name:n/files?path=..", 422, "`code`:`invalid_path`" },
		{ "GET /v1/boxes/name:n/files?limit=0", 422, "`field`:`limit`" },
		{ "GET /v1/boxes/name:n/files?limit=10001", 422, "`field`:`limit`" },
		{ "GET /v1/boxes/name:n/files?after=/*", 422, "`field`:`after`" },
		{ "GET /v1/boxes/name:n/files?after=../a", 422, "`field`:`after`" },
		{ "GET /v1/boxes/name:n/archive?format=zip", 422, "`field`:`format`" },
		{ "POST /v1/boxes/name:n/files/f?op=copy", 422, "`field`:`op`" },
		{ "POST /v1/boxes/name:n/files/f?op=move", 422, "`field`:`to`" },
		{ "POST /v1/boxes/name:n/files/f?op=move&to=/x", 422, "`code`:`invalid_path`" },
		{ "POST /v1/boxes/name:n/files/f?op=mkdir&mode=8", 422, "`field`:`mode`" },
		{ "PUT /v1/boxes/name:n/files/f?mode=1777", 422, "`field`:`mode`" },
		{ "POST /v1/boxes/name:n/files/f", 415, "`code`:`unsupported_media_type`" },
		{ "GET /v1/boxes/nobody/files/f", 404, "`code`:`not_found`" },
		{ "PATCH /v1/boxes/name:n/files/a/b", 405, "Allow: GET, PUT, POST, DELETE\r\n" },
		{ "PATCH /v1/boxes/name:n/files/a/../b", 405, "Allow: GET, PUT, POST, DELETE\r\n" },
		{ "DELETE /v1/boxes/name:n/files", 405, "Allow: GET, POST\r\n" },
		{ "DELETE /v1/boxes/name:n/watch", 405, "Allow: GET\r\n" },
		{ "GET /v1/boxes/name:n/commands/a/../b", 400, "`code`:`malformed_request`" },
		{ "GET /v1/boxes/name:n/filesystem/f", 404, "`code`:`not_found`" },
	};
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int other = client();

		say_head(other, rows[i].line, "");
		if (heard(other) != rows[i].status)
			test_fail(__FILE__, __LINE__, "%s:\n%s", rows[i].line, answer);
		CHECK_SAYS(rows[i].says);
		(void)close(other);
		turn();
	}
	init_hears(box);
	CHECK(!was_sent(FRAME_RUN));
	finish(c, box);
}

TEST(files_words_of_operations)
{
	static const struct {
		const char *line, *headers, *words;
	} rows[] = {
		{ "GET %s/files/a%%20b/c", "", "[read] [a b/c] [follow] [0] [] [] []" },
		{ "GET %s/files/f",
		  "Range: bytes=5-9\r\nIf-Range: \"x\"\r\nIf-None-Match: \"y\"\r\n",
		  "[read] [f] [follow] [5] [5] [\"x\"] [\"y\"]" },
		{ "GET %s/files/f?stat=1", "", "[stat] [f] [follow]" },
		{ "HEAD %s/files/f?root=/", "", "[stat] [/f] [follow]" },
		{ "PUT %s/files/f?mode=0600", "If-Match: *\r\n", "[write] [f] [0600] [*] []" },
		{ "PUT %s/files/f", "If-None-Match: *\r\n", "[write] [f] [] [] [*]" },
		{ "DELETE %s/files/f?recursive=1", "", "[delete] [f] [1]" },
		{ "DELETE %s/files/f", "", "[delete] [f] [0]" },
		{ "POST %s/files/f?op=mkdir&mode=700", "", "[mkdir] [f] [700]" },
		{ "POST %s/files/f?op=move&to=g/h&root=/", "", "[move] [/f] [/g/h] [1]" },
		{ "POST %s/files/f?op=move&to=g&overwrite=0", "", "[move] [f] [g] [0]" },
		{ "GET %s/files", "", "[list] [.] [0] [] [1000]" },
		{ "GET %s/files?root=/&recursive=1&limit=5&after=a/b", "",
		  "[list] [/] [1] [a/b] [5]" },
		{ "GET %s/files?path=d&after=/YQ==", "", "[list] [d] [0] [a] [1000]" },
		{ "GET %s/watch?path=d", "", "[watch] [d] [0]" },
		{ "GET %s/archive?path=d", "", "[pack] [d] [tar.gz] [all]" },
		{ "GET %s/archive?format=tar&root=/", "", "[pack] [/] [tar] [all]" },
		{ "PUT %s/archive?path=d", "", "[unpack] [d] [auto] [0] [0]" },
	};
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *at = strstr(rows[i].line, "%s");
		char line[512];
		size_t n;
		int other = client();

		n = (size_t)snprintf(line, sizeof(line), "%.*s/v1/boxes/name:n",
				     (int)(at - rows[i].line), rows[i].line);
		for (const char *p = at + 2; *p != '\0'; p++) {
			line[n++] = *p;
			p += p[0] == '%';
		}
		line[n] = '\0';
		say_head(other, line, rows[i].headers);
		(void)job_of(box, rows[i].words);
		(void)close(other);
		init_hears(box);
		CHECK(was_sent(FRAME_SIGNAL));
		CHECK_EQ_INT(init.sig, SIGTERM);
	}
	finish(c, box);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

TEST(files_a_file_is_read)
{
	int c, box = begin(&c);
	uint64_t job;

	say_head(c, "GET /v1/boxes/name:n/files/f.txt", "");
	job = job_of(box, "[read] [f.txt] [follow] [0] [] [] []");
	say_record(box, job, 2, 'f', 5, "f.txt");
	say_bytes(box, job, 3, 1, "abc", 3);
	say_bytes(box, job, 4, 1, "de", 2);
	say_status(box, job, 5, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Type: text/plain\r\n");
	CHECK_SAYS("Content-Length: 5\r\n");
	CHECK_SAYS("ETag: `");
	CHECK_SAYS("Last-Modified: Sun, 13 Sep 2020 12:26:40 GMT\r\n");
	CHECK_SAYS("Accept-Ranges: bytes\r\n");
	CHECK_SAYS("X-Content-Type-Options: nosniff\r\n");
	CHECK_SAYS("Content-Security-Policy: sandbox\r\n");
	CHECK_SAYS("Content-Disposition: attachment; filename=`f.txt`\r\n");
	CHECK_SAYS("\r\n\r\nabcde");
	init_hears(box);
	CHECK_EQ_INT(init.ack, 5);
	CHECK(!was_sent(FRAME_SIGNAL));
	finish(c, box);
}

/* The connection goes on behind each of these. */
TEST(files_answers_without_bytes)
{
	char tag[LISTING_ETAG], headers[256];
	struct listing_entry e = { .size = 5, .mtime_ns = 1600000000000000000u, .inode = 7 };
	int c, box = begin(&c);
	uint64_t job;

	listing_etag(&e, tag);
	(void)snprintf(headers, sizeof(headers), "If-None-Match: W/%s\r\n", tag);
	say_head(c, "GET /v1/boxes/name:n/files/f", headers);
	init_hears(box);
	job = init.job;
	say_record(box, job, 2, 'f', 5, "f");
	CHECK_EQ_INT(heard(c), 304);
	CHECK(strstr(answer, tag) != NULL);

	say_head(c, "GET /v1/boxes/name:n/files/f", "Range: bytes=5-\r\n");
	job = job_of(box, "[read] [f] [follow] [5] [] [] []");
	say_record(box, job, 2, 'f', 5, "f");
	CHECK_EQ_INT(heard(c), 416);
	CHECK_SAYS("Content-Range: bytes */5\r\n");
	CHECK_SAYS("`code`:`invalid_range`");

	say_head(c, "GET /v1/boxes/name:n/files/f", "Range: bytes=0-\r\n");
	job = job_of(box, READ_F);
	say_record(box, job, 2, 'f', 0, "f");
	CHECK_EQ_INT(heard(c), 416);

	say_head(c, "GET /v1/boxes/name:n/files/f", "Range: bytes=1-3\r\n");
	job = job_of(box, "[read] [f] [follow] [1] [3] [] []");
	say_record(box, job, 2, 'f', 5, "f");
	say_bytes(box, job, 3, 1, "ell", 3);
	say_status(box, job, 4, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 206);
	CHECK_SAYS("Content-Range: bytes 1-3/5\r\n");
	CHECK_SAYS("\r\n\r\nell");

	say_head(c, "HEAD /v1/boxes/name:n/files/f", "");
	job = job_of(box, "[stat] [f] [follow]");
	say_record(box, job, 2, 'f', 1u << 30, "f");
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Length: 1073741824\r\n");

	say_head(c, "HEAD /v1/boxes/name:n/files/f", "");
	job = job_of(box, "[stat] [f] [follow]");
	say_record(box, job, 2, 'd', 0, "f");
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 409);
	finish(c, box);
}

/* What comes of a box that lies: a status as long as nothing was promised, a cut afterwards. */
TEST(files_a_box_that_breaks_its_word)
{
	static const struct {
		const char *what;
		uint64_t announced;
		const char *bytes;
		int status; /* 0: it is cut */
	} rows[] = {
		{ "more than announced", 2, "abc", 0 },
		{ "less than announced", 5, "abc", 0 },
		{ "a size that is none", UINT64_MAX, "abc", 500 },
	};
	uint8_t junk[64] = { 0xff, 0xff, 0xff, 0xff, 1 };
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int other = client(), status;
		uint64_t job;

		say_head(other, "GET /v1/boxes/name:n/files/f", "");
		job = job_of(box, READ_F);
		say_record(box, job, 2, 'f', rows[i].announced, "f");
		say_bytes(box, job, 3, 1, rows[i].bytes, strlen(rows[i].bytes));
		say_status(box, job, 4, JOB_EXITED, 0);
		status = heard(other);
		if (rows[i].status != 0)
			CHECK_EQ_INT(status, rows[i].status);
		else /* what was announced may have gone out before */
			CHECK((status == 0 || status == 200) && is_cut(other));
		(void)close(other);
		turn();
	}
	say_head(c, "GET /v1/boxes/name:n/files/f", "");
	say_bytes(box, job_of(box, READ_F), 2, 1, junk, sizeof(junk));
	CHECK_EQ_INT(heard(c), 500);
	CHECK_SAYS("`code`:`file_failed`");
	init_hears(box);
	CHECK(was_sent(FRAME_SIGNAL));
	say_head(c, "GET /v1/boxes/name:n/files/f", "");
	say_record(box, job_of(box, READ_F), 2, 'd', 5, "f");
	CHECK_EQ_INT(heard(c), 500);
	say_head(c, "GET /v1/boxes/name:n/files/f", ""); /* nothing at all */
	say_status(box, job_of(box, READ_F), 2, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 500);
	say_head(c, "DELETE /v1/boxes/name:n/files/f", ""); /* a word too many */
	say_record(box, job_of(box, "[delete] [f] [0]"), 2, 'f', 5, "f");
	CHECK_EQ_INT(heard(c), 500);
	CHECK_EQ_INT(g.aboxes->nfiles, 0);
	CHECK_EQ_INT(g.naboxes, 1);
	finish(c, box);
}

TEST(files_who_does_not_read_holds_the_box_back)
{
	static uint8_t piece[60000];
	int c, box = begin(&c), small = 4096;
	uint64_t job, number = 2, sent = 0;
	unsigned int held = 0;

	CHECK(setsockopt(c, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) == 0);
	say_head(c, "GET /v1/boxes/name:n/files/f", "");
	job = job_of(box, READ_F);
	say_record(box, job, number, 'f', 80 * sizeof(piece), "f");
	for (; sent < 40 * sizeof(piece); sent += sizeof(piece)) {
		say_bytes(box, job, ++number, 1, piece, sizeof(piece));
		init_hears(box);
		held += init.ack < number;
	}
	CHECK(held > 0); /* from some piece on it was not told to go on */
	CHECK_EQ_INT(init.ack, 0);
	while (init.ack == 0) { /* the client reads */
		while (recv(c, answer, sizeof(answer), 0) > 0)
			;
		init_hears(box);
	}
	CHECK_EQ_INT(init.ack, number);
	finish(c, box);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

TEST(files_a_file_is_written)
{
	uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	int c, box = begin(&c);
	uint64_t job;

	say_head(c, "PUT /v1/boxes/name:n/files/f", "Content-Length: 5\r\n");
	job = job_of(box, "[write] [f] [] [] []");
	CHECK_EQ_INT(send(c, "abc", 3, 0), 3);
	init_hears(box);
	CHECK_EQ_INT(init.ninput, 3);
	CHECK(!was_sent(FRAME_INPUT_END));
	CHECK_EQ_INT(send(c, "de", 2, 0), 2);
	init_hears(box);
	CHECK(was_sent(FRAME_INPUT_END));
	say_bytes(box, job, 2, 1, buf, record(buf, 'f', 5, "f", LISTING_NEW));
	CHECK_EQ_INT(heard(c), 0); /* not before it has ended */
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 201);
	CHECK_SAYS("{`path`:`f`,`type`:`file`,`size`:5,`mode`:`0644`,"
		   "`mtime`:`2020-09-13T12:26:40.000Z`,`target`:null}");
	CHECK_SAYS("ETag: `");

	say_head(c, "PUT /v1/boxes/name:n/files/f", "Content-Length: 0\r\n");
	init_hears(box);
	CHECK(was_sent(FRAME_INPUT_END));
	say_record(box, init.job, 2, 'f', 0, "f");
	say_status(box, init.job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 200);
	finish(c, box);
}

/* However an upload is cut: the box hears SIGTERM, and never the end of its input. */
TEST(files_an_upload_that_is_cut)
{
	static const char *const rows[][3] = {
		{ "PUT /v1/boxes/name:n/files/f", "Content-Length: 5\r\n", "abc" },
		{ "PUT /v1/boxes/name:n/files/f", "Transfer-Encoding: chunked\r\n", "5\r\nabc" },
		{ "PUT /v1/boxes/name:n/files/f", "Transfer-Encoding: chunked\r\n",
		  "5\r\nhello\r\nzz" },
		{ "PUT /v1/boxes/name:n/archive", "Content-Length: 5\r\n", "abc" },
		{ "POST /v1/boxes/name:n/files/f",
		  "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 500\r\n",
		  "--b\r\nContent-Disposition: form-data; "
		  "name=\"file\"\r\n\r\nhello\r\n--b--\r\n" },
		{ "POST /v1/boxes/name:n/files/f",
		  "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 69\r\n",
		  "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhello, no end" },
	};
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool ended = false, told = false;
		int other = client();

		say_head(other, rows[i][0], rows[i][1]);
		CHECK_EQ_INT(send(other, rows[i][2], strlen(rows[i][2]), 0), strlen(rows[i][2]));
		for (unsigned int turns = 0; turns < 4; turns++) {
			init_hears(box);
			ended |= was_sent(FRAME_INPUT_END);
			told |= was_sent(FRAME_SIGNAL) && init.sig == SIGTERM;
			if (turns == 1)
				(void)close(other);
		}
		CHECK(!ended);
		CHECK(told);
		CHECK_EQ_INT(g.aboxes->nfiles, 0);
	}
	finish(c, box);
}

/* It is said at once, though the client is still sending. */
TEST(files_an_upload_that_fails_early)
{
	static const struct {
		int error, status;
		const char *code;
	} rows[] = {
		{ ENOSPC, 413, "no_space" },         { EISDIR, 409, "is_a_directory" },
		{ ENOTDIR, 409, "not_a_directory" }, { ECANCELED, 412, "precondition_failed" },
		{ EACCES, 403, "not_permitted" },    { EAGAIN, 503, "exhausted" },
		{ ENOENT, 404, "not_found" },        { EBUSY, 409, "busy" },
		{ EXDEV, 409, "other_file_system" }, { EEXIST, 409, "exists" },
		{ ENOTEMPTY, 409, "not_empty" },     { ELOOP, 422, "invalid_path" },
		{ EBADMSG, 422, "invalid_archive" }, { EIO, 500, "file_failed" },
		{ 200, 500, "file_failed" },
	};
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int other = client();
		char want[64];
		uint64_t job;

		say_head(other, "PUT /v1/boxes/name:n/files/f", "Content-Length: 1000\r\n");
		job = job_of(box, "[write] [f] [] [] []");
		CHECK_EQ_INT(send(other, "abc", 3, 0), 3);
		turn();
		say_bytes(box, job, 2, 2, "more about it\x1b[31m\nand more", 27);
		say_status(box, job, 3, JOB_EXITED, rows[i].error);
		CHECK_EQ_INT(heard(other), rows[i].status);
		(void)snprintf(want, sizeof(want), "`code`:`%s`", rows[i].code);
		CHECK_SAYS(want);
		CHECK_SAYS(": more about it[31m`");
		CHECK_SAYS("`field`:`path`");
		(void)close(other);
		turn();
	}
	init_hears(box);
	CHECK(!was_sent(FRAME_INPUT_END));
	finish(c, box);
}

/* It says that it is done before it has had everything. */
TEST(files_a_write_that_ends_too_early)
{
	int c, box = begin(&c);
	uint64_t job;

	say_head(c, "PUT /v1/boxes/name:n/files/f", "Content-Length: 5\r\n");
	job = job_of(box, "[write] [f] [] [] []");
	say_record(box, job, 2, 'f', 0, "f");
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 500);
	finish(c, box);
}

TEST(files_a_body_waits_for_the_box)
{
	static char body[900000];
	int c, box = begin(&c);
	uint8_t none[1] = { 0 };
	uint64_t job, taken = 0;
	size_t sent = 0;
	ssize_t n;

	say_head(c, "PUT /v1/boxes/name:n/files/f", "Content-Length: 900000\r\n");
	job = job_of(box, "[write] [f] [] [] []");
	for (unsigned int i = 0; i < 32; i++) {
		n = send(c, body + sent, sizeof(body) - sent, MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
		turn();
		init_hears(box);
		taken += init.ninput;
	}
	CHECK(taken > 0 && taken <= job_window(JOB_FILE));
	init_hears(box);
	CHECK_EQ_INT(init.ninput, 0);
	say(box, FRAME_INPUT_ACK, job, taken, none, 0);
	init_hears(box);
	CHECK(init.ninput > 0);
	finish(c, box);
}

/* --- forms -------------------------------------------------------------------------------------------------------- */

#define FORM_TYPE        "Content-Type: multipart/form-data; boundary=b\r\n"
#define PART(name, more) "--b\r\nContent-Disposition: form-data; name=\"" name "\"" more "\r\n\r\n"

TEST(files_forms)
{
	static const struct {
		const char *target, *body, *words; /* words NULL: refused */
	} rows[] = {
		{ "/f", PART("file", "") "hello\r\n--b--\r\n", "[write] [f] [] [] []" },
		{ "/f", PART("path", "") "other\r\n" PART("file", "") "hello\r\n--b--\r\n",
		  "[write] [f] [] [] []" },
		{ "/f?mode=600", PART("note", "") "x\r\n" PART("file", "") "hello\r\n--b--\r\n",
		  "[write] [f] [600] [] []" },
		{ "", PART("file", "; filename=\"a/b\"") "hello\r\n--b--\r\n",
		  "[write] [a/b] [] [] []" },
		{ "?root=/",
		  PART("path", "") "tmp/f\r\n" PART("file",
						    "; filename=\"g\"") "hello\r\n--b--\r\n",
		  "[write] [/tmp/f] [] [] []" },
		{ "", PART("file", "") "hello\r\n--b--\r\n", NULL },
		{ "", PART("file", "; filename=\"../x\"") "hello\r\n--b--\r\n", NULL },
		{ "", PART("path", "") "../f\r\n" PART("file", "") "hello\r\n--b--\r\n", NULL },
		{ "", PART("path", "") "f\r\n" PART("path", "") "g\r\n--b--\r\n", NULL },
		{ "/f", PART("other", "") "hello\r\n--b--\r\n", NULL },
		{ "/f", "--b--\r\n", NULL },
	};
	int c, box = begin(&c);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char line[256], headers[128];
		int other = client();

		(void)snprintf(line, sizeof(line), "POST /v1/boxes/name:n/files%s", rows[i].target);
		(void)snprintf(headers, sizeof(headers), FORM_TYPE "Content-Length: %zu\r\n",
			       strlen(rows[i].body));
		say_head(other, line, headers);
		for (const char *p = rows[i].body; *p != '\0' && i % 2 == 0; p++) {
			CHECK_EQ_INT(send(other, p, 1, 0), 1);
			turn();
		}
		if (i % 2 != 0)
			CHECK(send(other, rows[i].body, strlen(rows[i].body), 0) > 0);
		init_hears(box);
		if (rows[i].words == NULL) {
			CHECK_EQ_INT(heard(other), 422);
			CHECK(!was_sent(FRAME_INPUT_END));
		} else {
			CHECK_STR(init.line, rows[i].words);
			CHECK(was_sent(FRAME_INPUT_END));
			CHECK_EQ_INT(init.ninput, 5);
			CHECK_MEM(init.input, "hello", 5);
			say_record(box, init.job, 1, 'f', 5, "f");
			say_status(box, init.job, 2, JOB_EXITED, 0);
			CHECK_EQ_INT(heard(other), 200);
		}
		(void)close(other);
		turn();
		CHECK_EQ_INT(g.aboxes->nfiles, 0);
	}
	finish(c, box);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

TEST(files_pages_of_a_list)
{
	uint8_t buf[3 * (LISTING_HEADER + LISTING_RECORD_MAX)];
	int c, box = begin(&c);
	uint64_t job;
	size_t n;

	say_head(c, "GET /v1/boxes/name:n/files?limit=2", "");
	job = job_of(box, "[list] [.] [0] [] [2]");
	n = record(buf, 'f', 1, "a", 0);
	n += record(buf + n, 'd', 2, "b\n", 0);
	n += record(buf + n, 'f', 3, "c", 0);
	for (size_t i = 0; i < n; i++)
		say_bytes(box, job, 2 + i, 1, buf + i, 1);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("{`entries`:[{`path`:`a`,`type`:`file`,");
	CHECK_SAYS("{`path`:`b\\n`,`type`:`directory`,");
	CHECK_SAYS("`next`:`/Ygo=`}");
	CHECK(!says("`path`:`c`"));

	say_head(c, "GET /v1/boxes/name:n/files?limit=2", "");
	job = job_of(box, "[list] [.] [0] [] [2]");
	n = record(buf, 'f', 1, "\xff", 0);
	say_bytes(box, job, 2, 1, buf, n);
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`path_base64`:`/w==`");
	CHECK_SAYS("],`next`:null}");

	say_head(c, "GET /v1/boxes/name:n/files", "");
	job = job_of(box, "[list] [.] [0] [] [1000]");
	say_bytes(box, job, 2, 1, buf, n - 1); /* half a record */
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 500);
	finish(c, box);
}

/* A list of any length is not collected. */
TEST(files_a_long_list_goes_out_as_it_comes)
{
	static uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	static char path[3001];
	int c, box = begin(&c);
	uint64_t job;
	size_t n, got = 0;

	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 100 == 50 ? '/' : 'x';
	say_head(c, "GET /v1/boxes/name:n/files?limit=10000&recursive=1", "");
	job = job_of(box, "[list] [.] [1] [] [10000]");
	n = record(buf, 'f', 1, path, 0);
	for (uint64_t i = 0; i < 200; i++) {
		ssize_t put;

		say_bytes(box, job, 2 + i, 1, buf, n);
		while ((put = recv(c, answer, sizeof(answer), 0)) > 0)
			got += (size_t)put;
	}
	CHECK(got > 500000);
	say_status(box, job, 300, JOB_EXITED, ENOENT); /* in the middle of it */
	CHECK(is_cut(c));
	finish(c, box);
}

/* --- watching ----------------------------------------------------------------------------------------------------- */

static void say_watched(int box, uint64_t job, uint64_t number, enum watched what, const char *path,
			const char *to)
{
	static struct watch_record w;
	uint8_t buf[WATCH_HEADER + WATCH_RECORD_MAX];
	ptrdiff_t n;

	w = (struct watch_record){ .what = what };
	(void)snprintf(w.path, sizeof(w.path), "%s", path);
	(void)snprintf(w.to, sizeof(w.to), "%s", to);
	n = watch_encode(&w, buf, sizeof(buf));
	CHECK(n > 0);
	say_bytes(box, job, number, 1, buf, (size_t)n);
}

TEST(files_a_watch)
{
	int c, box = begin(&c);
	uint64_t job;

	say_head(c, "GET /v1/boxes/name:n/watch", "");
	job = job_of(box, "[watch] [.] [0]");
	CHECK_EQ_INT(heard(c), 0);
	say_watched(box, job, 2, WATCHED_READY, "", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Type: text/event-stream; charset=utf-8\r\n");
	CHECK_SAYS("event: ready\ndata: {`path`:``,`type`:`directory`}\n\n");
	say_watched(box, job, 3, WATCHED_CREATE, "a\n\nevent: end", "");
	(void)heard(c);
	CHECK_SAYS("event: create\ndata: {`path`:`a\\n\\nevent: end`,`type`:`file`}\n\n");
	say_watched(box, job, 4, WATCHED_MOVE, "a", "b");
	(void)heard(c);
	CHECK_SAYS("event: move\ndata: {`path`:`a`,`type`:`file`,`to`:`b`}\n\n");
	pass(16 * 1000 * 1000);
	(void)heard(c);
	CHECK_SAYS(": still there\n\n");
	gboxes_gone(&g, BOX, GONE_INIT, &(struct box_figures){ 0 });
	(void)heard(c);
	CHECK_SAYS("event: end\ndata: {`reason`:`crashed`}\n\n");
	CHECK_SAYS("\r\n0\r\n\r\n");
	finish(c, box);
}

TEST(files_a_watch_that_cannot_be)
{
	int c, box = begin(&c);
	uint64_t job;

	say_head(c, "GET /v1/boxes/name:n/watch?path=f", "");
	say_status(box, job_of(box, "[watch] [f] [0]"), 2, JOB_EXITED, ENOTDIR);
	CHECK_EQ_INT(heard(c), 409);
	CHECK_SAYS("`code`:`not_a_directory`");
	say_head(c, "GET /v1/boxes/name:n/watch", ""); /* what is said before it is ready */
	job = job_of(box, "[watch] [.] [0]");
	say_watched(box, job, 2, WATCHED_CREATE, "a", "");
	CHECK_EQ_INT(heard(c), 500);
	finish(c, box);
}

/* --- archives ----------------------------------------------------------------------------------------------------- */

TEST(files_an_archive)
{
	int c, box = begin(&c);
	uint64_t job;

	say_head(c, "GET /v1/boxes/name:n/archive?path=a/d", "");
	job = job_of(box, "[pack] [a/d] [tar.gz] [all]");
	say_bytes(box, job, 2, 1, "bytes", 5);
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Type: application/gzip\r\n");
	CHECK_SAYS("filename=`d.tar.gz`");
	CHECK_SAYS("5\r\nbytes\r\n0\r\n\r\n");
	say_head(c, "GET /v1/boxes/name:n/archive?format=tar", "");
	say_status(box, job_of(box, "[pack] [.] [tar] [all]"), 2, JOB_EXITED, ENOENT);
	CHECK_EQ_INT(heard(c), 404);
	say_head(c, "HEAD /v1/boxes/name:n/archive?format=tar", "");
	job = job_of(box, "[stat] [.] [follow]");
	say_record(box, job, 2, 'd', 0, ".");
	say_status(box, job, 3, JOB_EXITED, 0);
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("filename=`workspace.tar`");
	say_head(c, "GET /v1/boxes/name:n/archive?format=tar", "");
	job = job_of(box, "[pack] [.] [tar] [all]");
	say_bytes(box, job, 2, 1, "bytes", 5);
	CHECK_EQ_INT(heard(c), 200);
	say_status(box, job, 3, JOB_SIGNALED, SIGKILL);
	CHECK(is_cut(c));
	finish(c, box);
}

/* --- how many, and the end ---------------------------------------------------------------------------------------- */

TEST(files_sixteen_at_once)
{
	int c, box = begin(&c), clients[FILE_CALLS_MAX];

	for (unsigned int i = 0; i < FILE_CALLS_MAX; i++) {
		clients[i] = client();
		say_head(clients[i], "GET /v1/boxes/name:n/files/f", "");
	}
	CHECK_EQ_INT(g.aboxes->nfiles, FILE_CALLS_MAX);
	say_head(c, "GET /v1/boxes/name:n/files/f", "");
	CHECK_EQ_INT(heard(c), 429);
	CHECK_SAYS("`code`:`too_many`");
	CHECK_SAYS("Retry-After: ");
	(void)close(clients[0]);
	turn();
	say_head(c, "GET /v1/boxes/name:n/files/f", "");
	CHECK_EQ_INT(heard(c), 0);
	CHECK_EQ_INT(g.aboxes->nfiles, FILE_CALLS_MAX);
	for (unsigned int i = 1; i < FILE_CALLS_MAX; i++)
		(void)close(clients[i]);
	turn();
	CHECK_EQ_INT(g.aboxes->nfiles, 1);
	finish(c, box);
}

TEST(files_a_box_that_ends)
{
	struct box_figures f = { 0 };
	int c, box = begin(&c), reader = client(), form = client();
	uint64_t job;

	say_head(reader, "GET /v1/boxes/name:n/files/f", "");
	job = job_of(box, READ_F);
	say_record(box, job, 2, 'f', 5, "f");
	say_bytes(box, job, 3, 1, "abc", 3);
	CHECK_EQ_INT(heard(reader), 200);
	say_head(form, "POST /v1/boxes/name:n/files", FORM_TYPE "Content-Length: 500\r\n");
	say_head(c, "PUT /v1/boxes/name:n/files/f", "Content-Length: 5\r\n");
	CHECK_EQ_INT(g.aboxes->nfiles, 3);
	gboxes_gone(&g, BOX, GONE_DEADLINE, &f);
	turn();
	CHECK(is_cut(reader));
	CHECK_EQ_INT(heard(c), 410);
	CHECK_SAYS("`code`:`gone`");
	CHECK_SAYS("`reason`:`idle`");
	CHECK_EQ_INT(heard(form), 410);
	CHECK_EQ_INT(g.naboxes, 0);
	(void)close(reader);
	(void)close(form);
	finish(c, box);
}

/* A transfer is no idleness, however long it takes; what follows is. */
TEST(files_a_transfer_is_not_idle)
{
	int c, box;

	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`,`idle_seconds`:2}");
	say_head(c, "PUT /v1/boxes/name:n/files/f", "Content-Length: 5\r\n");
	init_hears(box);
	pass(5 * 1000 * 1000);
	CHECK_EQ_INT(g.aboxes->state, ABOX_READY);
	CHECK_EQ_INT(send(c, "hello", 5, 0), 5);
	init_hears(box);
	CHECK(was_sent(FRAME_INPUT_END));
	finish(c, box);
}
