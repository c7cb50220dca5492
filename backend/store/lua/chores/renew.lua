-- ARGV, besides: seconds of the lease.
redis.call('ZADD', held, now + ARGV[3], ARGV[1])
return 1
