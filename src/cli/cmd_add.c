/* pgrab add */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/texts.h"
#include "cli/commands.h"
#include "db/store_add.h"

struct options {
	struct cli_common common;
	/* texts, so that "not given" differs from every value; the table's triggers
	 * refuse what is not valid */
	char *kind, *name, *key, *arg;
	char *calendar, *on_closed;
	char *run_at, *in, *schedule, *timezone, *starts_at, *ends_at, *max_runs, *jitter, *misfire,
	    *misfire_after, *misfire_limit;
	char *parent, *run_if;
	char *priority, *timeout, *max_attempts, *backoff, *backoff_max, *delivery, *require, *limit;
	char *batch, *wait_for, *wait_timeout, *signal_by, *traceparent;
	char *source, *on_failure, *expect_within, *slow_after, *stall_after, *keep;
	char *prefer, *failover_after, *share_key, *slots;
	bool paused, preemptible, paused_given, preemptible_given;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    /* what */
    CLI_TEXT_ROW(
	kind, 'k', "KIND", "sql, shell, exec, http, notify, noop, or a plugged-in kind (default sql)"),
    CLI_TEXT_ROW(arg, 0, "NAME=TEXT | NAME:=JSON",
	"a member of args; may be given several times: --arg cwd=/tmp --arg env:='{\"A\":\"1\"}'"),
    CLI_TEXT_ROW(name, 'n', "NAME", "a label for people"),
    CLI_TEXT_ROW(key, 0, "KEY", "at most one live task per key"),
    /* when */
    CLI_TEXT_ROW(run_at, 0, "TIME",
	"when it is due (first), in any form that PostgreSQL accepts; UTC unless it names a zone (default "
	"now, or the first fire of its schedule)"),
    CLI_TEXT_ROW(in, 0, "TIME", "due after this time: 90s, 10m, 2h, 7d"),
    CLI_TEXT_ROW(schedule, 's', "EXPR",
	"when to repeat: '30 2 * * *', @daily, '@every 90s' (fixed rate), '@after 90s' (after the end of the "
	"last run); pgrab next shows the times"),
    CLI_TEXT_ROW(timezone, 0, "ZONE", "time zone of the schedule: Europe/Berlin (default UTC)"),
    CLI_TEXT_ROW(calendar, 0, "NAME", "the schedule keeps to the open days of this calendar"),
    CLI_TEXT_ROW(on_closed, 0, "WORD",
	"what happens to a fire on a closed day: skip (default); next, previous: it moves to that open day"),
    CLI_TEXT_ROW(starts_at, 0, "TIME", "the schedule does not fire before this time"),
    CLI_TEXT_ROW(ends_at, 0, "TIME", "nor after this time"),
    CLI_TEXT_ROW(max_runs, 0, "N", "the schedule ends after this many fires"),
    CLI_TEXT_ROW(
	jitter, 0, "TIME", "delays each fire by a part of this, always the same for one task (default 0)"),
    CLI_TEXT_ROW(
	misfire, 0, "WORD", "what happens to missed fires: skip, once (one catch-up run, the default), all"),
    CLI_TEXT_ROW(
	misfire_after, 0, "TIME", "a fire that could not start within this counts as missed (default 1m)"),
    CLI_TEXT_ROW(misfire_limit, 0, "N", "at most this many catch-up runs with all (default 100)"),
    /* after what */
    CLI_TEXT_ROW(parent, 0, "ID[,ID...]",
	"starts when this task has, or all of these have, ended: a link of their chain"),
    CLI_TEXT_ROW(batch, 0, "ID", "a member of this batch: see pgrab batches"),
    CLI_TEXT_ROW(
	run_if, 0, "WORD", "which outcome of the parent starts it: success (default), failure, always"),
    CLI_TEXT_ROW(wait_for, 0, "NAME", "each fire starts only after this signal: see pgrab signal"),
    CLI_TEXT_ROW(wait_timeout, 0, "TIME",
	"the fire fails when the signal has not come within this time (default never)"),
    CLI_TEXT_ROW(signal_by, 0, "ROLE", "members of this role may send the signal, too"),
    /* how */
    CLI_TEXT_ROW(priority, 0, "N", "the higher goes first (default 0)"),
    CLI_TEXT_ROW(timeout, 0, "TIME", "a run is stopped after this time (default 1h)"),
    CLI_TEXT_ROW(max_attempts, 0, "N", "attempts before it is parked (default 3)"),
    CLI_TEXT_ROW(
	backoff, 0, "TIME", "wait before the second attempt, doubled for each further one (default 5s)"),
    CLI_TEXT_ROW(backoff_max, 0, "TIME", "longest such wait (default 1h)"),
    CLI_TEXT_ROW(delivery, 0, "WORD", "at_least_once (default) or at_most_once"),
    CLI_TEXT_ROW(require, 0, "JSON", "only nodes with these labels: '{\"zone\":\"eu\"}'"),
    CLI_TEXT_ROW(prefer, 0, "JSON", "nodes with these labels take it, others later: '{\"site\":\"hq\"}'"),
    CLI_TEXT_ROW(
	failover_after, 0, "TIME", "how long after its time other nodes may take it, too (default 30s)"),
    CLI_TEXT_ROW(share_key, 0, "KEY", "whose it is: tasks of different keys take turns"),
    CLI_TEXT_ROW(slots, 0, "N", "how many workers of its node it takes (default 1)"),
    CLI_TEXT_ROW(limit, 0, "KEY", "counts against this row of pgrab.limit"),
    CLI_TEXT_ROW(traceparent, 0, "CONTEXT", "the trace (W3C) that its runs belong to"),
    CLI_TEXT_ROW(source, 0, "SOURCE", "which file, team or tool it belongs to"),
    CLI_TEXT_ROW(on_failure, 0, "JSON",
	"a task to insert when it has failed: '{\"kind\":\"http\",\"command\":\"https://...\"}'"),
    CLI_TEXT_ROW(
	expect_within, 0, "TIME", "how often it should succeed, else it is overdue: 26h for a nightly task"),
    CLI_TEXT_ROW(slow_after, 0, "TIME",
	"a run that takes longer is slow, see docs/alerts.md (default: three times as long as usual)"),
    CLI_TEXT_ROW(
	stall_after, 0, "TIME", "a run without output or progress for this long is stopped (default never)"),
    CLI_TEXT_ROW(keep, 0, "TIME", "how long its history is kept (default: the nodes' retention)"),
    {"paused", 0, OPTION_FLAG, offsetof(struct options, paused), NULL, "do not start it until pgrab resume",
	.given = offsetof(struct options, paused_given)},
    {"preemptible", 0, OPTION_FLAG, offsetof(struct options, preemptible), NULL,
	"a run may be stopped for much more important work; the attempt is not counted",
	.given = offsetof(struct options, preemptible_given)},
    CLI_LAST_ROW,
};

