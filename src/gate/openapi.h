/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables behind /openapi.json: openapi_tables.c has them, openapi.c writes them down.
 *
 * A route is named "METHOD path", an answer as the table of routes names it: by a schema, or by a word of api_plains.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define BOX_FILES   "/v1/boxes/{box_id}/files"
#define BOX_FILE    BOX_FILES "/{path*}"
#define BOX_WATCH   "/v1/boxes/{box_id}/watch"
#define BOX_ARCHIVE "/v1/boxes/{box_id}/archive"
#define SE_ROOT     "/workspace/se"
#define SE_HANDLER  SE_ROOT "/v2/execute_code"

enum api_member_flags {
	MEMBER_LIST = 1u << 0,     /* a list of these */
	MEMBER_OPTIONAL = 1u << 1, /* not always there */
	MEMBER_MAP = 1u << 2,      /* an object of these, with any keys */
};

/* A member of an object. Rows of one schema stand together. Its type is JSON's, or several of them; or a schema, or one of several, or
 * null where a '?' is behind them; or "", anything. */
struct api_member {
	const char *schema, *name;
	const char *type;
	unsigned int flags;
	const char *words; /* the only ones that there are, or NULL */
	const char *doc;
};

/* An answer that is no JSON. */
struct api_plain {
	const char *answer, *media;
};

/* What the data of an event is. */
struct api_event {
	const char *answer, *event, *schema;
};

/* An answer beside the one of its row: another status, or the same with another body. */
struct api_more {
	const char *route;
	int status;
	const char *answer, *doc;
};

/* A body that is neither JSON by a table of fields nor the form of an upload. */
struct api_body {
	const char *route, *media, *schema; /* schema NULL: bytes */
};

/* What a route is like: decides in which ways it can refuse. */
enum api_trait {
	TRAIT_ANY = 1u << 0,
	TRAIT_GUARDED = 1u << 1, /* looks at token, Host and Origin */
	TRAIT_BODY = 1u << 2,
	TRAIT_NAMES = 1u << 3, /* path or body holds the id of something */
	TRAIT_RUNS = 1u << 4,
	TRAIT_EVENTS = 1u << 5,
	TRAIT_HEALTH = 1u << 6,  /* says why in its own words */
	TRAIT_KEY = 1u << 7,     /* looks at Idempotency-Key */
	TRAIT_BOX = 1u << 8,     /* is about a box of the own API */
	TRAIT_STATE = 1u << 9,   /* the box must be ready for it */
	TRAIT_QUERY = 1u << 10,  /* takes parameters of the query */
	TRAIT_INPUT = 1u << 11,  /* feeds a program */
	TRAIT_TYPED = 1u << 12,  /* takes a body of one type only */
	TRAIT_FILES = 1u << 13,  /* is about files of a box */
	TRAIT_WRITE = 1u << 14,  /* of these, one that looks at If-Match */
	TRAIT_RANGE = 1u << 15,  /* and one that looks at Range */
	TRAIT_DETAIL = 1u << 16, /* refuses as FastAPI does */

	/* Sandbox Runtime. */
	TRAIT_HANDLER = 1u << 17,
	TRAIT_SANDBOX = 1u << 18,      /* all but handlers */
	TRAIT_SANDBOX_JSON = 1u << 19, /* of these, those with a body of JSON */
	TRAIT_SESSION = 1u << 20,      /* the path names a session */
	TRAIT_USES = 1u << 21,         /* and that is worked with */
	TRAIT_MAKES = 1u << 22,        /* it must not be there yet */
	TRAIT_PLACE = 1u << 23,        /* path, query or body names a file */
	TRAIT_TOOLS = 1u << 24,        /* speaks with an MCP server */
	TRAIT_PORTS = 1u << 25,        /* publishes a port */
};

/* When something is refused. Rows of one status stand together, and the first that fits is told. */
struct api_refusal {
	int status;
	unsigned int traits; /* one of these */
	bool later;          /* says when to try again; nothing was run */
	const char *doc;
};

/* What is answered then: the first row that fits. The last one always does. */
struct api_refused {
	unsigned int traits; /* one of these */
	int status;          /* 0: any */
	const char *schemas; /* one of these, separated by a space */
};

/* What stands in a path, in a query, or in a header of a route that answers with events. */
struct api_param {
	const char *name, *in;
	const char *route; /* of a query or some headers; of a path: how it begins. NULL: any */
	const char *type, *doc;
};

/* The rest of a path that its handler takes apart, and what is in it. */
struct api_rest {
	const char *part, *told;
};

/* A member of a body to begin with. Rows of one schema stand together. */
struct api_example {
	const char *schema, *name, *text;
};

extern const struct api_member api_members[];
extern const struct api_plain api_plains[];
extern const struct api_event api_events[];
extern const struct api_more api_mores[];
extern const struct api_body api_bodies[];
extern const struct api_refusal api_refusals[];
extern const struct api_refused api_refused[];
extern const struct api_param api_params[];
extern const struct api_rest api_rests[];
extern const struct api_example api_examples[];
/* Schemas whose members are answered twice, at the top and as `result`: "NameAnswer". */
extern const char *const api_twice[];
extern const size_t api_nmembers, api_nplains, api_nevents, api_nmores, api_nbodies, api_nrefusals,
	api_nparams, api_nrests, api_nexamples, api_ntwice;
