-- KEYS: ends of jobs. ARGV: when the job was queued, number of ends kept.
local now = redis.call('TIME')
redis.call('LPUSH', KEYS[1], string.format('%d.%06d %s', now[1], now[2], ARGV[1]))
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
