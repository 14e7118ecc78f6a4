/*
 * Connections of clients: how many there may be, how long a request and its answer may take, how often one
 * may send requests.  All of it belongs to the HTTP thread.
 */
#ifndef PGRAB_SERVE_CLIENTS_H
#define PGRAB_SERVE_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#define CLIENTS_LISTENERS_MAX 16

struct clients;

/* max: open at once; rate: requests per second of one client. */
struct clients *clients_create(struct event_base *base, int64_t max, int64_t rate);
void clients_destroy(struct clients **c);

/* Pauses it while there are too many. */
void clients_watch(struct clients *c, struct evconnlistener *listener);

/* For evhttp_set_bevcb: makes a connection's bufferevent, with its clock.  arg: struct clients. */
struct bufferevent *clients_open(struct event_base *base, void *arg);

/* Counts one request of `who`; false: too many within this second. */
bool clients_may_ask(struct clients *c, const char *who);

#endif
