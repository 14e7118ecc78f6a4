#include "node/node.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/handlers/handlers.h"
#include "node/runs/worker.h"

/* The settings in force: those read at the start, with what has been changed here since. */
static void
as_in_force(const struct node *n, struct settings *out)
{
	*out = *n->set;
	out->log_level = (int)log_level();
	out->workers = atomic_load(&n->workers);
	out->weight = atomic_load(&n->weight);
}

/* True: it is a key that changes at once, and it has. */
static bool
apply(struct node *n, struct workers *workers, const char *key, const struct settings *fresh)
{
	struct err err = {0};

	if (strcmp(key, "log_level") == 0) {
		log_set_level((enum log_level)fresh->log_level);
	} else if (strcmp(key, "weight") == 0) {
		atomic_store(&n->weight, fresh->weight);
	} else if (strcmp(key, "workers") == 0) {
		if (descriptors_provide(n, fresh->workers, &err) == RC_OK &&
		    workers_resize(workers, fresh->workers, &err) == RC_OK)
			return true;
		log_error("reload", "key=workers error=\"%s\"", err.text);
		return false;
	} else {
		return false;
	}
	return true;
}

static void
name_it(struct buf *list, const char *what)
{
	buf_addf(list, "%s%s", list->len > 0 ? ", " : "", what);
}

static void
take_over(struct node *n, struct workers *workers, const struct settings *fresh, const char *labels)
{
	AUTO_BUF struct buf changed = {0}, waits = {0};
	struct settings now;

	as_in_force(n, &now);
	for (const struct option_key *k = settings_keys; k->name != NULL; k++) {
		if (strcmp(k->name, "labels") == 0 || option_same(k, &now, fresh))
			continue;
		name_it(apply(n, workers, k->name, fresh) ? &changed : &waits, k->name);
	}
	if (strcmp(labels, atomic_load(&n->labels)) != 0) {
		atomic_store(&n->labels, texts_keep(&n->own_labels, labels));
		boss_hand_back(n->boss);
		name_it(&changed, "labels");
	}
	if (!option_same_sections(settings_sections, n->set, fresh))
		name_it(&waits, "[owner] and [pool] sections");
	if (changed.len > 0)
		atomic_store(&n->untold, true);
	if (waits.len > 0)
		log_warn("reload", "changed=\"%s\" restart_for=\"%s\" hint=\"%s\"", buf_str(&changed),
		    buf_str(&waits), "end this node with TERM and start it again for these");
	else
		log_info("reload", "changed=\"%s\"", buf_str(&changed));
}

void
reload(struct node *n, struct workers *workers)
{
	struct settings fresh;
	struct err err = {0};
	AUTO_FREE char *labels = NULL;
	enum rc rc = settings_reload(n->set, &fresh, &err);

	if (rc == RC_OK)
		rc = settings_labels_json(fresh.labels, &labels, &err);
	if (rc == RC_OK) {
		take_over(n, workers, &fresh, labels);
		handlers_renew(n->handlers);
	} else
		log_error("reload", "error=\"%s\" hint=\"nothing was changed\"", err.text);
	settings_fini(&fresh);
}
