/*
 * The health of a node, in one place: can it put starts and outcomes on record?  While it cannot,
 * nothing is claimed, and what is unstarted is handed back, for a node that can.
 *
 * Each fault is logged once when it begins and once when it is over.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

struct node;

enum health_part {
	HEALTH_START,  /* the starter cannot put starts on record */
	HEALTH_FINISH, /* the finisher cannot record outcomes: connection, rights, disk, no partition */
	HEALTH__COUNT
};

struct health {
	_Atomic int64_t since_us[HEALTH__COUNT]; /* clock_mono_us; 0: well.  Each written by one thread */
	_Atomic bool no_claims[HEALTH__COUNT];
};

/* Each is called by the thread whose part it is; when nothing changes it does nothing.  no_claims: false
 * while it may still turn out to be the fault of a few tasks, which only other tasks beside them can show. */
void health_ill(struct node *n, enum health_part part, bool no_claims, const struct err *why);
void health_well(struct node *n, enum health_part part);

bool health_part_well(const struct node *n, enum health_part part);

/* May the node claim?  Any thread. */
bool health_may_claim(const struct node *n);
