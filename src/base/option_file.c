/* The ini file: `key = value` or `key: value` on a line of its own, under a section or before all of them; a
 * line that begins with # or ; is a comment, and so is what follows a blank and a ;. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/option.h"

#define LINE_BYTES_MAX (64 * 1024)

struct ini_reader {
	const struct option_key *table; /* keys outside the sections */
	const struct option_section *sections;
	void *settings;
	const struct option_key *here; /* keys of the current section, and what they set */
	void *target;
	const char *path;
	FILE *file;
	struct buf text; /* of the line */
	int line;
	struct err *err;
	enum rc rc;
};

static void
refuse_line(struct ini_reader *r, const char *why)
{
	r->rc = err_set(r->err, RC_BAD, "%s:%d: %s", r->path, r->line, why);
}

static bool
is_blank(int c)
{
	return c == ' ' || c == '\t';
}

/* The next line without its end; false at the end of the file or on an error. */
static bool
take_line(struct ini_reader *r)
{
	int c;

	buf_reset(&r->text);
	r->line++;
	while ((c = getc(r->file)) != EOF && c != '\n' && r->rc == RC_OK) {
		if (c == '\0')
			refuse_line(r, "the file holds a NUL byte");
		else if (r->text.len == LINE_BYTES_MAX)
			refuse_line(r, "the line is longer than 64 KiB");
		else
			buf_addc(&r->text, (char)c);
	}
	if (r->rc == RC_OK && ferror(r->file))
		r->rc = err_set(r->err, RC_BAD, "could not read %s: %s", r->path, strerror(errno));
	return r->rc == RC_OK && (c != EOF || r->text.len > 0);
}

static void
refuse_section(struct ini_reader *r)
{
	AUTO_BUF struct buf known = {0};

	for (const struct option_section *s = r->sections; s != NULL && s->word != NULL; s++)
		buf_addf(&known, " or [%s NAME]", s->word);
	r->rc = err_set(r->err, RC_BAD,
	    "%s:%d: unknown section; keys belong at the top of the file or under [pgrab]%s", r->path, r->line,
	    buf_str(&known));
}

static size_t
count_of(const struct option_section *s, const void *settings)
{
	return *(const size_t *)((const char *)settings + s->count);
}

static char *
list_of(const struct option_section *s, const void *settings)
{
	char *list; /* copied, since there it is a pointer of another type */

	memcpy(&list, (const char *)settings + s->list, sizeof list);
	return list;
}

static char **
name_at(const struct option_section *s, const void *settings, size_t i)
{
	return (char **)(list_of(s, settings) + i * s->size);
}

static bool
is_there(const struct option_section *s, const void *settings, const char *name)
{
	bool there = false;

	for (size_t i = 0; !there && i < count_of(s, settings); i++)
		there = strcmp(*name_at(s, settings, i), name) == 0;
	return there;
}

static bool
may_add(struct ini_reader *r, const struct option_section *s, const char *name)
{
	size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	struct err why;

	if (is_there(s, r->settings, name))
		err_set(&why, RC_BAD, "[%s %s] is given twice", s->word, name);
	else if (strlen(name) > s->name_most || (s->plain && name[plain] != '\0'))
		err_set(&why, RC_BAD, "[%s %.80s]: a name is %sat most %zu bytes", s->word, name,
		    s->plain ? "letters, digits, _ and -, " : "", s->name_most);
	else if (count_of(s, r->settings) == s->most)
		err_set(&why, RC_BAD, "a file holds at most %zu sections [%s NAME]", s->most, s->word);
	else
		return true;
	refuse_line(r, why.text);
	return false;
}

/* Begins the section of that word and name: the next keys belong to it. */
static void
add_section(struct ini_reader *r, const struct option_section *s, const char *text, size_t n)
{
	AUTO_FREE char *name = xmemdup0(text, n);
	size_t *count = (size_t *)((char *)r->settings + s->count);
	char *list;

	if (!may_add(r, s, name))
		return;
	list = xrealloc(list_of(s, r->settings), (*count + 1) * s->size);
	memcpy((char *)r->settings + s->list, &list, sizeof list);
	r->here = s->table;
	r->target = memset(list + (*count)++ * s->size, 0, s->size);
	option_defaults(s->table, r->target);
	*(char **)r->target = xstrdup(name);
}

