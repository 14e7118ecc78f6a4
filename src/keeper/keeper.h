/*
 * The keeper: a small separate process that forks and watches the children of shell and exec runs, so that
 * they die with the lease whatever becomes of the node: killed, frozen or swapped out.  (docs/adr: why a
 * keeper process, and what proves that a run has ended.)
 *
 *     node --- spawn socket ---> keeper --- fork ---> shim (one run at a time) --- vfork, exec ---> the child
 *       \____ run socket (one per run, node's worker <-> shim and keeper) ____/
 *
 * The keeper has one thread, no database and a clean environment (the same program, executed again); it only
 * forks.  The shim is subreaper of its own run, so that it, and nobody else, inherits every daemon the run
 * forks off.  A shim kills its run
 *   - when the worker says so (TERM, then KILL after kill_grace),
 *   - when the lease deadline in shared memory passes (the same way),
 *   - when the node or the keeper is gone (end of file on the lifeline; the same way),
 * never later than kill_grace after the end of the lease, and, when the run's main process has ended,
 * whatever else is left of it (KILL).  The keeper does the same to a run whose shim is dead or frozen.
 *
 * The node watches the keeper in turn, in a thread of this module: one that has died, or whose tick stands
 * still, is killed and replaced, and what it left is killed by the node itself, the next subreaper.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/rc.h"

struct keeper; /* the node's side; at most one per process, made before any thread of the node */

/* Executes /proc/self/exe with argv[1] = KEEPER_ARGV1 and an empty environment. */
#define KEEPER_ARGV1 "__keeper"

struct keeper_setup {
	int64_t kill_grace_us;
	bool cgroups; /* make a control group per run where that can be done */
	/* NULL, or argv[1] of what the keeper becomes when the node has died without keeper_stop
	 * and nothing of its runs is left: this program, with the node's id and incarnation
	 * (keeper_vouch), and those of keeper_vouch_next or zeros, as further arguments, an empty
	 * environment, and will_fd at KEEPER_WILL_FD.  Borrowed. */
	const char *farewell;
	int will_fd; /* with a farewell: anything that can be read, never shown to a run; borrowed */
};
#define KEEPER_WILL_FD 7

/* RC_OK or RC_FATAL.  On return the keeper is ready.  Makes the calling process a subreaper. */
CHECKED enum rc keeper_start(struct keeper **out, const struct keeper_setup *setup, struct err *err);

/* Closes the lifeline and waits (at most kill_grace + 3 s) until the keeper and all that it ran are gone.
 * There is no farewell.  Then frees.  Nulls the pointer. */
void keeper_stop(struct keeper **k);

/* For a process that is about to end without keeper_stop, because it cannot stop its threads.  A live keeper
 * takes care of its runs and of the farewell; what a lost one left is killed here and now: waits until
 * nothing of it is left, at most until until_us (clock_mono_us). */
void keeper_no_grace(struct keeper *k, int64_t until_us);

/* Until when (clock_boot_us) runs may go on.  A time that has passed, such as 0: from now on nothing may run.
 * One thread at a time; never blocks.  A lease that is taken back is noticed within half a second. */
void keeper_lease(struct keeper *k, int64_t deadline_boot_us);

/* Who the node is about to register as, besides who it is until then: if it dies before it has an answer the
 * keeper speaks for both.  Speaking for one that was never registered does no harm.  One thread at a time. */
void keeper_vouch_next(struct keeper *k, int64_t node_id, int64_t incarnation);
/* Who the keeper speaks for in its farewell from now on; incarnation 0: for nobody.  One thread at a time. */
void keeper_vouch(struct keeper *k, int64_t node_id, int64_t incarnation);

/* The keeper process at this moment; 0: there is none, a new one is being made. */
pid_t keeper_pid(struct keeper *k);

/* Runs that the keeper process looks after, and how many keeper processes were lost so far.  Any thread. */
int64_t keeper_runs(const struct keeper *k);
int64_t keeper_lost(struct keeper *k);

/* A descriptor that becomes readable when there has been no keeper for so long that the node had better end.
 * Owned by the keeper; only poll it. */
int keeper_alive_fd(const struct keeper *k);

/* 0: not limited. */
struct keeper_limits {
	int64_t memory;      /* bytes, of all processes together; without control groups of each */
	int64_t processes;   /* only with control groups */
	int64_t cpu_percent; /* of one processor; only with control groups */
};

