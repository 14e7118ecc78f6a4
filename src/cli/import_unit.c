/* See import_unit.h; systemd.syntax(7), systemd.service(5), systemd.time(7). */
#include "cli/import_unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"

#define NOT_SET "it has a variable ($) that Environment= does not set"

static char *
trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n > 0 && strchr(" \t\r", s[n - 1]) != NULL; n--)
		s[n - 1] = '\0';
	return s;
}

/* A line that ends with a backslash goes on in the next one that is not a comment. */
static void
join_lines(struct buf *text)
{
	struct buf out = {0};

	buf_adds(&out, ""); /* a text even if nothing is left */
	for (const char *p = buf_str(text); *p != '\0';) {
		size_t n = strcspn(p, "\n");
		const char *next = p + n + (p[n] == '\n');
		const char *first = p + strspn(p, " \t");

		if (*first != '#' && *first != ';') {
			bool more = n > 0 && p[n - 1] == '\\';

			buf_add(&out, p, more ? n - 1 : n);
			buf_addc(&out, more ? ' ' : '\n');
		}
		p = next;
	}
	buf_fini(text);
	*text = out;
}

/* The member of that name, made if it is not there. */
static cJSON *
member(cJSON *object, const char *name, cJSON *(*make)(void))
{
	cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	if (item == NULL) {
		item = make();
		cJSON_AddItemToObject(object, name, item);
	}
	return item;
}

static void
drop_values(cJSON *values)
{
	while (values->child != NULL)
		cJSON_DeleteItemFromArray(values, 0);
}

/* OnCalendar, OnUnitActiveSec and the like are one list. */
static void
drop_times(cJSON *section)
{
	cJSON *values;

	cJSON_ArrayForEach(values, section)
	{
		if (strncmp(values->string, "On", 2) == 0)
			drop_values(values);
	}
}

static void
add_value(cJSON *section, const char *key, const char *value)
{
	cJSON *values = member(section, key, cJSON_CreateArray);

	if (*value != '\0')
		cJSON_AddItemToArray(values, cJSON_CreateString(value));
	else if (strncmp(key, "On", 2) == 0)
		drop_times(section);
	else
		drop_values(values);
}

/* Nobody may write to a pipe. */
static int
read_file(struct cli *c, const char *path, struct buf *text)
{
	struct stat file;

	if (stat(path, &file) == 0 && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)))
		return cli_failed(c, "%s is not a file", path);
	return cli_read_file(c, path, text);
}

static int
is_conf(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot != NULL && strcmp(dot, ".conf") == 0;
}

/* backup.timer.d, its files *.conf, in their order, go on where the unit ends. */
static int
read_drop_ins(struct cli *c, const char *path, struct buf *text)
{
	struct dirent **entry = NULL;
	AUTO_BUF struct buf name = {0};
	int n, code = CLI_DONE;

	buf_addf(&name, "%s.d", path);
	n = scandir(buf_str(&name), &entry, is_conf, alphasort);
	for (int i = 0; i < n; i++) {
		buf_reset(&name);
		buf_addf(&name, "%s.d/%s", path, entry[i]->d_name);
		buf_adds(text, "\n");
		if (code == CLI_DONE)
			code = read_file(c, buf_str(&name), text);
		free(entry[i]);
	}
	free(entry);
	return code;
}

static void
take_line(char *line, cJSON *unit, const char **section)
{
	char *equals = strchr(line, '=');

	if (*line == '[') {
		*section = line + 1;
		line[1 + strcspn(line + 1, "]")] = '\0';
	} else if (equals != NULL) {
		*equals = '\0';
		add_value(member(unit, *section, cJSON_CreateObject), trim(line), trim(equals + 1));
	}
}

int
unit_read(struct cli *c, const char *path, cJSON *unit)
{
	AUTO_BUF struct buf text = {0};
	const char *section = "";
	char *rest = NULL;
	int code = read_file(c, path, &text);

	if (code == CLI_DONE)
		code = read_drop_ins(c, path, &text);
	if (code == CLI_DONE) {
		join_lines(&text);
		for (char *line = strtok_r(text.data, "\n", &rest); line != NULL;
		     line = strtok_r(NULL, "\n", &rest))
			take_line(trim(line), unit, &section);
	}
	return code;
}

const char *
unit_value(const cJSON *unit, const char *section, const char *key, int i)
{
	const cJSON *keys = cJSON_GetObjectItemCaseSensitive(unit, section);

	return cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(keys, key), i));
}

const char *
unit_last(const cJSON *unit, const char *section, const char *key)
{
	const char *last = NULL, *value;

	for (int i = 0; (value = unit_value(unit, section, key, i)) != NULL; i++)
		last = value;
	return last;
}

#define SPAN_MAX_US 1e17 /* three thousand years */

