/*
 * Share keys that take turns on many nodes.
 *
 * What is real: src/node/lanes/turns.c.  What is modelled: the statements that it asks for, workers, and
 * which node has which tasks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Ten tasks of each key, due with a million of another key that are older: prints how long they wait, and
 * without these.  False: more than twice as long. */
bool turns_are_fair(uint32_t nodes, uint32_t keys, uint64_t seed);
