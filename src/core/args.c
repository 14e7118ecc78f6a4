/* By hand, because numbers must stay the texts that they are: a JSON library makes doubles of them, and of
 * 12345678901234567890 another number.  In the database it took 40 to 70 us a task.  The text is jsonb's own,
 * one blank after each comma and colon; whatever it is, nothing outside of it is read. */
#include "core/args.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

/* Offsets into `text`, which moves while it grows. */
struct offsets {
	size_t key, value;
};

struct reader {
	const char *at, *end;
	struct buf text; /* all keys and values, each with its NUL */
	struct offsets *pair;
	size_t n, room;
};

struct span {
	const char *from, *to;
};

static bool
is(const struct reader *r, char c)
{
	return r->at < r->end && *r->at == c;
}

/* Moves past c, and past a blank behind it. */
static bool
take(struct reader *r, char c)
{
	if (!is(r, c))
		return false;
	r->at++;
	if (c != '{' && c != '[' && is(r, ' '))
		r->at++;
	return true;
}

/* r->at is on a quote. */
static bool
skip_string(struct reader *r)
{
	for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
		if (*r->at == '\\')
			r->at++;
	}
	if (r->at >= r->end)
		return false;
	r->at++;
	return true;
}

/* A value, whatever is in it. */
static bool
skip_value(struct reader *r, struct span *out)
{
	size_t depth = 0;

	out->from = r->at;
	do {
		if (r->at >= r->end)
			return false;
		if (is(r, '"')) {
			if (!skip_string(r))
				return false;
		} else if (is(r, '{') || is(r, '[')) {
			depth++;
			r->at++;
		} else if (is(r, '}') || is(r, ']')) {
			if (depth-- == 0)
				return false;
			r->at++;
		} else if (depth > 0) {
			r->at++;
		} else {
			while (r->at < r->end && strchr(",]} ", *r->at) == NULL)
				r->at++;
		}
	} while (depth > 0);
	out->to = r->at;
	return out->to > out->from;
}

static void
add_utf8(struct buf *b, unsigned c)
{
	if (c < 0x80) {
		buf_addc(b, (char)c);
	} else if (c < 0x800) {
		buf_addc(b, (char)(0xc0 | c >> 6));
		buf_addc(b, (char)(0x80 | (c & 0x3f)));
	} else {
		buf_addc(b, (char)(0xe0 | c >> 12));
		buf_addc(b, (char)(0x80 | (c >> 6 & 0x3f)));
		buf_addc(b, (char)(0x80 | (c & 0x3f)));
	}
}

/* jsonb writes characters as they are, and escapes only those below a blank; it holds no NUL. */
static bool
add_escaped(struct buf *b, const char **p, const char *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *known;
	unsigned c = 0;

	if (*p >= to)
		return false;
	if (**p != 'u') {
		known = strchr(from, **p);
		if (**p == '\0' || known == NULL)
			return false;
		buf_addc(b, into[known - from]);
		++*p;
		return true;
	}
	if (to - *p < 5)
		return false;
	for (int i = 1; i <= 4; i++) {
		static const char digits[] = "0123456789abcdef";
		const char *d = (*p)[i] == '\0' ? NULL : strchr(digits, (*p)[i] | 0x20);

		if (d == NULL)
			return false;
		c = c * 16 + (unsigned)(d - digits);
	}
	*p += 5;
	if (c == 0 || (c >= 0xd800 && c < 0xe000))
		return false;
	add_utf8(b, c);
	return true;
}

/* What a value says: a string without its quotes, anything else as it is written. */
static bool
add_text(struct buf *b, struct span v)
{
	if (*v.from != '"') {
		buf_add(b, v.from, (size_t)(v.to - v.from));
		return memchr(v.from, '\0', (size_t)(v.to - v.from)) == NULL;
	}
	for (const char *p = v.from + 1; p < v.to - 1;) {
		const char *stop = p;

		while (stop < v.to - 1 && *stop != '\\' && *stop != '\0')
			stop++;
		buf_add(b, p, (size_t)(stop - p));
		p = stop + 1;
		if (stop < v.to - 1 && (*stop == '\0' || !add_escaped(b, &p, v.to - 1)))
			return false;
	}
	return true;
}

static bool
is_null(struct span v)
{
	return v.to - v.from == 4 && memcmp(v.from, "null", 4) == 0;
}

/* The key of a pair, with what is said of its value behind it. */
static void
begin_pair(struct reader *r, struct span key, const char *about)
{
	if (r->n == r->room) {
		r->room = r->room == 0 ? 8 : 2 * r->room;
		r->pair = xrealloc(r->pair, r->room * sizeof *r->pair);
	}
	r->pair[r->n].key = r->text.len;
	buf_add(&r->text, key.from, (size_t)(key.to - key.from));
	buf_adds(&r->text, about);
	buf_addc(&r->text, '\0');
	r->pair[r->n++].value = r->text.len;
}

static void
end_pair(struct reader *r)
{
	buf_addc(&r->text, '\0');
}

