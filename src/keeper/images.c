// SPDX-License-Identifier: Apache-2.0
/*
 * Images: what a frozen process left (src/warm), kept for boxes to thaw.
 *
 * The keeper neither reads nor writes one. It makes an empty file, lends it to one box that freezes, seals it when that box is gone, and
 * from then on gives it to every box that is made from it. They outlive gates: the next one finds them by their labels.
 *
 * A copy is the image of a process that was thawed itself. Its box goes on, and may keep the descriptor: what seals it is that nobody can write to it
 * any more, or it is not sealed. Room for it is made before, by a process of ours: who touches a page first is charged for it, and a box that is to be copied
 * must not come to its limit by that. It refers to the image that its process came from; whoever is made from it gets both. So an image that was dropped
 * stays as long as somebody may want to be copied, or has been.
 *
 * All these boxes share one file. So each gets it opened for itself, to read, and nobody in a box may open it again: a descriptor of it has
 * a position, locks and attributes that another box would see.
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "wire/control.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { COPY_BESIDE = 8 << 20, COPY_MOST_BESIDE = 512 << 20 };

struct image_slot *image_find(struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < IMAGES_MAX; i++)
		if (k->images[i].id == id && id != 0 && !k->images[i].dropped)
			return &k->images[i];
	return NULL;
}

/* Also one that is there for others only. */
static const struct image_slot *find_any(const struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < IMAGES_MAX; i++)
		if (k->images[i].id == id && id != 0)
			return &k->images[i];
	return NULL;
}

uint32_t image_base(const struct keeper *k, uint32_t id)
{
	const struct image_slot *s = find_any(k, id);

	return s != NULL && s->base != 0 ? s->base : id;
}

static bool is_referred_to(const struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < IMAGES_MAX; i++)
		if (k->images[i].id != 0 && k->images[i].base == id)
			return true;
	return false;
}

static bool may_be_wanted(const struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < k->nboxes; i++)
		if (k->boxes[i].state != BOX_FREE && k->boxes[i].base == id)
			return true;
	return is_referred_to(k, id);
}

static void release(struct image_slot *s)
{
	fd_close(&s->fd); /* boxes made from it have their own */
	*s = (struct image_slot){ 0 };
}

void images_turn(struct keeper *k)
{
	bool found = true;

	while (found) { /* one that goes may have been the last that referred to another */
		found = false;
		for (unsigned int i = 0; i < IMAGES_MAX; i++)
			if (k->images[i].dropped && !may_be_wanted(k, k->images[i].id)) {
				release(&k->images[i]);
				found = true;
			}
	}
}

/* A free one; if there is none that of an image which boxes could still be copied by: then they cannot. */
static struct image_slot *free_slot(struct keeper *k)
{
	struct image_slot *oldest = NULL;

	for (unsigned int i = 0; i < IMAGES_MAX; i++) {
		struct image_slot *s = &k->images[i];

		if (s->id == 0)
			return s;
		if (s->dropped && !is_referred_to(k, s->id) &&
		    (oldest == NULL || s->id < oldest->id))
			oldest = s;
	}
	if (oldest != NULL)
		release(oldest);
	return oldest;
}

int image_new(struct keeper *k, const char *label, uint32_t *ret_id, struct err *e)
{
	struct image_slot *s = free_slot(k);

	if (s == NULL)
		return err_set(e, ERR_LIMIT, 0, "there are %d images already", IMAGES_MAX);
	s->fd = memory_file("image");
	if (s->fd < 0)
		return err_set(e, ERR_SYS, errno, "make a memory file");
	if (!mutant_is("image-mode") && fchmod(s->fd, 0400) < 0) {
		(void)err_set(e, ERR_SYS, errno, "make a memory file");
		fd_close(&s->fd);
		return -1;
	}
	(void)strncpy(s->label, label, sizeof(s->label) - 1);
	s->sealed = false;
	s->born_us = clock_us();
	s->id = *ret_id = ++k->next_image;
	return 0;
}

static bool is_lent(const struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < k->nboxes; i++)
		if (k->boxes[i].state != BOX_FREE && k->boxes[i].freezes == id)
			return true;
	return false;
}

