/*
 * Recover.  Never returns while the node runs, whatever the database says; sleeps at a gate until a node is
 * dead or a round is due.
 *
 *   dead node  Every node that saw it tries to mark the row down; the one whose update goes through puts the
 *              tasks back.  If that one dies before it is done, the tasks are orphans.
 *   orphans    Rows held by an incarnation that no node that is up has.  Looked for now and then by the
 *              first of the live nodes; when it falls silent another one is first.
 *   leaks      Rows this node holds in the database but not in memory (a lost reply): back they go.
 *   duties     What must be done once in the cluster, by the first node as well: lines of limits,
 *              lanes, partitions of the history.
 */
#include "node/recover.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "node/boss.h"
#include "node/context.h"

#define DUTIES_EVERY_US (6 * US_PER_S) /* where there are no limits, whose lines move with the clock */
#define DUTIES_QUIET_US (60 * US_PER_S)
#define QUIET_AFTER_US  (30 * US_PER_S) /* that no node came, went or had anything in hand */
#define LEAKS_EVERY_US  (15 * US_PER_S)
#define LEAK_AGE_US     (2 * CALL_TIMEOUT_US) /* older than any reply that may still come */
#define UPKEEP_EVERY_US (3600 * US_PER_S)
#define OVER_MAX        1000 /* rows of pgrab.hold at once */
#define DEAD_MAX        64   /* noticed at once; the others are reported again with the next heartbeat */

struct suspect {
	int64_t id, incarnation, beat;
	char name[64];
	int64_t silent_us;
};

struct recover {
	struct node *node; /* borrowed */
	pthread_t thread;
	struct gate gate;

	/* shared, under lock */
	pthread_mutex_t lock;
	struct suspect suspect[DEAD_MAX];
	size_t n_suspects;
	int64_t own; /* an old incarnation of ours to put back, or 0 */

	/* owned by the thread */
	struct owner owner;
	const struct store *store;
	struct db *db;
	int64_t next_us; /* round */
	int64_t next_duties_us, next_leaks_us, next_upkeep_us;
	struct cluster *cluster; /* a reference to the picture of the last round, or NULL */
	int64_t stir_us;         /* when a node last came, went or had something in hand, or left it behind */
	int64_t batch;           /* our last claim, when leaks were last looked for */
	int clean;               /* times in a row that nothing was in hand, and no leak was found */
};

void
recover_dead(struct recover *r, const struct member *m)
{
	PTHREAD_OK(pthread_mutex_lock(&r->lock));
	if (r->n_suspects < DEAD_MAX) {
		struct suspect *s = &r->suspect[r->n_suspects++];

		*s = (struct suspect){
		    .id = m->id, .incarnation = m->incarnation, .beat = m->beat, .silent_us = m->silent_us};
		snprintf(s->name, sizeof s->name, "%s", m->name);
	}
	PTHREAD_OK(pthread_mutex_unlock(&r->lock));
	gate_ring(&r->gate);
}

void
recover_own_ended(struct recover *r, int64_t incarnation)
{
	PTHREAD_OK(pthread_mutex_lock(&r->lock));
	r->own = incarnation;
	PTHREAD_OK(pthread_mutex_unlock(&r->lock));
	gate_ring(&r->gate);
}

static bool
sweep(struct recover *r, int64_t incarnation)
{
	struct recovered got;
	struct err err = {0};
	enum rc rc;

	owners_end_orphans(&r->node->owners, r->db);
	rc = r->store->recover(r->db, r->node->set->name, incarnation, &got, &err);

	if (rc != RC_OK) {
		log_warn("recover", "answer=%s error=\"%s\"", rc_name(rc), err.text);
		return false;
	}
	if (got.sql_kept > 0)
		log_warn("sql_not_ended", "backends=%" PRId64 " hint=\"%s\"", got.sql_kept,
		    "their tasks wait until a role that has the right ends them");
	if (got.all > 0)
		log_info("recovered", "tasks=%" PRId64 " had_run=%" PRId64 " parked=%" PRId64, got.all,
		    got.running, got.parked);
	node_count(r->node, COUNT_RECOVERED, got.all);
	return true;
}

