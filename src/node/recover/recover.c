/*
 * Recover.  Never returns while the node runs, whatever the database says; sleeps at a gate until a node is
 * dead or a round is due.
 *
 *   dead node  Every node that saw it tries to mark the row down; the one whose update goes through puts the
 *              tasks back.  If that one dies before it is done, the tasks are orphans.
 *   orphans    Rows held by an incarnation that no node that is up has.  Looked for now and then by the
 *              first of the live nodes; when it falls silent another one is first.  It may be unable to: each
 *              minute one of the others looks as well, in turn.
 *   leaks      Rows this node holds in the database but not in memory (leaks.c).
 *   duties     What must be done once in the cluster, by the first node as well: lines of limits (also by
 *              nodes whose own tasks wait in one), lanes, partitions of the history, alerts.
 *   waits      Tasks whose signal has not come in time, by the first node, at that moment (waits.c).
 */
#include "node/recover/recover.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "node/context.h"
#include "node/recover/private.h"

#define DUTIES_EVERY_US (6 * US_PER_S)
#define DUTIES_QUIET_US (60 * US_PER_S)
#define QUIET_AFTER_US  (30 * US_PER_S) /* that no node came, went or had anything in hand */
#define LEAKS_EVERY_US  (15 * US_PER_S)
#define UPKEEP_EVERY_US (3600 * US_PER_S)
#define TURN_US         (60 * US_PER_S)
#define TELL_US         US_PER_S
#define COMPLAIN_US     (60 * US_PER_S)
#define OVER_MAX        1000            /* rows of pgrab.hold at once */
#define KEEP_US         (20 * US_PER_S) /* the connection, after a claim; longer than LEAKS_EVERY_US */

void
recover_dead(struct recover *r, const struct member *m)
{
	WITH_LOCK(&r->lock);
	if (r->n_suspects < DEAD_MAX) {
		struct suspect *s = &r->suspect[r->n_suspects++];

		*s = (struct suspect){.id = m->id,
		    .incarnation = m->incarnation,
		    .beat = m->beat,
		    .life = m->life,
		    .silent_us = m->silent_us};
		snprintf(s->name, sizeof s->name, "%s", m->name);
	}
	gate_ring(&r->gate);
}

void
recover_own_ended(struct recover *r, int64_t incarnation)
{
	WITH_LOCK(&r->lock);
	r->own = incarnation;
	gate_ring(&r->gate);
}

void
recover_line(struct recover *r)
{
	atomic_store(&r->line, true);
}

void
recover_notice(struct recover *r)
{
	atomic_store(&r->notice, true);
	gate_ring(&r->gate);
}

