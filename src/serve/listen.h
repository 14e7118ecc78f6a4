/* Sockets to listen at. */
#pragma once

#include <event2/event.h>
#include <event2/http.h>

#include "base/rc.h"
#include "serve/clients.h"
#include "serve/settings.h"

/* At every address of the settings.  A Unix socket that nobody listens on any more is replaced; its mode is
 * what the umask leaves of 0777. */
CHECKED enum rc listen_all(struct event_base *base, const struct serve_settings *set, struct evhttp *server,
    struct clients *clients, struct err *err);

/* Removes the files of the Unix sockets. */
void listen_unlink(const struct serve_settings *set);
