/* The table of options: values from text, defaults, and the names.  The texts come from option_read.c
 * (environment, flags) and option_file.c. */
#include "base/option.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"

static const struct {
	const char *name;
	int64_t us;
} units[] = {
    {"us", 1},
    {"ms", 1000},
    {"s", 1000000},
    {"m", 60000000},
    {"h", INT64_C(3600000000)},
    {"d", INT64_C(86400000000)},
};

/* Whole numbers only: every duration has an exact value and can be printed back. */
bool
duration_parse(const char *s, int64_t *us_out)
{
	uint64_t n = 0;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (uint64_t)(*p - '0');
		if (n > INT64_MAX / 10)
			return false;
	}
	if (p == s)
		return false;
	if (*p == '\0' && n == 0) {
		*us_out = 0;
		return true;
	}
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if (strcmp(p, units[i].name) != 0)
			continue;
		if (n > (uint64_t)(INT64_MAX / units[i].us))
			return false;
		*us_out = (int64_t)n * units[i].us;
		return true;
	}
	return false;
}

const char *
duration_format(int64_t us, char *buf, size_t size)
{
	size_t i = sizeof units / sizeof units[0] - 1;

	if (us == 0) {
		snprintf(buf, size, "0");
		return buf;
	}
	while (us % units[i].us != 0) /* ends at 1 us */
		i--;
	snprintf(buf, size, "%" PRId64 "%s", us / units[i].us, units[i].name);
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
	size_t n = strlen(b), m = strlen(a);

	if (n > 64 || m > 64)
		return UINT_MAX;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; i <= m; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= n; j++) {
			bool same = a[i - 1] == b[j - 1] || (a[i - 1] == '-' && b[j - 1] == '_');
			unsigned here = diagonal + (same ? 0 : 1);

			here = row[j] + 1 < here ? row[j] + 1 : here;
			here = row[j - 1] + 1 < here ? row[j - 1] + 1 : here;
			diagonal = row[j];
			row[j] = here;
		}
	}
	return row[n];
}

const char *
option_nearest(const struct option_key *table, const char *name)
{
	const char *best = NULL;
	unsigned nearest = strlen(name) < 4 ? 2 : 4; /* this far away it is no typing mistake */

	for (; table->name != NULL; table++) {
		unsigned d = distance(name, table->name);

		if (d < nearest) {
			nearest = d;
			best = table->name;
		}
	}
	return best;
}

static bool
is_bounded(const struct option_key *k)
{
	return k->min != 0 || k->max != 0;
}

/* ", from 1 to 16" in the words of its type. */
static void
describe_range(const struct option_key *k, char *out, size_t size)
{
	char low[32], high[32];

	if (!is_bounded(k))
		return;
	if (k->type == OPTION_DURATION) {
		duration_format((int64_t)k->min, low, sizeof low);
		duration_format((int64_t)k->max, high, sizeof high);
	} else {
		snprintf(low, sizeof low, "%.15g", k->min);
		snprintf(high, sizeof high, "%.15g", k->max);
	}
	snprintf(out, size, ", from %s to %s", low, high);
}

/* What would be right, for error messages. */
void
option_describe(const struct option_key *k, char *out, size_t size)
{
	char range[80] = "";
	size_t n;

	describe_range(k, range, sizeof range);
	switch (k->type) {
	case OPTION_INT: snprintf(out, size, "a whole number%s", range); break;
	case OPTION_REAL: snprintf(out, size, "a number%s", range); break;
	case OPTION_DURATION: snprintf(out, size, "a time such as 200ms, 5s, 10m, 1h or 7d%s", range); break;
	case OPTION_ENUM:
		n = (size_t)snprintf(out, size, "one of:");
		for (const char *const *c = k->choices; *c != NULL && n < size; c++)
			n += (size_t)snprintf(out + n, size - n, " %s", *c);
		break;
	case OPTION_FLAG: snprintf(out, size, "on or off"); break;
	case OPTION_TEXT: snprintf(out, size, "a text"); break;
	}
}

static bool
in_range(const struct option_key *k, double v)
{
	return !is_bounded(k) || (v >= k->min && v <= k->max);
}

static bool
set_int(const struct option_key *k, int64_t *field, const char *value)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || !in_range(k, (double)n))
		return false;
	*field = n;
	return true;
}

