-- Ends a script with 0 unless the task belongs to the owner. ARGV: task, owner.
if redis.call('HGET', owners, ARGV[1]) ~= ARGV[2] then return 0 end
