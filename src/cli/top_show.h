/* One frame of pgrab top as lines of text: what fits is chosen here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/text.h"
#include "cli/top_data.h"

/* Rates come from the nodes' counters, over the last few frames; nodes count with their heartbeats. */
#define TOP_RATE_FRAMES 6
struct top_rates {
	struct {
		int64_t at_us; /* our monotonic clock */
		int64_t runs, failures;
	} frame[TOP_RATE_FRAMES];
	size_t n; /* frames ever noted */
};
void top_rates_note(struct top_rates *r, const PGresult *overview, int64_t at_us);

struct top_view {
	struct screen screen;
	size_t rows; /* 0: as many as there are */
	const struct top_rates *rates;
	const char *note;    /* on the first line: how often, paused */
	const char *trouble; /* "", or why this is not the present */
	const char *help;    /* last line, or NULL */
};

/* Appends the frame.  data NULL: there was none yet. */
void top_show(struct buf *out, const struct top_data *data, const struct top_view *view);
