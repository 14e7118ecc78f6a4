/* GET /api/v1/events: what has happened since the last look, as server-sent events. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "db/sql.h"
#include "serve/route.h"

/* No text of a user's is in the first lines, and JSON has no line breaks, so nothing can break the form. */
static void
put_event(struct call *c, const char *id, const char *event, const char *data)
{
	buf_addf(&c->out, "id: %s\nevent: %s\ndata: %s\n\n", id, event, data);
}

/* The states of the nodes are sent first, and then when they have changed. */
static bool
is_news(struct call *c, const char *event, const char *data)
{
	if (strcmp(event, "nodes") != 0)
		return true;
	if (c->nodes != NULL && strcmp(c->nodes, data) == 0)
		return false;
	free(c->nodes);
	c->nodes = xstrdup(data);
	return true;
}

void
events_answer(struct call *c, struct db *db)
{
	const char *params[] = {c->cursor[0] == '\0' ? NULL : c->cursor};
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	enum rc rc = db_query(db, sql_text("serve_events"), 1, params, &r, &err);

	buf_reset(&c->out);
	if (rc != RC_OK) {
		call_failed(c, rc, &err);
	} else {
		c->status = 200;
		c->type = "text/event-stream";
		c->streaming = true;
		for (int row = 0; row < PQntuples(r); row++) {
			snprintf(c->cursor, sizeof c->cursor, "%s", db_text(r, row, 0));
			if (!PQgetisnull(r, row, 1) && is_news(c, db_text(r, row, 1), db_text(r, row, 2)))
				put_event(c, db_text(r, row, 0), db_text(r, row, 1), db_text(r, row, 2));
		}
	}
}
