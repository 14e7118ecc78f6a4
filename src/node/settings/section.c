/* The sections of the file: [owner NAME], [pool NAME]. */
#include "node/settings/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "handler/pool.h"
#include "handler/protocol.h"

#define NAME_MAX_BYTES 63 /* of a role */
#define OWNERS_MAX     1000

static const struct option_key owner_keys[] = {
    {"service", 0, OPTION_TEXT, offsetof(struct owner_settings, service), "NAME",
	"how to log in as this owner, for its sql tasks: a libpq service"},
    {"dsn", 0, OPTION_TEXT, offsetof(struct owner_settings, dsn), "DSN", "the same as a connection string",
	.secret = true},
    {"run_as", 0, OPTION_TEXT, offsetof(struct owner_settings, run_as), "USER[:GROUP]",
	"the user that its shell and exec tasks run as"},
    {"directory", 0, OPTION_TEXT, offsetof(struct owner_settings, directory), "FOLDER",
	"where its shell and exec tasks start"},
    {"allow", 0, OPTION_TEXT, offsetof(struct owner_settings, allow), "KIND,...",
	"kinds that this node runs for it, among the node's own"},
    {"programs", 0, OPTION_TEXT, offsetof(struct owner_settings, programs), "PATH,...",
	"programs that its exec tasks may start"},
    {"variables", 0, OPTION_TEXT, offsetof(struct owner_settings, variables), "NAME,...",
	"variables that its tasks may set for these programs"},
    {"http_hosts", 0, OPTION_TEXT, offsetof(struct owner_settings, http_hosts), "HOST,...",
	"hosts that its http tasks may talk to"},
    {"limits", 0, OPTION_TEXT, offsetof(struct owner_settings, limits), "memory=SIZE,processes=N,cpu=N",
	"upper bounds for each of its shell and exec tasks"},
    {.name = NULL},
};

#define POOL(f) offsetof(struct pool_settings, f)

static const struct option_key pool_keys[] = {
    {"command", 0, OPTION_TEXT, POOL(command), "PROGRAM ARGS...",
	"the program to start, without a shell; it speaks the protocol of docs/handlers.md"},
    {"kinds", 0, OPTION_TEXT, POOL(kinds), "KIND,...", "kinds of task that these processes handle"},
    {"processes", 0, OPTION_INT, POOL(processes), "N", "how many processes", "1", 1, 256},
    {"concurrency", 0, OPTION_INT, POOL(concurrency), "N",
	"how many tasks one process has at once, at most; 0: as many as it says", "0", 0, PROTOCOL_AT_ONCE},
    {"max_tasks", 0, OPTION_INT, POOL(max_tasks), "N",
	"a process is replaced after this many tasks; 0: never", "0", 0, 1e12},
    {"run_as", 0, OPTION_TEXT, POOL(run_as), "USER[:GROUP]",
	"the user that they run as, with its groups; default: the node's run_as"},
    {"cwd", 0, OPTION_TEXT, POOL(cwd), "FOLDER", "where they start; default: job_cwd"},
    {"env", 0, OPTION_TEXT, POOL(env), "NAME=VALUE,...", "their environment; default: job_env",
	.secret = true},
    {"limits", 0, OPTION_TEXT, POOL(limits), "memory=SIZE,processes=N,cpu=N",
	"upper bounds for each process; default: job_limits"},
    {"start_timeout", 0, OPTION_DURATION, POOL(start_timeout_us), "TIME",
	"a process that has not said hello by then is replaced", "30s", 1e5, 3600e6},
    {"ping_timeout", 0, OPTION_DURATION, POOL(ping_timeout_us), "TIME",
	"a process that does not answer for this long is replaced", "30s", 1e5, 3600e6},
    {.name = NULL},
};

