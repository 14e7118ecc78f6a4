/*
 * Tasks about which the server is silent: the statement that claims them, settles their missed fires or
 * starts them has no answer in time, whatever else it is about (a trigger of the user's that waits).
 *
 * Such a statement is sifted: tried again in eighths, level by level, until the silence is that of single
 * tasks.  These are doubted.  Each is left alone for a while, a longer one each time, then tried by itself,
 * so it costs the others little.  When nothing is answered the fault is the server's: nobody is doubted, and
 * the next statement gets more time.  (What the finisher does about outcomes is in finisher/aside.c: it has a
 * connection to spare for them.)
 *
 * A task that is refused whatever is beside it is doubted, too.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

#define DOUBTS_MAX 64 /* one more, and the one that is tried soonest is forgotten: it will be sifted again */

struct doubt {
	int64_t id;
	int64_t next_us; /* clock_mono_us: not before this */
	unsigned tries;  /* in vain, by itself or as the last one of a sift */
};

/* Embedded in struct node; any thread. */
struct doubts {
	pthread_mutex_t lock;
	_Atomic size_t count;
	struct doubt item[DOUBTS_MAX];
};

void doubts_init(struct doubts *ds);
void doubts_fini(struct doubts *ds);

bool doubts_has(struct doubts *ds, int64_t id);
/* Is it to be left alone now? */
bool doubts_wait(struct doubts *ds, int64_t id);
/* An array for the server; NULL: none.  Forgets those that were not met again when their time had come. */
const char *doubts_print(struct doubts *ds, struct buf *out);
/* The server has refused it, by itself: it is left alone for a while, as after a silence. */
void doubts_refused(struct doubts *ds, int64_t id, const struct err *err);
/* It has started: no more of it.  Nothing if it is not among them. */
void doubts_drop(struct doubts *ds, int64_t id);

enum sift {
	SIFT_ANSWERED, /* whatever the answer */
	SIFT_SILENT,   /* and the server knows nothing of it */
	SIFT_REFUSED,  /* several, of which some single ones may be at fault */
	SIFT_STOP,     /* no connection, fenced, or stopped */
};

/* The tasks of a statement. */
struct sifted {
	enum sift (*try)(void *ctx, size_t from, size_t n, int64_t within_us);
	int64_t (*id)(void *ctx, size_t i);
	void *ctx;
};

/* For one thread and its kind of statement. */
struct sifter {
	struct doubts *doubts;
	int64_t patience_us; /* for the next whole statement; 0: as at first */
	int64_t took_us;     /* a whole statement that was answered: the slowest of late */
	int64_t lone;        /* the task that was the whole of a silent one; 0: none */
};

/* Tries n tasks, none of which is doubted.  Returns whether the server has answered anything. */
bool sift(struct sifter *s, const struct sifted *what, size_t n);
/* Tries one that is doubted, or that others have proved to be the reason of a silence. */
void sift_alone(struct sifter *s, const struct sifted *what, size_t i);
/* Tries those of the n items (what->ctx has them) that are not doubted, and, if the server answers, one of
 * the others whose time has come.  Moves them. */
void sift_each(struct sifter *s, const struct sifted *what, void *items, size_t n, size_t size);
