/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket to a server. Nothing waits but the handshake: what is to be sent is queued, and goes out when the descriptor
 * takes it. Pings are answered, a goodbye is returned.
 */
#pragma once

#include "cli/http_client.h"
#include "wire/ws_frame.h"

enum {
	WS_MESSAGE_MAX = 4 * 1024 * 1024,
	WS_QUEUE_MAX = 1024 * 1024,
	WS_QUEUE_HIGH = 64 * 1024, /* above it nothing more should be asked for */
};

struct ws_client {
	int fd; /* -1: closed */
	struct ws_reader in;
	struct bytes out, early;
	unsigned int closed; /* the code that the server said goodbye with; 0: it did not */
	char why[128];
	uint64_t heard_us;
};

void ws_client_init(struct ws_client *w);
/* 0: open. -1: not; *refused says whether the server answered, and refused it. SIGINT ends the waiting. */
int ws_client_open(struct ws_client *w, struct client *c, const char *path, bool *refused,
		   struct err *e);
void ws_client_close(struct ws_client *w);

/* What to wait for. */
short ws_client_events(const struct ws_client *w);
bool ws_client_has_early(const struct ws_client *w);
/* Send and take what there is. Each text and each piece of bytes goes to fn. 1: goes on; 0: the server said goodbye; -errno:
 * lost. */
int ws_client_step(struct ws_client *w, void (*fn)(void *arg, const struct ws_message *m),
		   void *arg);
/* -ENOBUFS when too much waits already. */
int ws_client_send(struct ws_client *w, enum ws_type type, const void *p, size_t n);
