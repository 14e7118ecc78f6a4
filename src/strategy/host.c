/*
 * The strategy host: finds a strategy by name or file and calls it.
 *
 * A strategy is somebody else's code in our process: it cannot be fenced off, but mistakes that are easy to
 * make are caught here.  Its ABI number is checked before anything else.  It writes its shards into a set
 * that has room to spare, so that a shard number too big hits nothing of ours.  Quotas are cut to what there
 * is room for.  Every call is timed; a slow one is logged, and again whenever it has become twice as slow.
 */
#include "strategy/host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/outbuf.h"

#define SLOW_US    (20 * US_PER_MS)
#define STRAY_BITS 65536 /* shard numbers up to here land in a padded_set */

struct strategy {
	const struct pgrab_strategy *s; /* static data here or in the file */
	void *handle;                   /* of dlopen; NULL for a built-in */
	void *self;                     /* of s->open */
	int64_t said_us;                /* the slowest call that was logged */
};

struct padded_set {
	struct pgrab_shard_set set;
	uint64_t spare[STRAY_BITS / 64 - PGRAB_SHARD_SET_WORDS];
};

static bool
is_path(const char *name)
{
	size_t n = strlen(name);

	return strchr(name, '/') != NULL || (n > 3 && strcmp(name + n - 3, ".so") == 0);
}

static enum rc
find_builtin(const char *name, const struct pgrab_strategy **out, struct err *err)
{
	AUTO_BUF struct buf names = {0};

	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		if (strcmp(strategy_builtin[i]->name, name) == 0) {
			*out = strategy_builtin[i];
			return RC_OK;
		}
		buf_addf(&names, "%s%s", i == 0 ? "" : ", ", strategy_builtin[i]->name);
	}
	return err_set(err, RC_BAD,
	    "there is no strategy \"%.64s\"; choose one of %s, or give the path of a .so file", name,
	    buf_str(&names));
}

/* Under another ABI number the fields mean something else. */
static enum rc
check(const struct pgrab_strategy *s, struct err *err)
{
	if (s == NULL)
		return err_set(err, RC_BAD, "%s() returned NULL", PGRAB_STRATEGY_ENTRY);
	if (s->abi != PGRAB_STRATEGY_ABI)
		return err_set(err, RC_BAD,
		    "it was built for strategy ABI %u, this pgrab has ABI %u: rebuild it against this "
		    "version's pgrab/strategy.h",
		    (unsigned)s->abi, (unsigned)PGRAB_STRATEGY_ABI);
	if (s->name == NULL || s->name[0] == '\0')
		return err_set(err, RC_BAD, "its strategy has no name");
	if (s->shards == NULL)
		return err_set(err, RC_BAD, "its strategy \"%.64s\" has no shards()", s->name);
	return RC_OK;
}

static enum rc
load(struct strategy *st, const char *path, struct err *err)
{
	/* Without a slash dlopen would look in the system's library folders; the
	 * working directory is meant. */
	AUTO_FREE char *file = strchr(path, '/') == NULL ? xasprintf("./%s", path) : xstrdup(path);
	pgrab_strategy_entry_fn entry;
	enum rc rc = RC_BAD;
	void *symbol;

	st->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (st->handle == NULL) {
		rc = err_set(err, RC_BAD, "%s", dlerror());
		goto out;
	}
	symbol = dlsym(st->handle, PGRAB_STRATEGY_ENTRY);
	if (symbol == NULL) {
		rc = err_set(err, RC_BAD, "it does not export the function %s, so it is not a pgrab strategy",
		    PGRAB_STRATEGY_ENTRY);
		goto out;
	}
	memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from void * to a function */
	st->s = entry();
	rc = check(st->s, err);
out:
	if (rc != RC_OK)
		err_prefix(err, "could not load the strategy %s", path);
	return rc;
}

static enum rc
start(struct strategy *st, const char *options, struct err *err)
{
	char why[256] = "";

	if (st->s->open == NULL) {
		if (options[strspn(options, " \t")] != '\0')
			return err_set(err, RC_BAD,
			    "the strategy %s takes no options, but strategy_options is \"%.128s\": remove it",
			    st->s->name, options);
		return RC_OK;
	}
	st->self = st->s->open(options, why, sizeof why);
	why[sizeof why - 1] = '\0';
	if (st->self == NULL)
		return err_set(err, RC_BAD, "the strategy %s refuses its strategy_options \"%.128s\": %s",
		    st->s->name, options, why[0] == '\0' ? "it does not say why" : why);
	return RC_OK;
}

static bool
names_strays(const struct padded_set *p)
{
	for (size_t i = 0; i < sizeof p->spare / sizeof *p->spare; i++) {
		if (p->spare[i] != 0)
			return true;
	}
	return false;
}