int image_seal(struct keeper *k, uint32_t id, uint64_t bytes, uint64_t *ret_bytes, struct err *e)
{
	struct image_slot *s = image_find(k, id);
	struct stat st;
	int r;

	if (s == NULL)
		return err_set(e, ERR_INPUT, 0, "there is no such image");
	if (is_lent(k, id))
		return err_set(e, ERR_INPUT, 0, "the box that freezes is still there");
	/* Room that was not needed goes. */
	if (bytes != 0 && s->base != 0 && !s->sealed &&
	    (fstat(s->fd, &st) < 0 ||
	     (bytes < (uint64_t)st.st_size && ftruncate(s->fd, (off_t)bytes) < 0)))
		return err_set(e, ERR_SYS, errno, "seal an image");
	r = s->sealed || mutant_is("image-seal") ? 0 : memory_file_seal(s->fd);
	if (r < 0 || fstat(s->fd, &st) < 0)
		return err_set(e, ERR_SYS, r < 0 ? -r : errno, "seal an image");
	s->sealed = true;
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}

void image_drop(struct keeper *k, uint32_t id)
{
	struct image_slot *s = image_find(k, id);

	if (s == NULL)
		return;
	s->dropped = true;
	images_turn(k);
}

/* As much as its programs have, and what belongs to an image beside that. More than the box may have altogether is more than anybody can ask for. */
static uint64_t room_for(const struct keeper *k, const struct box *b, uint64_t bytes)
{
	uint64_t n = cgroup_anonymous(&k->cgroups, &b->cgroup);
	uint64_t most =
		2 * b->limits.v[LIMIT_MEMORY] + b->limits.v[LIMIT_WORKSPACE] + COPY_MOST_BESIDE;

	if (bytes == 0)
		bytes = n + n / 8 + COPY_BESIDE;
	return bytes < most ? bytes : most;
}

/* It takes a while for a large one. */
static _Noreturn void make_room(int fd, uint64_t bytes)
{
	own_fd score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)io_write_all(score, "1000",
			   4); /* where there is too little, it ends us and nobody else */
	_exit(fallocate(fd, 0, 0, (off_t)bytes) < 0 ? 1 : 0);
}

static void give(struct keeper *k, struct image_slot *s, bool has_room)
{
	const struct box *b = box_find(k, s->box);
	uint64_t request = s->request;
	struct err e;
	int r;

	s->request = s->box = 0;
	if (request == 0)
		return;
	r = !has_room ? -ENOMEM
	    : b == NULL || b->state != BOX_READY
		    ? -ESRCH
		    : chan_send(b->control_fd, CONTROL_COPY, 0, NULL, 0, &s->fd, 1);
	if (r < 0) {
		(void)err_set(&e, ERR_SYS, -r,
			      has_room ? "reach the init of a box" : "make room for a copy");
		ops_failed(k, request, &e);
	} else {
		ops_ok(k, request, NULL, 0, NULL);
	}
}

bool images_reaped(struct keeper *k, pid_t pid, int status)
{
	for (unsigned int i = 0; i < IMAGES_MAX; i++) {
		struct image_slot *s = &k->images[i];

		if (s->id == 0 || s->helper != pid)
			continue;
		s->helper = 0;
		give(k, s, status == 0);
		return true;
	}
	return false;
}

void images_forget_gate(struct keeper *k)
{
	for (unsigned int i = 0; i < IMAGES_MAX; i++)
		k->images[i].request = 0;
}

int image_copy(struct keeper *k, const struct box *b, uint32_t id, uint64_t bytes, uint64_t request,
	       struct err *e)
{
	struct image_slot *s = image_find(k, id);
	pid_t pid;

	if (s == NULL || s->sealed || s->base != 0 || is_lent(k, id))
		return err_set(e, ERR_INPUT, 0, "there is no such image, or it is used already");
	if (find_any(k, b->base) == NULL)
		return err_set(e, ERR_INPUT, ESTALE,
			       "what this box was made from is not there any more");
	pid = fork();
	if (pid == 0)
		make_room(s->fd, room_for(k, b, bytes));
	if (pid < 0)
		return err_set(e, ERR_SYS, errno, "start a process");
	s->base = b->base;
	s->helper = pid;
	s->request = request;
	s->box = b->id;
	return 0;
}

