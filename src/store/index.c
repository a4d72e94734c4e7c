// SPDX-License-Identifier: Apache-2.0
/*
 * One connection, one prepared statement per question. Write-ahead log and synchronous=NORMAL: a
 * change survives the end of this process, and a loss of power takes whole changes from the end
 * only.
 */
#include "store/index.h"

#include "base/own.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

enum {
	APPLICATION_ID = 0x476c6f76, /* how file(1) and we know that it is ours */
	BUSY_MS = 2000,
	STATE_PENDING = 0,
	STATE_READY = 1,
};

/* What a tenant uses is kept by the database itself, so that it cannot differ from the rows. */
static const char schema[] =
	"CREATE TABLE files("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL, filename TEXT NOT NULL,"
	" size INTEGER NOT NULL, upload_us INTEGER NOT NULL, sha256 BLOB NOT NULL,"
	" state INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX files_by_tenant ON files(tenant, id);"
	"CREATE INDEX files_by_age ON files(upload_us);"
	"CREATE INDEX files_pending ON files(id) WHERE state = 0;"
	"CREATE TABLE usage("
	" tenant TEXT PRIMARY KEY, files INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TRIGGER files_come AFTER INSERT ON files BEGIN"
	" INSERT INTO usage VALUES(new.tenant, 1, new.size) ON CONFLICT(tenant)"
	" DO UPDATE SET files = files + 1, bytes = bytes + new.size; END;"
	"CREATE TRIGGER files_go AFTER DELETE ON files BEGIN"
	" UPDATE usage SET files = files - 1, bytes = bytes - old.size WHERE tenant = old.tenant;"
	" DELETE FROM usage WHERE tenant = old.tenant AND files <= 0; END;";

#define META "id, filename, size, upload_us, sha256"

#define STATEMENTS(X)                                                                          \
	X(ADD, "INSERT INTO files VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0)")                          \
	X(READY, "UPDATE files SET state = 1 WHERE id = ?1")                                   \
	X(REMOVE, "DELETE FROM files WHERE id = ?1")                                           \
	X(BEGIN, "BEGIN IMMEDIATE")                                                            \
	X(END, "COMMIT")                                                                       \
	X(UNDO, "ROLLBACK")                                                                    \
	X(FIND, "SELECT " META " FROM files"                                                   \
		" WHERE id = ?1 AND tenant = ?2 AND state = 1 AND upload_us > ?3")             \
	X(LIST, "SELECT " META " FROM files"                                                   \
		" WHERE tenant = ?1 AND id > ?2 AND state = 1 AND upload_us > ?3 ORDER BY id") \
	X(USAGE, "SELECT bytes FROM usage WHERE tenant = ?1")                                  \
	X(TOTALS, "SELECT COALESCE(SUM(files), 0), COALESCE(SUM(bytes), 0) FROM usage")        \
	X(WALK, "SELECT id, size, state FROM files WHERE id > ?1 ORDER BY id LIMIT ?2")        \
	X(PENDING, "SELECT id, size, state FROM files WHERE state = 0 ORDER BY id LIMIT ?1")   \
	X(EXPIRED, "SELECT id, size, state FROM files"                                         \
		   " WHERE upload_us <= ?1 ORDER BY upload_us LIMIT ?2")

enum statement {
#define X(id, sql) ST_##id,
	STATEMENTS(X)
#undef X
		ST_MAX,
};

static const char *const statement_sql[] = {
#define X(id, sql) [ST_##id] = (sql),
	STATEMENTS(X)
#undef X
};

struct index {
	sqlite3 *db;
	sqlite3_stmt *st[ST_MAX];
};

/* --- the file ------------------------------------------------------------------------------- */

/* SQLite makes an absolute path of every name, which needs a readable way from the root to here. We
 * may have none, and want none: names stay as they are. */
