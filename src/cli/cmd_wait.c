/* pgrab wait, and the waiting of pgrab drain.  Nothing tells a client of the end of a run, so the database is
 * polled, at most twice a second. */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"

#define FIRST_MS 50
#define MOST_MS  500

int
cli_wait(struct cli *c, struct cli_wait *w)
{
	int64_t until_us = clock_mono_us() + w->timeout_us;
	int pause_ms = FIRST_MS;

	for (;;) {
		int64_t left_ms = (until_us - clock_mono_us()) / 1000;
		int code;

		PQclear(w->result);
		w->result = NULL;
		code = cli_rows(c, w->sql, w->n_params, w->params, &w->result);
		if (code != CLI_DONE)
			return code;
		if (PQntuples(w->result) == 0 || db_bool(w->result, 0, PQfnumber(w->result, "over")))
			return CLI_DONE;
		if (left_ms <= 0)
			return cli_failed(c, "it has not ended yet; --timeout sets how long to wait");
		if (w->seen != NULL)
			w->seen(w);
		(void)poll(NULL, 0, left_ms < pause_ms ? (int)left_ms : pause_ms);
		pause_ms = pause_ms * 2 > MOST_MS ? MOST_MS : pause_ms * 2;
	}
}

struct options {
	struct cli_common common;
	int64_t timeout_us;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"timeout", 't', OPTION_DURATION, offsetof(struct options, timeout_us), "TIME", "give up after this time",
	"1h", 0, 3.2e13},
    CLI_LAST_ROW,
};

/* How many fires there were at the first look. */
struct fires {
	struct cli_wait wait; /* first */
	char text[24];
};

static void
note_fires(struct cli_wait *w)
{
	struct fires *f = (struct fires *)w;

	if (w->params[1] == NULL) {
		snprintf(f->text, sizeof f->text, "%s", db_text(w->result, 0, 0));
		w->params[1] = f->text;
	}
}

static int
report(struct cli *c, const PGresult *r)
{
	const char *outcome = db_text(r, 0, PQfnumber(r, "outcome")),
		   *error = db_text(r, 0, PQfnumber(r, "error"));
	AUTO_BUF struct buf out = {0};

	if (c->common->json)
		buf_addf(&out, "{\"outcome\":\"%s\"}", outcome);
	else
		text_line(&out, outcome);
	if (!c->common->json && *error != '\0') {
		buf_adds(&out, ": ");
		text_line(&out, error);
	}
	puts(buf_str(&out));
	return strcmp(outcome, "succeeded") == 0 ? CLI_DONE : CLI_FAILED;
}

int
cli_wait_fire(struct cli *c, const char *id, const char *fires, int64_t timeout_us)
{
	struct fires f = {.wait = {.sql = "cli_wait",
			      .n_params = 2,
			      .params = {id, fires},
			      .timeout_us = timeout_us,
			      .seen = note_fires}};
	int code = cli_wait(c, &f.wait);

	if (code == CLI_DONE)
		code = PQntuples(f.wait.result) == 0 ? cli_absent(c, "there is no task %s (any more)", id)
						     : report(c, f.wait.result);
	PQclear(f.wait.result);
	return code;
}

static int
run_wait(struct cli *c)
{
	const struct options *o = c->options;
	char id[CLI_ID_SIZE];
	int code = cli_task_id(c, c->operands[0], id);

	return code == CLI_DONE ? cli_wait_fire(c, id, NULL, o->timeout_us) : code;
}

const struct command cmd_wait = {
    .name = "wait",
    .group = GROUP_DO,
    .usage = "TASK [OPTIONS]",
    .summary = "wait until the current fire of a task is over; exit status 0 if it succeeded",
    .details =
	"Retries are part of the fire. For a schedule it is the next fire that ends; for one that is made\n"
	"due by hand use pgrab run-now --wait, which misses none.",
    CLI_OPTIONS(keys),
    CLI_OPERANDS(1, 1),
    .exec = run_wait,
};
