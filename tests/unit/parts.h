/*
 * A node of a test: its parts on the fake store, with the workers played by the test.  With clocks turned by
 * hand the test calls the rounds; with the machine's clocks the parts are threads.
 */
#pragma once

#include "fake_store.h"
#include "hand_clock.h"
#include "node/boss/private.h"
#include "node/context.h"
#include "node/finisher/finisher.h"
#include "node/heartbeat/heartbeat.h"
#include "node/heartbeat/private.h"
#include "node/loader/loader.h"
#include "node/loader/private.h"
#include "node/recover/recover.h"
#include "node/starter/starter.h"

#define AT_WORK_MAX 64
#define PART_NAME   "here"

enum part { PART_BOSS, PART_STARTER, PART_FINISHER, PART_LOADER, PART_RECOVER, PART__COUNT };

struct parts {
	struct settings set;
	struct node n;
	struct starter *starter;
	struct finisher *finisher;
	struct loaders *loaders;
	struct heartbeat *heartbeat;
	const char *kind;                 /* of what is claimed */
	struct run *at_work[AT_WORK_MAX]; /* what the test's workers have */
	size_t n_at_work;
	bool turn[PART__COUNT]; /* it is in its round */
};

/* The node, its queues, boss, starter, finisher and recover.  parts_register: a row, an incarnation, a lease
 * and a picture of the cluster.  parts_heartbeat: the same by way of the heartbeat, which is made. */
void parts_make(struct parts *p);
void parts_register(struct parts *p, int64_t incarnation, int64_t lease_us);
void parts_heartbeat(struct parts *p);
void parts_loaders(struct parts *p);
void parts_end(struct parts *p);

/* One round with whatever is there, without waiting; nothing if that part is in a round already. */
void parts_boss(struct parts *p);
void parts_starter(struct parts *p);
void parts_finisher(struct parts *p);
void parts_loader(struct parts *p);
void parts_recover(struct parts *p);

/* As a loader would: a task that is due then (mono), claimed by this node and given to its boss. */
struct fake_task *parts_claimed(struct parts *p, int64_t due_mono_us, bool once);

/* As workers do: what is in the run queue is begun, unless the node may not act; each ends when the test says
 * so. */
size_t parts_begin_work(struct parts *p);
void parts_end_work(struct parts *p, size_t i, enum outcome o);
