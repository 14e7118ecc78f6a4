/*
 * pgrab top: the cluster on one screen.
 *
 * The main thread has the terminal; a reader thread has the database.  Frames follow each other at the
 * interval, but a slow database gets as long a rest as its answer took.
 */
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/top_data.h"
#include "cli/top_show.h"

#define DEADLINE_US        (5 * US_PER_S) /* of each statement, and of connecting */
#define RETRY_US           US_PER_S       /* while the database cannot be reached */
#define SLOW_US            (2 * US_PER_S) /* an answer that takes this long is worth a line */
#define END_US             (US_PER_S / 5) /* for the reader, when we leave */
#define LIST_MAX           200            /* rows of each list, more than any screen shows */
#define NAME_MAX_ON_SCREEN 24
#define NAME_MAX_NARROW    14 /* so that a reason fits a line of 80 columns */
#define EVERYTHING         INT32_MAX

struct options {
	struct cli_common common;
	int64_t interval_us;
	bool once, all;
	char *config;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"interval", 'i', OPTION_DURATION, offsetof(struct options, interval_us), "TIME", "between two frames",
	"1s", 1e5, 3.6e9},
    CLI_FLAG_ROW(once, '1', "print one frame and exit (implied by --json or no terminal)"),
    CLI_ALL_ROWS,
    CLI_LAST_ROW,
};

static const char help_text[] = "q quit   space stop here, go on   ? this line";

/* The live screen. */
struct top {
	struct cli *c;
	struct terminal terminal;
	struct top_reader *reader;
	struct top_data shown; /* the last good answer */
	bool has_shown;
	struct top_rates rates;
	struct err trouble;
	int64_t interval_us;
	int64_t asked_us; /* CLOCK_NEVER: nothing is being read */
	int64_t next_us;  /* when to ask again */
	/* Since when the database has not answered: when its last good answer was asked for, or our start. */
	int64_t good_us;
	bool away, paused, help;
};

/* ---- one frame */

static void
print_json(const struct top_data *d)
{
	const struct {
		const char *name;
		const PGresult *rows;
	} parts[] = {{"overview", d->overview}, {"nodes", d->nodes}, {"running", d->running},
	    {"late", d->late}, {"rates", d->rates}};
	AUTO_BUF struct buf all = {0};

	for (size_t i = 0; i < sizeof parts / sizeof *parts - d->all; i++) {
		buf_addf(&all, "%s\"%s\":", i == 0 ? "{" : ",\n", parts[i].name);
		if (d->all)
			all_array(&all, parts[i].rows);
		else
			buf_adds(&all, db_text(parts[i].rows, 0, 0));
	}
	buf_addc(&all, '}');
	text_put_json(buf_str(&all));
}

static void
print_frame(const struct top_data *d)
{
	struct top_view view = {.screen = screen_look(), .note = "", .trouble = ""};
	struct buf out = {0};

	top_show(&out, d, &view);
	text_put(&out);
}

static int
run_once(struct cli *c, struct all *all)
{
	bool json = c->common->json;
	int length = json ? EVERYTHING : NAME_MAX_ON_SCREEN, code = CLI_DONE;
	struct top_source from = {cli_db(c, CLI_DEADLINE_US), all};
	struct top_data d;

	top_data_read(&d, &from, json, LIST_MAX, length, true);
	c->err = d.err;
	if (d.rc != RC_OK)
		code = cli_fail(c, d.rc, NULL);
	else if (json)
		print_json(&d);
	else
		print_frame(&d);
	if (d.rc == RC_OK && d.all && *d.away != '\0')
		code = cli_failed(c, "%s", d.away);
	top_data_fini(&d);
	return code;
}

/* ---- the screen */

static void
say_trouble(const struct top *t, char *out, size_t size, int64_t now)
{
	long long seconds = (now - t->good_us) / US_PER_S;

	*out = '\0';
	if (t->away)
		snprintf(
		    out, size, "THE DATABASE IS AWAY for %lld s; trying again. %s", seconds, t->trouble.text);
	else if (t->asked_us != CLOCK_NEVER && now - t->asked_us >= SLOW_US)
		snprintf(out, size, "waiting for the database for %lld s",
		    (long long)(now - t->asked_us) / US_PER_S);
}

static bool
draw(struct top *t)
{
	char note[80], trouble[700], interval[32];
	AUTO_BUF struct buf out = {0};
	struct top_view view = {.screen = screen_look(),
	    .rows = t->terminal.rows,
	    .rates = &t->rates,
	    .note = note,
	    .trouble = trouble,
	    .help = t->help ? help_text : NULL};

	view.screen.columns = t->terminal.columns;
	snprintf(note, sizeof note, t->paused ? "  PAUSED, space goes on" : "  every %s  ? help",
	    duration_format(t->interval_us, interval, sizeof interval));
	say_trouble(t, trouble, sizeof trouble, clock_mono_us());
	top_show(&out, t->has_shown ? &t->shown : NULL, &view);
	return terminal_draw(&t->terminal, buf_str(&out));
}

