/*
 * What the fuzz programs share.  Each hands whatever it is given to one reader of pgrab's, and says
 * what must hold of the answer whatever came in; a sanitizer watches the rest.  With clang and
 * -Dfuzz=true libFuzzer makes up the input (scripts/fuzz); everywhere else replay.c hands over the
 * files of corpus/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(3): it has to hold in every build. */
#define MUST(what)                                                                          \
	do {                                                                                \
		if (!(what)) {                                                              \
			dprintf(2, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what); \
			abort();                                                            \
		}                                                                           \
	} while (0)

/* Text that may be shown: UTF-8 without control characters, but for the ends of lines and tabs. */
static inline bool
fuzz_printable(const char *text, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_sequence(text + i, n - i);
		if (len == 0 || (utf8_is_control(text + i, len) && text[i] != '\n' && text[i] != '\t'))
			return false;
	}
	return true;
}

/* The input in pieces that end with `stop`: the next one, ended by NUL, or NULL.  Caller frees. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline char *
fuzz_next(struct fuzz_input *in, int stop)
{
	const uint8_t *end = in->left > 0 ? memchr(in->at, stop, in->left) : NULL;
	size_t n = end == NULL ? in->left : (size_t)(end - in->at), taken = end == NULL ? n : n + 1;
	char *piece;

	if (taken == 0)
		return NULL;
	piece = xmemdup0(in->at, n);
	in->at += taken;
	in->left -= taken;
	return piece;
}
