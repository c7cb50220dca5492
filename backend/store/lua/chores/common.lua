-- Functions of all scripts of chores, which begin with this file.
-- KEYS: due, held, owners, tries, counts, placed, lines, clock, API keys, supervisors.
local due, held, owners, tries, counts, placed, lines, clock = unpack(KEYS, 1, 8)
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local function group(field)
  return string.match(field, '^(deliver:.*:%x+)/.*/') or string.match(field, '^(.*):')
end
local function line(of) return lines .. ':' .. of end
local function ask(field, after) redis.call('ZADD', due, 'LT', now + after, field) end
local function leave(field)
  redis.call('ZREM', held, field)
  redis.call('HDEL', owners, field)
end
local function count(field, outcome)
  redis.call('HINCRBY', counts, string.match(field, '^[^:]+') .. ':' .. outcome, 1)
end
local function fail(field, first, longest, jitter)
  local times = tonumber(redis.call('HGET', tries, field) or '1')
  leave(field)
  count(field, 'failed')
  ask(field, math.min(tonumber(longest), first * 2 ^ math.min(times - 1, 30)) * jitter)
end
