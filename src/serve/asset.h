/* Files that are embedded in the program: what the page needs, and the description of the API. */
#ifndef PGRAB_SERVE_ASSET_H
#define PGRAB_SERVE_ASSET_H

#include "serve/route.h"

struct asset {
	const char *name; /* "page.css" */
	const char *text;
};

extern const struct asset assets[]; /* ended by a NULL name; made by embed.py */

/* The handler of rows whose arg is the name of an asset. */
void asset_answer(struct call *c, struct db *db);

#endif
