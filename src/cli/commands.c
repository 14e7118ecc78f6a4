/* The table of commands: the one place that knows them all.  Its order is the order of the help. */
#include "cli/commands.h"

const struct command *const cli_commands[] = {
    /* setting up */
    &cmd_migrate, &cmd_sql, &cmd_run, &cmd_serve,
    /* looking around */
    &cmd_status, &cmd_top, &cmd_nodes, &cmd_late, &cmd_failing, &cmd_tasks, &cmd_runs, &cmd_events, &cmd_diff,
    &cmd_show, &cmd_logs, &cmd_explain, &cmd_chains, &cmd_batches, &cmd_waits, &cmd_next, &cmd_forecast,
    &cmd_doctor, &cmd_strategy, &cmd_executor,
    /* tasks */
    &cmd_add, &cmd_edit, &cmd_apply, &cmd_export, &cmd_import, &cmd_pause, &cmd_resume, &cmd_adopt,
    &cmd_cancel, &cmd_retry, &cmd_run_now, &cmd_skip_next, &cmd_backfill, &cmd_delete, &cmd_undelete,
    &cmd_signal, &cmd_resolve, &cmd_seal, &cmd_wait, &cmd_limit, &cmd_calendar, &cmd_blackout,
    /* nodes */
    &cmd_drain, &cmd_undrain,
    /* others */
    &cmd_mcp, &cmd_help, &cmd_version, &cmd_complete, NULL};

_Static_assert(sizeof cli_commands / sizeof *cli_commands <= CLI_COMMANDS_MAX + 1, "raise CLI_COMMANDS_MAX");
