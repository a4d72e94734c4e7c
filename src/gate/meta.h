/* SPDX-License-Identifier: Apache-2.0 */
/* What a browser is shown, and the description of the API. */
#pragma once

struct json;
struct req;

/* The page, script or style whose path the route has. */
void meta_page(struct req *r);
void meta_openapi(struct req *r);

/* --- openapi.c --- */

/* The routes and their bodies as an OpenAPI 3.1 document. */
void openapi_write(struct json *j);
