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
	EV_CLAIM,     /* a node took it */
	EV_RELEASE,   /* handed back unstarted; or edited by a person */
	EV_START,     /* the last check passed, the attempt is counted */
	EV_UNSTART,   /* it could not be begun after all, the attempt is taken back */
	EV_SUCCEED,   /* one-shot: it leaves the table */
	EV_RETRY,     /* failed or lost, tries left */
	EV_GIVE_UP,   /* failed or lost, no tries left */
	EV_EDIT_TIME, /* a person gave it a new run_at */
	EV__COUNT
};

/* The state after the event, or TASK_NONE where the event is not allowed. */
enum task_state task_next(enum task_state from, enum task_event ev);

const char *task_state_name(enum task_state s); /* as in pgrab.task.status */
const char *task_event_name(enum task_event e);

#endif
