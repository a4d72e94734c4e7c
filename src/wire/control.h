/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket between the keeper and the first process of a box, which becomes its init.
 * Messages are those of wire/chan.h. Its end of file means that the other side is gone.
 */
#pragma once

/* In a box with BOX_TOOLS: what calls of tools are sent to. */
#define BOX_TOOLS_DIR    "/run/glovebox"
#define BOX_TOOLS_SOCKET BOX_TOOLS_DIR "/tools.sock"
#define BOX_RAY_SOCKET   "/tmp/mcp.sock"

/* In a box with BOX_NETWORK: certificates of who may vouch for servers. Empty unless something is put into requests of the box in TLS. */
#define BOX_TRUST       "/etc/ssl/glovebox.pem"
#define BOX_TRUST_BYTES (2u << 20)

#include <stdint.h>

/* Where init finds a /proc that it may write to, if this box has one: "proc" below it. */
#define INIT_PROC "/run/init"

/* How large a file of init's may be at least, by its hard limit; the soft one is for its programs. */
#define INIT_FILE_BYTES (UINT64_C(1) << 20)

/* What a box is given: to start Python with, and the program that packs and unpacks archives. In this order; the body is a
 * u32 with a bit per descriptor that is there. One that does not fit in a message comes in another. */
enum kit { KIT_THAW, KIT_FREEZE, KIT_KERNEL, KIT_IMAGE, KIT_ARCHIVE, KIT_BASE, KIT_MAX };

enum control_type {
	CONTROL_GATE = 1,  /* keeper -> init, one descriptor: the stream of a new gate */
	CONTROL_PROC_WANT, /* plan -> keeper: I may not mount /proc, can you? */
	CONTROL_PROC,      /* keeper -> plan: a detached /proc of the box as descriptor, or none */
	CONTROL_KIT,       /* keeper -> init, descriptors: see enum kit */
	CONTROL_LISTENER,  /* plan -> keeper, one descriptor: who listens to refused system calls */
	CONTROL_STORES, /* plan -> keeper, of a box made ahead: by these its file systems can be resized */
	CONTROL_TOOLS, /* plan -> keeper, of a box with BOX_TOOLS, one descriptor: the socket for calls of tools */
	CONTROL_NET, /* plan -> keeper, of a box with BOX_NETWORK, two descriptors: its network namespace, and BOX_TRUST to be written to */
	CONTROL_PORTS, /* plan -> keeper, of a box with BOX_PORTS: the listeners in its own network */
	CONTROL_COPY, /* keeper -> init, one descriptor: an image for a cell with JOB_COPIES; an older one that was not used goes */
};
