/* What a loader reads: lanes, and due tasks in them; misfires.  See store_task.h. */
#include "db/store_task.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "db/sql.h"

#define TURNS_KEYS_MAX 256 /* that one look comes by, of a lane */

/* "17 523 900" to numbers. */
static void
parse_able(struct lane_row *row, const char *text)
{
	row->able = xcalloc(strlen(text) / 2 + 1, sizeof *row->able);
	while (*text != '\0') {
		char *end;

		row->able[row->n_able++] = strtoll(text, &end, 10);
		text = *end == ' ' ? end + 1 : end;
	}
}

static void
same_able(struct lane_row *row, const struct lane_row *as)
{
	row->n_able = as->n_able;
	row->able = xcalloc(as->n_able + 1, sizeof *row->able);
	if (as->n_able > 0)
		memcpy(row->able, as->able, as->n_able * sizeof *row->able);
}

#define ABILITY_PARAMS 8

struct ability_text {
	char band[NUMBER_MAX], workers[NUMBER_MAX], memory[NUMBER_MAX];
	const char *param[ABILITY_PARAMS];
};

static const char *const *
ability_params(const struct ability *able, struct ability_text *t)
{
	t->param[0] = able->kinds;
	t->param[1] = able->labels;
	t->param[2] = able->owners;
	t->param[3] = able->bounds;
	t->param[4] = db_number(t->band, able->from_band);
	t->param[5] = able->room;
	t->param[6] = db_number(t->workers, able->workers);
	t->param[7] = able->memory == 0 ? NULL : db_number(t->memory, able->memory);
	return t->param;
}

enum rc
store_lanes(struct db *db, const struct ability *able, struct lane_row **out, size_t *n_out, struct err *err)
{
	struct ability_text text;
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("lanes"), ABILITY_PARAMS, ability_params(able, &text), &res, err);

	*n_out = rc == RC_OK ? (size_t)PQntuples(res) : 0;
	*out = xcalloc(*n_out + 1, sizeof **out);
	for (size_t i = 0; i < *n_out; i++) {
		(*out)[i].lane = db_int64(res, (int)i, 0);
		(*out)[i].key = xstrdup(db_text(res, (int)i, 1));
		(*out)[i].band = (int)db_int64(res, (int)i, 2);
		(*out)[i].kind = xstrdup(db_text(res, (int)i, 3));
		if (PQgetisnull(res, (int)i, 4) && i > 0)
			same_able(&(*out)[i], &(*out)[i - 1]);
		else
			parse_able(&(*out)[i], db_text(res, (int)i, 4));
		(*out)[i].shared = db_bool(res, (int)i, 5);
		(*out)[i].late_us = db_int64(res, (int)i, 6);
		(*out)[i].need.slots = db_int64(res, (int)i, 7);
		(*out)[i].need.memory = db_int64(res, (int)i, 8);
	}
	return rc;
}

enum rc
store_lanes_print(struct db *db, const struct ability *able, char **out, struct err *err)
{
	struct ability_text text;
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc =
	    db_query(db, sql_text("lanes_print"), ABILITY_PARAMS, ability_params(able, &text), &res, err);

	*out = rc == RC_OK ? xstrdup(db_text(res, 0, 0)) : NULL;
	return rc;
}

static void
parse_soon(struct pgrab_shard_set *soon, const char *text)
{
	while (*text != '\0') {
		char *end;

		pgrab_shard_add(soon, (unsigned)strtoul(text, &end, 10));
		text = *end == ' ' ? end + 1 : end;
	}
}

enum rc
store_survey(struct db *db, const char *const *keys, size_t n, int64_t ahead_us, struct pgrab_shard_set *soon,
    size_t *read_out, struct err *err)
{
	AUTO_ARRAY struct pgarray lanes = {0};
	AUTO_CLEAR PGresult *res = NULL;
	int64_t steps = 0;
	enum rc rc;

	memset(soon, 0, n * sizeof *soon);
	for (size_t i = 0; i < n; i++)
		pgarray_text(&lanes, keys[i]);
	const char *params[] = {pgarray_str(&lanes), NUMBER(ahead_us), NUMBER(SURVEY_STEPS)};

	rc = db_query(db, sql_text("survey"), 3, params, &res, err);
	*read_out = rc == RC_OK ? (size_t)PQntuples(res) : 0;
	for (size_t i = 0; i < *read_out; i++) {
		steps += db_int64(res, (int)i, 1);
		parse_soon(&soon[i], db_text(res, (int)i, 2));
	}
	if (steps >= SURVEY_STEPS)
		--*read_out; /* the last one may go on */
	return rc;
}

