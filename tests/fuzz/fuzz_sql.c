/*
 * Where one statement of a task ends and the next begins: whatever the text is, the parts are parts
 * of it, in its order.
 */
#include "db/sql_split.h"
#include "fuzz.h"

#define PARTS 16

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xmemdup0(data, size);
	const char *end = text + strlen(text), *behind = text;
	struct sql_part part[PARTS];
	size_t n = sql_split(text, part, PARTS);

	MUST(n <= PARTS + 1);
	for (size_t i = 0; i < n && i < PARTS; i++) {
		MUST(part[i].len > 0 && part[i].start >= behind && part[i].start + part[i].len <= end);
		behind = part[i].start + part[i].len;
	}
	free(text);
	return 0;
}
