#include "node/health.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/fault.h"
#include "node/boss/boss.h"
#include "node/context.h"

static const char *const part_name[] = {[HEALTH_START] = "start", [HEALTH_FINISH] = "finish"};

bool
health_may_claim(const struct node *n)
{
	for (int i = 0; i < HEALTH__COUNT; i++) {
		if (atomic_load(&n->health.no_claims[i]))
			return false;
	}
	return true;
}

bool
health_part_well(const struct node *n, enum health_part part)
{
	return atomic_load(&n->health.since_us[part]) == 0;
}

static void
say(enum health_part part, const struct err *why)
{
	bool ours = why->sqlstate[0] != '\0' && fault_of(why->sqlstate) == FAULT_OURS;

	log_line(ours ? LOG_ERROR : LOG_WARN, "fault", "part=%s error=\"%s\" sqlstate=\"%s\" hint=\"%s\"",
	    part_name[part], why->text, why->sqlstate,
	    "outcomes are kept and recorded when it is over; until then the node claims nothing");
}

void
health_ill(struct node *n, enum health_part part, bool no_claims, const struct err *why)
{
	if (atomic_load(&n->health.since_us[part]) == 0) {
		atomic_store(&n->health.since_us[part], clock_mono_us());
		say(part, why);
	}
	if (atomic_exchange(&n->health.no_claims[part], no_claims) == no_claims)
		return;
	if (no_claims)
		boss_drain(n->boss);
	else
		boss_undrain(n->boss);
}

void
health_well(struct node *n, enum health_part part)
{
	int64_t since = atomic_load(&n->health.since_us[part]);

	if (since == 0)
		return;
	atomic_store(&n->health.since_us[part], 0);
	log_info("fault_over", "part=%s ms=%" PRId64, part_name[part], (clock_mono_us() - since) / US_PER_MS);
	if (atomic_exchange(&n->health.no_claims[part], false))
		boss_undrain(n->boss);
}
