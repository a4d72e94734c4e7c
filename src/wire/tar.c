// SPDX-License-Identifier: Apache-2.0
#include "wire/tar.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

/* Where a head has what. */
enum {
	NAME = 0,
	NAME_LEN = 100,
	MODE = 100,
	UID = 108,
	GID = 116,
	SIZE = 124,
	MTIME = 136,
	NUMBER_LEN = 12,
	CHECKSUM = 148,
	TYPE = 156,
	LINK = 157,
	MAGIC = 257,
	PREFIX = 345,
	PREFIX_LEN = 155,
};

#define GNU_MAGIC   "ustar  " /* and a NUL */
#define POSIX_MAGIC "ustar"   /* a NUL, and "00" */

void tar_reader_init(struct tar_reader *r)
{
	r->n = 0;
	r->left = r->padding = 0;
	r->long_path[0] = r->long_link[0] = '\0';
	r->long_to = NULL;
	r->zeros = 0;
	r->done = r->refused = false;
}

size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

/* --- fields --------------------------------------------------------------------------------------- */

/* Octal digits, a blank or NUL behind them; or base 256. -1: no number, or too large a one. */
static int64_t number(const uint8_t *p, size_t n)
{
	int64_t v = 0;
	size_t i = 0;

	if (p[0] == 0x80) { /* positive; a negative one begins with 0xff */
		for (i = 1; i < n; i++) {
			if (v > INT64_MAX >> 8)
				return -1;
			v = v << 8 | p[i];
		}
		return v;
	}
	while (i < n && p[i] == ' ')
		i++;
	if (i == n || p[i] < '0' || p[i] > '7')
		return -1;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (p[i] - '0'); /* 12 digits are 36 bits */
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return -1;
	return v;
}

static unsigned int sum_of(const uint8_t block[TAR_BLOCK])
{
	unsigned int sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= CHECKSUM && i < CHECKSUM + 8 ? ' ' : block[i];
	return sum;
}

static bool is_empty(const uint8_t block[TAR_BLOCK])
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i] != 0)
			return false;
	return true;
}

static size_t text_of(const uint8_t *p, size_t max, char *ret)
{
	size_t n = strnlen((const char *)p, max);

	(void)memcpy(ret, p, n);
	ret[n] = '\0';
	return n;
}

