/*
 * Link-local addresses are refused: in a cloud, 169.254.169.254 hands the machine's credentials to whoever
 * asks from it, and a task's author is not the machine's owner.  Loopback and private networks are what
 * people schedule calls to, so they are not refused here: a node that must not reach them is kept from it by
 * its network, or does not allow the kind http.
 *
 * An IPv4 address written as IPv6 (::ffff:169.254.169.254) is the same address.
 */
#include "exec/http_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const uint8_t ec2_metadata[16] = {
    0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}; /* fd00:ec2::254 */

static bool
ipv4_is_link_local(const uint8_t *byte)
{
	return byte[0] == 169 && byte[1] == 254;
}

static bool
ipv6_is_link_local(const struct in6_addr *a)
{
	if (IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4COMPAT(a))
		return ipv4_is_link_local(&a->s6_addr[12]);
	return IN6_IS_ADDR_LINKLOCAL(a) || memcmp(a->s6_addr, ec2_metadata, sizeof(ec2_metadata)) == 0;
}

bool
http_address_refused(const struct sockaddr *address, char *why, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "";
	bool refused = false;

	if (address->sa_family == AF_INET) {
		struct in_addr a;

		memcpy(&a, &((const struct sockaddr_in *)(const void *)address)->sin_addr, sizeof(a));
		refused = ipv4_is_link_local((const uint8_t *)&a);
		inet_ntop(AF_INET, &a, text, sizeof(text));
	} else if (address->sa_family == AF_INET6) {
		struct in6_addr a;

		memcpy(&a, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof(a));
		refused = ipv6_is_link_local(&a);
		inet_ntop(AF_INET6, &a, text, sizeof(text));
	}
	if (refused)
		snprintf(why, size, "%s is a link-local address, where clouds keep the machine's credentials",
		    text);
	return refused;
}
