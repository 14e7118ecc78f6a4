/*
 * Arrays on their way to the server, read back by the rules of array_in; and the lists of pairs
 * that the server sends, which have one form only.
 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/netstr.h"
#include "db/pg.h"
#include "fuzz.h"

/* The next element at *p: NULL for a null.  Caller frees.  What array_in would not take does not hold. */
static char *
take_element(const char **p)
{
	struct buf b = {0};

	if (strncmp(*p, "NULL", 4) == 0) {
		*p += 4;
		return NULL;
	}
	if (**p != '"') {
		size_t n = strcspn(*p, ",}\"\\ ");

		MUST(n > 0);
		buf_add(&b, *p, n);
		*p += n;
		return buf_steal(&b);
	}
	for (++*p; **p != '"'; ++*p) {
		*p += **p == '\\';
		MUST(**p != '\0');
		buf_addc(&b, **p);
	}
	++*p;
	return buf_steal(&b);
}

/* Pieces between newlines; one that is empty is a null, "#" and eight bytes are a number. */
static void
there_and_back(const uint8_t *data, size_t size)
{
	struct fuzz_input write = {data, size}, read = {data, size};
	struct pgarray a = {0};
	const char *p;
	char *piece;

	while ((piece = fuzz_next(&write, '\n')) != NULL) {
		int64_t number;

		if (piece[0] == '#' && strlen(piece) >= 9) {
			memcpy(&number, piece + 1, 8);
			pgarray_int(&a, number);
		} else {
			pgarray_text(&a, piece[0] == '\0' ? NULL : piece);
		}
		free(piece);
	}
	p = pgarray_str(&a);
	MUST(*p == '{');
	for (p++; (piece = fuzz_next(&read, '\n')) != NULL; free(piece)) {
		char *element = take_element(&p), digits[24];
		int64_t number;

		if (piece[0] == '#' && strlen(piece) >= 9) {
			memcpy(&number, piece + 1, 8);
			snprintf(digits, sizeof digits, "%" PRId64, number);
			MUST(element != NULL && strcmp(element, digits) == 0);
		} else {
			MUST((element == NULL) == (piece[0] == '\0'));
			MUST(element == NULL || strcmp(element, piece) == 0);
		}
		free(element);
		p += *p == ',';
	}
	MUST(strcmp(p, "}") == 0);
	pgarray_fini(&a);
}

static void
pairs(const uint8_t *data, size_t size)
{
	struct pairs list;
	struct err err = {0};
	struct buf b = {0};

	if (pairs_parse((const char *)data, size, &list, &err) == RC_OK) {
		for (size_t i = 0; i < list.count; i++)
			buf_addf(&b, "%zu:%s,%zu:%s,", strlen(list.item[i].key), list.item[i].key,
			    strlen(list.item[i].value), list.item[i].value);
		MUST(b.len == size && memcmp(buf_str(&b), data, size) == 0);
	} else {
		MUST(err.text[0] != '\0' && list.count == 0);
	}
	pairs_fini(&list);
	buf_fini(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	there_and_back(data, size);
	pairs(data, size);
	return 0;
}
