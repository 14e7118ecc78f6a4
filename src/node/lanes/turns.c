/*
 * Whose turn it is: see lanes.h.
 *
 * This is round robin over the share keys of a lane.  What a look may return is filled by about one round:
 * when the keys that there are give less, the next look takes twice as many rows of each, and half as many
 * when it was full, unless one key is alone.  A look for many rows takes more than one of each key all the
 * same, because a step to the next key costs as much as several rows.  A key that is alone has no turns: most
 * looks are ordinary ones then, which read nothing of what other nodes own.
 */
#include <string.h>

#include "node/lanes/lanes.h"

#define KEYS_PER_LOOK 64 /* are enough, whatever there is room for */
#define ALONE_LOOKS   3  /* without turns, before it is asked again whether there are other keys */

static int64_t
least_rows(int64_t wanted)
{
	return wanted < KEYS_PER_LOOK ? 1 : wanted / KEYS_PER_LOOK;
}

bool
turns_worthwhile(struct lane *l)
{
	if (l->turns.spared == 0)
		return true;
	l->turns.spared--;
	return false;
}

void
turns_ask(struct lane *l, struct look_lane *to)
{
	int64_t least;

	to->turns = true;
	to->wanted = to->wanted < l->room || l->room <= 0 ? to->wanted : l->room;
	least = least_rows(to->wanted);
	l->turns.each = l->turns.each < least ? least : l->turns.each;
	to->slice = l->turns.each;
	memcpy(to->after, l->turns.after, sizeof to->after);
}

/* Among all that is ready, the lane has the place that its oldest task gives it; its tasks come one behind
 * the other.  With ages of their own, an old backlog of one key would pass by whatever else was claimed. */
void
turns_place(struct lane *l, const struct look_lane *asked, struct candidate *c, size_t n)
{
	struct turns *t = &l->turns;

	for (size_t i = 0; i < n; i++) {
		if (t->round_us == 0 || c[i].due_us < t->round_us)
			t->round_us = c[i].due_us;
	}
	if (t->head_us == 0)
		t->head_us = t->round_us;
	for (size_t i = 0; i < n; i++) {
		t->given_us = t->given_us < t->head_us ? t->head_us : t->given_us + 1;
		c[i].age_us = c[i].late_us + c[i].due_us - t->given_us;
	}
	if (asked->wrapped) {
		t->head_us = t->round_us;
		t->round_us = 0;
	}
}

void
turns_behind(const struct lane *l, struct candidate *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t before_us = l->turns.given_us + 1 - c[i].due_us;

		c[i].age_us = c[i].late_us - (before_us > 0 ? before_us : 0);
	}
}

void
turns_taken(struct lane *l, const struct look_lane *asked)
{
	struct turns *t = &l->turns;
	bool alone = asked->keys == 1 && strcmp(t->after, asked->after) == 0;

	/* The next look is in turns again while this one left something, or may have. */
	l->backlog = asked->found >= asked->wanted || (asked->found > 0 && asked->slice < asked->wanted);
	if (asked->found < asked->wanted)
		t->each = 2 * asked->slice < asked->wanted ? 2 * asked->slice : asked->wanted;
	else if (!alone)
		t->each = asked->slice / 2;
	t->spared = alone ? ALONE_LOOKS : 0;
	memcpy(t->after, asked->after, sizeof t->after);
	if (!l->backlog)
		t->head_us = t->round_us = 0; /* how old these were gives the next backlog no place */
	l->turn = l->n_shards > 0 ? (l->turn + 1) % l->n_shards : 0; /* nothing may have been found */
}
