/* What a loader does with what it has chosen: misfires are settled, the rest is claimed.  The
 * thread itself is loader.c. */
#include "node/loader/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "db/fault.h"
#include "node/batch.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/crews/crews.h"

#define MISFIRES_MAX 100 /* settled per look: each may write a thousand rows of history */
/* For this long after a locked row no claim waits for another, at first and at most. */
#define CONTENDED_MIN_US (3 * US_PER_S)
#define CONTENDED_MAX_US (60 * US_PER_S)
#define OVER_MAX         1000 /* rows of pgrab.hold that one claim deletes */
#define CLOCK_SET_US     US_PER_S

/* The tasks that one statement after the other is about, and what came of them. */
struct taking {
	struct loader *l;
	int64_t incarnation;
	enum beginning begin; /* claims */
	struct candidate *c;  /* sorted by id */
	size_t won;           /* claims */
	int64_t settled;      /* misfires */
	enum rc rc;           /* why they were not settled */
	struct err *err;
};

static int64_t
taking_id(void *ctx, size_t i)
{
	const struct taking *k = ctx;

	return k->c[i].id;
}

static void
take_each(struct taking *k, struct sifter *s, const struct candidate *c, size_t n,
    enum sift (*try)(void *ctx, size_t from, size_t n, int64_t within_us))
{
	const struct sifted what = {.try = try, .id = taking_id, .ctx = k};

	k->c = xcalloc(n + 1, sizeof *k->c);
	memcpy(k->c, c, n * sizeof *c);
	sift_each(s, &what, k->c, n, sizeof *c);
	free(k->c);
}

/* What is refused whatever is beside it is left alone for a while. */
static enum sift
refused(struct loader *l, const struct candidate *c, size_t n, const struct err *err)
{
	if (n > 1)
		return SIFT_REFUSED;
	doubts_refused(&l->node->doubts, c->id, err);
	return SIFT_ANSWERED;
}

static enum sift
settle(void *ctx, size_t from, size_t n, int64_t within_us)
{
	struct taking *k = ctx;
	int64_t settled = 0;
	enum rc rc = k->l->store->misfire(k->l->db, k->c + from, n, within_us, &settled, k->err);

	if (err_is_silence(rc, k->err))
		return SIFT_SILENT;
	if (fault_is_of_row(rc, k->err))
		return refused(k->l, k->c + from, n, k->err);
	k->rc = rc;
	k->settled += settled;
	if (rc == RC_OK && n == 1)
		doubts_drop(&k->l->node->doubts, k->c[from].id);
	return rc == RC_OK ? SIFT_ANSWERED : SIFT_STOP;
}

/* Tasks that misfired are not claimed as they are: first their fires are settled, then
 * they are looked at again. */
enum rc
loader_settle_misfires(
    struct loader *l, const struct candidate *c, size_t n, int64_t *settled_out, struct err *err)
{
	struct candidate *late = xcalloc(MISFIRES_MAX, sizeof *late);
	struct taking t = {.l = l, .err = err};
	size_t k = 0;

	for (size_t i = 0; i < n && k < MISFIRES_MAX; i++) {
		if (c[i].misfired && c[i].refused)
			late[k++] = c[i];
	}
	if (k > 0) {
		qsort(late, k, sizeof *late, loader_by_id);
		take_each(&t, &l->settler, late, k, settle);
	}
	free(late);
	*settled_out = t.settled;
	return t.rc;
}

/* After a claim that would have waited for a locked row. */
static void
note_contended(struct loader *l, bool contended)
{
	int64_t now = clock_mono_us();

	if (contended && l->contended_for_us == 0 &&
	    (l->contended_said_us == 0 || now >= l->contended_said_us + CONTENDED_MAX_US)) {
		l->contended_said_us = now;
		log_info("locked", "rows=claim hint=\"%s\"",
		    "another session has due tasks locked in an open transaction; the other tasks go on");
	}
	l->contended_for_us = !contended                               ? 0
			      : l->contended_for_us == 0               ? CONTENDED_MIN_US
			      : l->contended_for_us < CONTENDED_MAX_US ? 2 * l->contended_for_us
								       : CONTENDED_MAX_US;
	l->contended_until_us = now + l->contended_for_us;
}

