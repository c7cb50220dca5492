-- A message that was taken but not claimed, or is first in its line but not in the queue, was lost.
-- ARGV: message, field of ``fronts``.
if redis.call('SREM', taken, ARGV[1]) == 0 and not redis.call('ZSCORE', line, ARGV[1]) then return 0 end
redis.call('ZADD', line, '-inf', ARGV[1])
settle(ARGV[2], line, taken, queue, wake)
return 1
