/* See suspects.h.  A plain list: it is empty except after a death. */
#include "handler/suspects.h"

#include <stdlib.h>

#include "base/alloc.h"

void
suspects_fini(struct suspects *s)
{
	free(s->id);
	*s = (struct suspects){0};
}

static size_t
find(const struct suspects *s, int64_t id)
{
	size_t i = 0;

	while (i < s->n && s->id[i] != id)
		i++;
	return i;
}

bool
suspects_have(const struct suspects *s, int64_t id)
{
	return find(s, id) < s->n;
}

void
suspects_add(struct suspects *s, int64_t id)
{
	if (suspects_have(s, id))
		return;
	if (s->id == NULL)
		s->id = xcalloc(SUSPECTS_MAX, sizeof *s->id);
	if (s->n < SUSPECTS_MAX) {
		s->id[s->n++] = id;
		return;
	}
	s->id[s->next] = id;
	s->next = (s->next + 1) % SUSPECTS_MAX;
}

void
suspects_clear(struct suspects *s, int64_t id)
{
	size_t i = find(s, id);

	if (i < s->n)
		s->id[i] = s->id[--s->n];
}
