/* A lexer that knows just enough of SQL to find the end of a statement; see sql_split.h. */
#include "db/sql_split.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool
word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Returns what follows the closing quote; a doubled quote is one character, a
 * backslash counts in E'' strings. */
static const char *
skip_quoted(const char *p, bool backslash)
{
	char quote = *p++;

	for (; *p != '\0'; p++) {
		if (backslash && *p == '\\' && p[1] != '\0')
			p++;
		else if (*p == quote && p[1] == quote)
			p++;
		else if (*p == quote)
			return p + 1;
	}
	return p;
}

static const char *
skip_comment(const char *p)
{
	unsigned depth = 1;

	for (p += 2; *p != '\0' && depth > 0; p++) {
		if (p[0] == '/' && p[1] == '*') {
			depth++;
			p++;
		} else if (p[0] == '*' && p[1] == '/') {
			depth--;
			p++;
		}
	}
	return p;
}

/* p is at '$'.  Returns what follows the closing tag, or NULL when it is not a dollar quote. */
static const char *
skip_dollar(const char *p)
{
	size_t tag = 1;

	if (isdigit((unsigned char)p[1]))
		return NULL;
	while (p[tag] != '$') {
		if (p[tag] == '\0' ||
		    (!isalnum((unsigned char)p[tag]) && p[tag] != '_' && (unsigned char)p[tag] < 0x80))
			return NULL;
		tag++;
	}
	tag++;
	for (const char *q = p + tag; *q != '\0'; q++) {
		if (*q == '$' && strncmp(q, p, tag) == 0)
			return q + tag;
	}
	return p + strlen(p);
}

struct lexer {
	int parens;
	int blocks;     /* BEGIN ATOMIC and CASE inside it */
	bool was_begin; /* the word before was BEGIN */
};

static const char *
skip_word(struct lexer *lx, const char *p)
{
	const char *start = p;
	size_t n;

	while (word_char(*p))
		p++;
	n = (size_t)(p - start);
	if (lx->was_begin && n == 6 && strncasecmp(start, "atomic", 6) == 0)
		lx->blocks++;
	else if (lx->blocks > 0 && n == 4 && strncasecmp(start, "case", 4) == 0)
		lx->blocks++;
	else if (lx->blocks > 0 && n == 3 && strncasecmp(start, "end", 3) == 0)
		lx->blocks--;
	lx->was_begin = n == 5 && strncasecmp(start, "begin", 5) == 0;
	return p;
}

/* One token or blank.  Sets *code_out when it is part of a statement. */
static const char *
skip_token(struct lexer *lx, const char *p, bool *code_out)
{
	const char *q;

	*code_out = true;
	if (isspace((unsigned char)*p) || (p[0] == '-' && p[1] == '-') || (p[0] == '/' && p[1] == '*')) {
		*code_out = false;
		if (p[0] == '-')
			return p + strcspn(p, "\n");
		return p[0] == '/' ? skip_comment(p) : p + 1;
	}
	if ((*p == 'e' || *p == 'E') && p[1] == '\'')
		return skip_quoted(p + 1, true);
	if (*p == '\'' || *p == '"')
		return skip_quoted(p, false);
	if (*p == '$' && (q = skip_dollar(p)) != NULL)
		return q;
	if (word_char(*p))
		return skip_word(lx, p);
	lx->parens += *p == '(' ? 1 : *p == ')' && lx->parens > 0 ? -1 : 0;
	return p + 1;
}

bool
sql_has_param(const char *text)
{
	struct lexer lx = {0};
	bool code;

	for (const char *p = text; *p != '\0'; p = skip_token(&lx, p, &code)) {
		if (p[0] == '$' && p[1] == '1' && !isdigit((unsigned char)p[2]))
			return true;
	}
	return false;
}

size_t
sql_split(const char *text, struct sql_part *parts, size_t max)
{
	const char *p = text, *start = text;
	size_t n = 0;
	bool any = false, code;

	for (;;) {
		struct lexer lx = {0};

		any = false;
		start = p;
		while (*p != '\0' && !(*p == ';' && lx.parens == 0 && lx.blocks == 0)) {
			p = skip_token(&lx, p, &code);
			any = any || code;
		}
		if (any && n < max)
			parts[n] = (struct sql_part){start, (size_t)(p - start)};
		n += any ? 1 : 0;
		if (*p == '\0' || n > max)
			return n;
		p++;
	}
}
