/* The strategies that are compiled in; their sources are the files of strategies/, which know nothing of the
 * node. */
#include "strategy/host.h"

#include <stddef.h>

extern const struct pgrab_strategy strategy_default;
extern const struct pgrab_strategy strategy_id_hash;
extern const struct pgrab_strategy strategy_least_count;
extern const struct pgrab_strategy strategy_weight;
extern const struct pgrab_strategy strategy_rendezvous;
extern const struct pgrab_strategy strategy_adaptive;
extern const struct pgrab_strategy strategy_labels;

const struct pgrab_strategy *const strategy_builtin[] = {
    &strategy_default,
    &strategy_id_hash,
    &strategy_least_count,
    &strategy_weight,
    &strategy_rendezvous,
    &strategy_adaptive,
    &strategy_labels,
    NULL,
};
