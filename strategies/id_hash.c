/*
 * id_hash: the task's hash over the live nodes, in rank order.
 *
 * A task's shard is a hash of its id; the shards are dealt out to the live nodes in turn (turns.h).  When a
 * node dies the ranks above it move down and most shards change hands: the cheapest rule to explain, and
 * exact, but not the calmest (see rendezvous).
 */
#include "turns.h"

const struct pgrab_strategy strategy_id_hash = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "id_hash",
    .summary = "the task's hash over the live nodes in rank order: equal shares",
    .shards = deal_in_turn,
};

/* Every strategy divides the shards of a task only among the nodes that can run it, so a rule by labels has
 * nothing to add. */
const struct pgrab_strategy strategy_labels = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "labels",
    .summary = "another name for id_hash: every strategy gives tasks to nodes with the labels they require",
    .shards = deal_in_turn,
};

PGRAB_STRATEGY_EXPORT(strategy_id_hash)
