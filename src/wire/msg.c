// SPDX-License-Identifier: Apache-2.0
#include "wire/msg.h"

#include <errno.h>
#include <string.h>

void msg_out_init(struct msg_out *m, void *buf, size_t cap)
{
	*m = (struct msg_out){ .buf = buf, .cap = cap };
}

static void put_le(struct msg_out *m, uint64_t v, size_t n)
{
	if (m->failed || m->cap - m->len < n) {
		m->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		m->buf[m->len++] = (uint8_t)(v >> (8 * i));
}

void msg_put_u8(struct msg_out *m, uint8_t v)
{
	put_le(m, v, 1);
}

void msg_put_u16(struct msg_out *m, uint16_t v)
{
	put_le(m, v, 2);
}

void msg_put_u32(struct msg_out *m, uint32_t v)
{
	put_le(m, v, 4);
}

void msg_put_u64(struct msg_out *m, uint64_t v)
{
	put_le(m, v, 8);
}

void msg_put_bytes(struct msg_out *m, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		m->failed = true;
		return;
	}
	msg_put_u32(m, (uint32_t)n);
	if (m->failed || m->cap - m->len < n) {
		m->failed = true;
		return;
	}
	if (n > 0)
		(void)memcpy(m->buf + m->len, p, n);
	m->len += n;
}

void msg_put_str(struct msg_out *m, const char *s)
{
	msg_put_bytes(m, s, strlen(s));
}

void msg_in_init(struct msg_in *m, const void *buf, size_t len)
{
	*m = (struct msg_in){ .buf = buf, .len = len };
}

static uint64_t get_le(struct msg_in *m, size_t n)
{
	uint64_t v = 0;

	if (m->failed || m->len - m->at < n) {
		m->failed = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)m->buf[m->at++] << (8 * i);
	return v;
}

uint8_t msg_get_u8(struct msg_in *m)
{
	return (uint8_t)get_le(m, 1);
}

uint16_t msg_get_u16(struct msg_in *m)
{
	return (uint16_t)get_le(m, 2);
}

uint32_t msg_get_u32(struct msg_in *m)
{
	return (uint32_t)get_le(m, 4);
}

uint64_t msg_get_u64(struct msg_in *m)
{
	return get_le(m, 8);
}

const uint8_t *msg_get_bytes(struct msg_in *m, size_t max, size_t *ret_len)
{
	size_t n = msg_get_u32(m);
	const uint8_t *p;

	*ret_len = 0;
	if (m->failed || n > max || m->len - m->at < n) {
		m->failed = true;
		return NULL;
	}
	p = m->buf + m->at;
	m->at += n;
	*ret_len = n;
	return p;
}

size_t msg_get_str(struct msg_in *m, char *buf, size_t size)
{
	size_t n;
	const uint8_t *p = msg_get_bytes(m, size - 1, &n);

	buf[0] = '\0';
	if (p == NULL)
		return 0;
	if (n > 0 && memchr(p, '\0', n) != NULL) {
		m->failed = true;
		return 0;
	}
	(void)memcpy(buf, p, n);
	buf[n] = '\0';
	return n;
}

int msg_end(const struct msg_in *m)
{
	return m->failed || m->at != m->len ? -EPROTO : 0;
}
