/* Turns what an executor or a handler says about a run into what is recorded. */
#pragma once

#include "core/run.h"

/* Fills in outcome and error of a run that was told to stop, or not. */
void outcome_take(struct run *r, enum pgrab_stop stop, const struct pgrab_result *res);

/* A failure gets a line of its own, whatever the level: nothing else reports it at once. */
void outcome_log(const struct run *r);
