WITH rated (position, model_risk, analyzer_risk, analyzer) AS (
    SELECT position, risk, NULL, NULL FROM tool_calls WHERE risk = :risk
    UNION ALL
    SELECT position, NULL, risk, analyzer FROM security_analyses WHERE risk = :risk
)
SELECT t.started_at, t.conversation_id, t.sequence, t.tool,
       coalesce(t.command, t.path, substr(t.arguments, 1, 200)) AS what,
       max(r.model_risk) AS model_risk, max(r.analyzer_risk) AS analyzer_risk, max(r.analyzer) AS analyzer,
       t.outcome, t.exit_code, t.rejected_by
FROM rated AS r
JOIN tool_calls AS t ON t.position = r.position
WHERE true
  AND t.conversation_id = :conversation
  AND t.started_at >= :since
  AND t.started_at < :until
GROUP BY t.position
ORDER BY t.started_at, t.position
