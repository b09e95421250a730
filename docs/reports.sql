-- Every report of Annals as a view, for any SQLite tool. They are temporary: the file stays as it is.
--
--     sqlite3 -cmd '.read docs/reports.sql' annals.db "SELECT * FROM report_commands WHERE exit_code > 0"
--
-- Columns have their units in the comments; docs/reports.md says more. A report's parameters are left out, as a WHERE does
-- the same, and where it needs one it has its default. Written by the program; a test holds it to the code.

-- Which shell commands were run, where, and how did they end?
--   started_at           time as written; when it was asked for
--   conversation_id
--   sequence             place; of the call in its conversation
--   command
--   exit_code            of a command; -1 while it ran
--   outcome              ok, error, failed (a command with another exit code than 0), rejected, pending
--   duration_ms          ms; from the call to its result
--   directory            path; where the shell stood when it was done
--   risk                 UNKNOWN, LOW, MEDIUM, HIGH, as the model rates it
CREATE TEMP VIEW report_commands AS
SELECT c.started_at, c.conversation_id, c.sequence, c.command, c.exit_code, c.outcome, c.duration_ms, c.directory, c.risk
FROM (
    SELECT position FROM commands
    WHERE true
    ORDER BY started_at, position LIMIT -1
) AS found
CROSS JOIN commands AS c ON c.position = found.position;

