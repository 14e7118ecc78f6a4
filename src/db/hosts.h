/* The servers that a connection string names. */
#pragma once

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>

/* As libpq's own lists; "" where nothing is said.  Ends with hosts_fini(). */
struct hosts {
	char *host, *hostaddr, *port;
	bool prefer_standby;
	bool service; /* the DSN names one, whose hosts only libpq knows: that counts as one */
	size_t n;
};

/* Those that libpq will find in the DSN and its environment. */
struct hosts hosts_read(const char *dsn);
void hosts_fini(struct hosts *h);

/* The i-th, alone.  Ends with hosts_fini(), too. */
struct hosts hosts_nth(const struct hosts *h, size_t i);

/* The addresses of the only one, if that is a name with several; else NULL.  Looks the name up, which may
 * take any time.  Ends with freeaddrinfo(). */
struct addrinfo *hosts_addresses(const struct hosts *only);
