// SPDX-License-Identifier: Apache-2.0
#include "gate/table.h"

#include <errno.h>
#include <stdlib.h>

enum { PLACES = 1024 };

int table_add(struct table *t, struct table_item *i, uint32_t hash)
{
	if (t->places == NULL)
		t->places = calloc(PLACES, sizeof(*t->places));
	if (t->places == NULL)
		return -ENOMEM;
	*i = (struct table_item){
		.next = t->places[hash % PLACES], .older = t->newest, .hash = hash, .is_in = true
	};
	t->places[hash % PLACES] = i;
	if (t->newest != NULL)
		t->newest->newer = i;
	else
		t->oldest = i;
	t->newest = i;
	t->n++;
	return 0;
}

void table_remove(struct table *t, struct table_item *i)
{
	struct table_item **at;

	if (!i->is_in)
		return;
	for (at = &t->places[i->hash % PLACES]; *at != i;)
		at = &(*at)->next;
	*at = i->next;
	if (i->newer != NULL)
		i->newer->older = i->older;
	else
		t->newest = i->older;
	if (i->older != NULL)
		i->older->newer = i->newer;
	else
		t->oldest = i->newer;
	i->is_in = false;
	t->n--;
}

static struct table_item *from(struct table_item *i, uint32_t hash)
{
	while (i != NULL && i->hash != hash)
		i = i->next;
	return i;
}

struct table_item *table_first(const struct table *t, uint32_t hash)
{
	return t->places != NULL ? from(t->places[hash % PLACES], hash) : NULL;
}

struct table_item *table_next(const struct table_item *i)
{
	return from(i->next, i->hash);
}

void table_done(struct table *t)
{
	free(t->places);
	*t = (struct table){ 0 };
}
