/* The crew of kind http: one thread that has up to http_slots requests under way. */
#pragma once

#include "base/rc.h"
#include "core/run.h"

struct http_crew;
struct node;

/* *out NULL: this node does not run http.  RC_FATAL: libcurl cannot be used. */
CHECKED enum rc http_crew_create(struct node *n, struct http_crew **out, struct err *err);
void http_crew_destroy(struct http_crew **c); /* NULL inside is fine, here and below */

void http_crew_start(struct http_crew *c, size_t number); /* as crew of that number; when the boss is there */
void http_crew_stop(struct http_crew *c);                 /* nothing is in hand any more */

/* Any thread. */
void http_crew_take(struct http_crew *c, struct run *r);
int http_crew_wake_fd(const struct http_crew *c);
