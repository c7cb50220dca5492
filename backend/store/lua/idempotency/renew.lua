-- KEYS: lease. ARGV: holder, seconds.
return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('EXPIRE', KEYS[1], ARGV[2]) or 0
