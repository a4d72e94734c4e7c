// SPDX-License-Identifier: Apache-2.0
#include "base/syscalls.h"

#include <stddef.h>

#if defined(__x86_64__)
#define PICK(x86, arm) (x86)
#elif defined(__aarch64__)
#define PICK(x86, arm) (arm)
#endif

const char *syscall_name(uint32_t number)
{
	static const struct {
		const char *name;
		int number;
	} rows[] = {
#define CONSTANT(name, value)
#define GROUP(title, why)
#define SYSCALL(name, x86, arm, verdict) { #name, PICK(x86, arm) },
#define CLAUSE(...)
#include "policy/syscalls.tbl"
#undef CONSTANT
#undef GROUP
#undef SYSCALL
#undef CLAUSE
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].number >= 0 && (uint32_t)rows[i].number == number)
			return rows[i].name;
	return "unknown";
}