/* Columns that take a duration. */
static const char *const intervals[] = {"jitter", "misfire_after", "timeout", "backoff", "backoff_max",
    "expect_within", "slow_after", "stall_after", "keep", "wait_timeout", "failover_after", NULL};

/* All options of this command but these are. */
static bool
is_column(const struct option_key *key)
{
	return key->type == OPTION_TEXT && key->offset >= sizeof(struct cli_common) &&
	       !IS_ONE_OF(key->name, "arg", "in", "parent", "limit");
}

static const char *
given(const struct options *o, const struct option_key *key)
{
	return *(char *const *)(const void *)((const char *)o + key->offset);
}

/* The columns given; texts made here are freed with it. */
struct columns {
	struct new_value value[NEW_VALUES_MAX];
	size_t n;
	char *made[NEW_VALUES_MAX];
	size_t n_made;
	bool edits; /* an empty text removes a value */
};

_Static_assert(sizeof keys / sizeof *keys < NEW_VALUES_MAX, "each option is a value, or less");

static void
put(struct columns *v, const char *column, const char *text)
{
	if (text != NULL)
		v->value[v->n++] = (struct new_value){column, text};
}

static void
put_made(struct columns *v, const char *column, char *text)
{
	v->made[v->n_made++] = text;
	put(v, column, text);
}

