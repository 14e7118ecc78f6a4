/*
 * The rows of the command table, one per cmd_*.c, and what most of them include.
 */
#pragma once

#include "cli/cli.h"
#include "cli/text.h"
#include "db/report.h"

extern const struct command cmd_backfill;
extern const struct command cmd_add, cmd_edit;     /* in cmd_add.c */
extern const struct command cmd_apply, cmd_export; /* in cmd_apply.c */
extern const struct command cmd_batches;
extern const struct command cmd_blackout;
extern const struct command cmd_calendar;
extern const struct command cmd_chains;
extern const struct command cmd_complete;
extern const struct command cmd_diff;
extern const struct command cmd_doctor;
extern const struct command cmd_drain, cmd_undrain;     /* in cmd_drain.c */
extern const struct command cmd_executor, cmd_strategy; /* in cmd_builtin.c */
extern const struct command cmd_explain;
extern const struct command cmd_forecast;
extern const struct command cmd_help; /* in help.c */
extern const struct command cmd_import;
extern const struct command cmd_failing, cmd_late; /* in cmd_late.c */
extern const struct command cmd_limit;
extern const struct command cmd_logs;
extern const struct command cmd_migrate;
extern const struct command cmd_next;
extern const struct command cmd_nodes;
extern const struct command cmd_resolve, cmd_signal; /* in cmd_signal.c */
extern const struct command cmd_adopt, cmd_pause, cmd_resume, cmd_cancel, cmd_retry, cmd_run_now,
    cmd_skip_next, cmd_delete, cmd_undelete, cmd_seal; /* in cmd_control.c */
extern const struct command cmd_run;
extern const struct command cmd_events;
extern const struct command cmd_runs;
extern const struct command cmd_serve;
extern const struct command cmd_show;
extern const struct command cmd_sql;
extern const struct command cmd_status;
extern const struct command cmd_tasks;
extern const struct command cmd_top;
extern const struct command cmd_version;
extern const struct command cmd_wait;
extern const struct command cmd_mcp;
extern const struct command cmd_waits;
