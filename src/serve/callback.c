/* The door of callbacks: what receivers of requests (args.await) say, to pgrab.resolve(). */
#include <string.h>

#include "db/sql.h"
#include "serve/route.h"

/* What is wrong with the answer itself is 400, 401 or 410; all else may be well in a moment. */
static void
refuse(struct call *c, enum rc rc, const struct err *err)
{
	if (strcmp(err->sqlstate, "28000") == 0)
		call_problem(c, 401, "this is no token for an answer to that task",
		    "The header Pgrab-Callback has it.");
	else if (strcmp(err->sqlstate, "55000") == 0)
		call_problem(c, 410, "the run is over; nothing has changed",
		    "It was answered, timed out, was cancelled, or is tried again with another token.");
	else if (strncmp(err->sqlstate, "23", 2) == 0)
		call_problem(c, 503, "the answer could not be recorded", "Try again in a moment.");
	else
		call_failed(c, rc, err);
}

void
callback_answer(struct call *c, struct db *db)
{
	const char *params[] = {c->part[0], c->part[1], c->body};
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	enum rc rc;

	if (strlen(c->part[0]) > 18 || c->part[0][strspn(c->part[0], "0123456789")] != '\0') {
		call_problem(
		    c, 404, "there is nothing here", "The header Pgrab-Callback has the whole address.");
		return;
	}
	rc = db_query(db, sql_text("serve_resolve"), 3, params, &r, &err);
	if (rc == RC_OK) {
		c->type = "application/json";
		buf_adds(&c->out, "{\"status\":");
		buf_json(&c->out, db_text(r, 0, 0));
		buf_adds(&c->out, "}\n");
	} else {
		refuse(c, rc, &err);
	}
}

const struct route callback_routes[] = {
    {"POST", "/callback/*/*", callback_answer, NULL, ROUTE_ANYBODY, ROUTE_AS_SELF},
    {"GET", "/livez", live_answer, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {NULL},
};