/* {"secret": "name"} or {"file": "name"}, and nothing else. */
static bool
is_reference(struct span v, const char **about_out, struct span *name_out)
{
	static const struct {
		const char *member, *about;
	} kinds[] = {{"\"secret\"", ":secret"}, {"\"file\"", ":file"}};

	for (size_t i = 0; i < 2; i++) {
		struct reader r = {.at = v.from, .end = v.to};
		struct span key;

		if (!take(&r, '{') || !is(&r, '"') || !skip_value(&r, &key))
			continue;
		if ((size_t)(key.to - key.from) == strlen(kinds[i].member) &&
		    memcmp(key.from, kinds[i].member, strlen(kinds[i].member)) == 0 && take(&r, ':') &&
		    is(&r, '"') && skip_value(&r, name_out) && is(&r, '}')) {
			*about_out = kinds[i].about;
			return true;
		}
	}
	return false;
}

static bool
read_object(struct reader *r, struct span key)
{
	struct span name, value, reference;

	for (take(r, '{'); !take(r, '}'); take(r, ',')) {
		const char *about = "";

		if (!is(r, '"') || !skip_value(r, &name) || !take(r, ':') || !skip_value(r, &value))
			return false;
		if (is_null(value))
			continue;
		if (is_reference(value, &about, &reference))
			value = reference;
		begin_pair(r, key, about);
		if (!add_text(&r->text, name))
			return false;
		buf_addc(&r->text, '=');
		if (!add_text(&r->text, value))
			return false;
		end_pair(r);
	}
	return true;
}

/* Only a parameter of SQL can be null. */
static bool
is_params(struct span key)
{
	return key.to - key.from == 6 && memcmp(key.from, "params", 6) == 0;
}

static bool
read_array(struct reader *r, struct span key)
{
	struct span value;

	for (take(r, '['); !take(r, ']'); take(r, ',')) {
		if (!skip_value(r, &value))
			return false;
		if (is_null(value) && !is_params(key))
			continue;
		begin_pair(r, key, is_null(value) ? ":null" : "");
		if (!is_null(value) && !add_text(&r->text, value))
			return false;
		end_pair(r);
	}
	return true;
}

/* The body of a request is one text, whatever it is. */
static bool
read_member(struct reader *r, struct span key)
{
	bool body = key.to - key.from == 4 && memcmp(key.from, "body", 4) == 0;
	struct span value;

	if (is(r, '{') && !body)
		return read_object(r, key);
	if (is(r, '[') && !body)
		return read_array(r, key);
	if (!skip_value(r, &value))
		return false;
	if (is_null(value))
		return true;
	begin_pair(r, key, "");
	if (!add_text(&r->text, value))
		return false;
	end_pair(r);
	return true;
}

static bool
read_json(struct reader *r)
{
	struct span name;

	for (take(r, '{'); !take(r, '}'); take(r, ',')) {
		AUTO_BUF struct buf key = {0};

		if (!is(r, '"') || !skip_value(r, &name) || !take(r, ':'))
			return false;
		/* a key is a string, too: its text is needed before that of its values */
		if (!add_text(&key, name) ||
		    !read_member(r, (struct span){buf_str(&key), buf_str(&key) + key.len}))
			return false;
	}
	return true;
}

/* What follows the JSON. */
static enum rc
read_list(struct reader *r, struct err *err)
{
	struct pairs list;
	enum rc rc = pairs_parse(r->at, (size_t)(r->end - r->at), &list, err);

	for (size_t i = 0; rc == RC_OK && i < list.count; i++) {
		const char *key = list.item[i].key;

		begin_pair(r, (struct span){key, key + strlen(key)}, "");
		buf_adds(&r->text, list.item[i].value);
		end_pair(r);
	}
	pairs_fini(&list);
	return rc;
}

enum rc
args_read(const char *text, size_t len, struct pairs *out, struct err *err)
{
	struct reader r = {.at = text, .end = text + len};
	enum rc rc = RC_OK;

	*out = (struct pairs){0};
	if (is(&r, '{') && !read_json(&r))
		rc = err_set(
		    err, RC_BAD, "the args are malformed after byte %zu of %zu", (size_t)(r.at - text), len);
	if (rc == RC_OK)
		rc = read_list(&r, err);
	/* the offsets become pointers now that the text does not grow any more */
	if (rc == RC_OK) {
		out->item = xcalloc(r.n + 1, sizeof *out->item);
		out->memory = buf_steal(&r.text);
		for (out->count = 0; out->count < r.n; out->count++)
			out->item[out->count] = (struct pair){
			    out->memory + r.pair[out->count].key, out->memory + r.pair[out->count].value};
	}
	buf_fini(&r.text);
	free(r.pair);
	return rc;
}

void
args_take(struct run_task *t, bool whole)
{
	char *text = t->args_text;
	struct err ignored;

	t->args_text = NULL;
	if (text == NULL)
		return;
	if (whole && text[0] == '{') {
		t->args.item = xcalloc(1, sizeof *t->args.item);
		t->args.item[t->args.count++] = (struct pair){"args", text};
		t->args.memory = text;
	} else if (args_read(text, strlen(text), &t->args, &ignored) == RC_OK) {
		free(text);
	} else {
		t->refused = text; /* pgrab_internal.args_for() */
	}
}
