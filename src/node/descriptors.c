#include "node/node.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "base/log.h"
#include "node/context.h"
#include "node/crews/crews.h"

#define OWN        40 /* connections of the threads, dials, the keeper, the log, libevent */
#define PER_WORKER 4  /* a run's stop, its pipe and its socket, or a connection and what waits for it */
#define PER_SLOT   4  /* of handlers and http: a request's socket, a name being resolved, one closing */

enum rc
descriptors_provide(const struct node *n, int64_t workers, struct err *err)
{
	int64_t slots = crews_slots(n) - atomic_load(&n->workers);
	rlim_t need = OWN + (rlim_t)n->set->loaders + PER_WORKER * (rlim_t)workers + PER_SLOT * (rlim_t)slots;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
		return RC_OK;
	if (limit.rlim_max < need)
		return err_set(err, RC_BAD,
		    "at most %" PRIu64 " files may be open at once, but with %" PRId64 " workers and %" PRId64
		    " slots of handlers and http this node needs %" PRIu64
		    ": raise the limit (ulimit -n, or LimitNOFILE= of its unit), or take fewer --workers",
		    (uint64_t)limit.rlim_max, workers, slots, (uint64_t)need);
	limit.rlim_cur = need;
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
		log_debug("descriptors", "limit=%" PRIu64, (uint64_t)need);
	return RC_OK;
}