static bool is_clean(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

/* --- members -------------------------------------------------------------------------------------- */

static int refuse(struct tar_reader *r, const char **why, const char *text)
{
	r->refused = true;
	*why = text;
	return -EPROTO;
}

static void take_path(struct tar_reader *r)
{
	char *path = r->member.path;
	size_t n = 0;

	if (r->long_path[0] != '\0') {
		(void)memcpy(path, r->long_path, sizeof(r->long_path));
		return;
	}
	if (memcmp(r->block + MAGIC, POSIX_MAGIC, 6) == 0 && r->block[PREFIX] != '\0') {
		n = text_of(r->block + PREFIX, PREFIX_LEN, path);
		path[n++] = '/';
	}
	(void)text_of(r->block + NAME, NAME_LEN, path + n);
}

static int check_member(struct tar_reader *r, const char **why)
{
	struct tar_member *m = &r->member;
	size_t n = strlen(m->path);

	if (m->type == TAR_DIRECTORY && n > 0 && m->path[n - 1] == '/')
		m->path[n - 1] = '\0';
	if (!path_is_plain(m->path))
		return refuse(r, why, "a name that is no plain path");
	if (m->type == TAR_LINK && (m->link[0] == '\0' || !is_clean(m->link)))
		return refuse(r, why, "a link that leads nowhere");
	return 0;
}

/* A head that is no long name's. */
static int take_member(struct tar_reader *r, int64_t size, const struct tar_ops *ops, void *arg,
		       const char **why)
{
	static const struct {
		char type;
		enum tar_type means;
	} types[] = {
		{ '0', TAR_FILE }, { '\0', TAR_FILE }, { '5', TAR_DIRECTORY }, { '2', TAR_LINK }
	};
	struct tar_member *m = &r->member;
	int64_t mode = number(r->block + MODE, 8), mtime = number(r->block + MTIME, NUMBER_LEN);
	unsigned int i = 0;
	int rc;

	while (i < sizeof(types) / sizeof(types[0]) && types[i].type != (char)r->block[TYPE])
		i++;
	if (i == sizeof(types) / sizeof(types[0]))
		return refuse(r, why, "a member that is neither file, directory nor symbolic link");
	if (mode < 0)
		return refuse(r, why, "a mode that is no number");
	m->type = types[i].means;
	m->mode = (unsigned int)mode & 0777;
	m->mtime = mtime < 0 ? 0 : mtime;
	m->size = (uint64_t)size;
	take_path(r);
	m->link[0] = '\0';
	if (m->type == TAR_LINK && r->long_link[0] != '\0')
		(void)memcpy(m->link, r->long_link, sizeof(r->long_link));
	else if (m->type == TAR_LINK)
		(void)text_of(r->block + LINK, NAME_LEN, m->link);
	r->long_path[0] = r->long_link[0] = '\0';
	if (m->type != TAR_FILE && size != 0)
		return refuse(r, why, "contents of something that has none");
	rc = check_member(r, why);
	if (rc == 0)
		rc = ops->member(arg, m);
	if (rc == 0 && m->size == 0)
		rc = ops->end(arg);
	return rc;
}

static int take_head(struct tar_reader *r, const struct tar_ops *ops, void *arg, const char **why)
{
	int64_t size;
	char type = (char)r->block[TYPE];

	if (is_empty(r->block)) {
		r->done = ++r->zeros == 2;
		return 0;
	}
	if (r->zeros != 0)
		return refuse(r, why, "an empty block in the middle");
	if (number(r->block + CHECKSUM, 8) != (int64_t)sum_of(r->block))
		return refuse(r, why, "a checksum that is wrong");
	if (memcmp(r->block + MAGIC, GNU_MAGIC, 8) != 0 && memcmp(r->block + MAGIC,
								  POSIX_MAGIC "\0"
									      "00",
								  8) != 0)
		return refuse(r, why, "a form of tar that is not known here");
	size = number(r->block + SIZE, NUMBER_LEN);
	if (size < 0)
		return refuse(r, why, "a size that is no number");
	r->left = (uint64_t)size;
	r->padding = tar_padding((uint64_t)size);
	r->long_to = NULL;
	if (type != 'L' && type != 'K')
		return take_member(r, size, ops, arg, why);
	r->long_to = type == 'L' ? r->long_path : r->long_link;
	r->long_n = 0;
	if (size < 1 || size > PATH_MAX || r->long_to[0] != '\0')
		return refuse(r, why, "a long name that is none");
	return 0;
}

/* --- contents ------------------------------------------------------------------------------------- */

static int take_contents(struct tar_reader *r, const uint8_t *p, size_t n,
			 const struct tar_ops *ops, void *arg, const char **why)
{
	int rc = 0;

	r->left -= n;
	if (r->long_to == NULL) {
		rc = ops->data(arg, p, n);
		return rc == 0 && r->left == 0 ? ops->end(arg) : rc;
	}
	(void)memcpy(r->long_to + r->long_n, p, n);
	r->long_n += n;
	/* A NUL ends it, and stands nowhere else. */
	if (r->left == 0 && strnlen(r->long_to, r->long_n) + 1 != r->long_n)
		return refuse(r, why, "a long name that is none");
	return 0;
}

int tar_read(struct tar_reader *r, const void *bytes, size_t n, const struct tar_ops *ops,
	     void *arg, const char **why)
{
	const uint8_t *p = bytes;
	int rc = 0;

	if (r->refused)
		return refuse(r, why, "the archive was refused before");
	while (n > 0 && !r->done && rc == 0) {
		size_t part = n;

		if (r->left > 0) {
			part = part < r->left ? part : (size_t)r->left;
			rc = take_contents(r, p, part, ops, arg, why);
		} else if (r->padding > 0) {
			part = part < r->padding ? part : (size_t)r->padding;
			r->padding -= part;
		} else {
			part = part < TAR_BLOCK - r->n ? part : TAR_BLOCK - r->n;
			(void)memcpy(r->block + r->n, p, part);
			r->n += part;
			if (r->n == TAR_BLOCK) {
				r->n = 0;
				rc = take_head(r, ops, arg, why);
			}
		}
		p += part;
		n -= part;
	}
	if (rc != 0)
		r->refused = true;
	return rc;
}

bool tar_is_whole(const struct tar_reader *r)
{
	return r->done && !r->refused;
}

/* --- writing -------------------------------------------------------------------------------------- */

static void put_octal(uint8_t *p, size_t n, uint64_t v)
{
	p[--n] = '\0';
	while (n > 0) {
		p[--n] = (uint8_t)('0' + (v & 7));
		v >>= 3;
	}
}

static void put_number(uint8_t *p, uint64_t v)
{
	if (v >> 33 == 0) { /* 11 digits */
		put_octal(p, NUMBER_LEN, v);
		return;
	}
	for (size_t i = NUMBER_LEN; i-- > 1; v >>= 8)
		p[i] = (uint8_t)v;
	p[0] = 0x80;
}

static void put_block(uint8_t block[TAR_BLOCK], char type, unsigned int mode, uint64_t size,
		      int64_t mtime)
{
	put_octal(block + MODE, 8, mode);
	put_octal(block + UID, 8, 0);
	put_octal(block + GID, 8, 0);
	put_number(block + SIZE, size);
	put_number(block + MTIME, mtime > 0 ? (uint64_t)mtime : 0);
	block[TYPE] = (uint8_t)type;
	(void)memcpy(block + MAGIC, GNU_MAGIC, 8);
	put_octal(block + CHECKSUM, 7, sum_of(block));
	block[CHECKSUM + 7] = ' ';
}

/* A name that does not fit, in front of its member. */
static size_t put_long(uint8_t *out, char type, const char *text)
{
	static const char name[] = "././@LongLink";
	size_t n = strlen(text) + 1;

	(void)memset(out, 0, TAR_BLOCK + n + tar_padding(n));
	(void)memcpy(out + NAME, name, sizeof(name));
	put_block(out, type, 0644, n, 0);
	(void)memcpy(out + TAR_BLOCK, text, n);
	return TAR_BLOCK + n + tar_padding(n);
}

size_t tar_head(uint8_t out[TAR_HEAD_MAX], const struct tar_member *m)
{
	static const char types[] = { [TAR_FILE] = '0', [TAR_DIRECTORY] = '5', [TAR_LINK] = '2' };
	size_t path = strnlen(m->path, PATH_MAX), link = strnlen(m->link, PATH_MAX), n = 0;
	uint8_t *block;

	if (path + 1 >= PATH_MAX || link + 1 >= PATH_MAX)
		return 0;
	if (path > NAME_LEN)
		n += put_long(out + n, 'L', m->path);
	if (link > NAME_LEN)
		n += put_long(out + n, 'K', m->link);
	block = out + n;
	(void)memset(block, 0, TAR_BLOCK);
	(void)memcpy(block + NAME, m->path, path < NAME_LEN ? path : NAME_LEN);
	(void)memcpy(block + LINK, m->link, link < NAME_LEN ? link : NAME_LEN);
	put_block(block, types[m->type], m->mode & 0777, m->type == TAR_FILE ? m->size : 0,
		  m->mtime);
	return n + TAR_BLOCK;
}
