-- Serves: GET /api/v1/scale.  $1 within, $2 kinds, separated by commas, $3 labels as in a node's settings.
select s.*
from pgrab.scale($1::interval, string_to_array($2::text, ','), pgrab_tool.labels_of($3::text)) s
