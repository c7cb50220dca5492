-- KEYS: the tenant's unfinished jobs and reserved places, those of all, the counts by tenant, the time of first work.
-- ARGV: job, tenant.
local named = ARGV[2] .. ':' .. ARGV[1]
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[4], named)
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('SADD', KEYS[3], named) == 1 then redis.call('HINCRBY', KEYS[5], ARGV[2], 1) end
if redis.call('SCARD', KEYS[3]) == 1 then redis.call('SET', KEYS[6], redis.call('TIME')[1]) end
