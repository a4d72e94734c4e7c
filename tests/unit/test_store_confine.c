/* SPDX-License-Identifier: Apache-2.0 */
/* src/store/confine.c: what a store gives up. */
#include "store/confine.h"

#include <sys/prctl.h>

#include "test_store_help.h"

static int error_of_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	(void)close(fd);
	return 0;
}

TEST(store_gives_up_what_it_does_not_need)
{
	bool landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= 1;
	bool root = geteuid() == 0;
	pid_t pid;
	int status;
	struct rig b;

	rig_make(&b);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct err e;
		char cwd[128];
		int fd, proc = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
		char text[4096] = "";

		if (confine_store(root ? NOBODY : CONFINE_KEEP_ID, root ? NOBODY : CONFINE_KEEP_ID,
				  b.dir_fd, -1, &e) < 0)
			test_fail(__FILE__, __LINE__, "%s", e.text);
		CHECK(io_read_full(proc, text, sizeof(text) - 1) > 0);
		(void)close(proc);
		CHECK(strstr(text, "\nNoNewPrivs:\t1") != NULL);
		CHECK(strstr(text, "\nCapEff:\t0000000000000000") != NULL);
		CHECK(strstr(text, "\nCapPrm:\t0000000000000000") != NULL);
		CHECK(strstr(text, "\nCapInh:\t0000000000000000") != NULL);
		CHECK(strstr(text, "\nCapAmb:\t0000000000000000") != NULL);
		CHECK(!root || strstr(text, "\nCapBnd:\t0000000000000000") != NULL);
		CHECK(!root || strstr(text, "\nUid:\t65534\t65534\t65534\t65534\n") != NULL);
		CHECK(!root || strstr(text, "\nGid:\t65534\t65534\t65534\t65534\n") != NULL);
		CHECK(!root || getgroups(0, NULL) == 0);
		CHECK(!root || (setuid(0) < 0 && chown(".", 0, 0) < 0));
		CHECK(prctl(PR_GET_DUMPABLE) == 0);
		CHECK(umask(0) == 077);
		CHECK(getcwd(cwd, sizeof(cwd)) != NULL && strcmp(cwd, b.dir) == 0);
		fd = open("mine", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && close(fd) == 0 && unlink("mine") == 0);
		if (landlock) {
			CHECK_EQ_INT(error_of_open("/etc/passwd", O_RDONLY), EACCES);
			CHECK_EQ_INT(error_of_open("/", O_RDONLY), EACCES);
			CHECK_EQ_INT(error_of_open("/dev/null", O_RDWR), EACCES);
			CHECK_EQ_INT(error_of_open("../mine", O_RDWR | O_CREAT), EACCES);
			CHECK(mkdir("d", 0700) < 0 && errno == EACCES);
			CHECK(symlink("a", "l") < 0 && errno == EACCES);
		}
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ_INT(status, 0);
	rig_down(&b);
}

TEST(store_does_not_become_somebody_else_without_root)
{
	struct rig b;
	pid_t pid;
	int status;

	rig_make(&b);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct err e;

		CHECK(geteuid() != 0 || (setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
					 setresuid(NOBODY, NOBODY, NOBODY) == 0));
		CHECK_EQ_INT(confine_store(1, CONFINE_KEEP_ID, b.dir_fd, -1, &e), -1);
		CHECK_EQ_INT(confine_store(CONFINE_KEEP_ID, 1, b.dir_fd, -1, &e), -1);
		CHECK_EQ_INT(confine_store(getuid(), getgid(), b.dir_fd, -1, &e), 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ_INT(status, 0);
	rig_down(&b);
}

/* Directories above its own may be closed to it: it never walks through them. */
TEST(store_needs_no_way_to_its_directory)
{
	struct rig b, inner;

	if (geteuid() != 0)
		SKIP("needs root to close a directory to the store");
	rig_make(&b);
	CHECK(mkdirat(b.dir_fd, "files", 0700) == 0);
	CHECK(fchownat(b.dir_fd, "files", NOBODY, NOBODY, 0) == 0);
	CHECK(fchown(b.dir_fd, 0, 0) == 0);
	inner = b;
	inner.dir_fd = openat(b.dir_fd, "files", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(inner.dir_fd >= 0);
	rig_start(&inner);
	check_text(&inner, put_text(&inner, "text").id, "text");
	rig_stop(&inner);
	(void)close(inner.dir_fd);
	rig_down(&b);
}
