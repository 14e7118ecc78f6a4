/* A command line taken apart. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "handler/pool.h"

/* One word from *p on, without its quotes, to *to; false: a quote is not closed. */
static bool
take_word(const char **p, char **to)
{
	char quote = '\0';

	for (; **p != '\0' && (quote != '\0' || strchr(" \t", **p) == NULL); (*p)++) {
		if (quote == '\0' && (**p == '\'' || **p == '"'))
			quote = **p;
		else if (**p == quote)
			quote = '\0';
		else
			*(*to)++ = **p;
	}
	*(*to)++ = '\0';
	return quote == '\0';
}

enum rc
pool_words(const char *text, char ***out, struct err *err)
{
	size_t len = strlen(text), n = 0;
	char **list = xmalloc((len / 2 + 2) * sizeof *list + len + 1);
	char *to = (char *)(list + len / 2 + 2);
	bool closed = true;

	*out = NULL;
	for (const char *p = text + strspn(text, " \t"); closed && *p != '\0'; p += strspn(p, " \t")) {
		list[n++] = to;
		closed = take_word(&p, &to);
	}
	list[n] = NULL;
	if (n > 0 && list[0][0] != '\0' && closed) {
		*out = list;
		return RC_OK;
	}
	free(list);
	return closed ? err_set(err, RC_BAD, "command is empty; it is a program and its arguments")
		      : err_set(err, RC_BAD, "command: a quote is not closed: %.200s", text);
}