/* A duration as its column takes it: microseconds, with the unit for an interval. */
static enum rc
put_duration(struct columns *v, const char *column, const char *option, const char *text, const char *unit,
    struct err *err)
{
	int64_t us;

	if (text == NULL)
		return RC_OK;
	if (*text == '\0' && v->edits && strcmp(column, NEW_IN_US) != 0) {
		put(v, column, text);
		return RC_OK;
	}
	if (!duration_parse(text, &us)) {
		char flag[32];

		snprintf(flag, sizeof flag, "%s", option);
		for (char *c = flag; (c = strchr(c, '_')) != NULL;)
			*c = '-';
		return err_set(err, RC_BAD,
		    "--%s cannot be \"%.60s\"; it must be a time such as 200ms, 5s, 10m, 1h or 7d", flag,
		    text);
	}
	put_made(v, column, xasprintf("%lld%s", (long long)us, unit));
	return RC_OK;
}

static enum rc
put_columns(struct columns *v, const struct options *o, struct err *err)
{
	enum rc rc = RC_OK;

	for (const struct option_key *k = keys; rc == RC_OK && k->name != NULL; k++) {
		if (!is_column(k))
			continue;
		if (text_among(k->name, intervals))
			rc = put_duration(v, k->name, k->name, given(o, k), " us", err);
		else
			put(v, k->name, given(o, k));
	}
	return rc;
}

static enum rc
put_args(struct cli *c, struct columns *v)
{
	char *json = NULL;
	enum rc rc = cli_args(c, &json);

	if (json != NULL)
		put_made(v, "args", json);
	return rc;
}

static bool
is_id_list(const char *s)
{
	for (;; s++) {
		size_t digits = strspn(s, "0123456789");

		s += digits;
		if (digits == 0 || (*s != ',' && *s != '\0'))
			return false;
		if (*s == '\0')
			return true;
	}
}

/* The first is the column, the others are edges. */
static enum rc
put_parents(struct columns *v, const char *ids, struct err *err)
{
	size_t first;

	if (ids == NULL)
		return RC_OK;
	if (!is_id_list(ids))
		return err_set(err, RC_BAD,
		    "--parent cannot be \"%.60s\"; it must be the id of a task, or several: 17,18", ids);
	first = strcspn(ids, ",");
	put_made(v, "parent_id", xmemdup0(ids, first));
	if (ids[first] == ',')
		put_made(v, NEW_EDGES, xasprintf("{%s}", ids + first + 1));
	return RC_OK;
}

static const char *
flag_text(bool on)
{
	return on ? "true" : "false";
}

static enum rc
collect(struct cli *c, struct columns *v)
{
	const struct options *o = c->options;
	enum rc rc = put_duration(v, NEW_IN_US, "in", o->in, "", &c->err);

	if (rc == RC_OK)
		rc = put_columns(v, o, &c->err);
	if (rc == RC_OK)
		rc = put_parents(v, o->parent, &c->err);
	if (rc != RC_OK)
		return rc;
	if (o->run_at != NULL && o->in != NULL)
		return err_set(&c->err, RC_BAD, "give either --run-at or --in");
	put(v, "limit_key", o->limit);
	put(v, "paused", o->paused_given ? flag_text(o->paused) : NULL);
	put(v, "preemptible", o->preemptible_given ? flag_text(o->preemptible) : NULL);
	return put_args(c, v);
}

/* Its id, or with --json more of it. */
static void
print_task(struct cli *c, const PGresult *r)
{
	AUTO_BUF struct buf out = {0};

	if (c->common->json)
		text_json(&out, db_text(r, 0, 1));
	else
		buf_addf(&out, "%s\n", db_text(r, 0, 0));
	fputs(buf_str(&out), stdout);
}

