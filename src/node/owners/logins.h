/* Watches the logins of other owners.  One that is refused while the node runs is taken out of what the node
 * announces, so that the owner's sql tasks go to nodes that can log in, and wait where there is none; it is
 * tried again, less and less often, and taken back in when it works. */
#pragma once

struct logins;
struct node;

/* changed(ctx) is called from its thread when the owners that this node can log in as change.  NULL:
 * there is nobody to watch. */
struct logins *logins_start(struct node *n, void (*changed)(void *ctx), void *ctx);
void logins_stop(struct logins **l); /* NULL inside is fine, here and below */

/* Any thread: a login as this owner has just failed. */
void logins_failed(void *logins, const char *owner);
