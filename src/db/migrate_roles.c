/* Separate roles: makes them, and keeps what there is running; who may do it.  See schema_migrate. */

#include "db/fault.h"
#include "db/migrate.h"
#include "db/schema.h"

static enum rc
make(struct db *db, struct err *err)
{
	enum rc rc = db_script(db, sql_text("roles"), err);

	if (rc != RC_OK) {
		err_prefix(err, "making the roles");
		err_hint(err,
		    "It takes CREATEROLE: a role that has it may run what `pgrab sql --roles` prints, and "
		    "grant %s_owner to this one.",
		    schema_name());
	}
	return rc;
}

/* A kind is a right from here on, and a role with such tasks has had it so far. */
static enum rc
keep_kinds(struct db *db, migrate_step_fn step, void *ctx, struct err *err)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = db_query(db, sql_text("roles_keep"), 0, NULL, &r, err);

	for (int i = 0; rc == RC_OK && i < PQntuples(r); i++) {
		const char *text = db_text(r, i, 0);

		if (step != NULL)
			step(ctx, text, true);
		rc = db_script(db, text, err);
		if (rc != RC_OK) {
			err_prefix(err, "`%s`, so that the tasks of this kind go on", text);
			err_hint(err, "A role that may grant it can do it first.");
		}
	}
	return rc;
}

enum rc
migrate_roles(struct db *db, bool there, migrate_step_fn step, void *ctx, struct err *err)
{
	enum rc rc = make(db, err);

	return rc == RC_OK && there ? keep_kinds(db, step, ctx, err) : rc;
}

void
migrate_hint(struct err *err, bool there)
{
	if (!fault_no_right(err))
		return;
	if (there)
		err_hint(err,
		    "It takes the owner of the schema %s: the role that made it or, with separate roles, a "
		    "member of %s_owner.",
		    schema_name(), schema_name());
	else
		err_hint(err, "It takes CREATE on the database: run it as the owner of that.");
}
