#include "node/runs/saved.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/secret.h"
#include "node/runs/teller.h"

void
saved_begin(struct saved *s, struct teller *t, struct run *r)
{
	bool keeps = strcmp(r->task.kind, "shell") == 0 || strcmp(r->task.kind, "exec") == 0;

	*s = (struct saved){.run = r, .teller = keeps ? t : NULL};
	lock_init(&s->lock);
	PTHREAD_OK(pthread_cond_init(&s->idle, NULL));
}

static void
send(struct saved *s, char *json)
{
	struct step *step = xcalloc(1, sizeof *step);

	*step = (struct step){.id = s->run->id,
	    .version = s->run->version,
	    .incarnation = s->run->incarnation,
	    .name = xstrdup(CHECKPOINT_STEP),
	    .result = json,
	    .saved = s};
	teller_step(s->teller, step);
}

static void
save(struct saved *s, char *json)
{
	bool busy;

	PTHREAD_OK(pthread_mutex_lock(&s->lock));
	busy = s->under_way;
	s->under_way = true;
	if (busy) {
		free(s->next);
		s->next = json;
	}
	PTHREAD_OK(pthread_mutex_unlock(&s->lock));
	if (!busy)
		send(s, json);
}

void
saved_print(struct saved *s, const char *bytes, size_t n)
{
	struct buf json = {0};
	AUTO_FREE char *text = NULL;

	if (s->teller == NULL || !checkpoint_read(&s->reader, bytes, n, &text))
		return;
	if (text == NULL) {
		log_warn("checkpoint",
		    "task=%" PRId64 " error=\"it is longer than %d bytes, and not recorded\"", s->run->id,
		    CHECKPOINT_MAX);
		return;
	}
	secret_hide(s->run, text, false);
	buf_json(&json, text);
	save(s, buf_steal(&json));
}

void
saved_answer(struct step *step)
{
	struct saved *s = step->saved;
	const char *fault = step_fault(step);
	char *next;

	if (fault != NULL)
		log_warn("checkpoint", "task=%" PRId64 " error=\"it is not recorded: %s\"", step->id, fault);
	step_free(step);
	WITH_LOCK(&s->lock);
	next = s->next;
	s->next = NULL;
	s->under_way = next != NULL;
	if (next != NULL)
		send(s, next);
	else
		PTHREAD_OK(pthread_cond_signal(&s->idle));
}

void
saved_end(struct saved *s)
{
	PTHREAD_OK(pthread_mutex_lock(&s->lock));
	while (s->under_way)
		PTHREAD_OK(pthread_cond_wait(&s->idle, &s->lock));
	PTHREAD_OK(pthread_mutex_unlock(&s->lock));
	checkpoint_fini(&s->reader);
	PTHREAD_OK(pthread_cond_destroy(&s->idle));
	PTHREAD_OK(pthread_mutex_destroy(&s->lock));
}
