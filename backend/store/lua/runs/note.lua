-- KEYS: the part's record, shares, gate. ARGV: run, part, share, milliseconds.
local record = redis.call('GET', KEYS[1])
if not record or cjson.decode(record).run ~= tonumber(ARGV[1]) then return false end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if not redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[4]) then return {} end
return redis.call('HVALS', KEYS[2])
