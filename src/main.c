/* pgrab: argv to an exit code.  The keeper is this same program, executed again; see keeper/keeper.h and
 * node/farewell.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "keeper/keeper.h"
#include "node/farewell.h"

/* The parent process may have closed stdin, stdout or stderr.  The next file or socket would take that
 * number, and what is meant for a terminal would go to the database. */
static void
keep_standard_fds(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
		    open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) != fd)
			_exit(CLI_FAILED);
	}
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], FAREWELL_ARGV1) == 0)
		return farewell_main(argc, argv);
	keep_standard_fds();
	return cli_main(argc, argv);
}
