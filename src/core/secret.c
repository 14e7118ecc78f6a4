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

/* A text in which something is found while all of it is still there, because one value may be in another. */
struct hiding {
	const char *text;
	size_t n;
	bool *hidden;          /* of each byte */
	size_t cut[CUTS_MAX];  /* before these bytes something is missing */
	size_t open[CUTS_MAX]; /* behind the byte before each of these, too; the last is the end */
	size_t n_cuts, n_opens;
};

static void
hide(struct hiding *h, size_t at, size_t n)
{
	memset(h->hidden + at, true, n);
}

/* "\n... 123 bytes dropped ...\n" of a long output; ": ..." before a line of which only the end is quoted. */
static void
find_cuts(struct hiding *h)
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
	h->open[h->n_opens++] = h->n;
}

/* The longest piece counts: the end of the value behind a cut, its beginning before one. */
static void
hide_pieces(struct hiding *h, const char *value, size_t n)
{
	for (size_t i = 0; i < h->n_cuts; i++) {
		size_t left = h->n - h->cut[i], k = n < left ? n : left;

		while (k >= PIECE_LEAST && memcmp(h->text + h->cut[i], value + n - k, k) != 0)
			k--;
		if (k >= PIECE_LEAST)
			hide(h, h->cut[i], k);
	}
	for (size_t i = 0; i < h->n_opens; i++) {
		size_t k = n < h->open[i] ? n : h->open[i];

		while (k >= PIECE_LEAST && memcmp(h->text + h->open[i] - k, value, k) != 0)
			k--;
		if (k >= PIECE_LEAST)
			hide(h, h->open[i] - k, k);
	}
}

static void
hide_value(struct hiding *h, const char *value, size_t n)
{
	const char *at = h->text;

	if (n < SECRET_HIDE)
		return;
	while ((at = memmem(at, h->n - (size_t)(at - h->text), value, n)) != NULL)
		hide(h, (size_t)(at++ - h->text), n);
	hide_pieces(h, value, n);
}

/* An error quotes one line of what may be a key of many. */
static void
hide_lines(struct hiding *h, const char *value)
{
	for (const char *line = value; *line != '\0'; line += strspn(line, "\n")) {
		size_t n = strcspn(line, "\n");

		hide_value(h, line, n);
		line += n;
	}
}

void
secret_hide(const struct run *r, char *text)
{
	struct hiding h = {.text = text};

	if (text == NULL || r->task.n_secrets == 0)
		return;
	h.n = strlen(text);
	h.hidden = xcalloc(h.n + 1, sizeof *h.hidden);
	find_cuts(&h);
	for (size_t i = 0; i < r->task.n_secrets; i++) {
		const char *value = strchr(r->task.secret[i], '=') + 1;

		hide_value(&h, value, strlen(value));
		if (strchr(value, '\n') != NULL)
			hide_lines(&h, value);
	}
	for (size_t i = 0; i < h.n; i++)
		text[i] = h.hidden[i] ? '*' : text[i];
	free(h.hidden);
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
