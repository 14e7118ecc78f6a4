/*
 * HUP: the settings are read again.  log_level, workers, weight and labels change at once; the log names what
 * else differs and needs a restart.  A file with a mistake changes nothing.
 */
#pragma once

struct node;
struct workers;

/* Main thread.  Afterwards wake those who read what may have changed: loaders and heartbeat. */
void reload(struct node *n, struct workers *workers);
