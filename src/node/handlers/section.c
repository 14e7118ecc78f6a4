/* From a [pool NAME] section of the file to a pool: what is started, as whom and where, and for
 * which kinds. */
#include "node/handlers/private.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/exec.h"
#include "node/settings/settings.h"

/* "a, b" as a list; one block. */
static char **
kinds_of(const char *text)
{
	size_t len = strlen(text), n = 0;
	char **list = xmalloc((len / 2 + 2) * sizeof *list + len + 1);
	char *copy = (char *)(list + len / 2 + 2), *save = NULL;

	memcpy(copy, text, len + 1);
	for (char *k = strtok_r(copy, ", \t", &save); k != NULL; k = strtok_r(NULL, ", \t", &save))
		list[n++] = k;
	list[n] = NULL;
	return list;
}

static enum rc
check_kinds(const struct handlers *h, size_t i, struct err *err)
{
	char **kinds = h->section[i].kinds;

	if (strcmp(h->setup[i].name, "http") == 0)
		return err_set(err, RC_BAD, "the crew of kind http has that name; choose another");
	if (kinds[0] == NULL)
		return err_set(err, RC_BAD, "it names no kinds; for example: kinds = send_email, send_sms");
	for (size_t k = 0; kinds[k] != NULL; k++) {
		if (!exec_kind_valid(kinds[k]))
			return err_set(err, RC_BAD,
			    "kinds: \"%.64s\" is not a name: a lower-case letter, then lower-case letters, "
			    "digits and _, at most 32 characters",
			    kinds[k]);
		if (exec_kind_builtin(kinds[k]) || exec_set_find(h->node->execs, kinds[k]) != NULL)
			return err_set(err, RC_BAD, "kinds: the kind \"%s\" exists", kinds[k]);
		for (size_t j = 0; j < k; j++) {
			if (strcmp(kinds[j], kinds[k]) == 0)
				return err_set(err, RC_BAD, "kinds: \"%s\" is given twice", kinds[k]);
		}
		if (handlers_crew(h, kinds[k]) != i + 1)
			return err_set(
			    err, RC_BAD, "kinds: \"%s\" belongs to another section already", kinds[k]);
	}
	return RC_OK;
}

/* Refused at the start: a role that may insert tasks of these kinds decides what such a process works on, and
 * its program may be anybody's file. */
static enum rc
check_root(const struct settings *set, const struct pool_settings *w, struct err *err)
{
	if (geteuid() != 0 || set->allow_root || w->run_as != NULL || set->run_as != NULL)
		return RC_OK;
	return err_set(err, RC_BAD,
	    "this node is root, and so would its processes be. Name the user that they run as "
	    "(run_as = USER), or say allow_root = yes");
}

static enum rc
make_around(
    struct surroundings *s, const struct settings *set, const struct pool_settings *w, struct err *err)
{
	enum rc rc = check_root(set, w, err);

	if (rc == RC_OK && w->cwd != NULL && w->cwd[0] != '/')
		rc = err_set(err, RC_BAD, "cwd: \"%.200s\" does not begin with a slash", w->cwd);
	if (rc == RC_OK)
		rc = surroundings_make(
		    s, NULL, w->cwd == NULL ? set->job_cwd : w->cwd, set->job_umask, (int)set->job_nice, err);
	if (rc == RC_OK)
		rc = surroundings_user(s, "run_as", w->run_as == NULL ? set->run_as : w->run_as, err);
	if (rc == RC_OK && w->env != NULL)
		rc = surroundings_env(s, "env", w->env, err);
	else if (rc == RC_OK)
		rc = surroundings_env(s, "job_env", set->job_env, err);
	if (rc == RC_OK)
		rc = surroundings_limit(s, "limits", w->limits == NULL ? set->job_limits : w->limits, err);
	return rc;
}

enum rc
handlers_section(struct handlers *h, size_t i, struct err *err)
{
	const struct settings *set = h->node->set;
	const struct pool_settings *w = &set->handlers[i];
	struct pool_setup *s = &h->setup[i];
	enum rc rc = pool_words(w->command == NULL ? "" : w->command, &h->section[i].argv, err);

	h->section[i].kinds = kinds_of(w->kinds == NULL ? "" : w->kinds);
	*s = (struct pool_setup){.name = w->name,
	    .argv = (const char *const *)h->section[i].argv,
	    .kinds = (const char *const *)h->section[i].kinds,
	    .processes = (int)w->processes,
	    .at_once = (int)w->concurrency,
	    .max_tasks = w->max_tasks,
	    .start_timeout_us = w->start_timeout_us,
	    .ping_timeout_us = w->ping_timeout_us};
	h->n = i + 1;
	if (rc == RC_OK)
		rc = make_around(&s->around, set, w, err);
	if (rc == RC_OK)
		rc = check_kinds(h, i, err);
	if (rc != RC_OK)
		err_prefix(err, "[pool %s]", w->name);
	return rc;
}
