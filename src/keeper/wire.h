/* What the node hands to the keeper for one run: a datagram of one byte with these descriptors.  What to run
 * travels in a memory file, which the shim reads, so that the keeper itself parses nothing. */
#pragma once

#include <stddef.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "keeper/keeper.h"

/* One page, shared by the node, the keeper and its shims. */
struct wire_page {
	_Atomic int64_t lease; /* until when runs may go on (clock_boot_us); by the node */
	_Atomic int64_t tick;  /* rises while the keeper is alive and awake; by the keeper */
	_Atomic int64_t runs;  /* runs it looks after; by the keeper */
	/* Whose death the keeper has to report: of the node as it is, and as it is about to
	 * register.  By the node. */
	struct {
		_Atomic int64_t node_id, incarnation; /* incarnation 0: nobody's */
	} who[2];
};

/* Descriptors that the keeper process starts with, besides 0 to 2. */
enum {
	WIRE_SPAWN_FD = 3,
	WIRE_LIFELINE_FD, /* reading end; the node alone has the other */
	WIRE_PRESENCE_FD, /* writing end; the keeper and its shims have it, what they run does not */
	WIRE_PAGE_FD,
	WIRE_WILL_FD, /* only with a farewell: see keeper.h */
	WIRE__END_FD
};
#define WIRE_FIRST_FD WIRE_SPAWN_FD
#define WIRE_FDS      (WIRE__END_FD - WIRE_FIRST_FD)

#define WIRE_READY    'R' /* keeper -> node, once, on the spawn socket: it is ready */
#define WIRE_RUN      'S' /* node -> keeper: a run */
#define WIRE_SPEC_MAX (1024 * 1024)
#define WIRE_PAGE_LEN 4096

/* The run socket comes first: with nothing but it the keeper can still say why the rest did not
 * arrive.  Stdin and script may be missing, a script comes with stdin. */
enum { WIRE_FD_RUN, WIRE_FD_SPEC, WIRE_FD_OUTPUT, WIRE_FD_STDIN, WIRE_FD_SCRIPT, WIRE_FD__COUNT };

/* One datagram, so requests of several workers never mix; never blocks: a keeper that does not read is in
 * trouble, and the run is better off elsewhere.  RC_AGAIN: it was not sent. */
CHECKED enum rc wire_send(int spawn_fd, const int fds[WIRE_FD__COUNT], size_t n_fds, struct err *err);

/* Returns how many descriptors came, the run socket alone or none if there was no room for all of them;
 * -1: no request is there; -2: the node has closed its end. */
int wire_receive(int spawn_fd, int fds[WIRE_FD__COUNT]);

/* A memory file (close-on-exec) with argv, env, cwd and user of the spec.  RC_BAD:
 * larger than WIRE_SPEC_MAX; RC_AGAIN: the system refused. */
CHECKED enum rc wire_pack(const struct keeper_spec *spec, int *fd_out, struct err *err);

struct wire_spec {
	const char **argv, **env; /* ended by NULL; they point into text */
	const char *cwd;
	int umask, nice;
	bool talks;
	struct keeper_limits limits;
	struct keeper_user user;
	char *text; /* the file, mapped */
	size_t len;
	gid_t *groups; /* of user */
};

/* Reads it back.  RC_BAD: not what wire_pack wrote; RC_AGAIN: could not be read.  Closes nothing. */
CHECKED enum rc wire_unpack(int fd, struct wire_spec *out);
void wire_spec_fini(struct wire_spec *w);
