/* See metrics.h.  The text format of Prometheus, or OpenMetrics for those who ask
 * for it: they differ little. */
#include "serve/metrics.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/version.h"
#include "core/run.h"
#include "db/sql.h"
#include "serve/cache.h"
#include "serve/expose.h"
#include "serve/otlp.h"
#include "serve/route.h"

#define KINDS_MAX 32

static const double bounds[] = {0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 3600};
#define BUCKETS (sizeof bounds / sizeof *bounds + 1)

struct histogram {
	int64_t bucket[BUCKETS];
	double sum;
};

struct kind_figures {
	char kind[33];
	int64_t outcome[RUN_OUTCOMES];
	double cpu_s;
	struct histogram took;
};

struct metrics {
	struct answerers *answerers;
	const struct otlp *otlp;
	_Atomic int64_t requests[6]; /* by the first digit of their status */
	_Atomic int64_t request_us;

	pthread_mutex_t lock; /* of what follows; never held while the database is asked */
	bool counting;        /* a thread asks the database for the runs; the others show what there is */
	char since[64];
	size_t n_kinds;
	struct kind_figures kind[KINDS_MAX + 1]; /* the last: all others */
	struct histogram delay;
};

/* What serve_metrics gives. */
static const struct family families[] = {
    {"tasks_estimate", "gauge", "Live tasks, as the server's statistics have it"},
    {"due_tasks", "gauge", "Tasks that are due and have not started (see counts_truncated)"},
    {"late_tasks", "gauge", "Of these, due for more than two seconds"},
    {"oldest_due_age_seconds", "gauge", "How long the task that has been due for longest has waited"},
    {"parked_tasks", "gauge", "Tasks out of attempts, waiting for a person"},
    {"waiting_tasks", "gauge", "Tasks that wait for a signal, the answer to a request, or their members"},
    {"paused_tasks", "gauge", "Tasks that are paused"},
    {"failing_tasks", "gauge", "Tasks whose last fire did not succeed"},
    {"overdue_tasks", "gauge", "Tasks without a success within their expect_within"},
    {"counts_truncated", "gauge",
	"1: a backlog is so long that counts of due, late and parked are lower bounds"},
    {"all_paused", "gauge", "1: no node takes any task (pgrab pause --all)"},
    {"nodes", "gauge", "Nodes by state"},
    {"node_up", "gauge", "1: the node is alive"},
    {"node_heartbeat_age_seconds", "gauge", "How long ago its last heartbeat was"},
    {"node_slots", "gauge", "Slots that it has: runs at once, if each takes one"},
    {"node_busy", "gauge", "Slots in use"},
    {"node_in_hand", "gauge", "Tasks it holds, claimed and running"},
    {"node_claims", "counter", "Rows it tried to claim, got, lost to others, took from others"},
    {"node_runs", "counter", "Runs that succeeded, and runs that did not"},
    {"node_stale_finishes", "counter", "Results that came too late and were refused"},
    {"node_fences", "counter", "How often it lost its lease and stopped its own runs"},
    {"node_recovered", "counter", "Tasks of dead nodes it put back"},
    {"node_keepers_lost", "counter", "Its keeper processes that were lost and replaced"},
    {"node_log_dropped", "counter", "Lines of its log that nobody read in time"},
    {"node_queue", "gauge", "Runs that wait in it to be started, to be run by a worker, to be recorded"},
    {"node_children", "gauge", "Processes of runs and handlers that its keeper looks after"},
    {"node_connections", "gauge", "Connections to the database that it has open"},
    {"node_lease_left_seconds", "gauge", "How much of its lease was left when it sent its last heartbeat"},
    {"node_round_trip_seconds", "gauge", "How long its last but one heartbeat took"},
    {"node_handlers", "gauge", "Handler processes of a [pool] section that take tasks"},
    {"node_handlers_wanted", "gauge", "Handler processes that a [pool] section asks for"},
    {"node_handlers_lost", "counter", "Its handler processes that ended without being asked to"},
    {"history_partitions", "gauge", "Partitions of the history"},
    {"database_connections", "gauge", "Connections of pgrab programs to the database"},
    {"oldest_transaction_age_seconds", "gauge", "Age of the oldest open transaction in the database"},
    {"task_dead_rows", "gauge", "Dead row versions of pgrab.task that vacuum has yet to remove"},
};

struct metrics *
metrics_create(struct answerers *answerers, const struct otlp *otlp)
{
	struct metrics *m = xcalloc(1, sizeof *m);

	m->answerers = answerers;
	m->otlp = otlp;
	PTHREAD_OK(pthread_mutex_init(&m->lock, NULL));
	return m;
}

