/* See fault.h.  The first line that matches counts; two characters match a whole class. */
#include "db/fault.h"

#include <stddef.h>
#include <string.h>

#include "base/texts.h"

static const struct {
	const char *state;
	enum fault fault;
} rules[] = {
    {"40001", FAULT_RACE}, {"40P01", FAULT_RACE}, {"55P03", FAULT_LOCKED},
    {"42501", FAULT_SERVER},                    /* insufficient privilege */
    {"25006", FAULT_SERVER},                    /* read only: a standby, or a primary that became one */
    {"XX001", FAULT_ROW},                       /* data corrupted: perhaps only of this row */
    {"XX002", FAULT_ROW}, {"08", FAULT_SERVER}, /* connection */
    {"28", FAULT_SERVER},                       /* login */
    {"3D", FAULT_SERVER},                       /* database */
    {"40", FAULT_SERVER}, {"53", FAULT_SERVER}, /* resources: disk, memory, connections */
    {"55", FAULT_SERVER}, {"57", FAULT_SERVER}, /* operator: shutdown, cancel, timeouts */
    {"58", FAULT_SERVER},                       /* system: I/O */
    {"XX", FAULT_SERVER},                       /* internal */
    {"22", FAULT_ROW}, {"23", FAULT_ROW}, {"2F", FAULT_ROW}, {"38", FAULT_ROW}, {"39", FAULT_ROW},
    {"44", FAULT_ROW}, {"54", FAULT_ROW}, /* too long for an index, too complex */
    {"P0", FAULT_ROW},                    /* raised by a trigger */
};

enum fault
fault_of(const char *sqlstate)
{
	if (sqlstate[0] == '\0')
		return FAULT_SERVER;
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		if (strncmp(sqlstate, rules[i].state, strlen(rules[i].state)) == 0)
			return rules[i].fault;
	}
	return FAULT_OURS;
}

enum rc
fault_rc(const char *sqlstate, bool patient)
{
	static const char *const persons[] = {"42501", "28", "3D"};

	for (size_t i = 0; !patient && i < sizeof persons / sizeof *persons; i++) {
		if (strncmp(sqlstate, persons[i], strlen(persons[i])) == 0)
			return RC_BAD;
	}
	switch (fault_of(sqlstate)) {
	case FAULT_RACE: return RC_RACE;
	case FAULT_LOCKED:
	case FAULT_SERVER: return RC_AGAIN;
	case FAULT_ROW:
	case FAULT_OURS:
	default: return RC_BAD;
	}
}

bool
fault_no_schema(const struct err *err)
{
	return IS_ONE_OF(err->sqlstate, "42P01", "3F000", "42883", "42703", "42846", "42804");
}

bool
fault_no_right(const struct err *err)
{
	return strcmp(err->sqlstate, "42501") == 0;
}

const char *
fault_advice(enum rc rc, const struct err *err)
{
	if (rc == RC_UNKNOWN)
		return "It may or may not have taken effect: look before you repeat it.";
	if (fault_no_schema(err))
		return "The schema is not the one of this program: pgrab migrate --status";
	if (strncmp(err->sqlstate, "54", 2) == 0)
		return "It is too large, or nested too deeply.";
	if (strcmp(err->sqlstate, "25006") == 0)
		return "Nothing can be written: this is a standby, or default_transaction_read_only is on "
		       "for this role, the database or the server.";
	if (fault_no_right(err) && err->hint_at == 0)
		return "It takes pgrab_submit (own tasks), pgrab_operator (all tasks, nodes), or the owner "
		       "of the schema.";
	return NULL;
}

bool
fault_no_partition(enum rc rc, const struct err *err)
{
	/* The second text: a session with an outdated list of the partitions writes into the default one. */
	return rc == RC_BAD && strcmp(err->sqlstate, "23514") == 0 &&
	       (strcmp(err->place, "ExecFindPartition") == 0 ||
		   strcmp(err->place, "ExecPartitionCheckEmitError") == 0);
}

bool
fault_is_of_row(enum rc rc, const struct err *err)
{
	return rc == RC_BAD && fault_of(err->sqlstate) == FAULT_ROW && !fault_no_partition(rc, err);
}
