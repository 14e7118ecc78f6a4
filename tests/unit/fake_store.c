/* See fake_store.h. */
#include "fake_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "db/fault.h"

struct fake_store fake;

static unsigned
below(unsigned n)
{
	fake.random = pgrab_mix64(fake.random);
	return (unsigned)(fake.random % n);
}

/* Whether it is done, and what is answered: in between is the work of the server, under the lock. */
struct call {
	enum fake_call what;
	enum fake_answer answer;
	char sqlstate[6];
};

static struct call
begin(enum fake_call what, bool writes)
{
	struct call c = {.what = what};

	if (fake.before != NULL)
		fake.before(what);
	PTHREAD_OK(pthread_mutex_lock(&fake.lock));
	fake.calls[what]++;
	c.answer = fake.next[what];
	memcpy(c.sqlstate, fake.sqlstate, sizeof c.sqlstate);
	fake.next[what] = ANSWER_TRUE;
	if (c.answer == ANSWER_TRUE && fake.down)
		c.answer = ANSWER_AGAIN;
	if (c.answer == ANSWER_TRUE && fake.trouble > 0 && below(1000) < fake.trouble)
		c.answer = !writes || below(2) == 0 ? ANSWER_AGAIN
			   : below(2) == 0          ? ANSWER_LOST_NOT_DONE
						    : ANSWER_LOST_DONE;
	return c;
}

static bool
is_done(const struct call *c)
{
	return c->answer == ANSWER_TRUE || c->answer == ANSWER_LOST_DONE;
}

static enum rc
end(const struct call *c, struct err *err)
{
	PTHREAD_OK(pthread_mutex_unlock(&fake.lock));
	if (fake.after != NULL)
		fake.after(c->what);
	err->sqlstate[0] = '\0';
	switch (c->answer) {
	case ANSWER_TRUE: return RC_OK;
	case ANSWER_AGAIN: return err_set(err, RC_AGAIN, "no connection");
	case ANSWER_REFUSED:
		(void)err_set(err, RC_BAD, "refused");
		memcpy(err->sqlstate, c->sqlstate, sizeof err->sqlstate);
		return fault_rc(c->sqlstate, true);
	case ANSWER_LOST_NOT_DONE:
	case ANSWER_LOST_DONE:
	case ANSWER__COUNT:
	default: return err_set(err, RC_UNKNOWN, "the answer was lost");
	}
}

/* The server refuses it itself. */
static enum rc
refuse(struct call *c, const char *sqlstate, struct err *err)
{
	snprintf(c->sqlstate, sizeof c->sqlstate, "%s", sqlstate);
	c->answer = ANSWER_REFUSED;
	return end(c, err);
}

void
fake_start(uint64_t seed)
{
	memset(&fake, 0, sizeof fake);
	lock_init(&fake.lock);
	fake.random = seed;
	fake.db_ahead_us = INT64_C(1790000000) * US_PER_S;
	fake.server = (struct server_mark){.system = 1, .timeline = "1"};
	fake.generation = 1;
	fake.life = 1;
	fake.kind = "test";
}

int64_t
fake_now_us(void)
{
	return clock_mono_us() + fake.db_ahead_us;
}

struct fake_task *
fake_add(int64_t due_us)
{
	struct fake_task *t = &fake.task[fake.n_tasks];

	assert(fake.n_tasks < FAKE_TASKS);
	*t = (struct fake_task){
	    .id = (int64_t)++fake.n_tasks, .version = 1, .due_us = due_us, .lane = FAKE_LANE};
	return t;
}

struct fake_task *
fake_task(int64_t id)
{
	assert(id >= 1 && (size_t)id <= fake.n_tasks);
	return &fake.task[id - 1];
}

struct fake_node *
fake_node(const char *name)
{
	for (size_t i = 0; i < fake.n_nodes; i++) {
		if (strcmp(fake.node[i].name, name) == 0)
			return &fake.node[i];
	}
	struct fake_node *n = &fake.node[fake.n_nodes++];

	*n = (struct fake_node){.id = (int64_t)fake.n_nodes,
	    .up = true,
	    .heartbeat_us = US_PER_S,
	    .dead_after_us = 10 * US_PER_S};
	snprintf(n->name, sizeof n->name, "%s", name);
	return n;
}