static void
bury(struct recover *r, const struct suspect *s)
{
	struct member m = {.id = s->id, .incarnation = s->incarnation, .beat = s->beat};
	struct err err = {0};
	int64_t ended = 0;
	enum rc rc = r->store->node_declare_dead(r->db, &m, &ended, &err);

	if (rc == RC_OK) {
		log_warn("node_dead",
		    "name=%s incarnation=%" PRId64 " silent_ms=%" PRId64 " sql_ended=%" PRId64, s->name,
		    s->incarnation, s->silent_us / US_PER_MS, ended);
		if (!sweep(r, s->incarnation))
			r->next_duties_us = 0; /* nobody else will look so soon: it is down now */
	} else if (rc != RC_LOST && rc != RC_RACE) {
		log_warn("declare_dead", "name=%s answer=%s error=\"%s\"", s->name, rc_name(rc), err.text);
	}
}

static void
bury_all(struct recover *r)
{
	struct suspect copy[DEAD_MAX];
	size_t n;
	int64_t own;

	PTHREAD_OK(pthread_mutex_lock(&r->lock));
	n = r->n_suspects;
	memcpy(copy, r->suspect, n * sizeof *copy);
	r->n_suspects = 0;
	own = r->own;
	PTHREAD_OK(pthread_mutex_unlock(&r->lock));
	for (size_t i = 0; i < n; i++)
		bury(r, &copy[i]);
	if (own != 0 && sweep(r, own)) {
		PTHREAD_OK(pthread_mutex_lock(&r->lock));
		r->own = r->own == own ? 0 : r->own;
		PTHREAD_OK(pthread_mutex_unlock(&r->lock));
	}
}

/* Claimed leaks go back as they are; running ones have lost their run, and that is recorded.  False: the
 * server could not do it now. */
static bool
put_back(struct recover *r, int64_t incarnation, const struct owned *rows, size_t n)
{
	struct recorder who = {
	    .node_id = atomic_load(&r->node->node_id), .node = r->node->set->name, .contended = true};
	struct err err = {0};

	for (size_t i = 0; i < n; i++) {
		enum rc rc;

		if (rows[i].running) {
			struct finish f = {.id = rows[i].id,
					  .version = rows[i].version,
					  .incarnation = incarnation,
					  .outcome = OUTCOME_LOST,
					  .error = "the node lost track of this run"},
				      *one = &f;

			rc = r->store->finish(r->db, &who, &one, 1, &err);
			if (rc == RC_OK && f.locked)
				continue; /* by another session; the next round will see */
		} else {
			const struct holder holder = {.incarnation = incarnation, .contended = true};
			struct run run = {.id = rows[i].id, .version = rows[i].version}, *one = &run;
			int64_t released;

			rc = r->store->release(r->db, &holder, &one, 1, &released, &err);
			if (rc == RC_OK && run.place.locked)
				continue;
		}
		log_warn("leak", "task=%" PRId64 " running=%d answer=%s", rows[i].id, rows[i].running,
		    rc_name(rc));
		if (rc != RC_OK && rc != RC_BAD) /* a row that is refused harms no other */
			return false;
	}
	return true;
}

/* Only what was claimed can leak.  Two looks while nothing is in hand: at the first it may be too young. */
static bool
may_leak(struct recover *r)
{
	int64_t batch = holds_last(&r->node->holds);
	bool idle = atomic_load(&r->node->in_hand) == 0 && batch == r->batch;

	r->batch = batch;
	if (!idle)
		r->clean = 0;
	return r->clean < 2;
}

/* False: could not look, or could not put back what was found; try again soon. */
static bool
repair_leaks(struct recover *r)
{
	int64_t incarnation = atomic_load(&r->node->incarnation);
	struct owned *rows = NULL;
	size_t n = 0;
	struct err err = {0};
	bool done = true;

	if (incarnation == 0 || !may_leak(r))
		return true;
	r->clean += atomic_load(&r->node->in_hand) == 0;
	if (r->store->own(r->db, incarnation, LEAK_AGE_US, &rows, &n, &err) != RC_OK) {
		log_warn("leaks", "error=\"%s\"", err.text);
		r->clean = 0;
		return false;
	}
	if (n > 0)
		r->clean = 0;
	if (n > 0)
		n = boss_leaks(r->node->boss, rows, n);
	if (atomic_load(&r->node->incarnation) == incarnation)
		done = put_back(r, incarnation, rows, n);
	free(rows);
	return done;
}

static bool
is_quiet(const struct recover *r, int64_t now)
{
	return now - r->stir_us >= QUIET_AFTER_US;
}

/* What must be done once in the whole cluster is done by the first of the live nodes: when it falls silent
 * the next one is first.  It does no harm if two think so for a moment. */
