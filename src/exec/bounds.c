#include "exec/bounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

/* "[owner app] run_as", or "run_as". */
static const char *
where_is(const struct bounds_texts *t, const char *key, char *out, size_t size)
{
	if (t->owner == NULL)
		snprintf(out, size, "%s", key);
	else
		snprintf(out, size, "[owner %s] %s", t->owner, key);
	return out;
}

static enum rc
check_programs(const struct texts *programs, const char *where, struct err *err)
{
	for (size_t i = 0; i < programs->n; i++) {
		if (programs->item[i][0] != '/')
			return err_set(err, RC_BAD,
			    "%s: \"%.200s\" does not begin with a slash; name programs by their whole path",
			    where, programs->item[i]);
	}
	return RC_OK;
}

static enum rc
make_surroundings(
    struct bounds *b, const struct bounds_common *c, const struct bounds_texts *t, struct err *err)
{
	char where[120];
	enum rc rc = surroundings_make(&b->around, NULL, c->job_cwd, c->job_umask, c->job_nice, err);

	if (rc == RC_OK)
		rc =
		    surroundings_user(&b->around, where_is(t, "run_as", where, sizeof where), t->run_as, err);
	if (rc == RC_OK)
		rc = surroundings_env(&b->around, "job_env", c->job_env, err);
	if (rc == RC_OK)
		rc = surroundings_folder(
		    &b->around, where_is(t, "directory", where, sizeof where), t->directory, err);
	if (rc == RC_OK)
		rc = surroundings_limit(&b->around,
		    where_is(t, t->owner == NULL ? "job_limits" : "limits", where, sizeof where), t->limits,
		    err);
	return rc;
}

static enum rc
make(struct bounds *b, const struct bounds_common *c, const struct bounds_texts *t, struct err *err)
{
	char where[120];
	enum rc rc;

	*b = (struct bounds){.owner = xstrdup(t->owner)};
	if (t->programs != NULL)
		texts_split(&b->programs, t->programs, ", \t");
	if (t->variables != NULL)
		texts_split(&b->variables, t->variables, ", \t");
	rc = make_surroundings(b, c, t, err);
	if (rc == RC_OK)
		rc = check_programs(&b->programs, where_is(t, "programs", where, sizeof where), err);
	if (rc == RC_OK)
		rc = http_hosts_read(
		    &b->hosts, where_is(t, "http_hosts", where, sizeof where), t->http_hosts, err);
	b->no_root = t->run_as == NULL && geteuid() == 0 && !c->allow_root;
	return rc;
}

#define OR(a, b) ((a) != NULL ? (a) : (b))

enum rc
bounds_make(struct bounds_list *l, const struct bounds_common *common, const struct bounds_texts *texts,
    size_t n, struct err *err)
{
	const struct bounds_texts *all = &texts[0];
	enum rc rc = RC_OK;

	*l = (struct bounds_list){.item = xcalloc(n, sizeof *l->item)};
	for (size_t i = 0; rc == RC_OK && i < n; i++) {
		struct bounds_texts t = texts[i];

		t.run_as = OR(t.run_as, all->run_as);
		t.directory = OR(t.directory, all->directory);
		t.programs = OR(t.programs, all->programs);
		t.variables = OR(t.variables, all->variables);
		t.http_hosts = OR(t.http_hosts, all->http_hosts);
		t.limits = OR(t.limits, all->limits);
		rc = make(&l->item[l->n++], common, &t, err);
	}
	return rc;
}

void
bounds_fini(struct bounds_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct bounds *b = &l->item[i];

		free(b->owner);
		surroundings_fini(&b->around);
		texts_fini(&b->programs);
		texts_fini(&b->variables);
		http_hosts_fini(&b->hosts);
	}
	free(l->item);
	*l = (struct bounds_list){0};
}

const struct bounds *
bounds_of(const struct bounds_list *l, const char *owner)
{
	for (size_t i = 1; owner != NULL && i < l->n; i++) {
		if (strcmp(l->item[i].owner, owner) == 0)
			return &l->item[i];
	}
	return &l->item[0];
}

/* A script runs what its interpreter's variables say (SHELLOPTS, PERL5OPT, PYTHONPATH), a program what its
 * loader's say, and no list of these is complete: so the file names those that are harmless. */
static bool
may_set(const struct bounds *b, const char *pair)
{
	for (size_t i = 0; i < b->variables.n; i++) {
		const char *name = b->variables.item[i];
		size_t n = strlen(name);

		if (strncmp(pair, name, n) == 0 && pair[n] == '=')
			return true;
	}
	return false;
}

enum rc
bounds_program(const struct bounds *b, const char *program, const char *const *env, struct err *err)
{
	if (b->no_root)
		return err_set(err, RC_BAD,
		    "could not start: this node runs as root, and its file neither names a user for the task "
		    "(run_as) nor says allow_root = yes");
	if (b->programs.item == NULL)
		return RC_OK;
	if (!texts_have(&b->programs, program))
		return err_set(err, RC_BAD,
		    "could not start: %.200s is not among the programs that the file of this node allows "
		    "(programs)",
		    program);
	for (; *env != NULL; env++) {
		if (!may_set(b, *env))
			return err_set(err, RC_BAD,
			    "could not start: args.env has %.*s; where the file of this node lists programs, "
			    "it must list the variables that a task may set, too (variables)",
			    (int)strcspn(*env, "="), *env);
	}
	return RC_OK;
}

bool
bounds_all_root(const struct bounds_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!l->item[i].no_root)
			return false;
	}
	return true;
}
