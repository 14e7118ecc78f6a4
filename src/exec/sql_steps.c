/* args.steps: each step is a transaction of its own, with the fence check and its own record, so its effect
 * is there exactly once; that of the last one also has the finish.  A later attempt of the fire asks which
 * steps are recorded, and goes on with the first that is not. */
#include "exec/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/args.h"
#include "db/sql.h"

/* Prints nothing.  For a run that finds everything done, and has only to be finished. */
#define NOTHING "select where false"

struct step {
	struct pairs member; /* owns the two */
	const char *name, *command;
	bool done;
};

struct sql_steps {
	struct step *item; /* in the order of args.steps */
	size_t n;
	char *output; /* what the last one has printed in an earlier attempt; NULL: it is not done */
	size_t did;   /* in this attempt */
};

bool
sql_has_steps(const struct pgrab_run *run)
{
	return run->n_args > 0 && strcmp(run->args[0].key, "steps") == 0;
}

static void
steps_fini(struct sql_steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		pairs_fini(&s->item[i].member);
	free(s->item);
	free(s->output);
}

/* Only the text is left to check: the insert has checked the rest. */
static enum rc
take(const struct pgrab_run *run, struct sql_steps *s, struct err *err)
{
	s->item = xcalloc(run->n_args, sizeof *s->item);
	for (size_t i = 0; i < run->n_args && strcmp(run->args[i].key, "steps") == 0; i++) {
		struct step *step = &s->item[s->n];
		const char *text = run->args[i].value;
		enum rc rc = args_read(text, strlen(text), &step->member, err);

		s->n++;
		if (rc != RC_OK)
			return rc;
		step->name = pairs_get(&step->member, "name");
		step->command = pairs_get(&step->member, "command");
		if (step->name == NULL || step->command == NULL)
			return err_set(err, RC_BAD, "args.steps has one without a name or a command");
	}
	return RC_OK;
}

/* Which are done; what the last one has printed. */
static enum rc
look(const struct sql_work *k, struct sql_steps *s, struct err *err)
{
	const char *params[] = {k->id, k->version, k->incarnation, s->item[s->n - 1].name};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(k->worker->db, sql_text("sql_steps_done"), 4, params, &res, err);

	for (int row = 0; rc == RC_OK && row < PQntuples(res); row++) {
		const char *name = db_text(res, row, 0);

		for (size_t i = 0; i < s->n; i++)
			s->item[i].done = s->item[i].done || strcmp(s->item[i].name, name) == 0;
		if (strcmp(s->item[s->n - 1].name, name) == 0) {
			free(s->output);
			s->output = xstrdup(db_text(res, row, 1));
		}
	}
	return rc;
}

enum rc
sql_step_recorded(struct sql_work *k, bool *recorded_out, struct err *err)
{
	enum rc rc = look(k, k->steps, err);

	*recorded_out = false;
	for (size_t i = 0; i < k->steps->n; i++) {
		if (strcmp(k->steps->item[i].name, k->step) == 0)
			*recorded_out = k->steps->item[i].done;
	}
	return rc;
}

/* The first from `from` on that is not done, or n. */
static size_t
next_undone(const struct sql_steps *s, size_t from)
{
	while (from < s->n && s->item[from].done)
		from++;
	return from;
}

static void
say_which(struct pgrab_result *result, const char *name)
{
	char why[sizeof result->error];

	if (result->error[0] == '\0')
		return;
	memcpy(why, result->error, sizeof why);
	snprintf(result->error, sizeof result->error, "step %.200s: %.800s", name, why);
}

/* i: a step, or n: all are done.  True: it was committed. */
static bool
run_one(struct sql_work *k, struct sql_steps *s, size_t i)
{
	bool any = i < s->n;

	k->step = any ? s->item[i].name : NULL;
	k->closes = next_undone(s, i + 1) >= s->n;
	k->output = k->closes ? s->output : NULL;
	k->committed = false;
	if (sql_text_of_step(any ? s->item[i].command : NOTHING, &k->text, k->result))
		sql_run_on_session(k);
	sql_text_fini(&k->text);
	if (!k->committed && any)
		say_which(k->result, k->step);
	if (k->committed && any) {
		k->result->error[0] = '\0'; /* a reply that was lost: it has been found out */
		s->item[i].done = true;
		s->did++;
		if (!k->closes && k->session->rows)
			k->host->output(k->host->ctx, "\n", 1);
	}
	return k->committed;
}

void
sql_run_steps(struct sql_work *k)
{
	struct sql_steps s = {0};
	struct err err = {0};
	enum rc rc = take(k->run, &s, &err);
	size_t i;

	k->steps = &s;
	if (rc != RC_OK)
		snprintf(k->result->error, sizeof k->result->error, "%s", err.text);
	else if (look(k, &s, &err) != RC_OK)
		sql_not_begun(k, err.text);
	else {
		do
			i = next_undone(&s, 0);
		while (run_one(k, &s, i) && !k->closes);
	}
	if (s.did > 0)
		k->result->not_started = false; /* the attempt is one: the history has its steps */
	k->steps = NULL;
	steps_fini(&s);
}
