/* What a handler process says, and what the node does about it. */
#include "handler/pool_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "exec/result.h"

#define ROUND_MAX   (1024 * 1024)              /* read from one process before it is another's turn */
#define STEPS_WAIT  1000                       /* of one run, for their answers */
#define ANSWERS_MAX ((size_t)64 * 1024 * 1024) /* bytes that a process has not read */
#define QUOTED      80                         /* of what is not a message */

static struct flight *
flight_of(struct process *p, int64_t number)
{
	struct flight *f;

	TAILQ_FOREACH (f, &p->flights, link) {
		if (f->number == number)
			return f;
	}
	return NULL;
}

void
flight_print(struct process *p, struct flight *f, const char *text, size_t n)
{
	const struct pool_host *host = &p->pool->all->host;

	if (n == 0)
		return;
	host->print(host->ctx, f->run, text, n);
	f->open_line = text[n - 1] != '\n';
}

static void
print_line(struct process *p, struct flight *f, const char *text)
{
	if (f->open_line)
		flight_print(p, f, "\n", 1);
	flight_print(p, f, text, strlen(text));
	if (text[0] != '\0' && f->open_line)
		flight_print(p, f, "\n", 1);
}

void
flight_end(struct process *p, struct flight *f, enum outcome outcome, const struct pgrab_result *result)
{
	const struct pool_host *host = &p->pool->all->host;
	int kept = f->run->need.slots < p->kept ? (int)f->run->need.slots : p->kept;

	TAILQ_REMOVE(&p->flights, f, link);
	p->n_flights--;
	if (kept > 0) {
		p->kept -= kept;
		host->slots(host->ctx, p->pool->number, -kept);
	}
	host->end(host->ctx, f->run, outcome, result);
	free(f);
}

/* Every kind that the section names must be there; others are ignored. */
static const char *
missing_kind(const struct pool_setup *set, const struct message *m)
{
	for (const char *const *kind = set->kinds; *kind != NULL; kind++) {
		size_t i = 0;

		while (i < m->n_kinds && strcmp(m->kind[i].kind, *kind) != 0)
			i++;
		if (i == m->n_kinds)
			return *kind;
	}
	return NULL;
}

static void
take_hello(struct process *p, struct message *m, int64_t now)
{
	const struct pool_setup *set = p->pool->set;
	const char *missing = missing_kind(set, m);

	if (p->state != PROCESS_STARTING) {
		process_fault(p, "it said hello twice");
		return;
	}
	if (missing != NULL) {
		process_fault(p, "it has no handler for kind %s, which [pool %s] names", missing, set->name);
		return;
	}
	p->at_once = set->at_once > 0 && set->at_once < m->at_once ? set->at_once : m->at_once;
	p->at_once = p->cell ? 1 : p->at_once;
	p->version = m->version;
	p->state = PROCESS_READY;
	p->answered_us = now;
	pool_came_up(p->pool, p, m);
}

/* Among all processes. */
static size_t
index_of(const struct process *p)
{
	const struct pools *ps = p->pool->all;
	size_t i = (size_t)(p - p->pool->process);

	for (size_t pool = 0; pool < p->pool->number; pool++)
		i += (size_t)ps->pool[pool].n_processes;
	return i;
}

void
process_answer(struct process *p, struct step *s)
{
	struct flight *f = flight_of(p, s->number);

	if (f != NULL && f->run->id == s->id && f->run->version == s->version &&
	    f->run->incarnation == s->incarnation) {
		f->steps--;
		protocol_step(&p->out, s->number, s, step_fault(s));
		if (p->out.len > ANSWERS_MAX)
			process_fault(p, "it does not read the answers to its steps");
	}
	step_free(s);
}

static void
take_step(struct process *p, struct flight *f, struct message *m)
{
	const struct pool_host *host = &p->pool->all->host;
	struct step *s;

	if (p->version < PROTOCOL_STEPS) {
		process_fault(p, "it said step, which is not in version 1 of the protocol");
		return;
	}
	s = xcalloc(1, sizeof *s);
	*s = (struct step){.id = f->run->id,
	    .version = f->run->version,
	    .incarnation = f->run->incarnation,
	    .name = m->text,
	    .result = m->value,
	    .process = index_of(p),
	    .number = f->number};
	m->text = m->value = NULL;
	if (f->steps++ == STEPS_WAIT) { /* a fault of this run, not of the others in its process */
		s->state = STEP_REFUSED;
		s->why = xasprintf("%d of its steps wait for their answers already", STEPS_WAIT);
		process_answer(p, s);
		return;
	}
	if (s->result != NULL && strlen(s->result) > STEP_RESULT_MAX) {
		s->state = STEP_REFUSED;
		s->why =
		    xasprintf("its result is %zu bytes long, and at most %d are kept: put it in a table and "
			      "return its key",
			strlen(s->result), STEP_RESULT_MAX);
		process_answer(p, s);
	} else {
		host->step(host->ctx, f->run, s);
	}
}

