/* All pools of a node: the loop of their thread. */
#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "handler/pool_priv.h"

#define QUIT_US          (500 * US_PER_MS) /* for processes to end by themselves; the keeper ends the rest */
#define BACKOFF_FIRST_US (200 * US_PER_MS)
#define BACKOFF_MAX_US   (60 * US_PER_S)

static void
take_inbox(struct pools *ps, int64_t now)
{
	struct mail *m = NULL;

	while (mailbox_pop_all_until(ps->inbox, 0, &m) == RC_OK) {
		while (m != NULL) {
			struct run *r = run_of(m);

			m = m->next;
			assert(r->crew >= 1 && r->crew <= ps->n);
			pool_enqueue(&ps->pool[r->crew - 1], r, now);
		}
	}
}

static struct process *process_at(struct pools *ps, size_t i);
static size_t count_processes(const struct pools *ps);

/* The process, or the run, may be gone. */
static void
take_answers(struct pools *ps)
{
	struct mail *m = NULL;

	while (mailbox_pop_all_until(ps->answers, 0, &m) == RC_OK) {
		while (m != NULL) {
			struct step *s = step_of(m);

			m = m->next;
			process_answer(process_at(ps, s->process), s);
		}
	}
	for (size_t i = 0; i < count_processes(ps); i++)
		process_write(process_at(ps, i));
}

static size_t
count_processes(const struct pools *ps)
{
	size_t n = 0;

	for (size_t i = 0; i < ps->n; i++)
		n += (size_t)ps->pool[i].n_processes;
	return n;
}

static struct process *
process_at(struct pools *ps, size_t i)
{
	struct pool *pool = ps->pool;

	while (i >= (size_t)pool->n_processes)
		i -= (size_t)(pool++)->n_processes;
	return &pool->process[i];
}

static void
take_news(struct pools *ps, int64_t until_us)
{
	size_t n = count_processes(ps);
	int64_t now = clock_mono_us(), left = until_us == CLOCK_NEVER ? US_PER_S : until_us - now;
	struct timespec ts = {.tv_sec = left / US_PER_S, .tv_nsec = left % US_PER_S * 1000};
	eventfd_t ignored;

	if (left < 0)
		ts = (struct timespec){0};
	ps->poll[0] = (struct pollfd){.fd = ps->wake_fd, .events = POLLIN};
	for (size_t i = 0; i < n; i++)
		process_watch(process_at(ps, i), &ps->poll[1 + i * NEWS__COUNT]);
	if (ppoll(ps->poll, 1 + n * NEWS__COUNT, &ts, NULL) < 0)
		return;
	now = clock_mono_us();
	if (ps->poll[0].revents != 0 && eventfd_read(ps->wake_fd, &ignored) == 0) {
		atomic_store(&ps->woken, false);
		ps->look_at_stops = true;
		take_answers(ps);
	}
	take_inbox(ps, now);
	for (size_t i = 0; i < n; i++) {
		if (process_at(ps, i)->state != PROCESS_NONE)
			process_news(process_at(ps, i), &ps->poll[1 + i * NEWS__COUNT], now);
	}
}

static void
begin_quit(struct pools *ps)
{
	if (ps->quitting || !atomic_load(&ps->quit))
		return;
	ps->quitting = true;
	ps->quit_until_us = clock_mono_us() + QUIT_US;
	for (size_t i = 0; i < count_processes(ps); i++)
		process_retire(process_at(ps, i));
}

static void
renew(struct pools *ps)
{
	bool again = atomic_exchange(&ps->renew, false);

	for (size_t i = 0; i < ps->n && !ps->quitting; i++) {
		ps->pool[i].renewal += again;
		pool_renew(&ps->pool[i]);
	}
}

/* Returns when to call again. */
static int64_t
do_round(struct pools *ps, int64_t now)
{
	int64_t next = CLOCK_NEVER;
	size_t n = count_processes(ps);

	for (size_t i = 0; ps->look_at_stops && i < n; i++) {
		if (process_at(ps, i)->state != PROCESS_NONE)
			process_look_at_stops(process_at(ps, i), now);
	}
	begin_quit(ps);
	renew(ps);
	for (size_t i = 0; i < n; i++)
		next = earlier(next, process_time(process_at(ps, i), now));
	for (size_t i = 0; i < ps->n; i++) {
		next = earlier(next, pool_deal(&ps->pool[i], now));
		next = earlier(next, pool_fill(&ps->pool[i], now)); /* a suspect in line wants the cell */
	}
	ps->look_at_stops = false;
	return next;
}