static void
ask_when_due(struct top *t)
{
	int64_t now = clock_mono_us();

	if (t->asked_us != CLOCK_NEVER || t->paused || now < t->next_us)
		return;
	t->asked_us = now;
	top_reader_ask(t->reader);
}

/* RC_BAD: the first answer was a refusal for good, and waiting would not help. */
static enum rc
take_answer(struct top *t)
{
	int64_t now = clock_mono_us(), took = now - t->asked_us, wait = t->interval_us;
	struct top_data d;

	top_reader_take(t->reader, &d);
	if (d.rc == RC_OK) {
		if (d.rates == NULL) {
			d.rates = t->shown.rates;
			t->shown.rates = NULL;
		}
		top_data_fini(&t->shown);
		t->shown = d;
		t->has_shown = true;
		t->good_us = now;
		if (!d.all)
			top_rates_note(&t->rates, d.overview, now);
	} else {
		t->trouble = d.err;
		if (d.rc == RC_BAD && !t->has_shown)
			return RC_BAD;
		wait = wait < RETRY_US ? wait : RETRY_US;
	}
	t->away = d.rc != RC_OK;
	t->next_us = t->asked_us + wait > now + took ? t->asked_us + wait : now + took;
	t->asked_us = CLOCK_NEVER;
	return RC_OK;
}

/* When to wake up without an event: for a count of seconds on the screen, or the next question. */
static int64_t
next_wake(const struct top *t)
{
	bool asked = t->asked_us != CLOCK_NEVER;
	int64_t count = asked || t->away ? clock_mono_us() + US_PER_S : CLOCK_NEVER;
	int64_t ask = asked || t->paused ? CLOCK_NEVER : t->next_us;

	return count < ask ? count : ask;
}

/* false: quit. */
static bool
take_key(struct top *t)
{
	switch (t->terminal.key) {
	case 'q':
	case 'Q': return false;
	case ' ':
		t->paused = !t->paused;
		t->next_us = clock_mono_us();
		break;
	case '?': t->help = !t->help; break;
	default: break;
	}
	return true;
}

/* Runs until a person ends it.  RC_BAD: t->trouble says why there is nothing to show. */
static enum rc
live(struct top *t)
{
	while (draw(t)) {
		enum terminal_event event;

		ask_when_due(t);
		event = terminal_wait(&t->terminal, top_reader_fd(t->reader), next_wake(t));
		if (event == TERMINAL_END || (event == TERMINAL_KEY && !take_key(t)))
			break;
		if (event == TERMINAL_FD && take_answer(t) != RC_OK)
			return RC_BAD;
	}
	return RC_OK;
}

static int
run_live(struct cli *c, struct all *all)
{
	const struct options *o = c->options;
	struct top t = {.c = c, .interval_us = o->interval_us, .asked_us = CLOCK_NEVER};
	enum rc rc;

	rc = terminal_open(&t.terminal, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	t.good_us = t.next_us = clock_mono_us();
	t.reader = top_reader_start((struct top_source){cli_db(c, DEADLINE_US), all}, LIST_MAX,
	    t.terminal.columns < 100 ? NAME_MAX_NARROW : NAME_MAX_ON_SCREEN);
	rc = live(&t);
	terminal_close(&t.terminal);
	top_data_fini(&t.shown);
	/* A reader that hangs can be left behind: it only reads. */
	if (!top_reader_stop(&t.reader, END_US))
		_exit(CLI_DONE);
	c->err = t.trouble;
	return rc == RC_OK ? CLI_DONE : cli_fail(c, rc, NULL);
}

static int
run_top(struct cli *c)
{
	const struct options *o = c->options;
	struct all *all = o->all ? all_open(c, o->config) : NULL;
	int code;

	if (o->all && all == NULL)
		return cli_usage(c->cmd, c->err.text);
	code = o->once || c->common->json || !terminal_there() ? run_once(c, all) : run_live(c, all);
	if (all != NULL)
		all_close(&all);
	return code;
}

const struct command cmd_top = {
    .name = "top",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "show the cluster live on one screen: totals, nodes, what runs, what is late and why",
    .details =
	"Keys: q quits, space stops and resumes the display, ? shows the keys. Its queries are bounded: a\n"
	"count followed by + is a lower bound. Rates are computed from the nodes' counters over the last\n"
	"frames. While the database is away it says so and waits.",
    .in_utc = true,
    CLI_OPTIONS(keys),
    .exec = run_top,
};
