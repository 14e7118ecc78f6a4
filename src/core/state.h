/*
 * The states of a task and what moves it from one to another.  One table; the SQL side (the CHECK on
 * pgrab.task.status and the statements in src/db/sql) is tested against it, and the diagram in
 * docs/architecture.md is made from it.
 */
#ifndef PGRAB_CORE_STATE_H
#define PGRAB_CORE_STATE_H

enum task_state {
	TASK_NONE, /* not a state: the answer for a move that is not allowed */
	TASK_WAITING,
	TASK_SCHEDULED,
	TASK_CLAIMED,
	TASK_RUNNING,
	TASK_PARKED,
	TASK_DONE,
	TASK_CANCELLED,
	TASK_SKIPPED,
	TASK_STATE__COUNT
};

enum task_event {
	EV_CLAIM,   /* a node took it */
	EV_RELEASE, /* handed back unstarted; or edited by a person; or in line for a place under its limit */
	EV_START,   /* the last check passed, the attempt is counted */
	EV_UNSTART, /* it could not be begun after all, the attempt is taken back */
	EV_SUCCEED, /* it has ended: it leaves the table, now or with its chain */
	EV_RETRY,   /* failed or lost, tries left */
	EV_REARM,   /* this fire is over, its schedule goes on */
	EV_GIVE_UP, /* failed or lost, no tries left */
	EV_CANCEL,  /* a person gave it up */
	EV_SKIP,    /* a link whose parents did not end as asked; a fire nobody could run in time */
	EV_FREE,    /* a link whose parents have ended as asked */
	EV_BIND,    /* it was given a parent before it started */
	EV_REOPEN,  /* a person tries again what was parked, and what was skipped because of it */
	EV_NEXT_RUN,  /* a link, when the root of its chain is armed again */
	EV_EDIT_TIME, /* a person gave it a new run_at */
	EV__COUNT
};

/* The state after the event, or TASK_NONE where the event is not allowed. */
enum task_state task_next(enum task_state from, enum task_event ev);

const char *task_state_name(enum task_state s); /* as in pgrab.task.status */
const char *task_event_name(enum task_event e);

#endif