static void
take_result(struct process *p, struct flight *f, struct message *m)
{
	struct pgrab_result result = {.succeeded = m->ok};
	struct pool *pool = p->pool;

	/* What it printed before it said so is in the pipe by now. */
	if (p->at_once == 1)
		process_drain_output(p);
	if (m->detail != NULL)
		print_line(p, f, m->detail);
	if (m->value != NULL)
		print_line(p, f, m->value);
	if (m->wait != NULL)
		result_fail(&result, "%s", m->wait);
	else if (!m->ok)
		result_fail(&result, "%s",
		    m->text != NULL && m->text[0] != '\0' ? m->text
							  : "the handler failed, and does not say why");
	f->run->end.retry_us = m->retry_us;
	suspects_clear(&pool->suspects, f->run->id);
	flight_end(p, f, m->wait != NULL ? OUTCOME_WAITED : OUTCOME_NONE, &result);
	p->served++;
	backoff_reset(&pool->backoff);
	/* While all places are taken by others that retire, this one goes on: nobody could take its part. */
	if (p->state == PROCESS_RETIRING ||
	    (pool->set->max_tasks > 0 && p->served >= pool->set->max_tasks && pool_has_place(pool)))
		process_retire(p);
}

/* None of those that it has now is to blame for a second result of one that has ended. */
static void
take_strange_result(struct process *p, int64_t run)
{
	const struct flight *first = TAILQ_FIRST(&p->flights);

	p->bygone = run > 0 && first != NULL && run < first->number;
	process_fault(p, "it gave a result of run %" PRId64 ", which it does not have", run);
}

static void
take_message(struct process *p, struct message *m, int64_t now)
{
	const struct pool_host *host = &p->pool->all->host;
	struct flight *f = flight_of(p, m->run);

	p->answered_us = now > p->pinged_us ? now : p->pinged_us; /* whatever it says, it is alive */
	if (p->state == PROCESS_STARTING && m->what != MESSAGE_HELLO) {
		process_fault(p, "it spoke before it said hello");
		return;
	}
	switch (m->what) {
	case MESSAGE_HELLO: take_hello(p, m, now); break;
	case MESSAGE_PONG: break;
	case MESSAGE_LOG: /* one that comes after its result has nowhere to go, and harms nothing */
		if (f != NULL)
			print_line(p, f, m->text);
		break;
	case MESSAGE_PROGRESS:
		if (f != NULL)
			host->progress(host->ctx, f->run, m->percent, m->text);
		break;
	case MESSAGE_STEP: /* of a run that has ended: as with its log */
		if (f != NULL)
			take_step(p, f, m);
		break;
	case MESSAGE_RESULT:
		if (f != NULL)
			take_result(p, f, m);
		else
			take_strange_result(p, m->run);
		break;
	default: break;
	}
}

static void
take_line(struct process *p, const char *line, size_t n, int64_t now)
{
	struct message m;
	struct err err = {0};

	if (message_parse(line, n, &m, &err) == RC_OK) {
		take_message(p, &m, now);
	} else {
		AUTO_FREE char *shown = text_printable(line, n < QUOTED ? n : QUOTED, QUOTED);

		process_fault(p, "it wrote something that is not a message: %s: %s", err.text, shown);
	}
	message_fini(&m);
}

/* After a fault of its own nothing more is believed.  But if a process dies by itself, or is killed because a
 * run in it would not stop, or it said nothing of that, what it wrote until then counts. */
static bool
believed(const struct process *p)
{
	return p->fault[0] == '\0' || p->culprit != NULL || p->quiet;
}

static void
take_lines(struct process *p, size_t from, int64_t now)
{
	size_t begin = 0;
	char *end;

	while (believed(p) && (end = memchr(p->in.data + from, '\n', p->in.len - from)) != NULL) {
		size_t at = (size_t)(end - p->in.data);

		if (at > begin && !(at == begin + 1 && p->in.data[begin] == '\r'))
			take_line(p, p->in.data + begin, at - begin, now);
		begin = from = at + 1;
	}
	if (!believed(p) || begin == p->in.len) {
		buf_reset(&p->in);
		return;
	}
	buf_drop(&p->in, begin);
	if (p->in.len > PROTOCOL_LINE) {
		process_fault(p, "it wrote a line of more than %d bytes", PROTOCOL_LINE);
		buf_reset(&p->in); /* it may be stopping already: then that is no fault of its own */
		close_fd(&p->talk_fd);
	}
}

void
process_read(struct process *p, int64_t now)
{
	char *chunk = p->pool->all->chunk;

	for (size_t total = 0; p->talk_fd >= 0 && total < ROUND_MAX;) {
		size_t before = p->in.len;
		ssize_t n = recv(p->talk_fd, chunk, sizeof p->pool->all->chunk, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close_fd(&p->talk_fd);
			return;
		}
		total += (size_t)n;
		buf_add(&p->in, chunk, (size_t)n);
		take_lines(p, before, now);
		if ((size_t)n < sizeof p->pool->all->chunk)
			return;
	}
}