static bool
any_process(struct pools *ps)
{
	for (size_t i = 0; i < count_processes(ps); i++) {
		if (process_at(ps, i)->state != PROCESS_NONE)
			return true;
	}
	return false;
}

void
pools_run(struct pools *ps)
{
	int64_t next = 0;

	while (!ps->quitting || (any_process(ps) && clock_mono_us() < ps->quit_until_us)) {
		take_news(ps, next);
		next = do_round(ps, clock_mono_us());
		ps->host.flush(ps->host.ctx);
		if (ps->quitting)
			next = earlier(next, ps->quit_until_us);
	}
}

static void
wake(struct pools *ps)
{
	if (!atomic_exchange(&ps->woken, true) && eventfd_write(ps->wake_fd, 1) != 0)
		log_error("wake_failed", "what=handlers");
}

void
pools_submit(struct pools *ps, struct run *r)
{
	mailbox_push(ps->inbox, &r->note.mail);
	wake(ps);
}

void
pools_answer(struct pools *ps, struct step *first)
{
	mailbox_push_chain(ps->answers, &first->mail);
	wake(ps);
}

void
pools_renew(struct pools *ps)
{
	atomic_store(&ps->renew, true);
	wake(ps);
}

void
pools_quit(struct pools *ps)
{
	atomic_store(&ps->quit, true);
	wake(ps);
}

int
pools_wake_fd(const struct pools *ps)
{
	return ps->wake_fd;
}

void
pools_status(const struct pools *ps, size_t i, struct pool_status *out)
{
	*out = ps->pool[i].status;
	out->library = ps->pool[i].library;
	out->schemas = (const char *const *)ps->pool[i].schemas;
}

static void
pool_init(struct pool *pool, struct pools *ps, size_t number, const struct pool_setup *set)
{
	size_t kinds = 0;

	while (set->kinds[kinds] != NULL)
		kinds++;
	*pool = (struct pool){.all = ps, .number = number, .set = set, .n_processes = set->processes + 2};
	pool->process = xcalloc((size_t)pool->n_processes, sizeof *pool->process);
	pool->schemas = xcalloc(kinds + 1, sizeof *pool->schemas);
	for (int i = 0; i < pool->n_processes; i++)
		process_init(&pool->process[i], pool);
	backoff_init(&pool->backoff, BACKOFF_FIRST_US, BACKOFF_MAX_US, (uint64_t)clock_mono_us() + number);
}

struct pools *
pools_create(const struct pool_setup *setup, size_t n, const struct pool_host *host)
{
	struct pools *ps = xcalloc(1, sizeof *ps);

	ps->host = *host;
	ps->n = n;
	ps->inbox = mailbox_create();
	ps->answers = mailbox_create();
	ps->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ps->wake_fd < 0)
		abort();
	ps->pool = xcalloc(n, sizeof *ps->pool);
	for (size_t i = 0; i < n; i++)
		pool_init(&ps->pool[i], ps, i, &setup[i]);
	ps->poll = xcalloc(1 + count_processes(ps) * NEWS__COUNT, sizeof *ps->poll);
	return ps;
}

void
pools_destroy(struct pools **p)
{
	struct pools *ps = *p;

	if (ps == NULL)
		return;
	for (size_t i = 0; i < ps->n; i++) {
		struct pool *pool = &ps->pool[i];

		for (size_t k = 0; pool->set->kinds[k] != NULL; k++)
			free(pool->schemas[k]);
		for (int k = 0; k < pool->n_processes; k++)
			process_close(&pool->process[k]);
		free(pool->suspects.id);
		free(pool->schemas);
		free(pool->library);
		free(pool->process);
	}
	for (struct mail *m; mailbox_pop_until(ps->answers, 0, &m) == RC_OK;)
		step_free(step_of(m));
	free(ps->pool);
	free(ps->poll);
	mailbox_destroy(&ps->inbox);
	mailbox_destroy(&ps->answers);
	close(ps->wake_fd);
	free(ps);
	*p = NULL;
}
