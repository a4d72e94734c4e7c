// SPDX-License-Identifier: Apache-2.0
/* readfile: a part of a file as JSON, and where the next one begins. Whether it is text is said by its name. */
#include "gate/se_files.h"

#include "base/base64.h"
#include "base/own.h"
#include "gate/se_decode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PIECE = 4096, PIECE_MAX = 1024 * 1024 };

/* What is asked for, and what there is of it. */
struct part {
	uint64_t offset, size;
	size_t before, want;
	struct buf bytes; /* from `before` bytes in front of the offset on */
	struct file_path path;
};

static const char *const texts[] = {
	"txt",   "md",   "markdown", "rst",   "csv",     "tsv",        "json",  "jsonl", "ndjson",
	"xml",   "xsd",  "xsl",      "html",  "htm",     "css",        "scss",  "less",  "js",
	"mjs",   "cjs",  "ts",       "jsx",   "tsx",     "vue",        "py",    "pyi",   "pyx",
	"ipynb", "sh",   "bash",     "zsh",   "fish",    "bat",        "ps1",   "yaml",  "yml",
	"toml",  "ini",  "cfg",      "conf",  "env",     "properties", "log",   "sql",   "c",
	"h",     "cc",   "cpp",      "hpp",   "cs",      "java",       "kt",    "go",    "rs",
	"rb",    "php",  "pl",       "lua",   "r",       "swift",      "scala", "tex",   "bib",
	"svg",   "diff", "patch",    "proto", "graphql", "tf",         "srt",   "vtt",
};

static bool is_text(const char *path)
{
	const char *end = se_extension(path);

	for (unsigned int i = 0; end != NULL && i < ARRAY_LEN(texts); i++)
		if (strcasecmp(end, texts[i]) == 0)
			return true;
	return false;
}

static void part_free(void *arg)
{
	struct part *part = arg;

	buf_done(&part->bytes);
	free(part);
}

/* --- answers ---------------------------------------------------------------------------------- */

static struct se_piece piece_of(const struct part *part)
{
	size_t have = buf_len(&part->bytes);
	size_t n = have > part->before ? have - part->before : 0;

	return (struct se_piece){ .p = n > 0 ? buf_head(&part->bytes) + part->before : "",
				  .before = n > 0 ? part->before : 0,
				  .n = n,
				  .want = n < part->want ? n : part->want,
				  .last = part->offset + n >= part->size };
}

/* Of a place behind the end nobody says what is there. */
static void answer(const struct part *part, struct req *r, bool binary, const char *text, size_t n,
		   size_t used)
{
	uint64_t next = part->offset + used;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "content", text, n);
	if (part->offset < part->size)
		json_bool(&j, "is_binary", binary);
	json_u64(&j, "offset", next);
	json_u64(&j, "size", part->size);
	json_bool(&j, "is_eof", next >= part->size);
	json_close(&j, '}');
	se_answer(r, &j);
}

static void answer_binary(const struct part *part, struct req *r)
{
	struct se_piece piece = piece_of(part);
	char *text = malloc(BASE64_TEXT_LEN(piece.want) + 1);
	size_t n;

	if (text == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	n = base64_encode((const uint8_t *)piece.p, piece.want, text);
	answer(part, r, true, text, n, piece.want);
	free(text);
}

static void answer_latin1(const struct part *part, struct req *r)
{
	struct se_piece piece = piece_of(part);
	struct buf text;

	buf_init(&text, 2 * piece.want);
	if (se_latin1(piece.p, piece.want, &text) < 0)
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
	else
		answer(part, r, false, buf_head(&text), buf_len(&text), piece.want);
	buf_done(&text);
}

static void on_gbk(void *arg, struct req *r, const char *text, size_t n, size_t used)
{
	struct part *part = arg;

	if (text != NULL)
		answer(part, r, false, text, n, used);
	else
		answer_latin1(part, r);
	part_free(part);
}

static void answer_part(struct part *part, struct req *r, struct abox *a)
{
	struct se_piece piece = piece_of(part);
	bool text = is_text(part->path.text);
	ptrdiff_t used = text ? se_utf8_part(&piece) : 0;

	if (text && used < 0) {
		se_gbk(r, a, &piece, on_gbk, part_free, part);
		return;
	}
	if (text || piece.n == 0)
		answer(part, r, false, piece.p, (size_t)used, (size_t)used);
	else
		answer_binary(part, r);
	part_free(part);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct reading {
	struct file_call call;
	struct part *part; /* NULL: it is somebody else's now */
};

static void reading_release(struct file_call *c)
{
	struct reading *rd = (struct reading *)c;

	if (rd->part != NULL)
		part_free(rd->part);
}

static int reading_record(struct file_call *c, const struct listing_entry *e)
{
	((struct reading *)c)->part->size = e->size;
	return e->type == 'f' ? 0 : -1;
}

static int reading_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	return buf_put(&((struct reading *)c)->part->bytes, p, n);
}

static void reading_end(struct file_call *c)
{
	struct reading *rd = (struct reading *)c;
	struct part *part = rd->part;
	struct abox *a = c->a;
	struct req *r = c->r;

	rd->part = NULL;
	file_call_close(c);
	answer_part(part, r, a);
}

static void on_ready(void *arg, struct req *r, struct abox *a)
{
	static const struct file_ops ops = { .record = reading_record,
					     .bytes = reading_bytes,
					     .end = reading_end,
					     .release = reading_release };
	struct part *part = arg;
	size_t all = part->before + part->want + SE_DECODE_EXTRA;
	char from[24], count[24];
	struct reading *rd =
		(struct reading *)file_call_new(r, a, &se_shape, &part->path, &ops, sizeof(*rd));

	if (rd == NULL) {
		part_free(part);
		return;
	}
	rd->part = part;
	buf_init(&part->bytes, all);
	(void)snprintf(from, sizeof(from), "%llu",
		       (unsigned long long)(part->offset - part->before));
	(void)snprintf(count, sizeof(count), "%zu", all);
	(void)file_call_run(&rd->call, FILEOP_READ,
			    (const char *const[]){ "follow", from, count, "", "", NULL });
}

void se_readfile(struct req *r)
{
	struct part *part = calloc(1, sizeof(*part));
	uint64_t size = PIECE;
	char name[SE_NAME];

	if (part == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	if (se_take_file(r, name, part->path.text) < 0 ||
	    se_query_u64(r, "offset", &part->offset) < 0 ||
	    se_query_u64(r, "buffer_size", &size) < 0) {
		free(part);
		return;
	}
	if (size == 0) {
		free(part);
		se_refuse(r, SE_PARAMETER, "'buffer_size' must be at least 1");
		return;
	}
	part->want = (size_t)(size < PIECE_MAX ? size : PIECE_MAX);
	part->before = (size_t)(part->offset < SE_DECODE_EXTRA ? part->offset : SE_DECODE_EXTRA);
	se_with(r, name, on_ready, part_free, part);
}
