/* Kind http: many requests at once, by one thread on one libcurl multi handle. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgrab/executor.h"

struct exec_env;
struct http;

/* All of it belongs to one thread.  NULL: libcurl cannot be used, err says why. */
struct http *http_open(const struct exec_env *env, char *err, size_t err_size);
void http_close(struct http *h); /* nothing is under way */

/* Begins a request.  run and host must stay until `ended` is called, from within http_drive. */
typedef void http_ended_fn(void *host_ctx, const struct pgrab_result *result);
void
http_begin(struct http *h, const struct pgrab_run *run, const struct pgrab_host *host, http_ended_fn *ended);
/* Breaks off those whose host now says that they must stop; they end with the next http_drive. */
void http_look_at_stops(struct http *h);
/* Waits until a request goes on, fd becomes readable (true) or it is until_us (clock_mono_us), at most a
 * minute; and does what can be done without waiting. */
bool http_drive(struct http *h, int fd, int64_t until_us);
