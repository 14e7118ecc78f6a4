/* Tells clients that listen what happens. */
#ifndef PGRAB_SERVE_EVENTS_H
#define PGRAB_SERVE_EVENTS_H

#include "serve/call.h"

/* The route; the call goes through it again and again, see stream.h. */
void events_answer(struct call *c, struct db *db);

#endif
