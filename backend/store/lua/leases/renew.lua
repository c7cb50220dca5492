#!lua flags=allow-oom
-- KEYS: leases. ARGV: job, text before the number of renewals, number of renewals. Returns whether the lease was valid.
-- Allowed even if Redis is out of memory: a lease keeps its size, and would otherwise be lost.
local held = redis.call('HGET', KEYS[1], ARGV[1])
if not held or string.sub(held, 1, #ARGV[2]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
return 1
