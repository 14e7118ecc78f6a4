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

/* Begins the section of that word and name: the next keys belong to it. */
static void
add_section(struct ini_reader *r, const struct option_section *s, const char *text, size_t n)
{
	AUTO_FREE char *name = xmemdup0(text, n);
	struct err why;
	void *target = s->add(r->settings, name, &why);

	if (target == NULL) {
		refuse_line(r, why.text);
		return;
	}
	r->here = s->table;
	r->target = target;
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
