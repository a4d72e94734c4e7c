// SPDX-License-Identifier: Apache-2.0
#include "wire/envbuild.h"

#include "base/own.h"
#include "wire/msg.h"

#include <errno.h>
#include <string.h>

void envbuild_init(struct envbuild *b, enum envbuild_act act, const char *name)
{
	b->act = act;
	b->imports[0] = '\0';
	b->pool = 0;
	b->nwords = 0;
	b->ntext = 0;
	(void)strncpy(b->name, name, sizeof(b->name) - 1);
	b->name[sizeof(b->name) - 1] = '\0';
}

static bool is_plain(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f)
			return false;
	return true;
}

int envbuild_add(struct envbuild *b, const char *word, size_t n)
{
	if (n == 0 || n >= ENVBUILD_WORD || word[0] == '-' || word[0] == ' ' || !is_plain(word, n))
		return -EINVAL;
	if (b->nwords == ENVBUILD_WORDS || n + 1 > sizeof(b->text) - b->ntext)
		return -E2BIG;
	(void)memcpy(b->text + b->ntext, word, n);
	b->text[b->ntext + n] = '\0';
	b->words[b->nwords++] = b->text + b->ntext;
	b->ntext += n + 1;
	return 0;
}

ptrdiff_t envbuild_encode(const struct envbuild *b, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u8(&m, (uint8_t)b->act);
	msg_put_str(&m, b->name);
	msg_put_str(&m, b->imports);
	msg_put_u32(&m, b->pool);
	msg_put_u16(&m, (uint16_t)b->nwords);
	for (unsigned int i = 0; i < b->nwords; i++)
		msg_put_str(&m, b->words[i]);
	return m.failed ? -EMSGSIZE : (ptrdiff_t)m.len;
}

static bool are_modules(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_. ") ==
	       strlen(text);
}

int envbuild_decode(const void *buf, size_t len, struct envbuild *ret)
{
	char name[ENV_NAME], word[ENVBUILD_WORD];
	struct msg_in m;
	uint16_t n;
	uint8_t act;

	msg_in_init(&m, buf, len);
	act = msg_get_u8(&m);
	(void)msg_get_str(&m, name, sizeof(name));
	if (m.failed || act >= ENVBUILD_ACT_MAX || !env_is_name(name))
		return -EPROTO;
	envbuild_init(ret, (enum envbuild_act)act, name);
	(void)msg_get_str(&m, ret->imports, sizeof(ret->imports));
	ret->pool = msg_get_u32(&m);
	n = msg_get_u16(&m);
	for (unsigned int i = 0; i < n && !m.failed; i++) {
		size_t length = msg_get_str(&m, word, sizeof(word));

		if (!m.failed && envbuild_add(ret, word, length) < 0)
			return -EPROTO;
	}
	return msg_end(&m) < 0 || !are_modules(ret->imports) ? -EPROTO : 0;
}

ptrdiff_t envbuilt_encode(const struct envbuilt *b, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_str(&m, b->name);
	msg_put_u32(&m, b->status);
	msg_put_str(&m, b->log);
	return m.failed ? -EMSGSIZE : (ptrdiff_t)m.len;
}

int envbuilt_decode(const void *buf, size_t len, struct envbuilt *ret)
{
	struct msg_in m;

	msg_in_init(&m, buf, len);
	(void)msg_get_str(&m, ret->name, sizeof(ret->name));
	ret->status = msg_get_u32(&m);
	(void)msg_get_str(&m, ret->log, sizeof(ret->log));
	return msg_end(&m);
}
