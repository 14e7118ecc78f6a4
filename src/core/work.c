#include "core/work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_US 1000 /* what pgrab itself takes for a run; shorter ones differ by chance */

/* The one with this name, or a new one, at the cost of the one with the fewest runs. */
static struct work_kind *
kind_of(struct work *w, const char *kind)
{
	struct work_kind *least = &w->item[0];

	for (size_t i = 0; i < w->n; i++) {
		if (strcmp(w->item[i].kind, kind) == 0)
			return &w->item[i];
		if (w->item[i].runs < least->runs)
			least = &w->item[i];
	}
	if (w->n < WORK_KINDS)
		least = &w->item[w->n++];
	*least = (struct work_kind){0};
	snprintf(least->kind, sizeof least->kind, "%s", kind);
	return least;
}

void
work_note(struct work *w, const char *kind, bool succeeded, int64_t took_us)
{
	struct work_kind *k;

	if (strlen(kind) >= sizeof k->kind)
		return;
	k = kind_of(w, kind);
	k->runs = k->runs * (1 - 1.0 / WORK_RUNS) + 1;
	k->succeeded = k->succeeded * (1 - 1.0 / WORK_RUNS) + succeeded;
	if (!succeeded)
		return;
	k->timed = k->timed * (1 - 1.0 / WORK_TIMED) + 1;
	k->log_us =
	    k->log_us * (1 - 1.0 / WORK_TIMED) + log2((double)(took_us > LEAST_US ? took_us : LEAST_US));
}

void
work_fade(struct work *w, double keep)
{
	for (size_t i = 0; i < w->n; i++) {
		struct work_kind *k = &w->item[i];

		k->runs *= keep;
		k->succeeded *= keep;
		k->timed *= keep;
		k->log_us *= keep;
	}
}

static int64_t
hundredths(double n)
{
	return (int64_t)(n * 100 + 0.5);
}

size_t
work_view(const struct work *w, struct pgrab_work *out)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct work_kind *k = &w->item[i];

		out[i] = (struct pgrab_work){.kind = k->kind,
		    .runs = k->runs,
		    .succeeded = k->succeeded,
		    .timed = k->timed,
		    .typical_us = k->timed > 0 ? exp2(k->log_us / k->timed) : 0};
	}
	return w->n;
}

void
work_print(const struct work *w, struct buf *out)
{
	struct pgrab_work k[WORK_KINDS];
	size_t n = work_view(w, k);

	buf_reset(out);
	for (size_t i = 0; i < n; i++) {
		if (hundredths(k[i].runs) == 0)
			continue;
		buf_addf(out, "%s%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, out->len > 0 ? " " : "",
		    k[i].kind, hundredths(k[i].runs), hundredths(k[i].succeeded), hundredths(k[i].timed),
		    (int64_t)(k[i].typical_us + 0.5));
	}
}

/* A number after a blank, 0 or more. */
static bool
number_at(const char **p, double *out)
{
	char *end;
	long long n;

	if (**p != ' ')
		return false;
	n = strtoll(*p, &end, 10);
	if (end == *p || n < 0)
		return false;
	*out = (double)n;
	*p = end;
	return true;
}

void
work_parse(struct work *w, const char *text)
{
	*w = (struct work){0};
	for (const char *p = text; p != NULL && *p != '\0' && w->n < WORK_KINDS; p += *p == ' ') {
		struct work_kind *k = &w->item[w->n];
		size_t length = strcspn(p, " ");
		double us;

		if (length == 0 || length >= sizeof k->kind)
			return;
		memcpy(k->kind, p, length);
		k->kind[length] = '\0';
		p += length;
		if (!number_at(&p, &k->runs) || !number_at(&p, &k->succeeded) || !number_at(&p, &k->timed) ||
		    !number_at(&p, &us))
			return;
		k->runs /= 100;
		k->succeeded /= 100;
		k->timed /= 100;
		k->log_us = k->timed * log2(us > 1 ? us : 1);
		w->n++;
	}
}
