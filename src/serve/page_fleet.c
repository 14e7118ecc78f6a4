/* All databases of this pgrab serve: a page, and GET /api/v1/databases. */
#include <string.h>

#include "serve/fleet.h"
#include "serve/page.h"
#include "serve/route.h"

static bool
is_alone(struct call *c)
{
	if (c->fleet == NULL)
		call_problem(c, 404, "there is only one database here",
		    "The file of pgrab serve names others: [database NAME] with dsn.");
	return c->fleet == NULL;
}

void
page_fleet(struct call *c, struct db *db)
{
	AUTO_CLEAR PGresult *r = NULL;

	if (is_alone(c))
		return;
	r = fleet_rows(c->fleet, c->set);
	page_begin(c, "All databases", true);
	page_table(c, r, PQntuples(r), "", false);
	buf_adds(&c->out, "<p class=\"dim\">Each as it was so many seconds ago; one that is away holds up no "
			  "other.</p>\n");
	page_end(c);
}

/* Numbers are whole, and behind the name and the state; what is not of digits is a text. */
static void
put_member(struct buf *o, const PGresult *r, int row, int col)
{
	const char *value = db_text(r, row, col);

	buf_json(o, PQfname(r, col));
	buf_addc(o, ':');
	if (PQgetisnull(r, row, col))
		buf_adds(o, "null");
	else if (col > 1 && *value != '\0' && value[strspn(value, "0123456789")] == '\0')
		buf_adds(o, value);
	else
		buf_json(o, value);
}

void
fleet_answer(struct call *c, struct db *db)
{
	AUTO_CLEAR PGresult *r = NULL;

	if (is_alone(c))
		return;
	r = fleet_rows(c->fleet, c->set);
	c->type = "application/json";
	for (int row = 0; row < PQntuples(r); row++) {
		buf_adds(&c->out, row == 0 ? "[" : ",\n ");
		for (int col = 0; col < PQnfields(r); col++) {
			buf_addc(&c->out, col == 0 ? '{' : ',');
			put_member(&c->out, r, row, col);
		}
		buf_addc(&c->out, '}');
	}
	buf_adds(&c->out, "]\n");
}
