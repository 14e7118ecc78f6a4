/*
 * The ini file, through libinih.  What libinih does silently is caught in the reader that feeds it its lines:
 * it cuts a line at 200 bytes and takes the rest for another, takes an indented line for more of the value
 * above, and passes over a section without keys.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/option.h"

struct ini_reader {
	const struct option_key *table; /* keys of the whole */
	const struct option_section *sections;
	void *settings;
	const struct option_key *here; /* keys of the section that is read, and what they set */
	void *target;
	const char *path;
	FILE *file;
	int line; /* libinih does not tell its handler */
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

/* One line without its indent and its end into str[0..size); false at the end of the file or on an error. */
static bool
take_line(struct ini_reader *r, char *str, size_t size)
{
	size_t n = 0;
	int c;

	while (is_blank(c = getc(r->file)))
		;
	r->line++;
	for (; c != EOF && c != '\n' && r->rc == RC_OK; c = getc(r->file)) {
		if (c == '\0')
			refuse_line(r, "the file holds a NUL byte");
		else if (n + 2 >= size) /* 2: "\n" and NUL */
			refuse_line(r, "the line is too long (at most 198 bytes); give this key as a flag or "
				       "as a PGRAB_ variable");
		else
			str[n++] = (char)c;
	}
	if (ferror(r->file))
		r->rc = err_set(r->err, RC_BAD, "could not read %s: %s", r->path, strerror(errno));
	str[n] = '\n';
	str[n + 1] = '\0';
	return r->rc == RC_OK && (c != EOF || n > 0);
}

static void
refuse_section(struct ini_reader *r)
{
	struct buf known = {0};

	for (const struct option_section *s = r->sections; s != NULL && s->word != NULL; s++)
		buf_addf(&known, " or [%s NAME]", s->word);
	r->rc = err_set(r->err, RC_BAD,
	    "%s:%d: unknown section; keys stand at the top of the file or under [pgrab]%s", r->path, r->line,
	    buf_str(&known));
	buf_fini(&known);
}

/* The section of that word and name is what the next keys belong to. */
static void
add_section(struct ini_reader *r, const struct option_section *s, const char *text, size_t n)
{
	char *name = xmemdup0(text, n);
	struct err why;
	void *target = s->add(r->settings, name, &why);

	free(name);
	if (target == NULL) {
		refuse_line(r, why.text);
		return;
	}
	r->here = s->table;
	r->target = target;
}

/* text: the line after its "[", with its end. */
static void
enter_section(struct ini_reader *r, const char *text)
{
	const struct option_section *s = r->sections;
	size_t n = strcspn(text, "]\n");

	if (text[n] != ']' || strchr("\r\n;#", text[n + 1 + strspn(text + n + 1, " \t")]) == NULL)
		n = 0;
	if (n == strlen("pgrab") && strncmp(text, "pgrab", n) == 0) {
		r->here = r->table;
		r->target = r->settings;
		return;
	}
	while (n > 0 && is_blank(text[n - 1]))
		n--;
	for (; s != NULL && s->word != NULL; s++) {
		size_t word = strlen(s->word), name = word + strspn(text + word, " \t");

		if (n > name && name > word && strncmp(text, s->word, word) == 0) {
			add_section(r, s, text + name, n - name);
			return;
		}
	}
	refuse_section(r);
}

static char *
read_line(char *str, int size, void *stream)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct ini_reader *r = stream;
	char *text = str;

	if (!take_line(r, str, (size_t)size))
		return NULL;
	if (r->line == 1 && strncmp(str, bom, 3) == 0)
		text += 3;
	if (text[0] == '[')
		enter_section(r, text + 1);
	return r->rc == RC_OK ? str : NULL;
}

/* Which section it is, enter_section knows: libinih would cut a long name. */
static int
take_key(void *user, const char *section, const char *name, const char *value)
{
	struct ini_reader *r = user;
	char where[300];

	if (r->rc == RC_OK) {
		snprintf(where, sizeof where, "%.280s:%d", r->path, r->line);
		r->rc = option_set(r->here, r->target, name, value, where, r->err);
	}
	return r->rc == RC_OK;
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
	int bad;

	r.file = fopen(path, "re");
	if (r.file == NULL)
		return err_set(err, RC_BAD, "could not open %s: %s", path, strerror(errno));
	bad = ini_parse_stream(read_line, &r, take_key, &r);
	fclose(r.file);
	if (r.rc == RC_OK && bad != 0)
		return err_set(err, RC_BAD, "%s:%d: this is not `key = value`", path, bad);
	return r.rc;
}
