/*
 * Spells the pairs of a log line.
 *
 * The format string is walked here instead of being given to vsnprintf as a whole, because in the finished
 * text a quote that ends a value looks like one inside a task's name or a message of the server: anybody who
 * can name a task could forge log fields.  Nothing is allocated, so that running out of memory can be logged.
 */
#include "base/log_format.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { END_BYTES = 32 }; /* kept free for the mark of a cut line and its end */

void
log_put(struct log_text *t, const char *s, size_t n)
{
	if (t->cut || n > sizeof t->text - END_BYTES - t->len) {
		t->cut = true;
		return;
	}
	memcpy(t->text + t->len, s, n);
	t->len += n;
}

static void
put_text(struct log_text *t, const char *s)
{
	log_put(t, s, strlen(s));
}

/* Bytes that must not reach the reader unescaped: control characters and what is not UTF-8. */
static void
put_bytes(struct log_text *t, const uint8_t *p, size_t n, bool valid)
{
	char out[8];

	if (t->json && valid) {
		snprintf(out, sizeof out, "\\u%04x", (unsigned)utf8_code_point(p, n) & 0xffff);
		put_text(t, out);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(out, sizeof out, "%s\\x%02X", t->json ? "\\" : "", p[i]);
		put_text(t, out);
	}
}

static void
put_escaped(struct log_text *t, const char *s, size_t n)
{
	static const char plain[] = "\n\t\r\"\\", escape[] = "ntr\"\\";

	for (size_t i = 0, len; i < n; i += len) {
		const char *special = s[i] != '\0' ? strchr(plain, s[i]) : NULL;

		len = utf8_sequence(s + i, n - i);
		if (special != NULL)
			log_put(t, (char[]){'\\', escape[special - plain]}, 2);
		else if (len > 0 && !utf8_is_control(s + i, len))
			log_put(t, s + i, len);
		else
			put_bytes(t, (const uint8_t *)s + i, len > 0 ? len : 1, len > 0);
		if (len == 0)
			len = 1;
	}
}

/* Would it mislead a reader that splits the line at blanks? */
static bool
needs_quotes(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((uint8_t)s[i] <= ' ' || (uint8_t)s[i] >= 0x7f || s[i] == '"' || s[i] == '\\')
			return true;
	return n == 0;
}

void
log_put_pair(struct log_text *t, const char *key, const char *value, size_t n, bool quoted)
{
	size_t start = t->len;
	const char *quote = t->json || quoted || needs_quotes(value, n) ? "\"" : "";

	put_text(t, t->json ? ",\"" : " ");
	put_text(t, key);
	put_text(t, t->json ? "\":" : "=");
	put_text(t, quote);
	put_escaped(t, value, n);
	put_text(t, quote);
	if (t->cut)
		t->len = start; /* half a pair would not parse */
}

void
log_put_end(struct log_text *t)
{
	const char *cut = !t->cut ? "" : t->json ? ",\"cut\":\"1\"" : " cut=1";

	t->len +=
	    (size_t)snprintf(t->text + t->len, sizeof t->text - t->len, "%s%s", cut, t->json ? "}\n" : "\n");
}

struct pair {
	struct log_text *t;
	enum { IN_KEY, IN_VALUE, IN_QUOTES } at;
	bool quoted;
	size_t key_len, len;
	char key[48];
	char value[2048]; /* longer ones are cut */
};

static void
end_pair(struct pair *p)
{
	bool again;

	p->key[p->key_len] = '\0';
	again = p->t->node != NULL && strcmp(p->key, "node") == 0 && strlen(p->t->node) == p->len &&
		memcmp(p->value, p->t->node, p->len) == 0;
	if (p->key_len > 0 && !again)
		log_put_pair(p->t, p->key, p->value, p->len, p->quoted);
	p->at = IN_KEY;
	p->quoted = false;
	p->key_len = p->len = 0;
}

/* Text that belongs to the key or value, even if it looks like syntax. */
static void
add_data(struct pair *p, const char *s, size_t n)
{
	if (p->at == IN_KEY) {
		for (size_t i = 0; i < n && p->key_len + 1 < sizeof p->key; i++) {
			unsigned char c = (unsigned char)s[i];
			bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				    (c >= '0' && c <= '9') || c == '.' || c == '-';

			p->key[p->key_len++] = word ? (char)c : '_';
		}
		return;
	}
	if (n > sizeof p->value - p->len)
		n = sizeof p->value - p->len;
	memcpy(p->value + p->len, s, n);
	p->len += n;
}

/* A character of the format itself. */
static void
add_literal(struct pair *p, char c)
{
	if (c == ' ' && p->at != IN_QUOTES)
		end_pair(p);
	else if (c == '=' && p->at == IN_KEY)
		p->at = IN_VALUE;
	else if (c == '"' && p->at == IN_VALUE && !p->quoted) {
		p->quoted = true;
		p->at = IN_QUOTES;
	} else if (c == '"' && p->at == IN_QUOTES)
		p->at = IN_VALUE;
	else
		add_data(p, &c, 1);
}

/* False: not one of these types. */
static bool
add_number(struct pair *p, const char *type, va_list *ap)
{
	char out[24];
	int n;

	if (strcmp(type, "d") == 0)
		n = snprintf(out, sizeof out, "%d", va_arg(*ap, int));
	else if (strcmp(type, "u") == 0)
		n = snprintf(out, sizeof out, "%u", va_arg(*ap, unsigned));
	else if (strcmp(type, "ld") == 0)
		n = snprintf(out, sizeof out, "%ld", va_arg(*ap, long));
	else if (strcmp(type, "lu") == 0)
		n = snprintf(out, sizeof out, "%lu", va_arg(*ap, unsigned long));
	else if (strcmp(type, "lld") == 0)
		n = snprintf(out, sizeof out, "%lld", va_arg(*ap, long long));
	else if (strcmp(type, "llu") == 0)
		n = snprintf(out, sizeof out, "%llu", va_arg(*ap, unsigned long long));
	else if (strcmp(type, "zu") == 0)
		n = snprintf(out, sizeof out, "%zu", va_arg(*ap, size_t));
	else
		return false;
	add_data(p, out, (size_t)n);
	return true;
}

/* What lines of a log need: texts, perhaps cut (%.40s, %.*s), and whole numbers as they are.
 * f points just after the '%'; returns what follows the conversion. */
static const char *
add_conversion(struct pair *p, const char *f, va_list *ap)
{
	size_t most = SIZE_MAX, n = strspn(f, "lz") + 1;
	const char *s;
	char type[4];

	if (*f == '.' && f[1] == '*') {
		most = (size_t)va_arg(*ap, int);
		f += 2;
	} else if (*f == '.') {
		most = strtoul(f + 1, (char **)&f, 10);
	}
	if (*f == 's' || *f == 'm') {
		s = *f == 's' ? va_arg(*ap, const char *) : strerror(errno);
		s = s == NULL ? "(null)" : s;
		add_data(p, s, strnlen(s, most));
	} else if (*f == '%') {
		add_data(p, "%", 1);
	} else {
		snprintf(type, sizeof type, "%.*s", (int)n, f);
		if (add_number(p, type, ap))
			return f + n;
		add_data(p, "?", 1);
		return ""; /* its argument cannot be skipped */
	}
	return f + 1;
}

void
log_put_pairs(struct log_text *t, const char *fmt, va_list *ap)
{
	struct pair p = {.t = t};

	while (*fmt != '\0') {
		if (*fmt == '%')
			fmt = add_conversion(&p, fmt + 1, ap);
		else
			add_literal(&p, *fmt++);
	}
	end_pair(&p);
}