static bool
is_first(struct recover *r, int64_t now)
{
	struct cluster *c = cluster_slot_get(&r->node->cluster);
	bool first = c != NULL && (c->view.self == 0 || c->view.n_nodes == 0);
	bool held = false;

	for (size_t i = 0; c != NULL && i < c->view.n_nodes; i++)
		held = held || c->view.nodes[i].in_hand > 0;
	if (held || !cluster_same_shape(c, r->cluster)) {
		r->stir_us = now;
		if (r->next_duties_us > now + DUTIES_EVERY_US)
			r->next_duties_us = now + DUTIES_EVERY_US;
	}
	cluster_put(&r->node->cluster, r->cluster);
	r->cluster = c;
	return first;
}

/* A busy node's claims delete what is over; this is for the last of them. */
static void
drop_holds(struct recover *r)
{
	int64_t incarnation = atomic_load(&r->node->incarnation), over[OVER_MAX];
	size_t n = holds_take_over(&r->node->holds, incarnation, over, OVER_MAX);
	struct err err = {0};

	/* What is over without a lease was dropped with it: recovery needs its rows. */
	if (!node_may_act(r->node, incarnation, clock_boot_us()))
		return;
	if (n > 0 && r->store->hold_drop(r->db, incarnation, over, n, &err) != RC_OK)
		holds_give_back(&r->node->holds, incarnation, over, n);
}

/* What the first node does for all. */
static void
do_duties(struct recover *r, int64_t now)
{
	struct err err = {0};
	bool limits = false, orphans = false;

	if (now >= r->next_upkeep_us) {
		enum rc rc = r->store->upkeep(r->db, r->node->set->retention_us, &err);

		if (rc != RC_OK)
			log_warn("upkeep", "answer=%s error=\"%s\"", rc_name(rc), err.text);
		r->next_upkeep_us = now + (rc == RC_OK ? UPKEEP_EVERY_US : 30 * US_PER_S);
	}
	if (r->store->duties(r->db, &limits, &orphans, &err) != RC_OK)
		log_debug("duties", "error=\"%s\"", err.text);
	if (orphans) {
		r->stir_us = now;
		sweep(r, 0);
	}
	r->next_duties_us = now + (limits ? US_PER_S : is_quiet(r, now) ? DUTIES_QUIET_US : DUTIES_EVERY_US);
}

/* Returns whether this node will be asked again soon. */
static bool
routine(struct recover *r)
{
	int64_t now = clock_mono_us();
	bool first = is_first(r, now);

	drop_holds(r);
	if (first && now >= r->next_duties_us)
		do_duties(r, now);
	if (now >= r->next_leaks_us) {
		bool idle = atomic_load(&r->node->in_hand) == 0;

		r->next_leaks_us = now + (!repair_leaks(r) ? US_PER_S
					     : idle        ? 4 * LEAKS_EVERY_US
							   : LEAKS_EVERY_US);
	}
	return first && r->next_duties_us <= now + DUTIES_EVERY_US;
}

bool
recover_round(struct recover *r)
{
	if (gate_wait(&r->gate, r->next_us) == GATE_STOPPED)
		return false;
	ASSERT_OWNED(&r->owner);
	if (node_may_act(r->node, atomic_load(&r->node->incarnation), clock_boot_us())) {
		bury_all(r);
		if (!routine(r) && atomic_load(&r->node->in_hand) == 0)
			db_disconnect(r->db);
	}
	r->next_us = clock_mono_us() + US_PER_S; /* it may be first by then */
	return true;
}

static void *
recover_main(void *arg)
{
	struct recover *r = arg;

	owner_take(&r->owner);
	while (recover_round(r))
		;
	return NULL;
}

struct recover *
recover_create(struct node *n)
{
	struct recover *r = xcalloc(1, sizeof *r);

	r->node = n;
	r->store = n->store;
	r->db = node_db(n, "recover");
	gate_init(&r->gate);
	PTHREAD_OK(pthread_mutex_init(&r->lock, NULL));
	r->next_leaks_us = clock_mono_us() + LEAKS_EVERY_US;
	return r;
}

void
recover_start(struct recover *r)
{
	thread_start(&r->thread, "recover", recover_main, r);
}

void
recover_stop(struct recover **r)
{
	if (*r == NULL)
		return;
	gate_stop(&(*r)->gate);
	thread_join((*r)->thread);
	owner_leave(&(*r)->owner);
	recover_destroy(r);
}

void
recover_destroy(struct recover **rp)
{
	struct recover *r = *rp;

	if (r == NULL)
		return;
	cluster_put(&r->node->cluster, r->cluster);
	db_destroy(&r->db);
	gate_fini(&r->gate);
	PTHREAD_OK(pthread_mutex_destroy(&r->lock));
	free(r);
	*rp = NULL;
}
