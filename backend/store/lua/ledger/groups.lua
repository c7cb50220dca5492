-- KEYS: names of uids, groups. ARGV: uid, maximum number of groups, the first index, then names.
-- Returns the index of each; the one before the first for groups beyond the maximum.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
local most, first, found = tonumber(ARGV[2]), tonumber(ARGV[3]), {}
for i = 4, #ARGV do
    local index = redis.call('HGET', KEYS[2], ARGV[i])
    if not index then
        local known = redis.call('HLEN', KEYS[2])
        index = first - 1
        if known < most then
            index = first + known
            redis.call('HSET', KEYS[2], ARGV[i], index)
        end
    end
    found[i - 3] = tonumber(index)
end
return found
