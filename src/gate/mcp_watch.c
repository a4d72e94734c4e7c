// SPDX-License-Identifier: Apache-2.0
/* Resources that clients of MCP want to hear of when they change: the directory of each file is watched, as GET …/watch does it. */
#include "gate/files.h"
#include "gate/mcp_work.h"

#include "base/own.h"
#include "wire/watch.h"

#include <stdlib.h>
#include <string.h>

struct mcp_watch {
	struct req r; /* its first member */
	struct mcp_watch *next;
	struct gate *g;
	unsigned int refs;
	bool watching, ready;
	char *uri;
	char name[NAME_MAX + 1];
	struct deferred deferred;
};

struct watching {
	struct file_call call;
	struct watch_reader reader;
};

static struct mcp_watch *watch_of(const struct file_call *c)
{
	return (struct mcp_watch *)c->r;
}

static int on_record(void *arg, const struct watch_record *rec)
{
	struct mcp_watch *w = arg;

	if (rec->what == WATCHED_READY) {
		w->ready = true;
		mcp_settled(&w->g->mcp, w->r.tenant, w->uri);
	} else if (rec->what == WATCHED_OVERFLOW || strcmp(rec->path, w->name) == 0 ||
		   strcmp(rec->to, w->name) == 0)
		mcp_updated(&w->g->mcp, w->r.tenant, w->uri);
	return 0;
}

static int on_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	return watch_feed(&((struct watching *)c)->reader, p, n, on_record, watch_of(c));
}

/* There is nothing to watch any more, or never was. */
static void stop_watching(struct mcp_watch *w)
{
	w->watching = false;
	mcp_settled(&w->g->mcp, w->r.tenant, w->uri);
}

static void on_end(struct file_call *c)
{
	struct mcp_watch *w = watch_of(c);

	file_call_close(c);
	stop_watching(w);
}

static void on_fail(struct file_call *c, int error)
{
	(void)error;
	on_end(c);
}

static void on_reply(struct req *r, int status, const void *body, size_t n)
{
	(void)status;
	(void)body;
	(void)n;
	stop_watching((struct mcp_watch *)r);
}

static void watch_free(void *arg)
{
	struct mcp_watch *w = arg;

	free(w->uri);
	free(w);
}

static struct mcp_watch **find(struct gate *g, const void *owner, const char *uri)
{
	struct mcp_watch **at = &g->mcp_watches;

	while (*at != NULL && ((*at)->r.tenant != owner || strcmp((*at)->uri, uri) != 0))
		at = &(*at)->next;
	return at;
}

/* Where the file is: its directory, and its name in it. */
static bool split(const char *path, struct file_path *p, char name[NAME_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	const char *last = slash != NULL ? slash + 1 : path;

	p->from_root = path[0] == '/';
	path += p->from_root;
	if (last[0] == '\0' || strlen(last) > NAME_MAX)
		return false;
	(void)memcpy(name, last, strlen(last) + 1);
	return last == path || file_path_take(p, path, (size_t)(last - path) - 1) == 0;
}

int mcp_watch_state(struct mcp_server *s, const void *owner, const char *uri)
{
	const struct mcp_watch *w = *find(s->arg, owner, uri);

	if (w == NULL || (!w->watching && !w->ready))
		return -1;
	return w->ready ? 1 : 0;
}

bool mcp_watch_add(struct mcp_server *s, const void *owner, const char *uri)
{
	static const struct file_ops ops = { .bytes = on_bytes, .end = on_end, .fail = on_fail };
	static const struct req_via via = { .reply = on_reply };
	char box[MCP_BOX_NAME], path[MCP_URI_MAX];
	struct file_path p = { .from_root = false };
	struct gate *g = s->arg;
	struct mcp_watch *w = *find(g, owner, uri);
	struct file_call *c;
	struct abox *a;

	if (w != NULL) {
		w->refs++;
		return true;
	}
	a = mcp_take_uri(uri, box, path) ? mcp_box(g, owner, box) : NULL;
	w = a != NULL ? calloc(1, sizeof(*w)) : NULL;
	if (w == NULL)
		return false;
	w->uri = strdup(uri);
	if (w->uri == NULL || !split(path, &p, w->name)) {
		watch_free(w);
		return false;
	}
	w->g = g;
	w->r.g = g;
	w->r.tenant = owner;
	w->r.via = &via;
	w->refs = 1;
	w->watching = true;
	c = file_call_new(&w->r, a, &own_shape, &p, &ops, sizeof(struct watching));
	if (c == NULL || file_call_run(c, FILEOP_WATCH, (const char *const[]){ "0", NULL }) < 0) {
		loop_defer(&g->loop, &w->deferred, watch_free, w);
		return false;
	}
	w->next = g->mcp_watches;
	g->mcp_watches = w;
	return true;
}

void mcp_watch_remove(struct mcp_server *s, const void *owner, const char *uri)
{
	struct gate *g = s->arg;
	struct mcp_watch **at = find(g, owner, uri), *w = *at;

	if (w == NULL || --w->refs > 0)
		return;
	*at = w->next;
	if (w->watching && w->r.gone != NULL)
		w->r.gone(&w->r);
	loop_defer(&g->loop, &w->deferred, watch_free, w);
}
