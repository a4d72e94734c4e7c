/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipybox's dialect. Its executor is Jupyter's (jup.h), on a port of the box; here is its resource server: files, directories and
 * the sources of modules, on another port of the box, and below /v1/boxes/{box_id}/ipybox/. Refusals are {"detail": …}.
 *
 *   ipy_files.c    files and directories
 *   ipy_modules.c  sources of modules
 *   ipy_mcp.c      clients for MCP servers, generated
 *   ipy_program.c  programs of ours in the box, which the last two are made of
 *   ipy.c          whether it is there
 */
#pragma once

#include "gate/file_paths.h"
#include "gate/ports.h"

void ipy_status(struct req *r);
void ipy_status_moved(struct req *r);
void ipy_file_get(struct req *r);
void ipy_file_post(struct req *r);
void ipy_file_delete(struct req *r);
void ipy_directory_get(struct req *r);
void ipy_directory_post(struct req *r);
void ipy_modules(struct req *r);
void ipy_mcp_put(struct req *r);
void ipy_mcp_get(struct req *r);

/* The box that the request is about; NULL: answered. */
struct abox *ipy_box(struct req *r);
/* The same, and the path of the request, below its working directory; NULL: answered. */
struct abox *ipy_find(struct req *r, struct file_path *p);
