-- KEYS: buckets, state. ARGV: the first and the last time bucket, buckets of a span. Returns the spans completely
-- between them, and the other existing buckets, as doubles. The list of a span still contains the rows of its deleted
-- buckets.
local first, last, of, floor = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), math.floor
local found = redis.call('ZRANGEBYSCORE', KEYS[1], floor(first / of) * of, (floor(last / of) + 1) * of - 1)
local dropped = tonumber(redis.call('HGET', KEYS[2], 'dropped') or 0)
local spans, single, i = {}, {}, 1
while i <= #found do
    local span, from = floor(found[i] / of), i
    while i <= #found and floor(found[i] / of) == span do i = i + 1 end
    if i - from > 1 and tonumber(found[from]) >= first and tonumber(found[i - 1]) <= last and span * of >= dropped then
        spans[#spans + 1] = struct.pack('<d', span)
    else
        for k = from, i - 1 do
            local bucket = tonumber(found[k])
            if bucket >= first and bucket <= last then single[#single + 1] = struct.pack('<d', bucket) end
        end
    end
end
return {table.concat(spans), table.concat(single)}
