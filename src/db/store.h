/*
 * What the threads of a node ask the database, as a table: loaders, starter, finisher, heartbeat and recover
 * reach it through struct node only, so that each can be tested with a store that answers what the test wants
 * (tests/unit/fake_store.h).  The contracts are those of the functions, in store_task.h and store_node.h.
 */
#pragma once

#include "db/pg.h"
#include "db/store_node.h"
#include "db/store_task.h"

/* Each entry has the type of the function of that name, so that the two cannot drift apart. */
struct store {
	/* loaders */
	__typeof__(store_lanes_print) *lanes_print;
	__typeof__(store_lanes) *lanes;
	__typeof__(store_survey) *survey;
	__typeof__(store_look) *look;
	__typeof__(store_misfire) *misfire;
	__typeof__(store_claim) *claim;
	__typeof__(store_held) *held;
	__typeof__(store_durable) *durable;
	__typeof__(store_node_bell) *node_bell;
	__typeof__(store_unheard) *unheard;
	__typeof__(store_node_shards) *node_shards;

	/* starter; release: heartbeat and recover, too */
	__typeof__(store_start) *start;
	__typeof__(store_start_once) *start_once;
	__typeof__(store_started) *started;
	__typeof__(store_secrets) *secrets;
	__typeof__(store_release) *release;

	/* finisher; finish: recover, too */
	__typeof__(store_finish) *finish;
	__typeof__(store_park) *park;
	__typeof__(store_recorded) *recorded;
	__typeof__(store_days) *days;

	/* recover */
	__typeof__(store_upkeep) *upkeep;
	__typeof__(store_lost) *lost;
	__typeof__(store_recover) *recover;
	__typeof__(store_own) *own;
	__typeof__(store_hold_drop) *hold_drop;
	__typeof__(store_duties) *duties;
	__typeof__(store_waits) *waits;
	__typeof__(store_tell) *tell;
	__typeof__(store_node_declare_dead) *node_declare_dead;

	/* heartbeat; the first are about its connection; disconnect: recover, too */
	__typeof__(db_connect) *connect;
	__typeof__(db_disconnect) *disconnect;
	__typeof__(db_can_tell) *can_tell;
	__typeof__(db_server_over) *server_over;
	__typeof__(db_generation) *generation;
	__typeof__(db_pooled) *pooled;
	__typeof__(store_server_mark) *server_mark;
	__typeof__(store_is_copy) *is_copy;
	__typeof__(store_run_key) *run_key;
	__typeof__(store_node_find) *node_find;
	__typeof__(store_node_register) *node_register;
	__typeof__(store_node_beat) *node_beat;
	__typeof__(store_node_observe) *node_observe;
	__typeof__(store_node_change) *node_change;
	__typeof__(store_node_leave) *node_leave;
};

extern const struct store store_postgres;