/* An impossible value is wrong usage, as in pgrab next. */
static int
refused(struct cli *c, enum rc rc)
{
	int code = cli_fail(c, rc, NULL);

	return IS_ONE_OF(c->err.sqlstate, "22023", "22P02", "22003", "22007", "22008") ? CLI_USAGE : code;
}

static int
insert(struct cli *c, const struct columns *v)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = store_add(cli_db(c, CLI_DEADLINE_US), v->value, v->n, &r, &c->err);

	if (rc == RC_BAD && strcmp(c->err.sqlstate, "23505") == 0)
		err_set(&c->err, RC_BAD,
		    "a live task already has this key; the key is free again when that task has ended");
	if (rc != RC_OK)
		return refused(c, rc);
	print_task(c, r);
	return CLI_DONE;
}

static int
run_add(struct cli *c)
{
	struct columns v = {0};
	int code;

	put(&v, "command", c->n_operands > 0 ? c->operands[0] : "");
	code = collect(c, &v) == RC_OK ? insert(c, &v) : cli_usage(c->cmd, c->err.text);
	for (size_t i = 0; i < v.n_made; i++)
		free(v.made[i]);
	return code;
}

const struct command cmd_add = {
    .name = "add",
    .group = GROUP_DO,
    .usage = "[OPTIONS] [COMMAND]",
    .summary = "insert a task and print its id",
    .details =
	"COMMAND is the SQL text, the line for sh, the program, the URL or the channel. After -- it may\n"
	"begin with a dash.\n"
	"  pgrab add 'refresh materialized view sales'\n"
	"  pgrab add --kind shell --in 10m --arg cwd=/tmp 'df -h > df.txt'\n"
	"  pgrab add --kind http --arg method=POST --arg body:='{\"paid\": 42}' https://example.org/hook\n"
	"  pgrab add --key nightly --schedule '30 2 * * *' --timezone Europe/Berlin 'call nightly()'\n"
	"  pgrab add --parent 17 --run-if failure --kind notify --arg payload='17 has failed' alarm\n"
	"If a parent might end before its links are added, add it with --paused, then use pgrab resume.",
    CLI_OPTIONS(keys),
    .max_operands = 1,
    .in_utc = true,
    .repeat = "arg",
    .exec = run_add,
};

static int
edit(struct cli *c, const char *id, const struct columns *v)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = store_edit(cli_db(c, CLI_DEADLINE_US), id, v->value, v->n, &r, &c->err);
	int code = CLI_DONE;

	if (rc != RC_OK)
		return refused(c, rc);
	if (PQntuples(r) == 0)
		code = cli_absent(c, "task %s is not live: only its history is left", id);
	else
		print_task(c, r);
	return code;
}

static int
run_edit(struct cli *c)
{
	const struct options *o = c->options;
	struct columns v = {.edits = true};
	char id[CLI_ID_SIZE];
	int code;

	put(&v, "command", c->operands[1]);
	if (collect(c, &v) != RC_OK)
		code = cli_usage(c->cmd, c->err.text);
	else if (o->parent != NULL)
		code = cli_usage(
		    c->cmd, "--parent: to move a link, change its parent_id or its rows in pgrab.edge");
	else if (v.n == 0)
		code = cli_usage(c->cmd, "nothing to change: give an option or a new command");
	else {
		code = cli_task_id(c, c->operands[0], id);
		code = code == CLI_DONE ? edit(c, id, &v) : code;
	}
	for (size_t i = 0; i < v.n_made; i++)
		free(v.made[i]);
	return code;
}

const struct command cmd_edit = {
    .name = "edit",
    .group = GROUP_DO,
    .usage = "TASK [OPTIONS] [COMMAND]",
    .summary = "change columns of a live task; a running one finishes as it was started",
    .details =
	"The options are those of pgrab add; what is not given stays as it is, and an empty text removes a\n"
	"value.\n"
	"  pgrab edit nightly --schedule '0 3 * * *' --on-failure ''",
    CLI_OPTIONS(keys),
    .in_utc = true,
    CLI_OPERANDS(1, 2),
    .repeat = "arg",
    .exec = run_edit,
};
