/* pgrab logs: what a run has printed.  The node of a current run shows its output when asked to, so the
 * database is polled, at most twice a second. */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/outbuf.h"
#include "cli/commands.h"

#define FIRST_MS  50
#define MOST_MS   500
#define ANSWER_US (5 * US_PER_S) /* a live node has answered by then */

struct options {
	struct cli_common common;
	bool follow;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_FLAG_ROW(follow, 'f', "follow the run until it ends; exit status 0 if it succeeded"),
    CLI_LAST_ROW,
};

struct logs {
	struct cli *c;
	char id[CLI_ID_SIZE];
	char version[24]; /* of the run; "" until it is known */
	bool follow;
	bool said_silent;
	int64_t printed;  /* bytes of its output */
	int64_t asked_us; /* the first look that its node has not answered yet; 0: none */
	PGresult *seen;
};

static const char *
column(const struct logs *l, const char *name)
{
	return db_text(l->seen, 0, PQfnumber(l->seen, name));
}

static bool
is(const struct logs *l, const char *name)
{
	return *column(l, name) == 't';
}

static enum rc
look(struct logs *l, bool ask)
{
	const char *params[] = {l->id, *l->version != '\0' ? l->version : NULL, ask ? "t" : "f"};
	enum rc rc;

	PQclear(l->seen);
	l->seen = NULL;
	rc = report_rows(cli_db(l->c, CLI_DEADLINE_US), "cli_logs", 3, params, &l->seen, &l->c->err);
	if (rc == RC_OK && *column(l, "version") != '\0')
		snprintf(l->version, sizeof l->version, "%s", column(l, "version"));
	return rc;
}

/* How many bytes a cut text had before it was cut, and how many of them follow the gap in its middle. */
static int64_t
cut_total(const char *text, size_t length, size_t *unbroken_out)
{
	const char *p = length > OUTBUF_LIMIT / 3 ? text + OUTBUF_LIMIT / 3 : text;
	uint64_t dropped;
	int note = 0;

	while ((p = strstr(p, "\n... ")) != NULL) {
		if (sscanf(p, "\n... %" SCNu64 " bytes dropped ...%n", &dropped, &note) == 1 && note > 0) {
			*unbroken_out = length - (size_t)(p - text) - (size_t)note - 1;
			return (int64_t)(length - (size_t)note - 1 + dropped);
		}
		p++;
	}
	*unbroken_out = length;
	return (int64_t)length;
}

/* What is new since the last look. */
static void
print_new(struct logs *l)
{
	const char *text = column(l, "output");
	size_t length = strlen(text), unbroken = length;
	int64_t total = (int64_t)length, more;

	if (is(l, "running")) {
		total = db_int64(l->seen, 0, PQfnumber(l->seen, "total"));
		unbroken = (size_t)db_int64(l->seen, 0, PQfnumber(l->seen, "unbroken"));
	} else if (is(l, "truncated")) {
		total = cut_total(text, length, &unbroken);
	}
	more = total - l->printed;
	if (more <= 0)
		return;
	if (l->printed == 0 || unbroken > length) {
		fputs(text, stdout);
	} else if ((size_t)more <= unbroken) {
		fputs(text + length - more, stdout);
	} else {
		printf("\n... %" PRId64 " bytes dropped ...\n", more - (int64_t)unbroken);
		fputs(text + length - unbroken, stdout);
	}
	fflush(stdout);
	l->printed = total;
}

static int
ended(struct logs *l)
{
	const char *outcome = column(l, "outcome"), *error = column(l, "error");

	if (!l->follow || strcmp(outcome, "succeeded") == 0)
		return CLI_DONE;
	return cli_failed(
	    l->c, "attempt %s %s%s%s", column(l, "attempt"), outcome, *error != '\0' ? ": " : "", error);
}

/* True: the node should answer, and does not. */
static bool
silent(struct logs *l)
{
	int64_t now = clock_mono_us();

	if (!is(l, "pending")) {
		l->asked_us = 0;
		return false;
	}
	if (l->asked_us == 0)
		l->asked_us = now;
	return now - l->asked_us > ANSWER_US;
}

static int
say_silent(const struct logs *l)
{
	return cli_failed(l->c,
	    "node %s has not shown for %d s what the run prints; `pgrab nodes` shows its state",
	    column(l, "node"), (int)(ANSWER_US / US_PER_S));
}

/* The exit code after a look; -1: look again. */
static int
judge(struct logs *l, bool first)
{
	bool is_silent;

	if (*l->version == '\0') {
		return l->follow ? -1
				 : cli_failed(l->c,
				       "it has not run yet; `pgrab explain %s` says why, -f waits", l->id);
	}
	if (!is(l, "running")) {
		print_new(l);
		return ended(l);
	}
	is_silent = silent(l);
	if (is_silent && !l->follow) {
		print_new(l);
		return say_silent(l);
	}
	if (is_silent && !l->said_silent)
		(void)say_silent(l);
	l->said_silent = l->said_silent || is_silent;
	if (first || is(l, "pending"))
		return -1;
	print_new(l);
	return l->follow ? -1 : CLI_DONE;
}

static int
show(struct logs *l)
{
	int pause_ms = FIRST_MS, code = -1;
	bool ask = true, first = true;

	while (code < 0) {
		enum rc rc = look(l, ask);

		if (rc != RC_OK)
			return cli_fail(l->c, rc, NULL);
		code = judge(l, first);
		if (code < 0 && cli_reader_left())
			code = CLI_DONE; /* `| head` has what it wanted */
		ask = l->follow && !is(l, "pending");
		first = false;
		if (code < 0)
			(void)poll(NULL, 0, is(l, "pending") ? pause_ms : MOST_MS);
		pause_ms = !is(l, "pending") ? FIRST_MS : pause_ms * 2 > MOST_MS ? MOST_MS : pause_ms * 2;
	}
	return code;
}

/* One object: what is known once the node has answered, or has failed to. */
static int
show_json(struct logs *l)
{
	const char *params[] = {l->id, *l->version != '\0' ? l->version : NULL, "f"};

	return cli_object(l->c, "cli_logs", 3, params);
}

static int
await_answer(struct logs *l)
{
	bool ask = true;
	enum rc rc;

	do {
		rc = look(l, ask);
		ask = false;
		if (rc != RC_OK)
			return cli_fail(l->c, rc, NULL);
		if (!is(l, "running") || silent(l))
			break;
		(void)poll(NULL, 0, FIRST_MS);
	} while (is(l, "pending"));
	return show_json(l);
}

static int
run_logs(struct cli *c)
{
	const struct options *o = c->options;
	struct logs l = {.c = c, .follow = o->follow};
	int code;

	if (c->common->json && o->follow)
		return cli_usage(c->cmd, "--json and --follow cannot be combined");
	code = cli_task_id(c, c->operands[0], l.id);
	if (code == CLI_DONE)
		code = c->common->json ? await_answer(&l) : show(&l);
	PQclear(l.seen);
	return code;
}

const struct command cmd_logs = {
    .name = "logs",
    .group = GROUP_LOOK,
    .usage = "TASK [OPTIONS]",
    .summary = "show the output of a task's current run, or else of its last one",
    .details =
	"The output of a run in progress comes from its node, that of an ended one from the history. At\n"
	"most 64 KiB are kept, the head and the tail. In psql: select pgrab.output(ID).",
    CLI_OPTIONS(keys),
    CLI_OPERANDS(1, 1),
    .exec = run_logs,
};
