/* What is one character of UTF-8, and may it be shown? */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence that p[0..n) begins with (no overlong forms, no surrogates), or 0.  n
 * may be 0. */
size_t utf8_sequence(const void *p, size_t n);

/* Is all of it well-formed? */
bool utf8_is_text(const char *s);

/* The character of a well-formed sequence. */
uint32_t utf8_code_point(const void *p, size_t len);

/* Must not be shown unescaped: C0, DEL, C1, or one that turns the direction of text around, so that a name
 * would lie about the line it appears in.  Given a well-formed sequence. */
bool utf8_is_control(const void *p, size_t len);

/* Cuts an unfinished sequence from the end of s[0..n) and ends it with NUL; returns the new length. */
size_t utf8_trim(char *s, size_t n);