/* The user to run it as; the keeper needs root for that, or CAP_SETUID, CAP_SETGID and CAP_KILL
 * (keeper_can_switch). */
#define KEEPER_GROUPS_MAX 1024
struct keeper_user {
	bool set; /* false: as the node, and then nothing else here counts */
	uid_t uid;
	gid_t gid;
	size_t n_groups;     /* at most KEEPER_GROUPS_MAX */
	const gid_t *groups; /* supplementary; borrowed */
};

/* May this process run anything as another user, and still kill it?  Any thread. */
bool keeper_can_switch(void);

/* What to run.  All borrowed.  argv[0] is the program (absolute, or with a slash, or looked up in the PATH of
 * env). */
struct keeper_spec {
	const char *const *argv; /* ended by NULL */
	const char *const *env;  /* "KEY=value", ended by NULL: the whole environment of the child */
	const char *cwd;         /* NULL: "/" */
	int umask;               /* 0: 077 */
	int nice;                /* added to the node's own */
	struct keeper_limits limits;
	struct keeper_user user;
	int stdin_fd;  /* -1: /dev/null */
	int output_fd; /* the child's stdout and stderr */
	int script_fd; /* 0: none; else the child finds it as descriptor KEEPER_SCRIPT_FD */
	bool talks;    /* script_fd is a socket: the child finds it as KEEPER_ANSWER_FD too, to write to */
};
#define KEEPER_SCRIPT_FD 3
#define KEEPER_ANSWER_FD 4

struct keeper_run {
	int fd;        /* the worker's end of the run socket; -1: none.  Closed early, it kills the run */
	uint64_t life; /* which keeper process it belongs to */
};

/* Asks for a run; any worker thread.  RC_BAD: argv and env are together larger than 1 MiB.  RC_AGAIN: the
 * system refused (descriptors, memory), or there is no keeper at this moment; nothing was started. */
CHECKED enum rc
keeper_spawn(struct keeper *k, const struct keeper_spec *spec, struct keeper_run *out, struct err *err);

/* Tells shim and keeper to stop the run: a half-close, which both see and which cannot get lost. */
void keeper_stop_run(const struct keeper_run *run);

/*
 * Messages on the run socket (SOCK_SEQPACKET, one struct each).
 *
 * Each but KEEPER_STARTED is the last one, and the proof that nothing of the run is left.  An end of file
 * without it says that the keeper itself was lost; the proof then is the return of keeper_await_end.  Nothing
 * else proves anything.
 */
enum keeper_event {
	KEEPER_STARTED = 1, /* shim: exec succeeded; value = pid */
	/* Shim or keeper: fork or exec failed, nothing ran; value = errno, where = which step.  With
	 * ECANCELED there was no lease ("lease"), or the worker or the node had given up ("stop"). */
	KEEPER_NOT_STARTED,
	KEEPER_EXITED, /* shim: nothing of the run is left.  value = wait status of the main process */
	KEEPER_GONE,   /* keeper: nothing of the run is left, nor of its shim, which was killed */
};
enum keeper_why {
	KEEPER_BY_ITSELF,
	KEEPER_BY_WORKER,
	KEEPER_BY_LEASE,
	KEEPER_BY_NODE_DEATH /* or the keeper's */
};
struct keeper_msg {
	int32_t event; /* enum keeper_event */
	int32_t value;
	int32_t why;          /* KEEPER_EXITED: who ended it, enum keeper_why */
	int32_t leftovers;    /* KEEPER_EXITED: processes that had to be killed after the main one ended */
	int32_t memory_kills; /* KEEPER_EXITED: processes killed because the limit of memory was reached */
	int32_t shim;         /* its process; 0: the keeper says it */
	/* KEEPER_EXITED: processor time of all its processes; the most memory of one of them, or of all at
	 * once where it has a control group */
	int64_t cpu_us, memory_bytes;
	char where[32]; /* KEEPER_NOT_STARTED: "fork", "chdir", "exec", "limits", "user", ... */
};

/* Waits until nothing is left of the runs of a keeper process that was lost.  There is no time limit: a
 * process that the kernel cannot kill holds it up.  Also returns when the keeper is stopped. */
void keeper_await_end(struct keeper *k, uint64_t life);

/* Would keeper_await_end return at once? */
bool keeper_ended(struct keeper *k, uint64_t life);

/* main() of the keeper process, called by the program's main for argv[1] = KEEPER_ARGV1.  Returns its exit
 * code. */
int keeper_main(int argc, char **argv);
