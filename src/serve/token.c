#include "serve/token.h"

#include "db/sql.h"
#include "serve/route.h"
#include "serve/settings.h"

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

bool
token_settle(struct call *c, struct db *own)
{
	const char *params[] = {c->token};
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	bool ok = false;
	enum rc rc = db_query(own, sql_text("serve_token"), 1, params, &r, &err);

	if (rc != RC_OK)
		call_failed(c, rc, &err);
	else if (PQntuples(r) == 0)
		call_problem(c, 401, "this token is not valid, or no longer", NULL);
	else
		ok = take_role(c, db_text(r, 0, 0));
	return ok;
}
