#include "core/skew.h"

static int64_t
best_of(const struct skew *s)
{
	int64_t best = INT64_MIN;

	for (unsigned i = 0; i < SKEW_SAMPLES && i < s->n; i++)
		best = s->sample[i] > best ? s->sample[i] : best;
	return best;
}

int64_t
skew_note(struct skew *s, int64_t db_us, int64_t sent_us, int64_t got_us)
{
	if (best_of(s) > db_us - sent_us)
		s->n = 0;
	s->sample[s->n++ % SKEW_SAMPLES] = db_us - got_us;
	return best_of(s);
}

int64_t
skew_within(int64_t ahead, int64_t db_us, int64_t sent_us, int64_t got_us)
{
	return ahead < db_us - got_us || ahead > db_us - sent_us ? db_us - got_us : ahead;
}
