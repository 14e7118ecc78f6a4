/*
 * What libpq says of a connection string that it cannot read may repeat pieces of it, and any piece
 * may be one of the password.  In the input the byte 0x01 is the password, and what is said must
 * not hold it.
 */
#include <libpq-fe.h>

#include "base/buf.h"
#include "db/dsn.h"
#include "fuzz.h"

static const char password[] = "swordfish";

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	char *pattern = fuzz_next(&in, '\0'), *error = NULL, said[512];
	PQconninfoOption *all;
	struct buf dsn = {0};

	for (const char *p = pattern == NULL ? "" : pattern; *p != '\0'; p++) {
		if (*p == '\1')
			buf_adds(&dsn, password);
		else
			buf_addc(&dsn, *p);
	}
	(void)dsn_has_password(buf_str(&dsn));
	all = PQconninfoParse(buf_str(&dsn), &error);
	if (all == NULL) {
		snprintf(said, sizeof said, "%s", error == NULL ? "" : error);
		if (strchr(buf_str(&dsn), '=') != NULL || strstr(buf_str(&dsn), "://") != NULL) {
			MUST(dsn_has_password(buf_str(&dsn)));
			dsn_hide(buf_str(&dsn), said, sizeof said);
			MUST(strstr(said, password) == NULL);
		}
	}
	PQconninfoFree(all);
	PQfreemem(error);
	free(pattern);
	buf_fini(&dsn);
	return 0;
}
