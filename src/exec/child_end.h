/*
 * Turns what shim and worker saw of a run's end into its result.
 */
#ifndef PGRAB_EXEC_CHILD_END_H
#define PGRAB_EXEC_CHILD_END_H

#include <stddef.h>
#include <sys/types.h>

#include "keeper/keeper.h"
#include "pgrab/executor.h"

#define CHILD_TAIL_BYTES 512

struct child_end {
	struct keeper_msg last;      /* of the shim; event 0: none */
	enum pgrab_stop stop;        /* what the worker passed on */
	char tail[CHILD_TAIL_BYTES]; /* the end of the output */
	size_t tail_len;
};

/* Output in the order in which it came; only its end is kept. */
void child_end_output(struct child_end *e, const char *bytes, size_t n);

/* Fills in the result of a run that is over.  Uses up the tail. */
void child_explain(struct child_end *e, const char *program, const char *cwd, struct pgrab_result *result);

/* For a run that was killed and has not ended: which process is left, and what it is
 * doing.  shim 0: unknown. */
void child_end_waits(pid_t shim, pid_t keeper, char *out, size_t size);

#endif
