/* What other threads may ask of the boss: messages into its inbox, and the few fields that are shared under
 * its lock. */
#include "node/boss/boss.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "node/boss/private.h"
#include "node/context.h"

void
boss_on_room(struct boss *b, void (*wake)(void *ctx), void *ctx)
{
	b->wake = wake;
	b->wake_ctx = ctx;
}

int64_t
room_ready(const struct room *r)
{
	int64_t all = 0;

	for (size_t i = 0; i < CREWS_MAX; i++)
		all += r->ready[i];
	return all;
}

void
boss_on_busy(struct boss *b, void (*tell)(void *ctx), void *ctx)
{
	b->tell_busy = tell;
	b->tell_busy_ctx = ctx;
}

struct room
boss_take_room(struct boss *b)
{
	struct room room;

	WITH_LOCK(&b->lock);
	room = b->room;
	b->seen = b->total;
	for (size_t i = 0; i < b->n_crews; i++) {
		b->taken.ready[i] += room.ready[i];
		b->taken.urgent[i] += room.urgent[i];
		b->taken.large[i] += room.large[i];
	}
	b->taken.timed += room.timed;
	b->taken.begins += room.begins;
	b->taken.memory += room.memory;
	b->room = (struct room){0};
	return room;
}

void
boss_give(struct boss *b, struct run *claimed, struct room taken)
{
	struct grant *g = xcalloc(1, sizeof *g);
	struct run *r;

	g->note.what = NOTE_GRANT;
	g->taken = taken;
	/* The grant follows the runs in one push, so that the room is not free before
	 * the boss has counted them. */
	for (r = claimed; r != NULL; r = run_next(r)) {
		r->note.what = NOTE_CLAIMED;
		if (run_next(r) == NULL) {
			r->note.mail.next = &g->note.mail;
			break;
		}
	}
	mailbox_push_chain(b->inbox, claimed != NULL ? &claimed->note.mail : &g->note.mail);
}

void
boss_begun(struct boss *b, struct run *r)
{
	mailbox_push(b->inbox, &r->begun.mail);
}

void
boss_idle(struct boss *b, struct run *first)
{
	mailbox_push(b->inbox, &first->idle.mail);
}

void
boss_idle_again(struct boss *b, struct run *first, struct run *left)
{
	for (struct run *r = left; r != NULL; r = run_next(r))
		r->note.what = NOTE_LEFT;
	first->idle.mail.next = left == NULL ? NULL : &left->note.mail;
	mailbox_push_chain(b->inbox, &first->idle.mail);
}

void
boss_notes(struct boss *b, struct mail *chain)
{
	if (chain != NULL)
		mailbox_push_chain(b->inbox, chain);
}

void
boss_slots(struct boss *b, size_t crew, int64_t more)
{
	struct slots *s = xcalloc(1, sizeof *s);

	s->note.what = NOTE_SLOTS;
	s->crew = crew;
	s->more = more;
	mailbox_push(b->inbox, &s->note.mail);
}

void
boss_settled(struct boss *b, struct run *chain)
{
	if (chain == NULL)
		return;
	for (struct run *r = chain; r != NULL; r = run_next(r))
		r->note.what = NOTE_SETTLED;
	mailbox_push_chain(b->inbox, &chain->note.mail);
}

void
boss_ends_locked(struct boss *b, size_t n)
{
	if (atomic_exchange(&b->ends_locked, n) != n)
		mailbox_poke(b->inbox);
}

static void
command_for(struct boss *b, enum command_what what, enum pgrab_stop why, int64_t id, int64_t version)
{
	struct command *c = xcalloc(1, sizeof *c);

	c->note.what = NOTE_COMMAND;
	c->what = what;
	c->why = why;
	c->id = id;
	c->version = version;
	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	b->posted++;
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
	mailbox_push(b->inbox, &c->note.mail);
}

static void
command(struct boss *b, enum command_what what, enum pgrab_stop why)
{
	command_for(b, what, why, 0, 0);
}

void
boss_drain(struct boss *b)
{
	command(b, CMD_DRAIN, PGRAB_STOP_NONE);
}

void
boss_undrain(struct boss *b)
{
	command(b, CMD_UNDRAIN, PGRAB_STOP_NONE);
}

void
boss_hand_back(struct boss *b)
{
	command(b, CMD_HAND_BACK, PGRAB_STOP_NONE);
}

void
boss_cancel(struct boss *b, int64_t id, int64_t version)
{
	command_for(b, CMD_STOP_ONE, PGRAB_STOP_CANCEL, id, version);
}

void
boss_stop_runs(struct boss *b, enum pgrab_stop why)
{
	command(b, CMD_STOP_RUNS, why);
}

void
boss_fence(struct boss *b)
{
	command(b, CMD_FENCE, PGRAB_STOP_FENCED);
}

/* Whatever was pushed before the last command has been counted once that is obeyed. */
static bool
down_to(struct boss *b, size_t left)
{
	ASSERT_LOCKED(&b->lock);
	return b->obeyed == b->posted && b->in_hand_shown <= left;
}

bool
boss_wait_empty(struct boss *b, int64_t until_us)
{
	WITH_LOCK(&b->lock);
	while (!down_to(b, 0) && clock_wait(&b->changed, &b->lock, until_us))
		;
	return down_to(b, 0);
}

bool
boss_wait_still(struct boss *b, int64_t until_us)
{
	bool still;

	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	while (!(still = b->obeyed == b->posted && node_running(b->node) == 0) &&
	       clock_wait(&b->changed, &b->lock, until_us))
		;
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
	return still;
}

int
boss_empty_fd(const struct boss *b)
{
	return b->empty_fd;
}

size_t
boss_leaks(struct boss *b, struct owned *rows, size_t n)
{
	struct command c = {.note.what = NOTE_COMMAND, .what = CMD_LEAKS, .rows = rows, .n_rows = n};

	mailbox_push(b->inbox, &c.note.mail);
	WITH_LOCK(&b->lock);
	while (!c.answered)
		(void)clock_wait(&b->changed, &b->lock, CLOCK_NEVER);
	return c.n_rows;
}
