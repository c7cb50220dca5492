-- KEYS: the tenant's unfinished jobs, those of all, the counts by tenant. ARGV: job, tenant.
redis.call('SREM', KEYS[1], ARGV[1])
if redis.call('SREM', KEYS[2], ARGV[2] .. ':' .. ARGV[1]) == 1
    and redis.call('HINCRBY', KEYS[3], ARGV[2], -1) <= 0 then redis.call('HDEL', KEYS[3], ARGV[2]) end
