/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "mcp/mcp.h"

/* What the conformance suite expects of a server. mcp_server.arg is the loop. */
extern const struct mcp_table fixture_table;
