/* The sections of the file: [owner NAME], [pool NAME]. */
#include "node/settings/settings.h"

#include <string.h>

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

const struct owner_settings *
settings_owner(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_owners; i++) {
		if (strcmp(s->owners[i].name, name) == 0)
			return &s->owners[i];
	}
	return NULL;
}

#define LIST(list, count)                                                  \
	offsetof(struct settings, list), offsetof(struct settings, count), \
	    sizeof *((struct settings *)0)->list

const struct option_section settings_sections[] = {
    {"owner", owner_keys, LIST(owners, n_owners), OWNERS_MAX, NAME_MAX_BYTES, false,
	"What the tasks of one owner, a role of the database, get and cannot exceed. A key that is not given "
	"here is as set above."},
    {"pool", pool_keys, LIST(handlers, n_handlers), POOLS_MAX, NAME_MAX_BYTES, true,
	"Long-lived processes that handle tasks of some kinds; the name is for people. A file holds at most "
	"16 of these sections. A node that runs as root does not start unless run_as, here or above, names a "
	"user or allow_root is on."},
    {.word = NULL},
};