void
lane_rows_free(struct lane_row **rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((*rows)[i].key);
		free((*rows)[i].able);
		free((*rows)[i].kind);
	}
	free(*rows);
	*rows = NULL;
}

void
look_reset(struct look_query *q)
{
	q->n_lanes = 0;
}

struct look_lane *
look_add(struct look_query *q, const struct lane_row *lane, const int64_t *mark)
{
	if (q->n_lanes == q->room) {
		q->room = q->room == 0 ? 4 : 2 * q->room;
		q->lane = xrealloc(q->lane, q->room * sizeof *q->lane);
	}
	struct look_lane *l = &q->lane[q->n_lanes++];

	l->lane = lane->lane;
	l->key = lane->key;
	l->band = lane->band;
	l->mark = mark;
	l->n_shards = 0;
	l->wanted = l->slice = 0;
	l->due_only = l->turns = l->wrapped = false;
	l->ahead_us = 0;
	l->late_us = lane->late_us;
	l->after[0] = '\0';
	l->found = l->keys = 0;
	return l;
}

void
look_ahead(struct look_query *q, size_t from, int64_t ahead_us, int64_t soon_us)
{
	for (size_t i = from; i < q->n_lanes; i++) {
		struct look_lane *l = &q->lane[i];
		int64_t late_us = l->late_us > 0 ? soon_us - l->late_us : ahead_us;

		l->ahead_us = late_us < ahead_us ? late_us : ahead_us;
		if (l->due_only && l->ahead_us > 0)
			l->ahead_us = 0;
	}
}

const struct look_lane *
look_lane_of(const struct look_query *q, int64_t lane, size_t *at)
{
	size_t passed = 0;

	while (passed < q->n_lanes && q->lane[*at % q->n_lanes].lane != lane) {
		++*at;
		passed++;
	}
	assert(passed < q->n_lanes); /* the look asked for no other */
	return &q->lane[*at % q->n_lanes];
}

void
look_fini(struct look_query *q)
{
	free(q->lane);
	q->lane = NULL;
	q->n_lanes = q->room = 0;
}

static void
read_candidate(const PGresult *res, int i, const struct look_lane *l, struct candidate *c)
{
	c->id = db_int64(res, i, 0);
	c->version = db_int64(res, i, 1);
	c->shard = (uint16_t)db_int64(res, i, 2);
	c->lane = l->lane;
	c->band = l->band;
	c->priority = (int16_t)db_int64(res, i, 4);
	c->late_us = db_int64(res, i, 5);
	c->due_us = db_int64(res, i, 6);
	c->has_require = db_bool(res, i, 7);
	c->misfired = db_bool(res, i, 8);
}

static void
read_turn(const PGresult *res, int i, struct look_lane *l)
{
	l->keys += l->keys == 0 || strcmp(l->after, db_text(res, i, 9)) != 0;
	snprintf(l->after, sizeof l->after, "%s", db_text(res, i, 9));
	l->wrapped = l->wrapped || db_bool(res, i, 10);
}

/* They come in the order of the lanes that were asked for.  Where keys take turns, each row says which one it
 * is of, and may be of none of its tasks.  Appends them to *out. */
static void
read_candidates(const PGresult *res, struct look_query *q, bool turns, struct candidate **out, size_t *n_out)
{
	struct look_lane *l = q->lane;

	*out = xrealloc(*out, (*n_out + (size_t)PQntuples(res) + 1) * sizeof **out);
	for (int i = 0; i < PQntuples(res); i++) {
		int64_t lane = db_int64(res, i, 3);

		while (l->lane != lane || l->turns != turns)
			l++;
		if (turns)
			read_turn(res, i, l);
		if (PQgetisnull(res, i, 0))
			continue;
		l->found++;
		(*out)[*n_out] = (struct candidate){0};
		read_candidate(res, i, l, &(*out)[(*n_out)++]);
	}
}

/* The lanes of a look as arrays: where the shards of each begin and end, how many rows are wanted, in all
 * and of a shard; all shards, and the mark of each.  Of those that take turns: the first shard of each, how
 * many keys, its shards as bits, and the key behind which it goes on. */
struct look_arrays {
	struct pgarray lanes, keys, first, last, ahead, wanted, slice, shards, marks;
};

