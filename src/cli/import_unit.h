/* Unit files of systemd, as far as a timer and the service that it starts need. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "cli/cli.h"

/* Adds to unit, an object: {"Timer": {"OnCalendar": ["daily"]}}.  A value that is empty drops those before
 * it, so a key may have none; of a time of a timer, the other times, too.  CLI_DONE, or what it has
 * reported. */
int unit_read(struct cli *c, const char *path, cJSON *unit);

/* The i-th value of a key, from 0; NULL when there are no more. */
const char *unit_value(const cJSON *unit, const char *section, const char *key, int i);
/* The last one, which counts where a key has one value; NULL: it has none. */
const char *unit_last(const cJSON *unit, const char *section, const char *key);

/* "1h 30min" as microseconds; -1: it has no fixed length. */
int64_t unit_span_us(const char *text);

/* Words in quotes and with escapes, as an array of strings.  NULL: a quote has no end, a character is given
 * by its number, or there are several commands. */
cJSON *unit_words(const char *text);

/* A word as the program gets it: ${NAME} out of env, $$ and %% halved.  False: *why says what only systemd
 * could fill in. */
bool unit_expand(const char *word, const cJSON *env, bool variables, struct buf *out, const char **why);

/* Adds to argv what a word of a command stands for: $NAME by itself the words of its value, which may be
 * none; any other as unit_expand() says.  *why, if that cannot be said here. */
void unit_arguments(const char *word, const cJSON *env, bool variables, cJSON *argv, const char **why);
