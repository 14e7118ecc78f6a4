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

/* The pair that is being read from the format. */
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

/* A conversion: "%-08.3" of "%-08.3lld" in text, 'L' in size (h, H = hh, l, L = ll,
 * z, j, t), 'd' in letter. */
struct conversion {
	char text[32];
	size_t len;
	int precision; /* -1: none */
	char size;
	char letter;
};

static void
add_spec(struct conversion *c, const char *s)
{
	for (; *s != '\0' && c->len + 3 < sizeof c->text; s++) /* 3: 'j', the letter and NUL */
		c->text[c->len++] = *s;
}

/* A number of the format or, for '*', of the arguments. */
static const char *
take_number(struct conversion *c, const char *f, va_list *ap, int *out)
{
	char text[16];

	*out = 0;
	if (*f == '*') {
		*out = va_arg(*ap, int);
		f++;
	}
	for (; *f >= '0' && *f <= '9' && *out < 10000; f++)
		*out = *out * 10 + (*f - '0');
	snprintf(text, sizeof text, "%d", *out);
	add_spec(c, text);
	return f;
}

/* f points just after the '%'; returns what follows the conversion. */
static const char *
take_conversion(struct conversion *c, const char *f, va_list *ap)
{
	int width;

	*c = (struct conversion){.text = "%", .len = 1, .precision = -1};
	for (; *f != '\0' && strchr("-+ #0", *f) != NULL; f++)
		add_spec(c, (char[]){*f, '\0'});
	if (*f == '*' || (*f >= '1' && *f <= '9'))
		f = take_number(c, f, ap, &width);
	if (*f == '.') {
		add_spec(c, ".");
		f = take_number(c, f + 1, ap, &c->precision);
	}
	for (; *f != '\0' && strchr("hlzjt", *f) != NULL; f++)
		c->size = c->size == *f ? (char)(*f - 'a' + 'A') : *f;
	c->letter = *f;
	return *f != '\0' ? f + 1 : f;
}

static intmax_t
take_signed(char size, va_list *ap)
{
	switch (size) {
	case 'l': return va_arg(*ap, long);
	case 'L': return va_arg(*ap, long long);
	case 'z': return va_arg(*ap, ssize_t);
	case 'j': return va_arg(*ap, intmax_t);
	case 't': return va_arg(*ap, ptrdiff_t);
	case 'h': return (short)va_arg(*ap, int);
	case 'H': return (signed char)va_arg(*ap, int);
	default: return va_arg(*ap, int);
	}
}

static uintmax_t
take_unsigned(char size, va_list *ap)
{
	switch (size) {
	case 'l': return va_arg(*ap, unsigned long);
	case 'L': return va_arg(*ap, unsigned long long);
	case 'z': return va_arg(*ap, size_t);
	case 'j': return va_arg(*ap, uintmax_t);
	case 't': return (uintmax_t)va_arg(*ap, ptrdiff_t);
	case 'h': return (unsigned short)va_arg(*ap, unsigned);
	case 'H': return (unsigned char)va_arg(*ap, unsigned);
	default: return va_arg(*ap, unsigned);
	}
}

/* The one format that is not a literal: the compiler checked its flags, width and precision in the caller. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void
add_number(struct pair *p, struct conversion *c, va_list *ap)
{
	char out[400]; /* "%f" of DBL_MAX has 317 characters */
	int n;

	if (strchr("diuxXo", c->letter) != NULL)
		add_spec(c, "j");
	c->text[c->len++] = c->letter;
	c->text[c->len] = '\0';
	if (c->letter == 'd' || c->letter == 'i')
		n = snprintf(out, sizeof out, c->text, take_signed(c->size, ap));
	else if (strchr("uxXo", c->letter) != NULL)
		n = snprintf(out, sizeof out, c->text, take_unsigned(c->size, ap));
	else if (c->letter == 'p')
		n = snprintf(out, sizeof out, "%p", va_arg(*ap, void *));
	else
		n = snprintf(out, sizeof out, c->text, va_arg(*ap, double));
	if (n > 0)
		add_data(p, out, (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
}
#pragma GCC diagnostic pop

static void
add_string(struct pair *p, const struct conversion *c, const char *s)
{
	if (s == NULL)
		s = "(null)";
	add_data(p, s, c->precision >= 0 ? strnlen(s, (size_t)c->precision) : strlen(s));
}

/* False: an unknown conversion, so the type of its argument is unknown too. */
static bool
add_conversion(struct pair *p, struct conversion *c, va_list *ap)
{
	char one;

	switch (c->letter) {
	case '%': add_data(p, "%", 1); return true;
	case 's': add_string(p, c, va_arg(*ap, const char *)); return true;
	case 'm': add_string(p, c, strerror(errno)); return true;
	case 'c':
		one = (char)va_arg(*ap, int);
		add_data(p, &one, 1);
		return true;
	default:
		if (c->letter == '\0' || strchr("diuxXopeEfFgG", c->letter) == NULL)
			return false;
		add_number(p, c, ap);
		return true;
	}
}

void
log_put_pairs(struct log_text *t, const char *fmt, va_list *ap)
{
	struct pair p = {.t = t};
	struct conversion c;

	while (*fmt != '\0') {
		if (*fmt != '%') {
			add_literal(&p, *fmt++);
			continue;
		}
		fmt = take_conversion(&c, fmt + 1, ap);
		if (!add_conversion(&p, &c, ap)) {
			add_data(&p, "?", 1);
			break;
		}
	}
	end_pair(&p);
}
