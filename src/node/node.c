/* Start and stop of a node; the orders and their reasons. */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "keeper/keeper.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/control.h"
#include "node/crews/crews.h"
#include "node/crews/http_crew.h"
#include "node/farewell.h"
#include "node/finisher/finisher.h"
#include "node/handlers/handlers.h"
#include "node/heartbeat/heartbeat.h"
#include "node/last_resort.h"
#include "node/loader/loader.h"
#include "node/owners/logins.h"
#include "node/recover/recover.h"
#include "node/signals.h"
#include "node/starter/starter.h"
#include "node/runs/teller.h"
#include "node/runs/worker.h"

static void
add_kind(void *array, const char *kind)
{
	pgarray_text(array, kind);
}

struct room_text {
	const struct node *node;
	struct buf text;
};

static void
add_room(void *ctx, const char *kind)
{
	struct room_text *t = ctx;

	buf_adds(&t->text, t->text.len == 0 ? "{" : ",");
	buf_json(&t->text, kind);
	buf_addf(&t->text, ":%" PRId64, crews_room(t->node, kind));
}

static char *
room_json(const struct node *n)
{
	struct room_text t = {.node = n};

	crews_kinds(n, add_room, &t);
	buf_adds(&t.text, t.text.len == 0 ? "{}" : "}");
	return buf_steal(&t.text);
}

/* The kinds, as array texts for SQL. */
static void
kind_arrays(struct node *n)
{
	AUTO_ARRAY struct pgarray all = {0}, at_once = {0}, handled = {0};

	for (size_t i = 0; i < exec_set_count(n->execs); i++) {
		const struct pgrab_executor *ex = exec_set_at(n->execs, i);

		pgarray_text(&all, ex->kind);
		if (ex->flags & PGRAB_EXECUTOR_INSTANT)
			pgarray_text(&at_once, ex->kind);
	}
	handlers_kinds(n->handlers, add_kind, &all);
	crews_kinds(n, add_kind, &at_once);
	crews_kinds(n, add_kind, &handled);
	n->kinds = xstrdup(pgarray_str(&all));
	n->at_once = xstrdup(pgarray_str(&at_once));
	n->handled = xstrdup(pgarray_str(&handled));
	n->room = room_json(n);
}

static enum rc
start_keeper(struct node *n, struct err *err)
{
	struct keeper_setup setup = {.kill_grace_us = n->set->kill_grace_us,
	    .cgroups = n->set->job_cgroups == 0,
	    .farewell = FAREWELL_ARGV1};
	enum rc rc = farewell_will(n->set, &n->will_fd, err);

	setup.will_fd = n->will_fd;
	return rc == RC_OK ? keeper_start(&n->keeper, &setup, err) : rc;
}

/* What is fenced while it waits for the server must be done with that in time. */
static int64_t
call_us(const struct settings *set)
{
	int64_t most = 10 * US_PER_S; /* as any call */
	int64_t left = lease_ending_us(set->fence_after_us, set->dead_after_us) - 500 * US_PER_MS;

	return left < most ? left : most;
}

/* Before anything else: the executors, and the keeper, which runs children and reports our death. */
static enum rc
prepare(struct node *n, struct err *err)
{
	enum rc rc = exec_set_create(n->set->allow, n->set->executors, &n->execs, err);
	AUTO_FREE char *labels = NULL;

	if (rc == RC_OK)
		rc = settings_labels_json(n->set->labels, &labels, err);
	if (rc == RC_OK) {
		atomic_store(&n->labels, texts_keep(&n->own_labels, labels));
		rc = owners_make(&n->owners, n->set, err);
	}
	if (rc == RC_OK)
		rc = settings_bounds(n->set, &n->bounds, err);
	if (rc == RC_OK)
		rc = start_keeper(n, err);
	if (rc == RC_OK)
		rc = handlers_create(n, &n->handlers, err);
	if (rc == RC_OK)
		rc = http_crew_create(n, &n->http_crew, err);
	if (rc == RC_OK) /* after the keeper has started: what it runs has the limit that we were given */
		rc = descriptors_provide(n, n->set->workers, err);
	if (rc != RC_OK)
		return rc;
	kind_arrays(n);
	n->exec_env = (struct exec_env){.keeper = n->keeper,
	    .dsn = n->set->dsn == NULL ? "" : n->set->dsn,
	    .node_name = n->set->name,
	    .node_id = &n->node_id,
	    .bounds = &n->bounds,
	    .callback_url = n->set->callback_url,
	    .superuser_ok = n->set->allow_superuser,
	    .kill_grace_us = n->set->kill_grace_us,
	    .call_us = call_us(n->set)};
	return rc;
}