/* The latest due time of those that were already due at the look: these took room of a crew
 * that begins them at once. */
static int64_t
last_due(const struct candidate *c, size_t n)
{
	int64_t last = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].late_us >= 0 && c[i].due_us > last)
			last = c[i].due_us;
	}
	return last;
}

/* After a lost answer: what of c[0..n) we hold, asked until that is known or we are fenced.  Not when we
 * stop: what was claimed is found by the leak repair, or by others. */
static enum rc
find_claimed(struct loader *l, const struct claim *who, const struct candidate *c, size_t n,
    struct run **chain, size_t *won_out, struct err *err)
{
	enum rc rc = RC_UNKNOWN;

	log_warn("claim_unknown", "rows=%zu error=\"%s\" hint=\"looking up what was claimed\"", n, err->text);
	l->next_durable_us = 0; /* the next connection may be to another server */
	hold_keep(who->hold);   /* what is not found now may still turn up */
	while (rc == RC_UNKNOWN && node_may_act(l->node, who->incarnation, clock_boot_us()) &&
	       gate_wait(&l->gate, clock_mono_us() + backoff_next_us(&l->backoff)) != GATE_STOPPED) {
		rc = l->store->held(l->db, who, c, n, chain, won_out, err);
		rc = rc == RC_AGAIN || rc == RC_RACE ? RC_UNKNOWN : rc;
	}
	if (rc == RC_OK)
		backoff_reset(&l->backoff);
	return rc;
}

/* How far the database's clock is ahead of ours; never too much.  What the look says of it is good enough
 * for the order of what is due, but what is planned would start late by what the look took, some
 * milliseconds: for that the clock is asked by itself. */
static int64_t
ask_clock(struct loader *l)
{
	int64_t now_us;
	struct err ignored; /* the next statement meets it, too */

	return l->store->clock(l->db, &now_us, &ignored) == RC_OK ? now_us - clock_mono_us() : l->ahead_us;
}

static bool
is_off(int64_t ahead_us, int64_t order_us)
{
	return ahead_us - order_us > CLOCK_SET_US || ahead_us - order_us < -CLOCK_SET_US;
}

void
loader_note_clock(struct loader *l)
{
	_Atomic int64_t *order = &l->node->order_ahead_us;
	int64_t was_us = atomic_load(order);

	if (!is_off(l->ahead_us, was_us))
		return;
	/* A clock was set, it is the first look, or one that took as long as that. */
	l->ahead_us = ask_clock(l);
	if (is_off(l->ahead_us, was_us))
		atomic_compare_exchange_strong(order, &was_us, l->ahead_us);
}

/* What each takes, and when it is due on our monotonic clock: never earlier than by the database's while it
 * is not due yet.  What is due is only ordered by it, and is never after latest_us.  Whose turn it was is
 * behind no older task that was claimed later: it waits for a worker by the age that the look gave it. */
static void
set_needs(
    const struct taking *k, struct run *chain, size_t from, size_t n, int64_t ahead_us, int64_t latest_us)
{
	for (struct run *r = chain; r != NULL; r = run_next(r)) {
		struct candidate key = {.id = r->id};
		const struct candidate *c = bsearch(&key, k->c + from, n, sizeof *c, loader_by_id);

		r->need = c != NULL ? c->need : r->need;
		r->due_mono_us = r->due_us - ahead_us;
		if (c != NULL && c->late_us >= 0)
			r->due_mono_us -= c->age_us - c->late_us;
		if (r->due_mono_us > latest_us)
			r->due_mono_us = latest_us;
	}
}

/* What is due begins at once, however long the statements about the others take, and the clock. */
static void
give_won(struct taking *k, struct run *chain, size_t won, size_t from, size_t n)
{
	struct loader *l = k->l;
	struct waiting due = {0}, planned = {0};
	int64_t mono_us = clock_mono_us(), now_us = mono_us + l->ahead_us;

	k->won += won;
	for (struct run *r = chain, *next; r != NULL; r = next) {
		next = run_next(r);
		if (r->started) {
			doubts_drop(&l->node->doubts, r->id);
			crews_args(l->node, r);
		}
		waiting_add_one(r->due_us > now_us ? &planned : &due, r);
	}
	set_needs(k, due.first, from, n, atomic_load(&l->node->order_ahead_us), mono_us);
	boss_give(l->node->boss, due.first, (struct room){0});
	if (planned.first == NULL)
		return;
	set_needs(k, planned.first, from, n, ask_clock(l), INT64_MAX);
	boss_give(l->node->boss, planned.first, (struct room){0});
}

