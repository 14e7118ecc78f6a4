#include "db/store.h"

const struct store store_postgres = {
#define STORE(name) .name = store_##name,
#define DB(name)    .name = db_##name,
#include "db/store_calls.inc"
};
