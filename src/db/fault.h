/*
 * What an error of the server means, decided here and nowhere else.
 *
 *   race    another session was first: normal
 *   locked  another session has a row locked: ask again later
 *   row     it may be this row's fault, or that of a trigger which refuses everything: both look the
 *           same.  Only when the rest of the batch passes is it proved, and only then may the row be parked
 *   ours    a statement that this schema does not understand: a bug, or a schema that changed under us.  Loud
 *   server  the server, the way to it, our rights, its disk: wait, keep what is in hand, try again
 */
#pragma once

#include <stdbool.h>

#include "base/rc.h"

enum fault { FAULT_RACE, FAULT_LOCKED, FAULT_ROW, FAULT_OURS, FAULT_SERVER };

/* "": no answer of the server at all, which is FAULT_SERVER. */
enum fault fault_of(const char *sqlstate);

/* What a caller should do about it.  patient: of a node that is up, which waits until a person has mended it;
 * else what only a person can mend (rights, a login) is RC_BAD, for the person who started us to see. */
enum rc fault_rc(const char *sqlstate, bool patient);

/* Something of ours is missing: the schema is not there, or not the one of this program. */
bool fault_no_schema(const struct err *err);

/* A right is missing. */
bool fault_no_right(const struct err *err);

/* What a person can do about it, where the error does not say so itself; else NULL. */
const char *fault_advice(enum rc rc, const struct err *err);

/* The history has no partition for this moment (anybody's CHECK answers with the same SQLSTATE). */
bool fault_no_partition(enum rc rc, const struct err *err);

/* One of the rows of the statement is refused: the others are to be tried without it.  SQL: row_fault(). */
bool fault_is_of_row(enum rc rc, const struct err *err);