int64_t
unit_span_us(const char *text)
{
	static const struct {
		const char *words;
		int64_t us;
	} units[] = {
	    {" us usec ", 1},
	    {" ms msec ", US_PER_MS},
	    {"  s sec second seconds ", US_PER_S},
	    {" m min minute minutes ", 60 * US_PER_S},
	    {" h hr hour hours ", 3600 * US_PER_S},
	    {" d day days ", 86400 * US_PER_S},
	    {" w week weeks ", 7 * 86400 * US_PER_S},
	};
	int64_t sum = 0;

	for (const char *p = text + strspn(text, " \t"); *p != '\0'; p += strspn(p, " \t")) {
		char *end, word[24];
		double number = strtod(p, &end);
		size_t n, i = 0;

		if (end == p || !(number >= 0 && number <= 1e9)) /* nor NaN */
			return -1;
		p = end + strspn(end, " \t");
		n = strspn(p, "abcdefghijklmnopqrstuvwxyz");
		snprintf(word, sizeof word, " %.*s ", (int)n, p);
		while (i < sizeof units / sizeof *units && strstr(units[i].words, word) == NULL)
			i++;
		if (i == sizeof units / sizeof *units)
			return -1; /* a month or a year has no fixed length */
		if ((double)sum + number * (double)units[i].us > SPAN_MAX_US)
			return -1;
		sum += (int64_t)(number * (double)units[i].us);
		p += n;
	}
	return sum;
}

/* What a backslash before p means; returns what follows it.  One that means nothing stays.  NULL: it gives a
 * character by its number. */
static const char *
take_escape(const char *p, struct buf *out)
{
	static const char letters[] = "abfnrtvs\\\"'", mean[] = "\a\b\f\n\r\t\v \\\"'";
	const char *letter = *p != '\0' ? strchr(letters, *p) : NULL;

	if (*p != '\0' && strchr("xuU01234567", *p) != NULL)
		return NULL;
	if (letter != NULL)
		buf_addc(out, mean[letter - letters]);
	else {
		buf_addc(out, '\\');
		return p;
	}
	return p + 1;
}

/* Whether p is a word by itself. */
static bool
is_alone(const char *p, const char *word)
{
	size_t n = strlen(word);

	return strncmp(p, word, n) == 0 && (p[n] == '\0' || strchr(" \t", p[n]) != NULL);
}

cJSON *
unit_words(const char *text)
{
	cJSON *words = cJSON_CreateArray();
	AUTO_BUF struct buf word = {0};
	char quote = '\0';
	bool begun = false, whole = false;

	for (const char *p = text; p != NULL;) {
		if (!begun && is_alone(p, ";"))
			break; /* it ends a command, and another follows */
		if (!begun && is_alone(p, "\\;"))
			p++;
		if (*p == '\0' || (quote == '\0' && strchr(" \t", *p) != NULL)) {
			if (begun)
				cJSON_AddItemToArray(words, cJSON_CreateString(buf_str(&word)));
			buf_reset(&word);
			begun = false;
			if (*p == '\0') {
				whole = quote == '\0';
				break;
			}
			p++;
			continue;
		}
		begun = true;
		if (*p == '\\')
			p = take_escape(p + 1, &word);
		else if (quote == '\0' && (*p == '"' || *p == '\''))
			quote = *p++;
		else if (*p == quote) {
			quote = '\0';
			p++;
		} else
			buf_addc(&word, *p++);
	}
	if (!whole) {
		cJSON_Delete(words);
		return NULL;
	}
	return words;
}

/* NAME}, after the brace; returns what follows it, or NULL: it is not set here. */
static const char *
take_variable(const char *p, const cJSON *env, struct buf *out)
{
	size_t n = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
	char name[100];
	const char *value;

	snprintf(name, sizeof name, "%.*s", (int)n, p);
	value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(env, name));
	if (value == NULL || p[n] != '}')
		return NULL;
	buf_adds(out, value);
	return p + n + 1;
}

bool
unit_expand(const char *word, const cJSON *env, bool variables, struct buf *out, const char **why)
{
	for (const char *p = word; *p != '\0';) {
		if (*p == '%' && p[1] != '%') {
			*why = "it has a specifier (%), which only systemd knows";
			return false;
		}
		if (*p == '%' || (variables && *p == '$' && p[1] == '$')) {
			buf_addc(out, *p);
			p += 2;
		} else if (variables && *p == '$' && p[1] == '{') {
			p = take_variable(p + 2, env, out);
			if (p == NULL) {
				*why = NOT_SET;
				return false;
			}
		} else
			buf_addc(out, *p++);
	}
	return true;
}

/* $NAME as a word by itself stands for the words of its value, if it has any. */
static void
put_value_words(const char *value, cJSON *argv, const char **why)
{
	cJSON *words = value == NULL ? NULL : unit_words(value), *word;

	if (words == NULL)
		*why =
		    value == NULL ? NOT_SET : "it has a variable ($) whose value cannot be split into words";
	while (words != NULL && (word = cJSON_DetachItemFromArray(words, 0)) != NULL)
		cJSON_AddItemToArray(argv, word);
	cJSON_Delete(words);
}

void
unit_arguments(const char *word, const cJSON *env, bool variables, cJSON *argv, const char **why)
{
	AUTO_BUF struct buf expanded = {0};

	if (variables && *word == '$' && word[1] != '\0' && strchr("{$", word[1]) == NULL)
		put_value_words(
		    cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(env, word + 1)), argv, why);
	else if (unit_expand(word, env, variables, &expanded, why))
		cJSON_AddItemToArray(argv, cJSON_CreateString(buf_str(&expanded)));
}
