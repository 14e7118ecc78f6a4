/* What happens to a handler process: what its descriptors bring, what time brings, and its end.  See
 * process.c for its states. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "exec/result.h"
#include "handler/pool_priv.h"

#define EXIT_US   US_PER_S /* from the end of its descriptor to its own */
#define LOST_US   (50 * US_PER_MS)
#define LOG_LINE  1000
#define LOG_LINES 200 /* in a second */

void
process_watch(const struct process *p, struct pollfd news[NEWS__COUNT])
{
	short write = p->out.len > 0 ? POLLOUT : 0;

	news[NEWS_TALK] = (struct pollfd){.fd = p->talk_fd, .events = (short)(POLLIN | write)};
	news[NEWS_OUTPUT] = (struct pollfd){.fd = p->out_fd, .events = POLLIN};
	news[NEWS_RUN] = (struct pollfd){.fd = p->run.fd, .events = POLLIN};
}

/* What it prints without an end must not fill the disk. */
static bool
may_log(struct process *p)
{
	int64_t now = clock_mono_us();

	if (now >= p->log_until_us) {
		if (p->left_out > 0)
			log_warn("handler_output",
			    "pool=%s pid=%d lines=%" PRId64 " hint=\"left out: more than %d in a second\"",
			    p->pool->set->name, (int)p->end.pid, p->left_out, LOG_LINES);
		p->log_until_us = now + US_PER_S;
		p->left_out = 0;
		p->logged = 0;
	}
	if (p->logged++ < LOG_LINES)
		return true;
	p->left_out++;
	return false;
}

/* Whole lines of what no single task has printed go to the log. */
static void
log_output(struct process *p, const char *text, size_t n)
{
	for (const char *end = text + n, *stop; text < end; text = stop + (stop < end)) {
		stop = memchr(text, '\n', (size_t)(end - text));
		stop = stop == NULL ? end : stop;
		if (p->line.len < LOG_LINE)
			buf_add(&p->line, text, (size_t)(stop - text));
		if (stop == end)
			return;
		if (p->line.len > 0 && may_log(p)) {
			AUTO_FREE char *line = text_printable(p->line.data, p->line.len, LOG_LINE);

			log_info("handler", "pool=%s pid=%d text=\"%s\"", p->pool->set->name, (int)p->end.pid,
			    line);
		}
		buf_reset(&p->line);
	}
}

static size_t
take_output(struct process *p)
{
	char *chunk = p->pool->all->chunk;
	struct flight *f = p->at_once == 1 ? TAILQ_FIRST(&p->flights) : NULL;
	size_t n = child_end_read(&p->end, &p->out_fd, chunk, sizeof p->pool->all->chunk);

	if (f != NULL)
		flight_print(p, f, chunk, n);
	else
		log_output(p, chunk, n);
	return n;
}

void
process_drain_output(struct process *p)
{
	size_t total = 0, n = 1;

	while (p->out_fd >= 0 && n > 0 && total < CHILD_PIPE_BYTES) {
		n = take_output(p);
		total += n;
	}
}

/* Was its death nobody's fault in it?  So it is when the node lost its lease, or the keeper was killed; what
 * it did not answer after that is no fault of its own. */
static bool
taken_away(const struct process *p)
{
	return !p->end.gone || p->end.last.why == KEEPER_BY_LEASE || p->end.last.why == KEEPER_BY_NODE_DEATH;
}

static bool
had_fault(const struct process *p)
{
	return p->fault[0] != '\0' && !taken_away(p);
}

/* Why the process is gone, for people. */
static void
explain(const struct process *p, struct child_end *end, struct pgrab_result *result)
{
	const struct surroundings *around = &p->pool->set->around;

	if (had_fault(p)) {
		result_fail(result, "%s", p->fault);
		return;
	}
	child_explain(end, p->pool->set->argv[0], around->cwd, result);
	if (result->succeeded)
		result_fail(result, "it ended by itself, with exit code 0");
}

/* The end of a run by that of its process, which had n.  It is known whose fault that was if one would not
 * stop, or if there was only one; or it was one that had ended.  Otherwise all are suspects: they run alone
 * from now on, and no attempt is counted, because at most one of them is to blame. */
static void
end_flight(struct process *p, struct flight *f, int n, const char *why)
{
	struct pgrab_result result = {0};
	const char *how = had_fault(p) ? "was killed" : "ended";
	bool away = taken_away(p);
	bool unknown = !away && p->culprit == NULL && !p->bygone;
	bool guilty = f->run == p->culprit || (unknown && n == 1);
	bool suspect = guilty || unknown;

	if (suspect && (p->at_once > 1 || p->cell))
		suspects_add(&p->pool->suspects, f->run->id);
	if (!guilty && !away)
		f->run->end.retry_us = RETRY_UNCOUNTED;
	if (f->run == p->culprit)
		result_fail(&result, "it did not stop when it was asked to, so its process was killed");
	else if (!p->end.gone)
		result_fail(&result, "its process was killed: its keeper was lost");
	else if (suspect && !guilty)
		result_fail(&result, "its process %s, and which of its %d tasks did that is not known: %s",
		    how, n, why);
	else
		result_fail(&result, "its process %s: %s", how, why);
	flight_end(p, f, guilty ? OUTCOME_NONE : OUTCOME_LOST, &result);
}

