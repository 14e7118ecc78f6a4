#include "db/store_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/sql.h"

enum rc
store_node_find(struct db *db, const char *name, struct node_holder *out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("node_find"), 1, &name, &res, err);

	memset(out, 0, sizeof *out);
	if (rc == RC_OK && PQntuples(res) > 0) {
		out->exists = true;
		out->id = db_int64(res, 0, 0);
		out->incarnation = db_int64(res, 0, 1);
		out->beat = db_int64(res, 0, 2);
		out->down = strcmp(db_text(res, 0, 3), "down") == 0;
		snprintf(out->host, sizeof out->host, "%s", db_text(res, 0, 4));
		out->pid = db_int64(res, 0, 5);
		out->dead_after_us = db_int64(res, 0, 6);
		out->life = db_int64(res, 0, 7);
		out->now = db_int64(res, 0, 8);
	}
	return rc;
}

enum rc
store_node_register(struct db *db, const struct node_identity *who, int64_t incarnation,
    const struct node_holder *holder, int64_t *id_out, struct err *err)
{
	char weight[40];
	const char *params[] = {who->name, NUMBER(incarnation), who->host, NUMBER(who->pid), who->version,
	    who->strategy, weight, who->labels, who->kinds, NUMBER(who->slots), NUMBER(who->heartbeat_us),
	    NUMBER(who->dead_after_us), holder->exists ? NUMBER(holder->incarnation) : NULL,
	    holder->exists ? NUMBER(holder->beat) : NULL, who->owners, who->bounds, who->users,
	    NUMBER(holder->now), NUMBER(who->from_band), who->room, NUMBER(who->workers),
	    who->memory == 0 ? NULL : NUMBER(who->memory)};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	snprintf(weight, sizeof weight, "%.17g", who->weight);
	rc = db_query(db, sql_text("node_register"), 22, params, &res, err);
	if (rc == RC_OK && PQntuples(res) == 0)
		rc = err_set(
		    err, RC_LOST, "another process took the name \"%s\" at the same moment", who->name);
	if (rc == RC_OK)
		*id_out = db_int64(res, 0, 0);
	return rc;
}

enum rc
store_run_key(struct db *db, int64_t incarnation, struct err *err)
{
	const char *params[] = {NUMBER(incarnation)};

	return db_query(db, sql_text("run_key"), 1, params, NULL, err);
}

enum rc
store_login(struct db *db, struct login *out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("login"), 0, NULL, &res, err);

	memset(out, 0, sizeof *out);
	if (rc == RC_OK) {
		snprintf(out->role, sizeof out->role, "%s", db_text(res, 0, 0));
		out->superuser = db_bool(res, 0, 1);
		snprintf(out->database, sizeof out->database, "%s", db_text(res, 0, 2));
		out->pid = db_int64(res, 0, 3);
		snprintf(out->since, sizeof out->since, "%s", db_text(res, 0, 4));
	}
	return rc;
}

enum rc
store_node_kinds(
    struct db *db, const char *kinds, const char *summaries, const char *handled, struct err *err)
{
	const char *params[] = {kinds, summaries, handled};

	return db_query(db, sql_text("node_kinds"), 3, params, NULL, err);
}

enum rc
store_node_pools(struct db *db, int64_t node_id, const char *pools, struct err *err)
{
	const char *params[] = {NUMBER(node_id), pools};

	return db_query(db, sql_text("node_pools"), 2, params, NULL, err);
}

/* Columns of node_list.sql, node_beat.sql and node_beat_all.sql; those of beats follow. */
enum { LIFE, LIST__COUNT, DRAIN = LIST__COUNT, STOPS, OUTPUTS, TOLD, DURABLE, OVERRIDE, BEAT__COUNT };

/* Of node_columns.inc, behind those. */
enum {
	ID,
	NAME,
	INCARNATION,
	BEAT,
	WEIGHT,
	SLOTS,
	IN_HAND,
	STATE,
	LABELS,
	HEARTBEAT,
	DEAD_AFTER,
	BUSY,
	SERVER_LIFE,
	FITNESS,
	WORK,
	CPU_FREE,
	MEMORY_FREE,
	FROM_BAND
};

