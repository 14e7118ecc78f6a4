/* One request of kind http, from its beginning to its end. */
#pragma once

#include "base/clock.h"
#include "exec/http.h"

/* The ctx of a host says nothing of results, so there is one of these at a time. */
static struct pgrab_result http_result;
static bool http_has_ended;

static void
http_note_end(void *ctx, const struct pgrab_result *result)
{
	(void)ctx;
	http_result = *result;
	http_has_ended = true;
}

static struct pgrab_result
http_once(struct http *h, const struct pgrab_run *run, const struct pgrab_host *host)
{
	http_has_ended = false;
	http_begin(h, run, host, http_note_end);
	while (!http_has_ended) {
		if (http_drive(h, host->stop_fd, CLOCK_NEVER))
			http_look_at_stops(h);
	}
	return http_result;
}
