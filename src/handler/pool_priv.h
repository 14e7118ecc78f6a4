/* The inside of the pools, for its own files only: pools.c (the loop), pool.c (processes, queue), process.c
 * and process_watch.c (one process), talk.c (what it says). */
#pragma once

#include <poll.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/mailbox.h"
#include "core/backoff.h"
#include "exec/child_end.h"
#include "handler/pool.h"
#include "handler/protocol.h"
#include "keeper/keeper.h"

/* A task in the hands of a process. */
struct flight {
	TAILQ_ENTRY(flight) link;
	struct run *run;
	int64_t number;
	bool open_line;  /* the last line that it printed has no end */
	int64_t told_us; /* when it was told to stop; 0: it was not */
	enum pgrab_stop stop;
	size_t steps; /* that wait for their answer */
};
TAILQ_HEAD(flights, flight);

enum process_state {
	PROCESS_NONE,     /* there is none in this place */
	PROCESS_STARTING, /* it has not said hello */
	PROCESS_READY,
	PROCESS_RETIRING, /* takes nothing new; told to end when it has nothing */
	PROCESS_ENDING,   /* its end is certain; we wait for it */
	PROCESS_LOST,     /* likewise, but its keeper is gone too: see keeper_ended */
};

struct process {
	struct pool *pool;
	enum process_state state;
	struct keeper_run run;
	int talk_fd, out_fd;
	struct buf in, out; /* of talk_fd: what is not taken apart yet, and not written yet */
	struct buf line;    /* of out_fd: what is for the log and has no end yet */
	struct flights flights;
	int n_flights, at_once, kept; /* kept: see process.c */
	int version;                  /* of the protocol, as its hello says */
	int64_t served, renewal;      /* that of the pool when it was started */
	int64_t number;               /* of the last task, and of the last ping */
	int64_t until_us; /* STARTING: hello is due; ENDING, not yet told to stop: when it will be */
	int64_t pinged_us, answered_us; /* the last ping; the last message */
	int64_t log_until_us, left_out; /* of what it prints: until when LOG_LINES count, and lines beyond */
	int logged;
	bool quiet;    /* its fault is that it said nothing while it was to stop a task */
	bool bygone;   /* what caused the fault is of a run that had ended */
	bool stopping; /* the keeper was told to stop it */
	bool asked;    /* it was asked to end */
	bool cell;     /* the one for suspects, see struct pool */
	struct child_end end;
	char fault[600];           /* why it is being ended, "": nothing is wrong, or it ended by itself */
	const struct run *culprit; /* the run that caused the fault, if one did */
};

/* Tasks that a process had when it died, and of which one may have killed it: each runs alone until it has
 * given a result, so that it costs its neighbours nothing more.  Known to this node only, and the oldest are
 * forgotten: one that kills again is found again.  All zero: none. */
#define SUSPECTS_MAX 4096
struct suspects {
	int64_t *id; /* of tasks; a ring once it is full */
	size_t n, next;
};

struct pool {
	struct pools *all;
	size_t number; /* of the pool, from 0 */
	const struct pool_setup *set;
	/* set->processes of them, room for the successor of one that is retiring, and at the end the cell: it
	 * takes one suspect at a time, is there only while some are known, and is not counted in the
	 * status. */
	struct process *process;
	int n_processes; /* of all these */
	struct suspects suspects;
	int64_t cell_until_us;    /* the cell is wanted until then */
	struct run *first, *last; /* waiting for a process, by note.mail.next */
	size_t waiting;
	struct backoff backoff;
	int64_t next_start_us;
	int64_t renewal; /* counts pools_renew */
	struct pool_status status;
	char *library;
	char **schemas;
};

struct pools {
	struct pool_host host;
	size_t n;
	struct pool *pool;
	struct mailbox *inbox;   /* anybody -> the thread */
	struct mailbox *answers; /* to steps; anybody -> the thread */
	int wake_fd;
	_Atomic bool woken; /* wake_fd has been written to for the inbox */
	_Atomic bool quit, renew;
	bool look_at_stops;
	bool quitting;
	int64_t quit_until_us;
	struct pollfd *poll;
	char chunk[65536];
};

static inline struct process *
cell_of(const struct pool *pool)
{
	return &pool->process[pool->n_processes - 1];
}

static inline int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* process.c */
void process_start(struct process *p, int64_t now);

/* process_watch.c.  The three descriptors of a process, in this order. */
enum { NEWS_TALK, NEWS_OUTPUT, NEWS_RUN, NEWS__COUNT };
void process_watch(const struct process *p, struct pollfd news[NEWS__COUNT]);
void process_news(struct process *p, const struct pollfd news[NEWS__COUNT], int64_t now);
/* Does what is due; returns when to call again. */
int64_t process_time(struct process *p, int64_t now);
void process_give(struct process *p, struct run *r); /* process_write sends it */
void process_look_at_stops(struct process *p, int64_t now);
void process_ping(struct process *p, int64_t now); /* unless it has one to answer; process_write sends it */
/* Ends it: in good order, once it has no task; or at once, for the reason in the text. */
void process_retire(struct process *p);
void process_fault(struct process *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
void process_write(struct process *p);
bool process_room(const struct process *p);
void process_drain_output(struct process *p);
void process_init(struct process *p, struct pool *pool);
void process_close(struct process *p);
/* From here on: it takes nothing more (kept: slots that go with the tasks in them, so that these take none of
 * a successor's); the keeper has been told to stop it; its end is certain, and due by then. */
void process_leave_ready(struct process *p, int kept);
void process_stop_now(struct process *p);
void process_begin_ending(struct process *p, int64_t until_us);

/* talk.c */
void process_read(struct process *p, int64_t now);
void process_answer(struct process *p, struct step *s); /* frees it; process_write sends it */
void flight_print(struct process *p, struct flight *f, const char *text, size_t n);
void flight_end(struct process *p, struct flight *f, enum outcome outcome, const struct pgrab_result *result);

/* pool.c; those that return a time say when to call again. */
void pool_enqueue(struct pool *pool, struct run *r, int64_t now);
int64_t pool_deal(struct pool *pool, int64_t now);
int64_t pool_fill(struct pool *pool, int64_t now);
bool pool_has_place(const struct pool *pool); /* for a successor of a process */
void pool_renew(struct pool *pool);
void pool_came_up(struct pool *pool, struct process *p, struct message *hello);
void suspects_add(struct suspects *s, int64_t id);
void suspects_clear(struct suspects *s, int64_t id); /* it is none any more */
/* why NULL: it ended as asked.  at_work: it had tasks. */
void pool_went_down(struct pool *pool, struct process *p, const char *why, bool at_work, int64_t now);
