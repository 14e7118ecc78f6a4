#include "node/doubts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/* For what takes milliseconds, and for four times what it took of late; doubled when that is not enough. */
#define PATIENCE_US     (500 * US_PER_MS)
#define PATIENCE_MAX_US (8 * US_PER_S) /* within the ten seconds that any call has */
#define PARTS           8
#define PART_MAX_US     (500 * US_PER_MS)
#define SIFT_US         (5 * US_PER_S) /* for all parts: what is left has its turn with the next look */
#define SILENCES_MAX    4              /* parts before any is answered: then it is the server */
#define ALONE_US        (500 * US_PER_MS)
#define WAIT_US         (5 * US_PER_S) /* before a first try alone; each time four times as long */
#define WAIT_MAX_US     (600 * US_PER_S)
#define FORGET_US       (60 * US_PER_S) /* then another node has it, or it is no more */
#define TRIES_MAX       3               /* tries alone have 0.5, 1, 2, 4, 4, ... seconds once it is doubted */

void
doubts_init(struct doubts *ds)
{
	PTHREAD_OK(pthread_mutex_init(&ds->lock, NULL));
}

void
doubts_fini(struct doubts *ds)
{
	pthread_mutex_destroy(&ds->lock);
}

/* Under the lock. */
static struct doubt *
find(struct doubts *ds, int64_t id)
{
	for (size_t i = 0; i < atomic_load(&ds->count); i++) {
		if (ds->item[i].id == id)
			return &ds->item[i];
	}
	return NULL;
}

/* Under the lock. */
static struct doubt *
make(struct doubts *ds, int64_t id)
{
	struct doubt *d = &ds->item[0];

	if (atomic_load(&ds->count) < DOUBTS_MAX) {
		d = &ds->item[atomic_fetch_add(&ds->count, 1)];
	} else {
		for (size_t i = 1; i < DOUBTS_MAX; i++)
			d = ds->item[i].next_us < d->next_us ? &ds->item[i] : d;
	}
	*d = (struct doubt){.id = id};
	return d;
}

static struct doubt
look(struct doubts *ds, int64_t id)
{
	struct doubt found = {0}, *d;

	if (atomic_load(&ds->count) == 0)
		return found;
	WITH_LOCK(&ds->lock);
	d = find(ds, id);
	if (d != NULL)
		found = *d;
	return found;
}

bool
doubts_has(struct doubts *ds, int64_t id)
{
	return look(ds, id).tries > 0;
}

bool
doubts_wait(struct doubts *ds, int64_t id)
{
	return clock_mono_us() < look(ds, id).next_us;
}

const char *
doubts_print(struct doubts *ds, struct buf *out)
{
	int64_t now = clock_mono_us();
	size_t n = 0;

	buf_reset(out);
	if (atomic_load(&ds->count) == 0)
		return NULL;
	PTHREAD_OK(pthread_mutex_lock(&ds->lock));
	for (size_t i = 0; i < atomic_load(&ds->count); i++) {
		if (now >= ds->item[i].next_us + FORGET_US)
			continue;
		ds->item[n++] = ds->item[i];
		buf_addf(out, "%c%" PRId64, n == 1 ? '{' : ',', ds->item[i].id);
	}
	atomic_store(&ds->count, n);
	PTHREAD_OK(pthread_mutex_unlock(&ds->lock));
	buf_addc(out, '}');
	return n > 0 ? buf_str(out) : NULL;
}

void
doubts_drop(struct doubts *ds, int64_t id)
{
	struct doubt *d;

	if (atomic_load(&ds->count) == 0)
		return;
	WITH_LOCK(&ds->lock);
	d = find(ds, id);
	if (d != NULL)
		*d = ds->item[atomic_fetch_sub(&ds->count, 1) - 1];
}

/* Returns for how long it is left alone. */
static int64_t
put_off(struct doubts *ds, int64_t id, unsigned *tries_out)
{
	struct doubt *d;
	int64_t wait_us = WAIT_US;

	WITH_LOCK(&ds->lock);
	d = find(ds, id);
	if (d == NULL)
		d = make(ds, id);
	for (unsigned i = 0; i < d->tries && wait_us < WAIT_MAX_US; i++)
		wait_us *= 4;
	wait_us = wait_us < WAIT_MAX_US ? wait_us : WAIT_MAX_US;
	d->next_us = clock_mono_us() + wait_us;
	*tries_out = ++d->tries;
	return wait_us;
}

void
doubts_refused(struct doubts *ds, int64_t id, const struct err *err)
{
	unsigned tries;
	int64_t wait_us = put_off(ds, id, &tries);

	log_error("refused", "task=%" PRId64 " tries=%u next_s=%" PRId64 " error=\"%s\"", id, tries,
	    wait_us / US_PER_S, err->text);
}

static void
note_vain(struct doubts *ds, int64_t id)
{
	unsigned tries;
	int64_t wait_us = put_off(ds, id, &tries);

	log_warn("silence", "task=%" PRId64 " tries=%u next_s=%" PRId64 " hint=\"%s\"", id, tries,
	    wait_us / US_PER_S,
	    "no answer when it is taken or started (a trigger that waits?): it is tried again by itself");
}

struct part {
	size_t from, n;
};

struct round {
	struct part *part; /* room for a whole tree of them */
	size_t parts;
	int64_t part_us; /* for each */
	size_t *lone;    /* silent, each alone */
	size_t n_lone;
	bool answered;
};

