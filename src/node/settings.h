/*
 * The settings of `pgrab run`: one table of keys gives flag, ini key, environment variable, default, range
 * and help.
 */
#ifndef PGRAB_NODE_SETTINGS_H
#define PGRAB_NODE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "base/rc.h"

struct settings {
	char *dsn;
	char *listen_dsn; /* NULL: dsn */
	char *config;
	char *name;
	char *strategy, *strategy_options;
	double weight;
	char *labels; /* "zone=eu,disk=ssd", NULL: none */
	int64_t workers, loaders;
	int64_t lookahead_us, poll_us;
	int64_t heartbeat_us, fence_after_us, dead_after_us, kill_grace_us;
	int64_t steal_after_us;
	char *allow;
	char *executors;                     /* paths of .so files, comma-separated */
	char *job_env, *job_cwd, *job_umask; /* what children find; see exec/surroundings.h */
	int64_t job_nice;
	char *job_limits;
	int job_cgroups; /* 0 auto, 1 off */
	int64_t drain_timeout_us;
	int64_t retention_us;
	bool at_most_once_async;
	int log_level;  /* enum log_level */
	int log_format; /* enum log_format */
};

extern const struct option_key settings_keys[];

/* Reads environment, file and flags (argv[1..argc)), fills in defaults and checks what hangs together.
 * RC_BAD: err says what and where. */
CHECKED enum rc settings_load(int argc, char **argv, struct settings *out, bool *help_out, struct err *err);
void settings_fini(struct settings *s);

/* labels as a JSON object, values as strings: {"zone":"eu"}.  Caller frees. RC_BAD: not key=value,key=value.
 */
CHECKED enum rc settings_labels_json(const char *labels, char **out, struct err *err);

#endif
