-- ARGV: task, owner, seconds of the lease, key of its message. Returns the attempt, or 0.
redis.call('DEL', ARGV[4])
local of = group(ARGV[1])
if redis.call('HGET', placed, of) == ARGV[1] then redis.call('HDEL', placed, of) end
if not redis.call('ZSCORE', held, ARGV[1]) or redis.call('HEXISTS', owners, ARGV[1]) == 1 then return 0 end
redis.call('HSET', owners, ARGV[1], ARGV[2])
redis.call('ZADD', held, now + ARGV[3], ARGV[1])
return redis.call('HINCRBY', tries, ARGV[1], 1)
