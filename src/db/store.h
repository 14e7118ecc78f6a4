/* What the threads of a node ask the database, as a table: loaders, starter, finisher, heartbeat and recover
 * reach it through struct node only, so that each can be tested with a store that answers what the test wants
 * (tests/unit/fake_store.h).  The contracts are those of the functions, in store_task.h and store_node.h. */
#pragma once

#include "db/pg.h"
#include "db/store_node.h"
#include "db/store_task.h"

/* Each entry has the name and the type of its function, so that the two cannot drift apart. */
struct store {
#define STORE(name) __typeof__(store_##name) *name;
#define DB(name)    __typeof__(db_##name) *name;
#include "db/store_calls.inc"
#undef STORE
#undef DB
};

extern const struct store store_postgres;
