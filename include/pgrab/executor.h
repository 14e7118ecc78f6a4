/*
 * pgrab executor interface: how a kind of task is carried out.
 *
 * An executor is a const struct of functions.  The built-in kinds (sql, shell, exec, http, notify, noop) use
 * this interface; a third party builds a shared object against this header alone, exports
 *
 *     const struct pgrab_executor *pgrab_executor_v2(void);
 *
 * and names the file in the node's `executors` setting.  Nothing here may change meaning within one ABI
 * number; structs only grow at the end, and each says its size as its author knows it.
 */
#ifndef PGRAB_EXECUTOR_H
#define PGRAB_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGRAB_EXECUTOR_ABI   2
#define PGRAB_EXECUTOR_ENTRY "pgrab_executor_v2"

/* One of a task's args, taken apart: a scalar gives one (key, text); an array gives one per element under the
 * same key; an object gives one per member under the object's key with the value "member=text".  JSON null
 * gives nothing. */
struct pgrab_arg {
	const char *key;
	const char *value;
};

/* What to run.  Read-only, valid until run() returns.  Strings are UTF-8 and never NULL. */
struct pgrab_run {
	uint32_t size; /* sizeof(struct pgrab_run) as the node knows it */
	int64_t task_id;
	int64_t version; /* with incarnation: the fence */
	int64_t incarnation;
	const char *name; /* "" when the task has none */
	const char *kind;
	const char *command;
	const char *fire_at; /* planned time, ISO 8601 UTC, "2026-11-21T05:00:00.000000Z" */
	const char *fence;   /* "incarnation-version": pass it on so that others can check it */
	int32_t attempt;     /* 1, 2, ... */
	int32_t max_attempts;
	int64_t timeout_us; /* for information: the node itself raises PGRAB_STOP_TIMEOUT */
	size_t n_args;
	const struct pgrab_arg *args;
	const char *owner; /* the role whose task it is */
	/* built-in sql: for a finish on its owner's connection; http: the token of its callback; else NULL */
	const char *proof;

	/* A node may lack what follows: look at size first. */

	const char
	    *traceparent; /* W3C trace context, this run being the parent; NULL: it belongs to no trace */
};

enum pgrab_stop {
	PGRAB_STOP_NONE = 0,
	PGRAB_STOP_TIMEOUT,  /* the task's timeout passed */
	PGRAB_STOP_CANCEL,   /* a person cancelled the run */
	PGRAB_STOP_FENCED,   /* the node lost its lease: stop at once, the result will not be used */
	PGRAB_STOP_SHUTDOWN, /* the node's drain_timeout passed */
	PGRAB_STOP_PREEMPTED /* more important work waits for its worker */
};

/* What the node does for a run.  Call only from the thread that is in run(). */
struct pgrab_host {
	uint32_t size;
	void *ctx;
	/* A file descriptor for poll(2) that becomes readable, and stays so, when the run must stop. */
	int stop_fd;
	enum pgrab_stop (*stop)(void *ctx);
	/* Appends to the run's output: any bytes; kept to 64 KiB head and tail. */
	void (*output)(void *ctx, const void *bytes, size_t n);
	/* One line in the node's log, at info level. */
	void (*log)(void *ctx, const char *text);

	/* A node may lack what follows: ask pgrab_host_has first. */

	/*
	 * How far the run is: percent from 0 to 100, negative or NaN if unknown; text, what it is doing
	 * in one line, may be NULL.  Shown in pgrab.running.  Cheap: call it as often as you like, the
	 * node tells the database about once per heartbeat.  It is also a sign of life, as output is:
	 * see the task's stall_after.
	 */
	void (*progress)(void *ctx, double percent, const char *text);
	/* After a stop: what must still end before run() can return, in one line, for
	 * people.  NULL takes it back. */
	void (*waits_for)(void *ctx, const char *text);
};

/* Does this node offer a member of struct pgrab_host? */
#define pgrab_host_has(host, member) \
	((host)->size >= offsetof(struct pgrab_host, member) + sizeof((host)->member))

/* How it ended.  All zero but size before run() is called: an executor that sets nothing has
 * failed, for no stated reason. */
struct pgrab_result {
	uint32_t size; /* sizeof(struct pgrab_result) as the node knows it: write nothing beyond */
	bool succeeded;
	bool has_exit_code;
	bool recorded;     /* built-in sql only: nothing is left to record, see sql.c */
	bool not_started;  /* nothing was executed (fork refused, ...): the attempt is not counted */
	int32_t exit_code; /* process exit status, 128 + signal, or HTTP status */
	char error[1024];  /* why it failed, one plain sentence, printable UTF-8 */
	/* When it failed: how long to wait before the next attempt, up to a day; 0: the task's backoff. */
	int64_t retry_after_us;

	/* A node may lack what follows: look at size first. */

	/* What the run took, if that is known: processor time, and the most memory at once; 0: unknown. */
	int64_t cpu_us, memory_bytes;
};

#define PGRAB_EXECUTOR_INSTANT \
	1u /* never blocks and touches nothing outside: may be run in batches, cannot be stopped */

struct pgrab_executor {
	uint32_t abi;        /* PGRAB_EXECUTOR_ABI */
	uint32_t size;       /* sizeof(struct pgrab_executor) */
	const char *kind;    /* [a-z][a-z0-9_]*, at most 32 characters */
	const char *summary; /* one line for `pgrab executor list` and the table pgrab.kind */
	uint32_t flags;
	/*
	 * Called once in each worker thread before its first run of this kind; what it returns is handed to
	 * run() and close() in that thread only, so it needs no locks.  NULL with a message in err means that
	 * this kind cannot be run here.  `internal` is NULL for a plug-in.
	 */
	void *(*open)(const void *internal, char *err, size_t err_size);
	void (*close)(void *self);
	void (*run)(void *self, const struct pgrab_run *run, const struct pgrab_host *host,
	    struct pgrab_result *result);
};

typedef const struct pgrab_executor *(*pgrab_executor_entry_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