size_t
fake_count(enum fake_status status)
{
	size_t n = 0;

	for (size_t i = 0; i < fake.n_tasks; i++)
		n += fake.task[i].status == status;
	return n;
}

size_t
fake_ends_of(int64_t id, int64_t version)
{
	size_t n = 0;

	for (size_t i = 0; i < fake.n_history; i++)
		n += fake.history[i].id == id && fake.history[i].version == version;
	return n;
}

static bool
is_up(int64_t incarnation)
{
	for (size_t i = 0; i < fake.n_nodes; i++) {
		if (fake.node[i].incarnation == incarnation)
			return fake.node[i].up;
	}
	return false;
}

/* A write names (id, version, incarnation); a row that does not answer to it is not the caller's. */
static struct fake_task *
fenced(int64_t id, int64_t version, int64_t incarnation, enum fake_status status)
{
	struct fake_task *t = fake_task(id);

	return t->version == version && t->incarnation == incarnation && t->status == status ? t : NULL;
}

static void
free_task(struct fake_task *t, enum fake_status status)
{
	t->status = status;
	t->incarnation = 0;
	t->version++;
}

/* loaders */

static enum rc
lanes_print(struct db *db, const struct ability *able, char **out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, false);
	enum rc rc = end(&c, err);

	*out = rc == RC_OK ? xstrdup("one lane") : NULL; /* who can run it is seen in the cluster */
	return rc;
}

static struct lane_row
lane_row(int64_t lane, struct need need)
{
	struct lane_row row = {
	    .lane = lane, .key = xstrdup("\\x"), .band = FAKE_BAND, .kind = xstrdup("test"), .need = need};

	row.able = xcalloc(fake.n_nodes, sizeof(int64_t));
	for (size_t i = 0; i < fake.n_nodes; i++)
		row.able[row.n_able++] = fake.node[i].id;
	return row;
}

static enum rc
lanes(struct db *db, const struct ability *able, struct lane_row **out, size_t *n_out, struct err *err)
{
	struct call c = begin(FAKE_LANES, false);

	*out = NULL;
	*n_out = 0;
	if (is_done(&c)) {
		*n_out = fake.large.slots > 0 ? 2 : 1;
		*out = xcalloc(*n_out, sizeof **out);
		(*out)[0] = lane_row(FAKE_LANE, (struct need){.slots = 1});
		if (*n_out > 1)
			(*out)[1] = lane_row(FAKE_LARGE, fake.large);
	}
	return end(&c, err);
}

static int
by_due(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->due_us != y->due_us ? (x->due_us < y->due_us ? -1 : 1) : x->id < y->id ? -1 : 1;
}

/* By shard: how long a task must be overdue, INT64_MAX: it is not asked for.  Two loaders of a node never ask
 * for the same shard: held() could not tell their claims apart. */
static int64_t *
asked_for(const struct look_lane *l)
{
	int64_t *late_us = xcalloc(PGRAB_SHARDS, sizeof *late_us);

	for (size_t s = 0; s < PGRAB_SHARDS; s++)
		late_us[s] = INT64_MAX;
	for (size_t k = 0; k < l->n_shards; k++)
		late_us[l->shard[k]] = -l->ahead_us;
	return late_us;
}

/* Of one lane, in a shard each. */
static size_t
look_lane(const struct look_query *q, const struct look_lane *l, struct candidate *found)
{
	int64_t *asked = asked_for(l);
	size_t n = 0;

	for (size_t i = 0; i < fake.n_tasks; i++) {
		struct fake_task *t = &fake.task[i];
		int64_t overdue = fake_now_us() - t->due_us;
		uint16_t shard = (uint16_t)(t->id % PGRAB_SHARDS);

		if (t->lane != l->lane || overdue < asked[shard] || t->status != FAKE_SCHEDULED ||
		    (t->once && !q->once) || (t->locked && q->free))
			continue;
		found[n++] = (struct candidate){.id = t->id,
		    .version = t->version,
		    .late_us = overdue,
		    .lane = t->lane,
		    .band = FAKE_BAND,
		    .shard = shard,
		    .due_us = t->due_us,
		    .misfired = t->misfired};
	}
	free(asked);
	qsort(found, n, sizeof *found, by_due);
	return n < (size_t)l->wanted ? n : (size_t)l->wanted;
}

