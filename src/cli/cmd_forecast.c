/* pgrab forecast */
#include <stdint.h>
#include <stdio.h>

#include "cli/commands.h"

struct options {
	struct cli_common common;
	int64_t limit;
};

static const struct option_key keys[] = {
    CLI_DSN_ROW,
    CLI_JSON_ROW,
    CLI_LIMIT_ROW,
    CLI_LAST_ROW,
};

static int
run_forecast(struct cli *c)
{
	const struct options *o = c->options;
	const char *horizon = c->n_operands > 0 ? c->operands[0] : "1h";
	char interval[32], text[160];
	const char *params[] = {interval};
	int64_t us;

	if (!duration_parse(horizon, &us) || us <= 0) {
		snprintf(text, sizeof text,
		    "the horizon cannot be \"%.60s\"; it must be a time such as 90s, 10m, 1h or 7d", horizon);
		return cli_usage(c->cmd, text);
	}
	snprintf(interval, sizeof interval, "%lld us", (long long)us);
	return cli_list_some(c, "cli_forecast", 1, params, o->limit, "nothing is planned for that time");
}

const struct command cmd_forecast = {
    .name = "forecast",
    .group = GROUP_LOOK,
    .usage = "[HORIZON] [OPTIONS]",
    .summary = "list what fires within the next hour, or HORIZON, and probably on which node",
    .details = "The function pgrab.forecast(horizon). HORIZON is a time such as 90s, 10m, 1h or 7d.",
    .options = keys,
    .options_size = sizeof(struct options),
    .max_operands = 1,
    .exec = run_forecast,
};
