/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/gate: what the next gate knows of a box, by the record that the last one left, and by what init still has. A gate dies here
 * between two turns of its loop; its box is the same socket of the test again.
 */
#include "gate/boxes.h"
#include "wire/frame.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_gate_http.h"
#include "test_help.h"

enum { GATES = 4 };

static uint8_t record[BOX_RECORD_MAX];
static size_t record_len;
static struct gate dead[GATES]; /* so that nobody takes for lost what they had */
static unsigned int ndead;
static int c, box; /* a client, and the end of init */

static void take_record(const struct chan_msg *m)
{
	const uint8_t *p;
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	CHECK_EQ_INT(msg_get_u64(&in), BOX);
	p = msg_get_bytes(&in, sizeof(record), &record_len);
	CHECK_EQ_INT(msg_end(&in), 0);
	memcpy(record, p, record_len);
}

static void give_box(const struct chan_msg *m)
{
	struct box_info info = { .box = BOX };
	uint8_t body[1024];
	int s[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m->request, body,
			       (size_t)box_info_encode(&info, body, sizeof(body)), &s[1], 1),
		     0);
	(void)close(s[1]);
	box = s[0];
	say_hello(box);
}

/* The keeper answers whatever it is asked, also in a while; it has the last record. */
static void keep(void)
{
	static struct chan_msg m;

	for (unsigned int i = 0; i < 3; i++) {
		pass(1000000);
		while (chan_recv(keeper, &m) == 1) {
			if (m.type == OP_BOX_ATTACH) {
				give_box(&m);
				continue;
			}
			if (m.type == OP_BOX_RECORD)
				take_record(&m);
			CHECK_EQ_INT(chan_send(keeper, REPLY_OK, m.request, NULL, 0, NULL, 0), 0);
		}
		turn();
	}
}

static void begin(void)
{
	gate_open();
	c = client();
	box = ready_box(c, "{`name`:`n`}");
	take_record(&message);
	keep();
}

static void next_gate(void)
{
	struct box_info info = { .box = BOX };

	(void)close(c);
	keep();
	(void)close(box);
	(void)close(g.boxes->fd);
	CHECK(ndead < GATES);
	dead[ndead++] = g;
	gate_close();
	gate_open();
	CHECK_EQ_INT(abox_adopt(&g, &info, record, record_len), 0);
	keep();
	c = client();
}

/* --- kernels and cells ---------------------------------------------------------------------------------------- */

/* A cell of a kernel that is made for it; their jobs. */
static uint64_t start_cell(const char *kernel, uint64_t *ret_kernel)
{
	char job[32];

	ask(c, "POST /v1/boxes/name:n/cells", "{`code`:`1`,`kernel`:`%s`,`detach`:true}", kernel);
	CHECK_EQ_INT(heard(c), 202);
	*ret_kernel = asked_to_run(box, "/usr/bin/python3");
	CHECK(*ret_kernel != 0);
	say(box, FRAME_MESSAGE, *ret_kernel, 1, "{}", 2); /* it is there */
	(void)snprintf(job, sizeof(job), "%llu", (unsigned long long)*ret_kernel);
	return asked_to_run(box, job);
}

TEST(next_gate_names_the_kernels_of_cells_right)
{
	uint64_t kernel, cell, other;

	begin();
	cell = start_cell("gone", &kernel);
	CHECK(cell != 0);
	say_exit(box, cell); /* nobody has asked for it: init keeps its end */
	turn();
	ask(c, "DELETE /v1/boxes/name:n/kernels/gone", "%s", "");
	CHECK_EQ_INT(heard(c), 0);
	say_exit(box, kernel);
	CHECK_EQ_INT(heard(c), 204);
	CHECK(start_cell("b", &other) != 0); /* with the number that the other one had */
	next_gate();
	CHECK(asked_to_run(box, "/nonexistent") != 0);
	say_exit(box, cell);
	ask(c, "GET /v1/boxes/name:n/cells", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`status`:`error`,`kernel`:`gone`");
	CHECK_SAYS("`status`:`running`,`kernel`:`b`");
	next_gate(); /* it has not been asked for since */
	say_exit(box, cell);
	ask(c, "GET /v1/boxes/name:n/cells", "%s", "");
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`kernel`:`gone`");
	finish(c, box);
}
