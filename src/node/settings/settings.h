/* The settings of `pgrab run`: one table of keys gives flag, ini key, environment variable, default, range
 * and help. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/option.h"
#include "base/rc.h"
#include "exec/bounds.h"

/* [owner NAME] of the file: what the tasks of one owner get, and may not exceed. */
struct owner_settings {
	char *name;          /* a role of the database */
	char *service, *dsn; /* how to log in as that role, for its sql tasks; both NULL: it has none here */
	char *run_as;        /* user of the operating system, "user" or "user:group" */
	char *directory;
	char *allow;     /* kinds, of those that the node allows; NULL: all of them */
	char *programs;  /* paths that exec may start; NULL: any */
	char *variables; /* that args.env may set for these; NULL: none */
	char *http_hosts;
	char *limits;
};

/* [pool NAME] of the file: processes that handle tasks of some kinds, see docs/handlers.md. */
struct pool_settings {
	char *name;
	char *command; /* a program and its arguments */
	char *kinds;   /* comma-separated */
	int64_t processes, concurrency, max_tasks;
	char *run_as;             /* NULL: as the node's */
	char *cwd, *env, *limits; /* NULL: as job_cwd and so on */
	int64_t start_timeout_us, ping_timeout_us;
};

struct settings {
	char *dsn;
	char *schema;     /* as schema_use() takes it */
	char *listen_dsn; /* NULL: dsn */
	char *config;
	char *name;
	char *strategy, *strategy_options;
	double weight;
	char *labels;     /* "zone=eu,disk=ssd", NULL: none */
	int min_priority; /* where a band of priorities begins: 0 none, then as in its choices */
	int64_t workers, loaders;
	char *memory;         /* "8GB", NULL: not counted */
	int64_t memory_bytes; /* the same; 0: not counted */
	int64_t lookahead_us, poll_us;
	int64_t heartbeat_us, fence_after_us, dead_after_us, kill_grace_us;
	int64_t steal_after_us;
	int64_t sql_group;        /* 1: each sql run is a transaction of its own */
	int64_t preempt_after_us; /* 0: nothing is stopped for something else */
	char *allow;
	char *executors;                     /* paths of .so files, comma-separated */
	char *job_env, *job_cwd, *job_umask; /* what children start with; see exec/surroundings.h */
	int64_t job_nice;
	char *job_limits;
	int64_t http_slots;
	char *callback_url;
	char *run_as, *http_hosts; /* of owners whose section says nothing else; see exec/bounds.h */
	bool allow_root;
	char *secret_dir; /* NULL: no secrets from files */
	int job_cgroups;  /* 0 auto, 1 off */
	int64_t drain_timeout_us;
	int64_t exit_when_idle_us; /* 0: never */
	int64_t retention_us;
	bool at_most_once_async;
	int outlast_restart; /* enum outlast_restart */
	bool allow_superuser;
	bool core_dumps;
	int log_level;  /* enum log_level */
	int log_format; /* enum log_format */
	struct owner_settings *owners;
	size_t n_owners;
	struct pool_settings *handlers;
	size_t n_handlers;
	char **flags; /* as they were given, for another reading; ended by NULL */
};

/* In the order of their words. */
enum outlast_restart { OUTLAST_RESTART_AUTO, OUTLAST_RESTART_YES, OUTLAST_RESTART_OFF };

extern const struct option_key settings_keys[];

/* [owner NAME] and [pool NAME] of the file; the last has no word. */
extern const struct option_section settings_sections[];

/* Reads environment, file and flags (argv[1..argc)), fills in defaults and checks how they fit together.
 * RC_BAD: err says what and where. */
CHECKED enum rc settings_load(int argc, char **argv, struct settings *out, bool *help_out, struct err *err);
void settings_fini(struct settings *s);

/* Reads them again, with the flags of `old`.  As settings_load. */
CHECKED enum rc settings_reload(const struct settings *old, struct settings *out, struct err *err);

/* NULL: the file has no section for that owner. */
const struct owner_settings *settings_owner(const struct settings *s, const char *name);

/* The text of a JSON object, which is freed.  The caller frees the text. */
struct cJSON;
char *settings_json(struct cJSON *object);

/* labels as a JSON object, values as strings: {"zone":"eu"}.  The caller frees it.  RC_BAD: not
 * key=value,key=value. */
CHECKED enum rc settings_labels_json(const char *labels, char **out, struct err *err);

/* What the settings say about each owner; bounds_fini is needed even after an error.  RC_BAD: the
 * text names section and key. */
CHECKED enum rc settings_bounds(const struct settings *s, struct bounds_list *out, struct err *err);
