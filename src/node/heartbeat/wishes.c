/* What people want of this node, as a beat has brought it. */

#include "base/log.h"
#include "base/texts.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/heartbeat/private.h"
#include "node/runs/teller.h"

/* A person's drain.  (A node that stops drains anyway, and the boss knows.) */
static void
obey_drain(struct node *n, bool wanted)
{
	if (wanted == atomic_load(&n->drained))
		return;
	atomic_store(&n->drained, wanted);
	log_info(wanted ? "drain" : "undrain", "node=%s", n->set->name);
	if (wanted)
		boss_drain(n->boss);
	else
		boss_undrain(n->boss);
}

/* Labels that a person has written over ours.  What is ours depends on the reading of all nodes, too. */
static void
obey_labels(struct heartbeat *h, const char *wanted)
{
	struct node *n = h->node;
	const char *now = *wanted == '\0' ? NULL : texts_keep(&n->overrides, wanted);

	if (now == atomic_load(&n->override))
		return;
	atomic_store(&n->override, now);
	log_info("labels", "labels=\"%s\" from=%s", now != NULL ? now : atomic_load(&n->labels),
	    now != NULL ? "pgrab.node" : "settings");
	heartbeat_want_others(h, 0);
	boss_hand_back(n->boss);
}

void
heartbeat_obey(struct heartbeat *h, const struct node_wishes *w)
{
	obey_drain(h->node, w->drain);
	obey_labels(h, w->labels);
	if (w->outputs)
		teller_ask(h->node->teller);
	for (size_t i = 0; i < w->n_stops; i++)
		boss_cancel(h->node->boss, w->stop[i].id, w->stop[i].version);
}
