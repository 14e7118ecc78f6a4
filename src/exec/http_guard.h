/* Where the node must never connect to, whatever a task's URL, DNS or a redirect says; and where the node's
 * file lets tasks connect to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/rc.h"

/* One entry of the list: a name with its port, or a network. */
struct http_host {
	char *name;          /* lower case; "*.example.org" for all below it; NULL: a network */
	uint8_t address[16]; /* of a network; IPv4 as ::ffff:a.b.c.d */
	unsigned bits;       /* of 128 */
	uint16_t port;       /* 0: any */
};

/* What `http_hosts` says.  Not changed after http_hosts_read; any thread may read it. */
struct http_hosts {
	bool limited; /* false: there is no list, everything but the guard's addresses may be reached */
	size_t n;
	struct http_host *host; /* owned */
};

/* "api.example.org, *.example.org:443, 10.0.0.0/8, [fd00::]/8:8080, 192.0.2.7"; NULL: no list. "" is a
 * list with nothing in it.  RC_BAD: the text names the setting (`where`) and the entry.
 * http_hosts_fini is needed even then. */
CHECKED enum rc http_hosts_read(struct http_hosts *h, const char *where, const char *text, struct err *err);
void http_hosts_fini(struct http_hosts *h);

/* What can be said of a URL's host before any DNS lookup, even if a proxy is to connect.  true: never; `why`
 * as below.  *listed_out: it is on the list as written, or there is no list. */
bool http_host_refused(
    const struct http_hosts *h, const char *host, uint16_t port, bool *listed_out, char *why, size_t size);

/* true: do not connect; `why` then says "169.254.169.254 is ...".  Judges the address that is really used,
 * after DNS.  listed: http_host_refused said so.  An entry of the list for this very address lifts the guard;
 * one for a network around it does not. */
bool http_address_refused(
    const struct http_hosts *h, bool listed, const struct sockaddr *address, char *why, size_t size);
