/*
 * Link-local addresses, and those where clouds keep the machine's credentials, are refused: any
 * request from the machine gets them, and a task's author is not the machine's owner.  Loopback and
 * private networks are what people schedule calls to, so they are not refused here; http_hosts can
 * narrow down what may be reached.
 *
 * An IPv4 address inside an IPv6 one (mapped, NAT64, 6to4, Teredo, ISATAP) is the same address.  A translator
 * whose prefix is chosen by its network cannot be recognized; a node behind one needs http_hosts.
 */
#include "exec/http_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/texts.h"

struct network {
	const char *address;
	unsigned bits;
	const char *what;
};

#define METADATA "an address where clouds keep the machine's credentials"
static const struct network refused[] = {
    {"::ffff:169.254.0.0", 112, "a link-local address, where clouds keep the machine's credentials"},
    {"::ffff:100.100.100.200", 128, METADATA},                            /* Alibaba */
    {"::ffff:168.63.129.16", 128, METADATA},                              /* Azure */
    {"::ffff:192.0.0.192", 128, METADATA},                                /* Oracle */
    {"fe80::", 10, "a link-local address"}, {"fd00:ec2::", 32, METADATA}, /* Amazon */
    {"fd20:ce::", 32, METADATA},                                          /* Google */
};

/* Where an IPv4 address is inside an address of these networks. */
static const struct embedding {
	const char *address;
	unsigned bits;
	uint8_t at[4];
	uint8_t flip; /* Teredo inverts its bits */
} embeddings[] = {
    {"::", 96, {12, 13, 14, 15}, 0},           /* compatible */
    {"::ffff:0:0:0", 96, {12, 13, 14, 15}, 0}, /* translated */
    {"64:ff9b::", 96, {12, 13, 14, 15}, 0},    /* NAT64 */
    {"64:ff9b:1::", 48, {12, 13, 14, 15}, 0},  /* local NAT64, cut at 96, 64, 56 or 48 bits (RFC 6052) */
    {"64:ff9b:1::", 48, {9, 10, 11, 12}, 0},
    {"64:ff9b:1::", 48, {7, 9, 10, 11}, 0},
    {"64:ff9b:1::", 48, {6, 7, 9, 10}, 0},
    {"2002::", 16, {2, 3, 4, 5}, 0},        /* 6to4 */
    {"2001::", 32, {12, 13, 14, 15}, 0xff}, /* Teredo: the client, then the server */
    {"2001::", 32, {4, 5, 6, 7}, 0},
};

static bool
in_network(const uint8_t a[16], const uint8_t net[16], unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;
	uint8_t mask = (uint8_t)(0xff00u >> rest);

	return memcmp(a, net, whole) == 0 && (rest == 0 || ((a[whole] ^ net[whole]) & mask) == 0);
}

static bool
in_text_network(const uint8_t a[16], const char *net, unsigned bits)
{
	uint8_t bytes[16];

	return inet_pton(AF_INET6, net, bytes) == 1 && in_network(a, bytes, bits);
}

/* What is wrong with this very address, without looking inside it; NULL: nothing. */
static const char *
fault_of(const uint8_t a[16])
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		if (in_text_network(a, refused[i].address, refused[i].bits))
			return refused[i].what;
	}
	return NULL;
}

static const char *
fault_of_ipv4(const uint8_t b[4])
{
	uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, b[0], b[1], b[2], b[3]};

	return fault_of(mapped);
}

static const char *
fault_inside(const uint8_t a[16])
{
	static const uint8_t isatap[4] = {0x00, 0x00, 0x5e, 0xfe};
	const char *fault = fault_of(a);

	for (size_t i = 0; fault == NULL && i < sizeof embeddings / sizeof *embeddings; i++) {
		const struct embedding *e = &embeddings[i];
		uint8_t v4[4];

		for (size_t k = 0; k < 4; k++)
			v4[k] = a[e->at[k]] ^ e->flip;
		if (in_text_network(a, e->address, e->bits))
			fault = fault_of_ipv4(v4);
	}
	if (fault == NULL && (a[8] & 0xfd) == isatap[0] && memcmp(a + 9, isatap + 1, 3) == 0)
		fault = fault_of_ipv4(a + 12);
	return fault;
}

/* IPv4 as ::ffff:a.b.c.d.  False: neither of the two families. */
static bool
to_bytes(const struct sockaddr *address, uint8_t out[16], uint16_t *port_out)
{
	if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 a;

		memcpy(&a, address, sizeof a);
		memcpy(out, &a.sin6_addr, 16);
		*port_out = ntohs(a.sin6_port);
		return true;
	}
	if (address->sa_family == AF_INET) {
		struct sockaddr_in a;

		memcpy(&a, address, sizeof a);
		memcpy(out, (const uint8_t[12]){[10] = 0xff, [11] = 0xff}, 12);
		memcpy(out + 12, &a.sin_addr, 4);
		*port_out = ntohs(a.sin_port);
		return true;
	}
	return false;
}

/* As people write it: an IPv4 address without the ::ffff:. */
static void
show(const uint8_t a[16], char *out, size_t size)
{
	uint8_t v4 = in_text_network(a, "::ffff:0.0.0.0", 96);

	if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a + 12 : a, out, (socklen_t)size) == NULL)
		out[0] = '\0';
}

/* On the list as a network; *exactly_out: as this one address. */
static bool
is_listed(const struct http_hosts *h, const uint8_t a[16], uint16_t port, bool *exactly_out)
{
	bool listed = false;

	for (size_t i = 0; i < h->n; i++) {
		const struct http_host *x = &h->host[i];

		if (x->name != NULL || (x->port != 0 && x->port != port) ||
		    !in_network(a, x->address, x->bits))
			continue;
		listed = true;
		*exactly_out = *exactly_out || x->bits == 128;
	}
	return listed;
}