-- Which files were touched, in which conversation and by which models?
--   path                 path
--   conversation_id
--   title
--   writes               calls; that changed it
--   reads                calls; that did not
--   failed               calls; that failed, were rejected or are unanswered
--   first_at             time as written
--   last_at              time as written
--   models               those the conversation used
CREATE TEMP VIEW report_files AS
WITH patch AS (
    -- A patch may name several files, each in a line of its own.
    SELECT position, CASE WHEN json_valid(arguments)
               THEN (SELECT group_concat(a.value, char(10)) FROM json_tree(arguments) AS a WHERE a.type = 'text')
               ELSE arguments END AS text
    FROM tool_calls
    WHERE path IS NOT NULL AND tool IN ('apply_patch', 'bash', 'shell', 'shell_command', 'exec_command', 'local_shell', 'container.exec')
),
named AS (
    -- The lines of the text, as a JSON array. While it is one, another character stands for the backslash.
    SELECT DISTINCT p.position, trim(replace(substr(l.value, instr(l.value, ': ') + 2), char(57344), '\'), ' ' || char(13)) AS path
    FROM patch AS p
    CROSS JOIN json_each('[' || replace(json_quote(replace(p.text, '\', char(57344))), '\n', '","') || ']') AS l
    WHERE l.value GLOB '[*][*][*] Add File: *' OR l.value GLOB '[*][*][*] Update File: *'
       OR l.value GLOB '[*][*][*] Delete File: *' OR l.value GLOB '[*][*][*] Move to: *'
),
touched AS (
    SELECT conversation_id, path, coalesce(command, tool) AS act, outcome, started_at, position
    FROM tool_calls
    WHERE path IS NOT NULL AND position NOT IN (SELECT position FROM named)
    UNION ALL
    SELECT c.conversation_id, n.path, 'apply_patch', c.outcome, c.started_at, c.position
    FROM named AS n CROSS JOIN tool_calls AS c ON c.position = n.position
)
SELECT t.path, t.conversation_id, c.title,
       count(*) FILTER (WHERE t.act
           IN ('create', 'str_replace', 'insert', 'undo_edit', 'write', 'edit', 'write_file', 'apply_patch', 'Write', 'Edit', 'MultiEdit', 'NotebookEdit')
           AND t.outcome = 'ok') AS writes,
       count(*) FILTER (WHERE t.act
           NOT IN ('create', 'str_replace', 'insert', 'undo_edit', 'write', 'edit', 'write_file', 'apply_patch', 'Write', 'Edit', 'MultiEdit', 'NotebookEdit')
           AND t.outcome = 'ok') AS reads,
       count(*) FILTER (WHERE t.outcome <> 'ok') AS failed,
       min(t.started_at) AS first_at, max(t.started_at) AS last_at,
       (SELECT group_concat(DISTINCT u.model) FROM usage AS u WHERE u.conversation_id = t.conversation_id) AS models
FROM touched AS t
JOIN conversations AS c ON c.conversation_id = t.conversation_id
WHERE true
GROUP BY t.path, t.conversation_id
ORDER BY t.path, first_at, min(t.position);

-- Which commands and tools reached for the network?
--   started_at           time as written; when it was asked for
--   conversation_id
--   sequence             place; of the call in its conversation
--   programs             what was recognised, or the tool
--   what                 the command or the address
--   exit_code            of a command; -1 while it ran
--   outcome              ok, error, failed (a command with another exit code than 0), rejected, pending
--   duration_ms          ms; from the call to its result
CREATE TEMP VIEW report_network AS
SELECT t.started_at, t.conversation_id, t.sequence, t.network AS programs,
       coalesce((SELECT k.command FROM commands AS k WHERE k.position = t.position),
                CASE WHEN json_valid(t.arguments) THEN json_extract(t.arguments, '$.url') END) AS what,
       t.exit_code, t.outcome, t.duration_ms
FROM tool_calls AS t
WHERE t.network IS NOT NULL
ORDER BY 1, 2, 3;

-- Which calls waited for a person, how was each decided, and how long did it wait?
--   asked_at             time as written
--   conversation_id
--   sequence             place; of the call in its conversation
--   tool
--   what                 the command, the path, or the beginning of the arguments
--   risk                 as the model rates it
--   decision             granted, denied, waiting, lapsed
--   decided_at           time as written
--   waited_ms            ms
--   reason               of a denial
--   evidence             status, policy, refusal
--   decided_by           the user, or the name of the server key, and the program
CREATE TEMP VIEW report_confirmations AS
SELECT k.asked_at, k.conversation_id, k.sequence, k.tool,
       coalesce(t.command, t.path, substr(t.arguments, 1, 200)) AS what,
       k.risk, k.decision, k.decided_at, k.waited_ms, k.reason, k.evidence, k.decided_by
FROM confirmations AS k
JOIN tool_calls AS t ON t.position = k.position
WHERE true
ORDER BY k.asked_at, k.position;

-- Which calls were rated a high risk, by the model or by an analyzer?
--   started_at           time as written; when it was asked for
--   conversation_id
--   sequence             place; of the call in its conversation
--   tool
--   what                 the command, the path, or the beginning of the arguments
--   model_risk           where the model rates it so
--   analyzer_risk        where an analyzer does
--   analyzer             which
--   outcome              ok, error, failed (a command with another exit code than 0), rejected, pending
--   exit_code            of a command; -1 while it ran
--   rejected_by          user or hook
CREATE TEMP VIEW report_risks AS
WITH rated (position, model_risk, analyzer_risk, analyzer) AS (
    SELECT position, risk, NULL, NULL FROM tool_calls WHERE risk = 'HIGH'
    UNION ALL
    SELECT position, NULL, risk, analyzer FROM security_analyses WHERE risk = 'HIGH'
)
SELECT t.started_at, t.conversation_id, t.sequence, t.tool,
       coalesce(t.command, t.path, substr(t.arguments, 1, 200)) AS what,
       max(r.model_risk) AS model_risk, max(r.analyzer_risk) AS analyzer_risk, max(r.analyzer) AS analyzer,
       t.outcome, t.exit_code, t.rejected_by
FROM rated AS r
JOIN tool_calls AS t ON t.position = r.position
WHERE true
GROUP BY t.position
ORDER BY t.started_at, t.position;

-- What did hooks stop, and why?
--   at                   time as written
--   conversation_id
--   sequence             place; of the hook's event
--   hook_event           PreToolUse, UserPromptSubmit, Stop, ...
--   hook_command
--   tool
--   what                 the call it stopped
--   reason
CREATE TEMP VIEW report_hook_blocks AS
SELECT h.at, h.conversation_id, h.sequence, h.hook_event, h.hook_command, h.tool,
       (SELECT coalesce(t.command, t.path, substr(t.arguments, 1, 200)) FROM tool_calls AS t
        WHERE t.conversation_id = h.conversation_id AND t.action_id = h.action_id) AS what,
       h.reason
FROM hooks AS h
WHERE h.blocked = 1
ORDER BY h.at, h.position;

-- What failed, by class?
--   class                auth, quota, rate_limit, config, transient, agent_action, internal, unknown, tool
--   code                 of a run that failed
--   tool
--   errors               errors
--   conversations        conversations
--   first_at             time as written
--   last_at              time as written
--   latest               the beginning of the newest one's text
CREATE TEMP VIEW report_errors AS
SELECT class, code, tool, count(*) AS errors, count(DISTINCT conversation_id) AS conversations,
       min(at) AS first_at, max(at) AS last_at,
       substr(max(printf('%020d', position) || coalesce(detail, '')), 21, 200) AS latest
FROM errors
WHERE true
GROUP BY class, code, tool
ORDER BY errors DESC, class, code, tool;

-- Which errors were there, one by one?
--   at                   time as written
--   conversation_id
--   sequence             place; of the event that tells it
--   class
--   code                 of a run that failed
--   tool
--   detail
CREATE TEMP VIEW report_error_list AS
SELECT at, conversation_id, sequence, class, code, tool, detail
FROM errors
WHERE true
ORDER BY at, position;

-- Which secrets had a conversation, and which commands named them?
--   conversation_id
--   name
--   kind                 StaticSecret or LookupSecret
--   description
--   uses                 commands; that contain its name
--   first_at             time as written
--   last_at              time as written
--   hidden               commands; of these, with a value that was hidden in the output
CREATE TEMP VIEW report_secrets AS
WITH found AS MATERIALIZED (
    SELECT s.conversation_id, s.name, k.position, k.started_at,
           (SELECT instr(e.payload, '<secret-hidden>') > 0 FROM events AS e
            WHERE e.conversation_id = k.conversation_id AND e.sequence = k.result_sequence) AS was_hidden
    FROM secrets AS s
    JOIN commands AS k
      ON k.conversation_id = s.conversation_id AND instr(lower(k.command), lower(s.name)) > 0
    WHERE true
)
SELECT s.conversation_id, s.name, s.kind, s.description,
       count(k.position) AS uses, min(k.started_at) AS first_at, max(k.started_at) AS last_at,
       coalesce(sum(k.was_hidden), 0) AS hidden
FROM secrets AS s
LEFT JOIN found AS k ON k.conversation_id = s.conversation_id AND k.name = s.name
WHERE true
GROUP BY s.conversation_id, s.name
ORDER BY s.name, s.conversation_id;

-- What did each model cost?
--   model
--   conversations        conversations
--   calls                calls; that are known one by one
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cache_read_tokens    tokens
--   cache_write_tokens   tokens
--   reasoning_tokens     tokens
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   tokens_without_cost  tokens; sent and received, without a cost or an estimate
--   latency_ms           ms; mean, of the calls that are known one by one
CREATE TEMP VIEW report_cost_by_model AS
SELECT model, count(DISTINCT conversation_id) AS conversations,
       count(DISTINCT conversation_id || ' ' || response_id) AS calls,
       sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cache_read_tokens) AS cache_read_tokens, sum(cache_write_tokens) AS cache_write_tokens,
       sum(reasoning_tokens) AS reasoning_tokens, round(sum(cost), 6) AS cost,
       round(sum(estimated_cost), 6) AS estimated_cost, sum(tokens_without_cost) AS tokens_without_cost,
       round(avg(latency_seconds) * 1000) AS latency_ms
FROM usage
WHERE true
GROUP BY model
ORDER BY coalesce(sum(cost), 0) + coalesce(sum(estimated_cost), 0) DESC, model;

-- What did each day cost?
--   day                  date
--   conversations        conversations
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cache_read_tokens    tokens
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   tokens_without_cost  tokens; sent and received, without a cost or an estimate
CREATE TEMP VIEW report_cost_by_day AS
SELECT coalesce(substr(at, 1, 10), 'unknown') AS day, count(DISTINCT conversation_id) AS conversations,
       sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
       sum(cache_read_tokens) AS cache_read_tokens, round(sum(cost), 6) AS cost,
       round(sum(estimated_cost), 6) AS estimated_cost, sum(tokens_without_cost) AS tokens_without_cost
FROM usage
WHERE true
GROUP BY day
ORDER BY day;

-- Which conversations cost most?
--   conversation_id
--   title
--   models
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cache_read_tokens    tokens
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   tokens_without_cost  tokens; sent and received, without a cost or an estimate
--   cost_with_sub_agents currency of the price table; empty: it has no sub-agents, or no cost is known
--   estimated_with_sub_agents currency of the price table; likewise, of what is estimated
CREATE TEMP VIEW report_cost_by_conversation AS
WITH RECURSIVE
own AS MATERIALIZED (
  SELECT u.conversation_id, group_concat(DISTINCT u.model) AS models,
         sum(u.prompt_tokens) AS prompt_tokens, sum(u.completion_tokens) AS completion_tokens,
         sum(u.cache_read_tokens) AS cache_read_tokens, sum(u.cost) AS cost,
         sum(u.estimated_cost) AS estimated_cost, sum(u.tokens_without_cost) AS tokens_without_cost
  FROM usage AS u
  WHERE true
  GROUP BY u.conversation_id
),
child AS MATERIALIZED (
  SELECT conversation_id, parent_id FROM conversations WHERE parent_id IS NOT NULL
),
below (top, conversation_id) AS (
  SELECT parent_id, conversation_id FROM child
  UNION
  SELECT b.top, c.conversation_id FROM below AS b JOIN child AS c ON c.parent_id = b.conversation_id
),
sub_agents AS MATERIALIZED (
  SELECT b.top, sum(o.cost) AS cost, sum(o.estimated_cost) AS estimated_cost
  FROM below AS b JOIN own AS o ON o.conversation_id = b.conversation_id
  WHERE b.conversation_id <> b.top
  GROUP BY b.top
)
SELECT o.conversation_id, c.title, o.models, o.prompt_tokens, o.completion_tokens, o.cache_read_tokens,
       round(o.cost, 6) AS cost, round(o.estimated_cost, 6) AS estimated_cost, o.tokens_without_cost,
       CASE WHEN s.top IS NOT NULL THEN round(coalesce(o.cost + s.cost, o.cost, s.cost), 6) END AS cost_with_sub_agents,
       CASE WHEN s.top IS NOT NULL
            THEN round(coalesce(o.estimated_cost + s.estimated_cost, o.estimated_cost, s.estimated_cost), 6)
            END AS estimated_with_sub_agents
FROM own AS o
JOIN conversations AS c ON c.conversation_id = o.conversation_id
LEFT JOIN sub_agents AS s ON s.top = o.conversation_id
WHERE true
ORDER BY coalesce(o.cost, 0) + coalesce(o.estimated_cost, 0) DESC, o.conversation_id;

-- Which calls of a model were counted, at which price, and which are copies?
--   conversation_id
--   sequence             place; of the event that reports it; empty: the base state does
--   at                   time, UTC
--   usage_id             what the model was used for
--   model
--   response_id
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cache_read_tokens    tokens
--   cache_write_tokens   tokens
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   price                log: as the log says; table: by the built-in price table; unknown; sum: it is in another row; copy
--   counted_in           the conversation in which a copy is counted
CREATE TEMP VIEW report_cost_calls AS
WITH call AS (
  SELECT conversation_id, sequence, at, usage_id, model, response_id, prompt_tokens, completion_tokens, cache_read_tokens,
         cache_write_tokens, cost, estimated_cost, tokens_without_cost, NULL AS counted_in
  FROM usage
  UNION ALL
  SELECT conversation_id, sequence, at, usage_id, model, response_id, prompt_tokens, completion_tokens, NULL, NULL, 0.0, NULL, NULL,
         owner_id
  FROM usage_copies
)
SELECT conversation_id, sequence, at, usage_id, model, response_id, prompt_tokens, completion_tokens, cache_read_tokens,
       cache_write_tokens, round(cost, 6) AS cost, round(estimated_cost, 6) AS estimated_cost,
       CASE WHEN counted_in IS NOT NULL THEN 'copy'
            WHEN cost IS NOT NULL THEN 'log'
            WHEN estimated_cost IS NOT NULL THEN 'table'
            WHEN tokens_without_cost > 0 THEN 'unknown'
            ELSE 'sum' END AS price,
       counted_in
FROM call
WHERE true
ORDER BY conversation_id, sequence IS NULL, sequence, at, usage_id;

-- What did the work on each folder or repository cost?
--   workspace            path; empty: nothing says it
--   conversations        conversations
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cache_read_tokens    tokens
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   tokens_without_cost  tokens; sent and received, without a cost or an estimate
CREATE TEMP VIEW report_cost_by_workspace AS
SELECT c.workspace, count(DISTINCT u.conversation_id) AS conversations,
       sum(u.prompt_tokens) AS prompt_tokens, sum(u.completion_tokens) AS completion_tokens,
       sum(u.cache_read_tokens) AS cache_read_tokens, round(sum(u.cost), 6) AS cost,
       round(sum(u.estimated_cost), 6) AS estimated_cost, sum(u.tokens_without_cost) AS tokens_without_cost
FROM usage AS u
JOIN conversations AS c ON c.conversation_id = u.conversation_id
WHERE true
GROUP BY c.workspace
ORDER BY coalesce(sum(u.cost), 0) + coalesce(sum(u.estimated_cost), 0) DESC, c.workspace;

-- What did the conversations of each tag cost?
--   tag
--   value
--   conversations        conversations
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   tokens_without_cost  tokens; sent and received, without a cost or an estimate
CREATE TEMP VIEW report_cost_by_tag AS
SELECT tag.key AS tag, tag.value AS value, count(DISTINCT u.conversation_id) AS conversations,
       sum(u.prompt_tokens) AS prompt_tokens, sum(u.completion_tokens) AS completion_tokens,
       round(sum(u.cost), 6) AS cost,
       round(sum(u.estimated_cost), 6) AS estimated_cost, sum(u.tokens_without_cost) AS tokens_without_cost
FROM usage AS u
JOIN conversations AS c ON c.conversation_id = u.conversation_id
JOIN json_each(c.tags) AS tag
WHERE true
GROUP BY tag.key, tag.value
ORDER BY tag.key, coalesce(sum(u.cost), 0) + coalesce(sum(u.estimated_cost), 0) DESC, tag.value;

-- How often was each tool called, and how did the calls end?
--   tool
--   calls                calls
--   conversations        conversations
--   ok                   calls
--   errors               calls; in which the tool failed
--   failed               calls; whose command ended with another exit code than 0
--   rejected             calls
--   pending              calls; that nothing has answered
CREATE TEMP VIEW report_tools AS
SELECT tool, count(*) AS calls, count(DISTINCT conversation_id) AS conversations,
       count(*) FILTER (WHERE outcome = 'ok') AS ok, count(*) FILTER (WHERE outcome = 'error') AS errors,
       count(*) FILTER (WHERE outcome = 'failed') AS failed, count(*) FILTER (WHERE outcome = 'rejected') AS rejected,
       count(*) FILTER (WHERE outcome = 'pending') AS pending
FROM tool_calls
WHERE true
GROUP BY tool
ORDER BY calls DESC, tool;

-- Which tools took the time?
--   tool
--   calls                calls; whose duration is known
--   mean_ms              ms
--   median_ms            ms
--   p95_ms               ms; 95 of 100 calls took no longer
--   max_ms               ms
--   total_ms             ms
CREATE TEMP VIEW report_slow_tools AS
WITH timed AS (
    SELECT tool, duration_ms,
           row_number() OVER (PARTITION BY tool ORDER BY duration_ms) AS place,
           count(*) OVER (PARTITION BY tool) AS calls
    FROM tool_calls
    WHERE duration_ms >= 0
)
SELECT tool, max(calls) AS calls, round(avg(duration_ms)) AS mean_ms,
       max(CASE WHEN place = (calls + 1) / 2 THEN duration_ms END) AS median_ms,
       max(CASE WHEN place = (calls * 95 + 99) / 100 THEN duration_ms END) AS p95_ms,
       max(duration_ms) AS max_ms, sum(duration_ms) AS total_ms
FROM timed
GROUP BY tool
ORDER BY total_ms DESC, tool;

-- Which calls took longest?
--   duration_ms          ms; from the call to its result
--   started_at           time as written; when it was asked for
--   conversation_id
--   sequence             place; of the call in its conversation
--   tool
--   what                 the command, the path, or the beginning of the arguments
--   outcome              ok, error, failed (a command with another exit code than 0), rejected, pending
--   exit_code            of a command; -1 while it ran
CREATE TEMP VIEW report_slow_calls AS
SELECT duration_ms, started_at, conversation_id, sequence, tool,
       coalesce(command, path, substr(arguments, 1, 200)) AS what, outcome, exit_code
FROM tool_calls
WHERE duration_ms IS NOT NULL
ORDER BY duration_ms DESC, position;

-- Which conversations are stuck, failed or unfinished?
--   conversation_id
--   title
--   status
--   why
--   last_at              time as written; of its last event
--   pending              calls; that nothing has answered
--   class                of its last error
--   code                 of its last error
--   last_error           the beginning of its text
CREATE TEMP VIEW report_stuck AS
SELECT c.conversation_id, c.title, c.status,
       CASE WHEN c.status = 'stuck' THEN 'it went in circles'
            WHEN c.status = 'error' THEN 'its run failed'
            WHEN c.status = 'running' THEN 'it still runs, or its process died'
            ELSE 'calls were never answered' END AS why,
       c.last_timestamp AS last_at, coalesce(p.pending, 0) AS pending, e.class, e.code,
       substr(e.detail, 1, 200) AS last_error
FROM conversations AS c
LEFT JOIN (SELECT conversation_id, count(*) AS pending FROM tool_calls WHERE outcome = 'pending'
           GROUP BY conversation_id) AS p ON p.conversation_id = c.conversation_id
LEFT JOIN (SELECT conversation_id, class, code, detail, max(position) FROM errors
           GROUP BY conversation_id) AS e ON e.conversation_id = c.conversation_id
WHERE (c.status IN ('stuck', 'error', 'running')
       OR p.pending > 0 AND c.status NOT IN ('waiting_for_confirmation', 'paused'))
ORDER BY c.last_timestamp DESC, c.conversation_id;

-- Which conversations are the longest?
--   conversation_id
--   title
--   status
--   events               events
--   hours                h; from the first to the last event
--   payload_bytes        bytes
--   prompt_tokens        tokens; sent, those read from a cache included
--   completion_tokens    tokens; received
--   cost                 currency of the price table; as the log says; empty: it says none
--   estimated_cost       currency of the price table; of calls without a cost, by the built-in price table; empty: none
--   tokens_without_cost  tokens; sent and received, without a cost or an estimate
CREATE TEMP VIEW report_longest AS
SELECT c.conversation_id, c.title, c.status, c.event_count AS events,
       round((julianday(c.updated_at) - julianday(c.created_at)) * 24, 2) AS hours, c.payload_bytes,
       u.prompt_tokens, u.completion_tokens, u.cost, u.estimated_cost, u.tokens_without_cost
FROM conversations AS c
LEFT JOIN (SELECT conversation_id, sum(prompt_tokens) AS prompt_tokens,
                  sum(completion_tokens) AS completion_tokens, round(sum(cost), 6) AS cost,
                  round(sum(estimated_cost), 6) AS estimated_cost, sum(tokens_without_cost) AS tokens_without_cost
           FROM usage GROUP BY conversation_id) AS u ON u.conversation_id = c.conversation_id
WHERE true
ORDER BY c.event_count DESC, c.conversation_id;

-- What came into the file between two times?
--   conversation_id
--   title
--   events               events; that were added
--   first_sequence       place; of the first of them
--   last_sequence        place; of the last of them
--   is_new               0 or 1; 1: the conversation began in that time
--   state_fields         changes; of fields of the base state
--   head_moves           moves; of HEAD, other than by an event
--   imports              imports
--   problems             problems; that imports have found
--   first_at             time, UTC
--   last_at              time, UTC
CREATE TEMP VIEW report_changes AS
WITH change AS MATERIALIZED (
    -- In the order of the log, conversation by conversation: nothing has to be sorted or kept.
    SELECT c.conversation_id, c.title,
           (SELECT json_array(count(*), min(e.recorded_at), max(e.recorded_at), min(e.sequence), max(e.sequence))
            FROM events AS e
            WHERE e.conversation_id = c.conversation_id
           ) AS event,
           (SELECT json_array(count(*), min(b.recorded_at), max(b.recorded_at))
            FROM base_state_changes AS b
            WHERE b.conversation_id = c.conversation_id
           ) AS state,
           (SELECT json_array(count(*), min(h.recorded_at), max(h.recorded_at))
            FROM head_moves AS h
            WHERE h.conversation_id = c.conversation_id
           ) AS head,
           (SELECT json_array(count(*), min(i.imported_at), max(i.imported_at))
            FROM imports AS i
            WHERE i.conversation_id = c.conversation_id
           ) AS import,
           (SELECT json_array(count(*), min(p.found_at), max(p.found_at))
            FROM problems AS p
            WHERE p.conversation_id = c.conversation_id
           ) AS problem
    FROM conversations AS c
)
SELECT d.conversation_id, d.title, d.event ->> 0 AS events, d.event ->> 3 AS first_sequence,
       d.event ->> 4 AS last_sequence, coalesce(d.event ->> 3 = 0, 0) AS is_new,
       d.state ->> 0 AS state_fields, d.head ->> 0 AS head_moves, d.import ->> 0 AS imports,
       d.problem ->> 0 AS problems,
       (SELECT min(at.value)
        FROM json_each(json_array(d.event ->> 1, d.state ->> 1, d.head ->> 1, d.import ->> 1, d.problem ->> 1)) AS at)
           AS first_at,
       (SELECT max(at.value)
        FROM json_each(json_array(d.event ->> 2, d.state ->> 2, d.head ->> 2, d.import ->> 2, d.problem ->> 2)) AS at)
           AS last_at
FROM change AS d
WHERE (d.event ->> 0) + (d.state ->> 0) + (d.head ->> 0) + (d.import ->> 0) + (d.problem ->> 0) > 0
ORDER BY first_at, d.conversation_id;

-- How much happened each day?
--   day                  date
--   conversations        conversations
--   events               events
--   actions              events; tool calls
--   user_messages        events
CREATE TEMP VIEW report_activity AS
SELECT coalesce(substr(timestamp, 1, 10), 'unknown') AS day, count(DISTINCT conversation_id) AS conversations, count(*) AS events,
       count(*) FILTER (WHERE kind IN ('ActionEvent', 'action') OR kind GLOB 'action:*' AND source = 'agent'
           AND kind NOT IN ('action:message', 'action:system', 'action:condensation', 'action:condensation_request')) AS actions,
       count(*) FILTER (WHERE kind IN ('MessageEvent', 'message', 'user_message', 'action:message')
           AND source = 'user') AS user_messages
FROM events
WHERE true
GROUP BY day
ORDER BY day;
