/* A process under the keeper, from its start to its result: what runs of shell and exec have in common with
 * handler processes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "keeper/keeper.h"
#include "pgrab/executor.h"

#define CHILD_TAIL_BYTES 512
#define CHILD_PIPE_BYTES (4 * 1024 * 1024) /* more than its pipe can hold */

struct child_end {
	struct keeper_msg last;      /* of the shim; event 0: none */
	bool gone;                   /* nothing of it is left */
	pid_t pid;                   /* 0: not started yet */
	enum pgrab_stop stop;        /* what the worker passed on */
	char tail[CHILD_TAIL_BYTES]; /* the end of the output */
	size_t tail_len;
};

/* Starts what spec says, with a pipe for its output, whose reading end *out_fd does not block. */
CHECKED enum rc
child_start(struct keeper *k, struct keeper_spec *spec, struct keeper_run *run, int *out_fd, struct err *err);

/* What it has printed, at most size bytes; 0: nothing for now.  Closes *out_fd when there will be no more. */
size_t child_end_read(struct child_end *e, int *out_fd, char *bytes, size_t size);

/* Output in the order in which it came, of which the end is kept. */
void child_end_output(struct child_end *e, const char *bytes, size_t n);

/* Takes one message from the run socket.  True: it was the last one, or the end of the socket. */
bool child_end_message(struct child_end *e, int run_fd);

/* Fills in the result of a run that is over.  Uses up the tail. */
void child_explain(struct child_end *e, const char *program, const char *cwd, struct pgrab_result *result);

/* For a run that was killed and has not ended: which process is left, and what it is
 * doing.  shim 0: unknown. */
void child_end_waits(pid_t shim, pid_t keeper, char *out, size_t size);
