/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of SOCKS 5 says. Input: one byte that says what it is read as (odd: a greeting),
 * then the bytes.
 *
 * Claims: what begins like it says the same of it, or wants more; what is taken is a name by a rule
 * that is written here a second time, or an address, never both; written as a request again it is
 * the same.
 */
#include "wire/socks.h"

#include <errno.h>
#include <stdbool.h>

#include "fuzz_input.h"

static bool is_number(const char *s)
{
	return s[strspn(s, "0123456789")] == '\0' ||
	       (strncmp(s, "0x", 2) == 0 && s[2 + strspn(s + 2, "0123456789abcdef")] == '\0');
}

static void check_name(const char *name)
{
	const char *last = strrchr(name, '.');

	MUST(strlen(name) <= 253 && name[0] != '.' && name[0] != '\0');
	MUST(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(name));
	MUST(strstr(name, "..") == NULL);
	for (const char *at = name; *at != '\0'; at += strspn(at, ".")) {
		size_t n = strcspn(at, ".");

		MUST(n >= 1 && n <= 63);
		at += n;
	}
	last = last != NULL ? last + 1 : name;
	MUST(*last != '\0' && !is_number(last));
}

static void check_again(const struct socks_request *req)
{
	size_t n = strlen(req->name), len = req->by == SOCKS_BY_V4 ? 4 : 16;
	static const uint8_t kinds[] = {
		[SOCKS_BY_NAME] = 3, [SOCKS_BY_V4] = 1, [SOCKS_BY_V6] = 4
	};
	uint8_t buf[300] = { 5, 1, 0, kinds[req->by] };
	struct socks_request again;
	size_t at = 4;

	if (req->by == SOCKS_BY_NAME) {
		buf[at++] = (uint8_t)n;
		memcpy(buf + at, req->name, n);
		at += n;
	} else {
		memcpy(buf + at, req->address, len);
		at += len;
	}
	buf[at++] = (uint8_t)(req->port >> 8);
	buf[at++] = (uint8_t)req->port;
	MUST(socks_request_read(buf, at, &again) == (ptrdiff_t)at);
	MUST(memcmp(&again, req, sizeof(again)) == 0);
}

static void check_request(const struct socks_request *req)
{
	static const uint8_t none[16];
	size_t used = req->by == SOCKS_BY_NAME ? 0 : req->by == SOCKS_BY_V4 ? 4 : 16;

	MUST(req->port > 0);
	MUST(memcmp(req->address + used, none, sizeof(none) - used) == 0);
	if (req->by == SOCKS_BY_NAME)
		check_name(req->name);
	else
		MUST(req->name[0] == '\0');
	MUST(req->by != SOCKS_BY_V6 ||
	     memcmp(req->address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) != 0);
	check_again(req);
}

static ptrdiff_t look(const uint8_t *p, size_t n, bool greeting, struct socks_request *req)
{
	uint8_t *copy = exact_copy(p, n);
	ptrdiff_t r;

	memset(req, 0, sizeof(*req));
	r = greeting ? socks_greeting(copy, n) : socks_request_read(copy, n, req);
	MUST(r <= (ptrdiff_t)n);
	MUST(r >= 0 || r == -EBADMSG || r == -EPROTONOSUPPORT || (!greeting && r == -EAFNOSUPPORT));
	free(copy);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	bool greeting = (take_u8(&in) & 1) != 0;
	struct socks_request req, part;
	ptrdiff_t r = look(in.p, in.n, greeting, &req), before = 0;

	if (r > 0 && !greeting)
		check_request(&req);
	for (size_t i = 0; i < in.n && i < 300; i++) {
		ptrdiff_t now = look(in.p, i, greeting, &part);

		MUST(now == r || (now == 0 && before == 0));
		MUST(r <= 0 || (now == 0) == (i < (size_t)r));
		before = now;
	}
	return 0;
}
