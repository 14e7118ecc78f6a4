#include "core/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define CUTS_MAX    16
#define PIECE_LEAST 4 /* bytes of a value next to a cut: fewer are left there */
#define CUT_LINE    ": ..."

enum secret_from
secret_reference(const struct run *r, size_t i, const char **name_out)
{
	const struct pair *p = &r->task.args.item[i];
	const char *colon = strchr(p->key, ':'), *eq = strchr(p->value, '=');
	enum secret_from from = SECRET_NONE;

	if (colon != NULL && eq != NULL && strcmp(colon, ":secret") == 0)
		from = SECRET_TABLE;
	else if (colon != NULL && eq != NULL && strcmp(colon, ":file") == 0)
		from = SECRET_FILE;
	*name_out = from == SECRET_NONE ? NULL : eq + 1;
	return from;
}

bool
secret_wanted(const struct run *r)
{
	const char *name;

	for (size_t i = 0; i < r->task.args.count; i++) {
		if (secret_reference(r, i, &name) == SECRET_TABLE)
			return true;
	}
	return false;
}

void
secret_fill(struct run *r, size_t i, const char *value)
{
	struct pair *p = &r->task.args.item[i];
	char *key = r->task.args.memory + (p->key - r->task.args.memory);
	int name = (int)(strchr(p->value, '=') - p->value);
	char *text = xasprintf("%.*s=%s", name, p->value, value);

	key[strcspn(key, ":")] = '\0';
	r->task.secret = xrealloc(r->task.secret, (r->task.n_secrets + 1) * sizeof *r->task.secret);
	r->task.secret[r->task.n_secrets++] = text;
	p->value = text;
}

/* A text in which something is found while all of it is still there, because one value may be in another.
 * Searches are linear (Knuth, Morris, Pratt): an owner chooses both the secret and the text. */
struct hiding {
	const char *text;
	size_t n;
	bool *hidden;          /* of each byte */
	size_t *back;          /* scratch, as long as the longest value: see prepare() */
	size_t cut[CUTS_MAX];  /* before these bytes something is missing */
	size_t open[CUTS_MAX]; /* and from these on */
	size_t n_cuts, n_opens;
};

static void
hide(struct hiding *h, size_t at, size_t n)
{
	memset(h->hidden + at, true, n);
}

/* "\n... 123 bytes dropped ...\n" of a long output; ": ..." before a line of which only the end is quoted. */
static void
find_cuts(struct hiding *h, bool goes_on)
{
	const char *p = h->text, *line = strstr(h->text, CUT_LINE);
	int end;

	if (line != NULL)
		h->cut[h->n_cuts++] = (size_t)(line - h->text) + strlen(CUT_LINE);
	for (; (p = strstr(p, "\n... ")) != NULL && h->n_cuts < CUTS_MAX && h->n_opens < CUTS_MAX - 1; p++) {
		end = 0;
		(void)sscanf(p, "\n... %*u bytes dropped ...%n", &end);
		if (end == 0 || p[end] != '\n')
			continue;
		h->open[h->n_opens++] = (size_t)(p - h->text);
		h->cut[h->n_cuts++] = (size_t)(p - h->text) + (size_t)end + 1;
	}
	if (goes_on)
		h->open[h->n_opens++] = h->n;
}

/* back[i]: how long the longest beginning of a is, shorter than i + 1, with which its first i + 1 bytes
 * end. */
static void
prepare(const char *a, size_t n, size_t *back)
{
	size_t k = 0;

	back[0] = 0;
	for (size_t i = 1; i < n; i++) {
		while (k > 0 && a[i] != a[k])
			k = back[k - 1];
		k += a[i] == a[k];
		back[i] = k;
	}
}

/* k bytes of a have been found right before c: how many then. */
static size_t
advance(const char *a, size_t n, const size_t *back, size_t k, char c)
{
	if (k == n)
		k = back[k - 1];
	while (k > 0 && a[k] != c)
		k = back[k - 1];
	return k + (a[k] == c);
}

/* The length of the longest beginning of a with which b ends. */
static size_t
overlap(const char *a, size_t n_a, const char *b, size_t n_b, size_t *back)
{
	size_t n = n_a < n_b ? n_a : n_b, k = 0;

	if (n == 0)
		return 0;
	prepare(a, n, back);
	for (size_t i = n_b - n; i < n_b; i++)
		k = advance(a, n, back, k, b[i]);
	return k;
}

/* The end of the value behind a cut, its beginning before one. */
static void
hide_pieces(struct hiding *h, const char *value, size_t n)
{
	size_t k;

	for (size_t i = 0; i < h->n_cuts; i++) {
		k = overlap(h->text + h->cut[i], h->n - h->cut[i], value, n, h->back);
		if (k >= PIECE_LEAST)
			hide(h, h->cut[i], k);
	}
	for (size_t i = 0; i < h->n_opens; i++) {
		k = overlap(value, n, h->text, h->open[i], h->back);
		if (k >= PIECE_LEAST)
			hide(h, h->open[i] - k, k);
	}
}

/* Its places may overlap. */
static void
hide_value(struct hiding *h, const char *value, size_t n)
{
	size_t k = 0, done = 0;

	if (n < SECRET_HIDE)
		return;
	prepare(value, n, h->back);
	for (size_t i = 0; i < h->n; i++) {
		k = advance(value, n, h->back, k, h->text[i]);
		if (k == n) {
			done = done > i + 1 - n ? done : i + 1 - n;
			hide(h, done, i + 1 - done);
			done = i + 1;
		}
	}
	hide_pieces(h, value, n);
}

/* An error quotes one line of what may be a key of many. */
static void
hide_lines(struct hiding *h, const char *value)
{
	size_t n;

	for (const char *line = value + strspn(value, "\r\n"); *line != '\0'; line += strspn(line, "\r\n")) {
		const char *at = h->text;

		n = strcspn(line, "\r\n");
		while (
		    n >= SECRET_HIDE && (at = memmem(at, h->n - (size_t)(at - h->text), line, n)) != NULL) {
			hide(h, (size_t)(at - h->text), n);
			at += n;
		}
		if (n >= SECRET_HIDE)
			hide_pieces(h, line, n);
		line += n;
	}
}

void
secret_hide(const struct run *r, char *text, bool goes_on)
{
	struct hiding h = {.text = text};
	size_t longest = 0;

	if (text == NULL || r->task.n_secrets == 0)
		return;
	for (size_t i = 0; i < r->task.n_secrets; i++) {
		size_t n = strlen(r->task.secret[i]);

		longest = n > longest ? n : longest;
	}
	h.n = strlen(text);
	h.hidden = xcalloc(h.n + 1, sizeof *h.hidden);
	h.back = xcalloc(longest + 1, sizeof *h.back);
	find_cuts(&h, goes_on);
	for (size_t i = 0; i < r->task.n_secrets; i++) {
		const char *value = strchr(r->task.secret[i], '=') + 1;

		hide_value(&h, value, strlen(value));
		if (strpbrk(value, "\r\n") != NULL)
			hide_lines(&h, value);
	}
	for (size_t i = 0; i < h.n; i++)
		text[i] = h.hidden[i] ? '*' : text[i];
	free(h.hidden);
	free(h.back);
}

void
secret_fini(struct run *r)
{
	for (size_t i = 0; i < r->task.n_secrets; i++) {
		explicit_bzero(r->task.secret[i], strlen(r->task.secret[i]));
		free(r->task.secret[i]);
	}
	free(r->task.secret);
	r->task.secret = NULL;
	r->task.n_secrets = 0;
}