static enum rc
look(struct db *db, struct look_query *q, struct candidate **out, size_t *n_out, struct err *err)
{
	struct call c = begin(FAKE_LOOK, false);
	struct candidate *found = xcalloc(FAKE_TASKS, sizeof *found);
	size_t n = 0;

	for (size_t i = 0; is_done(&c) && i < q->n_lanes; i++)
		n += look_lane(q, &q->lane[i], found + n);
	if (n == 0) {
		free(found);
		found = NULL;
	}
	*out = found;
	*n_out = n;
	enum rc rc = end(&c, err);

	if (rc != RC_OK) {
		free(*out);
		*out = NULL;
		*n_out = 0;
	}
	return rc;
}

static enum rc
misfire(struct db *db, const struct candidate *cs, size_t n, int64_t within_us, int64_t *settled_out,
    struct err *err)
{
	struct call c = begin(FAKE_MISFIRE, true);

	*settled_out = 0;
	for (size_t i = 0; is_done(&c) && i < n; i++) {
		if (fake_task(cs[i].id)->poison == POISON_ALL)
			return refuse(&c, "22008", err);
	}
	for (size_t i = 0; is_done(&c) && i < n; i++) {
		struct fake_task *t = fake_task(cs[i].id);

		assert(i == 0 || cs[i - 1].id < cs[i].id);
		if (t->version == cs[i].version && t->misfired) {
			t->misfired = false;
			t->version++;
			t->due_us = fake_now_us();
			++*settled_out;
		}
	}
	return end(&c, err);
}

static void
fill_definition(struct run *r)
{
	r->started = true;
	r->task.attempt = 1;
	r->task.max_attempts = 3;
	r->task.timeout_us = 60 * US_PER_S;
	if (r->task.owner != NULL)
		return;
	r->task.owner = xstrdup("somebody");
	r->task.name = xstrdup("");
	r->task.command = xstrdup("");
}

static struct run *
run_of_task(const struct fake_task *t, const struct claim *who, struct run *chain)
{
	struct run *r = run_create(t->id, t->version, who->incarnation);

	r->due_us = t->due_us;
	r->band = FAKE_BAND;
	r->once = t->once;
	r->task.kind = xstrdup(fake.kind);
	r->hold = hold_ref(who->hold);
	if (t->status == FAKE_RUNNING)
		fill_definition(r);
	return run_chain(r, chain);
}

/* As claim.sql: of a kind that is to begin at once, due at the look, and harmless to start twice. */
static bool
begins(const struct claim *who, const struct fake_task *t)
{
	return strstr(who->at_once, fake.kind) != NULL && t->due_us <= who->due_us && !t->once;
}

static enum rc
claim(struct db *db, struct claim *who, const struct candidate *cs, size_t n, struct run **chain_out,
    size_t *won_out, struct err *err)
{
	struct call c = begin(FAKE_CLAIM, true);
	struct run *chain = NULL;
	size_t won = 0;

	who->contended = false;
	fake.claimed_due = fake.claimed_timed = 0;
	for (size_t i = 0; i < n; i++)
		++*(cs[i].late_us >= 0 ? &fake.claimed_due : &fake.claimed_timed);
	for (size_t i = 0; is_done(&c) && i < n; i++) {
		struct fake_task *t = fake_task(cs[i].id);

		assert(i == 0 || cs[i - 1].id < cs[i].id); /* the lock order */
		if (t->locked)
			who->contended = true;
		if (t->status != FAKE_SCHEDULED || t->version != cs[i].version || t->locked)
			continue;
		t->status = begins(who, t) ? FAKE_RUNNING : FAKE_CLAIMED;
		t->starts += t->status == FAKE_RUNNING;
		t->version++;
		t->incarnation = who->incarnation;
		t->held_us = fake_now_us();
		if (c.answer == ANSWER_TRUE)
			chain = run_of_task(t, who, chain);
		won++;
	}
	*chain_out = chain;
	*won_out = c.answer == ANSWER_TRUE ? won : 0;
	return end(&c, err);
}

