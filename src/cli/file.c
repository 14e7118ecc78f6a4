/* Files that commands read. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_MOST (512 * 1024 * 1024)

int
cli_read_file(struct cli *c, const char *path, struct buf *out)
{
	bool standard = strcmp(path, "-") == 0;
	FILE *f = standard ? stdin : fopen(path, "re");
	char chunk[8192];
	bool bad, zero = false;

	if (f == NULL)
		return cli_failed(c, "could not open %s: %s", path, strerror(errno));
	/* A device or a pipe may have no end; none gives so much text. */
	for (size_t n; !zero && out->len <= FILE_MOST && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) {
		zero = memchr(chunk, '\0', n) != NULL;
		buf_add(out, chunk, n);
	}
	bad = ferror(f) != 0;
	if (!standard)
		fclose(f);
	if (bad)
		return cli_failed(c, "could not read %s: %s", path, strerror(errno));
	if (out->len > FILE_MOST)
		return cli_failed(c, "%s is larger than %d MiB: split it", path, FILE_MOST / 1024 / 1024);
	if (zero)
		return cli_failed(c, "%s contains a zero byte, so it is not text", path);
	return CLI_DONE;
}
