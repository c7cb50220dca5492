-- KEYS: state. ARGV: the first time bucket to keep.
if tonumber(redis.call('HGET', KEYS[1], 'dropped') or 0) < tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[1], 'dropped', ARGV[1])
end