/* Nothing of it is left. */
static void
be_over(struct process *p, int64_t now)
{
	bool in_order = p->asked && p->fault[0] == '\0';
	struct pgrab_result why = {0}, told = {0};
	struct child_end silent;
	struct flight *f;
	int n;

	process_drain_output(p);
	process_read(p, now);
	process_leave_ready(p, 0);
	/* Which of several tasks printed the last line is not known. */
	silent = p->end;
	silent.tail_len = p->at_once > 1 ? 0 : silent.tail_len;
	explain(p, &silent, &told);
	explain(p, &p->end, &why);
	n = p->n_flights;
	while ((f = TAILQ_FIRST(&p->flights)) != NULL)
		end_flight(p, f, n, told.error);
	process_close(p);
	pool_went_down(p->pool, p, in_order ? NULL : why.error, n > 0 || taken_away(p), now);
}

void
process_news(struct process *p, const struct pollfd news[NEWS__COUNT], int64_t now)
{
	/* First, because it says whose hello it is. */
	bool ended = news[NEWS_RUN].revents != 0 && child_end_message(&p->end, p->run.fd);

	if (news[NEWS_OUTPUT].revents != 0 && p->out_fd >= 0)
		take_output(p);
	if (news[NEWS_TALK].revents & POLLOUT)
		process_write(p);
	if (news[NEWS_TALK].revents & (POLLIN | POLLHUP | POLLERR))
		process_read(p, now);
	if (p->talk_fd < 0 && p->state != PROCESS_ENDING && p->state != PROCESS_LOST)
		process_begin_ending(p, now + EXIT_US);
	if (!ended)
		return;
	if (p->end.gone) {
		be_over(p, now);
	} else {
		process_begin_ending(p, 0);
		p->state = PROCESS_LOST;
		close_fd(&p->run.fd);
	}
}

void
process_ping(struct process *p, int64_t now)
{
	if (p->pinged_us > p->answered_us) /* one is on its way */
		return;
	p->pinged_us = now;
	protocol_ping(&p->out, ++p->number);
}

/* Asks whether it is still there, and whether it has answered. */
static int64_t
ping(struct process *p, int64_t now)
{
	int64_t patience = p->pool->set->ping_timeout_us, every = patience / 4;

	if (p->pinged_us > p->answered_us) {
		if (now - p->pinged_us >= patience)
			process_fault(
			    p, "it has not answered a ping for %" PRId64 " ms", patience / US_PER_MS);
		return p->pinged_us + patience;
	}
	if (now - p->answered_us >= every) {
		process_ping(p, now);
		process_write(p);
		return now + patience;
	}
	return p->answered_us + every;
}

/* One that reads and has not stopped is deaf.  If nothing is read, another may be to blame for that. */
static void
would_not_stop(struct process *p, const struct flight *f)
{
	if (p->answered_us > f->told_us) {
		p->culprit = f->run;
		process_fault(p, "task %" PRId64 " in it would not stop", f->run->id);
	} else {
		p->quiet = true;
		process_fault(
		    p, "it has not said a word since task %" PRId64 " in it was told to stop", f->run->id);
	}
}

/* Tasks that were told to stop get half the grace; then the process gets TERM, and the other half. */
static int64_t
await_stops(struct process *p, int64_t now)
{
	int64_t grace = p->pool->all->host.kill_grace_us / 2, next = CLOCK_NEVER;
	struct flight *f;

	TAILQ_FOREACH (f, &p->flights, link) {
		if (f->told_us == 0)
			continue;
		if (now >= f->told_us + grace) {
			would_not_stop(p, f);
			return CLOCK_NEVER;
		}
		next = f->told_us + grace < next ? f->told_us + grace : next;
	}
	return next;
}

static int64_t
time_ready(struct process *p, int64_t now)
{
	int64_t next = earlier(await_stops(p, now), ping(p, now));

	if (!p->cell || p->n_flights > 0)
		return next;
	if (now >= p->pool->cell_until_us)
		process_retire(p);
	return earlier(next, p->pool->cell_until_us);
}

/* It was told to end, or has closed its descriptor: it gets its time, and is then stopped. */
static int64_t
time_ending(struct process *p, int64_t now)
{
	if (p->stopping)
		return CLOCK_NEVER;
	if (now < p->until_us)
		return p->until_us;
	if (p->asked)
		process_stop_now(p);
	else
		process_fault(p, "it closed descriptor %d, on which it answers", KEEPER_ANSWER_FD);
	return CLOCK_NEVER;
}

int64_t
process_time(struct process *p, int64_t now)
{
	switch (p->state) {
	case PROCESS_STARTING:
		if (now < p->until_us)
			return p->until_us;
		process_fault(p, "it has not said hello for %" PRId64 " ms: see docs/handlers.md",
		    p->pool->set->start_timeout_us / US_PER_MS);
		return CLOCK_NEVER;
	case PROCESS_READY:
	case PROCESS_RETIRING: return time_ready(p, now);
	case PROCESS_ENDING: return time_ending(p, now);
	case PROCESS_LOST:
		if (!keeper_ended(p->pool->all->host.keeper, p->run.life))
			return now + LOST_US;
		be_over(p, now);
		return now;
	case PROCESS_NONE:
	default: return CLOCK_NEVER;
	}
}