/* A trial before it is trusted with a cluster: a strategy that names shards that do not exist is refused. */
static enum rc
try_out(const struct strategy *st, struct err *err)
{
	static const struct pgrab_node nodes[] = {
	    {.id = 1, .name = "a", .weight = 1, .slots = 1, .fitness = 100},
	    {.id = 2, .name = "b", .weight = 1, .slots = 1, .fitness = 100}};
	const struct pgrab_cluster c = {
	    .size = sizeof c, .shards = PGRAB_SHARDS, .n_nodes = 2, .nodes = nodes};
	struct padded_set padded = {0};

	st->s->shards(st->self, &c, 0, &padded.set);
	if (names_strays(&padded))
		return err_set(err, RC_BAD,
		    "the strategy %s names shards that do not exist; their numbers go from 0 to %d",
		    st->s->name, PGRAB_SHARDS - 1);
	return RC_OK;
}

enum rc
strategy_open(const char *name, const char *options, struct strategy **out, struct err *err)
{
	struct strategy *st = xcalloc(1, sizeof *st);
	enum rc rc;

	*out = NULL;
	rc = is_path(name) ? load(st, name, err) : find_builtin(name, &st->s, err);
	if (rc == RC_OK)
		rc = start(st, options == NULL ? "" : options, err);
	if (rc == RC_OK)
		rc = try_out(st, err);
	if (rc == RC_OK)
		*out = st;
	else
		strategy_close(&st);
	return rc;
}

void
strategy_close(struct strategy **s)
{
	struct strategy *st = *s;

	if (st == NULL)
		return;
	if (st->self != NULL && st->s->close != NULL)
		st->s->close(st->self);
	if (st->handle != NULL)
		dlclose(st->handle);
	free(st);
	*s = NULL;
}

bool
strategy_overlapping(const struct strategy *s)
{
	return s->s->overlapping;
}

/* Pure calls cost microseconds; one that sleeps or computes for long holds up the node's looks. */
static void
note_time(struct strategy *st, int64_t began_us, const char *call)
{
	int64_t took = clock_mono_us() - began_us;

	if (took >= SLOW_US && took >= 2 * st->said_us) {
		st->said_us = took;
		log_warn(
		    "slow_strategy", "strategy=%s call=%s took_us=%lld", st->s->name, call, (long long)took);
	}
}

/* Keeps the shards that exist. */
static void
copy_shards(struct pgrab_shard_set *out, const struct pgrab_shard_set *in, uint32_t shards)
{
	for (uint32_t w = 0; w < PGRAB_SHARD_SET_WORDS; w++) {
		uint32_t first = w * 64;

		if (first + 64 <= shards)
			out->word[w] = in->word[w];
		else if (first < shards)
			out->word[w] = in->word[w] & ((UINT64_C(1) << (shards - first)) - 1);
	}
}

void
strategy_shards(struct strategy *s, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	struct padded_set padded = {0};
	int64_t began = clock_mono_us();

	memset(out, 0, sizeof *out);
	if (rank >= c->n_nodes)
		return;
	s->s->shards(s->self, c, rank, &padded.set);
	note_time(s, began, "shards");
	if (names_strays(&padded))
		log_error("strategy_answer",
		    "strategy=%s hint=\"it names shards that do not exist; these are ignored\"", s->s->name);
	copy_shards(out, &padded.set, c->shards);
}

int64_t
strategy_quota(struct strategy *s, const struct pgrab_cluster *c, int64_t room)
{
	int64_t began, quota;

	if (room <= 0)
		return 0;
	if (s->s->quota == NULL)
		return room;
	began = clock_mono_us();
	quota = s->s->quota(s->self, c, room);
	note_time(s, began, "quota");
	return quota < 0 ? 0 : quota > room ? room : quota;
}

bool
strategy_accept(struct strategy *s, const struct pgrab_cluster *c, const struct pgrab_candidate *t)
{
	int64_t began;
	bool yes;

	if (s->s->accept == NULL)
		return true;
	began = clock_mono_us();
	yes = s->s->accept(s->self, c, t);
	note_time(s, began, "accept");
	return yes;
}

bool
strategy_has_fitness(const struct strategy *s)
{
	return s->s->fitness != NULL;
}

int64_t
strategy_fitness(struct strategy *s, const struct pgrab_cluster *c, char *why, size_t why_size)
{
	int64_t began = clock_mono_us(), fitness;
	char *text;

	why[0] = '\0';
	fitness = s->s->fitness(s->self, c, why, why_size);
	note_time(s, began, "fitness");
	why[why_size - 1] = '\0';
	text = text_printable(why, strlen(why), why_size - 1); /* it goes into the database */
	snprintf(why, why_size, "%s", text);
	free(text);
	return fitness < 1 ? 1 : fitness > PGRAB_FITNESS_MAX ? PGRAB_FITNESS_MAX : fitness;
}

bool
strategy_may_steal(struct strategy *s, const struct pgrab_cluster *c)
{
	return s->s->may_steal == NULL || s->s->may_steal(s->self, c);
}
