/* What a node's threads ask of the keeper.  The keeper process itself, its death and its successors are the
 * business of watch.c. */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/thread.h"
#include "keeper/keeper_priv.h"

_Static_assert(KEEPER_WILL_FD == WIRE_WILL_FD, "what keeper.h promises");

/* A new page is zero: nothing may run yet. */
static enum rc
open_shared(struct keeper *k, struct err *err)
{
	void *page = MAP_FAILED;

	k->setup.page_fd = memfd_create("pgrab-keeper", MFD_CLOEXEC);
	if (k->setup.page_fd >= 0 && ftruncate(k->setup.page_fd, WIRE_PAGE_LEN) == 0)
		page = mmap(NULL, WIRE_PAGE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, k->setup.page_fd, 0);
	if (page != MAP_FAILED)
		k->page = page;
	k->stop_fd = eventfd(0, EFD_CLOEXEC);
	k->broken_fd = eventfd(0, EFD_CLOEXEC);
	if (k->page == NULL || k->stop_fd < 0 || k->broken_fd < 0)
		return err_set(err, RC_FATAL, "could not start the keeper process: shared memory: %s",
		    strerrordesc_np(errno));
	return RC_OK;
}

static void
destroy(struct keeper *k)
{
	link_kill(&k->link);
	link_close(&k->link);
	if (k->page != NULL)
		munmap(k->page, WIRE_PAGE_LEN);
	close_fd(&k->setup.page_fd);
	close_fd(&k->stop_fd);
	close_fd(&k->broken_fd);
	close_fd(&k->grave_fd);
	PTHREAD_OK(pthread_cond_destroy(&k->changed));
	PTHREAD_OK(pthread_mutex_destroy(&k->lock));
	free(k);
}

enum rc
keeper_start(struct keeper **out, const struct keeper_setup *setup, struct err *err)
{
	struct keeper *k = xcalloc(1, sizeof *k);
	struct rlimit files = {0};
	enum rc rc;

	*out = NULL;
	(void)getrlimit(RLIMIT_NOFILE, &files);
	k->setup = (struct link_setup){.page_fd = -1,
	    .kill_grace_us = setup->kill_grace_us,
	    .cgroups = setup->cgroups,
	    .nofile = files.rlim_cur,
	    .farewell = setup->farewell,
	    .will_fd = setup->will_fd};
	k->link = LINK_NONE;
	k->stop_fd = k->broken_fd = k->grave_fd = -1;
	k->life = 1;
	PTHREAD_OK(pthread_mutex_init(&k->lock, NULL));
	PTHREAD_OK(pthread_cond_init(&k->changed, NULL));
	rc = open_shared(k, err);
	/* What a dead keeper leaves behind is ours to kill. */
	if (rc == RC_OK && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		rc = err_set(err, RC_FATAL, "could not become subreaper: %s", strerrordesc_np(errno));
	if (rc == RC_OK)
		rc = link_open(&k->link, &k->setup, err);
	if (rc == RC_OK)
		rc = thread_try(&k->thread, "keeper", watch_main, k, err);
	if (rc == RC_OK)
		*out = k;
	else
		destroy(k);
	return rc;
}

void
keeper_stop(struct keeper **kp)
{
	struct keeper *k = *kp;

	if (k == NULL)
		return;
	*kp = NULL;
	keeper_vouch(k, 0, 0);
	keeper_lease(k, 0);
	if (eventfd_write(k->stop_fd, 1) != 0)
		abort();
	thread_join(k->thread);
	destroy(k);
}

/* A deadline that has passed is kept, so that the grace is counted from it. */
void
keeper_lease(struct keeper *k, int64_t deadline_boot_us)
{
	int64_t now = clock_boot_us(), old = atomic_load(&k->page->lease);

	if (deadline_boot_us < now)
		deadline_boot_us = old < now ? old : now;
	atomic_store(&k->page->lease, deadline_boot_us);
}

/* Never shows a mixed pair: in between there is nobody. */
static void
vouch(struct keeper *k, int i, int64_t node_id, int64_t incarnation)
{
	atomic_store(&k->page->who[i].incarnation, 0);
	atomic_store(&k->page->who[i].node_id, node_id);
	atomic_store(&k->page->who[i].incarnation, incarnation);
}

void
keeper_vouch_next(struct keeper *k, int64_t node_id, int64_t incarnation)
{
	vouch(k, 1, node_id, incarnation);
}

void
keeper_vouch(struct keeper *k, int64_t node_id, int64_t incarnation)
{
	vouch(k, 0, node_id, incarnation);
	vouch(k, 1, 0, 0);
}

pid_t
keeper_pid(struct keeper *k)
{
	WITH_LOCK(&k->lock);
	return k->link.pid;
}

int64_t
keeper_runs(const struct keeper *k)
{
	return atomic_load(&k->page->runs);
}

int64_t
keeper_lost(struct keeper *k)
{
	return (int64_t)atomic_load(&k->life) - 1;
}

int
keeper_alive_fd(const struct keeper *k)
{
	return k->broken_fd;
}

bool
keeper_can_switch(void)
{
	const uint32_t wanted = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capget, &head, have) == 0 && (have[0].effective & wanted) == wanted;
}