void
metrics_destroy(struct metrics **m)
{
	PTHREAD_OK(pthread_mutex_destroy(&(*m)->lock));
	free(*m);
	*m = NULL;
}

void
metrics_request(struct metrics *m, int status, int64_t us)
{
	atomic_fetch_add(&m->requests[status >= 100 && status < 600 ? status / 100 : 0], 1);
	atomic_fetch_add(&m->request_us, us);
}

static struct kind_figures *
kind_of(struct metrics *m, const char *kind)
{
	for (size_t i = 0; i < m->n_kinds; i++) {
		if (strcmp(m->kind[i].kind, kind) == 0)
			return &m->kind[i];
	}
	if (m->n_kinds > KINDS_MAX)
		return &m->kind[KINDS_MAX];
	snprintf(m->kind[m->n_kinds].kind, sizeof m->kind->kind, "%s",
	    m->n_kinds == KINDS_MAX ? "(others)" : kind);
	return &m->kind[m->n_kinds++];
}

static void
observe(struct histogram *h, const PGresult *r, int row, int bucket_col, int sum_col)
{
	int64_t bucket = db_int64(r, row, bucket_col);

	if (PQgetisnull(r, row, bucket_col) || bucket < 0 || bucket >= (int64_t)BUCKETS)
		return;
	h->bucket[bucket] += db_int64(r, row, 5);
	h->sum += db_double(r, row, sum_col);
}

static void
take_runs(struct metrics *m, const PGresult *r)
{
	for (int row = 0; row < PQntuples(r); row++) {
		struct kind_figures *k;

		snprintf(m->since, sizeof m->since, "%s", db_text(r, row, 0));
		if (PQgetisnull(r, row, 1))
			continue;
		k = kind_of(m, db_text(r, row, 1));
		for (size_t o = 0; o < RUN_OUTCOMES; o++) {
			if (strcmp(run_outcomes[o], db_text(r, row, 2)) == 0)
				k->outcome[o] += db_int64(r, row, 5);
		}
		k->cpu_s += db_double(r, row, 8);
		observe(&k->took, r, row, 3, 6);
		observe(&m->delay, r, row, 4, 7);
	}
}

/* The kinds that have a name, which they keep.  Returns how many more may get one. */
static int64_t
list_kinds(const struct metrics *m, struct pgarray *out)
{
	for (size_t i = 0; i < m->n_kinds; i++)
		pgarray_text(out, m->kind[i].kind);
	return m->n_kinds < KINDS_MAX ? (int64_t)(KINDS_MAX - m->n_kinds) : 0;
}

/* Two at once would count twice. */
static enum rc
count_runs(struct metrics *m, struct db *db, struct err *err)
{
	char since[sizeof m->since];
	AUTO_ARRAY struct pgarray kinds = {0};
	int64_t more;
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc;
	bool mine;

	pthread_mutex_lock(&m->lock);
	mine = !m->counting;
	m->counting = true;
	memcpy(since, m->since, sizeof since);
	more = list_kinds(m, &kinds);
	pthread_mutex_unlock(&m->lock);
	if (!mine)
		return RC_OK;
	const char *params[] = {since[0] == '\0' ? NULL : since, pgarray_str(&kinds), NUMBER(more)};

	rc = db_query(db, sql_text("serve_metrics_runs"), 3, params, &r, err);
	WITH_LOCK(&m->lock);
	m->counting = false;
	if (rc == RC_OK)
		take_runs(m, r);
	return rc;
}

static void
put_histogram(struct expose *e, const char *name, const char *kind, const struct histogram *h)
{
	int64_t n = 0;
	char le[24];

	for (size_t i = 0; i < BUCKETS; i++) {
		n += h->bucket[i];
		snprintf(le, sizeof le, i + 1 < BUCKETS ? "%g" : "+Inf", i + 1 < BUCKETS ? bounds[i] : 0.0);
		expose_sample(e, name, "_bucket", kind == NULL ? NULL : "kind", kind, "le", le, (double)n);
	}
	expose_sample(e, name, "_sum", kind == NULL ? NULL : "kind", kind, NULL, NULL, h->sum);
	expose_sample(e, name, "_count", kind == NULL ? NULL : "kind", kind, NULL, NULL, (double)n);
}

