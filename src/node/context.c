/* See context.h. */
#include "node/context.h"

#include <stdio.h>

struct db *
node_db(const struct node *n, const char *what)
{
	char app[64];
	struct db *db;

	snprintf(app, sizeof app, "pgrab %s", what);
	db = db_create(n->set->dsn, app, CALL_TIMEOUT_US);
	db_of_node(db);
	db_patient(db);
	db_keeps(db);
	return db;
}
