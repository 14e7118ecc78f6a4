/* UTF-8 by table 3-7 of the Unicode standard: the second byte's range depends on the first, the others are
 * 80..BF. */
#include "base/utf8.h"

#include <string.h>

struct lead {
	uint8_t first, last; /* of the first byte */
	uint8_t length;
	uint8_t low, high; /* of the second byte */
};

static const struct lead leads[] = {
    {0xc2, 0xdf, 2, 0x80, 0xbf},
    {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf},
    {0xed, 0xed, 3, 0x80, 0x9f},
    {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf},
    {0xf1, 0xf3, 4, 0x80, 0xbf},
    {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct lead *
lead_of(uint8_t c)
{
	for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++)
		if (c >= leads[i].first && c <= leads[i].last)
			return &leads[i];
	return NULL;
}

size_t
utf8_sequence(const void *p, size_t n)
{
	const uint8_t *s = p;
	const struct lead *lead;

	if (n == 0)
		return 0;
	if (s[0] < 0x80)
		return 1;
	lead = lead_of(s[0]);
	if (lead == NULL || n < lead->length || s[1] < lead->low || s[1] > lead->high)
		return 0;
	for (size_t i = 2; i < lead->length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return lead->length;
}

uint32_t
utf8_code_point(const void *p, size_t len)
{
	const uint8_t *s = p;
	uint32_t c = s[0];

	if (len > 1)
		c &= 0xffu >> (len + 1);
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

bool
utf8_is_control(const void *p, size_t len)
{
	uint32_t c = utf8_code_point(p, len);
	bool turns = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);

	return c < 0x20 || (c >= 0x7f && c < 0xa0) || turns;
}

size_t
utf8_trim(char *s, size_t n)
{
	size_t back = 0;

	while (back < 3 && back < n && ((uint8_t)s[n - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back < n && (uint8_t)s[n - 1 - back] >= 0xc0 && utf8_sequence(s + n - 1 - back, back + 1) == 0)
		n -= back + 1;
	s[n] = '\0';
	return n;
}

bool
utf8_is_text(const char *s)
{
	for (size_t left = strlen(s), n; left > 0; s += n, left -= n) {
		n = utf8_sequence(s, left);
		if (n == 0)
			return false;
	}
	return true;
}