static void
read_wishes(const PGresult *res, struct node_wishes *w)
{
	const char *p = db_text(res, 0, STOPS);

	w->drain = db_bool(res, 0, DRAIN);
	w->outputs = db_bool(res, 0, OUTPUTS);
	w->durable = db_bool(res, 0, DURABLE);
	snprintf(w->labels, sizeof w->labels, "%s", db_text(res, 0, OVERRIDE));
	w->n_stops = 0;
	while (*p != '\0' && w->n_stops < STOPS_MAX) {
		char *end;

		w->stop[w->n_stops].id = strtoll(p, &end, 10);
		w->stop[w->n_stops].version = strtoll(end, &end, 10);
		w->n_stops++;
		p = end + strspn(end, " ");
	}
}

static void
read_members(const struct db *db, const PGresult *res, int first, struct members *m)
{
	size_t n = (size_t)PQntuples(res);
	AUTO_FREE struct member_row *rows = xcalloc(n + 1, sizeof *rows);

	for (size_t k = 0; k < n; k++) {
		int i = (int)k;

		rows[k] = (struct member_row){.id = db_int64(res, i, first + ID),
		    .name = db_text(res, i, first + NAME),
		    .incarnation = db_int64(res, i, first + INCARNATION),
		    .beat = db_int64(res, i, first + BEAT),
		    .weight = db_double(res, i, first + WEIGHT),
		    .slots = db_int64(res, i, first + SLOTS),
		    .in_hand = db_int64(res, i, first + IN_HAND),
		    .draining = strcmp(db_text(res, i, first + STATE), "draining") == 0,
		    .labels = db_text(res, i, first + LABELS),
		    .heartbeat_us = db_int64(res, i, first + HEARTBEAT),
		    .dead_after_us = db_int64(res, i, first + DEAD_AFTER),
		    .busy = db_bool(res, i, first + BUSY),
		    .server_life = db_int64(res, i, first + SERVER_LIFE),
		    .fitness = db_int64(res, i, first + FITNESS),
		    .work = db_text(res, i, first + WORK),
		    .cpu_free = (int32_t)db_int64(res, i, first + CPU_FREE),
		    .memory_free = (int32_t)db_int64(res, i, first + MEMORY_FREE),
		    .from_band = (int)db_int64(res, i, first + FROM_BAND)};
	}
	m->pooled = db_pooled(db);
	members_observe(m, rows, n, n > 0 ? db_int64(res, 0, LIFE) : 0, clock_mono_us());
}

enum rc
store_node_beat(struct db *db, const struct node_beat *b, struct node_wishes *wishes, struct members *others,
    struct err *err)
{
	AUTO_ARRAY struct pgarray gauges = {0}, counts = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	for (int i = 0; i < GAUGE__COUNT; i++)
		pgarray_int(&gauges, b->gauge[i]);
	for (int i = 0; i < COUNT__COUNT; i++)
		pgarray_int(&counts, b->add[i]);
	rc = db_query(db, sql_text(others == NULL ? "node_beat" : "node_beat_all"), 14,
	    (const char *[]){NUMBER(b->node_id), NUMBER(b->incarnation), b->draining ? "draining" : "up",
		b->bell ? "t" : "f", pgarray_str(&gauges), pgarray_str(&counts), b->busy ? "t" : "f",
		b->ill ? "t" : "f", b->outlasts ? "t" : "f",
		b->outlast == OUTLAST_NO      ? NULL
		: b->outlast == OUTLAST_ASYNC ? "t"
					      : "f",
		b->crews, b->doubts, b->why, b->work},
	    &res, err);
	if (rc == RC_OK && PQntuples(res) == 0)
		rc = err_set(
		    err, RC_LOST, "the node's row belongs to another incarnation, or was marked down");
	if (rc == RC_OK) {
		read_wishes(res, wishes);
		if (others != NULL)
			read_members(db, res, BEAT__COUNT, others);
	}
	return rc;
}

