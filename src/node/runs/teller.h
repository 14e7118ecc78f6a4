/* The teller: the thread that writes down what the runs of this node show: their progress and which of them
 * are being stopped, when that changes, at most once per heartbeat; their outputs when a person asks; their
 * steps at once.  It has a connection only while there is something to say. */
#pragma once

struct node;
struct step;
struct teller;

struct teller *teller_start(struct node *n);
void teller_stop(struct teller **t); /* when no run is under way any more; joins, frees */

/* Any thread, with any lock held.  NULL is fine.  ring: something has changed; ask:
 * a person wants an output. */
void teller_ring(struct teller *t);
void teller_ask(struct teller *t);
/* Any thread.  A step of a handler's run, which comes back with its answer by handlers_answer(). */
void teller_step(struct teller *t, struct step *s);
