/* The API: each route is a text of src/db/sql, the parameters it is given, and the shape its rows
 * take.  JSON is made by the database, as for the command line's --json. */
#pragma once

#include "serve/route.h"

enum api_from {
	API_NONE,    /* the end of the list */
	API_PART,    /* of the path, the first or second star: number */
	API_ID,      /* the first star, a task by its id, key or name: its id */
	API_ONE,     /* the first star, as an array of one */
	API_QUERY,   /* of the URI: name */
	API_COUNT,   /* the same, a whole number from 1 to `most` */
	API_WORD,    /* the same, one of `words` */
	API_TIME,    /* the same, a time or how long ago, as --since */
	API_BODY,    /* the JSON body, which must be there */
	API_PAYLOAD, /* the same, if there is one */
	API_TRACE,   /* the header traceparent */
	API_TASKS    /* the ids, keys and names in {"tasks": [...]} of the body */
};

struct api_param {
	enum api_from from;
	const char *name;
	const char *fallback; /* NULL: null */
	int number;           /* of the star; for API_COUNT the highest value */
	bool needed;
	const char *const *words; /* ended by NULL */
};

enum api_shape {
	API_ARRAY,
	API_PAGE, /* columns: an element as JSON, where the next page begins; the last parameter: the limit */
	API_OBJECT, /* 404 when there is no row */
	API_JSON    /* the same, for a text that changes something and makes the JSON itself */
};

#define API_PARAMS 12

struct api {
	const char *sql;
	enum api_shape shape;
	int status; /* 0: 200 */
	struct api_param param[API_PARAMS];
	const char *location; /* of a 201: what comes before the id of the object */
	bool shared;          /* a list or summary: may be a second old, see cache.h */
	bool hash_joins;      /* off in our sessions (db/pg_session.c), but long chains need them */
};
