/*
 * Tasks that a process had when it died, and of which one may have killed it: each runs alone until it has
 * given a result, so that it costs its neighbours nothing more.  Known to this node only, and the oldest are
 * forgotten: whoever is, is found again.
 */
#ifndef PGRAB_HANDLER_SUSPECTS_H
#define PGRAB_HANDLER_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUSPECTS_MAX 4096

/* All zero: none. */
struct suspects {
	int64_t *id; /* of tasks; a ring once it is full */
	size_t n, next;
};

void suspects_fini(struct suspects *s);
bool suspects_have(const struct suspects *s, int64_t id);
void suspects_add(struct suspects *s, int64_t id);
void suspects_clear(struct suspects *s, int64_t id); /* it is none any more */

#endif
