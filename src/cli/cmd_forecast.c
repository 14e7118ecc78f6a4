/* pgrab forecast */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	int64_t limit;
	bool load;
	int64_t bucket_us;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_LIMIT_ROW,
    CLI_FLAG_ROW(load, 0, "show how many runs that makes at once, by buckets of time, and which tasks clash"),
    {"bucket", 0, OPTION_DURATION, offsetof(struct options, bucket_us), "TIME",
	"with --load: how long a bucket is", "1h", 1e6, 2.6e12},
    CLI_LAST_ROW,
};

static int
run_forecast(struct cli *c)
{
	const struct options *o = c->options;
	const char *horizon = c->n_operands > 0 ? c->operands[0] : "1h";
	char interval[32], bucket[32], text[160];
	const char *params[] = {interval, bucket, "100000"};
	int64_t us;

	if (!duration_parse(horizon, &us) || us <= 0) {
		snprintf(text, sizeof text,
		    "the horizon cannot be \"%.60s\"; it must be a time such as 90s, 10m, 1h or 7d", horizon);
		return cli_usage(c->cmd, text);
	}
	snprintf(interval, sizeof interval, "%lld us", (long long)us);
	snprintf(bucket, sizeof bucket, "%lld us", (long long)o->bucket_us);
	if (o->load)
		return cli_list(c, "cli_load", 3, params, "nothing is planned for that time");
	return cli_list_some(c, "cli_forecast", 1, params, o->limit, "nothing is planned for that time");
}

const struct command cmd_forecast = {
    .name = "forecast",
    .group = GROUP_LOOK,
    .usage = "[HORIZON] [OPTIONS]",
    .summary = "list what fires within the next hour, or HORIZON, and probably on which node",
    .details = "The function pgrab.forecast(horizon). HORIZON is a time such as 90s, 10m, 1h or 7d.\n"
	       "With --load it is pgrab.load(horizon, bucket): how many runs are at work at once, if each\n"
	       "begins at its time and takes as long as usual. More than the slots: schedules clash.\n"
	       "A month of it, hours by days: the page /month of pgrab serve, the function pgrab.month().",
    .also = "A month of all schedules: pgrab serve shows it as a picture at /month",
    CLI_OPTIONS(keys),
    .max_operands = 1,
    .exec = run_forecast,
};
