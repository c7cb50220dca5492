-- KEYS: generations. ARGV: series, prefix of its lists, prefix of the counts or empty, then buckets.
-- Returns five doubles per bucket: generation and length of its list, predictions, joined, expired.
local found = {}
for i = 4, #ARGV do
    local bucket, counts = ARGV[i], {}
    if ARGV[3] ~= '' then counts = redis.call('HMGET', ARGV[3] .. bucket, 'predictions', 'joined', 'expired') end
    found[#found + 1] = struct.pack('<ddddd', tonumber(redis.call('HGET', KEYS[1], ARGV[1] .. ':' .. bucket) or 0),
        redis.call('LLEN', ARGV[2] .. bucket), tonumber(counts[1] or 0), tonumber(counts[2] or 0),
        tonumber(counts[3] or 0))
end
return table.concat(found)
