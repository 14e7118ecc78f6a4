/* The page: HTML that works without JavaScript.  Whatever comes from a row goes through html_text(). */
#pragma once

#include "serve/call.h"

/* A whole page that says what went wrong. */
void page_problem(struct call *c, const char *title, const char *detail, const char *hint);

/* Head and navigation; then the content; then the end.  live: its content is fetched again every few
 * seconds. */
void page_begin(struct call *c, const char *title, bool live);
void page_end(struct call *c);

/* A field of a form that nobody sees. */
void page_hidden(struct call *c, const char *name, const char *value);

/* So that page_back() leads here, once the form has done what it is for. */
void page_come_back(struct call *c);

/* For a form that asks for a page: the zone that was asked for goes on. */
void page_keep_zone(struct call *c);

/* The beginning of a form that posts to path, with the token that proves it is ours. */
void page_form(struct call *c, const char *path, const char *class);

/* A button of a form: <button name="name" value="value">label</button>. */
void page_button(struct call *c, const char *name, const char *value, const char *label);

/* The rows of a text of src/db/sql: false when the database refused, and c holds the answer. */
bool
page_ask(struct call *c, struct db *db, const char *sql, int n, const char *const *params, PGresult **out);

/* The same of a list or summary: it may be a second old, see cache.h. */
bool page_ask_shared(
    struct call *c, struct db *db, const char *sql, int n, const char *const *params, PGresult **out);

/* page_table.c.  A table of all columns; without rows, the sentence `nothing`.  checks: a box per row,
 * named task, for bulk actions. */
void page_table(struct call *c, const PGresult *r, int rows, const char *nothing, bool checks);

/* A table of rows [from, to). */
void page_rows(struct call *c, const PGresult *r, int from, int to);

/* A value as a table shows it: a link for a task's number, a word with its colour for a status. */
void page_value(struct call *c, const char *column, const char *value);

/* Why a run began late, with a link to what ran in the middle of its wait, or to the blackouts. */
void page_why(struct call *c, const char *column, const char *value, const char *at);

/* One <option> of a choice. */
void page_option(struct buf *o, const char *value, const char *label, const char *chosen);

/* An <h2>; text is ours, not a user's. */
void page_heading(struct call *c, const char *text);

/* After something was done: back to where the form stood, or to `to`. */
void page_back(struct call *c, const char *to);

/* page_task.c */
void page_task(struct call *c, struct db *db);
void page_run(struct call *c, struct db *db);
void page_find(struct call *c, struct db *db);
/* page_lists.c */
void page_tasks(struct call *c, struct db *db);
void page_history(struct call *c, struct db *db);
void page_late(struct call *c, struct db *db);
/* page_overview.c */
void page_overview(struct call *c, struct db *db);
/* page_time.c */
void page_timeline(struct call *c, struct db *db);
/* page_fleet.c: all databases. */
void page_fleet(struct call *c, struct db *db);
/* page_month.c */
void page_month(struct call *c, struct db *db);
/* page_plot.c.  What the colours of a drawing mean: pairs of a class and words, ended by NULL. */
void page_legend(struct call *c, const char *const (*items)[2]);
/* How long the last runs took and how late they began; the rows of serve_rates, each with a link
 * to a timeline of that span. */
void page_last_runs(struct call *c, const PGresult *runs);
void page_load(struct call *c, const PGresult *r);                         /* of serve_day */
void page_congestion(struct call *c, const PGresult *r, const char *span); /* of serve_congestion */
void page_batch(struct call *c, const PGresult *r);                        /* of serve_batch */
void page_rates(struct call *c, const PGresult *r, const char *heading, const char *span);
/* page_chain.c */
void page_chain(struct call *c, struct db *db);
/* page_svg.c: a run of a chain as a graph; links: of serve_chain. */
void page_graph(struct call *c, const PGresult *links, const char *id, const char *run);
/* page_act.c */
void page_act_tasks(struct call *c, struct db *db);
void page_act_node(struct call *c, struct db *db);
void page_act_signal(struct call *c, struct db *db);
void page_act_answer(struct call *c, struct db *db);
void page_act_limit(struct call *c, struct db *db);
void page_act_blackout(struct call *c, struct db *db);
void page_act_all(struct call *c, struct db *db);
void page_add(struct call *c, struct db *db);
void page_log_in(struct call *c, struct db *db);
void page_log_out(struct call *c, struct db *db);