static enum rc
held(struct db *db, const struct claim *who, const struct candidate *cs, size_t n, struct run **chain_out,
    size_t *won_out, struct err *err)
{
	struct call c = begin(FAKE_HELD, false);

	*chain_out = NULL;
	*won_out = 0;
	for (size_t i = 0; is_done(&c) && i < n; i++) {
		struct fake_task *t = fenced(cs[i].id, cs[i].version + 1, who->incarnation, FAKE_CLAIMED);

		if (t == NULL)
			t = fenced(cs[i].id, cs[i].version + 1, who->incarnation, FAKE_RUNNING);
		if (t != NULL) {
			*chain_out = run_of_task(t, who, *chain_out);
			++*won_out;
		}
	}
	return end(&c, err);
}

static enum rc
server_clock(struct db *db, int64_t *now_us_out, struct err *err)
{
	struct call c = begin(FAKE_CLOCK, false);

	*now_us_out = fake_now_us();
	return end(&c, err);
}

static enum rc
durable(struct db *db, bool async_ok, bool *out, struct err *why)
{
	struct call c = begin(FAKE_OTHER, false);

	*out = is_done(&c) && !fake.not_durable;
	return end(&c, why);
}

static enum rc
node_bell(struct db *db, int64_t node_id, int64_t incarnation, bool wanted, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	return end(&c, err);
}

static enum rc
unheard(struct db *db, const char *before, char **out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, false);
	enum rc rc = end(&c, err);

	*out = rc == RC_OK ? xstrdup("{}") : NULL;
	return rc;
}

static enum rc
node_shards(struct db *db, int64_t node_id, int64_t incarnation, const struct pgrab_shard_set *shards,
    bool overlapping, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	return end(&c, err);
}

/* starter */

static void
check_order(struct run *const *runs, size_t n)
{
	for (size_t i = 1; i < n; i++)
		assert(runs[i - 1]->id < runs[i]->id ||
		       (runs[i - 1]->id == runs[i]->id && runs[i - 1]->version < runs[i]->version));
}

static enum rc
start(struct db *db, const struct holder *who, struct run **runs, size_t n, struct err *err)
{
	struct call c = begin(FAKE_START, true);

	check_order(runs, n);
	for (size_t i = 0; i < n; i++) {
		struct fake_task *t = fenced(runs[i]->id, runs[i]->version, who->incarnation, FAKE_CLAIMED);

		runs[i]->place.locked = is_done(&c) && t != NULL && t->locked;
		if (!is_done(&c) || t == NULL || t->locked || t->due_us > fake_now_us() + LEAD_US)
			continue;
		t->status = FAKE_RUNNING;
		t->starts++;
		t->held_us = fake_now_us();
		if (c.answer == ANSWER_TRUE)
			fill_definition(runs[i]);
	}
	return end(&c, err);
}

static enum rc
start_once(struct db *db, int64_t incarnation, bool async_ok, struct run **runs, size_t n, bool *durable_out,
    struct err *why)
{
	const struct holder who = {.incarnation = incarnation, .contended = true};

	*durable_out = !fake.not_durable;
	return fake.not_durable ? err_set(why, RC_OK, "no promise") : start(db, &who, runs, n, why);
}

static enum rc
started(struct db *db, int64_t incarnation, struct run **runs, size_t n, struct err *err)
{
	struct call c = begin(FAKE_STARTED, false);

	for (size_t i = 0; is_done(&c) && i < n; i++) {
		if (fenced(runs[i]->id, runs[i]->version, incarnation, FAKE_RUNNING) != NULL)
			fill_definition(runs[i]);
	}
	return end(&c, err);
}

static enum rc
secrets(struct db *db, struct run **runs, size_t n, struct err *err)
{
	return RC_OK;
}