static bool
bytes_refused(
    const struct http_hosts *h, bool listed, const uint8_t a[16], uint16_t port, char *why, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "";
	bool exactly = false, here = is_listed(h, a, port, &exactly);
	const char *fault = exactly ? NULL : fault_inside(a);

	show(a, text, sizeof text);
	if (fault != NULL)
		snprintf(why, size, "%s is %s", text, fault);
	else if (h->limited && !listed && !here)
		snprintf(why, size, "%s port %u is not among http_hosts of this node", text, (unsigned)port);
	return fault != NULL || (h->limited && !listed && !here);
}

bool
http_address_refused(
    const struct http_hosts *h, bool listed, const struct sockaddr *address, char *why, size_t size)
{
	uint8_t a[16];
	uint16_t port;

	if (to_bytes(address, a, &port))
		return bytes_refused(h, listed, a, port, why, size);
	snprintf(why, size, "it has no internet address");
	return true;
}

/* "10.0.0.0", "fd00::": IPv4 as a mapped one.  *bits_out: how many there are at most; 0: no address. */
static unsigned
parse_address(const char *text, uint8_t out[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (inet_pton(AF_INET6, text, out) == 1)
		return 128;
	memcpy(out, mapped, 12);
	return inet_pton(AF_INET, text, out + 12) == 1 ? 32 : 0;
}

static bool
parse_number(const char *text, unsigned max, unsigned *out)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*out = (unsigned)n;
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && n <= max;
}

static bool
is_host_name(const char *name)
{
	const char *p = strncmp(name, "*.", 2) == 0 ? name + 2 : name;

	return *p != '\0' && *p != '.' && p[strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-._")] == '\0';
}

/* Takes "host/bits:port" apart; an IPv6 address with a port is in brackets.  Changes text.  False:
 * it is none of these. */
static bool
parse_host(char *text, struct http_host *out)
{
	char *close = text[0] == '[' ? strchr(text, ']') : NULL;
	char *rest = close != NULL ? close + 1 : text, *colon = strchr(rest, ':'), *slash;
	unsigned max, n = 0;

	if (text[0] == '[' && close == NULL)
		return false;
	if (close == NULL && colon != NULL && strchr(colon + 1, ':') != NULL)
		colon = NULL; /* an IPv6 address */
	if (colon != NULL) {
		*colon = '\0';
		if (!parse_number(colon + 1, 65535, &n) || n == 0)
			return false;
		out->port = (uint16_t)n;
	}
	slash = strchr(rest, '/');
	if (slash != NULL)
		*slash = '\0';
	if (close != NULL && (*close = '\0', close[1] != '\0'))
		return false;
	text += close != NULL;
	max = parse_address(text, out->address);
	out->bits = 128;
	if (slash != NULL && (max == 0 || !parse_number(slash + 1, max, &out->bits)))
		return false;
	if (slash != NULL)
		out->bits += 128 - max;
	if (max == 0 && (close != NULL || !is_host_name(text)))
		return false;
	out->name = max == 0 ? xstrdup(text) : NULL;
	return true;
}

enum rc
http_hosts_read(struct http_hosts *h, const char *where, const char *text, struct err *err)
{
	AUTO_FREE char *copy = xstrdup(text == NULL ? "" : text);
	struct texts list = {0};
	enum rc rc = RC_OK;

	*h = (struct http_hosts){.limited = text != NULL};
	for (char *p = copy; *p != '\0'; p++) /* by hand: tolower(3) depends on the locale */
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	texts_split(&list, copy, ", \t");
	h->host = xcalloc(list.n + 1, sizeof *h->host);
	for (size_t i = 0; i < list.n && rc == RC_OK; i++) {
		AUTO_FREE char *shown = xstrdup(list.item[i]);

		if (parse_host(list.item[i], &h->host[h->n]))
			h->n++;
		else
			rc = err_set(err, RC_BAD,
			    "%s: \"%.100s\" is not a host; write api.example.org, *.example.org:443, "
			    "10.0.0.0/8 or [fd00::]/8:8080",
			    where, shown);
	}
	texts_fini(&list);
	return rc;
}

void
http_hosts_fini(struct http_hosts *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->host[i].name);
	free(h->host);
	*h = (struct http_hosts){0};
}

static bool
name_matches(const char *pattern, const char *host)
{
	size_t n = strlen(host), p = strlen(pattern);

	if (n > 0 && host[n - 1] == '.')
		n--;
	if (strncmp(pattern, "*.", 2) != 0)
		return n == p && strncasecmp(host, pattern, n) == 0;
	return n > p - 1 && strncasecmp(host + n - (p - 1), pattern + 1, p - 1) == 0;
}

bool
http_host_refused(
    const struct http_hosts *h, const char *host, uint16_t port, bool *listed_out, char *why, size_t size)
{
	char bare[INET6_ADDRSTRLEN + 2];
	uint8_t a[16];

	*listed_out = !h->limited;
	snprintf(bare, sizeof bare, "%s", host + (host[0] == '['));
	bare[strcspn(bare, "]%")] = '\0';
	if (parse_address(bare, a) != 0) {
		*listed_out = !bytes_refused(h, false, a, port, why, size);
		return !*listed_out;
	}
	for (size_t i = 0; i < h->n; i++) {
		const struct http_host *x = &h->host[i];

		if (x->name != NULL && (x->port == 0 || x->port == port) && name_matches(x->name, host))
			*listed_out = true;
	}
	return false;
}
