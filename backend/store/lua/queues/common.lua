-- Functions of all scripts of lines, which begin with this file. ``settle`` makes the first message of a line stand in
-- its queue; one that goes ahead of another takes over its turn.
-- KEYS: fronts, work, and those of one line.
local fronts, work, line, taken, queue, wake = unpack(KEYS)
local MESSAGE = 'rq:job:'
local function rouse(wake)
  if redis.call('EXISTS', wake) == 0 then redis.call('RPUSH', wake, '') end
end
local function settle(of, line, taken, queue, wake)
  local first, front = redis.call('ZRANGE', line, 0, 0)[1], redis.call('HGET', fronts, of)
  local stands = front and redis.call('LPOS', queue, front)
  if not first then
    if redis.call('SCARD', taken) == 0 then redis.call('HDEL', fronts, of) else redis.call('HSET', fronts, of, '') end
    if stands then redis.call('LREM', queue, 1, front) end
    return
  end
  redis.call('HSET', fronts, of, first)
  if first == front and stands then return end
  if stands then
    redis.call('HSET', MESSAGE .. first, 'turn', redis.call('HGET', MESSAGE .. front, 'turn') or 0)
    redis.call('LINSERT', queue, 'BEFORE', front, first)
    redis.call('LREM', queue, 1, front)
  elseif not redis.call('LPOS', queue, first) then
    redis.call('HSET', MESSAGE .. first, 'turn', redis.call('GET', work) or 0)
    redis.call('RPUSH', queue, first)
  end
  rouse(wake)
end
