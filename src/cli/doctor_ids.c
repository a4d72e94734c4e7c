// SPDX-License-Identifier: Apache-2.0
/*
 * Two host uids for each box: root takes them from far above everybody, an ordinary user has them
 * from /etc/subuid and /etc/subgid by newuidmap and newgidmap. Both files are read as the keeper
 * reads them; a range that is proposed overlaps none that is there.
 */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

enum {
	NEED = 1024,    /* as many as the keeper wants at least */
	OFFER = 65536,  /* as many as we propose */
	FIRST = 100000, /* where distributions begin */
	NAME_MAX_ = 64,
};

struct user {
	uid_t uid;
	char name[NAME_MAX_]; /* "": none */
};

static void user_look(struct user *u, uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	*u = (struct user){ .uid = uid };
	if (pw != NULL)
		(void)snprintf(u->name, sizeof(u->name), "%s", pw->pw_name);
}

/* --- the ranges --------------------------------------------------------------------------------- */

struct ranges {
	bool has;     /* one for this user, large enough */
	uint64_t end; /* first id above all ranges of everybody */
};

static void ranges_read(const char *path, const struct user *u, struct ranges *r)
{
	char line[256], number[16], who[NAME_MAX_], from[21], many[21];
	FILE *f = fopen(path, "re");

	*r = (struct ranges){ .end = FIRST };
	(void)snprintf(number, sizeof(number), "%u", u->uid);
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		uint64_t first, count;

		if (sscanf(line, "%63[^:]:%20[0-9]:%20[0-9]", who, from, many) != 3 ||
		    str_to_u64(from, UINT32_MAX, &first) < 0 ||
		    str_to_u64(many, UINT32_MAX, &count) < 0)
			continue;
		if (first + count > r->end)
			r->end = first + count;
		if ((strcmp(who, u->name) == 0 || strcmp(who, number) == 0) && count >= NEED)
			r->has = true;
	}
	if (f != NULL)
		(void)fclose(f);
}

