#include "serve/answer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "db/sql.h"
#include "serve/cache.h"
#include "serve/fleet.h"
#include "serve/route.h"

#define WAITING_MAX 64 /* calls, per thread */
#define ANSWER_MAX  ((size_t)32 << 20)
#define AWAY_US     (1 * US_PER_S) /* for this long after a failed connect no other is tried */

struct answerers {
	const struct serve_settings *set;
	size_t database;
	struct fleet *fleet;
	struct mailbox *calls, *probes, *done;
	struct cache *cache;
	int done_fd;
	pthread_t *threads;
	size_t n_threads; /* the last of them answers probes */
	_Atomic int64_t waiting, probing, busy, round_trip_us, refused;
	_Atomic int64_t away_until_us; /* of the database of dsn */
};

/* Owned by one answerer: [0] is the own role's, [1 + i] that of section i. */
struct answerer {
	struct answerers *answerers;
	struct db **db;
	struct db *tokens; /* where tokens are looked up, if that is another database */
};

static struct db *
open_db(const struct answerers *p, size_t database, int role)
{
	AUTO_FREE char *login = serve_login(p->set, database, role);
	struct db *db = db_create(login, "pgrab serve", p->set->timeout_us);

	db_be(db, DB_ENDS);
	return db;
}

static struct db *
db_of(struct answerer *w, int role)
{
	struct db **slot = &w->db[role + 1];

	if (*slot == NULL)
		*slot = open_db(w->answerers, w->answerers->database, role);
	return *slot;
}

/* Tokens are those of the database of dsn. */
static struct db *
tokens_of(struct answerer *w)
{
	if (w->answerers->database == 0)
		return db_of(w, CALL_OWN_ROLE);
	if (w->tokens == NULL)
		w->tokens = open_db(w->answerers, 0, CALL_OWN_ROLE);
	db_drop_dead(w->tokens);
	return w->tokens;
}

/* No request waits for a server that was just found to be out of reach. */
static bool
is_away(struct answerer *w, int role, struct call *c)
{
	struct err err = {0};
	enum rc rc;

	if (clock_mono_us() < atomic_load(&w->answerers->away_until_us)) {
		call_problem(c, 503, "the database cannot be reached", "Try again in a moment.");
		return true;
	}
	db_drop_dead(db_of(w, role)); /* the server may have been restarted since the last request */
	rc = db_connect(db_of(w, role), &err);
	if (rc == RC_OK)
		return false;
	if (role == CALL_OWN_ROLE)
		atomic_store(&w->answerers->away_until_us, clock_mono_us() + AWAY_US);
	log_warn("database", "request=%s error=\"%s\"", c->id, err.text);
	call_problem(c, 503, "the database cannot be reached", "Try again in a moment; the log says why.");
	return true;
}

static bool
take_role(struct call *c, const char *role)
{
	int i = serve_settings_role(c->set, role);

	if (i < 0) {
		return call_problem(c, 403, "the role of this token has no connection here",
		    "Give it a section in the file of pgrab serve: [role NAME] with service or dsn.");
	}
	c->role = c->route->how == ROUTE_AS_SELF ? CALL_OWN_ROLE : i;
	return true;
}

/* Turns c->token into c->role.  False: it is not valid, or its role has no section; c holds the answer. */
static bool
settle_token(struct call *c, struct db *own)
{
	const char *params[] = {c->token};
	AUTO_CLEAR PGresult *r = NULL;

	if (!call_ask(c, own, "serve_token", 1, params, &r))
		return false;
	if (PQntuples(r) == 0)
		return call_problem(c, 401, "this token is not valid, or no longer", NULL);
	return take_role(c, db_text(r, 0, 0));
}

/* Nobody reads so much, and few can hold it. */
static void
check_length(struct call *c)
{
	char detail[100];

	if (c->out.len <= ANSWER_MAX)
		return;
	snprintf(detail, sizeof detail, "the answer would be %zu MiB long, and 32 MiB is the most",
	    (c->out.len >> 20) + 1);
	free(c->link);
	free(c->searched);
	c->link = c->searched = NULL;
	call_problem(c, 400, detail, "Ask for less: with a smaller limit, or for a shorter time.");
}

/* A login by token is settled first, on this program's own connection. */
static void
answer(struct answerer *w, struct call *c)
{
	if (clock_mono_us() - c->begun_us > w->answerers->set->timeout_us) {
		atomic_fetch_add(&w->answerers->refused, 1);
		call_problem(c, 503, "too many requests wait for the database", "Try again in a moment.");
		return;
	}
	if (c->token != NULL &&
	    ((w->answerers->database == 0 && is_away(w, CALL_OWN_ROLE, c)) || !settle_token(c, tokens_of(w))))
		return;
	c->fleet = w->answerers->fleet;
	if (c->route->how == ROUTE_FREE) {
		c->route->answer(c, NULL);
		return;
	}
	if (is_away(w, c->role, c))
		return;
	int64_t begun = clock_mono_us();
	struct err err = {0};
	enum rc rc;

	c->cache = w->answerers->cache;
	rc = db_zone_now(db_of(w, c->role), call_zone(c), &err);
	if (rc == RC_OK)
		c->route->answer(c, db_of(w, c->role));
	else
		call_failed(c, rc, &err);
	check_length(c);
	if (strcmp(c->route->method, "GET") != 0)
		cache_clear(c->cache);
	atomic_store(&w->answerers->round_trip_us, clock_mono_us() - begun);
}

