/* Texts of ours that a connection sends again and again are prepared there under a name, so that the server
 * need not read and plan them each time: for a batch of one that is as much work as the rest.  Not behind a
 * pooler, whose servers other clients use as well.  See adr/0006. */
#include "db/pg_priv.h"

#include <string.h>

#include "base/clock.h"

void
db_forget_names(struct db *db)
{
	for (size_t i = 0; i < db->n_named; i++)
		db->named[i].name[0] = '\0';
}

bool
db_name_is_stale(struct db *db, const PGresult *r, struct err *err)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *where = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION);
	bool dropped = state != NULL && strcmp(state, "26000") == 0;
	const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	/* a function that `pgrab migrate` has replaced since the plan was made (not translated) */
	bool replaced = state != NULL && strcmp(state, "XX000") == 0 && text != NULL &&
			strncmp(text, "cache lookup failed for function", 32) == 0;
	bool changed = state != NULL && strcmp(state, "0A000") == 0 && where != NULL &&
		       strcmp(where, "RevalidateCachedQuery") == 0;

	if (!dropped && !changed && !replaced)
		return false;
	db_forget_names(db);
	err_set(err, RC_AGAIN, "a statement has to be prepared again");
	return true;
}

static struct db_named *
entry_of(struct db *db, const char *sql)
{
	for (size_t i = 0; i < db->n_named; i++) {
		if (db->named[i].sql == sql)
			return &db->named[i];
	}
	if (db->n_named == DB_NAMED_MAX)
		return NULL;
	db->named[db->n_named] = (struct db_named){.sql = sql};
	return &db->named[db->n_named++];
}

enum rc
db_name(struct db *db, const char *sql, struct err *err)
{
	struct db_named *e;
	enum rc rc;

	if (db->named_on != db->generation)
		db_forget_names(db);
	db->named_on = db->generation;
	e = db->pooled ? NULL : entry_of(db, sql);
	if (e == NULL || e->name[0] != '\0')
		return RC_OK;
	if (!e->asked) {
		e->asked = true;
		return RC_OK;
	}
	snprintf(e->name, sizeof e->name, "pgrab_%u", ++db->names);
	if (!PQsendPrepare(db->conn, e->name, sql, 0, NULL))
		return db_lost(db, err);
	rc = db_flush(db, db_call_until(db), err);
	if (rc == RC_OK)
		rc = db_collect(db, db_call_until(db), NULL, err);
	if (rc != RC_OK)
		e->name[0] = '\0';
	return rc;
}

const char *
db_name_of(const struct db *db, const char *sql)
{
	for (size_t i = 0; i < db->n_named; i++) {
		if (db->named[i].sql == sql && db->named[i].name[0] != '\0')
			return db->named[i].name;
	}
	return NULL;
}

bool
db_send(struct db *db, const char *name, const char *sql, int n_params, const char *const *params)
{
	if (name != NULL)
		return PQsendQueryPrepared(db->conn, name, n_params, params, NULL, NULL, 0);
	return PQsendQueryParams(db->conn, sql, n_params, NULL, params, NULL, NULL, 0);
}
