/* All databases of this pgrab serve: a page, and GET /api/v1/databases. */
#include <string.h>

#include "serve/escape.h"
#include "serve/fleet.h"
#include "serve/page.h"
#include "serve/route.h"

#define PATH 1 /* column of fleet_rows() */

/* In single quotes: not to be made a path of this database, see prefix.c. */
static void
put_cell(struct call *c, const PGresult *r, int row, int col)
{
	const char *name = PQfname(r, col);

	buf_addf(&c->out, "<td data-label=\"%s\">", name);
	if (col == 0) {
		buf_addf(&c->out, "<a href='%s/'>", db_text(r, row, PATH));
		html_text(&c->out, db_text(r, row, col));
		buf_adds(&c->out, "</a>");
	} else {
		page_value(c, name, db_text(r, row, col));
	}
	buf_adds(&c->out, "</td>");
}

static void
put_table(struct call *c, const PGresult *r)
{
	buf_adds(&c->out, "<div class=\"wide\"><table><thead><tr>");
	for (int col = 0; col < PQnfields(r); col++) {
		if (col == PATH)
			continue;
		buf_adds(&c->out, "<th scope=\"col\">");
		for (const char *p = PQfname(r, col); *p != '\0'; p++)
			buf_addc(&c->out, *p == '_' ? ' ' : *p);
		buf_adds(&c->out, "</th>");
	}
	buf_adds(&c->out, "</tr></thead>\n<tbody>");
	for (int row = 0; row < PQntuples(r); row++) {
		buf_adds(&c->out, "<tr>");
		for (int col = 0; col < PQnfields(r); col++) {
			if (col != PATH)
				put_cell(c, r, row, col);
		}
		buf_adds(&c->out, "</tr>\n");
	}
	buf_adds(&c->out, "</tbody></table></div>\n");
}

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
	put_table(c, r);
	buf_adds(&c->out, "<p class=\"dim\">Each as it was so many seconds ago; one that is away holds up no "
			  "other.</p>\n");
	page_end(c);
}

/* Numbers are whole; what is not of digits is a text. */
static void
put_member(struct buf *o, const PGresult *r, int row, int col)
{
	const char *value = db_text(r, row, col);

	json_text(o, PQfname(r, col));
	buf_addc(o, ':');
	if (PQgetisnull(r, row, col))
		buf_adds(o, "null");
	else if (col > PATH + 1 && *value != '\0' && value[strspn(value, "0123456789")] == '\0')
		buf_adds(o, value);
	else
		json_text(o, value);
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
