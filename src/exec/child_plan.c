/* The environment is made from nothing: what the node's file says, what the task asks for, and on top of that
 * the variables that say which run this is.  Nothing of the node's own environment gets into it. */
#include "exec/child.h"

#include <inttypes.h>
#include <string.h>

#include "exec/surroundings.h"

static enum rc
take_env(struct child_plan *p, const char *text, struct err *err)
{
	if (text[0] == '=' || strchr(text, '=') == NULL)
		return err_set(err, RC_BAD,
		    "args.env must be an object of names and values, {\"NAME\": \"value\"}; it has \"%.60s\"",
		    text);
	texts_set(&p->env, "%s", text);
	texts_add(&p->asked, text);
	return RC_OK;
}

static enum rc
take_once(const char **field, const struct pgrab_arg *a, struct err *err)
{
	if (*field != NULL)
		return err_set(err, RC_BAD, "args.%s must be one text, not an array or an object", a->key);
	*field = a->value;
	return RC_OK;
}

static enum rc
take_arg(struct child_plan *p, bool takes_argv, const char *kind, const struct pgrab_arg *a, struct err *err)
{
	if (takes_argv && strcmp(a->key, "argv") == 0) {
		texts_add(&p->argv, a->value);
		return RC_OK;
	}
	if (strcmp(a->key, "env") == 0)
		return take_env(p, a->value, err);
	if (strcmp(a->key, "stdin") == 0)
		return take_once(&p->stdin_text, a, err);
	if (strcmp(a->key, "cwd") == 0)
		return take_once(&p->cwd, a, err);
	if (strcmp(a->key, "umask") == 0)
		return take_once(&p->umask, a, err);
	if (strcmp(a->key, "limits") == 0)
		return limits_read(&p->limits, "args.limits", a->value, err);
	return err_set(err, RC_BAD, "kind %s knows no args.%.60s; it knows %senv, stdin, cwd, umask, limits",
	    kind, a->key, takes_argv ? "argv, " : "");
}

static void
say_which_run(struct child_plan *p, const struct pgrab_run *run)
{
	texts_set(&p->env, "PGRAB_TASK_ID=%" PRId64, run->task_id);
	texts_set(&p->env, "PGRAB_FIRE_AT=%s", run->fire_at);
	texts_set(&p->env, "PGRAB_ATTEMPT=%" PRId32, run->attempt);
	texts_set(&p->env, "PGRAB_FENCE=%s", run->fence);
	texts_set(&p->env, "PGRAB_IDEMPOTENCY_KEY=%" PRId64 "-%s", run->task_id, run->fire_at);
	if (run->traceparent != NULL)
		texts_set(&p->env, "TRACEPARENT=%s", run->traceparent);
}

enum rc
child_plan_make(struct child_plan *p, const char *const *argv, bool takes_argv, const char *const *env,
    const struct pgrab_run *run, struct err *err)
{
	enum rc rc = RC_OK;

	*p = (struct child_plan){0};
	texts_split(&p->asked, "", "");
	for (; *argv != NULL; argv++)
		texts_add(&p->argv, *argv);
	for (; *env != NULL; env++)
		texts_set(&p->env, "%s", *env);
	for (size_t i = 0; rc == RC_OK && i < run->n_args; i++)
		rc = take_arg(p, takes_argv, run->kind, &run->args[i], err);
	if (rc == RC_OK)
		say_which_run(p, run);
	return rc;
}

void
child_plan_fini(struct child_plan *p)
{
	texts_fini(&p->argv);
	texts_fini(&p->env);
	texts_fini(&p->asked);
	*p = (struct child_plan){0};
}
