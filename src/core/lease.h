/* The lease: until when this node may act without hearing from the database.  On clock_boot_us, which every
 * process of the machine reads alike and which counts suspension.  Counted from before the heartbeat was
 * sent: travel time shortens the lease and never extends it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in the node; the heartbeat writes it, every thread reads it. */
struct lease {
	_Atomic int64_t until_us; /* 0: no lease */
};

static inline void
lease_renew(struct lease *l, int64_t sent_at_us, int64_t fence_after_us)
{
	atomic_store(&l->until_us, sent_at_us + fence_after_us);
}

/* Never longer than this. */
static inline void
lease_cut(struct lease *l, int64_t until_us)
{
	if (atomic_load(&l->until_us) > until_us)
		atomic_store(&l->until_us, until_us);
}

/* Runs that outlast a restart of the server (ADR 29).  A node that has said so with its last acknowledged
 * beat, and has seen the end of that life of the server, may go on for so much longer than its fence_after.
 * Others wait for as much longer than its dead_after: in every other life of the server, and behind a
 * pooler. */
static inline int64_t
lease_outlast_us(int64_t dead_after_us)
{
	return dead_after_us * 3 / 2;
}

/* How long others wait.  life: of the node's last beat, 0: its runs outlast nothing; now: that they see. */
static inline int64_t
lease_dead_us(int64_t dead_after_us, int64_t life, int64_t now, bool pooled)
{
	bool outlasts = life != 0 && (life != now || pooled);

	return dead_after_us + (outlasts ? lease_outlast_us(dead_after_us) : 0);
}

/* What runs in a node's own process is over so long before others may begin it. */
#define LEASE_MARGIN_US (INT64_C(500) * 1000)

/* How long after its lease a node may still be ending that. */
static inline int64_t
lease_ending_us(int64_t fence_after_us, int64_t dead_after_us)
{
	return dead_after_us - fence_after_us - LEASE_MARGIN_US;
}

static inline void
lease_drop(struct lease *l)
{
	atomic_store(&l->until_us, 0);
}

static inline bool
lease_holds(const struct lease *l, int64_t now_us)
{
	return now_us < atomic_load(&l->until_us);
}

static inline int64_t
lease_until(const struct lease *l)
{
	return atomic_load(&l->until_us);
}
