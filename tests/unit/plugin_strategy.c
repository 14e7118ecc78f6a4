/*
 * A strategy of a third party, and by its macros what can be wrong with one.  test_strategy_host.c loads the
 * variants.
 */
#include <pgrab/strategy.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TOY_ABI
#define TOY_ABI PGRAB_STRATEGY_ABI
#endif
#ifndef TOY_ENTRY
#define TOY_ENTRY pgrab_strategy_v1
#endif
#ifndef TOY_NAME
#define TOY_NAME "toy"
#endif
#ifndef TOY_ANSWER
#define TOY_ANSWER &toy
#endif
#ifndef TOY_SHARDS
#define TOY_SHARDS toy_shards
#endif

/* The one option: how many shards to claim, which may be more than there are. */
static void *
toy_open(const char *options, char *err, size_t err_size)
{
	uint32_t *n = malloc(sizeof *n);

	if (n == NULL)
		return NULL;
	*n = (uint32_t)strtoul(options, NULL, 10);
	if (*n > 0)
		return n;
	free(n);
	snprintf(err, err_size, "how many shards? \"%s\" is no number", options);
	return NULL;
}

static void
toy_close(void *self)
{
	free(self);
}

static __attribute__((unused)) void
toy_shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	uint64_t *word = out->word;

	(void)c;
	(void)rank;
	for (uint32_t s = 0; s < *(uint32_t *)self; s++)
		word[s / 64] |= UINT64_C(1)
				<< (s % 64); /* as pgrab_shard_add does, with numbers that do not exist */
}

/* Nonsense in both directions. */
static int64_t
toy_quota(void *self, const struct pgrab_cluster *c, int64_t room)
{
	(void)self;
	(void)c;
	return room == 10 ? -7 : room == 20 ? 12 : INT64_MAX;
}

static bool
toy_accept(void *self, const struct pgrab_cluster *c, const struct pgrab_candidate *t)
{
	(void)self;
	(void)c;
	return t->id % 2 == 0;
}

/* More than fits, and a byte that begins no character. */
static int64_t
toy_fitness(void *self, const struct pgrab_cluster *c, char *why, size_t why_size)
{
	(void)self;
	(void)c;
	snprintf(why, why_size, "\xff");
	for (size_t n = 1; n + 1 < why_size; n += 2)
		snprintf(why + n, why_size - n, "é");
	return 0;
}

static __attribute__((unused)) const struct pgrab_strategy toy = {
    .abi = TOY_ABI,
    .name = TOY_NAME,
    .summary = "a toy",
    .open = toy_open,
    .close = toy_close,
    .shards = TOY_SHARDS,
    .quota = toy_quota,
    .accept = toy_accept,
    .fitness = toy_fitness,
};

const struct pgrab_strategy *TOY_ENTRY(void);

const struct pgrab_strategy *
TOY_ENTRY(void)
{
	return TOY_ANSWER;
}
