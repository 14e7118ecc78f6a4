/* Values of options: durations, numbers, words; and the table around them. */
#include "base/option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

static const struct {
	const char *unit;
	int64_t us;
} units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", INT64_C(3600000000)},
    {"d", INT64_C(86400000000)}};

bool
duration_parse(const char *s, int64_t *us_out)
{
	char *end;
	double v;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtod(s, &end);
	if (errno != 0 || end == s || strpbrk(s, "xXpP") != NULL)
		return false;
	if (*end == '\0' && v == 0) {
		*us_out = 0;
		return true;
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(end, units[i].unit) == 0 && v * (double)units[i].us < 9e18) {
			*us_out = (int64_t)(v * (double)units[i].us + 0.5);
			return true;
		}
	}
	return false;
}

const char *
duration_format(int64_t us, char *buf, size_t size)
{
	size_t i = sizeof units / sizeof *units;

	if (us == 0) {
		snprintf(buf, size, "0");
		return buf;
	}
	while (us % units[--i].us != 0)
		;
	snprintf(buf, size, "%lld%s", (long long)(us / units[i].us), units[i].unit);
	return buf;
}

static bool
same_name(const char *a, const char *b)
{
	for (; *a != '\0' && *b != '\0'; a++, b++) {
		char x = *a == '-' ? '_' : *a, y = *b == '-' ? '_' : *b;

		if (x != y)
			return false;
	}
	return *a == *b;
}

const struct option_key *
option_find(const struct option_key *table, const char *name)
{
	for (; table->name != NULL; table++) {
		if (same_name(table->name, name))
			return table;
	}
	return NULL;
}

/* Levenshtein distance of two short words; longer ones are not near anything. */
static unsigned
distance(const char *a, const char *b)
{
	unsigned row[65];
	size_t n = strlen(b);

	if (n > 64 || strlen(a) > 64)
		return 100;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1] != '\0'; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best =
			    diagonal + (a[i - 1] == b[j - 1] || (a[i - 1] == '-' && b[j - 1] == '_') ? 0 : 1);

			diagonal = row[j];
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (row[j] + 1 < best)
				best = row[j] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

const char *
option_nearest(const struct option_key *table, const char *name)
{
	const char *best = NULL;
	unsigned least = 4; /* further than that is no typing mistake */

	for (; table->name != NULL; table++) {
		unsigned d = distance(name, table->name);

		if (d < least) {
			least = d;
			best = table->name;
		}
	}
	return best;
}

/* What would be right, for the error. */
static void
describe(const struct option_key *k, char *out, size_t size)
{
	char low[32], high[32];
	size_t n = 0;

	switch (k->type) {
	case OPTION_INT:
		snprintf(out, size, k->max > 0 ? "a whole number from %.0f to %.0f" : "a whole number",
		    k->min, k->max);
		break;
	case OPTION_REAL:
		snprintf(out, size, k->max > 0 ? "a number from %g to %g" : "a number", k->min, k->max);
		break;
	case OPTION_DURATION:
		n = (size_t)snprintf(out, size, "a time such as 200ms, 5s, 10m, 1h or 7d");
		if (k->max > 0)
			snprintf(out + n, size - n, ", from %s to %s",
			    duration_format((int64_t)k->min, low, sizeof low),
			    duration_format((int64_t)k->max, high, sizeof high));
		break;
	case OPTION_ENUM:
		n = (size_t)snprintf(out, size, "one of:");
		for (const char *const *c = k->choices; *c != NULL && n < size; c++)
			n += (size_t)snprintf(out + n, size - n, " %s", *c);
		break;
	case OPTION_FLAG: snprintf(out, size, "on or off"); break;
	case OPTION_TEXT:
	default: snprintf(out, size, "a text"); break;
	}
}

static bool
in_range(const struct option_key *k, double v)
{
	return (k->min == 0 && k->max == 0) || (v >= k->min && v <= k->max);
}

static bool
set_number(const struct option_key *k, void *field, const char *value)
{
	char *end;
	double real;
	long long whole;
	int64_t us;

	errno = 0;
	if (k->type == OPTION_INT) {
		whole = strtoll(value, &end, 10);
		if (errno != 0 || end == value || *end != '\0' || !in_range(k, (double)whole))
			return false;
		*(int64_t *)field = whole;
	} else if (k->type == OPTION_REAL) {
		real = strtod(value, &end);
		if (errno != 0 || end == value || *end != '\0' || !(real == real) || !in_range(k, real))
			return false;
		*(double *)field = real;
	} else {
		if (!duration_parse(value, &us) || !in_range(k, (double)us))
			return false;
		*(int64_t *)field = us;
	}
	return true;
}

static bool
set_word(const struct option_key *k, void *field, const char *value)
{
	static const char *const on[] = {"on", "true", "yes", "1"}, *const off[] = {
									"off", "false", "no", "0"};

	if (k->type == OPTION_ENUM) {
		for (int i = 0; k->choices[i] != NULL; i++) {
			if (strcmp(k->choices[i], value) == 0) {
				*(int *)field = i;
				return true;
			}
		}
		return false;
	}
	for (int i = 0; i < 4; i++) {
		if (strcasecmp(value, on[i]) == 0 || strcasecmp(value, off[i]) == 0) {
			*(bool *)field = strcasecmp(value, on[i]) == 0;
			return true;
		}
	}
	return false;
}

static bool
set_value(const struct option_key *k, void *settings, const char *value)
{
	void *field = (char *)settings + k->offset;

	switch (k->type) {
	case OPTION_INT:
	case OPTION_REAL:
	case OPTION_DURATION: return set_number(k, field, value);
	case OPTION_ENUM:
	case OPTION_FLAG: return set_word(k, field, value);
	case OPTION_TEXT:
	default:
		free(*(char **)field);
		*(char **)field = xstrdup(value);
		return true;
	}
}

enum rc
option_set(const struct option_key *table, void *settings, const char *name, const char *value,
    const char *where, struct err *err)
{
	const struct option_key *k = option_find(table, name);
	char right[256];

	if (k == NULL) {
		const char *near = option_nearest(table, name);

		return err_set(err, RC_BAD, "%s: unknown key \"%.100s\"%s%s%s", where, name,
		    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	if (!set_value(k, settings, value)) {
		describe(k, right, sizeof right);
		return err_set(err, RC_BAD, "%s: %s cannot be \"%.100s\"; it is %s", where, k->name,
		    k->secret ? "***" : value, right);
	}
	return RC_OK;
}

void
option_defaults(const struct option_key *table, void *settings)
{
	for (; table->name != NULL; table++) {
		if (table->type == OPTION_TEXT)
			*(char **)((char *)settings + table->offset) = NULL;
		if (table->fallback != NULL && !set_value(table, settings, table->fallback))
			abort();
	}
}

void
option_free(const struct option_key *table, void *settings)
{
	for (; table->name != NULL; table++) {
		if (table->type == OPTION_TEXT) {
			free(*(char **)((char *)settings + table->offset));
			*(char **)((char *)settings + table->offset) = NULL;
		}
	}
}