static void
bury(struct recover *r, const struct suspect *s)
{
	struct member m = {.id = s->id, .incarnation = s->incarnation, .beat = s->beat, .life = s->life};
	struct err err = {0};
	int64_t ended = 0;
	enum rc rc;

	/* A server that shuts down lets old sessions go on and takes no new ones: whom it refuses relies on
	 * that (ADR 29). */
	r->store->disconnect(r->db);
	rc = r->store->node_declare_dead(r->db, &m, &ended, &err);

	if (rc == RC_OK) {
		log_warn("node_dead",
		    "name=%s incarnation=%" PRId64 " silent_ms=%" PRId64 " sql_ended=%" PRId64, s->name,
		    s->incarnation, s->silent_us / US_PER_MS, ended);
		if (!recover_sweep(r, s->incarnation))
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
	if (own != 0 && recover_sweep(r, own)) {
		WITH_LOCK(&r->lock);
		r->own = r->own == own ? 0 : r->own;
	}
}

static bool
is_quiet(const struct recover *r, int64_t now)
{
	return now - r->stir_us >= QUIET_AFTER_US;
}

/* Takes the newest picture of the cluster, and notes when a node has come, gone or has something in hand. */
static void
look_around(struct recover *r, int64_t now)
{
	struct cluster *c = cluster_slot_get(&r->node->cluster);
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
}

/* What must be done once in the whole cluster is done by the first of the live nodes: when it falls silent
 * the next one is first.  It does no harm if two think so for a moment. */
static bool
is_first(const struct recover *r)
{
	const struct cluster *c = r->cluster;

	return c != NULL && (c->view.self == 0 || c->view.n_nodes == 0);
}

/* So all nodes together ask once a minute, however many they are. */
static bool
is_its_turn(struct recover *r)
{
	const struct cluster *c = r->cluster;
	int64_t minute = clock_wall_us() / TURN_US, before = r->minute;

	r->minute = minute;
	return before != minute && c != NULL && c->view.n_nodes > 0 &&
	       (size_t)minute % c->view.n_nodes == c->view.self;
}

/* A node's claims delete what is over, unless it is doubted; this is for the last of them. */
static void
drop_holds(struct recover *r, int64_t now)
{
	struct holds *holds = &r->node->holds;
	int64_t incarnation = atomic_load(&r->node->incarnation), over[OVER_MAX], last = holds_last(holds);
	bool claims = last != r->last_claim;
	struct err err = {0};
	size_t n;

	r->claims_us = claims ? now : r->claims_us;
	r->last_claim = last;
	if (claims && !holds_doubted(holds))
		return;
	n = holds_take_over(holds, incarnation, true, over, OVER_MAX);
	/* What is over without a lease was dropped with it: recovery needs its rows. */
	if (n == 0 || !node_may_act(r->node, incarnation, clock_boot_us()))
		return;
	if (r->store->hold_drop(r->db, incarnation, over, &n, &err) == RC_OK && n > 0)
		r->clean = 0; /* something is held of which no thread knows */
	/* Looking twice at what needed no look does no harm. */
	holds_give_back(holds, incarnation, true, over, n);
}

static void
keep_up(struct recover *r, int64_t now)
{
	struct err err = {0};
	enum rc rc;

	if (now < r->next_upkeep_us)
		return;
	rc = r->store->upkeep(r->db, r->node->set->retention_us, &err);
	if (rc != RC_OK)
		log_warn("upkeep", "answer=%s error=\"%s\"", rc_name(rc), err.text);
	r->next_upkeep_us = now + (rc == RC_OK ? UPKEEP_EVERY_US : 30 * US_PER_S);
}

/* A fault of the statement comes again each time, and nobody else would hear of it. */
void
recover_failed(struct recover *r, const char *what, enum rc rc, const struct err *err)
{
	int64_t now = clock_mono_us();

	if (rc != RC_BAD || now < r->complain_us) {
		log_debug(what, "answer=%s error=\"%s\"", rc_name(rc), err->text);
		return;
	}
	r->complain_us = now + COMPLAIN_US;
	log_warn(what, "error=\"%s\" hint=\"%s\"", err->text,
	    "no node does this until it works: pgrab migrate --status tells of the schema");
}

/* Alerts, for up to a second; what is left then is told in the next rounds. */
static void
tell(struct recover *r, int64_t now)
{
	struct err err = {0};
	int64_t told;
	enum rc rc;
	bool left;

	atomic_store(&r->notice, false);
	do {
		rc = r->store->tell(r->db, &told, &left, &err);
		if (rc != RC_OK) {
			recover_failed(r, "tell", rc, &err);
			left = true;
			break;
		}
	} while (left && told > 0 && clock_mono_us() < now + TELL_US);
	if (left)
		atomic_store(&r->notice, true);
}

/* What the first node does for all, and every node for the lines that it has put a task in. */
static void
do_duties(struct recover *r, bool first, int64_t now)
{
	struct duties_left left;
	struct err err = {0};
	enum rc rc;
	bool asked, answered;

	if (first)
		keep_up(r, now);
	asked = atomic_exchange(&r->line, false);
	rc = r->store->duties(r->db, &left, &err);
	answered = rc == RC_OK;
	if (!answered)
		recover_failed(r, "duties", rc, &err);
	if (left.line || (asked && !answered))
		atomic_store(&r->line, true);
	if (left.upkeep)
		keep_up(r, now);
	if (left.orphans) {
		r->stir_us = now;
		recover_sweep(r, 0);
	}
	recover_end_waits(r, now);
	tell(r, now);
	r->next_duties_us = now + (left.strays                       ? 0
				      : answered && is_quiet(r, now) ? DUTIES_QUIET_US
								     : DUTIES_EVERY_US);
}

/* Returns whether this node will be asked again soon. */
static bool
routine(struct recover *r)
{
	int64_t now = clock_mono_us();
	bool first, line = atomic_load(&r->line);

	look_around(r, now);
	first = is_first(r);
	drop_holds(r, now);
	if (line || (first ? now >= r->next_duties_us : is_its_turn(r)))
		do_duties(r, first, now);
	else if (first && atomic_load(&r->notice))
		tell(r, now);
	if (first && (now >= r->next_waits_us || atomic_load(&r->waits)))
		recover_end_waits(r, now);
	if (now >= r->next_leaks_us) {
		bool idle = atomic_load(&r->node->in_hand) == 0;

		r->next_leaks_us = now + (!recover_leaks(r, idle) ? US_PER_S
					     : idle               ? 4 * LEAKS_EVERY_US
								  : LEAKS_EVERY_US);
	}
	return line || now < r->claims_us + KEEP_US || (first && atomic_load(&r->notice)) ||
	       (first &&
		   (r->next_duties_us <= now + DUTIES_EVERY_US || r->next_waits_us <= now + DUTIES_EVERY_US));
}

bool
recover_round(struct recover *r)
{
	bool asks;

	if (gate_wait(&r->gate, r->next_us) == GATE_STOPPED)
		return false;
	ASSERT_MINE(&r->only);
	asks = node_may_act(r->node, atomic_load(&r->node->incarnation), clock_boot_us());
	if (asks) {
		bury_all(r);
		if (!routine(r) && atomic_load(&r->node->in_hand) == 0)
			db_disconnect(r->db);
	}
	r->next_us = clock_mono_us() + US_PER_S; /* it may be first by then, or have a lease */
	if (asks && is_first(r) && r->next_us > r->next_waits_us)
		r->next_us = r->next_waits_us;
	return true;
}

THREAD_OF_ROUNDS(recover_main, struct recover, recover_round)

struct recover *
recover_create(struct node *n)
{
	struct recover *r = xcalloc(1, sizeof *r);

	r->node = n;
	r->store = n->store;
	r->db = node_db(n, "recover");
	r->sifter.doubts = &n->doubts;
	gate_init(&r->gate);
	PTHREAD_OK(pthread_mutex_init(&r->lock, NULL));
	r->next_leaks_us = clock_mono_us() + LEAKS_EVERY_US;
	r->minute = clock_wall_us() / TURN_US;
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
	one_thread_leave(&(*r)->only);
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
