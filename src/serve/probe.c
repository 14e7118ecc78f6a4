/* /livez, /readyz and the row of /metrics. */
#include "db/migrate.h"
#include "serve/route.h"

void
live_answer(struct call *c, struct db *db)
{
	c->type = "text/plain; charset=utf-8";
	buf_adds(&c->out, "ok\n");
}

/* Can requests be answered?  An answerer has answered 503 already when the database cannot be reached. */
static void
ready(struct call *c, struct db *db)
{
	struct schema_status st;
	struct err err = {0};
	enum rc rc = schema_status_read(db, &st, &err);
	bool fits = rc == RC_OK && (st.state == SCHEMA_CURRENT || st.state == SCHEMA_NEWER);

	if (rc != RC_OK) {
		call_failed(c, rc, &err);
		c->status = 503;
		return;
	}
	c->status = fits ? 200 : 503;
	c->type = "application/json";
	buf_adds(&c->out, "{\"database\":\"ok\",\"schema\":");
	buf_json(&c->out, schema_state_name(st.state));
	buf_addf(&c->out, "%s}\n", fits ? "" : ",\"hint\":\"pgrab migrate --status\"");
}

const struct route serve_routes[] = {
    {"GET", "/livez", live_answer, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"GET", "/readyz", ready, NULL, ROUTE_ANYBODY, ROUTE_PROBE},
    {"GET", "/metrics", metrics_answer, NULL, ROUTE_KNOWN, ROUTE_AS_SELF},
    {NULL},
};
