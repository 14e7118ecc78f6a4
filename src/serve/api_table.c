/* The routes of the API.  src/serve/static/openapi.json describes them;
 * tests/system/test_serve_api.py holds the two together. */
#include "serve/api.h"
#include "serve/asset.h"
#include "serve/events.h"

#define PART(i)                                \
	{                                      \
		API_PART, NULL, NULL, i, false \
	}
#define ID                                   \
	{                                    \
		API_ID, NULL, NULL, 0, false \
	}
#define ONE                                   \
	{                                     \
		API_ONE, NULL, NULL, 0, false \
	}
#define QUERY(name)                             \
	{                                       \
		API_QUERY, name, NULL, 0, false \
	}
#define QUERY_OR(name, or)                    \
	{                                     \
		API_QUERY, name, or, 0, false \
	}
#define NEEDED(name)                           \
	{                                      \
		API_QUERY, name, NULL, 0, true \
	}
#define TIME(name)                             \
	{                                      \
		API_TIME, name, NULL, 0, false \
	}
#define COUNT(name, or, to)                    \
	{                                      \
		API_COUNT, name, or, to, false \
	}
#define BODY                                   \
	{                                      \
		API_BODY, NULL, NULL, 0, false \
	}
#define TASKS                                   \
	{                                       \
		API_TASKS, NULL, NULL, 0, false \
	}

static const struct api overview = {.sql = "serve_overview", .shape = API_OBJECT, .shared = true};
static const struct api attention = {.sql = "cli_attention", .shape = API_ARRAY, .shared = true};
static const struct api tasks = {.sql = "serve_tasks",
    .shape = API_PAGE,
    .shared = true,
    .param = {QUERY("status"), QUERY("kind"), QUERY("name"), QUERY("key"), QUERY("node"), QUERY("source"),
	QUERY("cursor"), COUNT("limit", "50", 1000)}};
static const struct api add = {
    .sql = "serve_add", .shape = API_OBJECT, .status = 201, .param = {BODY}, .location = "/api/v1/tasks/"};
static const struct api task = {.sql = "cli_show", .shape = API_OBJECT, .param = {ID}, .hash_joins = true};
static const struct api edit = {.sql = "serve_edit", .shape = API_OBJECT, .param = {ID, BODY}};

#define ON_TASK(word)                                                                                   \
	static const struct api word##_one = {.sql = "cli_" #word, .shape = API_ARRAY, .param = {ONE}}; \
	static const struct api word##_many = {.sql = "cli_" #word, .shape = API_ARRAY, .param = {TASKS}}

ON_TASK(pause);
ON_TASK(resume);
ON_TASK(cancel);
ON_TASK(retry);
ON_TASK(run_now);
ON_TASK(skip_next);
ON_TASK(delete);

static const struct api pause_all = {.sql = "cli_pause_all", .shape = API_ARRAY};
static const struct api resume_all = {.sql = "cli_resume_all", .shape = API_ARRAY};
static const struct api explain = {.sql = "cli_explain", .shape = API_ARRAY, .param = {PART(0)}};
static const struct api output = {.sql = "serve_output", .shape = API_OBJECT, .param = {ID}};
static const struct api task_runs = {
    .sql = "serve_task_runs", .shape = API_ARRAY, .param = {ID, COUNT("limit", "50", 1000)}};
static const struct api next = {.sql = "cli_next",
    .shape = API_ARRAY,
    .shared = true,
    .param = {NEEDED("schedule"), QUERY_OR("timezone", "UTC"), QUERY("after"), COUNT("count", "5", 1000)}};
static const struct api forecast = {.sql = "cli_forecast",
    .shape = API_ARRAY,
    .shared = true,
    .param = {QUERY_OR("horizon", "1 day"), COUNT("limit", "100", 10000)}};
static const struct api runs = {.sql = "serve_runs",
    .shape = API_PAGE,
    .shared = true,
    .param = {QUERY("task"), QUERY("outcome"), QUERY("name"), QUERY("key"), QUERY("node"), QUERY("source"),
	TIME("since"), TIME("until"), QUERY("cursor"), COUNT("limit", "50", 1000)}};
static const struct api chains = {.sql = "cli_chains",
    .shape = API_ARRAY,
    .shared = true,
    .param = {QUERY("task"), COUNT("limit", "200", 10000)},
    .hash_joins = true};
static const struct api nodes = {
    .sql = "cli_nodes", .shape = API_ARRAY, .shared = true, .param = {QUERY("name")}};
