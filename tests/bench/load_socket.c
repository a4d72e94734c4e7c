// SPDX-License-Identifier: Apache-2.0
/*
 * load socket PORT PATH MESSAGE END EXPECT MS
 *
 * One WebSocket at PATH. MESSAGE goes out as text; what comes back is read up to the message that contains END, which must also contain
 * EXPECT; then MESSAGE goes out again, for MS milliseconds.
 *
 *   {"count", "failed", "error", "ns": [from the message to its END]}
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TIMES_MAX = 1 << 16 };

/* Whether what came before the next END, and it itself, is as expected. */
static bool until(struct wire *w, const char *end, const char *expect, char *error, size_t size)
{
	for (;;) {
		const char *p;
		size_t n;
		int opcode = wire_next(w, &p, &n);

		if (opcode == WS_CLOSE)
			die("closed: %.*s", n > 2 ? (int)(n - 2) : 0, p + 2);
		if (opcode != WS_TEXT || memmem(p, n, end, strlen(end)) == NULL)
			continue;
		if (memmem(p, n, expect, strlen(expect)) != NULL)
			return true;
		if (error[0] == '\0')
			(void)snprintf(error, size, "%.*s", (int)(n < 200 ? n : 200), p);
		return false;
	}
}

int do_socket(char **arg)
{
	static char out[FRAME_MAX], error[256];
	static uint64_t times[TIMES_MAX];
	static struct wire w;
	unsigned int count = 0, failed = 0;
	size_t message_len, n;
	const char *message = map(arg[2], &message_len);
	uint64_t end_ns;

	wire_open(&w, arg[0], arg[1], NULL);
	n = put_frame(out, WS_TEXT, message, message_len);
	end_ns = now_ns() + number(arg[5]) * 1000000u;
	while (now_ns() < end_ns && count < TIMES_MAX && failed < FAILURES_MAX) {
		uint64_t start = now_ns();

		if (!send_all(w.fd, out, n))
			die("send: %s", strerror(errno));
		if (until(&w, arg[3], arg[4], error, sizeof(error)))
			times[count++] = now_ns() - start;
		else
			failed++;
	}
	(void)printf("{\"count\": %u, \"failed\": %u, \"error\": \"", count, failed);
	print_text(error);
	(void)printf("\", ");
	print_list("ns", times, count);
	(void)printf("}\n");
	return 0;
}
