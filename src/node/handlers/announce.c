/*
 * The announcer: tells the database how the pools are and which schemas their kinds have.  A thread
 * and a connection of its own, so that a session that has one of these rows locked holds up neither
 * the heartbeat nor a loader.
 *
 * What is announced is the state of the moment; what could not be told is told with the next try.
 */
#include "node/handlers/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/backoff.h"
#include "node/batch.h"

static void
announced_fini(struct announced *a, const struct pool_setup *set)
{
	for (size_t k = 0; a->schemas != NULL && set->kinds[k] != NULL; k++)
		free(a->schemas[k]);
	free(a->schemas);
	free(a->fault);
	free(a->library);
	*a = (struct announced){0};
}

static void
take_down(struct announced *a, const struct pool_setup *set, const struct pool_status *s)
{
	size_t n = 0;

	while (set->kinds[n] != NULL)
		n++;
	announced_fini(a, set);
	*a = (struct announced){.up = s->up,
	    .slots = s->slots,
	    .lost = s->lost,
	    .fault = text_printable(s->fault, strlen(s->fault), 1000),
	    .library = s->library == NULL ? NULL : text_printable(s->library, strlen(s->library), 100),
	    .schemas = xcalloc(n + 1, sizeof *a->schemas)};
	for (size_t k = 0; k < n; k++)
		a->schemas[k] = xstrdup(s->schemas[k]);
}

void
handlers_note_news(struct handlers *h)
{
	struct pool_status s;

	WITH_LOCK(&h->lock);
	for (size_t i = 0; i < h->n; i++) {
		pools_status(h->pools, i, &s);
		take_down(&h->news[i], &h->setup[i], &s);
	}
	gate_ring(&h->gate);
}

void
handlers_announce_fini(struct handlers *h)
{
	for (size_t i = 0; i < h->n; i++)
		announced_fini(&h->news[i], &h->setup[i]);
	free(h->news);
}

static void
add_text(struct buf *b, const char *name, const char *text)
{
	buf_addf(b, ",\"%s\":", name);
	if (text == NULL || text[0] == '\0')
		buf_adds(b, "null");
	else
		buf_json(b, text);
}

static void
add_command(struct buf *b, const struct pool_setup *set)
{
	AUTO_BUF struct buf words = {0};

	for (size_t i = 0; set->argv[i] != NULL; i++)
		buf_addf(&words, "%s%s", i == 0 ? "" : " ", set->argv[i]);
	AUTO_FREE char *text = text_printable(buf_str(&words), words.len, 300);

	add_text(b, "command", text);
}

static void
add_pool(struct buf *b, const struct pool_setup *set, const struct announced *a)
{
	buf_addf(b, "{\"processes\":%d,\"up\":%d,\"slots\":%d,\"lost\":%lld,\"name\":", set->processes, a->up,
	    a->slots, (long long)a->lost);
	buf_json(b, set->name);
	add_command(b, set);
	add_text(b, "fault", a->fault);
	add_text(b, "library", a->library);
	buf_adds(b, ",\"kinds\":{");
	for (size_t k = 0; set->kinds[k] != NULL; k++) {
		if (k > 0)
			buf_addc(b, ',');
		buf_json(b, set->kinds[k]);
		buf_addf(b, ":%s", a->schemas[k] == NULL ? "null" : a->schemas[k]);
	}
	buf_adds(b, "}}");
}

static void
print_news(struct handlers *h, struct buf *b)
{
	buf_addc(b, '[');
	WITH_LOCK(&h->lock);
	for (size_t i = 0; i < h->n; i++) {
		if (i > 0)
			buf_addc(b, ',');
		add_pool(b, &h->setup[i], &h->news[i]);
	}
	buf_addc(b, ']');
}

static enum rc
announce(struct handlers *h, struct db *db, struct err *err)
{
	AUTO_BUF struct buf text = {0};

	print_news(h, &text);
	return store_node_pools(db, atomic_load(&h->node->node_id), buf_str(&text), err);
}

void *
handlers_announce_main(void *arg)
{
	struct handlers *h = arg;
	AUTO_DB struct db *db = node_db(h->node, "announce");
	struct backoff backoff;
	int64_t used_us = clock_mono_us(), next_us = CLOCK_NEVER;

	backoff_init(&backoff, 100 * US_PER_MS, 10 * US_PER_S, (uint64_t)clock_mono_us());
	for (;;) {
		enum gate_wake wake = gate_wait(&h->gate, batch_wait_us(db, used_us, next_us));
		struct err err = {0};

		if (wake == GATE_STOPPED)
			break;
		if (wake == GATE_TIME && clock_mono_us() < next_us) {
			batch_close_idle(db, used_us);
			continue;
		}
		next_us = CLOCK_NEVER;
		used_us = clock_mono_us();
		if (announce(h, db, &err) == RC_OK) {
			backoff_reset(&backoff);
			continue;
		}
		if (backoff.tries == 0)
			log_warn("announce", "error=\"%s\"", err.text);
		next_us = clock_mono_us() + backoff_next_us(&backoff);
	}
	return NULL;
}
