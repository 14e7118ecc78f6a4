/* The control loop: the main thread of a node between start and stop.  Signals, the doorbell, the keeper's
 * life. */
#pragma once

struct heartbeat;
struct loaders;
struct node;
struct workers;

enum control_end {
	CONTROL_STOP,   /* TERM or INT: stop in good order */
	CONTROL_NOW,    /* a second one, or QUIT: stop at once, runs are told to end */
	CONTROL_BROKEN, /* the keeper died: nothing can be watched any more */
};

/* Runs until there is a reason to stop. */
enum control_end
control_run(struct node *n, struct loaders *loaders, struct heartbeat *heartbeat, struct workers *workers);

/* Runs until nothing is in hand, or until the drain_timeout, a second signal or the keeper's death.  Call
 * after the boss was told to drain.  CONTROL_STOP: empty. */
enum control_end control_drain(struct node *n);
