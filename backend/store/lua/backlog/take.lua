-- KEYS: the job, the tenant's unfinished jobs and reserved places, those of all tenants.
-- ARGV: tenant:job, job, the limits of the tenant and of all, patience, near.
-- Returns by how many places the limits of the tenant and of all would be exceeded.
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, 0} end
local now = tonumber(redis.call('TIME')[1])
local over, near = {0, 0}, false
for i = 1, 2 do
    local unended, taken = KEYS[2 * i], KEYS[2 * i + 1]
    redis.call('ZREMRANGEBYSCORE', taken, '-inf', now - ARGV[5])
    redis.call('ZREM', taken, ARGV[3 - i])
    local bound = tonumber(ARGV[2 + i])
    local more = redis.call('SCARD', unended) + redis.call('ZCARD', taken) + 1
    if bound > 0 and more > bound then over[i] = more - bound end
    near = near or (bound > 0 and more + ARGV[6] > bound)
end
if near and over[1] == 0 and over[2] == 0 then
    redis.call('ZADD', KEYS[3], now, ARGV[2])
    redis.call('ZADD', KEYS[5], now, ARGV[1])
end
return over
