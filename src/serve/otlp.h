/*
 * `pgrab serve --otlp URL`: sends runs that have ended to a collector, as spans, by OTLP over HTTP in its
 * JSON encoding.
 *
 * One thread reads the history in its order, a slice at a time, so nodes and tasks know nothing of it.  A
 * collector that does not answer gets the same slice again, with growing waits; what ended longer than
 * otlp_behind ago by then is dropped and counted.  It begins with what ends now: what ended before, or while
 * no `pgrab serve` ran, is not sent.  A slice whose answer was lost is sent twice; spans have numbers, by
 * which collectors may see that.
 */
#pragma once

#include <stdint.h>

#include "serve/settings.h"

struct otlp;

struct otlp *otlp_start(const struct serve_settings *set);
void otlp_stop(struct otlp **o);

struct otlp_figures {
	int64_t sent, refused, dropped; /* runs */
	double behind;                  /* seconds */
};
void otlp_figures(const struct otlp *o, struct otlp_figures *out); /* any thread */