static int plain_name(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
	(void)vfs;
	return snprintf(out, (size_t)n, "%s", name) < n ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* Without /dev/urandom. */
static int random_bytes(sqlite3_vfs *vfs, int n, char *out)
{
	ssize_t got = getrandom(out, (size_t)n, 0);

	(void)vfs;
	return got < 0 ? 0 : (int)got;
}

/* As the default one, which is whom SQLite asks for random bytes. */
static int register_vfs(void)
{
	static sqlite3_vfs vfs;
	const sqlite3_vfs *base;

	if (vfs.zName != NULL)
		return 0;
	base = sqlite3_vfs_find(NULL);
	if (base == NULL)
		return -1;
	vfs = *base;
	vfs.zName = "glovebox";
	vfs.pNext = NULL;
	vfs.xFullPathname = plain_name;
	vfs.xRandomness = random_bytes;
	return sqlite3_vfs_register(&vfs, /* makeDflt= */ 1) == SQLITE_OK ? 0 : -1;
}

/* A link planted where the index should be would lead SQLite elsewhere. */
static int check_names(struct err *e)
{
	static const char *const names[] = { INDEX_NAME, INDEX_NAME "-wal", INDEX_NAME "-shm",
					     INDEX_NAME "-journal" };
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (fstatat(AT_FDCWD, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISREG(st.st_mode))
			return err_set(e, ERR_INPUT, 0, "'%s' is no plain file", names[i]);
	return 0;
}

static int fail(const struct index *ix, struct err *e, const char *what)
{
	int sys = sqlite3_system_errno(ix->db);
	int code = sqlite3_errcode(ix->db);

	(void)err_set(e, ERR_INPUT, 0, "%s '" INDEX_NAME "': %s", what, sqlite3_errmsg(ix->db));
	e->sys = sys;
	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		(void)err_hint(e, "move it away: the store begins anew, without the files that it "
				  "knew");
	return -1;
}

static int get_number(const struct index *ix, const char *sql, int64_t *ret)
{
	sqlite3_stmt *st = NULL;
	int r = -1;

	if (sqlite3_prepare_v2(ix->db, sql, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW) {
		*ret = sqlite3_column_int64(st, 0);
		r = 0;
	}
	(void)sqlite3_finalize(st);
	return r;
}

/* 1: it is empty; 0: it is ours. */
static int check_version(const struct index *ix, struct err *e)
{
	int64_t version, app, tables;

	if (get_number(ix, "PRAGMA user_version", &version) < 0 ||
	    get_number(ix, "PRAGMA application_id", &app) < 0 ||
	    get_number(ix, "SELECT COUNT(*) FROM sqlite_schema", &tables) < 0)
		return fail(ix, e, "read the index");
	if (version == 0 && app == 0 && tables == 0)
		return 1;
	if (app != APPLICATION_ID || version < 1)
		return err_set(e, ERR_INPUT, 0, "'" INDEX_NAME "' is not an index of glovebox");
	if (version > INDEX_VERSION) {
		(void)err_set(e, ERR_INPUT, 0,
			      "the index '" INDEX_NAME "' has version %lld, this program knows %d",
			      (long long)version, INDEX_VERSION);
		return err_hint(e, "a newer glovebox wrote it; use that one or another directory");
	}
	return 0;
}

static int run(const struct index *ix, const char *sql)
{
	return sqlite3_exec(ix->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

static int make_schema(const struct index *ix)
{
	char numbers[128];

	(void)snprintf(numbers, sizeof(numbers),
		       "PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION_ID,
		       INDEX_VERSION);
	if (run(ix, "BEGIN IMMEDIATE") < 0)
		return -1;
	if (run(ix, schema) == 0 && run(ix, numbers) == 0 && run(ix, "COMMIT") == 0)
		return 0;
	return -1;
}

static int open_index(struct index *ix, struct err *e)
{
	int fresh;

	if (register_vfs() < 0)
		return err_set(e, ERR_SYS, ENOMEM, "start sqlite");
	if (check_names(e) < 0)
		return -1;
	if (sqlite3_open_v2(INDEX_NAME, &ix->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				    SQLITE_OPEN_PRIVATECACHE,
			    "glovebox") != SQLITE_OK)
		return fail(ix, e, "open the index");
	(void)sqlite3_extended_result_codes(ix->db, 0);
	(void)sqlite3_busy_timeout(ix->db, BUSY_MS);
	(void)sqlite3_db_config(ix->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	/* Before anything is written: not into a file of somebody else. */
	fresh = check_version(ix, e);
	if (fresh < 0)
		return -1;
	if (run(ix, "PRAGMA temp_store = MEMORY; PRAGMA journal_mode = WAL;"
		    "PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF;") < 0 ||
	    (fresh == 1 && make_schema(ix) < 0))
		return fail(ix, e, "prepare the index");
	for (unsigned int i = 0; i < ST_MAX; i++)
		if (sqlite3_prepare_v3(ix->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &ix->st[i], NULL) != SQLITE_OK)
			return fail(ix, e, "ask the index");
	return 0;
}

int index_open(struct index **ret, struct err *e)
{
	struct index *ix = calloc(1, sizeof(*ix));

	if (ix == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "open the index");
	if (open_index(ix, e) < 0) {
		index_close(ix);
		return -1;
	}
	*ret = ix;
	return 0;
}

void index_close(struct index *ix)
{
	if (ix == NULL)
		return;
	for (unsigned int i = 0; i < ST_MAX; i++)
		(void)sqlite3_finalize(ix->st[i]);
	(void)sqlite3_close(ix->db);
	free(ix);
}

/* --- statements ----------------------------------------------------------------------------- */

static int to_errno(const struct index *ix, int rc)
{
	int sys = sqlite3_system_errno(ix->db);

	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_NOMEM:
		return -ENOMEM;
	default:
		return sys == ENOSPC || sys == EDQUOT ? -ENOSPC : -EIO;
	}
}

static void bind_str(sqlite3_stmt *st, int at, const char *s)
{
	(void)sqlite3_bind_text(st, at, s, -1, SQLITE_STATIC);
}

static void bind_u64(sqlite3_stmt *st, int at, uint64_t v)
{
	(void)sqlite3_bind_int64(st, at, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

static uint64_t column_u64(sqlite3_stmt *st, int at)
{
	int64_t v = sqlite3_column_int64(st, at);

	return v < 0 ? 0 : (uint64_t)v;
}

static void column_str(sqlite3_stmt *st, int at, char *buf, size_t size)
{
	const unsigned char *s = sqlite3_column_text(st, at);

	(void)snprintf(buf, size, "%s", s != NULL ? (const char *)s : "");
}

/* Leave a statement: it holds a read lock and what it was given until then. */
static void leave(sqlite3_stmt *st)
{
	(void)sqlite3_reset(st);
	(void)sqlite3_clear_bindings(st);
}

/* A statement without rows. */
static int change(struct index *ix, enum statement which)
{
	int rc = sqlite3_step(ix->st[which]);
	int r = to_errno(ix, rc);

	leave(ix->st[which]);
	return r;
}

int index_add(struct index *ix, const char *tenant, const struct store_meta *f)
{
	sqlite3_stmt *st = ix->st[ST_ADD];

	bind_str(st, 1, f->id);
	bind_str(st, 2, tenant);
	bind_str(st, 3, f->filename);
	bind_u64(st, 4, f->size);
	bind_u64(st, 5, f->upload_time_us);
	(void)sqlite3_bind_blob(st, 6, f->sha256, STORE_SHA256, SQLITE_STATIC);
	return change(ix, ST_ADD);
}

int index_ready(struct index *ix, const char *id)
{
	bind_str(ix->st[ST_READY], 1, id);
	return change(ix, ST_READY);
}

int index_remove(struct index *ix, const char *id)
{
	bind_str(ix->st[ST_REMOVE], 1, id);
	return change(ix, ST_REMOVE);
}

int index_begin(struct index *ix)
{
	return change(ix, ST_BEGIN);
}

int index_end(struct index *ix)
{
	int r;

	if (sqlite3_get_autocommit(ix->db) != 0) /* an error has undone all of it already */
		return -EIO;
	r = change(ix, ST_END);
	if (r < 0)
		(void)change(ix, ST_UNDO);
	return r;
}

/* --- questions ------------------------------------------------------------------------------ */

static int read_meta(sqlite3_stmt *st, struct store_meta *f)
{
	const void *hash = sqlite3_column_blob(st, 4);

	if (hash == NULL || sqlite3_column_bytes(st, 4) != STORE_SHA256)
		return -EIO;
	(void)memcpy(f->sha256, hash, STORE_SHA256);
	column_str(st, 0, f->id, sizeof(f->id));
	column_str(st, 1, f->filename, sizeof(f->filename));
	f->size = column_u64(st, 2);
	f->upload_time_us = column_u64(st, 3);
	return store_id_is_valid(f->id) ? 0 : -EIO;
}

int index_find(struct index *ix, const char *tenant, const char *id, uint64_t since_us,
	       struct store_meta *ret)
{
	sqlite3_stmt *st = ix->st[ST_FIND];
	int rc, r;

	bind_str(st, 1, id);
	bind_str(st, 2, tenant);
	bind_u64(st, 3, since_us);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = read_meta(st, ret);
	else
		r = rc == SQLITE_DONE ? -ENOENT : to_errno(ix, rc);
	leave(st);
	return r;
}

int index_list(struct index *ix, const char *tenant, const char *after, uint64_t since_us,
	       bool (*each)(void *ctx, const struct store_meta *f), void *ctx)
{
	sqlite3_stmt *st = ix->st[ST_LIST];
	struct store_meta f;
	int rc, r = 0;

	bind_str(st, 1, tenant);
	bind_str(st, 2, after);
	bind_u64(st, 3, since_us);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		if (read_meta(st, &f) == 0 && !each(ctx, &f))
			break;
	r = to_errno(ix, rc);
	leave(st);
	return r;
}

int index_usage(struct index *ix, const char *tenant, uint64_t *ret_bytes)
{
	sqlite3_stmt *st = ix->st[ST_USAGE];
	int rc;

	bind_str(st, 1, tenant);
	rc = sqlite3_step(st);
	*ret_bytes = rc == SQLITE_ROW ? column_u64(st, 0) : 0;
	leave(st);
	return to_errno(ix, rc);
}

int index_totals(struct index *ix, uint64_t *ret_files, uint64_t *ret_bytes)
{
	sqlite3_stmt *st = ix->st[ST_TOTALS];
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW) {
		*ret_files = column_u64(st, 0);
		*ret_bytes = column_u64(st, 1);
	}
	leave(st);
	return to_errno(ix, rc);
}

/* Rows of id, size, state. Those whose id is not ours are left out: they name no file. */
static int read_rows(struct index *ix, sqlite3_stmt *st, struct index_row *rows, unsigned int n)
{
	unsigned int got = 0;
	int rc = SQLITE_DONE;

	while (got < n && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		column_str(st, 0, rows[got].id, sizeof(rows[got].id));
		rows[got].size = column_u64(st, 1);
		rows[got].ready = sqlite3_column_int(st, 2) == STATE_READY;
		got += store_id_is_valid(rows[got].id);
	}
	leave(st);
	if (got == n)
		return (int)got;
	rc = to_errno(ix, rc);
	return rc < 0 ? rc : (int)got;
}

int index_walk(struct index *ix, const char *after, struct index_row *rows, unsigned int n)
{
	sqlite3_stmt *st = ix->st[ST_WALK];

	bind_str(st, 1, after);
	bind_u64(st, 2, n);
	return read_rows(ix, st, rows, n);
}

int index_pending(struct index *ix, struct index_row *rows, unsigned int n)
{
	sqlite3_stmt *st = ix->st[ST_PENDING];

	bind_u64(st, 1, n);
	return read_rows(ix, st, rows, n);
}

int index_expired(struct index *ix, uint64_t until_us, struct index_row *rows, unsigned int n)
{
	sqlite3_stmt *st = ix->st[ST_EXPIRED];

	bind_u64(st, 1, until_us);
	bind_u64(st, 2, n);
	return read_rows(ix, st, rows, n);
}
