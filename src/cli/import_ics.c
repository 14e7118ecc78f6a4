/*
 * pgrab import ics: the all-day events of an iCalendar file (RFC 5545) as closed days of a calendar.
 *
 * Ranges, and events that come back each year on the same date, are spelled out; the latter for ten years
 * from now.  An event with a time, or with any other rule, says nothing about whole days: it is named and
 * left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/import.h"

#define DAY_S        86400
#define LONGEST_DAYS 366
#define DAYS_MOST    100000
#define YEARS_AHEAD  10
#define TEXT_SIZE    1001 /* as long as a note may be */

struct event {
	char summary[TEXT_SIZE], rule[200];
	const char *fault;   /* why it is left out */
	int64_t first, last; /* in days since 1970, the last one included; none: -1 */
};

struct reader {
	struct import *m;
	cJSON *days;
	struct event event;
	char name[TEXT_SIZE]; /* X-WR-CALNAME */
	int64_t now;
	bool in_event;
	int depth; /* of what is inside the event: an alarm has a SUMMARY, too */
};

/* 20261225, and nothing behind it but a 'T' with a time, which *timed_out tells.  -1: no date. */
static int64_t
read_date(const char *text, bool *timed_out)
{
	struct tm tm = {0}, same;
	int n = 0;
	time_t at;

	*timed_out = false;
	if (strspn(text, "0123456789") != 8 ||
	    sscanf(text, "%4d%2d%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &n) != 3 || tm.tm_year < 1970)
		return -1;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	same = tm;
	at = timegm(&tm);
	if (tm.tm_mon != same.tm_mon || tm.tm_mday != same.tm_mday)
		return -1; /* 30 February */
	*timed_out = text[n] == 'T';
	return text[n] == '\0' || *timed_out ? at / DAY_S : -1;
}

static void
read_text(char out[TEXT_SIZE], const char *value, bool *cut_out)
{
	size_t n = 0;

	for (; *value != '\0' && n < TEXT_SIZE - 1; value++) {
		if (*value == '\\' && value[1] != '\0')
			value++;
		out[n++] = *value == 'n' && value[-1] == '\\' ? ' ' : *value;
	}
	out[n] = '\0';
	*cut_out = *value != '\0';
}

static void
read_start_or_end(struct event *e, const char *value, bool is_end)
{
	bool timed;
	int64_t day = read_date(value, &timed);

	if (timed)
		e->fault = "it has a time, and so says nothing about whole days";
	else if (day < 0)
		e->fault = is_end ? "its DTEND is no date" : "its DTSTART is no date";
	else if (is_end)
		e->last = day - 1; /* an event ends before its end */
	else
		e->first = day;
}

static void
read_property(struct reader *r, const char *name, const char *value)
{
	struct event *e = &r->event;
	bool cut = false;

	if (!r->in_event) {
		if (strcasecmp(name, "X-WR-CALNAME") == 0)
			read_text(r->name, value, &cut);
		return;
	}
	if (strcasecmp(name, "SUMMARY") == 0)
		read_text(e->summary, value, &cut);
	else if (strcasecmp(name, "DTSTART") == 0)
		read_start_or_end(e, value, false);
	else if (strcasecmp(name, "DTEND") == 0)
		read_start_or_end(e, value, true);
	else if (strcasecmp(name, "RRULE") == 0)
		cut = snprintf(e->rule, sizeof e->rule, "%s", value) >= (int)sizeof e->rule || *value == '\0';
	else if (strcasecmp(name, "STATUS") == 0 && strcasecmp(value, "CANCELLED") == 0)
		e->fault = "it is cancelled";
	else if (strcasecmp(name, "RDATE") == 0 || strcasecmp(name, "EXDATE") == 0 ||
		 strcasecmp(name, "EXRULE") == 0 || strcasecmp(name, "RECURRENCE-ID") == 0)
		e->fault = "it has single dates besides its rule (RDATE, EXDATE, RECURRENCE-ID)";
	else if (strcasecmp(name, "DURATION") == 0)
		e->fault = "it has a DURATION; pgrab reads DTEND";
	if (cut)
		e->fault = "its SUMMARY or RRULE is too long, or empty";
}

static void
date_of(int64_t day, struct tm *tm_out)
{
	time_t at = (time_t)(day * DAY_S);

	gmtime_r(&at, tm_out);
}

/* FREQ=YEARLY, with INTERVAL, COUNT and UNTIL; BYMONTH and BYMONTHDAY may repeat the date of the event.
 * False: it is another rule. */
static bool
read_rule(const struct event *e, long *interval_out, long *count_out, int64_t *until_out)
{
	char rule[sizeof e->rule], *rest = NULL;
	bool yearly = false, timed;
	struct tm first;

	date_of(e->first, &first);
	snprintf(rule, sizeof rule, "%s", e->rule);
	for (char *part = strtok_r(rule, ";", &rest); part != NULL; part = strtok_r(NULL, ";", &rest)) {
		char *value = strchr(part, '='), *end;
		long n;

		if (value == NULL)
			return false;
		*value++ = '\0';
		n = strtol(value, &end, 10);
		if (*end != '\0' || n < 1 || n > 1000000)
			n = -1;
		if (strcasecmp(part, "FREQ") == 0)
			yearly = strcasecmp(value, "YEARLY") == 0;
		else if (strcasecmp(part, "INTERVAL") == 0)
			*interval_out = n;
		else if (strcasecmp(part, "COUNT") == 0)
			*count_out = n;
		else if (strcasecmp(part, "UNTIL") == 0)
			*until_out = read_date(value, &timed);
		else if (strcasecmp(part, "WKST") != 0 &&
			 !(strcasecmp(part, "BYMONTH") == 0 && n == first.tm_mon + 1) &&
			 !(strcasecmp(part, "BYMONTHDAY") == 0 && n == first.tm_mday))
			return false;
	}
	return yearly && *interval_out > 0 && *count_out > 0 && *until_out >= 0;
}

static bool
put_days(struct reader *r, int64_t first, int64_t last)
{
	for (int64_t day = first; day <= last; day++) {
		struct tm tm;
		char text[40];
		cJSON *one;

		if (cJSON_GetArraySize(r->days) >= DAYS_MOST)
			return false;
		date_of(day, &tm);
		snprintf(text, sizeof text, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
		one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "day", text);
		cJSON_AddBoolToObject(one, "open", false);
		if (*r->event.summary != '\0')
			cJSON_AddStringToObject(one, "note", r->event.summary);
		cJSON_AddItemToArray(r->days, one);
	}
	return true;
}

/* The same date in each year; 29 February in leap years. */
static bool
put_years(struct reader *r, long interval, long count, int64_t until)
{
	struct event *e = &r->event;
	int64_t length = e->last - e->first, end = r->now + YEARS_AHEAD * 366;
	struct tm tm;

	date_of(e->first, &tm);
	if (until > end)
		until = end;
	for (int year = tm.tm_year; count > 0; year += (int)interval) {
		struct tm at = {.tm_year = year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday};
		int64_t first = (int64_t)timegm(&at) / DAY_S;

		if (first > until || year > 8099)
			return true;
		if (at.tm_mday != tm.tm_mday)
			continue;
		count--;
		if (!put_days(r, first, first + length))
			return false;
	}
	return true;
}

static void
end_event(struct reader *r)
{
	struct event *e = &r->event;
	char what[TEXT_SIZE + 20];
	long interval = 1, count = 1000000;
	int64_t until = INT64_MAX;

	if (e->fault == NULL && e->first < 0)
		e->fault = "it has no DTSTART";
	if (e->last < 0)
		e->last = e->first;
	if (e->fault == NULL && (e->last < e->first || e->last - e->first >= LONGEST_DAYS))
		e->fault = "it ends before it begins, or is longer than a year";
	if (e->fault == NULL && !utf8_is_text(e->summary))
		e->fault = "its SUMMARY is not UTF-8";
	if (e->fault == NULL && *e->rule != '\0' && !read_rule(e, &interval, &count, &until))
		e->fault = "its RRULE is not FREQ=YEARLY on the same date";
	if (e->fault == NULL &&
	    !(*e->rule != '\0' ? put_years(r, interval, count, until) : put_days(r, e->first, e->last)))
		e->fault = "the file has more than 100000 days";
	if (e->fault != NULL) {
		snprintf(what, sizeof what, "event '%s'", e->summary);
		import_leave_out(r->m, what, e->fault);
	}
}

/* NAME[;PARAMETER...]:VALUE */
static void
read_line(struct reader *r, char *line)
{
	size_t n = strcspn(line, ";:");
	char *value = line + n;
	bool quoted = false;

	for (; *value != '\0' && (*value != ':' || quoted); value++)
		quoted ^= *value == '"';
	if (*value == '\0')
		return; /* no property: a comment of some program */
	value++;
	line[n] = '\0';
	if (strcasecmp(line, "BEGIN") == 0 && strcasecmp(value, "VEVENT") == 0) {
		r->event = (struct event){.first = -1, .last = -1};
		r->in_event = true;
		r->depth = 0;
	} else if (strcasecmp(line, "END") == 0 && strcasecmp(value, "VEVENT") == 0 && r->in_event) {
		end_event(r);
		r->in_event = false;
	} else if (strcasecmp(line, "BEGIN") == 0 || strcasecmp(line, "END") == 0) {
		r->depth += strcasecmp(line, "BEGIN") == 0 ? 1 : -1;
	} else if (!r->in_event || r->depth == 0) {
		read_property(r, line, value);
	}
}

/* A line that begins with a blank continues the one before it. */
static void
read_lines(struct reader *r, char *text)
{
	char *to = text, *line = text;

	for (const char *from = text;; from++) {
		if (*from == '\r' && (from[1] == '\n' || from[1] == '\0'))
			continue;
		if (*from == '\n' && (from[1] == ' ' || from[1] == '\t')) {
			from++;
			continue;
		}
		if (*from != '\n' && *from != '\0') {
			*to++ = *from;
			continue;
		}
		bool end = *from == '\0';

		*to++ = '\0';
		read_line(r, line);
		if (end)
			return;
		line = to;
	}
}

int
import_ics(struct import *m, const char *path)
{
	struct reader r = {.m = m, .days = cJSON_CreateArray(), .now = (int64_t)time(NULL) / DAY_S};
	AUTO_BUF struct buf text = {0};
	cJSON *calendar = cJSON_CreateObject();
	int code = cli_read_file(m->c, path, &text);

	m->calendars = cJSON_CreateArray();
	cJSON_AddItemToArray(m->calendars, calendar);
	if (code == CLI_DONE && strncasecmp(buf_str(&text), "BEGIN:VCALENDAR", 15) != 0)
		code =
		    cli_usage(m->c->cmd, "this is no iCalendar file: it does not begin with BEGIN:VCALENDAR");
	else if (code == CLI_DONE)
		read_lines(&r, text.data);
	if (m->calendar == NULL && (*r.name == '\0' || !utf8_is_text(r.name)))
		snprintf(r.name, sizeof r.name, "holidays");
	cJSON_AddStringToObject(calendar, "name", m->calendar != NULL ? m->calendar : r.name);
	cJSON_AddItemToObject(calendar, "days", r.days);
	return code;
}