static void
divide(struct round *r, struct part p)
{
	for (size_t i = 0; i < PARTS; i++) {
		size_t from = p.n * i / PARTS, to = p.n * (i + 1) / PARTS;

		if (to > from)
			r->part[r->parts++] = (struct part){p.from + from, to - from};
	}
}

/* Level by level, so that what holds none of the silent ones is answered soon, and proves the server well. */
static void
try_parts(struct round *r, const struct sifted *what)
{
	int64_t until_us = clock_mono_us() + SIFT_US;
	size_t silences = 0;

	for (size_t i = 0; i < r->parts && clock_mono_us() < until_us; i++) {
		struct part p = r->part[i];
		enum sift answer = what->try(what->ctx, p.from, p.n, r->part_us);

		if (answer == SIFT_STOP)
			return;
		r->answered = r->answered || answer != SIFT_SILENT;
		silences += answer == SIFT_SILENT;
		if (!r->answered && silences >= SILENCES_MAX)
			return;
		if (answer == SIFT_SILENT && p.n == 1)
			r->lone[r->n_lone++] = p.from;
		else if (answer != SIFT_ANSWERED)
			divide(r, p);
	}
}

/* Silent again, now that others have been answered: it was not a pause of the server's. */
static bool
is_silent(const struct round *r, const struct sifted *what, size_t i)
{
	return what->try(what->ctx, i, 1, r->part_us) == SIFT_SILENT;
}

/* Returns whether any was answered.  *found_out: single ones are the reason; if not, all was silent or is
 * slow. */
static bool
sift_parts(struct sifter *s, const struct sifted *what, size_t n, int64_t part_us, bool *found_out)
{
	struct round r = {.part = xcalloc(2 * n, sizeof *r.part),
	    .lone = xcalloc(n, sizeof *r.lone),
	    .part_us = part_us < PART_MAX_US ? part_us : PART_MAX_US};

	divide(&r, (struct part){0, n});
	try_parts(&r, what);
	for (size_t i = 0; r.answered && i < r.n_lone; i++) {
		if (is_silent(&r, what, r.lone[i])) {
			note_vain(s->doubts, what->id(what->ctx, r.lone[i]));
			*found_out = true;
		}
	}
	free(r.part);
	free(r.lone);
	return r.answered;
}

/* Nothing beside it has proved the server well: so it is doubted the second time. */
static void
note_lone(struct sifter *s, int64_t id)
{
	if (s->lone == id)
		note_vain(s->doubts, id);
	s->lone = s->lone == id ? 0 : id;
}

static int64_t
within(int64_t us, int64_t min_us, int64_t max_us)
{
	return us < min_us ? min_us : us > max_us ? max_us : us;
}

/* Up at once, down by and by. */
static void
note_time(struct sifter *s, int64_t took_us)
{
	s->took_us = took_us > s->took_us ? took_us : s->took_us - (s->took_us - took_us) / 8;
	s->patience_us = within(4 * s->took_us, PATIENCE_US, PATIENCE_MAX_US);
}

bool
sift(struct sifter *s, const struct sifted *what, size_t n)
{
	int64_t patience_us = within(s->patience_us, PATIENCE_US, PATIENCE_MAX_US);
	int64_t begun_us = clock_mono_us();
	enum sift answer = what->try(what->ctx, 0, n, patience_us);
	bool answered = answer == SIFT_ANSWERED, found = false;

	if (answered)
		note_time(s, clock_mono_us() - begun_us);
	if (answer == SIFT_SILENT && n == 1)
		note_lone(s, what->id(what->ctx, 0));
	if ((answer == SIFT_SILENT || answer == SIFT_REFUSED) && n > 1) {
		answered = sift_parts(s, what, n, patience_us / 4, &found);
		s->patience_us = found || answer == SIFT_REFUSED ? patience_us : 2 * patience_us;
	}
	return answered;
}

void
sift_alone(struct sifter *s, const struct sifted *what, size_t i)
{
	int64_t id = what->id(what->ctx, i);
	unsigned tries = look(s->doubts, id).tries;
	int64_t within_us = tries == 0           ? PATIENCE_US / 4
			    : tries <= TRIES_MAX ? ALONE_US << (tries - 1)
						 : ALONE_US << TRIES_MAX;

	if (what->try(what->ctx, i, 1, within_us) == SIFT_SILENT)
		note_vain(s->doubts, id);
}

void
sift_each(struct sifter *s, const struct sifted *what, void *items, size_t n, size_t size)
{
	char *item = items, *doubted = xmalloc(size);
	size_t calm = 0;
	bool turn = false, well = true;

	for (size_t i = 0; i < n; i++) {
		int64_t id = what->id(what->ctx, i);

		/* The lone one waits until others have proved the server well, or not. */
		if (!doubts_has(s->doubts, id) && (id != s->lone || n == 1)) {
			memmove(item + calm++ * size, item + i * size, size);
		} else if (!turn && !doubts_wait(s->doubts, id)) {
			memcpy(doubted, item + i * size, size);
			turn = true;
		}
	}
	if (calm > 0)
		well = sift(s, what, calm);
	if (turn && well) {
		memcpy(item + calm * size, doubted, size);
		sift_alone(s, what, calm);
	}
	free(doubted);
}