static enum rc
ask(struct keeper *k, const int fds[WIRE_FD__COUNT], size_t n_fds, uint64_t *life_out, struct err *err)
{
	WITH_LOCK(&k->lock);
	*life_out = k->life;
	if (k->link.spawn_fd < 0)
		return err_set(err, RC_AGAIN, "the keeper process was lost, a new one is being started");
	return wire_send(k->link.spawn_fd, fds, n_fds, err);
}

enum rc
keeper_spawn(struct keeper *k, const struct keeper_spec *spec, struct keeper_run *out, struct err *err)
{
	int fds[WIRE_FD__COUNT] = {-1, -1, spec->output_fd, spec->stdin_fd, spec->script_fd};
	size_t n_fds = spec->script_fd > 0   ? WIRE_FD__COUNT
		       : spec->stdin_fd >= 0 ? WIRE_FD_SCRIPT
					     : WIRE_FD_STDIN;
	int pair[2] = {-1, -1}, null = -1;
	enum rc rc;

	*out = (struct keeper_run){.fd = -1};
	rc = wire_pack(spec, &fds[WIRE_FD_SPEC], err);
	if (rc == RC_OK && spec->script_fd > 0 && spec->stdin_fd < 0) {
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		fds[WIRE_FD_STDIN] = null;
		if (null < 0)
			rc = err_set(err, RC_AGAIN, "could not open /dev/null: %s", strerrordesc_np(errno));
	}
	if (rc == RC_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		rc =
		    err_set(err, RC_AGAIN, "could not make a socket for the run: %s", strerrordesc_np(errno));
	if (rc == RC_OK) {
		fds[WIRE_FD_RUN] = pair[1];
		rc = ask(k, fds, n_fds, &out->life, err);
	}
	if (rc == RC_OK) {
		out->fd = pair[0];
		pair[0] = -1;
	}
	close_fd(&pair[0]);
	close_fd(&pair[1]);
	close_fd(&null);
	close_fd(&fds[WIRE_FD_SPEC]);
	return rc;
}

void
keeper_stop_run(const struct keeper_run *run)
{
	(void)shutdown(run->fd, SHUT_WR); /* fails only when the other side is gone already */
}

void
keeper_no_grace(struct keeper *k, int64_t until_us)
{
	struct timespec ts = clock_timespec(until_us);

	atomic_store(&k->hurry, true); /* the thread looks every 50 ms while there is something to bury */
	WITH_LOCK(&k->lock);
	while (
	    k->gone + 1 < k->life && pthread_cond_clockwait(&k->changed, &k->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
}

void
keeper_await_end(struct keeper *k, uint64_t life)
{
	WITH_LOCK(&k->lock);
	while (k->gone < life && !k->stopped)
		PTHREAD_OK(pthread_cond_wait(&k->changed, &k->lock));
}

bool
keeper_ended(struct keeper *k, uint64_t life)
{
	return atomic_load(&k->gone) >= life || atomic_load(&k->stopped);
}
