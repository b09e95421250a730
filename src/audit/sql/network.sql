WITH program (name, word, pattern) AS (
    VALUES ('curl', 'curl', '*[^a-z0-9_.-]curl[^a-z0-9_-]*'),
           ('wget', 'wget', '*[^a-z0-9_.-]wget[^a-z0-9_-]*'),
           ('git clone', 'git clone', '*[^a-z0-9_.-]git clone[^a-z0-9_-]*'),
           ('git fetch', 'git fetch', '*[^a-z0-9_.-]git fetch[^a-z0-9_-]*'),
           ('git pull', 'git pull', '*[^a-z0-9_.-]git pull[^a-z0-9_-]*'),
           ('git push', 'git push', '*[^a-z0-9_.-]git push[^a-z0-9_-]*'),
           ('git ls-remote', 'git ls-remote', '*[^a-z0-9_.-]git ls-remote[^a-z0-9_-]*'),
           ('git submodule', 'git submodule', '*[^a-z0-9_.-]git submodule[^a-z0-9_-]*'),
           ('gh', 'gh ', '*[^a-z0-9_.-]gh [a-z]*'),
           ('glab', 'glab ', '*[^a-z0-9_.-]glab [a-z]*'),
           ('pip install', ' install', '*[^a-z0-9_.-]pip[0-9.]* install[^a-z0-9_-]*'),
           ('pip install', 'pip install', '*[^a-z0-9_.-]pip install[^a-z0-9_-]*'),
           ('uv', 'uv ', '*[^a-z0-9_.-]uv [aips]*'),
           ('poetry', 'poetry ', '*[^a-z0-9_.-]poetry [aiu]*'),
           ('conda install', 'conda install', '*[^a-z0-9_.-]conda install[^a-z0-9_-]*'),
           ('npm', 'npm ', '*[^a-z0-9_.-]npm [acipu]*'),
           ('npx', 'npx', '*[^a-z0-9_.-]npx[^a-z0-9_-]*'),
           ('yarn', 'yarn', '*[^a-z0-9_.-]yarn[^a-z0-9_-]*'),
           ('pnpm', 'pnpm ', '*[^a-z0-9_.-]pnpm [adiu]*'),
           ('cargo', 'cargo ', '*[^a-z0-9_.-]cargo [afipsu]*'),
           ('go', 'go ', '*[^a-z0-9_.-]go [gim][eno][dts]*'),
           ('gem install', 'gem install', '*[^a-z0-9_.-]gem install[^a-z0-9_-]*'),
           ('apt', 'apt', '*[^a-z0-9_.-]apt-get* install[^a-z0-9_-]*'),
           ('apt', 'apt', '*[^a-z0-9_.-]apt-get* update[^a-z0-9_-]*'),
           ('apt', 'apt', '*[^a-z0-9_.-]apt install[^a-z0-9_-]*'),
           ('apt', 'apt', '*[^a-z0-9_.-]apt update[^a-z0-9_-]*'),
           ('apt', 'apt', '*[^a-z0-9_.-]apt -* install[^a-z0-9_-]*'),
           ('apk', 'apk ', '*[^a-z0-9_.-]apk add[^a-z0-9_-]*'),
           ('apk', 'apk ', '*[^a-z0-9_.-]apk -* add[^a-z0-9_-]*'),
           ('brew', 'brew ', '*[^a-z0-9_.-]brew [iu]*'),
           ('yum, dnf', 'yum ', '*[^a-z0-9_.-]yum [iu]*'),
           ('yum, dnf', 'dnf ', '*[^a-z0-9_.-]dnf [iu]*'),
           ('ssh', 'ssh', '*[^a-z0-9_.-]ssh[^a-z0-9_-]*'),
           ('scp', 'scp', '*[^a-z0-9_.-]scp[^a-z0-9_-]*'),
           ('sftp', 'sftp', '*[^a-z0-9_.-]sftp[^a-z0-9_-]*'),
           ('rsync', 'rsync', '*[^a-z0-9_.-]rsync[^a-z0-9_-]*'),
           ('ftp', 'ftp', '*[^a-z0-9_.-]ftp[^a-z0-9_-]*'),
           ('telnet', 'telnet', '*[^a-z0-9_.-]telnet[^a-z0-9_-]*'),
           ('nc', 'nc ', '*[^a-z0-9_.-]nc [-a-z0-9]*'),
           ('netcat', 'netcat', '*[^a-z0-9_.-]netcat[^a-z0-9_-]*'),
           ('socat', 'socat', '*[^a-z0-9_.-]socat[^a-z0-9_-]*'),
           ('nmap', 'nmap', '*[^a-z0-9_.-]nmap[^a-z0-9_-]*'),
           ('ping', 'ping ', '*[^a-z0-9_.-]ping [-a-z0-9]*'),
           ('dig, nslookup, host', 'dig ', '*[^a-z0-9_.-]dig [-@a-z0-9]*'),
           ('dig, nslookup, host', 'nslookup', '*[^a-z0-9_.-]nslookup[^a-z0-9_-]*'),
           ('docker', 'docker ', '*[^a-z0-9_.-]docker [plb][uo]*'),
           ('kubectl', 'kubectl', '*[^a-z0-9_.-]kubectl[^a-z0-9_-]*'),
           ('aws', 'aws ', '*[^a-z0-9_.-]aws [a-z]*'),
           ('gcloud, gsutil', 'gcloud ', '*[^a-z0-9_.-]gcloud [a-z]*'),
           ('gcloud, gsutil', 'gsutil ', '*[^a-z0-9_.-]gsutil [a-z]*'),
           ('az', 'az ', '*[^a-z0-9_.-]az [a-z]*'),
           ('/dev/tcp', '/dev/tcp/', '*/dev/tcp/*'),
           ('a URL', '://', '*[a-z]://[a-z0-9]*')
),
command AS MATERIALIZED (
    SELECT position, conversation_id, sequence, started_at, command, exit_code, outcome, duration_ms,
           ' ' || lower(command) || ' ' AS text
    FROM commands
    WHERE true
      AND conversation_id = :conversation
      AND started_at >= :since
      AND started_at < :until
)
SELECT k.started_at, k.conversation_id, k.sequence, group_concat(DISTINCT program.name) AS programs,
       k.command AS what, k.exit_code, k.outcome, k.duration_ms
FROM command AS k
JOIN program ON instr(k.text, program.word) > 0 AND k.text GLOB program.pattern
GROUP BY k.position
UNION ALL
SELECT t.started_at, t.conversation_id, t.sequence, t.tool,
       json_extract(t.arguments, '$.url'), NULL, t.outcome, t.duration_ms
FROM tool_calls AS t
WHERE (t.tool LIKE '%brows%' OR t.tool LIKE '%fetch%' OR t.tool LIKE '%web%' OR t.tool LIKE '%http%')
  AND json_valid(t.arguments) AND json_extract(t.arguments, '$.url') IS NOT NULL
  AND t.conversation_id = :conversation
  AND t.started_at >= :since
  AND t.started_at < :until
ORDER BY 1, 2, 3
