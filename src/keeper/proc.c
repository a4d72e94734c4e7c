// SPDX-License-Identifier: Apache-2.0
/*
 * /proc for a box that may not mount it itself.
 *
 * In a container whose own /proc is masked the kernel refuses a fresh /proc to a user namespace, but
 * not to a process of the container's root that has CAP_SYS_ADMIN. So such a process enters the box's
 * pid namespace by a fork, makes a detached /proc of it, hands that to the plan and ends. Where that
 * is refused, too, the answer is empty, and the layer own-proc is missing. The container's own /proc is
 * never shown.
 */
#include "keeper/keeper.h"
#include "keeper/mountapi.h"

#include "base/own.h"
#include "wire/control.h"

#include <sched.h>
#include <sys/syscall.h>

/* In the box's pid namespace, but still ours in every other way. */
static _Noreturn void answer(const struct box *b)
{
	static const char *const none[] = { NULL };
	int fd = mnt_new("proc", none, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);

	(void)chan_send(b->control_fd, CONTROL_PROC, 0, NULL, 0, &fd, fd >= 0 ? 1 : 0);
	_exit(0);
}

void proc_help(const struct box *b)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* As owner of the box's user namespace we need no CAP_SYS_PTRACE to enter. */
		if (syscall(SYS_setresuid, -1L, (long)b->owner, -1L) == 0 &&
		    setns(b->pidfd, CLONE_NEWPID) == 0) {
			pid = fork();
			if (pid == 0)
				answer(b);
			if (pid > 0)
				_exit(0);
		}
		(void)chan_send(b->control_fd, CONTROL_PROC, 0, NULL, 0, NULL, 0);
		_exit(0);
	}
	if (pid < 0)
		(void)chan_send(b->control_fd, CONTROL_PROC, 0, NULL, 0, NULL, 0);
}
