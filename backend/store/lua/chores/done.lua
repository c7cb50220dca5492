-- ARGV, besides: seconds until the task runs again, or empty.
leave(ARGV[1])
count(ARGV[1], 'done')
redis.call('HDEL', tries, ARGV[1])
if ARGV[3] ~= '' then ask(ARGV[1], ARGV[3]) end
return 1
