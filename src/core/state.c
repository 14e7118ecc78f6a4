/* The table of moves.  An absent cell is TASK_NONE: not allowed. */
#include "core/state.h"

#include <stddef.h>

static const enum task_state next[TASK_STATE__COUNT][EV__COUNT] = {
    [TASK_WAITING] = {[EV_FREE] = TASK_SCHEDULED, [EV_SKIP] = TASK_SKIPPED, [EV_CANCEL] = TASK_CANCELLED},
    [TASK_SCHEDULED] = {[EV_CLAIM] = TASK_CLAIMED,
	[EV_START] = TASK_RUNNING, /* an instant kind, with its claim */
	[EV_EDIT_TIME] = TASK_SCHEDULED,
	[EV_RELEASE] = TASK_SCHEDULED,
	[EV_REARM] = TASK_SCHEDULED,
	[EV_BIND] = TASK_WAITING,
	[EV_SKIP] = TASK_SKIPPED,
	[EV_CANCEL] = TASK_CANCELLED},
    [TASK_CLAIMED] = {[EV_START] = TASK_RUNNING,
	[EV_RELEASE] = TASK_SCHEDULED,
	[EV_EDIT_TIME] = TASK_SCHEDULED,
	[EV_REARM] = TASK_SCHEDULED,
	[EV_BIND] = TASK_WAITING,
	[EV_SKIP] = TASK_SKIPPED,
	[EV_CANCEL] = TASK_CANCELLED},
    [TASK_RUNNING] = {[EV_SUCCEED] = TASK_DONE,
	[EV_RETRY] = TASK_SCHEDULED,
	[EV_REARM] = TASK_SCHEDULED,
	[EV_GIVE_UP] = TASK_PARKED,
	[EV_CANCEL] = TASK_CANCELLED,
	[EV_UNSTART] = TASK_SCHEDULED,
	[EV_EDIT_TIME] = TASK_RUNNING},
    [TASK_PARKED] = {[EV_EDIT_TIME] = TASK_SCHEDULED,
	[EV_REOPEN] = TASK_SCHEDULED,
	[EV_CANCEL] = TASK_CANCELLED,
	[EV_REARM] = TASK_SCHEDULED,
	[EV_NEXT_RUN] = TASK_WAITING},
    /* Only links of a chain are seen in these, until its run is over. */
    [TASK_DONE] = {[EV_REARM] = TASK_SCHEDULED, [EV_NEXT_RUN] = TASK_WAITING},
    [TASK_CANCELLED] = {[EV_REARM] = TASK_SCHEDULED, [EV_NEXT_RUN] = TASK_WAITING},
    [TASK_SKIPPED] = {[EV_REARM] = TASK_SCHEDULED, [EV_REOPEN] = TASK_WAITING, [EV_NEXT_RUN] = TASK_WAITING},
};

static const char *const state_name[TASK_STATE__COUNT] = {
    [TASK_NONE] = "none",
    [TASK_WAITING] = "waiting",
    [TASK_SCHEDULED] = "scheduled",
    [TASK_CLAIMED] = "claimed",
    [TASK_RUNNING] = "running",
    [TASK_PARKED] = "parked",
    [TASK_DONE] = "done",
    [TASK_CANCELLED] = "cancelled",
    [TASK_SKIPPED] = "skipped",
};

static const char *const event_name[EV__COUNT] = {
    [EV_CLAIM] = "claim",
    [EV_RELEASE] = "release",
    [EV_START] = "start",
    [EV_UNSTART] = "unstart",
    [EV_SUCCEED] = "succeed",
    [EV_RETRY] = "retry",
    [EV_REARM] = "rearm",
    [EV_GIVE_UP] = "give_up",
    [EV_CANCEL] = "cancel",
    [EV_SKIP] = "skip",
    [EV_FREE] = "free",
    [EV_BIND] = "bind",
    [EV_REOPEN] = "reopen",
    [EV_NEXT_RUN] = "next_run",
    [EV_EDIT_TIME] = "edit_time",
};

enum task_state
task_next(enum task_state from, enum task_event ev)
{
	if ((unsigned)from >= TASK_STATE__COUNT || (unsigned)ev >= EV__COUNT)
		return TASK_NONE;
	return next[from][ev];
}

const char *
task_state_name(enum task_state s)
{
	return (unsigned)s < TASK_STATE__COUNT ? state_name[s] : "none";
}

const char *
task_event_name(enum task_event e)
{
	return (unsigned)e < EV__COUNT ? event_name[e] : "none";
}
