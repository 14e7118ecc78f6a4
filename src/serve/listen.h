/* Sockets to listen at. */
#ifndef PGRAB_SERVE_LISTEN_H
#define PGRAB_SERVE_LISTEN_H

#include <event2/event.h>
#include <event2/listener.h>

#include "base/rc.h"
#include "serve/settings.h"

/* A Unix socket that nobody listens on any more is replaced; its mode is what the umask leaves of 0777. */
CHECKED enum rc listen_at(
    struct event_base *base, const struct serve_address *a, struct evconnlistener **out, struct err *err);

/* Removes the files of the Unix sockets. */
void listen_unlink(const struct serve_settings *set);

#endif
