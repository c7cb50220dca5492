#!lua flags=allow-oom
-- KEYS: ids by time, entries, ids of routine entries, serial, ids by serial. ARGV: the most entries, the most milliseconds that they
-- are kept (0: nothing is removed because of it), then for each entry a random suffix of its id, 1 if it is routine and its JSON.
-- Allowed even if Redis is out of memory, so that a deletion, which frees more than this needs, can be recorded.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The order of entries is that of their transactions, also if the clock was set back, by at most a day.
local last = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] or 0)
if last > now and last - now < 86400000 then now = last end
for i = 3, #ARGV, 3 do
    local serial = redis.call('INCR', KEYS[4])
    local id = string.format('audit_%012x%010x%s', now, serial, ARGV[i])
    redis.call('ZADD', KEYS[1], now, id)
    redis.call('ZADD', KEYS[5], serial, id)
    redis.call('HSET', KEYS[2], id, ARGV[i + 2])
    if ARGV[i + 1] == '1' then redis.call('ZADD', KEYS[3], now, id) end
end
local function forget(ids)
    if #ids == 0 then return end
    redis.call('ZREM', KEYS[1], unpack(ids))
    redis.call('ZREM', KEYS[3], unpack(ids))
    redis.call('ZREM', KEYS[5], unpack(ids))
    redis.call('HDEL', KEYS[2], unpack(ids))
end
-- A bounded number of steps: at least as many as entries were added.
local most, longest, steps = tonumber(ARGV[1]), tonumber(ARGV[2]), 100
if longest > 0 then forget(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - longest, 'LIMIT', 0, steps)) end
for _ = 1, most > 0 and math.min(steps, redis.call('ZCARD', KEYS[1]) - most) or 0 do
    -- Routine entries make room first while they are more than half of the log.
    local crowded = redis.call('ZCARD', KEYS[3]) * 2 > most
    forget(redis.call('ZRANGE', crowded and KEYS[3] or KEYS[1], 0, 0))
end
