/* What pages of the manual are made of. */
#include <string.h>

#include "base/version.h"
#include "cli/manual.h"

enum { ROFF_COLUMNS = 78 };

static void
put_char(struct buf *out, char c)
{
	switch (c) {
	case '\\': buf_adds(out, "\\e"); break;
	case '-': buf_adds(out, "\\-"); break;
	case '\'': buf_adds(out, "\\(aq"); break;
	case '`': buf_adds(out, "\\(ga"); break;
	case '^': buf_adds(out, "\\(ha"); break;
	case '~': buf_adds(out, "\\(ti"); break;
	default: buf_addc(out, c);
	}
}

/* A dot at the beginning of a line would be a macro. */
static void
put_words(struct buf *out, const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '.' && (p == text || p[-1] == '\n'))
			buf_adds(out, "\\&");
		put_char(out, *p);
	}
}

void
manual_text(struct buf *out, const char *text)
{
	AUTO_BUF struct buf lines = {0};

	buf_wrap(&lines, text, ROFF_COLUMNS, "");
	put_words(out, buf_str(&lines));
}

/* Between texts, so that none begins or ends with it: an empty line, or a list that has ended. */
void
manual_paragraph(struct buf *out, const char *text)
{
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");
		bool example = *text == ' ';
		AUTO_BUF struct buf part = {0};

		/* Lines that begin with a blank are shown as they are; others flow. */
		while (text[n] == '\n' && (text[n + 1] == ' ') == example && text[n + 1] != '\0')
			n += 1 + strcspn(text + n + 1, "\n");
		buf_add(&part, text, n);
		if (example) {
			buf_adds(out, ".PP\n.nf\n");
			put_words(out, buf_str(&part));
			buf_adds(out, "\n.fi\n");
		} else {
			buf_adds(out, ".PP\n");
			manual_text(out, buf_str(&part));
		}
		text += n + (text[n] == '\n' ? 1 : 0);
	}
}

void
manual_item(struct buf *out, const char *bold, const char *italic, const char *text)
{
	buf_adds(out, ".TP\n\\fB");
	put_words(out, bold);
	buf_adds(out, "\\fR");
	if (italic != NULL) {
		buf_adds(out, " \\fI");
		put_words(out, italic);
		buf_adds(out, "\\fR");
	}
	buf_addc(out, '\n');
	manual_text(out, text);
}

void
manual_section(struct buf *out, const char *title)
{
	buf_addf(out, ".SH %s\n", title);
}

void
manual_subsection(struct buf *out, const char *title)
{
	buf_adds(out, ".SS ");
	put_words(out, title);
	buf_addc(out, '\n');
}

void
manual_head(struct buf *out, const char *title, const char *section, const char *name, const char *what)
{
	buf_addf(out, ".\\\" Made from the program's own tables by `pgrab help --man`.\n");
	buf_addf(out, ".TH %s %s \"\" \"pgrab %s\" \"pgrab manual\"\n", title, section, version_text());
	manual_section(out, "NAME");
	buf_addf(out, "%s \\- %s\n", name, what);
}

void
manual_see_also(struct buf *out, const char *pages)
{
	manual_section(out, "SEE ALSO");
	buf_addf(out, "%s\n", pages);
}
