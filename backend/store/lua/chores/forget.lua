-- ARGV: task.
redis.call('ZREM', due, ARGV[1])
redis.call('ZREM', line(group(ARGV[1])), ARGV[1])
redis.call('HDEL', tries, ARGV[1])
