/*
 * The teller: the thread that writes down what the runs of this node show, for those who look:
 * progress and who is being stopped when that changes, at most once per heartbeat; outputs when
 * somebody asks for them.  It has a connection only while there is something to say.
 */
#ifndef PGRAB_NODE_TELLER_H
#define PGRAB_NODE_TELLER_H

struct node;
struct teller;

struct teller *teller_start(struct node *n);
void teller_stop(struct teller **t); /* when no run is under way any more; joins, frees */

/* Any thread, with any lock held.  NULL is fine.  ring: something has changed; ask: somebody wants
 * an output. */
void teller_ring(struct teller *t);
void teller_ask(struct teller *t);

#endif
