-- KEYS: list, generations, loose, state. ARGV: series:bucket, generation, number of replaced tallies, replacement.
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
-- A monitor that is being deleted loses its lists before their generations.
if redis.call('LLEN', KEYS[1]) < tonumber(ARGV[3]) then return 0 end
redis.call('LTRIM', KEYS[1], ARGV[3], -1)
local length = redis.call('LPUSH', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], redis.call('HINCRBY', KEYS[4], 'generations', 1))
if length == 1 then redis.call('SREM', KEYS[3], ARGV[1]) end
return 1