enum rc
store_node_bell(struct db *db, int64_t node_id, int64_t incarnation, bool wanted, struct err *err)
{
	const char *params[] = {NUMBER(node_id), NUMBER(incarnation), wanted ? "t" : "f"};

	return db_query(db, sql_text("node_bell"), 3, params, NULL, err);
}

enum rc
store_unheard(struct db *db, const char *before, char **out, struct err *err)
{
	const char *params[] = {before};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("unheard"), 1, params, &res, err);

	*out = rc == RC_OK ? xstrdup(db_text(res, 0, 0)) : NULL;
	return rc;
}

enum rc
store_node_change(struct db *db, int64_t node_id, int64_t incarnation, const struct node_identity *now,
    bool *told_out, struct err *err)
{
	char weight[40];
	const char *params[] = {NUMBER(node_id), weight, now->labels, NUMBER(now->slots), NUMBER(incarnation),
	    NUMBER(now->workers)};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	snprintf(weight, sizeof weight, "%.17g", now->weight);
	rc = db_query(db, sql_text("node_change"), 6, params, &res, err);
	*told_out = rc == RC_OK && PQntuples(res) > 0;
	return rc;
}

enum rc
store_node_shards(struct db *db, int64_t node_id, int64_t incarnation, const struct pgrab_shard_set *shards,
    bool overlapping, struct err *err)
{
	char bits[PGRAB_SHARDS + 1];
	const char *params[] = {NUMBER(node_id), NUMBER(incarnation), bits, overlapping ? "t" : "f"};

	for (uint32_t s = 0; s < PGRAB_SHARDS; s++)
		bits[s] = pgrab_shard_has(shards, s) ? '1' : '0';
	bits[PGRAB_SHARDS] = '\0';
	return db_query(db, sql_text("node_shards"), 4, params, NULL, err);
}

enum rc
store_node_owners(
    struct db *db, int64_t node_id, int64_t incarnation, const char *owners, bool *told_out, struct err *err)
{
	const char *params[] = {NUMBER(node_id), NUMBER(incarnation), owners};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("node_owners"), 3, params, &res, err);

	*told_out = rc == RC_OK && PQntuples(res) > 0;
	return rc;
}

enum rc
store_node_observe(struct db *db, struct members *m, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("node_list"), 0, NULL, &res, err);

	if (rc == RC_OK)
		read_members(db, res, LIST__COUNT, m);
	return rc;
}

enum rc
store_node_declare_dead(struct db *db, const struct member *m, int64_t *ended_backends_out, struct err *err)
{
	const char *params[] = {NUMBER(m->id), NUMBER(m->incarnation), NUMBER(m->beat), NUMBER(m->life)};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("declare_dead"), 4, params, &res, err);

	if (rc == RC_OK && PQntuples(res) == 0)
		rc = RC_LOST;
	*ended_backends_out = rc == RC_OK ? db_int64(res, 0, 1) : 0;
	return rc;
}

enum rc
store_node_leave(struct db *db, int64_t node_id, int64_t incarnation, const char *died, struct err *err)
{
	const char *params[] = {NUMBER(node_id), NUMBER(incarnation), died};

	return db_query(db, sql_text("node_leave"), 3, params, NULL, err);
}

enum rc
store_is_copy(struct db *db, bool *copy_out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("is_copy"), 0, NULL, &res, err);

	*copy_out = rc == RC_OK && db_bool(res, 0, 0);
	return rc;
}

enum rc
store_server_mark(struct db *db, struct server_mark *out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("server_mark"), 0, NULL, &res, err);

	memset(out, 0, sizeof *out);
	if (rc == RC_OK) {
		out->system = db_int64(res, 0, 0);
		snprintf(out->timeline, sizeof out->timeline, "%s", db_text(res, 0, 1));
		out->sync = db_bool(res, 0, 2);
	}
	return rc;
}

enum rc
store_durable(struct db *db, bool async_ok, bool *out, struct err *why)
{
	const char *params[] = {async_ok ? "t" : "f"};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("durable"), 1, params, &res, why);

	*out = rc == RC_OK && PQgetisnull(res, 0, 0);
	if (rc == RC_OK && !*out)
		err_set(why, RC_OK, "%s", db_text(res, 0, 0));
	return rc;
}