/* Those that are started and stopped here; the others are reached through struct node. */
struct threads {
	struct heartbeat *heartbeat;
	struct finisher *finisher;
	struct workers *workers;
	struct starter *starter;
	struct loaders *loaders;
	struct logins *logins;
};

static void
tell_busy(void *ctx)
{
	heartbeat_ring(ctx);
}

static void
ring_lanes(void *loaders)
{
	loaders_ring_lanes(loaders);
}

/* Consumers before producers, so that nothing waits for a thread that is not there; loaders last. */
static void
start_threads(struct node *n, struct threads *t)
{
	boss_on_room(n->boss, loaders_wake, t->loaders);
	boss_on_busy(n->boss, tell_busy, t->heartbeat);
	n->teller = n->lives.teller = teller_start(n);
	t->logins = logins_start(n, ring_lanes, t->loaders);
	n->exec_env.login_failed = logins_failed;
	n->exec_env.login_ctx = t->logins;
	finisher_start(t->finisher);
	t->workers = workers_start(n);
	starter_start(t->starter);
	boss_start(n->boss);
	handlers_start(n->handlers);
	http_crew_start(n->http_crew, crews_count(n) - 1);
	recover_start(n->recover);
	heartbeat_start(t->heartbeat, loaders_wake, t->loaders);
	loaders_start(t->loaders);
}

static void
drain(struct node *n)
{
	enum control_end end;

	boss_drain(n->boss);
	end = control_drain(n);
	if (end != CONTROL_STOP) {
		boss_stop_runs(n->boss, PGRAB_STOP_SHUTDOWN);
		/* TERM, grace, KILL, and the outcome written: bounded, because a supervisor waits for us. */
		boss_wait_empty(n->boss, clock_mono_us() + n->set->kill_grace_us + 2 * US_PER_S);
	}
}

/* No new claims; what is unstarted goes back at once; what runs may end.  The heartbeat keeps the
 * lease until nothing is in hand, and then goes first, because it calls the others. */
static void
stop_threads(struct node *n, struct threads *t, enum control_end why)
{
	struct last_resort last;
	bool empty = true;

	last_resort_start(&last, n, why);
	atomic_store(&n->leaving, true);
	heartbeat_ring(t->heartbeat); /* its beat tells the others to take over our shards */
	loaders_stop(t->loaders);
	if (why == CONTROL_STOP) {
		drain(n);
	} else {
		boss_stop_runs(n->boss, PGRAB_STOP_SHUTDOWN);
		boss_wait_empty(n->boss, clock_mono_us() + n->set->kill_grace_us + 2 * US_PER_S);
	}
	if (!boss_wait_empty(n->boss, 0)) {
		gate_stop(&n->stop_now);
		empty = boss_wait_empty(n->boss, clock_mono_us() + US_PER_S);
	}
	if (!empty) {
		/* The server is out of reach, or a run does not end: others find
		 * what we held by our silence. */
		log_error("not_drained", "in_hand=%" PRId64, atomic_load(&n->in_hand));
		keeper_no_grace(n->keeper, clock_mono_us() + US_PER_S);
		log_flush();
		_exit(1); /* threads still run: nothing may be torn down under them */
	}
	heartbeat_stop(&t->heartbeat, true);
	recover_stop(&n->recover);
	mailbox_close(n->start_queue);
	starter_stop(t->starter);
	mailbox_close(n->run_queue);
	workers_stop(&t->workers);
	logins_stop(&t->logins);
	handlers_stop(n->handlers);
	http_crew_stop(n->http_crew);
	teller_stop(&n->teller);
	mailbox_close(n->finish_queue);
	finisher_stop(t->finisher);
	finisher_destroy(&t->finisher);
	boss_stop(n->boss);
	last_resort_end(&last);
}

