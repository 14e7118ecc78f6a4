#include "node/node.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/backoff.h"
#include "db/fault.h"
#include "db/migrate.h"
#include "db/schema.h"
#include "node/context.h"
#include "node/handlers/handlers.h"
#include "node/signals.h"

/* The schema: made when there is none, never upgraded by a node. */
static enum rc
check_schema(struct db *db, struct err *err)
{
	struct schema_status st;
	enum rc rc = schema_status_read(db, &st, err);

	if (rc != RC_OK)
		return rc;
	switch (st.state) {
	case SCHEMA_CURRENT:
	case SCHEMA_NEWER: return RC_OK;
	case SCHEMA_NONE:
		log_info("schema", "action=create database=\"%s\"", db_target(db));
		rc = schema_migrate(db, false, NULL, NULL, err);
		if (rc == RC_BAD)
			err_prefix(err,
			    "the schema %s does not exist and could not be created; run `pgrab migrate%s` as "
			    "a role that may create it",
			    schema_name(), schema_flag());
		return rc;
	case SCHEMA_OLD:
		return err_set(err, RC_BAD,
		    "the schema in %s is older than this program, or its tables have other columns; run: "
		    "pgrab migrate%s",
		    db_target(db), schema_flag());
	case SCHEMA_TOO_NEW:
		return err_set(err, RC_BAD,
		    "the schema in %s (version %d) was made by a newer, incompatible pgrab; upgrade this "
		    "program (it knows version %d)",
		    db_target(db), st.installed, st.known);
	default: abort();
	}
}

static void
add_kind(void *array, const char *kind)
{
	pgarray_text(array, kind);
}

/* From here on tasks of the kinds of plug-ins and handlers can be inserted. */
static enum rc
register_kinds(struct node *n, struct db *db, struct err *err)
{
	AUTO_ARRAY struct pgarray kinds = {0}, summaries = {0}, handled = {0};

	for (size_t i = 0; i < exec_set_count(n->execs); i++) {
		pgarray_text(&kinds, exec_set_at(n->execs, i)->kind);
		pgarray_text(&summaries, exec_set_at(n->execs, i)->summary);
	}
	handlers_kinds(n->handlers, add_kind, &handled);
	return store_node_kinds(db, pgarray_str(&kinds), pgarray_str(&summaries), pgarray_str(&handled), err);
}

/* A pooler in statement mode ends the connection that opens one.  It may be put right while we wait; so may a
 * setting that makes all transactions read-only. */
static enum rc
check_transactions(struct db *db, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	bool read_only = false;
	enum rc rc = db_begin(db, "", err);

	if (rc == RC_OK)
		rc = db_query(db,
		    "select pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool "
		    "and not pg_catalog.pg_is_in_recovery()",
		    0, NULL, &res, err);
	if (rc == RC_OK)
		read_only = db_bool(res, 0, 0);
	if (rc == RC_OK)
		rc = db_script(db, "rollback", err);
	if (rc == RC_UNKNOWN)
		err_prefix(err,
		    "could not open a transaction (a pooler in between has to have pool_mode transaction or "
		    "session)");
	if (rc == RC_OK && read_only) {
		db_disconnect(db); /* another session may have another setting */
		rc = err_set(err, RC_AGAIN,
		    "transactions are read-only: default_transaction_read_only is on for this role, this "
		    "database or the server, or in a session that a pooler hands on");
	}
	return rc;
}

static enum rc
prepare_schema(struct node *n, struct db *db, bool *durable_out, struct err *why, struct err *err)
{
	enum rc rc = check_schema(db, err);

	if (rc == RC_OK)
		rc = store_durable(db, n->set->at_most_once_async, durable_out, why);
	if (rc != RC_OK && why->text[0] != '\0')
		*err = *why;
	if (rc == RC_OK)
		rc = register_kinds(n, db, err);
	if (rc == RC_BAD && fault_no_right(err))
		err_hint(err,
		    "A node logs in as the owner of the schema %s or, with separate roles, as a member of "
		    "%s_node: grant %s_node to this role.",
		    schema_name(), schema_name(), schema_name());
	return rc;
}

/* All that must be there before the first task; and what the server's durability allows. */
static enum rc
prepare_database(struct node *n, struct db *db, bool *durable_out, struct err *why, struct err *err)
{
	enum rc rc = check_transactions(db, err);

	if (rc == RC_OK)
		rc = owners_meet(&n->owners, n->set, &n->exec_env, db, err);
	return rc == RC_OK ? prepare_schema(n, db, durable_out, why, err) : rc;
}

enum rc
node_meet_database(struct node *n, struct err *err)
{
	AUTO_DB struct db *db = db_create(n->set->dsn, "pgrab start", CALL_TIMEOUT_US);
	struct backoff wait;
	struct err why = {0};
	bool durable = false, said = false;
	enum rc rc;

	db_be(db, DB_OF_NODE);
	backoff_init(&wait, 100 * US_PER_MS, 5 * US_PER_S, (uint64_t)clock_mono_us());
	for (;;) {
		rc = prepare_database(n, db, &durable, &why, err);
		if (rc == RC_OK || rc == RC_BAD || rc == RC_CLOSED)
			break;
		if (!said)
			log_warn("waiting", "for=database error=\"%s\"", err->text);
		said = true;
		if (!signals_wait(backoff_next_us(&wait))) {
			rc = RC_CLOSED;
			break;
		}
	}
	if (rc == RC_OK && !durable)
		log_warn("durability", "reason=\"%s\" hint=\"%s\"", why.text,
		    "tasks with delivery at_most_once are left for other nodes");
	n->exec_env.role = n->owners.role;
	n->exec_env.database = n->owners.database;
	n->exec_env.logins = n->owners.login;
	n->exec_env.n_logins = n->owners.n_logins;
	atomic_store(&n->durable, durable);
	return rc;
}
