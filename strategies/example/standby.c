/*
 * standby: the first few live nodes do the work, the others stand by.
 *
 * An example of a strategy built out of the tree.  The `active=N` live nodes with the lowest ranks share the
 * shards in N unbroken ranges; the rest own nothing.  When an active node dies the ranks above it move down,
 * so that the first node standing by becomes active, without anybody appointing it: every node works out the
 * same answer from the same list.
 *
 * Option:  active=2  (default 1)
 */
#include <pgrab/strategy.h>

#include <stdio.h>
#include <stdlib.h>

struct standby {
	size_t active;
};

/* The node calls this once and shows err to the user. */
static void *
standby_open(const char *options, char *err, size_t err_size)
{
	struct standby *s = calloc(1, sizeof *s);
	unsigned active = 1;
	char rest;

	if (s == NULL)
		return NULL;
	if (options[0] != '\0' && (sscanf(options, "active=%4u%c", &active, &rest) != 1 || active == 0)) {
		snprintf(err, err_size, "write active=N with N from 1 to 9999, or nothing for 1");
		free(s);
		return NULL;
	}
	s->active = active;
	return s;
}

static void
standby_close(void *self)
{
	free(self);
}

/* `rank` need not be the asking node, and may be out of range: then it owns nothing.  With fewer live nodes
 * than `active`, those that live share everything: no shard may be without an owner. */
static void
standby_shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	const struct standby *s = self;
	size_t n = c->n_nodes < s->active ? c->n_nodes : s->active;

	if (rank >= n)
		return;
	for (size_t i = c->shards * rank / n; i < c->shards * (rank + 1) / n; i++)
		pgrab_shard_add(out, (uint32_t)i);
}

static const struct pgrab_strategy standby = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "standby",
    .summary = "the first few live nodes do the work, the others stand by",
    .open = standby_open,
    .close = standby_close,
    .shards = standby_shards,
};

const struct pgrab_strategy *pgrab_strategy_v1(void);

const struct pgrab_strategy *
pgrab_strategy_v1(void)
{
	return &standby;
}
