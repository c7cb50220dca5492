-- ARGV: message, field of ``fronts``.
redis.call('SREM', taken, ARGV[1])
redis.call('ZREM', line, ARGV[1])
redis.call('LREM', queue, 0, ARGV[1])
settle(ARGV[2], line, taken, queue, wake)
