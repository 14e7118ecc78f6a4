/* Four statements per frame and a fifth now and then, each bounded, and the thread that runs them.  The
 * answer changes hands whole: it belongs to the thread from the question to the write on the descriptor, then
 * to the asker. */
#include "cli/top_data.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "db/report.h"

/* The rates of an hour change little in this time, and are more to read than all the rest. */
#define RATES_US (60 * US_PER_S)

struct top_reader {
	pthread_t thread;
	struct gate gate;       /* rung: read once */
	struct gate ended;      /* stopped: the thread touches nothing any more */
	int answered;           /* eventfd */
	struct top_source from; /* the thread's */
	int rows, name_length;
	int64_t rates_us; /* when the rates were read */
	struct top_data data;
};

/* In all databases, or in the one of db if nothing has failed yet. */
static void
ask(struct top_data *d, const struct top_source *from, bool json, const char *sql, int n_params,
    const char *const *params, PGresult **out)
{
	if (from->all != NULL)
		*out = all_ask(from->all, sql, n_params, params, json);
	else if (d->rc == RC_OK)
		d->rc = report_ask(
		    from->db, json ? REPORT_ARRAY : REPORT_ROWS, sql, n_params, params, out, &d->err);
}

void
top_data_read(
    struct top_data *d, const struct top_source *from, bool json, int rows, int name_length, bool rates)
{
	const char *params[] = {NUMBER(rows), NUMBER(name_length)}, *const span[] = {"1 hour"};

	*d = (struct top_data){.all = from->all != NULL};
	if (d->all)
		d->overview = all_ask(from->all, "cli_overview", 0, NULL, json);
	else
		d->rc = report_ask(from->db, json ? REPORT_OBJECTS : REPORT_ROWS, "cli_top_overview", 0, NULL,
		    &d->overview, &d->err);
	ask(d, from, json, "cli_top_nodes", 1, params, &d->nodes);
	ask(d, from, json, "cli_top_running", 2, params, &d->running);
	ask(d, from, json, "cli_top_late", 2, params, &d->late);
	if (rates && !d->all)
		ask(d, from, json, "serve_rates", 1, span, &d->rates);
	if (d->all)
		snprintf(d->away, sizeof d->away, "%s", all_away(from->all));
	if (d->rc != RC_OK) {
		struct top_data half = *d;

		*d = (struct top_data){.rc = half.rc, .err = half.err};
		top_data_fini(&half);
	}
}

void
top_data_fini(struct top_data *d)
{
	PQclear(d->overview);
	PQclear(d->nodes);
	PQclear(d->running);
	PQclear(d->late);
	PQclear(d->rates);
	*d = (struct top_data){0};
}

int64_t
top_number(const PGresult *r, const char *name)
{
	return db_int64(r, 0, PQfnumber(r, name));
}

static void *
read_when_asked(void *arg)
{
	struct top_reader *r = arg;

	while (gate_wait(&r->gate, CLOCK_NEVER) == GATE_RUNG) {
		int64_t now = clock_mono_us();
		bool rates = r->rates_us == 0 || now - r->rates_us >= RATES_US;

		top_data_read(&r->data, &r->from, false, r->rows, r->name_length, rates);
		if (rates && r->data.rc == RC_OK)
			r->rates_us = now;
		if (eventfd_write(r->answered, 1) != 0)
			abort(); /* a counter of at most 1 */
	}
	gate_stop(&r->ended);
	return NULL;
}

struct top_reader *
top_reader_start(struct top_source from, int rows, int name_length)
{
	struct top_reader *r = xcalloc(1, sizeof *r);

	r->from = from;
	r->rows = rows;
	r->name_length = name_length;
	r->answered = eventfd(0, EFD_CLOEXEC);
	assert(r->answered >= 0);
	gate_init(&r->gate);
	gate_init(&r->ended);
	thread_start(&r->thread, "top", read_when_asked, r);
	return r;
}

int
top_reader_fd(const struct top_reader *r)
{
	return r->answered;
}

void
top_reader_ask(struct top_reader *r)
{
	gate_ring(&r->gate);
}

void
top_reader_take(struct top_reader *r, struct top_data *out)
{
	uint64_t n;

	while (read(r->answered, &n, sizeof n) < 0 && errno == EINTR)
		;
	*out = r->data;
	r->data = (struct top_data){0};
}

bool
top_reader_stop(struct top_reader **reader, int64_t patience_us)
{
	struct top_reader *r = *reader;

	gate_stop(&r->gate);
	if (gate_wait(&r->ended, clock_mono_us() + patience_us) != GATE_STOPPED)
		return false;
	thread_join(r->thread);
	close(r->answered);
	gate_fini(&r->gate);
	gate_fini(&r->ended);
	top_data_fini(&r->data);
	free(r);
	*reader = NULL;
	return true;
}
