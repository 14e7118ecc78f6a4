/*
 * The keeper: a small separate process that forks and watches the children of shell and exec runs, so that
 * they die with the lease whatever becomes of the node: killed, frozen or swapped out.  (docs/adr: why a
 * keeper process.)
 *
 *     node --- spawn socket ---> keeper --- fork ---> shim (one per run) --- fork, exec ---> the child
 *       \____ run socket (one per run, node's worker <-> shim) ____/
 *
 * The keeper has one thread, no database, a clean environment (it is the same program executed anew); it only
 * forks.  The shim is subreaper of its own run, so that it, and nobody else, inherits every daemon the run
 * forks off.  A shim kills its run
 *   - when the worker says so (TERM, then KILL after kill_grace),
 *   - when the lease deadline in shared memory passes (the same way),
 *   - when the node or the keeper is gone (end of file on the lifeline; the same way),
 * and, when the run's main process has ended, whatever else is left of it (KILL).  It reports only when
 * nothing is left.
 */
#ifndef PGRAB_KEEPER_KEEPER_H
#define PGRAB_KEEPER_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/rc.h"

struct keeper; /* the node's side; made before any thread */

/* RC_OK or RC_FATAL.  Executes /proc/self/exe with argv[1] = KEEPER_ARGV1 and an empty environment; on return
 * the keeper is ready. */
#define KEEPER_ARGV1 "__keeper"
CHECKED enum rc keeper_start(struct keeper **out, int64_t kill_grace_us, struct err *err);

/* Closes the lifeline and waits (at most kill_grace + 2 s) until the keeper and all its shims are gone.  Then
 * frees.  Nulls the pointer. */
void keeper_stop(struct keeper **k);

/* Until when (clock_boot_us) runs may go on.  0 = nothing may run.  Any thread; one atomic store.
 * One that is taken back is noticed within half a second. */
void keeper_lease(struct keeper *k, int64_t deadline_boot_us);

pid_t keeper_pid(const struct keeper *k);

/* A descriptor that becomes readable (end of file) when the keeper dies.  Owned by the keeper; only poll it.
 */
int keeper_alive_fd(const struct keeper *k);

/* What to run.  All borrowed.  argv[0] is the program (absolute, or with a slash, or looked up in the PATH of
 * env). */
struct keeper_spec {
	const char *const *argv; /* ended by NULL */
	const char *const *env;  /* "KEY=value", ended by NULL: the whole environment of the child */
	const char *cwd;         /* NULL: "/" */
	int stdin_fd;            /* -1: /dev/null */
	int output_fd;           /* the child's stdout and stderr */
};

/*
 * Asks for a run; any worker thread.  RC_OK: *run_fd_out is the worker's end of the run socket (the worker
 * closes it when it has the last message; closing earlier kills the run).  RC_BAD: argv and env are together
 * larger than 1 MiB.  RC_AGAIN: the system refused (descriptors, memory), nothing was started.  RC_FATAL: the
 * keeper is gone.
 */
CHECKED enum rc
keeper_spawn(struct keeper *k, const struct keeper_spec *spec, int *run_fd_out, struct err *err);

/* Messages shim -> worker on the run socket (SOCK_SEQPACKET, one struct each).  End of file = the shim died:
 * outcome unknown; it comes when the kernel's parent-death signal and the keeper have ended all of it.
 * recv may fail once with ECONNRESET after a stop that came too late to be read: read again. */
enum keeper_event {
	KEEPER_STARTED = 1, /* exec succeeded; value = pid */
	/* Fork or exec failed, nothing ran; value = errno, where = which step.  With ECANCELED there was no lease
	 * ("lease"), or the worker or the node had given up ("stop"). */
	KEEPER_NOT_STARTED,
	KEEPER_EXITED, /* nothing of the run is left.  value = wait status of the main process */
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
	int32_t why;       /* KEEPER_EXITED: who ended it, enum keeper_why */
	int32_t leftovers; /* KEEPER_EXITED: processes that had to be killed after the main one ended */
	char where[32];    /* KEEPER_NOT_STARTED: "fork", "chdir", "exec", ... */
};

/* Message worker -> shim: stop the run (TERM to everything, KILL after kill_grace). */
#define KEEPER_STOP 'T'

/* main() of the keeper process, called by the program's main for argv[1] = KEEPER_ARGV1.  Returns its exit
 * code. */
int keeper_main(int argc, char **argv);

#endif
