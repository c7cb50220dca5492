-- ARGV, besides: first and longest pause, jitter.
fail(ARGV[1], ARGV[3], ARGV[4], ARGV[5])
return 1