static bool find_program(const char *name, char *ret, size_t size)
{
	const char *path = getenv("PATH");
	char copy[4096], *save = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", path != NULL ? path : "/usr/bin:/bin");
	for (char *d = strtok_r(copy, ":", &save); d != NULL; d = strtok_r(NULL, ":", &save)) {
		(void)snprintf(ret, size, "%s/%s", d, name);
		if (access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

/* What keeps this program from having privileges when we run it; NULL: nothing. */
static const char *powerless(const struct machine *m, const char *path)
{
	struct statvfs fs;
	struct stat st;
	char caps[64];
	bool by_file;

	if (m->root)
		return NULL;
	if (stat(path, &st) < 0)
		return "it cannot be looked at";
	by_file = getxattr(path, "security.capability", caps, sizeof(caps)) > 0;
	if (!by_file && ((st.st_mode & S_ISUID) == 0 || st.st_uid != 0))
		return "it is neither setuid root nor has file capabilities";
	if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID) != 0)
		return "its file system is mounted nosuid";
	return NULL;
}

/* --- fixes -------------------------------------------------------------------------------------- */

static void propose_range(const struct user *u, const struct ranges *uids,
			  const struct ranges *gids, struct finding *f)
{
	uint64_t first = uids->end > gids->end ? uids->end : gids->end;
	char made[NAME_MAX_ + 64] = "", name[NAME_MAX_ + 16];

	(void)snprintf(name, sizeof(name), "%s", u->name);
	if (u->name[0] == '\0') {
		(void)snprintf(name, sizeof(name), "glovebox-%u", u->uid);
		(void)snprintf(made, sizeof(made), "sudo useradd --uid %u --no-create-home %s && ",
			       u->uid, name);
	}
	fix_by(f, "%ssudo usermod --add-subuids %llu-%llu --add-subgids %llu-%llu %s", made,
	       (unsigned long long)first, (unsigned long long)(first + OFFER - 1),
	       (unsigned long long)first, (unsigned long long)(first + OFFER - 1), name);
}

static void check_tools(const struct machine *m, struct finding *f)
{
	static const char *const tools[] = { "newuidmap", "newgidmap" };
	char path[PATH_MAX];

	for (unsigned int i = 0; i < ARRAY_LEN(tools); i++) {
		const char *why;

		if (!find_program(tools[i], path, sizeof(path))) {
			found(f, CHECK_MISSING, "%s is not installed", tools[i]);
			fix_by(f, "sudo apt install uidmap");
			return;
		}
		why = powerless(m, path);
		if (why != NULL) {
			found(f, CHECK_MISSING, "%.200s gives no uids: %s", path, why);
			fix_by(f, "sudo chown root:root %.300s && sudo chmod u+s %.300s", path,
			       path);
			return;
		}
	}
}

static void check_ordinary(const struct machine *m, struct finding *f)
{
	struct ranges uids, gids;
	struct user u;

	user_look(&u, m->uid);
	ranges_read("/etc/subuid", &u, &uids);
	ranges_read("/etc/subgid", &u, &gids);
	if (!uids.has || !gids.has || u.name[0] == '\0') {
		found(f, CHECK_MISSING, "user %s (%u) has %s",
		      u.name[0] != '\0' ? u.name : "without a name", u.uid,
		      uids.has && gids.has ? "no entry in /etc/passwd, which newuidmap asks for"
		      : gids.has           ? "no range in /etc/subuid"
		      : uids.has           ? "no range in /etc/subgid"
					   : "no range in /etc/subuid and /etc/subgid");
		propose_range(&u, &uids, &gids, f);
		return;
	}
	if (m->no_new_privs && !m->root) {
		found(f, CHECK_MISSING,
		      "newuidmap cannot work: this process may gain no privileges (no_new_privs)");
		fix_by(f, "start Glovebox without no_new_privs: systemd NoNewPrivileges=no, "
			  "Kubernetes allowPrivilegeEscalation: true, docker without "
			  "no-new-privileges");
		return;
	}
	check_tools(m, f);
	if (f->status == CHECK_OK)
		found(f, CHECK_OK,
		      "user %s has ranges in /etc/subuid and /etc/subgid, and newuidmap", u.name);
}

/* --- as root ------------------------------------------------------------------------------------ */

static uint64_t largest_extent(const char *path)
{
	char text[4096], *save = NULL;
	uint64_t most = 0;

	if (io_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save)) {
		char many[21];
		uint64_t n;

		if (sscanf(l, "%*s %*s %20s", many) == 1 && str_to_u64(many, UINT32_MAX, &n) == 0 &&
		    n > most)
			most = n;
	}
	return most;
}

void check_own_uids(const struct machine *m, const struct check *c, struct finding *f)
{
	uint64_t uids = largest_extent("/proc/self/uid_map");
	uint64_t gids = largest_extent("/proc/self/gid_map");

	(void)c;
	if (!m->may_map) {
		check_ordinary(m, f);
		return;
	}
	if (uids >= NEED && gids >= NEED) {
		found(f, CHECK_OK, "root can give each box two of its own");
		return;
	}
	found(f, CHECK_MISSING,
	      "only %llu uids and %llu gids are mapped in this user namespace, %d are needed",
	      (unsigned long long)uids, (unsigned long long)gids, NEED);
	fix_by(f, "give this namespace a range: unshare --map-auto --map-root-user --user ...; "
		  "docker and podman: --userns or userns-remap with 65536 ids");
}

/* --- the session -------------------------------------------------------------------------------- */

static int try_session(struct probe *p, const void *arg)
{
	enum { JOIN_SESSION_KEYRING = 1 };

	(void)arg;
	probe_at(p, "setsid");
	if (setsid() < 0)
		return -errno;
	probe_at(p, "keyctl");
	if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return -errno;
	return 0;
}

void check_session(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p = probe_run(try_session, NULL);

	(void)c;
	if (p.error == 0) {
		found(f, CHECK_OK, "a session and a session keyring of its own");
		return;
	}
	found(f, CHECK_MISSING, "%s is refused: %s", p.at, strerror(p.error));
	if (m->seccomp && m->container != NULL)
		fix_by(f, "%s", m->container->seccomp);
}
