-- KEYS: batch, its holds. ARGV: job, field of the previous time of expiry.
-- A time of expiry in the past deletes the key immediately.
if redis.call('SREM', KEYS[2], ARGV[1]) == 0 or redis.call('EXISTS', KEYS[2]) == 1 then return end
local expires = redis.call('HGET', KEYS[1], ARGV[2])
if expires then
    redis.call('HDEL', KEYS[1], ARGV[2])
    redis.call('PEXPIREAT', KEYS[1], expires)
end