static void
tell(struct answerers *p, struct call *c)
{
	mailbox_push(p->done, &c->mail);
	while (eventfd_write(p->done_fd, 1) < 0)
		; /* only EINTR: the count does not overflow */
}

/* How the database is, for those who look at all of them. */
static void
tell_fleet(struct answerer *w)
{
	struct db *db = db_of(w, CALL_OWN_ROLE);
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	enum rc rc;

	db_drop_dead(db);
	rc = db_query(db, sql_text("cli_overview"), 0, NULL, &r, &err);
	fleet_note(w->answerers->fleet, w->answerers->database, rc == RC_OK ? r : NULL,
	    rc == RC_OK ? NULL : err.text);
}

static void
serve_from(struct answerers *p, struct mailbox *calls)
{
	struct answerer w = {.answerers = p, .db = xcalloc(p->set->n_roles + 1, sizeof *w.db)};
	int64_t tell_us = calls == p->probes && p->fleet != NULL ? clock_mono_us() : CLOCK_NEVER;
	struct mail *m;
	enum rc rc;

	while ((rc = mailbox_pop_until(calls, tell_us, &m)) != RC_CLOSED) {
		struct call *c = (struct call *)m;

		if (rc != RC_OK) {
			tell_fleet(&w);
			tell_us = clock_mono_us() + FLEET_EVERY_US;
			continue;
		}

		atomic_fetch_sub(calls == p->probes ? &p->probing : &p->waiting, 1);
		atomic_fetch_add(&p->busy, 1);
		answer(&w, c);
		atomic_fetch_sub(&p->busy, 1);
		tell(p, c);
	}
	for (size_t i = 0; i <= p->set->n_roles; i++)
		db_destroy(&w.db[i]);
	free(w.db);
	db_destroy(&w.tokens);
}

static void *
serve_calls(void *arg)
{
	serve_from(arg, ((struct answerers *)arg)->calls);
	return NULL;
}

/* However long others take, a health check gets an answer. */
static void *
serve_probes(void *arg)
{
	serve_from(arg, ((struct answerers *)arg)->probes);
	return NULL;
}

struct answerers *
answerers_create(
    const struct serve_settings *set, size_t database, struct fleet *fleet, struct mailbox *done, int done_fd)
{
	struct answerers *p = xcalloc(1, sizeof *p);

	p->set = set;
	p->database = database;
	p->fleet = fleet;
	p->calls = mailbox_create();
	p->probes = mailbox_create();
	p->cache = cache_create();
	p->done = done;
	p->done_fd = done_fd;
	p->n_threads = (size_t)set->connections + 1;
	p->threads = xcalloc(p->n_threads, sizeof *p->threads);
	for (size_t i = 0; i < p->n_threads; i++)
		thread_start(&p->threads[i], "db", i + 1 < p->n_threads ? serve_calls : serve_probes, p);
	return p;
}

void
answerers_destroy(struct answerers **p)
{
	mailbox_close((*p)->calls);
	mailbox_close((*p)->probes);
	for (size_t i = 0; i < (*p)->n_threads; i++)
		thread_join((*p)->threads[i]);
	mailbox_destroy(&(*p)->calls);
	mailbox_destroy(&(*p)->probes);
	cache_destroy(&(*p)->cache);
	free((*p)->threads);
	free(*p);
	*p = NULL;
}

bool
answerers_push(struct answerers *p, struct call *c)
{
	bool probe = c->route->how == ROUTE_PROBE;
	_Atomic int64_t *waiting = probe ? &p->probing : &p->waiting;

	if (atomic_load(waiting) >= WAITING_MAX * (probe ? 1 : p->set->connections)) {
		atomic_fetch_add(&p->refused, 1);
		return false;
	}
	atomic_fetch_add(waiting, 1);
	mailbox_push(probe ? p->probes : p->calls, &c->mail);
	return true;
}

void
answerers_figures(struct answerers *p, struct answerers_figures *out)
{
	out->waiting = atomic_load(&p->waiting);
	out->busy = atomic_load(&p->busy);
	out->threads = p->set->connections;
	out->round_trip_us = atomic_load(&p->round_trip_us);
	out->refused = atomic_load(&p->refused);
}