/* False: err says why not. */
static bool
pool_name_ok(const struct settings *s, const char *name, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	for (size_t i = 0; i < s->n_handlers; i++) {
		if (strcmp(s->handlers[i].name, name) == 0)
			return err_set(err, RC_BAD, "[pool %s] is given twice", name) == RC_OK;
	}
	if (name[strspn(name, letters)] != '\0' || strlen(name) > NAME_MAX_BYTES)
		return err_set(err, RC_BAD, "[pool %.80s]: a name is letters, digits, _ and -, at most %d",
			   name, NAME_MAX_BYTES) == RC_OK;
	if (s->n_handlers == POOLS_MAX)
		return err_set(err, RC_BAD, "a file holds at most %d pools", POOLS_MAX) == RC_OK;
	return true;
}

static void *
add_pool(void *settings, const char *name, struct err *err)
{
	struct settings *s = settings;
	struct pool_settings *w;

	if (!pool_name_ok(s, name, err))
		return NULL;
	s->handlers = xrealloc(s->handlers, (s->n_handlers + 1) * sizeof *s->handlers);
	w = &s->handlers[s->n_handlers++];
	memset(w, 0, sizeof *w);
	option_defaults(pool_keys, w);
	w->name = xstrdup(name);
	return w;
}

const struct owner_settings *
settings_owner(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_owners; i++) {
		if (strcmp(s->owners[i].name, name) == 0)
			return &s->owners[i];
	}
	return NULL;
}

static void *
add_owner(void *settings, const char *name, struct err *err)
{
	struct settings *s = settings;
	struct owner_settings *o;

	if (strlen(name) > NAME_MAX_BYTES)
		err_set(err, RC_BAD, "the name of a role is at most %d bytes long", NAME_MAX_BYTES);
	else if (settings_owner(s, name) != NULL)
		err_set(err, RC_BAD, "[owner %s] is given twice", name);
	else if (s->n_owners == OWNERS_MAX)
		err_set(err, RC_BAD, "a file holds at most %d owners", OWNERS_MAX);
	else {
		s->owners = xrealloc(s->owners, (s->n_owners + 1) * sizeof *s->owners);
		o = &s->owners[s->n_owners++];
		memset(o, 0, sizeof *o);
		option_defaults(owner_keys, o);
		o->name = xstrdup(name);
		return o;
	}
	return NULL;
}

const struct option_section settings_sections[] = {
    {"owner", owner_keys, add_owner,
	"What the tasks of one owner, a role of the database, get and cannot exceed. A key that is not given "
	"here is as set above."},
    {"pool", pool_keys, add_pool,
	"Long-lived processes that handle tasks of some kinds; the name is for people. A file holds at most "
	"16 of these sections. A node that runs as root does not start unless run_as, here or above, names a "
	"user or allow_root is on."},
    {NULL, NULL, NULL, NULL},
};

void
settings_free_sections(struct settings *s)
{
	for (size_t i = 0; i < s->n_owners; i++) {
		free(s->owners[i].name);
		option_free(owner_keys, &s->owners[i]);
	}
	free(s->owners);
	for (size_t i = 0; i < s->n_handlers; i++) {
		free(s->handlers[i].name);
		option_free(pool_keys, &s->handlers[i]);
	}
	free(s->handlers);
}

static bool
same_section(const struct option_key *keys, const void *a, const void *b)
{
	for (; keys->name != NULL; keys++) {
		if (!option_same(keys, a, b))
			return false;
	}
	return true;
}

bool
settings_same_sections(const struct settings *a, const struct settings *b)
{
	bool same = a->n_owners == b->n_owners && a->n_handlers == b->n_handlers;

	for (size_t i = 0; same && i < a->n_owners; i++)
		same = strcmp(a->owners[i].name, b->owners[i].name) == 0 &&
		       same_section(owner_keys, &a->owners[i], &b->owners[i]);
	for (size_t i = 0; same && i < a->n_handlers; i++)
		same = strcmp(a->handlers[i].name, b->handlers[i].name) == 0 &&
		       same_section(pool_keys, &a->handlers[i], &b->handlers[i]);
	return same;
}
