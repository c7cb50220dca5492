-- A leader has more time left than it may have if the clock of the store was set back.
-- KEYS: leader. ARGV: candidate, seconds. Returns whether it leads.
if redis.call('TTL', KEYS[1]) > tonumber(ARGV[2]) then redis.call('DEL', KEYS[1]) end
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) and 1 or 0
