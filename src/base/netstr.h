/* A list of (key, value) strings in one text: "3:env,7:PATH=/x,": each string as its length in bytes, a
 * colon, the bytes and a comma, keys and values in turn: nothing needs quoting, whatever is in the
 * strings. */
#pragma once

#include <stddef.h>

#include "base/rc.h"

struct pair {
	const char *key;   /* NUL-terminated, inside the list's own memory */
	const char *value; /* likewise; may hold no NUL (the database stores none) */
};

struct pairs {
	struct pair *item;
	size_t count;
	char *memory; /* the one block that all strings live in */
};

/* RC_BAD on anything malformed.  pairs_fini is safe on zeroed memory. */
CHECKED enum rc pairs_parse(const char *text, size_t len, struct pairs *out, struct err *err);
void pairs_fini(struct pairs *p);

/* First value of the key, or NULL. */
const char *pairs_get(const struct pairs *p, const char *key);
