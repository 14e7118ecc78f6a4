/* The starter: what runs need beside their rows. */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/secret.h"
#include "node/context.h"
#include "node/starter/private.h"

void
starter_secrets(struct starter *s, int64_t incarnation, struct run **batch, size_t n)
{
	int64_t until_us = clock_mono_us() + PATIENCE_US;
	struct err err = {0};
	enum rc rc = RC_LOST;

	while (node_may_act(s->node, incarnation, clock_boot_us())) {
		rc = s->store->secrets(s->db, batch, n, &err);
		if (rc == RC_OK)
			return;
		if (!starter_again(s, "secrets", rc, until_us, &err))
			break;
	}
	for (size_t i = 0; i < n; i++) {
		if (!secret_wanted(batch[i]))
			continue;
		batch[i]->task.unready = rc != RC_BAD;
		batch[i]->task.refused = xasprintf("could not read its secrets: %s", err.text);
	}
}