static enum rc
release(struct db *db, const struct holder *who, struct run **runs, size_t n, int64_t *released_out,
    struct err *err)
{
	struct call c = begin(FAKE_RELEASE, true);

	check_order(runs, n);
	*released_out = 0;
	for (size_t i = 0; i < n; i++) {
		struct fake_task *t = fenced(runs[i]->id, runs[i]->version, who->incarnation, FAKE_CLAIMED);

		runs[i]->place.locked = is_done(&c) && t != NULL && t->locked;
		if (is_done(&c) && t != NULL && !t->locked) {
			free_task(t, FAKE_SCHEDULED);
			++*released_out;
		}
	}
	return end(&c, err);
}

/* finisher */

static void
record(struct fake_task *t, const struct finish *f)
{
	assert(fake.n_history < FAKE_HISTORY);
	fake.history[fake.n_history++] = (struct fake_end){.id = f->id,
	    .version = f->version,
	    .incarnation = f->incarnation,
	    .outcome = f->outcome,
	    .has_text = f->output != NULL};
	t->ends++;
	t->lost += f->outcome == OUTCOME_LOST;
}

/* What the server says of the poison of these; NULL: nothing. */
static const char *
poisoned(struct finish *const *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fake_task *t = fenced(f[i]->id, f[i]->version, f[i]->incarnation, FAKE_RUNNING);

		if (t == NULL || f[i]->applied || f[i]->locked || f[i]->refused)
			continue;
		if (t->poison == POISON_TEXT && f[i]->output != NULL)
			return "22P05";
		if (t->poison > POISON_TEXT)
			return "P0001";
	}
	return NULL;
}

static int64_t
takes_us(struct finish *const *f, size_t n)
{
	int64_t us = 0;

	for (size_t i = 0; i < n; i++) {
		const struct fake_task *t = fenced(f[i]->id, f[i]->version, f[i]->incarnation, FAKE_RUNNING);

		us += t == NULL || f[i]->applied ? 0 : t->mute_us;
	}
	return us + (fake.mute ? INT64_MAX / 2 : 0);
}

static enum rc
finish(struct db *db, const struct recorder *who, struct finish *const *f, size_t n, struct err *err)
{
	struct call c = begin(FAKE_FINISH, true);
	const char *sqlstate = !is_done(&c) ? NULL : fake.refuse_ends ? "P0001" : poisoned(f, n);

	if (sqlstate != NULL)
		return refuse(&c, sqlstate, err);
	if (takes_us(f, n) > who->within_us) {
		c.answer = ANSWER_LOST_NOT_DONE;
		(void)end(&c, err);
		err->silent = true;
		return RC_UNKNOWN;
	}
	for (size_t i = 0; is_done(&c) && i < n; i++) {
		struct fake_task *t = fenced(f[i]->id, f[i]->version, f[i]->incarnation, FAKE_RUNNING);

		assert(i == 0 || f[i - 1]->id <= f[i]->id);
		if (t == NULL || f[i]->applied || f[i]->refused || f[i]->locked)
			continue;
		if (t->locked) {
			f[i]->locked = c.answer == ANSWER_TRUE;
			continue;
		}
		if (f[i]->outcome != OUTCOME_NOT_STARTED)
			record(t, f[i]);
		free_task(t, f[i]->outcome == OUTCOME_SUCCEEDED                ? FAKE_GONE
			     : t->once && f[i]->outcome != OUTCOME_NOT_STARTED ? FAKE_PARKED
									       : FAKE_SCHEDULED);
		f[i]->applied = c.answer == ANSWER_TRUE;
	}
	return end(&c, err);
}

static enum rc
park(struct db *db, const struct recorder *who, struct finish *f, const char *why, bool history,
    struct err *err)
{
	struct call c = begin(FAKE_PARK, true);
	struct fake_task *t = fenced(f->id, f->version, f->incarnation, FAKE_RUNNING);