static void
fill_shards(struct look_arrays *a, const struct look_lane *l, bool marks, int64_t *n)
{
	pgarray_int(&a->first, *n + 1);
	for (size_t k = 0; k < l->n_shards; k++, ++*n) {
		int64_t mark = marks ? l->mark[l->shard[k]] : LOOK_NO_MARK;

		pgarray_int(&a->shards, l->shard[k]);
		if (mark == LOOK_NO_MARK)
			pgarray_null(&a->marks);
		else
			pgarray_int(&a->marks, mark);
	}
	pgarray_int(&a->last, *n);
}

static void
fill_turns(struct look_arrays *a, const struct look_lane *l)
{
	struct pgrab_shard_set own = {0};
	char bits[2 + PGRAB_SHARDS / 4 + 1] = "\\x";

	for (size_t k = 0; k < l->n_shards; k++)
		pgrab_shard_add(&own, l->shard[k]);
	for (size_t i = 0; i < PGRAB_SHARDS / 8; i++)
		snprintf(bits + 2 + 2 * i, 3, "%02x", (unsigned)(own.word[i / 8] >> i % 8 * 8 & 0xff));
	pgarray_int(&a->first, l->shard[0]);
	pgarray_int(&a->last, TURNS_KEYS_MAX);
	pgarray_text(&a->shards, bits);
	pgarray_text(&a->marks, l->after);
}

/* Returns how many lanes. */
static size_t
look_arrays_fill(struct look_arrays *a, const struct look_query *q, bool turns)
{
	int64_t n = 0;
	size_t count = 0;

	for (size_t i = 0; i < q->n_lanes; i++) {
		const struct look_lane *l = &q->lane[i];

		if (l->turns != turns)
			continue;
		count++;
		pgarray_int(&a->lanes, l->lane);
		pgarray_text(&a->keys, l->key);
		if (turns)
			fill_turns(a, l);
		else
			fill_shards(a, l, q->marks, &n);
		pgarray_int(&a->ahead, l->ahead_us);
		pgarray_int(&a->wanted, l->wanted);
		pgarray_int(&a->slice, l->slice);
	}
	return count;
}

static void
look_arrays_fini(struct look_arrays *a)
{
	pgarray_fini(&a->lanes);
	pgarray_fini(&a->keys);
	pgarray_fini(&a->first);
	pgarray_fini(&a->last);
	pgarray_fini(&a->ahead);
	pgarray_fini(&a->wanted);
	pgarray_fini(&a->slice);
	pgarray_fini(&a->shards);
	pgarray_fini(&a->marks);
}

static const char *
look_statement(bool turns, bool only_free)
{
	if (turns)
		return only_free ? "look_turns_free" : "look_turns";
	return only_free ? "look_free" : "look";
}

/* The lanes that take turns, or the others. */
static enum rc
look_part(
    struct db *db, struct look_query *q, bool turns, struct candidate **out, size_t *n_out, struct err *err)
{
	const char *statement = look_statement(turns, q->free);
	struct look_arrays a = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = RC_OK;

	if (look_arrays_fill(&a, q, turns) > 0) {
		const char *params[] = {pgarray_str(&a.lanes), pgarray_str(&a.first), pgarray_str(&a.last),
		    pgarray_str(&a.shards), pgarray_sparse(&a.marks), pgarray_str(&a.ahead), q->able.kinds,
		    q->able.labels, q->once ? "t" : "f", pgarray_str(&a.wanted), q->able.owners,
		    q->able.bounds, pgarray_str(&a.slice), pgarray_str(&a.keys), q->unlimited ? "f" : "t"};

		rc = db_query(db, sql_text(statement), 15, params, &res, err);
		if (rc == RC_OK)
			read_candidates(res, q, turns, out, n_out);
	}
	look_arrays_fini(&a);
	return rc;
}

enum rc
store_look(struct db *db, struct look_query *q, struct candidate **out, size_t *n_out, struct err *err)
{
	enum rc rc;

	*out = NULL;
	*n_out = 0;
	rc = look_part(db, q, false, out, n_out, err);
	if (rc == RC_OK)
		rc = look_part(db, q, true, out, n_out, err);
	if (rc != RC_OK) {
		free(*out);
		*out = NULL;
		*n_out = 0;
	}
	return rc;
}

enum rc
store_misfire(struct db *db, const struct candidate *c, size_t n, int64_t within_us, int64_t *settled_out,
    struct err *err)
{
	AUTO_ARRAY struct pgarray ids = {0}, versions = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		pgarray_int(&ids, c[i].id);
		pgarray_int(&versions, c[i].version);
	}
	const char *params[] = {pgarray_str(&ids), pgarray_str(&versions)};

	db_within(db, within_us);
	rc = db_query(db, sql_text("misfire"), 2, params, &res, err);
	db_within(db, 0);
	*settled_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	return rc;
}
