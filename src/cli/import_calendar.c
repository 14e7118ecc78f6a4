/* systemd.time(7), a calendar expression, as five or six fields. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "cli/import.h"

static const struct {
	const char *word, *means;
} shorthands[] = {
    {"minutely", "*-*-* *:*:00"},
    {"hourly", "*-*-* *:00:00"},
    {"daily", "*-*-* 00:00:00"},
    {"weekly", "Mon *-*-* 00:00:00"},
    {"monthly", "*-*-01 00:00:00"},
    {"quarterly", "*-01,04,07,10-01 00:00:00"},
    {"semiannually", "*-01,07-01 00:00:00"},
    {"semi-annually", "*-01,07-01 00:00:00"},
    {"biannually", "*-01,07-01 00:00:00"},
    {"bi-annually", "*-01,07-01 00:00:00"},
    {"half-yearly", "*-01,07-01 00:00:00"},
    {"yearly", "*-01-01 00:00:00"},
    {"annually", "*-01-01 00:00:00"},
};

static const char *const days[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct calendar {
	struct buf second, minute, hour, day, month, weekday;
	const char *why; /* NULL: it is not a calendar expression */
};

/* A number, without the zeros before it.  NULL: there is none. */
static const char *
take_number(const char *p, struct buf *out)
{
	size_t n = strspn(p, "0123456789");

	if (n == 0 || n > 4)
		return NULL;
	buf_addf(out, "%ld", strtol(p, NULL, 10));
	return p + n;
}

/* "*", "a", "a..b", each with "/n", in a list. */
static bool
take_values(struct calendar *k, const char *p, struct buf *out)
{
	for (;;) {
		if (*p == '*')
			buf_addc(out, *p++);
		else if ((p = take_number(p, out)) == NULL)
			return false;
		if (strncmp(p, "..", 2) == 0) {
			buf_addc(out, '-');
			if ((p = take_number(p + 2, out)) == NULL)
				return false;
		}
		if (*p == '.') {
			k->why = "fractions of a second have no counterpart";
			return false;
		}
		if (*p == '/') {
			buf_addc(out, *p);
			if ((p = take_number(p + 1, out)) == NULL)
				return false;
		}
		if (*p == '\0')
			return true;
		if (*p++ != ',')
			return false;
		buf_addc(out, ',');
	}
}

/* hour:minute[:second] */
static bool
take_time(struct calendar *k, char *text)
{
	char *minute = strchr(text, ':'), *second;

	*minute++ = '\0';
	second = strchr(minute, ':');
	if (second != NULL)
		*second++ = '\0';
	return take_values(k, text, &k->hour) && take_values(k, minute, &k->minute) &&
	       take_values(k, second != NULL ? second : "0", &k->second);
}

/* [year-]month-day, or month~1, which is the last day. */
static bool
take_date(struct calendar *k, char *text)
{
	char *last = strchr(text, '~'), *day = last != NULL ? last : strrchr(text, '-'), *month;

	*day++ = '\0';
	month = strrchr(text, '-');
	if (month != NULL)
		*month++ = '\0';
	if (month != NULL && strcmp(text, "*") != 0) {
		k->why = "it names a year, and a schedule has none";
		return false;
	}
	if (last != NULL && strcmp(day, "1") != 0 && strcmp(day, "01") != 0) {
		k->why = "days counted from the end of the month, except the last, have no counterpart";
		return false;
	}
	if (last != NULL)
		buf_addc(&k->day, 'L');
	return take_values(k, month != NULL ? month : text, &k->month) &&
	       (last != NULL || take_values(k, day, &k->day));
}

/* 0 to 6 for the day that p begins with, with the word's length; -1: none. */
static int
weekday(const char *p, size_t *len_out)
{
	*len_out = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
	for (int i = 0; *len_out >= 3 && i < 7; i++) {
		if (strncasecmp(p, days[i], 3) == 0)
			return i;
	}
	return -1;
}