	if (is_done(&c) && t != NULL &&
	    (fake.refuse_ends || t->poison == POISON_ALL || (t->poison == POISON_HISTORY && history)))
		return refuse(&c, "P0001", err);
	if (is_done(&c) && t != NULL) {
		if (history)
			record(t, f);
		free_task(t, FAKE_PARKED);
		f->applied = c.answer == ANSWER_TRUE;
	}
	return end(&c, err);
}

static enum rc
recorded(struct db *db, struct finish *const *f, size_t n, struct err *err)
{
	struct call c = begin(FAKE_RECORDED, false);

	for (size_t i = 0; is_done(&c) && i < n; i++) {
		if (fake_ends_of(f[i]->id, f[i]->version) > 0)
			f[i]->applied = true;
	}
	return end(&c, err);
}

static enum rc
days(struct db *db, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	return end(&c, err);
}

static enum rc
upkeep(struct db *db, int64_t retention_us, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	if (is_done(&c))
		fake.no_upkeep = false;
	return end(&c, err);
}

/* recover */

static enum rc
lost(struct db *db, int64_t incarnation, struct lost **out, size_t *n_out, int64_t *kept_out, struct err *err)
{
	struct call c = begin(FAKE_LOST, false);

	*out = is_done(&c) ? xcalloc(FAKE_TASKS, sizeof **out) : NULL;
	*n_out = 0;
	*kept_out = 0;
	for (size_t i = 0; is_done(&c) && i < fake.n_tasks; i++) {
		const struct fake_task *t = &fake.task[i];

		if (t->incarnation != 0 && !is_up(t->incarnation) &&
		    (incarnation == 0 || t->incarnation == incarnation))
			(*out)[(*n_out)++] = (struct lost){t->incarnation, t->id};
	}
	return end(&c, err);
}

static bool
is_lost(const struct fake_task *t, const struct recovery *what)
{
	size_t i = 0;

	while (i < what->n && what->only[i].id != t->id)
		i++;
	return (what->only == NULL || i < what->n) && t->incarnation == what->incarnation && !t->locked &&
	       !is_up(t->incarnation);
}

static enum rc
put_back(struct db *db, const struct recovery *what, struct recovered *out, struct err *err)
{
	struct call c = begin(FAKE_RECOVER, true);
	bool silent = false;

	*out = (struct recovered){0};
	for (size_t i = 0; is_done(&c) && i < fake.n_tasks; i++)
		silent = silent || (is_lost(&fake.task[i], what) && fake.task[i].mute_us > what->within_us);
	if (silent) {
		c.answer = ANSWER_LOST_NOT_DONE;
		(void)end(&c, err);
		err->silent = true;
		return RC_UNKNOWN;
	}
	for (size_t i = 0; is_done(&c) && i < fake.n_tasks; i++) {
		struct fake_task *t = &fake.task[i];

		if (!is_lost(t, what))
			continue;
		if (t->status == FAKE_RUNNING) {
			struct finish f = {.id = t->id,
			    .version = t->version,
			    .incarnation = t->incarnation,
			    .outcome = OUTCOME_LOST};

			record(t, &f);
			out->running++;
		}
		out->all++;
		out->parked += t->once && t->status == FAKE_RUNNING;
		free_task(t, t->once && t->status == FAKE_RUNNING ? FAKE_PARKED : FAKE_SCHEDULED);
	}
	return end(&c, err);
}

static enum rc
own(struct db *db, int64_t incarnation, int64_t older_us, struct owned **out, size_t *n_out, struct err *err)
{
	struct call c = begin(FAKE_OWN, false);

	*out = is_done(&c) ? xcalloc(FAKE_TASKS, sizeof **out) : NULL;
	*n_out = 0;
	for (size_t i = 0; is_done(&c) && i < fake.n_tasks; i++) {
		const struct fake_task *t = &fake.task[i];

		if (t->incarnation == incarnation && t->held_us < fake_now_us() - older_us)
			(*out)[(*n_out)++] = (struct owned){
			    .id = t->id, .version = t->version, .running = t->status == FAKE_RUNNING};
	}
	return end(&c, err);
}

