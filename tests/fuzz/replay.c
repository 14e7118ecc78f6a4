/* Hands the files of a folder to a fuzz program, one after the other, and says so in TAP. */
#include <dirent.h>

#include "base/buf.h"
#include "fuzz.h"

/* For programs without one. */
__attribute__((weak)) int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static bool
read_file(const char *path, struct buf *out)
{
	FILE *file = fopen(path, "re");
	char chunk[4096];
	size_t n;

	if (file == NULL)
		return false;
	while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
		buf_add(out, chunk, n);
	fclose(file);
	return true;
}

static int
no_dot(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int
main(int argc, char **argv)
{
	struct dirent **file;
	int n;

	if (argc != 2 || (n = scandir(argv[1], &file, no_dot, alphasort)) <= 0) {
		fprintf(stderr, "%s FOLDER: hands over its files; there are none\n", argv[0]);
		return 2;
	}
	LLVMFuzzerInitialize(&argc, &argv);
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		char *path = xasprintf("%s/%s", argv[1], file[i]->d_name);
		struct buf text = {0};

		if (!read_file(path, &text))
			printf("not ");
		else
			LLVMFuzzerTestOneInput((const uint8_t *)buf_str(&text), text.len);
		printf("ok %d - %s\n", i + 1, file[i]->d_name);
		fflush(stdout);
		buf_fini(&text);
		free(path);
		free(file[i]);
	}
	free(file);
	return 0;
}
