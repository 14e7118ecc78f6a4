#include "node/context.h"

#include <stdio.h>

struct db *
node_db(const struct node *n, const char *what)
{
	char app[64];
	struct db *db;

	snprintf(app, sizeof app, "pgrab %s", what);
	db = db_create(n->set->dsn, app, CALL_TIMEOUT_US);
	db_be(db, DB_OF_NODE | DB_PATIENT | DB_KEEPS);
	db_stays_with(db, &n->server);
	return db;
}

bool
node_server(struct node *n, uint64_t key)
{
	uint64_t before = atomic_exchange(&n->server, key);

	if (before == key || before == 0 || key == 0)
		return false;
	atomic_store(&n->bell_heard, false); /* it may be listening to the old one for a while yet */
	return true;
}
