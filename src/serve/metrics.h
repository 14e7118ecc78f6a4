/* GET /metrics: what the database says about tasks and nodes, the runs counted since this program started,
 * and its own requests.  Labels are bounded: kinds, outcomes, nodes; never a task. */
#pragma once

#include <stdint.h>

#include "serve/call.h"
#include "serve/answer.h"

struct metrics;
struct otlp;

/* otlp: NULL: nothing is sent to a collector of traces. */
struct metrics *metrics_create(struct answerers *answerers, const struct otlp *otlp);
void metrics_destroy(struct metrics **m);

/* Counts a request that was answered.  Any thread. */
void metrics_request(struct metrics *m, int status, int64_t us);
