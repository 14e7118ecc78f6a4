#include "db/dsn.h"

#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/buf.h"
#include "base/texts.h"

#define STARS "***"

static const char misleading_words[] =
    "could not connect: the URL cannot be read as it was meant; write @, : and / in a user or password as "
    "%40, %3A and %2F (libpq's own message is left out: it may hold a piece of the password)";

static bool
is_conninfo(const char *dsn)
{
	return strchr(dsn, '=') != NULL || strstr(dsn, "://") != NULL;
}

/* A URL that libpq splits in other places than its author meant, because the password has a bare @, / or : in
 * it.  Its message would then show a piece of the password as the name of a host or a port. */
static bool
is_misleading(const char *dsn)
{
	const char *start = strstr(dsn, "://"), *at, *slash;

	if (start == NULL)
		return false;
	start += 3;
	at = strchr(start, '@');
	slash = strpbrk(start, "/?");
	if (at == NULL)
		return false;
	return strchr(at + 1, '@') != NULL || (slash != NULL && slash < at);
}

/* The passwords as libpq reads them; misread_out: which part is one cannot be told. */
static PQconninfoOption *
parse(const char *dsn, bool *misread_out)
{
	PQconninfoOption *all = is_conninfo(dsn) ? PQconninfoParse(dsn, NULL) : NULL;

	*misread_out = is_conninfo(dsn) && (all == NULL || is_misleading(dsn));
	return all;
}

static bool
is_password(const PQconninfoOption *o)
{
	return o->val != NULL && o->val[0] != '\0' &&
	       (strcmp(o->keyword, "password") == 0 || strcmp(o->keyword, "sslpassword") == 0);
}

bool
dsn_has_password(const char *dsn)
{
	bool has;
	PQconninfoOption *all = parse(dsn, &has);

	for (const PQconninfoOption *o = all; o != NULL && o->keyword != NULL; o++)
		has = has || is_password(o);
	PQconninfoFree(all);
	return has;
}

static void
replace(struct buf *b, const char *text, const char *what)
{
	const char *at;

	for (; (at = strstr(text, what)) != NULL; text = at + strlen(what)) {
		buf_add(b, text, (size_t)(at - text));
		buf_adds(b, STARS);
	}
	buf_adds(b, text);
}

/* Replaces everything from the first double quote on, except the quoted "=" that libpq misses: the quoted
 * piece may itself hold quotes, and the text may be cut. */
static void
replace_quoted(struct buf *b, const char *text)
{
	static const char sign[] = "\"=\"";
	const char *first = strchr(text, '"');

	if (first != NULL && strncmp(first, sign, strlen(sign)) == 0)
		first = strchr(first + strlen(sign), '"');
	if (first == NULL) {
		buf_adds(b, text);
		return;
	}
	buf_add(b, text, (size_t)(first - text));
	buf_adds(b, "\"" STARS "\"");
}

static void
set(char *text, size_t size, const struct buf *b)
{
	size_t n = b->len < size ? b->len : size - 1;

	memcpy(text, buf_str(b), n);
	text[n] = '\0';
}

void
dsn_hide(const char *dsn, char *text, size_t size)
{
	bool misread;
	PQconninfoOption *all = parse(dsn, &misread);

	for (const PQconninfoOption *o = all; o != NULL && o->keyword != NULL; o++) {
		AUTO_BUF struct buf b = {0};

		if (!is_password(o) || strlen(o->val) < 3)
			continue; /* libpq never shows one it has parsed; a short one would hide words */
		replace(&b, text, o->val);
		set(text, size, &b);
	}
	if (is_misleading(dsn)) {
		snprintf(text, size, "%s", misleading_words);
	} else if (misread) {
		AUTO_BUF struct buf b = {0};

		replace_quoted(&b, text);
		set(text, size, &b);
	}
	PQconninfoFree(all);
}

static void
put_option(struct buf *b, const char *keyword, const char *value)
{
	buf_addf(b, "%s%s='", b->len > 0 ? " " : "", keyword);
	for (; *value != '\0'; value++) {
		if (*value == '\'' || *value == '\\')
			buf_addc(b, '\\');
		buf_addc(b, *value);
	}
	buf_addc(b, '\'');
}

static PQconninfoOption *
parse_any(const char *dsn)
{
	AUTO_BUF struct buf b = {0};

	if (dsn != NULL && *dsn != '\0' && !is_conninfo(dsn))
		put_option(&b, "dbname", dsn); /* as PQconnectdb would take it */
	return PQconninfoParse(b.len > 0 ? buf_str(&b) : dsn == NULL ? "" : dsn, NULL);
}

/* An address goes with its host: what another host takes the place of must not be where libpq connects. */
static bool
is_left(const PQconninfoOption *base, const PQconninfoOption *over, size_t i)
{
	if (strcmp(base[i].keyword, "hostaddr") != 0)
		return true;
	while (over->keyword != NULL && strcmp(over->keyword, "host") != 0)
		over++;
	return over->keyword == NULL || over->val == NULL;
}

/* Both lists have the same keywords in the same order. */
char *
dsn_over(const char *base, const char *over)
{
	PQconninfoOption *b = parse_any(base), *o = parse_any(over);
	struct buf out = {0};

	for (size_t i = 0; b != NULL && o != NULL && b[i].keyword != NULL; i++) {
		const char *value = o[i].val != NULL ? o[i].val : is_left(b, o, i) ? b[i].val : NULL;

		if (value != NULL)
			put_option(&out, b[i].keyword, value);
	}
	if (b == NULL || o == NULL)
		buf_fini(&out);
	else
		buf_str(&out);
	PQconninfoFree(b);
	PQconninfoFree(o);
	return b == NULL || o == NULL ? NULL : buf_steal(&out);
}

bool
dsn_has_login(const char *dsn)
{
	PQconninfoOption *all = parse_any(dsn);
	bool has = all == NULL;

	for (const PQconninfoOption *o = all; o != NULL && o->keyword != NULL; o++)
		has =
		    has || (o->val != NULL && IS_ONE_OF(o->keyword, "user", "password", "passfile", "service",
						  "sslcert", "sslkey", "sslpassword", "options"));
	PQconninfoFree(all);
	return has;
}