static enum rc
hold_drop(struct db *db, int64_t incarnation, int64_t *batch, size_t *n, struct err *err)
{
	struct call c = begin(FAKE_HOLD_DROP, true);

	*n = is_done(&c) ? 0 : *n;
	return end(&c, err);
}

static enum rc
duties(struct db *db, struct duties_left *left_out, struct err *err)
{
	struct call c = begin(FAKE_DUTIES, false);

	*left_out =
	    (struct duties_left){.line = is_done(&c) && fake.line, .upkeep = is_done(&c) && fake.no_upkeep};
	fake.slices -= is_done(&c) && fake.slices > 0;
	left_out->strays = fake.slices > 0;
	for (size_t i = 0; is_done(&c) && i < fake.n_tasks; i++) {
		const struct fake_task *t = &fake.task[i];

		left_out->orphans = left_out->orphans || (t->incarnation != 0 && !is_up(t->incarnation));
	}
	return end(&c, err);
}

static enum rc
waits(struct db *db, int64_t *over_out, int64_t *next_us_out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	*over_out = is_done(&c) && fake.waits > 0 ? 1 : 0;
	fake.waits -= *over_out;
	*next_us_out = fake.waits > 0 ? 0 : fake.next_wait_us > 0 ? fake.next_wait_us : INT64_MAX;
	return end(&c, err);
}

static enum rc
tell(struct db *db, int64_t *told_out, bool *left_out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	*told_out = is_done(&c) && fake.notices > 0 ? 1 : 0;
	fake.notices -= *told_out;
	*left_out = fake.notices > 0;
	return end(&c, err);
}

static enum rc
node_declare_dead(struct db *db, const struct member *m, int64_t *ended_out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);
	bool won = false;

	*ended_out = 0;
	for (size_t i = 0; is_done(&c) && i < fake.n_nodes; i++) {
		struct fake_node *n = &fake.node[i];

		if (n->incarnation != m->incarnation || n->beat != m->beat || !n->up || m->life != fake.life)
			continue;
		n->up = false;
		n->beat++;
		fake.declared_after = fake.disconnects;
		won = true;
	}
	enum rc rc = end(&c, err);

	return rc == RC_OK && !won ? RC_LOST : rc;
}

/* heartbeat */

static enum rc
dial(struct db *db, struct err *err)
{
	struct call c = begin(FAKE_CONNECT, false);

	return end(&c, err);
}

static unsigned
generation(const struct db *db)
{
	return fake.generation;
}

static bool
pooled(const struct db *db)
{
	return fake.pooled;
}

static void
disconnect(struct db *db)
{
	fake.disconnects++;
}

static bool
can_tell(const struct db *db)
{
	return fake.can_tell;
}

static bool
server_over(const struct db *db)
{
	return fake.over;
}

static enum rc
server_mark(struct db *db, struct server_mark *out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, false);

	*out = fake.server;
	return end(&c, err);
}

static enum rc
is_copy(struct db *db, bool *copy_out, struct err *err)
{
	*copy_out = false;
	return RC_OK;
}

static enum rc
run_key(struct db *db, int64_t incarnation, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	return end(&c, err);
}

static struct fake_node *
named(const char *name)
{
	for (size_t i = 0; i < fake.n_nodes; i++) {
		if (strcmp(fake.node[i].name, name) == 0)
			return &fake.node[i];
	}
	return NULL;
}

static enum rc
node_find(struct db *db, const char *name, struct node_holder *out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, false);
	const struct fake_node *n = named(name);

	*out = (struct node_holder){.exists = n != NULL};
	if (n != NULL) {
		out->down = !n->up;
		out->id = n->id;
		out->incarnation = n->incarnation;
		out->beat = n->beat;
		out->dead_after_us = n->dead_after_us;
		out->life = n->life;
		out->now = fake.life;
	}
	return end(&c, err);
}

