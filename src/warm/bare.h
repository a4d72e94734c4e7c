/* SPDX-License-Identifier: Apache-2.0 */
/* System calls and a few bytes of C library for code that has none. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Negative: -errno. */
static inline long bare_call(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}

#define CALL6(n, a, b, c, d, e, f) \
	bare_call((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define CALL4(n, a, b, c, d) CALL6(n, a, b, c, d, 0, 0)
#define CALL3(n, a, b, c)    CALL6(n, a, b, c, 0, 0, 0)
#define CALL2(n, a, b)       CALL6(n, a, b, 0, 0, 0, 0)
#define CALL1(n, a)          CALL6(n, a, 0, 0, 0, 0, 0)
#define CALL0(n)             CALL6(n, 0, 0, 0, 0, 0, 0)

/* A line of /proc/self/maps. */
struct bare_map {
	uint64_t start, end;
	uint32_t prot; /* PROT_* */
	int shared;
	uint64_t offset, device,
		inode;    /* of its file; the device as it stands there, without its colon */
	const char *name; /* up to the end of the line; "" if it has none */
	size_t name_len;
};

static inline void bare_spaces(const char **p, const char *end)
{
	while (*p < end && **p == ' ')
		(*p)++;
}

static inline uint64_t bare_decimal(const char **p, const char *end)
{
	uint64_t v = 0;

	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
		v = v * 10 + (uint64_t)(**p - '0');
	return v;
}

static inline uint64_t bare_hex(const char **p, const char *end)
{
	uint64_t v = 0;

	for (; *p < end; (*p)++) {
		char c = **p;

		if (c >= '0' && c <= '9')
			v = v * 16 + (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v * 16 + (uint64_t)(c - 'a') + 10;
		else
			break;
	}
	return v;
}

/* Take one line from *p; 0: there is none that is whole, or it makes no sense. */
static inline int bare_map_next(const char **p, const char *end, struct bare_map *m)
{
	const char *q = *p;
	const char *line_end = q;

	while (line_end < end && *line_end != '\n')
		line_end++;
	if (line_end == end)
		return 0;
	m->start = bare_hex(&q, line_end);
	if (q == line_end || *q++ != '-')
		return 0;
	m->end = bare_hex(&q, line_end);
	if (line_end - q < 6 || *q++ != ' ' || m->end <= m->start)
		return 0;
	m->prot = (q[0] == 'r' ? 1u : 0u) | (q[1] == 'w' ? 2u : 0u) | (q[2] == 'x' ? 4u : 0u);
	m->shared = q[3] == 's';
	q += 4;
	bare_spaces(&q, line_end);
	m->offset = bare_hex(&q, line_end);
	bare_spaces(&q, line_end);
	m->device = bare_hex(&q, line_end);
	if (q == line_end || *q++ != ':')
		return 0;
	m->device = m->device << 32 | bare_hex(&q, line_end);
	bare_spaces(&q, line_end);
	m->inode = bare_decimal(&q, line_end);
	bare_spaces(&q, line_end);
	m->name = q;
	m->name_len = (size_t)(line_end - q);
	*p = line_end + 1;
	return 1;
}

static inline int bare_starts(const struct bare_map *m, const char *with)
{
	size_t i = 0;

	for (; with[i] != '\0'; i++)
		if (i == m->name_len || m->name[i] != with[i])
			return 0;
	return 1;
}

/* What the kernel maps into every process by itself: its vDSO and the data beside it. */
static inline int bare_is_special(const struct bare_map *m)
{
	return bare_starts(m, "[vvar") || bare_starts(m, "[vdso]");
}
