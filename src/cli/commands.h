/* The rows of the command table, each in a file cmd_*.c (help: help.c), and what most of these include. */
#pragma once

#include "cli/cli.h"
#include "cli/text.h"
#include "db/report.h"

extern const struct command cmd_add, cmd_adopt, cmd_apply, cmd_backfill, cmd_batches, cmd_blackout,
    cmd_calendar, cmd_cancel, cmd_chains, cmd_complete, cmd_delete, cmd_diff, cmd_doctor, cmd_drain, cmd_edit,
    cmd_events, cmd_executor, cmd_explain, cmd_export, cmd_failing, cmd_forecast, cmd_help, cmd_import,
    cmd_late, cmd_limit, cmd_logs, cmd_mcp, cmd_migrate, cmd_next, cmd_nodes, cmd_pause, cmd_resolve,
    cmd_resume, cmd_retry, cmd_run, cmd_run_now, cmd_runs, cmd_seal, cmd_serve, cmd_show, cmd_signal,
    cmd_skip_next, cmd_sql, cmd_status, cmd_strategy, cmd_tasks, cmd_top, cmd_undelete, cmd_undrain,
    cmd_version, cmd_wait, cmd_waits;
