#!lua flags=allow-oom
-- KEYS: monitors to delete. ARGV: monitor.
-- Allowed even if Redis is out of memory: the following deletion frees more than this needs.
return redis.call('SADD', KEYS[1], ARGV[1])
