-- Queues due tasks, and those whose worker or message was lost.
-- A lease without an owner belongs to a message; if the message is no longer in its queue, it is lost. A group of tasks
-- is a kind and a tenant, or a target of a tenant; it ``waits`` if a message of it is in the queue, or if its tasks, or
-- its tenant's, that run or are in the queue reach their bound. The line that has waited longest is first. If the clock
-- of the store was set back since the last time, all times are moved with it.
-- ARGV: seconds of a lease, maximum number of due tasks and of messages checked for loss, first and longest pause,
-- jitter, prefixes of queues, of messages and of the keys of queues, key of all queues, maximum number of deliveries to
-- a target and of a tenant, prefix of supervisors, then the fields of a message and their values.
local lease, most, most_lost, first, longest, jitter = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local ahead = tonumber(redis.call('GET', clock) or '0') - now
redis.call('SET', clock, string.format('%.6f', now))
if ahead > 1 then
  for _, key in ipairs({due, held}) do
    local members = redis.call('ZRANGE', key, 0, -1)
    for _, member in ipairs(members) do redis.call('ZINCRBY', key, -ahead, member) end
  end
end
local function message(field)
  return (string.gsub(field, '.', function(c) return string.format('%02x', string.byte(c)) end))
end
local function queue(field) return ARGV[7] .. string.match(field, '^[^:]+') end
local function push(field)
  local id, name = message(field), queue(field)
  redis.call('HSET', ARGV[8] .. id, 'origin', name, unpack(ARGV, 14))
  redis.call('SADD', ARGV[10], ARGV[9] .. name)
  redis.call('RPUSH', ARGV[9] .. name, id)
end
local function is_queued(field)
  return redis.call('ZSCORE', held, field) and redis.call('HEXISTS', owners, field) == 0
end
local keys, supervisors = unpack(KEYS, 9)
local running = 0
for _, id in ipairs(redis.call('SMEMBERS', supervisors)) do
  running = running + redis.call('EXISTS', ARGV[13] .. id)
end
local busy, bounds = {}, {target = tonumber(ARGV[11]), tenant = tonumber(ARGV[12])}
bounds.kind = redis.call('HLEN', keys) > 0 and math.max(1, running) or math.huge
local function tenant(of) return string.match(of, '^(deliver:.*):%x+$') end
local function add(of)
  busy[of] = (busy[of] or 0) + 1
  if tenant(of) then busy[tenant(of)] = (busy[tenant(of)] or 0) + 1 end
end
local function waits(of)
  if (busy[of] or 0) >= (tenant(of) and bounds.target or bounds.kind) then return true end
  if tenant(of) and (busy[tenant(of)] or 0) >= bounds.tenant then return true end
  local field = redis.call('HGET', placed, of)
  return field and is_queued(field)
end
local function place(of, field)
  push(field)
  redis.call('ZADD', held, now + lease, field)
  redis.call('HSET', placed, of, field)
  add(of)
end
for _, field in ipairs(redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, most_lost)) do
  if redis.call('HEXISTS', owners, field) == 1 then
    fail(field, first, longest, jitter)
  else
    if not redis.call('LPOS', ARGV[9] .. queue(field), message(field)) then push(field) end
    redis.call('ZADD', held, now + lease, field)
  end
end
for _, field in ipairs(redis.call('HKEYS', owners)) do add(group(field)) end
for _, field in ipairs(redis.call('HVALS', placed)) do
  if is_queued(field) then add(group(field)) end
end
local ready = {}
for _, of in ipairs(redis.call('SMEMBERS', lines)) do
  if not waits(of) then
    local since = redis.call('ZRANGE', line(of), 0, 0, 'WITHSCORES')[2]
    if since then table.insert(ready, {tonumber(since), of}) else redis.call('SREM', lines, of) end
  end
end
table.sort(ready, function(one, other) return one[1] < other[1] end)
for _, entry in ipairs(ready) do
  local of = entry[2]
  if not waits(of) then place(of, redis.call('ZPOPMIN', line(of))[1]) end
end
local looked = most + redis.call('HLEN', owners)
local found = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'WITHSCORES', 'LIMIT', 0, looked)
for i = 1, #found, 2 do
  local field, since = found[i], found[i + 1]
  if redis.call('HEXISTS', owners, field) == 0 then
    local of = group(field)
    if not is_queued(field) then
      if waits(of) then
        redis.call('ZADD', line(of), 'NX', since, field)
        redis.call('SADD', lines, of)
      else
        place(of, field)
      end
    end
    redis.call('ZREM', due, field)
  end
end
