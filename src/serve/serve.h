/*
 * `pgrab serve`: metrics, an HTTP API and a page, in a process of its own, not in a node.
 *
 * Threads: the HTTP thread (main) owns the event loop and every socket of a client; the
 * answerers (answer.h) each own their connections to the database.  A request is a struct call that goes
 * from the one to the other and back.
 */
#pragma once

#include "serve/settings.h"

/* Serves until TERM or INT.  Returns an exit code. */
int serve_main(const struct serve_settings *set);
