/* Answers that go on: server-sent events.  A stream's call goes to the answerers again every second, and what
 * it brings is sent.  All of it belongs to the HTTP thread, except the call while an answerer has it. */
#pragma once

#include <event2/event.h>

#include "serve/answer.h"

struct streams;

struct streams *streams_create(struct event_base *base);
void streams_destroy(struct streams **s); /* ends them; none may be with the answerers any more */

bool streams_room(const struct streams *s, const char *peer); /* may one more of this address begin? */

/* Begins to send the answer that c holds, to a client that is there; from now on the
 * call belongs to the stream. */
void streams_begin(struct streams *s, struct answerers *answerers, struct call *c);

/* An answerer has given c back. */
void streams_done(struct streams *s, struct call *c);

/* Ends all streams: those that wait now, the others when the answerers give them back. */
void streams_stop(struct streams *s);
