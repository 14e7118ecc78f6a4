/*
 * labels: tasks that `require` labels go straight to a node that has them; all others go by id_hash.
 *
 * Under the other strategies a task with `require` whose shard belongs to a node without those labels waits
 * for `steal_after`, and longer when nobody is idle.  Here the nodes are sorted into groups of equal labels,
 * and each group reads all shards, every shard by exactly one of its nodes.  So whatever a task requires, a
 * group that matches has one node that sees it at once.  When one group matches, that node is the only owner;
 * when several do, the first to claim wins.
 *
 * A task without `require` has one owner in the cluster, the one of the id_hash rule, which is also the one
 * that reads the shard in its group. Others refuse it, unless it is overdue by `rescue_after` and they have a
 * slot free: the owner may not run its kind, or be stuck.
 *
 * What nodes read therefore overlaps, what they take does not; `overlapping` is set because it is about what
 * they read.  With equal labels everywhere there is one group, and this is id_hash.  The price of many groups
 * is reading: each reads every shard.  Labels that no task ever requires (a host name) should be left out of
 * the grouping with `keys`.
 *
 * Options, separated by blanks:  keys=zone,disk  group by these labels only (default: all);  rescue_after=2s
 * (ms, s, m).
 */
#include <pgrab/strategy.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX  16
#define RESCUE_US INT64_C(2000000)

struct labels {
	int64_t rescue_us;
	size_t n_keys; /* 0: all */
	char *key[KEYS_MAX];
	char *text; /* a copy of the options, which the keys point into */
};

static uint32_t
place(uint32_t shard)
{
	return ((shard ^ (shard >> 5)) * 421) % PGRAB_SHARDS; /* a permutation; why this one: id_hash.c */
}

/* Who takes what requires nothing. */
static size_t
plain_owner(const struct pgrab_cluster *c, uint32_t shard)
{
	return place(shard) % c->n_nodes;
}

static bool
counts(const struct labels *l, const char *key)
{
	if (l->n_keys == 0)
		return true;
	for (size_t i = 0; i < l->n_keys; i++) {
		if (strcmp(l->key[i], key) == 0)
			return true;
	}
	return false;
}

static uint64_t
hash_text(uint64_t h, const char *s)
{
	for (; *s != '\0'; s++)
		h = pgrab_mix64(h ^ (unsigned char)*s);
	return pgrab_mix64(h ^ 256); /* an end no byte can be: "ab" "c" is not "a" "bc" */
}

/* Nodes with equal labels have equal groups. */
static uint64_t
group_of(const struct labels *l, const struct pgrab_node *n)
{
	uint64_t h = 0;

	for (size_t i = 0; i < n->n_labels; i++) {
		if (counts(l, n->labels[i].key))
			h = hash_text(hash_text(h, n->labels[i].key), n->labels[i].value);
	}
	return h;
}

/*
 * Within the group, a shard whose plain owner is a member is read by it; the others are dealt out in turn.
 * Members are the nodes with in_group set, `rank` is one of them, as number `turn` of `members`.
 */
static void
share_out(const struct pgrab_cluster *c, const bool *in_group, size_t members, size_t turn, size_t rank,
    struct pgrab_shard_set *out)
{
	size_t dealt = 0;

	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		size_t owner = plain_owner(c, s);
		bool mine = in_group[owner] ? owner == rank : dealt % members == turn;

		dealt += !in_group[owner];
		if (mine)
			pgrab_shard_add(out, s);
	}
}

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	const struct labels *l = self;
	size_t members = 0, turn = 0;
	uint64_t group;
	bool *in_group;

	if (rank >= c->n_nodes)
		return;
	in_group = calloc(c->n_nodes, sizeof *in_group);
	if (in_group == NULL)
		abort(); /* as the node does: its peers recover its tasks */
	group = group_of(l, &c->nodes[rank]);
	for (size_t i = 0; i < c->n_nodes; i++) {
		in_group[i] = group_of(l, &c->nodes[i]) == group;
		if (i == rank)
			turn = members;
		members += in_group[i];
	}
	share_out(c, in_group, members, turn, rank, out);
	free(in_group);
}

static bool
accept_task(void *self, const struct pgrab_cluster *c, const struct pgrab_candidate *t)
{
	const struct labels *l = self;

	if (c->self >= c->n_nodes)
		return false;
	if (t->has_require || plain_owner(c, t->shard) == c->self)
		return true;
	return t->overdue_us >= l->rescue_us && c->nodes[c->self].in_hand < c->nodes[c->self].slots;
}

static bool
read_keys(struct labels *l, char *list, char *err, size_t err_size)
{
	char *rest = NULL;

	for (char *k = strtok_r(list, ",", &rest); k != NULL; k = strtok_r(NULL, ",", &rest)) {
		if (l->n_keys == KEYS_MAX) {
			snprintf(err, err_size, "keys: more than %d labels", KEYS_MAX);
			return false;
		}
		l->key[l->n_keys++] = k;
	}
	if (l->n_keys == 0)
		snprintf(err, err_size,
		    "keys: no label named; write keys=zone,disk or leave it out for all labels");
	return l->n_keys > 0;
}

static bool
read_rescue(struct labels *l, const char *value, char *err, size_t err_size)
{
	char *unit;
	long long n;
	int64_t scale;

	errno = 0;
	n = strtoll(value, &unit, 10);
	scale = strcmp(unit, "ms") == 0  ? 1000
		: strcmp(unit, "s") == 0 ? 1000000
		: strcmp(unit, "m") == 0 ? 60000000
					 : 0;
	if (unit == value || errno != 0 || scale == 0 || n < 0 || n > INT64_MAX / 60000000) {
		snprintf(
		    err, err_size, "rescue_after: \"%.64s\" is no duration; write 500ms, 2s or 1m", value);
		return false;
	}
	l->rescue_us = n * scale;
	return true;
}

static bool
read_options(struct labels *l, char *err, size_t err_size)
{
	char *rest = NULL;

	for (char *w = strtok_r(l->text, " \t", &rest); w != NULL; w = strtok_r(NULL, " \t", &rest)) {
		if (strncmp(w, "keys=", 5) == 0) {
			if (!read_keys(l, w + 5, err, err_size))
				return false;
		} else if (strncmp(w, "rescue_after=", 13) == 0) {
			if (!read_rescue(l, w + 13, err, err_size))
				return false;
		} else {
			snprintf(err, err_size,
			    "\"%.64s\" is unknown; there are keys=... and rescue_after=...", w);
			return false;
		}
	}
	return true;
}

static void
close_labels(void *self)
{
	struct labels *l = self;

	free(l->text);
	free(l);
}

static void *
open_labels(const char *options, char *err, size_t err_size)
{
	struct labels *l = calloc(1, sizeof *l);
	char *text = strdup(options);

	if (l == NULL || text == NULL)
		abort();
	l->text = text;
	l->rescue_us = RESCUE_US;
	if (read_options(l, err, err_size))
		return l;
	close_labels(l);
	return NULL;
}

const struct pgrab_strategy strategy_labels = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "labels",
    .summary = "what requires labels goes straight to a node that has them, the rest by id_hash",
    .open = open_labels,
    .close = close_labels,
    .shards = shards,
    .overlapping = true,
    .accept = accept_task,
};

#ifdef PGRAB_STRATEGY_SO
const struct pgrab_strategy *pgrab_strategy_v1(void);

const struct pgrab_strategy *
pgrab_strategy_v1(void)
{
	return &strategy_labels;
}
#endif
