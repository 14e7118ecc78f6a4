/* See logins.h.  A server that refuses (no such role, a wrong password, another role than the file names)
 * says so at once.  One that does not answer may be down for everybody: that counts as a refusal only when it
 * has meanwhile answered the node itself, several times. */
#include "node/owners/logins.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "db/store_node.h"
#include "node/context.h"

#define TRIES_MAX   3 /* without an answer */
#define AGAIN_MAX   (60 * US_PER_S)
#define ANNOUNCE_US US_PER_S

struct watched {
	_Atomic bool failed; /* by workers */
	/* the thread's */
	bool trying, out;
	int silent; /* tries without an answer */
	int64_t next_us;
	struct backoff backoff;
};

struct logins {
	struct node *node; /* borrowed */
	void (*changed)(void *ctx);
	void *ctx;
	pthread_t thread;
	struct gate gate;
	struct db *db;
	struct watched *watched; /* by the login's number */
	/* the thread's */
	bool announced;
	int64_t announce_us;
};

static void
set_out(struct logins *l, size_t i, bool out, const struct err *why)
{
	const char *owner = l->node->owners.login[i].owner;
	struct watched *w = &l->watched[i];

	if (w->out == out)
		return;
	w->out = out;
	owners_take_out(&l->node->owners, i, out);
	l->announced = false;
	l->announce_us = 0;
	if (out)
		log_warn("owner_out", "owner=\"%s\" error=\"%s\" hint=\"%s\"", owner, why->text,
		    "this node leaves its sql tasks to others, and tries to log in again from time to time");
	else
		log_info("owner_back", "owner=\"%s\"", owner);
}

/* Does the server answer the node itself? */
static bool
reachable(struct logins *l)
{
	struct err ignored;

	db_drop_dead(l->db);
	return db_connect(l->db, &ignored) == RC_OK;
}

static void
try_again(struct logins *l, size_t i)
{
	struct watched *w = &l->watched[i];
	struct err err = {0};
	enum rc rc = owners_try(&l->node->owners, i, &l->node->exec_env, &err);

	if (rc == RC_OK) {
		set_out(l, i, false, NULL);
		w->trying = false;
		w->silent = 0;
		backoff_reset(&w->backoff);
		return;
	}
	if (rc != RC_BAD && reachable(l))
		w->silent++;
	if (rc == RC_BAD || w->silent >= TRIES_MAX)
		set_out(l, i, true, &err);
	w->next_us = clock_mono_us() + backoff_next_us(&w->backoff);
}

static void
announce(struct logins *l)
{
	struct node *n = l->node;
	struct err err = {0};
	bool told = false;
	enum rc rc = store_node_owners(l->db, atomic_load(&n->node_id), atomic_load(&n->incarnation),
	    owners_others(&n->owners), &told, &err);

	if (rc != RC_OK)
		log_debug("owners", "error=\"%s\"", err.text);
	l->announced =
	    rc == RC_OK && told; /* not while the node is fenced: it registers again with what is true then */
	l->announce_us = clock_mono_us() + ANNOUNCE_US;
}

/* Tries the logins that are due; returns when the next one is. */
static int64_t
round_of_tries(struct logins *l)
{
	int64_t next = CLOCK_NEVER;

	for (size_t i = 0; i < l->node->owners.n_logins; i++) {
		struct watched *w = &l->watched[i];

		if (atomic_exchange(&w->failed, false) && !w->trying) {
			w->trying = true;
			w->next_us = 0;
		}
		if (w->trying && clock_mono_us() >= w->next_us)
			try_again(l, i);
		if (w->trying && w->next_us < next)
			next = w->next_us;
	}
	return next;
}

static void *
logins_main(void *arg)
{
	struct logins *l = arg;
	int64_t next = CLOCK_NEVER;

	while (gate_wait(&l->gate, next) != GATE_STOPPED) {
		bool before = l->announced;

		next = round_of_tries(l);
		if (before && !l->announced)
			l->changed(l->ctx);
		if (!l->announced && clock_mono_us() >= l->announce_us)
			announce(l);
		if (!l->announced && l->announce_us < next)
			next = l->announce_us;
		if (next == CLOCK_NEVER)
			db_disconnect(l->db);
	}
	return NULL;
}

struct logins *
logins_start(struct node *n, void (*changed)(void *ctx), void *ctx)
{
	struct logins *l;

	if (n->owners.n_logins == 0)
		return NULL;
	l = xcalloc(1, sizeof *l);
	l->node = n;
	l->changed = changed;
	l->ctx = ctx;
	l->announced = true; /* by the registration */
	l->watched = xcalloc(n->owners.n_logins, sizeof *l->watched);
	for (size_t i = 0; i < n->owners.n_logins; i++)
		backoff_init(&l->watched[i].backoff, US_PER_S, AGAIN_MAX, (uint64_t)clock_mono_us() + i);
	gate_init(&l->gate);
	l->db = node_db(n, "logins");
	thread_start(&l->thread, "logins", logins_main, l);
	return l;
}

void
logins_stop(struct logins **lp)
{
	struct logins *l = *lp;

	if (l == NULL)
		return;
	gate_stop(&l->gate);
	thread_join(l->thread);
	db_destroy(&l->db);
	gate_fini(&l->gate);
	free(l->watched);
	free(l);
	*lp = NULL;
}

void
logins_failed(void *logins, const char *owner)
{
	struct logins *l = logins;

	for (size_t i = 0; l != NULL && i < l->node->owners.n_logins; i++) {
		if (strcmp(l->node->owners.login[i].owner, owner) == 0)
			atomic_store(&l->watched[i].failed, true);
	}
	if (l != NULL)
		gate_ring(&l->gate);
}
