/* The queue of events, the chances, and the classes of waits. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "world.h"

static bool
before(const struct event *a, const struct event *b)
{
	return a->at < b->at;
}

void
event_add(struct world *w, struct event e)
{
	size_t i = w->n_events++;

	if (i == w->events_room) {
		w->events_room = 2 * i + 1024;
		w->event = xrealloc(w->event, w->events_room * sizeof e);
	}
	for (; i > 0 && before(&e, &w->event[(i - 1) / 2]); i = (i - 1) / 2)
		w->event[i] = w->event[(i - 1) / 2];
	w->event[i] = e;
}

bool
event_next(struct world *w, struct event *out)
{
	struct event last;
	size_t i = 0;

	if (w->n_events == 0)
		return false;
	*out = w->event[0];
	last = w->event[--w->n_events];
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < w->n_events && before(&w->event[child + 1], &w->event[child]))
			child++;
		if (child >= w->n_events || !before(&w->event[child], &last))
			break;
		w->event[i] = w->event[child];
		i = child;
	}
	w->event[i] = last;
	return true;
}

double
chance_to(struct world *w, double below)
{
	return (double)(pgrab_mix64(w->random++) >> 11) / 9007199254740992.0 * below;
}

uint32_t
chance_of(struct world *w, uint32_t below)
{
	return (uint32_t)(pgrab_mix64(w->random++) % below);
}

double
gap_of(struct world *w, double mean)
{
	return -mean * log(1 - chance_to(w, 1));
}

double
about(struct world *w, double median, double sigma)
{
	double radius = sqrt(-2 * log(1 - chance_to(w, 1)));

	return median * exp(sigma * radius * cos(chance_to(w, 2 * M_PI)));
}

/* 1 ms and less is class 0. */
void
wait_note(struct waits *a, double seconds)
{
	double class = seconds > 0.001 ? log2(seconds * 1000) * 10 : 0;

	a->in[class < WAIT_CLASSES - 1 ? (size_t) class : WAIT_CLASSES - 1]++;
	a->n++;
}

double
wait_at(const struct waits *a, double part)
{
	uint64_t sum = 0;
	size_t i = 0;

	while (i < WAIT_CLASSES - 1 && (double)(sum += a->in[i]) < part * (double)a->n)
		i++;
	return i == 0 ? 0 : exp2((double)(i + 1) / 10) / 1000;
}
