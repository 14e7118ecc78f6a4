#include "db/store_live.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "db/sql.h"

struct keys {
	struct pgarray incarnation, id, version;
};

static void
add_key(struct keys *k, const struct live_key *key)
{
	pgarray_int(&k->incarnation, key->incarnation);
	pgarray_int(&k->id, key->id);
	pgarray_int(&k->version, key->version);
}

static void
keys_fini(struct keys *k)
{
	pgarray_fini(&k->incarnation);
	pgarray_fini(&k->id);
	pgarray_fini(&k->version);
}

static void
add_ago(struct pgarray *a, int64_t us)
{
	if (us < 0)
		pgarray_null(a);
	else
		pgarray_int(a, us);
}

static void
add_text(struct pgarray *a, const char *text)
{
	if (*text == '\0')
		pgarray_null(a);
	else
		pgarray_text(a, text);
}

static enum rc
tell(struct db *db, const struct live_note *notes, size_t n, struct err *err)
{
	AUTO(keys_fini) struct keys k = {0};
	AUTO_ARRAY struct pgarray percent = {0}, text = {0}, at = {0}, stopping = {0}, waits = {0};

	for (size_t i = 0; i < n; i++) {
		char number[32];

		add_key(&k, &notes[i].key);
		snprintf(number, sizeof number, "%.2f", notes[i].progress.percent);
		add_text(&percent, notes[i].progress.percent < 0 ? "" : number);
		add_text(&text, notes[i].progress.text);
		add_ago(&at, notes[i].progress_ago_us);
		add_ago(&stopping, notes[i].stopping_ago_us);
		add_text(&waits, notes[i].waits_for);
	}
	const char *params[] = {pgarray_str(&k.incarnation), pgarray_str(&k.id), pgarray_str(&k.version),
	    pgarray_str(&percent), pgarray_str(&text), pgarray_str(&at), pgarray_str(&stopping),
	    pgarray_str(&waits)};

	return db_query(db, sql_text("live_tell"), 8, params, NULL, err);
}

static enum rc
take_back(struct db *db, const struct live_key *ended, size_t n, struct err *err)
{
	AUTO(keys_fini) struct keys k = {0};

	for (size_t i = 0; i < n; i++)
		add_key(&k, &ended[i]);
	const char *params[] = {pgarray_str(&k.incarnation), pgarray_str(&k.id), pgarray_str(&k.version)};

	return db_query(db, sql_text("live_ended"), 3, params, NULL, err);
}

enum rc
store_live_tell(struct db *db, const struct live_note *notes, size_t n_notes, const struct live_key *ended,
    size_t n_ended, struct err *err)
{
	enum rc rc = n_notes > 0 ? tell(db, notes, n_notes, err) : RC_OK;

	return rc == RC_OK && n_ended > 0 ? take_back(db, ended, n_ended, err) : rc;
}

enum rc
store_live_asked(
    struct db *db, int64_t incarnation, struct live_key *out, size_t max, size_t *n_out, struct err *err)
{
	const char *params[] = {NUMBER(incarnation), NUMBER((int64_t)max)};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("live_asked"), 2, params, &res, err);

	*n_out = rc == RC_OK ? (size_t)PQntuples(res) : 0;
	for (size_t i = 0; i < *n_out; i++)
		out[i] = (struct live_key){incarnation, db_int64(res, (int)i, 0), db_int64(res, (int)i, 1)};
	return rc;
}

enum rc
store_live_answer(struct db *db, const struct live_output *o, size_t n, struct err *err)
{
	AUTO(keys_fini) struct keys k = {0};
	AUTO_ARRAY struct pgarray text = {0}, total = {0}, unbroken = {0};

	for (size_t i = 0; i < n; i++) {
		if (o[i].text == NULL)
			continue;
		add_key(&k, &o[i].key);
		pgarray_text(&text, o[i].text);
		pgarray_int(&total, o[i].total);
		pgarray_int(&unbroken, (int64_t)o[i].unbroken);
	}
	const char *params[] = {pgarray_str(&k.incarnation), pgarray_str(&k.id), pgarray_str(&k.version),
	    pgarray_str(&text), pgarray_str(&total), pgarray_str(&unbroken)};

	return k.id.text.len == 0 ? RC_OK : db_query(db, sql_text("live_answer"), 6, params, NULL, err);
}

static enum step_state
state_of(const char *word)
{
	static const char *const words[] = {[STEP_RECORDED] = "recorded",
	    [STEP_NONE] = "none",
	    [STEP_FULL] = "full",
	    [STEP_BAD] = "bad",
	    [STEP_LOCKED] = "locked"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(words[i], word) == 0)
			return (enum step_state)i;
	}
	return STEP_LOST;
}

/* The recorded result takes the place of the one that was offered, unless it waits for a lock. */
static void
take_answer(struct step *s, const PGresult *res, int row)
{
	s->state = state_of(db_text(res, row, 1));
	if (s->state == STEP_LOCKED)
		return;
	free(s->result);
	s->result = PQgetisnull(res, row, 2) ? NULL : xstrdup(db_text(res, row, 2));
}

enum rc
store_steps(struct db *db, struct step *const *s, size_t n, struct err *err)
{
	AUTO(keys_fini) struct keys k = {0};
	AUTO_ARRAY struct pgarray name = {0}, result = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		add_key(&k, &(struct live_key){s[i]->incarnation, s[i]->id, s[i]->version});
		pgarray_text(&name, s[i]->name);
		pgarray_text(&result, s[i]->result);
		s[i]->state = STEP_LOST;
	}
	const char *params[] = {pgarray_str(&k.id), pgarray_str(&k.version), pgarray_str(&k.incarnation),
	    pgarray_str(&name), pgarray_str(&result)};

	rc = db_query(db, sql_text("steps_record"), 5, params, &res, err);
	for (int row = 0; rc == RC_OK && row < PQntuples(res); row++) {
		int64_t at = db_int64(res, row, 0);

		if (at >= 1 && at <= (int64_t)n)
			take_answer(s[at - 1], res, row);
	}
	return rc;
}
