WITH timed AS (
    SELECT tool, duration_ms,
           row_number() OVER (PARTITION BY tool ORDER BY duration_ms) AS place,
           count(*) OVER (PARTITION BY tool) AS calls
    FROM tool_calls
    WHERE duration_ms >= 0
      AND conversation_id = :conversation
      AND started_at >= :since
      AND started_at < :until
)
SELECT tool, max(calls) AS calls, round(avg(duration_ms)) AS mean_ms,
       max(CASE WHEN place = (calls + 1) / 2 THEN duration_ms END) AS median_ms,
       max(CASE WHEN place = (calls * 95 + 99) / 100 THEN duration_ms END) AS p95_ms,
       max(duration_ms) AS max_ms, sum(duration_ms) AS total_ms
FROM timed
GROUP BY tool
ORDER BY total_ms DESC, tool
