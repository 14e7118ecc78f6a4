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

/* A heading and a table of all rows; without rows the sentence `nothing`, or not even the heading if that is
 * NULL. */
void page_section(struct call *c, const char *heading, const PGresult *r, const char *nothing);

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

/* The pages, and what their forms do. */
route_fn page_overview, page_tasks, page_history, page_late, page_task, page_run, page_find, page_timeline,
    page_month, page_chain, page_fleet;
route_fn page_act_tasks, page_act_signal, page_act_answer, page_act_node, page_act_limit, page_act_blackout,
    page_act_all, page_add, page_log_in, page_log_out;

/* page_plot.c.  What the colours of a drawing mean: pairs of a class and words, ended by NULL. */
void page_legend(struct call *c, const char *const (*items)[2]);
/* How long the last runs took and how late they began; the rows of serve_rates, each with a link
 * to a timeline of that span. */
void page_last_runs(struct call *c, const PGresult *runs);
void page_load(struct call *c, const PGresult *r);                         /* of serve_day */
void page_congestion(struct call *c, const PGresult *r, const char *span); /* of serve_congestion */
void page_batch(struct call *c, const PGresult *r);                        /* of serve_batch */
void page_rates(struct call *c, const PGresult *r, const char *heading, const char *span);
/* page_svg.c: a run of a chain as a graph; links: of serve_chain, in the order of depth. */
void page_graph(struct call *c, const PGresult *links, const char *id, const char *run);
