-- KEYS: names of uids, ids, slots, the slot of new ids, the slot of ids to delete, state, totals, buckets, generations,
--       loose, row buckets, recent changes; then the lists to append to, and the hashes of counts.
-- ARGV: uid, plan; text and ends of the ids, of the expected entries and of the new ones, each empty for none, with the
--       ends as a MessagePack array or a common width; the ids to store in one chunk; then the tallies.
-- plan: once ({name of the change, seconds for which it is recorded}), max_ids, slot, fresh (new ids),
--       forgets ({chunks, taken, slot}), lists ({series, number, tally}...), buckets (the time buckets among them),
--       counts ({field, count}...), totals ({field, count}), first (time of the first new prediction),
--       rows ({n, close, {series, stem, tally}...}),
--       long ({length, step} at which a list is reported).
-- Returns {"done", the long lists, the row bucket that is now open if one was closed},
-- {"conflict", indices, their entries}, {"full"} or {"gone"}.
local plan = cjson.decode(ARGV[2])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return {'gone'} end

-- A client whose connection broke before the answer sends the same change again.
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[12], '-inf', now)
if redis.call('ZSCORE', KEYS[12], plan.once[1]) then return {'done', {}, 0} end

local sub, min = string.sub, math.min
local function strings(text, packed)
    local found, width = {}, tonumber(packed)
    if width then
        for i = 1, #text / width do found[i] = sub(text, (i - 1) * width + 1, i * width) end
    elseif packed ~= '' then
        local at, ends = 0, cmsgpack.unpack(packed)
        for i = 1, #ends do
            found[i] = sub(text, at + 1, ends[i])
            at = ends[i]
        end
    end
    return found
end

if plan.forgets and (redis.call('HGET', KEYS[6], 'taken') or '0') ~= plan.forgets[2] then
    return {'conflict', {}, {}}
end
local ids = strings(ARGV[3], ARGV[4])
local expected, entries = strings(ARGV[5], ARGV[6]), strings(ARGV[7], ARGV[8])
local n, places, present = #ids, {}, {}
-- Of ids that are all to be new, repeats show when they are written: there is nothing to keep of each meanwhile.
local new, seen = #expected == 0, {}
local function differing(repeats)
    for i = 1, n, 1000 do
        local last = min(i + 999, n)
        local found = redis.call('HMGET', KEYS[2], unpack(ids, i, last))
        for k = i, last do
            local entry = found[k - i + 1] or ''
            if (repeats and seen[ids[k]]) or entry ~= (expected[k] or '') then
                places[#places + 1] = k - 1
                present[#present + 1] = entry
            end
            if repeats then seen[ids[k]] = true end
        end
    end
end
differing(not new)
if #places > 0 then
    if new then
        places, present = {}, {}
        differing(true)
    end
    return {'conflict', places, present}
end
if plan.fresh > 0 and redis.call('HLEN', KEYS[2]) + plan.fresh > plan.max_ids then return {'full'} end

local added, set_in_all = 0, 0
for i = 1, n, 1000 do
    local set, unset, s, u = {}, {}, 0, 0
    for k = i, min(i + 999, n) do
        local entry = entries[k]
        if entry and entry ~= '' then
            set[s + 1], set[s + 2] = ids[k], entry
            s = s + 2
        else
            u = u + 1
            unset[u] = ids[k]
        end
    end
    if s > 0 then added = added + redis.call('HSET', KEYS[2], unpack(set, 1, s)) end
    set_in_all = set_in_all + s / 2
    if u > 0 then redis.call('HDEL', KEYS[2], unpack(unset, 1, u)) end
end
if new and added < set_in_all then
    for i = 1, n, 1000 do redis.call('HDEL', KEYS[2], unpack(ids, i, min(i + 999, n))) end
    differing(true)
    return {'conflict', places, present}
end
redis.call('ZADD', KEYS[12], now + plan.once[2], plan.once[1])
if ARGV[9] ~= '' then
    redis.call('RPUSH', KEYS[4], ARGV[9])
    redis.call('ZADD', KEYS[3], plan.slot, plan.slot)
end
if plan.forgets then
    redis.call('LPOP', KEYS[5], plan.forgets[1])
    redis.call('HINCRBY', KEYS[6], 'taken', 1)
    if redis.call('EXISTS', KEYS[5]) == 0 then redis.call('ZREM', KEYS[3], plan.forgets[3]) end
end

local long = {}
local function append(key, series, bucket, tally)
    local length, field = redis.call('RPUSH', key, tally), series .. ':' .. bucket
    if length == 1 then
        redis.call('HSET', KEYS[9], field, redis.call('HINCRBY', KEYS[6], 'generations', 1))
    elseif length == 2 then
        redis.call('SADD', KEYS[10], field)
    end
    if length >= plan.long[1] and length % plan.long[2] == 0 then long[#long + 1] = field end
end
local key = 12
for _, list in ipairs(plan.lists) do
    key = key + 1
    append(KEYS[key], list[1], list[2], ARGV[9 + list[3]])
end
for _, counted in ipairs(plan.counts) do
    key = key + 1
    for field, count in pairs(counted) do redis.call('HINCRBY', KEYS[key], field, count) end
end
for _, bucket in ipairs(plan.buckets) do redis.call('ZADD', KEYS[8], bucket, bucket) end
-- The first row is not known of a monitor whose rows came before its time was stored.
if plan.first then
    local first = tonumber(redis.call('HGET', KEYS[6], 'first') or nil)
    if not first and redis.call('HEXISTS', KEYS[7], 'predictions') == 0 then first = math.huge end
    if first and plan.first < first then
        redis.call('HSET', KEYS[6], 'first', string.format('%.3f', plan.first))
    end
end
for field, count in pairs(plan.totals) do redis.call('HINCRBY', KEYS[7], field, count) end
local closed = 0
if plan.rows then
    local open = redis.call('HGET', KEYS[6], 'row') or '0'
    for _, list in ipairs(plan.rows[3]) do append(list[2] .. open, list[1], open, ARGV[9 + list[3]]) end
    if redis.call('HINCRBY', KEYS[11], open, plan.rows[1]) >= plan.rows[2] then
        closed = redis.call('HINCRBY', KEYS[6], 'row', 1)
    end
end
return {'done', long, closed}
