-- KEYS: batch, its holds. ARGV: job, field of the previous time of expiry, time of expiry that replaces it or ''.
if redis.call('EXISTS', KEYS[1]) == 0 then return end
redis.call('SADD', KEYS[2], ARGV[1])
local expires = tonumber(ARGV[3]) or redis.call('PEXPIRETIME', KEYS[1])
if expires > 0 then
    redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', expires))
    redis.call('PERSIST', KEYS[1])
end
