-- KEYS: journal, state. ARGV: the field of the last serial number, the number to keep, then documents, oldest first.
for i = 3, #ARGV do
    local serial = redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
    redis.call('ZADD', KEYS[1], serial, serial .. ' ' .. ARGV[i])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[2])
