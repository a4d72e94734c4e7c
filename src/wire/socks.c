// SPDX-License-Identifier: Apache-2.0
#include "wire/socks.h"

#include "wire/be.h"

#include <errno.h>
#include <string.h>

enum {
	VERSION = 5,
	NO_AUTHENTICATION = 0,
	CONNECT = 1,
	KIND_V4 = 1,
	KIND_NAME = 3,
	KIND_V6 = 4,
	HEAD = 4, /* of a request: version, command, a zero, kind of address */
};

ptrdiff_t socks_greeting(const uint8_t *p, size_t n)
{
	if (n > 0 && p[0] != VERSION)
		return -EBADMSG;
	if (n > 1 && p[1] == 0)
		return -EBADMSG;
	if (n < 2 || n < 2 + (size_t)p[1])
		return 0;
	return memchr(p + 2, NO_AUTHENTICATION, p[1]) != NULL ? 2 + p[1] : -EPROTONOSUPPORT;
}

/* By what is there of it: 0 or what is wrong. */
static int check_head(const uint8_t *p, size_t n)
{
	if (n > 0 && p[0] != VERSION)
		return -EBADMSG;
	if (n > 1 && p[1] != CONNECT)
		return -EPROTONOSUPPORT;
	if (n > 2 && p[2] != 0)
		return -EBADMSG;
	if (n > 3 && p[3] != KIND_V4 && p[3] != KIND_NAME && p[3] != KIND_V6)
		return -EAFNOSUPPORT;
	return 0;
}

static void take_v6(const uint8_t *p, struct socks_request *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	ret->by = SOCKS_BY_V6;
	(void)memcpy(ret->address, p, 16);
	if (memcmp(p, mapped, sizeof(mapped)) != 0)
		return;
	/* To connect to it is to connect to the other one. */
	ret->by = SOCKS_BY_V4;
	(void)memset(ret->address, 0, sizeof(ret->address));
	(void)memcpy(ret->address, p + sizeof(mapped), 4);
}

static int take_name(const char *p, size_t n, struct socks_request *ret)
{
	ret->by = SOCKS_BY_V4;
	if (dnsname_v4(p, n, ret->address) == 0)
		return 0;
	ret->by = SOCKS_BY_NAME;
	return dnsname_read(p, n, ret->name) < 0 ? -EBADMSG : 0;
}

/* The n bytes of an address of that kind. */
static int take_address(unsigned int kind, const uint8_t *p, size_t n, struct socks_request *ret)
{
	if (kind == KIND_NAME)
		return take_name((const char *)p, n, ret);
	if (kind == KIND_V6) {
		take_v6(p, ret);
	} else {
		ret->by = SOCKS_BY_V4;
		(void)memcpy(ret->address, p, n);
	}
	return 0;
}

ptrdiff_t socks_request_read(const uint8_t *p, size_t n, struct socks_request *ret)
{
	struct socks_request req = { .port = 0 };
	size_t at = HEAD, len = 4;
	int r = check_head(p, n);

	if (r < 0 || n <= HEAD)
		return r;
	if (p[3] == KIND_V6)
		len = 16;
	else if (p[3] == KIND_NAME)
		len = p[at++];
	if (n < at + len)
		return 0;
	r = take_address(p[3], p + at, len, &req);
	if (r < 0 || n < at + len + 2)
		return r;
	req.port = be16_get(p + at + len);
	if (req.port == 0)
		return -EBADMSG;
	*ret = req;
	return (ptrdiff_t)(at + len + 2);
}

size_t socks_reply(enum socks_code code, uint8_t buf[SOCKS_REPLY_MAX])
{
	const uint8_t reply[] = { VERSION, (uint8_t)code, 0, KIND_V4, 0, 0, 0, 0, 0, 0 };

	(void)memcpy(buf, reply, sizeof(reply));
	return sizeof(reply);
}