static const struct api drain = {.sql = "cli_drain", .shape = API_ARRAY, .param = {PART(0)}};
static const struct api undrain = {.sql = "cli_undrain", .shape = API_ARRAY, .param = {PART(0)}};
static const struct api limits = {
    .sql = "cli_limits", .shape = API_ARRAY, .shared = true, .param = {QUERY("key")}};
static const struct api limit_set = {.sql = "serve_limit_set", .shape = API_JSON, .param = {PART(0), BODY}};
static const struct api limit_delete = {.sql = "serve_limit_delete", .shape = API_JSON, .param = {PART(0)}};
static const struct api alerts = {.sql = "serve_alerts", .shape = API_ARRAY, .shared = true};
static const struct api alert_set = {.sql = "serve_alert_set", .shape = API_JSON, .param = {PART(0), BODY}};
static const struct api alert_delete = {.sql = "serve_alert_delete", .shape = API_JSON, .param = {PART(0)}};
static const struct api failing = {
    .sql = "serve_failing", .shape = API_ARRAY, .shared = true, .param = {COUNT("limit", "100", 10000)}};
static const struct api overdue = {
    .sql = "serve_overdue", .shape = API_ARRAY, .shared = true, .param = {COUNT("limit", "100", 10000)}};
static const struct api late = {.sql = "cli_top_late",
    .shape = API_ARRAY,
    .shared = true,
    .param = {COUNT("limit", "100", 10000), QUERY_OR("width", "200")}};
static const struct api scale = {
    .sql = "serve_scale", .shape = API_OBJECT, .shared = true, .param = {QUERY_OR("within", "1 minute")}};

#define GET(path, arg)                                                                \
	{                                                                             \
		"GET", "/api/v1" path, api_answer, &arg, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}
#define POST(path, arg)                                                                \
	{                                                                              \
		"POST", "/api/v1" path, api_answer, &arg, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}
#define PUT(path, arg)                                                                \
	{                                                                             \
		"PUT", "/api/v1" path, api_answer, &arg, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}
#define PATCH(path, arg)                                                                \
	{                                                                               \
		"PATCH", "/api/v1" path, api_answer, &arg, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}
#define DELETE(path, arg)                                                                \
	{                                                                                \
		"DELETE", "/api/v1" path, api_answer, &arg, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}

const struct route api_routes[] = {
    GET("/overview", overview),
    GET("/attention", attention),
    GET("/tasks", tasks),
    POST("/tasks", add),
    GET("/tasks/*", task),
    PATCH("/tasks/*", edit),
    DELETE("/tasks/*", delete_one),
    POST("/tasks/*/pause", pause_one),
    POST("/tasks/*/resume", resume_one),
    POST("/tasks/*/cancel", cancel_one),
    POST("/tasks/*/retry", retry_one),
    POST("/tasks/*/run-now", run_now_one),
    POST("/tasks/*/skip-next", skip_next_one),
    GET("/tasks/*/explain", explain),
    GET("/tasks/*/runs", task_runs),
    GET("/tasks/*/output", output),
    POST("/pause", pause_many),
    POST("/resume", resume_many),
    POST("/cancel", cancel_many),
    POST("/retry", retry_many),
    POST("/run-now", run_now_many),
    POST("/skip-next", skip_next_many),
    POST("/delete", delete_many),
    POST("/pause-all", pause_all),
    POST("/resume-all", resume_all),
    GET("/next", next),
    GET("/forecast", forecast),
    GET("/runs", runs),
    GET("/chains", chains),
    GET("/nodes", nodes),
    POST("/nodes/*/drain", drain),
    POST("/nodes/*/undrain", undrain),
    GET("/limits", limits),
    PUT("/limits/*", limit_set),
    DELETE("/limits/*", limit_delete),
    GET("/alerts", alerts),
    PUT("/alerts/*", alert_set),
    DELETE("/alerts/*", alert_delete),
    GET("/failing", failing),
    GET("/overdue", overdue),
    GET("/late", late),
    GET("/scale", scale),
    {"GET", "/api/v1/events", events_answer, NULL, ROUTE_KNOWN, ROUTE_AS_CALLER},
    {"GET", "/api/v1/openapi.json", asset_answer, "openapi.json", ROUTE_ANYBODY, ROUTE_HERE},
    {NULL, NULL, NULL, NULL, ROUTE_KNOWN, ROUTE_HERE},
};
