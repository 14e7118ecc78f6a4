/* GET /api/v1/events: what has happened since the last look, as server-sent events. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/route.h"

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

	buf_reset(&c->out);
	if (!call_ask(c, db, "serve_events", 1, params, &r))
		return;
	c->status = 200;
	c->type = "text/event-stream";
	c->streaming = true;
	for (int row = 0; row < PQntuples(r); row++) {
		const char *event = db_text(r, row, 1), *data = db_text(r, row, 2);

		snprintf(c->cursor, sizeof c->cursor, "%s", db_text(r, row, 0));
		/* No text of a user's is in the first lines, and JSON has no line ends. */
		if (!PQgetisnull(r, row, 1) && is_news(c, event, data))
			buf_addf(&c->out, "id: %s\nevent: %s\ndata: %s\n\n", c->cursor, event, data);
	}
}
