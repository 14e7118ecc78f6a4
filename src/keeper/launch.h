/* From fork to exec: the little that happens in a run's main process before it is the user's program. */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "keeper/cgroup.h"
#include "keeper/wire.h"

struct launch_failed {
	int error; /* errno; 0: none */
	char where[32];
};

struct launch {
	const struct wire_spec *spec;
	pid_t shim;           /* our parent: when it is gone, so are we */
	int stdin_fd;         /* -1: /dev/null */
	int script_fd;        /* -1: none; see keeper.h */
	int output_fd;        /* stdout and stderr */
	struct rlimit nofile; /* as the node got it */
	const struct cgroup *group;
	struct launch_failed *failed; /* written only when it fails */
};

/* Call in the child of vfork, whose parent then finds *failed.  Signals must have their default actions. */
_Noreturn void launch(const struct launch *l);
