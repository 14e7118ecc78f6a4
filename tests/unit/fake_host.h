/*
 * The node's side of a run, for tests of executors: keeps the output, and stops the run when the test says
 * so.
 */
#pragma once

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "pgrab/executor.h"

struct fake_host {
	struct pgrab_host host;
	_Atomic int why;
	struct buf output;
};

static inline enum pgrab_stop
fake_host_why(void *ctx)
{
	return (enum pgrab_stop)atomic_load(&((struct fake_host *)ctx)->why);
}

static inline void
fake_host_output(void *ctx, const void *p, size_t n)
{
	buf_add(&((struct fake_host *)ctx)->output, p, n);
}

static inline void
fake_host_log(void *ctx, const char *text)
{
}

static inline void
fake_host_progress(void *ctx, double percent, const char *text)
{
}

static inline void
fake_host_waits_for(void *ctx, const char *text)
{
}

static inline void
fake_host_init(struct fake_host *f)
{
	*f = (struct fake_host){.host = {.size = sizeof(f->host),
				    .ctx = f,
				    .stop_fd = eventfd(0, EFD_CLOEXEC),
				    .stop = fake_host_why,
				    .output = fake_host_output,
				    .log = fake_host_log,
				    .progress = fake_host_progress,
				    .waits_for = fake_host_waits_for}};
	if (f->host.stop_fd < 0)
		abort();
}

/* Any thread. */
static inline void
fake_host_stop(struct fake_host *f, enum pgrab_stop why)
{
	atomic_store(&f->why, (int)why);
	if (eventfd_write(f->host.stop_fd, 1) != 0)
		abort();
}

static inline void
fake_host_fini(struct fake_host *f)
{
	close(f->host.stop_fd);
	buf_fini(&f->output);
}
