/* The recover thread: puts back what dead nodes held, repairs this node's own leaks, keeps the history's
 * partitions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/member.h"

struct node;
struct recover;

struct recover *recover_create(struct node *n);
void recover_start(struct recover *r);
void recover_stop(struct recover **r); /* joins, frees; NULL is fine */

/* One round of the thread: waits until a node is dead or a round is due, and deals with
 * it.  False: it was stopped. */
bool recover_round(struct recover *r);
void recover_destroy(struct recover **r); /* of one that has no thread; NULL is fine */

/* From the heartbeat: this member was silent for its dead_after.  (Repeated with every
 * beat until the row is down.) */
void recover_dead(struct recover *r, const struct member *m);
/* From the starter: a task of ours may have got no place under its limit, and waits in line. */
void recover_line(struct recover *r);
/* From the doorbell: somebody is to be told of something. */
void recover_notice(struct recover *r);
/* From the doorbell: a wait has begun that is over soon. */
void recover_waits(struct recover *r);
/* From the heartbeat: an incarnation of our own that is over for good. */
void recover_own_ended(struct recover *r, int64_t incarnation);
