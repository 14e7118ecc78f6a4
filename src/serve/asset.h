/* Files that are embedded in the program: what the page needs, and the description of the API. */
#pragma once

#include <stddef.h>

struct asset {
	const char *name; /* "page.css" */
	const char *text;
};

extern const struct asset assets[]; /* ended by a NULL name; made by embed.py */