static enum rc
run(struct node *n, struct err *err)
{
	struct threads threads = {0};
	enum control_end why;
	enum rc rc = node_meet_database(n, err);

	if (rc == RC_OK)
		rc = loaders_create(n, &threads.loaders, err);
	if (rc != RC_OK)
		goto out;
	atomic_store(&n->worker_soon, true);
	n->boss = boss_create(n);
	n->recover = recover_create(n);
	n->start_queue = mailbox_create();
	n->run_queue = mailbox_create();
	n->finish_queue = mailbox_create();
	n->back_queue = mailbox_create();
	threads.starter = starter_create(n);
	threads.finisher = finisher_create(n);
	rc = heartbeat_create(n, &threads.heartbeat, err);
	if (rc != RC_OK)
		goto out;
	start_threads(n, &threads);
	log_info("up", "node=%s version=%s strategy=%s workers=%" PRId64 " kinds=%s", n->set->name,
	    version_text(), n->set->strategy, n->set->workers, n->set->allow);
	why = control_run(n, threads.loaders, threads.heartbeat, threads.workers);
	log_info(
	    "stopping", "in_hand=%" PRId64 " running=%" PRId64, atomic_load(&n->in_hand), node_running(n));
	stop_threads(n, &threads, why);
	rc = why == CONTROL_BROKEN ? err_set(err, RC_FATAL, "the keeper process died") : RC_OK;
out:
	loaders_destroy(&threads.loaders);
	starter_destroy(&threads.starter);
	finisher_destroy(&threads.finisher);
	recover_destroy(&n->recover);
	boss_destroy(&n->boss);
	return rc;
}

static void
fini(struct node *n)
{
	http_crew_destroy(&n->http_crew);
	handlers_destroy(&n->handlers);
	keeper_stop(&n->keeper);
	if (n->will_fd >= 0)
		close(n->will_fd);
	exec_set_destroy(&n->execs);
	cluster_slot_fini(&n->cluster);
	holds_fini(&n->holds);
	doubts_fini(&n->doubts);
	lives_fini(&n->lives);
	achieved_fini(&n->achieved);
	gate_fini(&n->stop_now);
	mailbox_destroy(&n->start_queue);
	mailbox_destroy(&n->run_queue);
	mailbox_destroy(&n->finish_queue);
	mailbox_destroy(&n->back_queue);
	bounds_fini(&n->bounds);
	owners_fini(&n->owners);
	texts_fini(&n->own_labels);
	texts_fini(&n->overrides);
	free(n->kinds);
	free(n->at_once);
	free(n->handled);
	free(n->room);
}

int
node_main(const struct settings *set)
{
	struct node n = {.set = set,
	    .store = &store_postgres,
	    .will_fd = -1,
	    .weight = set->weight,
	    .workers = set->workers};
	struct err err = {0};
	enum rc rc;

	log_init((enum log_level)set->log_level, (enum log_format)set->log_format, set->name);
	log_thread("main");
	signals_block();
	cluster_slot_init(&n.cluster);
	gate_init(&n.stop_now);
	holds_init(&n.holds);
	doubts_init(&n.doubts);
	lives_init(&n.lives);
	achieved_init(&n.achieved);
	rc = log_start(&err);
	if (rc == RC_OK)
		rc = prepare(&n, &err);
	if (rc == RC_OK)
		rc = run(&n, &err);
	if (rc == RC_OK || rc == RC_CLOSED)
		log_info("stopped", "node=%s", set->name);
	else
		log_error("failed", "error=\"%s\"", err.text);
	fini(&n);
	log_stop();
	return rc == RC_OK || rc == RC_CLOSED ? 0 : 1;
}