static void
put_runs(struct expose *e, struct metrics *m)
{
	static const struct family runs = {
	    "runs", "counter", "Attempts that have ended, by kind and outcome"};
	static const struct family took = {"run_duration_seconds", "histogram", "How long they took"};
	static const struct family cpu = {
	    "run_cpu_seconds", "counter", "Processor time of the processes of shell and exec"};
	static const struct family delay = {
	    "start_delay_seconds", "histogram", "From the planned time of a fire to its first start"};

	WITH_LOCK(&m->lock);
	expose_family(e, &runs);
	for (size_t i = 0; i < m->n_kinds; i++) {
		for (size_t o = 0; o < RUN_OUTCOMES; o++)
			expose_sample(e, "runs", "_total", "kind", m->kind[i].kind, "outcome",
			    run_outcomes[o], (double)m->kind[i].outcome[o]);
	}
	expose_family(e, &took);
	for (size_t i = 0; i < m->n_kinds; i++)
		put_histogram(e, "run_duration_seconds", m->kind[i].kind, &m->kind[i].took);
	expose_family(e, &cpu);
	for (size_t i = 0; i < m->n_kinds; i++) {
		if (m->kind[i].cpu_s > 0)
			expose_sample(e, "run_cpu_seconds", "_total", "kind", m->kind[i].kind, NULL, NULL,
			    m->kind[i].cpu_s);
	}
	expose_family(e, &delay);
	put_histogram(e, "start_delay_seconds", NULL, &m->delay);
}

static void
put_otlp(struct expose *e, const struct otlp *o)
{
	static const struct family runs = {
	    "otlp_runs", "counter", "Runs for the collector of traces: sent, refused by it, dropped"};
	struct otlp_figures f;

	if (o == NULL)
		return;
	otlp_figures(o, &f);
	expose_family(e, &runs);
	expose_sample(e, "otlp_runs", "_total", "result", "sent", NULL, NULL, (double)f.sent);
	expose_sample(e, "otlp_runs", "_total", "result", "refused", NULL, NULL, (double)f.refused);
	expose_sample(e, "otlp_runs", "_total", "result", "dropped", NULL, NULL, (double)f.dropped);
	expose_one(e, "otlp_behind_seconds",
	    "How long ago the last run that was read for it ended; 0: it has them all", f.behind);
}

static void
put_own(struct expose *e, struct metrics *m)
{
	static const struct family requests = {
	    "http_requests", "counter", "Requests answered, by class of status"};
	static const struct family seconds = {"http_request_seconds", "counter", "Time spent on them"};
	static const struct family info = {"build_info", "gauge", "1, with the version of pgrab serve"};
	static const char *const classes[] = {NULL, "1xx", "2xx", "3xx", "4xx", "5xx"};
	struct answerers_figures p;

	expose_family(e, &requests);
	for (size_t i = 2; i < sizeof classes / sizeof *classes; i++)
		expose_sample(e, "http_requests", "_total", "status", classes[i], NULL, NULL,
		    (double)atomic_load(&m->requests[i]));
	expose_family(e, &seconds);
	expose_sample(e, "http_request_seconds", "_total", NULL, NULL, NULL, NULL,
	    (double)atomic_load(&m->request_us) / 1e6);
	answerers_figures(m->answerers, &p);
	expose_one(e, "serve_waiting_requests", "Requests that wait for a connection to the database",
	    (double)p.waiting);
	expose_one(e, "serve_busy_connections", "Connections to the database in use", (double)p.busy);
	expose_one(e, "database_round_trip_seconds", "How long the database took for the last request",
	    (double)p.round_trip_us / 1e6);
	expose_family(e, &info);
	expose_sample(e, "build_info", "", "version", version_text(), NULL, NULL, 1);
}

static void
put_database(struct expose *e, const PGresult *r)
{
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		const struct family *f = &families[i];

		expose_family(e, f);
		for (int row = 0; row < PQntuples(r); row++) {
			if (strcmp(db_text(r, row, 0), f->name) == 0)
				expose_sample(e, f->name, strcmp(f->type, "counter") == 0 ? "_total" : "",
				    PQgetisnull(r, row, 1) ? NULL : db_text(r, row, 1), db_text(r, row, 2),
				    PQgetisnull(r, row, 3) ? NULL : db_text(r, row, 3), db_text(r, row, 4),
				    db_double(r, row, 5));
		}
	}
}

void
metrics_answer(struct call *c, struct db *db)
{
	struct expose e = {.out = &c->out};
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	enum rc rc = cache_query(c->cache, db, c->role, sql_text("serve_metrics"), 0, NULL, &r, &err);

	if (rc == RC_OK)
		rc = count_runs(c->metrics, db, &err);
	if (rc != RC_OK) {
		call_failed(c, rc, &err);
	} else {
		e.open = c->accept != NULL && strstr(c->accept, "application/openmetrics-text") != NULL;
		c->type = e.open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				 : "text/plain; version=0.0.4; charset=utf-8";
		put_database(&e, r);
		put_runs(&e, c->metrics);
		put_own(&e, c->metrics);
		put_otlp(&e, c->metrics->otlp);
		if (e.open)
			buf_adds(&c->out, "# EOF\n");
	}
}
