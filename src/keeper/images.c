// SPDX-License-Identifier: Apache-2.0
/*
 * Images: what a frozen process left (src/warm), kept for boxes to thaw.
 *
 * The keeper neither reads nor writes one. It makes an empty file, lends it to one box that freezes, seals it when that box is gone, and
 * from then on gives it to every box that is made from it. They outlive gates: the next one finds them by their labels.
 *
 * All these boxes share one file. So each gets it opened for itself, to read, and nobody in a box may open it again: a descriptor of it has
 * a position, locks and attributes that another box would see.
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/control.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct image_slot *image_find(struct keeper *k, uint32_t id)
{
	for (unsigned int i = 0; i < IMAGES_MAX; i++)
		if (k->images[i].id == id && id != 0)
			return &k->images[i];
	return NULL;
}

int image_new(struct keeper *k, const char *label, uint32_t *ret_id, struct err *e)
{
	struct image_slot *s = NULL;

	for (unsigned int i = 0; i < IMAGES_MAX && s == NULL; i++)
		if (k->images[i].id == 0)
			s = &k->images[i];
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

int image_seal(struct keeper *k, uint32_t id, uint64_t *ret_bytes, struct err *e)
{
	struct image_slot *s = image_find(k, id);
	struct stat st;
	int r;

	if (s == NULL)
		return err_set(e, ERR_INPUT, 0, "there is no such image");
	if (is_lent(k, id))
		return err_set(e, ERR_INPUT, 0, "the box that freezes is still there");
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
	fd_close(&s->fd); /* boxes made from it have their own */
	*s = (struct image_slot){ 0 };
}

int image_check(struct keeper *k, const struct box_request *q, struct err *e)
{
	const struct image_slot *s = image_find(k, q->image);
	bool freezes = (q->flags & BOX_FREEZES) != 0;

	if (q->image == 0)
		return freezes ? err_set(e, ERR_PROTO, 0, "a box that freezes needs an image") : 0;
	if (s == NULL)
		return err_set(e, ERR_INPUT, ESTALE, "there is no such image");
	if (freezes ? s->sealed || is_lent(k, q->image) : !s->sealed)
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
	static const enum blob parts[] = { [KIT_THAW] = BLOB_THAW,
					   [KIT_FREEZE] = BLOB_FREEZE,
					   [KIT_KERNEL] = BLOB_KERNEL,
					   [KIT_ARCHIVE] = BLOB_ARCHIVE };
	bool freezes = b->freezes != 0 || mutant_is("kit-apart"), image_too = b->image != 0;
	const bool wanted[KIT_MAX] = { [KIT_THAW] = image_too,
				       [KIT_FREEZE] = image_too && freezes,
				       [KIT_KERNEL] = b->kit,
				       [KIT_IMAGE] = image_too,
				       [KIT_ARCHIVE] = blob_is_there(BLOB_ARCHIVE) };
	struct kit_message m = { 0 };
	own_fd image = -1;

	if (image_too && s == NULL)
		return err_set(e, ERR_INPUT, ESTALE, "there is no such image");
	image = image_too ? image_fd(s) : -1;
	if (image_too && image < 0)
		return err_set(e, ERR_SYS, errno, "open an image");
	for (unsigned int i = 0; i < KIT_MAX; i++) {
		int fd;

		if (!wanted[i])
			continue;
		if (m.n == CHAN_FDS && kit_flush(b, &m, e) < 0)
			return -1;
		fd = i == KIT_IMAGE ? image : blob_fd(k, parts[i], e);
		if (fd < 0)
			return -1;
		m.fds[m.n++] = fd;
		m.has |= 1u << i;
	}
	return kit_flush(b, &m, e);
}
