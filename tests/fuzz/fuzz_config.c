/* The file of a node, up to what it means for each owner. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "node/settings/settings.h"

/* Variables of the environment are settings too. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	clearenv();
	return 0;
}

static void
read_bounds(const struct settings *set)
{
	struct bounds_list bounds = {0};
	struct err err = {0};

	if (settings_bounds(set, &bounds, &err) == RC_OK)
		MUST(bounds.n == set->n_owners + 1);
	else
		MUST(err.text[0] != '\0');
	bounds_fini(&bounds);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("config", MFD_CLOEXEC);
	char path[64];
	char *argv[] = {(char *)"run", (char *)"--config", path, NULL};
	struct settings set;
	struct err err = {0};
	bool help = false;

	MUST(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (settings_load(3, argv, &set, &help, &err) == RC_OK)
		read_bounds(&set);
	else
		MUST(err.text[0] != '\0');
	settings_fini(&set);
	close(fd);
	return 0;
}
