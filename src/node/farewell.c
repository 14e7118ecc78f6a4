/* See farewell.h.  The will is a list of texts, each with its NUL: one per enum will, then the
 * environment. */
#include "node/farewell.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/fd.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "db/schema.h"
#include "db/store_node.h"
#include "db/store_task.h"
#include "keeper/keeper.h"

#define CALL_TIMEOUT_US (5 * US_PER_S)
#define PATIENCE_US     (2 * US_PER_S) /* for what takes milliseconds */

enum will {
	WILL_DSN,
	WILL_SCHEMA,
	WILL_NAME,
	WILL_CWD,
	WILL_DEAD_AFTER,
	WILL_LOG_LEVEL,
	WILL_LOG_FORMAT,
	WILL__COUNT
};

static void
add(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static void
add_number(struct buf *b, int64_t n)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRId64, n);
	add(b, text);
}

enum rc
farewell_will(const struct settings *set, int *fd_out, struct err *err)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	AUTO_BUF struct buf b = {0};

	add(&b, set->dsn == NULL ? "" : set->dsn);
	add(&b, schema_name());
	add(&b, set->name);
	add(&b, cwd == NULL ? "/" : cwd);
	add_number(&b, set->dead_after_us);
	add_number(&b, set->log_level);
	add_number(&b, set->log_format);
	for (char **e = environ; *e != NULL; e++)
		add(&b, *e);
	return memfile_make("will", b.data, b.len, fd_out, err);
}

/* The texts of the will, one after the other.  NULL: there is none. */
static char *
read_will(size_t *len_out)
{
	struct stat st;
	char *text;

	if (fstat(KEEPER_WILL_FD, &st) != 0 || st.st_size <= 0)
		return NULL;
	text = xmalloc((size_t)st.st_size + 1);
	if (pread(KEEPER_WILL_FD, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return NULL;
	}
	text[st.st_size] = '\0';
	*len_out = (size_t)st.st_size;
	return text;
}

/* Fills in will and takes over the dead node's environment and folder; all of it lies in text. */
static bool
enter(char *text, size_t len, const char *will[WILL__COUNT])
{
	char *p = text;
	int i = 0;

	for (; p < text + len; p += strlen(p) + 1) {
		if (i < WILL__COUNT)
			will[i++] = p;
		else if (putenv(p) != 0)
			return false;
	}
	return i == WILL__COUNT && chdir(will[WILL_CWD]) == 0;
}

/* If the server is silent it may be about one task: the node that looks for orphans finds out which.  Until
 * then nothing here must keep them locked, so the statement is ended (by db_connect). */
static enum rc
put_back(struct db *db, int64_t incarnation, const char *by, struct recovered *out, struct err *err)
{
	const struct recovery what = {.by = by, .incarnation = incarnation, .within_us = PATIENCE_US};
	AUTO_FREE struct lost *lost = NULL;
	int64_t kept;
	size_t n;
	enum rc rc = store_lost(db, incarnation, &lost, &n, &kept, err);

	if (rc == RC_OK)
		rc = store_recover(db, &what, out, err);
	return rc == RC_UNKNOWN && err->silent ? db_connect(db, err) : rc;
}

/* Marks the node down if this incarnation still has its row, and puts back at once what it held.  The row
 * first: only what no living node holds is put back.  May be repeated, whatever it returned. */
static enum rc
say_farewell(struct db *db, int64_t node_id, int64_t incarnation, const char *by, struct recovered *out,
    struct err *err)
{
	enum rc rc = store_node_leave(db, node_id, incarnation, "its process has died", err);

	if (rc == RC_OK)
		rc = put_back(db, incarnation, by, out, err);
	return rc;
}

/* Keeps trying until the other nodes would notice by themselves. */
static bool
tell(const char *const will[WILL__COUNT], int64_t node_id, int64_t incarnation)
{
	int64_t until = clock_mono_us() + strtoll(will[WILL_DEAD_AFTER], NULL, 10);
	AUTO_DB struct db *db = db_create(will[WILL_DSN], "pgrab farewell", CALL_TIMEOUT_US);
	struct recovered got = {0};
	struct backoff wait;
	struct err err = {0};
	struct gate gate;
	enum rc rc;

	gate_init(&gate); /* nobody stops it */
	backoff_init(&wait, 50 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
	for (;;) {
		rc = say_farewell(db, node_id, incarnation, "its keeper", &got, &err);
		if (rc == RC_OK || rc == RC_BAD || clock_mono_us() >= until)
			break;
		gate_pause(&gate, clock_mono_us() + backoff_next_us(&wait));
	}
	if (rc == RC_OK)
		log_warn("node_died",
		    "incarnation=%" PRId64 " tasks=%" PRId64 " had_run=%" PRId64 " parked=%" PRId64,
		    incarnation, got.all, got.running, got.parked);
	else
		log_warn("node_died", "incarnation=%" PRId64 " error=\"%s\" hint=\"%s\"", incarnation,
		    err.text, "others will notice the missing heartbeats");
	gate_fini(&gate);
	return rc == RC_OK;
}

int
farewell_main(int argc, char **argv)
{
	const char *will[WILL__COUNT];
	struct err err = {0};
	char *text = NULL;
	size_t len;
	bool told = true;

	(void)prctl(PR_SET_DUMPABLE, 0);
	if (argc == 6)
		text = read_will(&len);
	if (text == NULL || !enter(text, len, will) || schema_use(will[WILL_SCHEMA], NULL) != RC_OK) {
		fputs("pgrab: " FAREWELL_ARGV1
		      " is how a dead node's keeper speaks; it is of no use by hand\n",
		    stderr);
		return 2;
	}
	(void)fcntl(KEEPER_WILL_FD, F_SETFD, FD_CLOEXEC);
	log_init((enum log_level)strtol(will[WILL_LOG_LEVEL], NULL, 10),
	    (enum log_format)strtol(will[WILL_LOG_FORMAT], NULL, 10), will[WILL_NAME]);
	log_thread("farewell");
	if (log_start(&err) != RC_OK)
		log_warn("log", "error=\"%s\"", err.text); /* lines are written as they come */
	for (int i = 2; told && i < argc; i += 2) {
		int64_t incarnation = strtoll(argv[i + 1], NULL, 10);

		told = incarnation == 0 || tell(will, strtoll(argv[i], NULL, 10), incarnation);
	}
	log_stop();
	return told ? 0 : 1; /* the environment lies in text to the end */
}
