/*
 * TERM and INT before the control loop runs: they are kept blocked, and asked for where the main thread
 * waits.
 */
#ifndef PGRAB_NODE_EARLY_H
#define PGRAB_NODE_EARLY_H

#include <stdbool.h>
#include <stdint.h>

/* Main thread, first thing: blocks TERM and INT, ignores PIPE and HUP.  They stay blocked in every thread started
 * meanwhile. */
void early_block(void);

/* Waits so long (0: only looks); false at once when TERM or INT has come.  Main thread only. */
bool early_wait(int64_t us);

/* From here on somebody else handles them (a signal that is pending is delivered then). */
void early_unblock(void);

#endif
