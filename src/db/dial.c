#include "db/dial.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "db/deadline_call.h"
#include "db/dsn.h"
#include "db/hosts.h"
#include "db/life.h"

/* Names of servers are looked up while connecting, for which libpq has no deadline: so all of it
 * is done in a deadline_call. */
struct dial {
	char *dsn, *app;
	int64_t timeout_us, until_us;
	bool primary;
	struct life_target target;
	struct hosts hosts;
	/* the result */
	PGconn *conn;
	enum rc rc;
	struct err err;
};

void
dial_one_line(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; text != NULL && *text != '\0' && n + 1 < size; text++) {
		bool blank = *text == '\n' || *text == '\t' || *text == ' ';

		if (!blank || (n > 0 && out[n - 1] != ' '))
			out[n++] = blank ? ' ' : *text;
	}
	while (n > 0 && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
	char *guess = strstr(out, " This probably means"), *place = strstr(out, " LOCATION: ");

	if (guess != NULL)
		*guess = '\0';
	if (place != NULL)
		*place = '\0';
}

bool
dial_wait_socket(PGconn *conn, bool for_write, int64_t until_us, int stop_fd, bool *stopped_out)
{
	for (;;) {
		struct pollfd p[2] = {
		    {.fd = PQsocket(conn), .events = POLLIN | (for_write ? POLLOUT : 0)},
		    {.fd = stop_fd, .events = POLLIN},
		};
		int n = poll(p, stop_fd >= 0 ? 2 : 1, clock_poll_ms(clock_mono_us(), until_us));

		if (n < 0 && errno == EINTR)
			continue;
		/* First: rows may come without a pause. */
		if (n > 0 && p[1].revents != 0) {
			if (stopped_out != NULL)
				*stopped_out = true;
			return false;
		}
		if (n > 0)
			return true;
		if (n < 0 || clock_mono_us() >= until_us)
			return false;
	}
}

/* A refusal while connecting has an SQLSTATE that libpq 15 does not hand out; its text does.  The ones
 * below are mistakes of configuration, each with a remedy.  Everything else counts as transient: waiting
 * is safe, giving up is not. */
static enum rc
refusal(const char *why, struct err *err)
{
	static const struct {
		const char *says, *remedy;
	} final[] = {
	    {"password authentication failed", "give the right password: PGPASSWORD or ~/.pgpass"},
	    {"no password supplied", "give one: PGPASSWORD or ~/.pgpass"},
	    {"does not exist", "name another with --dsn, or create it"},
	    {"is not permitted to log in", "alter role ... login"},
	    {"no pg_hba.conf entry", "the server's pg_hba.conf must let this role and address in"},
	    {"invalid connection option", "see --dsn"},
	    {"missing \"=\"", "see --dsn"},
	    {"invalid port", "see --dsn"},
	    {"certificate", "see sslmode, sslrootcert and sslcert"},
	    {"authentication failed", "the server's pg_hba.conf says how this role must log in"},
	    {"invalid sslmode", "see --dsn"},
	    {"permission denied for database", "grant connect on database ... to this role"},
	    {"definition of service", "see PGSERVICE and pg_service.conf"},
	};
	char line[400];

	dial_one_line(line, sizeof line, why);
	for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
		if (strstr(line, final[i].says) != NULL)
			return err_set(err, RC_BAD, "could not connect: %s (%s)", line, final[i].remedy);
	}
	return err_set(err, RC_AGAIN, "could not connect: %s", line[0] != '\0' ? line : "no reason given");
}

static enum rc
no_answer(int64_t waited_us, struct err *err)
{
	return err_set(
	    err, RC_AGAIN, "could not connect: no answer within %lld ms", (long long)(waited_us / US_PER_MS));
}

/* Drops the server's notices and warnings: what matters comes as an answer. */
static void
no_notice(void *arg, const PGresult *r)
{
}