/* Mon..Fri,Sun: day by day, so that a range may cross the end of a week. */
static bool
take_weekdays(struct calendar *k, const char *p)
{
	for (;;) {
		size_t n;
		int from = weekday(p, &n), to = from;

		p += n;
		if (from >= 0 && (strncmp(p, "..", 2) == 0 || *p == '-')) {
			p += *p == '-' ? 1 : 2;
			to = weekday(p, &n);
			p += n;
		}
		if (from < 0 || to < 0 || (*p != '\0' && *p != ','))
			return false;
		for (int day = from;; day = (day + 1) % 7) {
			buf_addf(&k->weekday, "%s%d", k->weekday.len > 0 ? "," : "", day);
			if (day == to)
				break;
		}
		if (*p++ == '\0')
			return true;
	}
}

/* UTC or Area/Place; it comes last. */
static bool
is_zone(const char *word)
{
	size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/");

	return strcmp(word, "UTC") == 0 ||
	       (isalpha((unsigned char)*word) && word[n] == '\0' && strchr(word, '/') != NULL);
}

static bool
take_words(struct calendar *k, char *text, char zone[64])
{
	char *rest = NULL;

	for (char *word = strtok_r(text, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
		size_t n;
		bool ok = true;

		if (strchr(word, ':') != NULL && k->hour.len == 0)
			ok = take_time(k, word);
		else if (weekday(word, &n) >= 0 && strchr(word, '/') == NULL && k->weekday.len == 0)
			ok = take_weekdays(k, word);
		else if (is_zone(word) && k->hour.len + k->month.len + k->weekday.len > 0)
			snprintf(zone, 64, "%s", word);
		else if (strpbrk(word, "-~") != NULL && k->month.len == 0)
			ok = take_date(k, word);
		else
			ok = false;
		if (!ok)
			return false;
	}
	return true;
}

static const char *
or_else(const struct buf *b, const char *fallback)
{
	return b->len > 0 ? buf_str(b) : fallback;
}

/* If both day fields are restricted, here one match is enough; there both must match. */
static bool
put(struct calendar *k, char schedule[IMPORT_SCHEDULE_SIZE])
{
	const char *second = or_else(&k->second, "0"), *day = or_else(&k->day, "*");
	int n;

	if (k->weekday.len > 0 && *day != '*') {
		k->why = "a weekday and a day of the month at once have no counterpart";
		return false;
	}
	n = snprintf(schedule, IMPORT_SCHEDULE_SIZE, "%s%s%s %s %s %s %s",
	    strcmp(second, "0") == 0 ? "" : second, strcmp(second, "0") == 0 ? "" : " ",
	    or_else(&k->minute, "0"), or_else(&k->hour, "0"), day, or_else(&k->month, "*"),
	    or_else(&k->weekday, "*"));
	if (n >= IMPORT_SCHEDULE_SIZE)
		k->why = "it is too long";
	return n < IMPORT_SCHEDULE_SIZE;
}

bool
import_calendar(const char *text, char schedule[IMPORT_SCHEDULE_SIZE], char zone[64], const char **why)
{
	struct calendar k = {0};
	AUTO_BUF struct buf copy = {0};
	size_t word = strcspn(text, " \t");
	bool ok;

	*zone = '\0';
	for (size_t i = 0; i < sizeof shorthands / sizeof *shorthands; i++) {
		if (strlen(shorthands[i].word) == word && strncasecmp(text, shorthands[i].word, word) == 0) {
			buf_adds(&copy, shorthands[i].means);
			text += word;
			break;
		}
	}
	buf_adds(&copy, text);
	ok = copy.len > 0 && take_words(&k, copy.data, zone) && put(&k, schedule);
	*why = k.why != NULL ? k.why : "it is not a calendar expression";
	buf_fini(&k.second);
	buf_fini(&k.minute);
	buf_fini(&k.hour);
	buf_fini(&k.day);
	buf_fini(&k.month);
	buf_fini(&k.weekday);
	return ok;
}
