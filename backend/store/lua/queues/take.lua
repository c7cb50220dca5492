-- KEYS: fronts, work, workers, tenants of workers, API keys.
-- ARGV: the worker; groups of queues separated by ``|``, of which the first with a message counts, and queues by
-- commas; all its queues; prefix of queues and of wakes; the parts of a key of a line, and of taken messages, around
-- the tenant.
local workers, tenants, keys = unpack(KEYS, 3)
local me, groups, mine, queues, wakes = unpack(ARGV, 1, 5)
local function pairs_of(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end
redis.call('HDEL', tenants, me)
redis.call('HSETNX', workers, me, mine .. ' 0')
local barred = {}
if redis.call('HLEN', keys) > 0 then
  local all, runs = pairs_of(workers), pairs_of(tenants)
  for name in string.gmatch(mine, '[^,]+') do
    local is_free, busy = false, {}
    for worker, value in pairs(all) do
      local served = ',' .. string.match(value, '^%S*') .. ','
      if worker ~= me and string.find(served, ',' .. name .. ',', 1, true) then
        if runs[worker] then busy[runs[worker]] = true else is_free = true end
      end
    end
    if not is_free then
      for tenant in pairs(busy) do barred[tenant] = true end
    end
  end
end
for group in string.gmatch(groups, '[^|]+') do
  local best
  for name in string.gmatch(group, '[^,]+') do
    for _, id in ipairs(redis.call('LRANGE', queues .. name, 0, -1)) do
      local tenant, seconds, turn = unpack(redis.call('HMGET', MESSAGE .. id, 'tenant', 'seconds', 'turn'))
      local rank = (turn or 0) + (seconds or 0)
      if not (tenant and barred[tenant]) and (not best or rank < best.rank) then
        best = {id = id, name = name, rank = rank, tenant = tenant, seconds = seconds or 0}
      end
    end
  end
  if best then
    local queue = queues .. best.name
    redis.call('LREM', queue, 1, best.id)
    redis.call('INCRBYFLOAT', work, best.seconds)
    if best.tenant then
      local line, taken = ARGV[6] .. best.tenant .. ARGV[7] .. best.name, ARGV[6] .. best.tenant .. ARGV[8] .. best.name
      redis.call('HSET', tenants, me, best.tenant)
      redis.call('ZREM', line, best.id)
      redis.call('SADD', taken, best.id)
      settle(best.tenant .. ':' .. best.name, line, taken, queue, wakes .. best.name)
    end
    for name in string.gmatch(mine, '[^,]+') do
      if redis.call('LLEN', queues .. name) > 0 then rouse(wakes .. name) end
    end
    return {best.name, best.id}
  end
end
return false