static enum rc
connect_poll(PGconn *conn, int64_t until_us, struct life_target *tried, struct err *err)
{
	PostgresPollingStatusType st = PGRES_POLLING_WRITING;
	int64_t begun_us = clock_mono_us();

	while (st != PGRES_POLLING_OK) {
		life_look(conn, tried);
		if (st == PGRES_POLLING_FAILED || PQstatus(conn) == CONNECTION_BAD)
			return refusal(PQerrorMessage(conn), err);
		if (!dial_wait_socket(conn, st == PGRES_POLLING_WRITING, until_us, -1, NULL))
			return no_answer(clock_mono_us() - begun_us, err);
		st = PQconnectPoll(conn);
	}
	return RC_OK;
}

static enum rc
must_write(PGconn *conn, struct err *err)
{
	const char *standby = PQparameterStatus(conn, "in_hot_standby");

	if (standby == NULL || strcmp(standby, "on") != 0)
		return RC_OK;
	return err_set(err, RC_AGAIN,
	    "the server %s:%s is a standby, where nothing can be written; name the primary, or all of them: "
	    "host=a,b target_session_attrs=read-write",
	    PQhost(conn), PQport(conn));
}

/* One try, at the host that `at` names (NULL: whatever the DSN says).  The settings before dbname are
 * defaults that the DSN overrides; those after it override the DSN.  A connection that the network has
 * silently dropped is noticed within 20 seconds. */
static enum rc
try_host(struct dial *d, const struct hosts *at, const char *attrs, int64_t until_us, struct err *err)
{
	const char *keys[16] = {
	    "tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count"};
	const char *values[16] = {"10000", "10", "3", "3"};
	size_t n = 4;
	struct life_target tried = {0};
	enum rc rc;

#define GIVE(key, value) (keys[n] = (key), values[n++] = (value))
	if (d->dsn[0] != '\0') /* an empty dbname would hide PGDATABASE */
		GIVE("dbname", d->dsn);
	GIVE("application_name", d->app);
	GIVE("client_encoding", "UTF8");
	if (at != NULL) {
		GIVE("host", at->host);
		GIVE("hostaddr", at->hostaddr);
		GIVE("port", at->port);
	}
	if (attrs != NULL)
		GIVE("target_session_attrs", attrs);
#undef GIVE
	d->conn = PQconnectStartParams(keys, values, 1);
	if (d->conn == NULL)
		return err_set(err, RC_AGAIN, "could not connect: out of memory");
	PQsetNoticeReceiver(d->conn, no_notice, NULL);
	if (d->target.at[0] != '\0') /* libpq 15 has no other way to hand out an SQLSTATE here */
		PQsetErrorVerbosity(d->conn, PQERRORS_VERBOSE);
	rc = connect_poll(d->conn, until_us, &tried, err);
	PQsetErrorVerbosity(d->conn, PQERRORS_DEFAULT);
	if (rc != RC_OK)
		life_note(d->conn, &tried, &d->target);
	if (rc == RC_OK && d->primary)
		rc = must_write(d->conn, err);
	if (rc != RC_OK) {
		PQfinish(d->conn);
		d->conn = NULL;
	}
	return rc;
}

static enum rc
try_address(struct dial *d, const struct hosts *at, const struct addrinfo *a, const char *attrs,
    int64_t until_us, struct err *err)
{
	char text[NI_MAXHOST];
	struct hosts one = {.host = at->host, .hostaddr = text, .port = at->port};

	if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
		return err_set(
		    err, RC_AGAIN, "could not connect: %s has an address of no known kind", at->host);
	return try_host(d, &one, attrs, until_us, err);
}

/* Which host of its list has let somebody in last: only a hint, because there may be several lists. */
static _Atomic size_t answered;

/* Which address of its name has let somebody in last: a hint, as `answered`. */
static _Atomic size_t answered_address;

static const struct addrinfo *
nth_address(const struct addrinfo *list, size_t i)
{
	for (; i > 0; i--)
		list = list->ai_next;
	return list;
}

/* As try_host, but each address of a name gets its share of the time: libpq would wait for a silent one until
 * nothing is left for the next.  They are of one server: what one of them refuses is refused. */