static bool
set_real(const struct option_key *k, double *field, const char *value)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(value, &end);
	if (errno != 0 || end == value || *end != '\0' || !isfinite(v) || !in_range(k, v))
		return false;
	*field = v;
	return true;
}

static bool
set_duration(const struct option_key *k, int64_t *field, const char *value)
{
	int64_t us;

	if (!duration_parse(value, &us) || !in_range(k, (double)us))
		return false;
	*field = us;
	return true;
}

static bool
set_enum(const struct option_key *k, int *field, const char *value)
{
	for (int i = 0; k->choices[i] != NULL; i++) {
		if (strcmp(k->choices[i], value) == 0) {
			*field = i;
			return true;
		}
	}
	return false;
}

static bool
set_flag(bool *field, const char *value)
{
	static const char *const on[] = {"on", "true", "yes", "1"};
	static const char *const off[] = {"off", "false", "no", "0"};

	for (size_t i = 0; i < sizeof on / sizeof on[0]; i++) {
		bool is_on = strcasecmp(value, on[i]) == 0;

		if (is_on || strcasecmp(value, off[i]) == 0) {
			*field = is_on;
			return true;
		}
	}
	return false;
}

static void *
field_of(const struct option_key *k, void *settings)
{
	return (char *)settings + k->offset;
}

static bool
take_flag(const struct option_key *k, void *settings, const char *value)
{
	if (k->given != 0)
		*(bool *)((char *)settings + k->given) = true;
	return set_flag(field_of(k, settings), value);
}

static void
set_text(char **field, const char *value)
{
	char *copy = xstrdup(value); /* the value may be the one in the field */

	free(*field);
	*field = copy;
}

static bool
set_value(const struct option_key *k, void *settings, const char *value)
{
	void *field = field_of(k, settings);

	switch (k->type) {
	case OPTION_INT: return set_int(k, field, value);
	case OPTION_REAL: return set_real(k, field, value);
	case OPTION_DURATION: return set_duration(k, field, value);
	case OPTION_ENUM: return set_enum(k, field, value);
	case OPTION_FLAG: return take_flag(k, settings, value);
	case OPTION_TEXT: set_text(field, value); return true;
	}
	return false;
}

enum rc
option_set(const struct option_key *table, void *settings, const char *name, const char *value,
    const char *where, struct err *err)
{
	const struct option_key *k = option_find(table, name);
	const char *near = k == NULL ? option_nearest(table, name) : NULL;
	char right[256];

	if (near != NULL)
		return err_set(err, RC_BAD, "%s: unknown key \"%.64s\"; did you mean %s?", where, name, near);
	if (k == NULL)
		return err_set(err, RC_BAD, "%s: unknown key \"%.64s\"", where, name);
	if (set_value(k, settings, value))
		return RC_OK;
	option_describe(k, right, sizeof right);
	return err_set(err, RC_BAD, "%s: %s cannot be \"%.100s\"; it must be %s", where, k->name,
	    k->secret ? "***" : value, right);
}

static const size_t sizes[] = {
    [OPTION_TEXT] = sizeof(char *),
    [OPTION_INT] = sizeof(int64_t),
    [OPTION_REAL] = sizeof(double),
    [OPTION_DURATION] = sizeof(int64_t),
    [OPTION_ENUM] = sizeof(int),
    [OPTION_FLAG] = sizeof(bool),
};

void
option_defaults(const struct option_key *table, void *settings)
{
	for (; table->name != NULL; table++) {
		memset(field_of(table, settings), 0, sizes[table->type]);
		if (table->fallback != NULL && !set_value(table, settings, table->fallback)) {
			log_error("bad_default", "key=%s value=\"%s\"", table->name, table->fallback);
			abort();
		}
	}
}

void
option_free(const struct option_key *table, void *settings)
{
	for (; table->name != NULL; table++) {
		if (table->type != OPTION_TEXT)
			continue;
		free(*(char **)field_of(table, settings));
		memset(field_of(table, settings), 0, sizes[table->type]);
	}
}

bool
option_same(const struct option_key *key, const void *a, const void *b)
{
	const void *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
	const char *text, *other;

	if (key->type != OPTION_TEXT)
		return memcmp(x, y, sizes[key->type]) == 0;
	text = *(char *const *)x;
	other = *(char *const *)y;
	return text == other || (text != NULL && other != NULL && strcmp(text, other) == 0);
}
