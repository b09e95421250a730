-- How a conversation came out, also for OpenHands V0: steps and the final response as the events say in their present
-- form (`src/event/upcast/v0.rs`, `src/state/fold.rs`). Only payloads of V0 are opened for that. A reply without an id
-- is a step of its own. Not materialized: a question about one conversation must not walk the branches of all.
DROP VIEW outcomes;
CREATE VIEW outcomes AS
WITH said (conversation_id, position, reply, is_final) AS NOT MATERIALIZED (
    SELECT b.conversation_id,
           s.position,
           CASE WHEN s.kind IN ('ActionEvent', 'action', 'MessageEvent', 'message', 'agent_message')
                THEN coalesce(s.llm_response_id, '')
                WHEN s.kind IN ('action:message', 'action:finish') THEN ''
                ELSE coalesce(json_extract(s.payload, '$.tool_call_metadata.model_response.id'), '') END,
           s.source = 'agent'
               AND (s.kind IN ('MessageEvent', 'message', 'agent_message', 'action:message', 'action:finish')
                    OR s.kind IN ('ActionEvent', 'action') AND s.tool_name = 'finish')
    FROM active_branches AS b
    CROSS JOIN event AS s ON s.position = b.position
    WHERE CASE WHEN s.kind IN ('ActionEvent', 'action') THEN 1
               WHEN s.kind IN ('MessageEvent', 'message', 'agent_message', 'action:message') THEN s.source = 'agent'
               WHEN s.source IS NOT 'agent' OR s.kind NOT GLOB 'action:*'
                    OR s.kind IN ('action:system', 'action:condensation') THEN 0
               WHEN s.kind = 'action:finish'
               THEN coalesce(json_extract(s.payload, '$.args.thought'), '')
                    || coalesce(json_extract(s.payload, '$.tool_call_metadata.model_response.choices[0].message.content'), '')
                    || coalesce(json_extract(s.payload, '$.args.final_thought'), '') <> ''
               ELSE json_type(s.payload, '$.tool_call_metadata.function_name') = 'text'
                    AND EXISTS (SELECT 1
                                FROM json_each(s.payload,
                                               '$.tool_call_metadata.model_response.choices[0].message.tool_calls') AS call
                                WHERE json_extract(call.value, '$.id')
                                          = json_extract(s.payload, '$.tool_call_metadata.tool_call_id')
                                  AND json_type(call.value, '$.function.arguments') = 'text') END
)
SELECT f.conversation_id                                                AS conversation_id,
       f.status                                                         AS status,
       f.steps                                                          AS steps,
       CASE WHEN e.kind = 'action:message' THEN coalesce(json_extract(e.payload, '$.args.content'), '')
            WHEN e.kind = 'action:finish'
            THEN coalesce(nullif(json_extract(e.payload, '$.args.thought'), ''),
                          json_extract(e.payload, '$.tool_call_metadata.model_response.choices[0].message.content'), '')
                 || coalesce(json_extract(e.payload, '$.args.final_thought'), '')
            WHEN e.tool_name = 'finish' THEN coalesce(json_extract(e.payload, '$.action.message'), '')
            WHEN e.position IS NOT NULL
            THEN (SELECT coalesce(group_concat(json_extract(part.value, '$.text'), ''), '')
                  FROM json_each(e.payload, '$.llm_message.content') AS part) END AS final_response,
       e.sequence                                                       AS final_sequence
FROM (SELECT c.conversation_id,
             c.status,
             (SELECT count(DISTINCT nullif(a.reply, '')) + count(CASE WHEN a.reply = '' THEN 1 END)
              FROM said AS a
              WHERE a.conversation_id = c.conversation_id) AS steps,
             (SELECT max(a.position)
              FROM said AS a
              WHERE a.conversation_id = c.conversation_id AND a.is_final) AS final_position
      FROM conversations AS c) AS f
LEFT JOIN event AS e ON e.position = f.final_position;
