/* Internal to db: numbers as text parameters. */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#define NUMBER_MAX 24

/* Writes v into buf (NUMBER_MAX bytes) and returns buf. */
static inline const char *
number(char *buf, int64_t v)
{
	snprintf(buf, NUMBER_MAX, "%" PRId64, v);
	return buf;
}
