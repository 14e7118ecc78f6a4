/*
 * Where the node itself must not be made to connect to, whatever a task's URL, DNS or a redirect says.
 */
#ifndef PGRAB_EXEC_HTTP_GUARD_H
#define PGRAB_EXEC_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* true: do not connect; `why` then says "169.254.169.254 is ...".  Judges the address that is really used,
 * after DNS. */
bool http_address_refused(const struct sockaddr *address, char *why, size_t size);

#endif
