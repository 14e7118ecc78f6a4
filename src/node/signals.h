/* TERM, INT, QUIT and HUP before the control loop runs: they are kept blocked, and wherever the main thread
 * waits it checks whether it must stop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Main thread, first thing: blocks TERM, INT, QUIT and HUP, ignores PIPE.  They stay blocked in
 * every thread started meanwhile. */
void signals_block(void);

/* Waits this long (0: only looks); false at once when TERM, INT or QUIT has come.  Main thread only. */
bool signals_wait(int64_t us);

/* From here on their handlers get them (a pending signal is delivered at once). */
void signals_unblock(void);