static enum rc
try_name(struct dial *d, const struct hosts *at, const char *attrs, int64_t until_us, struct err *err)
{
	struct addrinfo *list = hosts_addresses(at);
	AUTO_BUF struct buf all = {0};
	size_t n = 0, first;
	enum rc rc = RC_AGAIN;

	if (list == NULL)
		return try_host(d, d->hosts.n > 1 ? at : NULL, attrs, until_us, err);
	for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
		n++;
	first = atomic_load(&answered_address) % n;
	for (size_t i = 0; rc == RC_AGAIN && i < n; i++) {
		int64_t now = clock_mono_us(), share_us = (until_us - now) / (int64_t)(n - i);
		struct err one = {0};

		rc = try_address(d, at, nth_address(list, (first + i) % n), attrs, now + share_us, &one);
		if (rc == RC_OK)
			atomic_store(&answered_address, (first + i) % n);
		buf_addf(&all, "%s%s", i == 0 ? "" : "; ", one.text);
	}
	freeaddrinfo(list);
	return rc == RC_OK ? rc : err_set(err, rc, "%s", buf_str(&all));
}

static enum rc
try_nth(struct dial *d, const struct hosts *h, size_t i, const char *attrs, int64_t until_us, struct err *err)
{
	struct hosts one = hosts_nth(h, i);
	enum rc rc = try_name(d, &one, attrs, until_us, err);

	err_prefix(err, "host %s", one.host[0] != '\0' ? one.host : one.hostaddr);
	hosts_fini(&one);
	return rc;
}

/* Each host gets its share of the time left, first the one that has answered last, so that a silent one costs
 * only the caller that finds out.  The errors of all are kept: the first alone would not say why none would
 * do. */
static enum rc
try_all(struct dial *d, const struct hosts *h)
{
	size_t first = h->prefer_standby ? 0 : atomic_load(&answered) % h->n;
	size_t rounds = h->prefer_standby ? 2 : 1, left = rounds * h->n;
	AUTO_BUF struct buf all = {0};
	enum rc rc = RC_BAD, result = RC_BAD;

	for (size_t i = 0; rc != RC_OK && i < rounds * h->n; i++, left--) {
		const char *attrs = !h->prefer_standby ? NULL : i < h->n ? "standby" : "any";
		int64_t now = clock_mono_us();
		struct err err = {0};

		rc =
		    try_nth(d, h, (first + i) % h->n, attrs, now + (d->until_us - now) / (int64_t)left, &err);
		if (rc == RC_OK)
			atomic_store(&answered, (first + i) % h->n);
		result = rc == RC_BAD ? result : RC_AGAIN; /* it may answer another time */
		buf_addf(&all, "%s%s", i > 0 ? "; " : "", err.text);
	}
	if (rc != RC_OK)
		rc = err_set(&d->err, result, "%s", buf_str(&all));
	return rc;
}

static void
dial(void *arg)
{
	struct dial *d = arg;

	d->hosts = hosts_read(d->dsn);
	d->rc = d->hosts.n > 1 ? try_all(d, &d->hosts) : try_name(d, &d->hosts, NULL, d->until_us, &d->err);
	if (d->rc != RC_OK)
		dsn_hide(d->dsn, d->err.text, sizeof d->err.text);
	hosts_fini(&d->hosts);
}

static void
drop_dial(void *arg)
{
	struct dial *d = arg;

	PQfinish(d->conn);
	free(d->dsn);
	free(d->app);
	free(d);
}

enum rc
dial_server(const char *dsn, const char *app, int64_t timeout_us, bool primary, struct life_target *target,
    PGconn **out, struct err *err)
{
	struct dial *d = xcalloc(1, sizeof *d);
	enum rc rc;

	d->dsn = xstrdup(dsn);
	d->app = xstrdup(app);
	d->timeout_us = timeout_us;
	d->until_us = clock_mono_us() + timeout_us;
	d->primary = primary;
	if (target != NULL)
		d->target = *target;
	if (!deadline_call(dial, drop_dial, d, d->until_us + 50 * US_PER_MS))
		return no_answer(timeout_us, err);
	rc = d->rc;
	if (target != NULL)
		*target = d->target;
	if (rc == RC_OK) {
		*out = d->conn;
		d->conn = NULL;
	} else if (err != NULL) {
		*err = d->err;
	}
	drop_dial(d);
	return rc;
}
