/*
 * The thread that watches the keeper process.
 *
 *     keeper well --- it died, or its tick stands still ---> lost: killed; a new one is made, and meanwhile
 *     the old one's shims, which are our children now, have kill_grace to end their runs ---> what is left of
 *     them is killed here, frozen or not ---> nothing left: keeper_await_end returns
 *
 * What is ours to kill is what descends from us, except the new keeper and children in our own session, which
 * a plug-in has forked.  (A run is in a session of its own and cannot come back into ours.)
 *
 * The tick is judged by several looks, some time apart: after a freeze of this process itself a
 * single look proves nothing.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "keeper/keeper_priv.h"
#include "keeper/proctree.h"

#define LOOK_US       (500 * US_PER_MS)
#define STILL_LOOKS   5 /* and at least STILL_US: the keeper ticks twice a second */
#define STILL_US      (2500 * US_PER_MS)
#define BURY_US       (50 * US_PER_MS)
#define OVERDUE_US    US_PER_S /* what shims may take beyond kill_grace, as in shims.c */
#define STOP_SLACK_US (2 * US_PER_S)
#define RETRY_US      US_PER_S
#define BROKEN_US     (60 * US_PER_S) /* after this long without a keeper the node had better end */

static void
begin_watch(struct keeper *k)
{
	k->last_tick = atomic_load(&k->page->tick);
	k->ticked_us = clock_mono_us();
	k->still = 0;
}

static bool
stands_still(struct keeper *k)
{
	int64_t tick = atomic_load(&k->page->tick), now = clock_mono_us();

	if (tick != k->last_tick) {
		begin_watch(k);
		return false;
	}
	k->still++;
	return k->still >= STILL_LOOKS && now - k->ticked_us >= STILL_US;
}

/* From here on nobody can ask it for a run, and its runs are told apart from those of the next one. */
static struct link
take_link(struct keeper *k)
{
	WITH_LOCK(&k->lock);
	struct link old = k->link;

	k->link = LINK_NONE;
	k->life++;
	return old;
}

static void
lose(struct keeper *k, struct link old, const char *how)
{
	log_error("keeper_lost", "pid=%d how=%s hint=\"%s\"", (int)old.pid, how,
	    "its runs are ended, and a new one is started");
	link_kill(&old);
	close_fd(&k->grave_fd);
	k->grave_fd = old.presence_fd;
	if (!k->burying)
		k->kill_at_us = clock_mono_us() + k->setup.kill_grace_us + OVERDUE_US;
	k->burying = true;
	k->lost_us = clock_mono_us();
	k->retry_us = 0;
}

static void
replace(struct keeper *k)
{
	int64_t now = clock_mono_us();
	struct err err = {0};
	struct link l;

	if (now < k->retry_us)
		return;
	k->retry_us = now + RETRY_US;
	if (link_open(&l, &k->setup, &err) == RC_OK) {
		PTHREAD_OK(pthread_mutex_lock(&k->lock));
		k->link = l;
		PTHREAD_OK(pthread_mutex_unlock(&k->lock));
		begin_watch(k);
		log_info("keeper_started", "pid=%d", (int)l.pid);
	} else if (now - k->lost_us > BROKEN_US) {
		log_error("keeper_missing", "error=\"%s\"", err.text);
		(void)eventfd_write(k->broken_fd, 1);
	}
}

static bool
is_not_a_stray(pid_t pid, void *ctx)
{
	const struct keeper *k = ctx;

	return pid == k->link.pid || getsid(pid) == getsid(0);
}

/* Takes the exit status of the dead among them, which nobody else will.  False: there was none. */
static bool
reap_strays(struct keeper *k)
{
	struct proctree below;
	pid_t last = 0;

	proctree_below(getpid(), true, &below);
	for (size_t i = 0; i < below.count; i++) {
		if (!is_not_a_stray(below.pid[i], k) && waitpid(below.pid[i], NULL, WNOHANG) > 0)
			last = below.pid[i];
	}
	free(below.pid);
	if (last != 0)
		proctree_chase(last, is_not_a_stray, k);
	return last != 0;
}

/* True: nothing is left.  That is so when we see nothing, and no process died while we looked, whose children
 * we might have missed. */
static bool
kill_strays(struct keeper *k)
{
	size_t found;
	bool died;

	do {
		found = proctree_kill(getpid(), is_not_a_stray, k);
		died = reap_strays(k);
	} while (died);
	return found == 0;
}

static void
bury(struct keeper *k)
{
	bool late = clock_mono_us() >= k->kill_at_us || atomic_load(&k->hurry);

	if (k->grave_fd >= 0 && (link_readable(k->grave_fd, 0) || late))
		close_fd(&k->grave_fd);
	if (k->grave_fd >= 0 || !kill_strays(k))
		return;
	k->burying = false;
	WITH_LOCK(&k->lock);
	k->gone = k->life - 1;
	PTHREAD_OK(pthread_cond_broadcast(&k->changed));
}

/* The last keeper: it ends its runs when the lifeline is closed, or is lost too. */
static void
see_off(struct keeper *k)
{
	int64_t until = clock_mono_us() + k->setup.kill_grace_us + STOP_SLACK_US;
	struct link last = take_link(k);

	if (last.pid > 0) {
		close_fd(&last.lifeline_fd);
		if (link_readable(last.presence_fd, until)) {
			link_kill(&last);
			link_close(&last);
		} else {
			lose(k, last, "does_not_end");
		}
	}
	k->kill_at_us = 0;
	until = clock_mono_us() + US_PER_S;
	for (bury(k); k->burying && clock_mono_us() < until; bury(k))
		(void)poll(NULL, 0, (int)(BURY_US / US_PER_MS));
	if (k->burying)
		log_warn("keeper_left", "hint=\"%s\"", "processes of runs are left that cannot be killed");
	WITH_LOCK(&k->lock);
	k->stopped = true;
	PTHREAD_OK(pthread_cond_broadcast(&k->changed));
}

void *
watch_main(void *arg)
{
	struct keeper *k = arg;
	int64_t next_look = 0;

	begin_watch(k);
	for (;;) {
		struct pollfd p[] = {{.fd = k->stop_fd, .events = POLLIN},
		    {.fd = k->link.spawn_fd, .events = POLLIN}, {.fd = k->grave_fd, .events = POLLIN}};

		if (poll(p, 3, (int)((k->burying ? BURY_US : LOOK_US) / US_PER_MS)) < 0)
			continue;
		if (p[0].revents != 0)
			break;
		if (k->link.pid > 0 && p[1].revents != 0) {
			lose(k, take_link(k), "died");
		} else if (k->link.pid > 0 && clock_mono_us() >= next_look) {
			next_look = clock_mono_us() + LOOK_US - BURY_US;
			if (stands_still(k))
				lose(k, take_link(k), "frozen");
		}
		if (k->link.pid == 0)
			replace(k);
		if (k->burying)
			bury(k);
	}
	see_off(k);
	return NULL;
}
