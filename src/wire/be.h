/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as the protocols of the Internet have them: the first byte is the highest. Between our
 * own processes it is msg.h. */
#pragma once

#include <stdint.h>

static inline uint16_t be16_get(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void be16_put(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)(v & 0xff);
}
