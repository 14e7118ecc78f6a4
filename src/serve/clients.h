/* Connections of clients: how many there may be, how long a request and its answer may take, how often one
 * may send requests.  All of it belongs to the HTTP thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#define CLIENTS_LISTENERS_MAX 16
#define CLIENTS_IDLE_S        10 /* between two bytes, and between two requests of one connection */

struct clients;

/* max: open at once; rate: requests per second of one client. */
struct clients *clients_create(struct event_base *base, int64_t max, int64_t rate);
void clients_destroy(struct clients **c);

/* Pauses it while there are too many. */
void clients_watch(struct clients *c, struct evconnlistener *listener);

/* For evhttp_set_bevcb: makes a connection's bufferevent, with its clock.  arg: struct clients.  Three
 * quarters of what may be open are open to one address. */
struct bufferevent *clients_open(struct event_base *base, void *arg);

/* A request is whole: from now on the client waits for us, as long as it takes, until we go on. */
void clients_wait(struct clients *c, struct bufferevent *bev);
void clients_go_on(struct clients *c, struct bufferevent *bev);

/* Counts one request of `who`; false: too many within this second. */
bool clients_may_ask(struct clients *c, const char *who);
