// SPDX-License-Identifier: Apache-2.0
/*
 * load paced PORT REQUEST EXPECT EVERY_US COUNT
 *
 * One request every EVERY_US, on one connection. Who asks again as soon as he is answered asks once while a server stands still, and
 * hardly notices; here those that were due meanwhile have waited, too. So the time counts from when a request was due, if an answer was still
 * to come then; else from when it was sent. As root it goes before everybody else on the machine: a client on another one
 * would not wait for these processors, either.
 *
 *   {"failed", "error", "ns": [until the answer was there]}
 */
#include "client.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { PACED_MAX = 1 << 20 };

static void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* One question and its answer, which is in buf. */
static void ask(int fd, const char *request, size_t n, char *buf, struct answer *a)
{
	size_t len = 0;

	if (!send_all(fd, request, n))
		die("send: %s", strerror(errno));
	do {
		size_t got = recv_some(fd, buf + len, ANSWER_MAX - 1 - len, 0);

		if (got == 0)
			die("the connection was closed");
		len += got;
		buf[len] = '\0';
	} while (!parse_answer(buf, len, a));
}

int do_paced(char **arg)
{
	size_t request_len, expect_len = strlen(arg[2]), ntimes = 0, failed = 0;
	const char *request = map(arg[1], &request_len);
	uint64_t every_ns = number(arg[3]) * 1000, count = number(arg[4]), due, answered = 0;
	uint64_t *times = calloc(PACED_MAX, sizeof(*times));
	char *buf = malloc(ANSWER_MAX), error[256] = "";
	const struct sched_param first = { .sched_priority = 1 };
	int fd = connect_to(arg[0]);
	struct answer a;

	if (every_ns == 0 || count == 0 || count > PACED_MAX)
		die("pace and count are numbers above 0");
	if (times == NULL || buf == NULL)
		die("out of memory");
	(void)prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
	(void)sched_setscheduler(0, SCHED_FIFO, &first);
	ask(fd, request, request_len, buf, &a); /* accepting is no part of it */
	due = now_ns();
	for (uint64_t i = 0; i < count && failed < FAILURES_MAX; i++) {
		uint64_t from;

		due += every_ns;
		sleep_until(due);
		from = answered > due ? due : now_ns();
		ask(fd, request, request_len, buf, &a);
		answered = now_ns();
		if (a.status / 100 == 2 &&
		    memmem(buf + a.head, (size_t)a.length, arg[2], expect_len) != NULL)
			times[ntimes++] = answered - from;
		else if (failed++ == 0)
			(void)snprintf(error, sizeof(error), "%d: %.*s", a.status,
				       (int)(a.length < 150 ? a.length : 150), buf + a.head);
	}
	(void)printf("{\"failed\": %zu, \"error\": \"", failed);
	print_text(error);
	(void)printf("\", ");
	print_list("ns", times, ntimes);
	(void)printf("}\n");
	return 0;
}
