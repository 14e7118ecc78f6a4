/* Internal to keeper: what node and keeper process have agreed on. */
#ifndef PGRAB_KEEPER_WIRE_H
#define PGRAB_KEEPER_WIRE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* Descriptors of the keeper process. */
enum { WIRE_SPAWN = 3, WIRE_LEASE, WIRE_LIFELINE, WIRE__END };

/* The page that node, keeper and shims share. */
struct wire_lease {
	_Atomic int64_t until_boot_us;
};

/* One spawn request: this message, with the descriptors spec, run, output and (if has_stdin) stdin. */
struct wire_spawn {
	int32_t has_stdin;
};
enum { WIRE_FD_SPEC, WIRE_FD_RUN, WIRE_FD_OUTPUT, WIRE_FD_STDIN, WIRE_FD__COUNT };

/* The spec in its memfd: this header, then cwd, argv and env as NUL-terminated strings. */
struct wire_spec {
	int32_t argc, envc;
};
#define WIRE_SPEC_MAX (1024 * 1024)

/* One shim: never returns to its caller's loop.  Owns the descriptors. */
struct shim_order {
	int fd[WIRE_FD__COUNT]; /* -1: not there */
	int keeper_alive_fd;    /* end of file: the keeper is gone */
	int64_t kill_grace_us;
	const struct wire_lease *lease;
};
_Noreturn void shim_main(const struct shim_order *order);

#endif
