/*
 * pgrab strategy interface: which node takes which task.
 *
 * Every node asks its strategy alone, from the same rows; there is no referee.  That is safe, because a claim
 * is a versioned UPDATE: a strategy that is wrong wastes claims, it never runs a task twice.  What it must
 * guarantee: when all live nodes see the same cluster, the answers of all nodes to shards() are a partition:
 * every shard has exactly one owner.
 *
 * A strategy is pure: the same cluster gives the same answer, on every node; no database, no files, no clock,
 * no threads of its own, no state that matters between calls.  The node measures each call and complains of
 * slow ones.  What a strategy has to know of the past is in the picture: pgrab_work, and its own last word.
 *
 * Third party: build a shared object against this header alone, export
 *     const struct pgrab_strategy *pgrab_strategy_v1(void);
 * and run `pgrab run --strategy ./mine.so`.
 */
#ifndef PGRAB_STRATEGY_H
#define PGRAB_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 2: fitness: pgrab_node.fitness and .work, fitness(), may_steal().  The entry has kept its name. */
#define PGRAB_STRATEGY_ABI   2
#define PGRAB_STRATEGY_ENTRY "pgrab_strategy_v1"

/* At the end of a file that is built into pgrab, or with -DPGRAB_STRATEGY_SO a shared object: its export. */
#ifdef PGRAB_STRATEGY_SO
#define PGRAB_STRATEGY_EXPORT(strategy)                       \
	const struct pgrab_strategy *pgrab_strategy_v1(void); \
	const struct pgrab_strategy *pgrab_strategy_v1(void)  \
	{                                                     \
		return &(strategy);                           \
	}
#else
#define PGRAB_STRATEGY_EXPORT(strategy)
#endif

/* Every task belongs to one of these, by a hash of its id: pgrab.shard(id). */
#define PGRAB_SHARDS 1024

/* A label of a node: labels = zone=eu,disk=ssd. */
struct pgrab_label {
	const char *key;
	const char *value;
};

/* How a node's runs of one kind went of late; recent ones count for more, and all fade with time.  A run that
 * was cancelled, or lost with its node, does not count. */
struct pgrab_work {
	const char *kind;
	double runs;       /* how many the next two are about */
	double succeeded;  /* of them */
	double timed;      /* how many successes the next one is about */
	double typical_us; /* how long they took, geometric mean; 0: timed is 0 */
};

/* One live node.  Live means that its heartbeat is recent; a draining node is not in the list. */
struct pgrab_node {
	int64_t id;       /* of pgrab.node; never reused */
	const char *name; /* unique among the live */
	double weight;    /* >= 0 */
	int64_t slots;    /* runs it can do at once, >= 1 */
	int64_t in_hand;  /* tasks claimed + running, as of its last heartbeat */
	size_t n_labels;
	const struct pgrab_label *labels; /* sorted by key */
	int64_t fitness;                  /* what it last said, see fitness(); 100: nothing yet */
	size_t n_work;                    /* only where its strategy has fitness() */
	const struct pgrab_work *work;
	/* per cent of its machine, or of what its control group allows; smoothed; -1: not known */
	int32_t cpu_free, memory_free;
};

/*
 * An immutable picture of the cluster.  Nodes are in rank order: by id, ascending; rank = index.
 *
 * A strategy is asked once about all live nodes (that is what people see in pgrab.ownership), and
 * once for each group of tasks that only some can run (kind, labels): then only those who are able
 * are in the list.  So what it divides is always divided among nodes that can run it.
 */
struct pgrab_cluster {
	uint32_t size;   /* sizeof(struct pgrab_cluster) as the node knows it */
	uint32_t shards; /* PGRAB_SHARDS */
	size_t n_nodes;
	const struct pgrab_node *nodes;
	size_t self; /* index of the asking node; n_nodes if it is not, or not yet, or
		      * no longer, among the live */
};

/* One candidate, for the final yes or no. */
struct pgrab_candidate {
	uint32_t size;
	int64_t id;
	uint32_t shard;
	int32_t priority;
	int64_t late_us;  /* now - due on the database's clock; negative: not due yet */
	bool has_require; /* the task asks for labels, and this node has them (checked before) */
};

#define PGRAB_SHARD_SET_WORDS (PGRAB_SHARDS / 64)

struct pgrab_shard_set {
	uint64_t word[PGRAB_SHARD_SET_WORDS]; /* bit (s % 64) of word[s / 64] */
};

static inline void
pgrab_shard_add(struct pgrab_shard_set *set, uint32_t shard)
{
	set->word[shard / 64] |= UINT64_C(1) << (shard % 64);
}

static inline bool
pgrab_shard_has(const struct pgrab_shard_set *set, uint32_t shard)
{
	return (set->word[shard / 64] >> (shard % 64)) & 1;
}

struct pgrab_strategy {
	uint32_t abi; /* PGRAB_STRATEGY_ABI */
	const char *name;
	const char *summary; /* one line for `pgrab strategy list` */

	/* Reads `strategy_options` ("" when not set).  NULL with a message in err: the options are wrong.  A
	 * strategy without options may leave open and close NULL; self is NULL then. */
	void *(*open)(const char *options, char *err, size_t err_size);
	void (*close)(void *self);

	/*
	 * Which shards node `rank` looks at.  Asked for the node's own rank whenever the cluster changes, and
	 * for every rank when the node explains who owns what.  The set is zeroed by the caller.  Required.
	 */
	void (*shards)(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out);

	/* true: shards of different nodes may overlap (first come, first served); the partition promise is
	 * not made.  */
	bool overlapping;

	/* How many tasks the asking node may take in this look, at most, when it has `room`.  The result is
	 * cut to 0..room.  NULL: as many as there is room for. */
	int64_t (*quota)(void *self, const struct pgrab_cluster *c, int64_t room);

	/* The final word on one candidate.  NULL: yes to all. */
	bool (*accept)(void *self, const struct pgrab_cluster *c, const struct pgrab_candidate *t);

	/*
	 * How fit the asking node is, in per cent of an ordinary one; cut to 1..PGRAB_FITNESS_MAX.
	 * Asked every few heartbeats.  The answer travels with the node's heartbeat: from then on all
	 * nodes find the same number in pgrab_node.fitness, and are asked for their shards anew.  So each
	 * change moves shards: answer in coarse steps, and repeat your last word,
	 * c->nodes[c->self].fitness, as long as it will do.  why: the reason in a few words, for people.
	 * NULL: fitness is not used.
	 */
	int64_t (*fitness)(void *self, const struct pgrab_cluster *c, char *why, size_t why_size);

	/* May the asking node, which has nothing else to do, take what others have left lying for
	 * steal_after?  NULL: yes. */
	bool (*may_steal)(void *self, const struct pgrab_cluster *c);
};

#define PGRAB_FITNESS_MAX 10000

typedef const struct pgrab_strategy *(*pgrab_strategy_entry_fn)(void);

/* A well mixed 64-bit hash (the finalizer of SplitMix64, public domain, Sebastiano Vigna), for strategies
 * that need one. */
static inline uint64_t
pgrab_mix64(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

#ifdef __cplusplus
}
#endif

#endif