void
option_free_sections(const struct option_section *s, void *settings)
{
	for (; s->word != NULL; s++) {
		for (size_t i = 0; i < count_of(s, settings); i++) {
			free(*name_at(s, settings, i));
			option_free(s->table, name_at(s, settings, i));
		}
		free(list_of(s, settings));
		memset((char *)settings + s->list, 0, sizeof(void *));
		memset((char *)settings + s->count, 0, sizeof(size_t));
	}
}

static bool
same_section(const struct option_key *keys, char *const *a, char *const *b)
{
	bool same = strcmp(*a, *b) == 0;

	for (; same && keys->name != NULL; keys++)
		same = option_same(keys, a, b);
	return same;
}

bool
option_same_sections(const struct option_section *s, const void *a, const void *b)
{
	bool same = true;

	for (; same && s->word != NULL; s++) {
		same = count_of(s, a) == count_of(s, b);
		for (size_t i = 0; same && i < count_of(s, a); i++)
			same = same_section(s->table, name_at(s, a, i), name_at(s, b, i));
	}
	return same;
}

/* text: the line after its "[". */
static void
enter_section(struct ini_reader *r, const char *text)
{
	const struct option_section *s = r->sections;
	size_t n = strcspn(text, "]");

	if (text[n] != ']' || strchr("\r;#", text[n + 1 + strspn(text + n + 1, " \t")]) == NULL)
		n = 0;
	if (n == strlen("pgrab") && strncmp(text, "pgrab", n) == 0) {
		r->here = r->table;
		r->target = r->settings;
		return;
	}
	while (n > 0 && is_blank(text[n - 1]))
		n--;
	for (; s != NULL && s->word != NULL; s++) {
		size_t word = strlen(s->word), name;

		if (n <= word || strncmp(text, s->word, word) != 0)
			continue;
		name = word + strspn(text + word, " \t");
		if (n > name && name > word) {
			add_section(r, s, text + name, n - name);
			return;
		}
	}
	refuse_section(r);
}

static void
trim_end(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && strchr(" \t\r\v\f", text[n - 1]) != NULL)
		n--;
	text[n] = '\0';
}

static void
cut_comment(char *text)
{
	for (char *p = text; *p != '\0'; p++) {
		if (*p == ';' && p > text && is_blank(p[-1])) {
			*p = '\0';
			return;
		}
	}
}

static void
take_key(struct ini_reader *r, char *text)
{
	char where[300], *value;

	cut_comment(text);
	value = text + strcspn(text, "=:");
	if (*value == '\0' || value == text) {
		refuse_line(r, "this is not `key = value`");
		return;
	}
	*value++ = '\0';
	value += strspn(value, " \t");
	trim_end(text);
	trim_end(value);
	snprintf(where, sizeof where, "%.280s:%d", r->path, r->line);
	r->rc = option_set(r->here, r->target, text, value, where, r->err);
}

static void
read_line(struct ini_reader *r)
{
	static const char bom[] = "\xef\xbb\xbf";
	char *text = r->text.data;

	if (r->line == 1 && strncmp(text, bom, 3) == 0)
		text += 3;
	text += strspn(text, " \t\r");
	if (*text == '[')
		enter_section(r, text + 1);
	else if (*text != '\0' && *text != '#' && *text != ';')
		take_key(r, text);
}

enum rc
option_read_file(const struct option_key *table, const struct option_section *sections, void *settings,
    const char *path, struct err *err)
{
	struct ini_reader r = {.table = table,
	    .sections = sections,
	    .settings = settings,
	    .here = table,
	    .target = settings,
	    .path = path,
	    .err = err,
	    .rc = RC_OK};

	r.file = fopen(path, "re");
	if (r.file == NULL)
		return err_set(err, RC_BAD, "could not open %s: %s", path, strerror(errno));
	while (r.rc == RC_OK && take_line(&r)) {
		if (r.text.len > 0)
			read_line(&r);
	}
	fclose(r.file);
	buf_fini(&r.text);
	return r.rc;
}