int image_check(struct keeper *k, const struct box_request *q, struct err *e)
{
	const struct image_slot *s = image_find(k, q->image);
	bool freezes = (q->flags & BOX_FREEZES) != 0;

	if (q->image == 0)
		return freezes ? err_set(e, ERR_PROTO, 0, "a box that freezes needs an image") : 0;
	if (s == NULL)
		return err_set(e, ERR_INPUT, ESTALE, "there is no such image");
	if (s->base != 0 && find_any(k, s->base) == NULL)
		return err_set(e, ERR_INPUT, ESTALE,
			       "the image that it refers to is not there any more");
	if (freezes ? s->sealed || s->base != 0 || is_lent(k, q->image) : !s->sealed)
		return err_set(e, ERR_INPUT, 0,
			       freezes ? "the image is written already"
				       : "the image is not complete");
	return 0;
}

/* One to write to while it is made, else one that can only be read. */
static int image_fd(const struct image_slot *s)
{
	bool whole = !s->sealed || mutant_is("image-read-only");

	return whole ? fcntl(s->fd, F_DUPFD_CLOEXEC, 0) : memory_file_again(s->fd, O_RDONLY);
}

/* Descriptors on their way to an init, as many as fit in one message. */
struct kit_message {
	uint32_t has;
	int fds[CHAN_FDS];
	unsigned int n;
};

static int kit_flush(const struct box *b, struct kit_message *m, struct err *e)
{
	uint8_t body[4];
	struct msg_out out;
	int r;

	if (m->n == 0)
		return 0;
	msg_out_init(&out, body, sizeof(body));
	msg_put_u32(&out, m->has);
	r = chan_send(b->control_fd, CONTROL_KIT, 0, body, out.len, m->fds, m->n);
	*m = (struct kit_message){ 0 };
	return r < 0 ? err_set(e, ERR_SYS, -r, "reach the init of a box") : 0;
}

int kit_send(struct keeper *k, const struct box *b, struct err *e)
{
	const struct image_slot *s = image_find(k, b->image);
	const struct image_slot *base = s != NULL ? find_any(k, s->base) : NULL;
	static const enum blob parts[] = { [KIT_THAW] = BLOB_THAW,
					   [KIT_FREEZE] = BLOB_FREEZE,
					   [KIT_KERNEL] = BLOB_KERNEL,
					   [KIT_ARCHIVE] = BLOB_ARCHIVE };
	bool freezes = b->freezes != 0 || mutant_is("kit-apart"), image_too = b->image != 0;
	const bool wanted[KIT_MAX] = { [KIT_THAW] = image_too,
				       [KIT_FREEZE] = image_too && freezes,
				       [KIT_KERNEL] = b->kit,
				       [KIT_IMAGE] = image_too,
				       [KIT_ARCHIVE] = blob_is_there(BLOB_ARCHIVE),
				       [KIT_BASE] = base != NULL };
	struct kit_message m = { 0 };
	own_fd image = -1, below = -1;

	if (image_too && s == NULL)
		return err_set(e, ERR_INPUT, ESTALE, "there is no such image");
	image = image_too ? image_fd(s) : -1;
	below = base != NULL ? image_fd(base) : -1;
	if ((image_too && image < 0) || (base != NULL && below < 0))
		return err_set(e, ERR_SYS, errno, "open an image");
	for (unsigned int i = 0; i < KIT_MAX; i++) {
		int fd;

		if (!wanted[i])
			continue;
		if (m.n == CHAN_FDS && kit_flush(b, &m, e) < 0)
			return -1;
		fd = i == KIT_IMAGE ? image : i == KIT_BASE ? below : blob_fd(k, parts[i], e);
		if (fd < 0)
			return -1;
		m.fds[m.n++] = fd;
		m.has |= 1u << i;
	}
	return kit_flush(b, &m, e);
}
