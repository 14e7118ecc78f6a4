#include "node/runs/achieved.h"

#include "base/thread.h"
#include "node/context.h"
#include "node/runs/outcome.h"

void
achieved_init(struct achieved *a)
{
	PTHREAD_OK(pthread_mutex_init(&a->lock, NULL));
}

void
achieved_fini(struct achieved *a)
{
	PTHREAD_OK(pthread_mutex_destroy(&a->lock));
}

/* What was stopped says nothing about the node. */
void
achieved_note(struct node *n, const struct run *r)
{
	struct achieved *a = &n->achieved;
	enum outcome o = r->end.outcome;
	bool good = o == OUTCOME_SUCCEEDED || o == OUTCOME_WAITED || o == OUTCOME_AWAITS;
	bool bad = (o == OUTCOME_FAILED || o == OUTCOME_TIMED_OUT) && !r->task.unready;

	if (!atomic_load_explicit(&a->wanted, memory_order_relaxed) || !(good || bad))
		return;
	WITH_LOCK(&a->lock);
	work_note(&a->work, r->task.kind, good, r->end.at_us - r->begun_us);
}

/* What gave way is no failure, nor has it succeeded. */
void
achieved_count(struct node *n, const struct run *r)
{
	bool good = r->end.outcome == OUTCOME_SUCCEEDED || r->end.outcome == OUTCOME_WAITED;

	if (r->end.outcome != OUTCOME_PREEMPTED)
		node_count(n, good ? COUNT_SUCCEEDED : COUNT_FAILED, 1);
	outcome_log(r);
}

void
achieved_take(struct achieved *a, double keep, struct work *out)
{
	WITH_LOCK(&a->lock);
	work_fade(&a->work, keep);
	*out = a->work;
}
