/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first thing that a client of TLS says: whom it wants to speak with. Nothing else of TLS is
 * understood here.
 *
 * Read from a buffer that grows, always from its beginning. Hostile: a hello may come in any number
 * of records and segments; what is not exactly as the protocol has it (RFC 8446, 5246, 6066, 7301)
 * is refused, because who reads it behind us might see another name in it. Values that nobody knows
 * are no mistakes (GREASE, RFC 8701).
 */
#pragma once

#include "wire/dnsname.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TLS_HELLO_NAME = DNSNAME_SIZE,
	TLS_HELLO_MAX = 64 * 1024, /* of all records together, their headers included */
	TLS_HELLO_RECORDS = 64,    /* that one may be spread over */
};

struct tls_hello {
	/* So many bytes from the beginning are wanted before it makes sense to look again; of one
	 * that is whole: its length. */
	size_t needs;
	bool has_name;
	char name[TLS_HELLO_NAME]; /* see dnsname_read() */
	bool has_ech;              /* encrypted_client_hello is there (GREASE, or real) */
	bool has_alpn;
	bool offers_h2, offers_http1; /* by ALPN; the second is 1.0 or 1.1 */
	uint16_t version; /* the highest that is offered, as TLS has them: 0x0304 is 1.3 */
};

/* Whether it can be the beginning of a hello, by what is there of its first 6 bytes: a record of
 * a handshake, and a ClientHello in it. */
bool tls_hello_may_be(const uint8_t *p, size_t n);

/*
 * 1: whole, *ret says what is in it; behind it may be other records. 0: more is wanted, see
 * ret->needs: who looks only then looks at most twice per record. -EBADMSG: it is none, or
 * contradicts itself (two names, two of the same extension, lengths that do not add up, a name that
 * is no name: NUL, control characters, an address, over 253 bytes; something else in its last
 * record). -E2BIG: longer than the bounds above. After 0 and errors nothing else is in *ret.
 */
int tls_hello_read(const uint8_t *p, size_t n, struct tls_hello *ret);
