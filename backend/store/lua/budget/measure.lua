#!lua flags=no-writes,allow-oom
-- ARGV: cursor, number of keys. Returns the next cursor, then tenants and the bytes of their keys.
local found, bytes = redis.call('SCAN', ARGV[1], 'MATCH', 'calibrant:*', 'COUNT', ARGV[2]), {}
for _, key in ipairs(found[2]) do
    local tenant = string.match(key, '^calibrant:([^:]*):')
    if tenant then bytes[tenant] = (bytes[tenant] or 0) + (redis.call('MEMORY', 'USAGE', key) or 0) end
end
local answer = {found[1]}
for tenant, size in pairs(bytes) do
    answer[#answer + 1] = tenant
    answer[#answer + 1] = string.format('%.0f', size)
end
return answer
