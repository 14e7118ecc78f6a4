#include "node/runs/live.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/secret.h"
#include "node/runs/teller.h"

void
lives_init(struct lives *l)
{
	*l = (struct lives){0};
	lock_init(&l->lock);
	TAILQ_INIT(&l->under_way);
}

void
lives_fini(struct lives *l)
{
	PTHREAD_OK(pthread_mutex_destroy(&l->lock));
	free(l->ended);
}

static struct live_key
key_of(const struct run *r)
{
	return (struct live_key){r->incarnation, r->id, r->version};
}

void
live_begin(struct live *v, struct lives *all, struct run *r)
{
	*v = (struct live){.all = all, .run = r, .shown = -1};
	progress_set(&v->progress, -1, NULL);
	lock_init(&v->lock);
	saved_begin(&v->saved, all == NULL ? NULL : all->teller, r);
	if (all == NULL)
		return;
	WITH_LOCK(&all->lock);
	TAILQ_INSERT_TAIL(&all->under_way, v, next);
}

static void
note_ended(struct lives *l, struct live_key key)
{
	ASSERT_LOCKED(&l->lock);
	if (l->n_ended == l->cap_ended) {
		l->cap_ended = l->cap_ended == 0 ? 16 : 2 * l->cap_ended;
		l->ended = xrealloc(l->ended, l->cap_ended * sizeof *l->ended);
	}
	l->ended[l->n_ended++] = key;
}

static void
ring(const struct live *v)
{
	if (v->all != NULL)
		teller_ring(v->all->teller);
}

/* Takes it out of the list: from here on no other thread knows it. */
static void
leave(struct live *v)
{
	if (v->all == NULL)
		return;
	PTHREAD_OK(pthread_mutex_lock(&v->all->lock));
	TAILQ_REMOVE(&v->all->under_way, v, next);
	if (v->told)
		note_ended(v->all, key_of(v->run));
	PTHREAD_OK(pthread_mutex_unlock(&v->all->lock));
	if (v->told)
		ring(v);
}

char *
live_end(struct live *v, bool *truncated_out, int64_t *bytes_out)
{
	char *text = NULL;

	saved_end(&v->saved);
	leave(v);
	*truncated_out = false;
	if (v->out != NULL) {
		buf_reset(&v->piece);
		text_stream_end(&v->stream, &v->piece);
		outbuf_add(v->out, buf_str(&v->piece), v->piece.len);
		text = outbuf_text(v->out);
		*truncated_out = outbuf_truncated(v->out);
		*bytes_out = *truncated_out ? (int64_t)outbuf_total(v->out) : 0;
	}
	outbuf_destroy(&v->out);
	buf_fini(&v->piece);
	PTHREAD_OK(pthread_mutex_destroy(&v->lock));
	return text;
}

/* True: the teller must be told. */
static bool
changes(struct live *v)
{
	bool first = !v->changed;

	ASSERT_LOCKED(&v->lock);
	v->changed = true;
	return first;
}

static bool
note_progress(struct live *v, const struct progress *p)
{
	v->progress_us = clock_mono_us();
	if (v->progress.percent == p->percent && strcmp(v->progress.text, p->text) == 0)
		return false; /* a sign of life, but no news */
	v->progress = *p;
	return changes(v);
}

/* Its text may have been cut, at a character. */
static bool
is_full(const struct progress *p)
{
	return strlen(p->text) + 4 >= sizeof p->text;
}

void
live_print(struct live *v, const void *bytes, size_t n)
{
	struct progress p;
	bool found, news = false;

	atomic_store(&v->run->sign_us, clock_mono_us());
	buf_reset(&v->piece);
	saved_print(&v->saved, bytes, n);
	text_stream_add(&v->stream, bytes, n, &v->piece);
	found = progress_read(&v->reader, bytes, n, &p);
	if (found)
		secret_hide(v->run, p.text, is_full(&p));
	PTHREAD_OK(pthread_mutex_lock(&v->lock));
	if (v->out == NULL)
		v->out = outbuf_create(OUTBUF_LIMIT);
	outbuf_add(v->out, buf_str(&v->piece), v->piece.len);
	if (found)
		news = note_progress(v, &p);
	PTHREAD_OK(pthread_mutex_unlock(&v->lock));
	if (news)
		ring(v);
}

