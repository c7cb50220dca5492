-- Each message counts as a microsecond of work, so that messages with equal estimates keep their order.
-- ARGV: message, field of ``fronts``, tenant, estimated seconds, whether at the front of the line.
if redis.call('SISMEMBER', taken, ARGV[1]) == 1 or redis.call('ZSCORE', line, ARGV[1]) then return 0 end
local rank = redis.call('INCRBYFLOAT', work, '0.000001') + ARGV[4]
redis.call('HSET', MESSAGE .. ARGV[1], 'tenant', ARGV[3], 'seconds', ARGV[4])
redis.call('ZADD', line, ARGV[5] == '1' and '-inf' or rank, ARGV[1])
settle(ARGV[2], line, taken, queue, wake)
return 1
