/* Writing metrics: the text format of Prometheus (0.0.4), and OpenMetrics (1.0). */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct expose {
	struct buf *out;
	bool open; /* OpenMetrics: the family of a counter has no _total */
};

struct family {
	const char *name; /* without pgrab_ and without _total */
	const char *type;
	const char *help;
};

void expose_family(struct expose *e, const struct family *f);

/* label, label2: names, or NULL; their values may hold anything. */
void expose_sample(struct expose *e, const char *name, const char *suffix, const char *label,
    const char *value_of, const char *label2, const char *value_of2, double value);

/* A whole gauge, without labels. */
void expose_one(struct expose *e, const char *name, const char *help, double value);