void
live_progress(struct live *v, double percent, const char *text)
{
	struct progress p;
	bool news;

	progress_set(&p, percent, text);
	secret_hide(v->run, p.text, is_full(&p));
	atomic_store(&v->run->sign_us, clock_mono_us());
	PTHREAD_OK(pthread_mutex_lock(&v->lock));
	news = note_progress(v, &p);
	PTHREAD_OK(pthread_mutex_unlock(&v->lock));
	if (news)
		ring(v);
}

void
live_waits_for(struct live *v, const char *text)
{
	struct progress p;
	bool news;

	progress_set(&p, -1, text); /* the same rules */
	secret_hide(v->run, p.text, is_full(&p));
	PTHREAD_OK(pthread_mutex_lock(&v->lock));
	memcpy(v->waits_for, p.text, sizeof v->waits_for);
	news = changes(v);
	PTHREAD_OK(pthread_mutex_unlock(&v->lock));
	if (news)
		ring(v);
}

static void
fill_note(struct live *v, bool stopping, int64_t now, struct live_note *out)
{
	int64_t stop_us = atomic_load(&v->run->stop.at_us);

	ASSERT_LOCKED(&v->lock);
	*out = (struct live_note){.key = key_of(v->run), .progress = v->progress};
	out->progress_ago_us = v->progress_us == 0 ? -1 : now - v->progress_us;
	out->stopping_ago_us = stopping ? now - stop_us : -1;
	memcpy(out->waits_for, v->waits_for, sizeof out->waits_for);
}

void
lives_changes(struct lives *l, bool again, int64_t patience_us, struct live_changes *out)
{
	int64_t now = clock_mono_us();
	struct live *v;
	size_t n = 0;

	*out = (struct live_changes){.next_us = CLOCK_NEVER};
	WITH_LOCK(&l->lock);
	TAILQ_FOREACH (v, &l->under_way, next)
		n++;
	out->notes = xcalloc(n + 1, sizeof *out->notes);
	TAILQ_FOREACH (v, &l->under_way, next) {
		int64_t stop_us = atomic_load(&v->run->stop.at_us);
		bool stopping = stop_us != 0 && now - stop_us >= patience_us;

		if (stop_us != 0 && !stopping && stop_us + patience_us < out->next_us)
			out->next_us = stop_us + patience_us;
		PTHREAD_OK(pthread_mutex_lock(&v->lock));
		if (v->changed || (stopping && !v->stop_is_told) || (again && v->told)) {
			fill_note(v, stopping, now, &out->notes[out->n_notes++]);
			v->changed = false;
			v->stop_is_told = stopping;
			v->told = true;
		}
		PTHREAD_OK(pthread_mutex_unlock(&v->lock));
	}
	out->ended = l->ended;
	out->n_ended = l->n_ended;
	l->ended = NULL;
	l->n_ended = l->cap_ended = 0;
}

static void
fill_output(struct live *v, struct live_output *out)
{
	int64_t total = v->out == NULL ? 0 : (int64_t)outbuf_total(v->out);

	v->told = true;
	if (total == v->shown)
		return;
	v->shown = out->total = total;
	out->text = v->out == NULL ? xstrdup("") : outbuf_text_of(v->out, &out->unbroken);
	secret_hide(v->run, out->text, true);
}

static struct live *
find(struct lives *l, const struct live_key *key)
{
	struct live *v;

	ASSERT_LOCKED(&l->lock);
	TAILQ_FOREACH (v, &l->under_way, next) {
		const struct run *r = v->run;

		if (r->id == key->id && r->version == key->version && r->incarnation == key->incarnation)
			return v;
	}
	return NULL;
}

void
lives_output(struct lives *l, const struct live_key *key, struct live_output *out)
{
	struct live *v;

	*out = (struct live_output){.key = *key};
	WITH_LOCK(&l->lock);
	if ((v = find(l, key)) != NULL) {
		PTHREAD_OK(pthread_mutex_lock(&v->lock));
		fill_output(v, out);
		PTHREAD_OK(pthread_mutex_unlock(&v->lock));
	}
}

void
lives_not_shown(struct lives *l, const struct live_key *key)
{
	struct live *v;

	WITH_LOCK(&l->lock);
	if ((v = find(l, key)) != NULL)
		v->shown = -1;
}

void
lives_not_taken_back(struct lives *l, const struct live_key *ended, size_t n)
{
	WITH_LOCK(&l->lock);
	for (size_t i = 0; i < n; i++)
		note_ended(l, ended[i]);
}
