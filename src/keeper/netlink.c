// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel works on a message while it is being sent, and its answers are there when send() returns. Nothing here waits for them
 * therefore, and an answer that is missing is a failure.
 */
#include "keeper/netlink.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

int nl_open(struct nl *nl, int protocol)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), on = 1;

	if (fd < 0)
		return -errno;
	/* Answers without a copy of the question: they stay small. */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	*nl = (struct nl){ .fd = fd };
	return 0;
}

void nl_close(struct nl *nl)
{
	fd_close(&nl->fd);
}

/* Room for n bytes behind what is there, all zero up to the next multiple of four. NULL: there is none. */
static uint8_t *room(struct nl *nl, size_t n)
{
	size_t padded = NLMSG_ALIGN(n);
	uint8_t *p = nl->buf + nl->len;

	if (nl->full || padded < n || padded > sizeof(nl->buf) - nl->len) {
		nl->full = true;
		return NULL;
	}
	memset(p, 0, padded);
	nl->len += padded;
	return p;
}

/* The last message is as long as what was written since it began, and that is what its first field says. */
static void measure(struct nl *nl)
{
	uint32_t n = (uint32_t)(nl->len - nl->message);

	if (!nl->full)
		memcpy(nl->buf + nl->message, &n, sizeof(n));
}

void nl_begin(struct nl *nl, uint16_t type, uint16_t flags, const void *header, size_t size)
{
	struct nlmsghdr h = { .nlmsg_type = type,
			      .nlmsg_flags = flags | NLM_F_REQUEST,
			      .nlmsg_seq = nl->seq + 1 };
	size_t at = nl->len;
	uint8_t *p;

	if (nl->nmessages >= NL_MESSAGES_MAX)
		nl->full = true;
	p = room(nl, sizeof(h) + size);
	if (p == NULL)
		return;
	memcpy(p, &h, sizeof(h));
	memcpy(p + sizeof(h), header, size);
	nl->message = at;
	nl->nmessages++;
	nl->nacks += (flags & NLM_F_ACK) != 0;
	nl->seq++;
	measure(nl);
}

void nl_put(struct nl *nl, uint16_t type, const void *value, size_t size)
{
	struct nlattr a = { .nla_type = type, .nla_len = (uint16_t)(sizeof(a) + size) };
	uint8_t *p = size <= UINT16_MAX - sizeof(a) ? room(nl, sizeof(a) + size) : NULL;

	if (p == NULL) {
		nl->full = true;
		return;
	}
	memcpy(p, &a, sizeof(a));
	if (size > 0)
		memcpy(p + sizeof(a), value, size);
	measure(nl);
}

void nl_str(struct nl *nl, uint16_t type, const char *s)
{
	nl_put(nl, type, s, strlen(s) + 1);
}

void nl_u8(struct nl *nl, uint16_t type, uint8_t n)
{
	nl_put(nl, type, &n, sizeof(n));
}

void nl_u32(struct nl *nl, uint16_t type, uint32_t n)
{
	nl_put(nl, type, &n, sizeof(n));
}

void nl_be16(struct nl *nl, uint16_t type, uint16_t n)
{
	uint16_t be = htons(n);

	nl_put(nl, type, &be, sizeof(be));
}

void nl_be32(struct nl *nl, uint16_t type, uint32_t n)
{
	nl_u32(nl, type, htonl(n));
}

size_t nl_nest(struct nl *nl, uint16_t type)
{
	size_t at = nl->len;

	nl_put(nl, type | NLA_F_NESTED, NULL, 0);
	return at;
}

/* The length of an attribute comes first, too. The buffer is smaller than what it can say. */
void nl_nest_end(struct nl *nl, size_t at)
{
	uint16_t n = (uint16_t)(nl->len - at);

	if (!nl->full)
		memcpy(nl->buf + at, &n, sizeof(n));
}

/* One datagram of the kernel's may have several answers. Counts them, and remembers the first failure. */
static void take(const uint8_t *p, size_t len, int tolerated, unsigned int *answers, int *result)
{
	struct nlmsghdr h;
	struct nlmsgerr e;

	for (size_t step; len >= sizeof(h); p += step, len -= step) {
		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len)
			return;
		step = NLMSG_ALIGN(h.nlmsg_len) < len ? NLMSG_ALIGN(h.nlmsg_len) : len;
		if (h.nlmsg_type != NLMSG_ERROR || h.nlmsg_len < sizeof(h) + sizeof(e))
			continue;
		memcpy(&e, p + sizeof(h), sizeof(e));
		++*answers;
		if (e.error != 0 && e.error != -tolerated && *result == 0)
			*result = e.error;
	}
}

static int collect(struct nl *nl, unsigned int wanted, int tolerated)
{
	unsigned int answers = 0;
	int result = 0;
	ssize_t n;

	/* What was sent is no longer needed: its buffer takes the answers. */
	while ((n = recv(nl->fd, nl->buf, sizeof(nl->buf), MSG_DONTWAIT)) > 0 ||
	       (n < 0 && errno == EINTR))
		if (n > 0)
			take(nl->buf, (size_t)n, tolerated, &answers, &result);
	if (result == 0 && n < 0 && errno != EAGAIN)
		return -errno;
	return result == 0 && answers < wanted ? -EPROTO : result;
}

int nl_send(struct nl *nl, int tolerated)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	unsigned int wanted = nl->nacks;
	size_t len = nl->len;
	bool full = nl->full;
	ssize_t n;

	nl->len = nl->message = 0;
	nl->nmessages = nl->nacks = 0;
	nl->full = false;
	if (full)
		return -EMSGSIZE;
	if (len == 0)
		return 0;
	do
		n = sendto(nl->fd, nl->buf, len, 0, (const struct sockaddr *)&kernel,
			   sizeof(kernel));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : collect(nl, wanted, tolerated);
}