/* What is started with its claim.  With every worker busy a started task would only seem to run; a pool has
 * room for what it begins, and workers soon for what is instant. */
static const char *
begun_kinds(const struct node *n, enum beginning begin)
{
	switch (begin) {
	case BEGIN_NONE: return "{}";
	case BEGIN_ALL: return n->kinds;
	case BEGIN_SOME:
	default: return atomic_load(&n->worker_soon) ? n->at_once : n->handled;
	}
}

static enum sift
claim(void *ctx, size_t from, size_t n, int64_t within_us)
{
	struct taking *k = ctx;
	struct loader *l = k->l;
	int64_t incarnation = k->incarnation;
	const struct candidate *c = k->c + from;
	int64_t over[OVER_MAX];
	struct claim who = {.node_id = atomic_load(&l->node->node_id),
	    .incarnation = incarnation,
	    .at_once = begun_kinds(l->node, k->begin),
	    .due_us = last_due(c, n),
	    .contended = clock_mono_us() < l->contended_until_us,
	    .within_us = within_us,
	    .hold = hold_open(&l->node->holds, incarnation),
	    .over = over,
	    .n_over = holds_take_over(&l->node->holds, incarnation, false, over, OVER_MAX)};
	bool known = who.contended, silent, unsure;
	struct run *chain = NULL;
	struct err err = {0};
	size_t won = 0;
	enum rc rc;

	/* What is over without a lease was dropped with it: recovery needs its rows. */
	if (!node_may_act(l->node, incarnation, clock_boot_us()))
		who.n_over = 0;
	rc = l->store->claim(l->db, &who, c, n, &chain, &won, &err);
	silent = err_is_silence(rc, &err);
	unsure = rc == RC_UNKNOWN;
	if (!known)
		note_contended(l, who.contended);
	if (rc != RC_OK)
		holds_give_back(&l->node->holds, incarnation, false, over, who.n_over);
	if (unsure) {
		atomic_fetch_add(&l->node->unsure, 1);
		rc = find_claimed(l, &who, c, n, &chain, &won, &err);
	}
	if (rc == RC_RACE || rc == RC_AGAIN)
		log_debug("claim", "answer=%s error=\"%s\"", rc_name(rc), err.text);
	else if (rc != RC_OK && !fault_is_of_row(rc, &err))
		log_error("claim", "answer=%s error=\"%s\"", rc_name(rc), err.text);
	hold_unref(who.hold);
	if (rc == RC_OK)
		give_won(k, chain, won, from, n);
	if (unsure)
		atomic_fetch_sub(&l->node->unsure, 1);
	if (fault_is_of_row(rc, &err))
		return refused(l, c, n, &err);
	if (rc != RC_OK && rc != RC_BAD)
		return SIFT_STOP;
	return silent && won == 0 ? SIFT_SILENT : SIFT_ANSWERED;
}

/* The node may have been frozen since the look, or lost its lease in the parts before this one. */
static enum sift
claim_part(void *ctx, size_t from, size_t n, int64_t within_us)
{
	const struct taking *k = ctx;

	return node_may_act(k->l->node, k->incarnation, clock_boot_us()) ? claim(ctx, from, n, within_us)
									 : SIFT_STOP;
}

static void
count_claims(struct node *n, size_t tried, size_t won, bool stolen)
{
	node_count(n, COUNT_ATTEMPTED, (int64_t)tried);
	node_count(n, COUNT_WON, (int64_t)won);
	node_count(n, COUNT_LOST, (int64_t)(tried - won));
	if (stolen)
		node_count(n, COUNT_STOLEN, (int64_t)won);
}

size_t
loader_claim(struct loader *l, int64_t incarnation, const struct candidate *c, size_t n, enum beginning begin,
    bool stolen)
{
	struct taking k = {.l = l, .incarnation = incarnation, .begin = begin};

	ASSERT_MINE(&l->only);
	take_each(&k, &l->sifter, c, n, claim_part);
	count_claims(l->node, n, k.won, stolen);
	return k.won;
}
