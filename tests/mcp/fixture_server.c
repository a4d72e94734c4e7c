// SPDX-License-Identifier: Apache-2.0
/*
 * The server core of src/mcp behind the HTTP of src/gate, with what the official conformance suite expects to find. Serves
 * http://localhost:$PORT/mcp until it is ended. There is no keeper and no store: other routes do not work, and are not asked for.
 */
#include "base/clock.h"
#include "base/own.h"
#include "fixture_table.h"
#include "gate/gate.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of main.c, which has another main(). */
const char *gate_date(struct gate *g)
{
	return g->date;
}

void gate_request_id(struct gate *g, char id[REQ_ID])
{
	(void)snprintf(id, REQ_ID, "%llu", (unsigned long long)++g->next_request);
}

void gate_log_err(struct gate *g, const char *event, const struct err *e)
{
	(void)g;
	(void)fprintf(stderr, "%s: %s\n", event, e->text);
}

void gate_log_request(struct gate *g, const struct req *r, const char *how, uint64_t us)
{
	(void)g;
	(void)r;
	(void)how;
	(void)us;
}

/* PORT=0 is any that is free. */
static int listen_at(const char *text, unsigned int *port)
{
	socklen_t n = sizeof(struct sockaddr_in);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	a.sin_port = htons((uint16_t)strtoul(text, NULL, 10));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return -1;
	*port = ntohs(a.sin_port);
	return fd;
}

int main(void)
{
	static struct gate g;
	static struct listener l;
	char state[] = "--state-dir=/nonexistent", *words[] = { state, NULL };
	const char *port = getenv("PORT");
	uint8_t key[MCP_KEY];
	unsigned int at = 0;
	struct err e;

	(void)signal(SIGPIPE, SIG_IGN);
	if (port == NULL || getrandom(key, sizeof(key), 0) != sizeof(key)) {
		(void)fputs("fixture-server: PORT says where to listen\n", stderr);
		return 2;
	}
	if (config_load(&g.config, 1, words, words + 1, &e) < 0 || auth_start(&g, &e) < 0) {
		(void)fprintf(stderr, "fixture-server: %s\n", e.text);
		return 1;
	}
	l = (struct listener){
		.g = &g, .local = true, .place = ROUTE_MAIN, .fd = listen_at(port, &at)
	};
	g.listening = true;
	if (l.fd < 0 || loop_init(&g.loop) < 0 || listener_add(&g, &l) < 0) {
		perror("fixture-server: listen");
		return 1;
	}
	g.loop.now_us = clock_us();
	mcp_init(&g.mcp, &fixture_table, &g.loop, key);
	(void)fprintf(stderr, "fixture-server: http://localhost:%u/mcp\n", at);
	loop_run(&g.loop);
	return 0;
}