static enum rc
node_register(struct db *db, const struct node_identity *who, int64_t incarnation,
    const struct node_holder *holder, int64_t *id_out, struct err *err)
{
	struct call c = begin(FAKE_REGISTER, true);
	struct fake_node *n = named(who->name);
	bool changed = n != NULL && (!holder->exists || holder->now != fake.life ||
					n->incarnation != holder->incarnation || n->beat != holder->beat);

	if (is_done(&c) && !changed) {
		n = fake_node(who->name);
		n->incarnation = incarnation;
		n->beat++;
		n->up = true;
		n->life = 0;
		*id_out = n->id;
	}
	enum rc rc = end(&c, err);

	return rc == RC_OK && changed ? RC_LOST : rc;
}

static void
observe(struct members *m)
{
	struct member_row row[FAKE_NODES];
	size_t n = 0;

	for (size_t i = 0; i < fake.n_nodes; i++) {
		const struct fake_node *one = &fake.node[i];

		if (one->up)
			row[n++] = (struct member_row){.id = one->id,
			    .name = one->name,
			    .incarnation = one->incarnation,
			    .beat = one->beat,
			    .weight = 1,
			    .slots = 4,
			    .in_hand = one->in_hand,
			    .labels = "",
			    .heartbeat_us = one->heartbeat_us,
			    .dead_after_us = one->dead_after_us,
			    .cpu_free = -1,
			    .memory_free = -1,
			    .server_life = one->life};
	}
	m->pooled = fake.pooled;
	members_observe(m, row, n, fake.life, clock_mono_us());
}

static enum rc
node_beat(struct db *db, const struct node_beat *b, struct node_wishes *wishes, struct members *others,
    struct err *err)
{
	struct call c = begin(FAKE_BEAT, true);
	bool ours = false;

	for (size_t i = 0; is_done(&c) && i < fake.n_nodes; i++) {
		struct fake_node *n = &fake.node[i];

		if (n->id != b->node_id || n->incarnation != b->incarnation || !n->up)
			continue;
		n->beat++;
		n->life = b->outlasts ? fake.life : 0;
		ours = true;
	}
	*wishes = fake.wishes;
	wishes->durable = b->outlast != OUTLAST_NO && !fake.may_lose;
	if (ours && others != NULL)
		observe(others);
	enum rc rc = end(&c, err);

	return rc == RC_OK && !ours ? err_set(err, RC_LOST, "the row is not ours") : rc;
}

static enum rc
node_observe(struct db *db, struct members *m, struct err *err)
{
	struct call c = begin(FAKE_OTHER, false);

	if (is_done(&c))
		observe(m);
	return end(&c, err);
}

static enum rc
node_change(struct db *db, int64_t node_id, int64_t incarnation, const struct node_identity *now,
    bool *told_out, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	*told_out = true;
	return end(&c, err);
}

static enum rc
node_leave(struct db *db, int64_t node_id, int64_t incarnation, const char *died, struct err *err)
{
	struct call c = begin(FAKE_OTHER, true);

	for (size_t i = 0; is_done(&c) && i < fake.n_nodes; i++) {
		if (fake.node[i].incarnation == incarnation)
			fake.node[i].up = false;
	}
	return end(&c, err);
}

const struct store store_fake = {
    .lanes_print = lanes_print,
    .lanes = lanes,
    .look = look,
    .misfire = misfire,
    .claim = claim,
    .held = held,
    .clock = server_clock,
    .durable = durable,
    .node_bell = node_bell,
    .unheard = unheard,
    .node_shards = node_shards,
    .start = start,
    .start_once = start_once,
    .started = started,
    .secrets = secrets,
    .release = release,
    .finish = finish,
    .park = park,
    .recorded = recorded,
    .days = days,
    .upkeep = upkeep,
    .lost = lost,
    .recover = put_back,
    .own = own,
    .hold_drop = hold_drop,
    .duties = duties,
    .waits = waits,
    .tell = tell,
    .node_declare_dead = node_declare_dead,
    .connect = dial,
    .disconnect = disconnect,
    .can_tell = can_tell,
    .server_over = server_over,
    .generation = generation,
    .pooled = pooled,
    .server_mark = server_mark,
    .is_copy = is_copy,
    .run_key = run_key,
    .node_find = node_find,
    .node_register = node_register,
    .node_beat = node_beat,
    .node_observe = node_observe,
    .node_change = node_change,
    .node_leave = node_leave,
};
