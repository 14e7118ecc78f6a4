/* Loads a strategy and calls it with care: checks the ABI, bounds every answer, measures. */
#pragma once

#include "base/rc.h"
#include "pgrab/strategy.h"

struct strategy; /* one loaded strategy; calls on it come from one thread at a time */

/* name: a built-in, or a path (holds a slash or ends in .so).  RC_BAD: unknown (the text lists the
 * built-ins), file does not load, no entry symbol, wrong ABI number, no shards(), options refused. */
CHECKED enum rc strategy_open(const char *name, const char *options, struct strategy **out, struct err *err);
void strategy_close(struct strategy **s);

bool strategy_overlapping(const struct strategy *s);

/* The shards of one rank; *out is zeroed first.  A rank out of range gives the empty set. */
void
strategy_shards(struct strategy *s, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out);
int64_t strategy_quota(struct strategy *s, const struct pgrab_cluster *c, int64_t room); /* 0..room */
bool strategy_accept(struct strategy *s, const struct pgrab_cluster *c, const struct pgrab_candidate *t);

/* Has it a word for fitness?  What it says of the asking node, 1..PGRAB_FITNESS_MAX.  why may be cut. */
bool strategy_has_fitness(const struct strategy *s);
int64_t strategy_fitness(struct strategy *s, const struct pgrab_cluster *c, char *why, size_t why_size);
bool strategy_may_steal(struct strategy *s, const struct pgrab_cluster *c);

/* All built-in strategies, ended by NULL. */
extern const struct pgrab_strategy *const strategy_builtin[];
