/* Files that commands read. */
#include "cli/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int
cli_read_file(struct cli *c, const char *path, struct buf *out)
{
	bool standard = strcmp(path, "-") == 0;
	FILE *f = standard ? stdin : fopen(path, "re");
	char chunk[8192];
	bool bad;

	if (f == NULL)
		return cli_failed(c, "could not open %s: %s", path, strerror(errno));
	for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
		buf_add(out, chunk, n);
	bad = ferror(f) != 0;
	if (!standard)
		fclose(f);
	if (bad)
		return cli_failed(c, "could not read %s: %s", path, strerror(errno));
	if (strlen(buf_str(out)) != out->len)
		return cli_failed(c, "%s contains a zero byte, so it is not text", path);
	return CLI_DONE;
}
