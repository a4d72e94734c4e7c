/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: whole messages with descriptors over AF_UNIX SOCK_SEQPACKET.
 *
 * One recvmsg(2) is one message, so nothing is reassembled. A message starts with a header of type
 * and request id. Descriptors that the receiver did not ask for are closed and the message is
 * refused: the peer broke the protocol.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CHAN_MAX = 16384, /* bytes of a message, header included */
	CHAN_FDS = 8,     /* descriptors of a message */
	CHAN_HEADER = 16, /* u16 type, u16 zero, u32 zero, u64 request id */
};

struct chan_msg {
	uint16_t type;
	uint64_t request;
	uint8_t body[CHAN_MAX - CHAN_HEADER];
	size_t len;
	int fds[CHAN_FDS];
	unsigned int nfds;
};

/* A connected pair, close-on-exec. 0 or -errno. */
int chan_pair(int ret_fd[2]);

/* Send one message; may block on a blocking socket. 0 or -errno: -EPIPE if the peer is gone. */
/* Whether less than half of what can wait for the peer does: then there is room for what it may miss, beside what it must not. */
bool chan_has_room(int fd);
int chan_send(int fd, uint16_t type, uint64_t request, const void *body, size_t len, const int *fds,
	      unsigned int nfds);

/* Receive one message. 1: got one (the caller owns its descriptors); 0: the peer is gone, and all
 * that it sent has been received, whether it had read what was sent to it or not; -errno:
 * -EAGAIN on an empty non-blocking socket, -EPROTO for a message that is cut, too long, too short,
 * or carries more descriptors than CHAN_FDS (all closed). */
int chan_recv(int fd, struct chan_msg *m);

/* Close the descriptors that came with a message. */
void chan_msg_close(struct chan_msg *m);
