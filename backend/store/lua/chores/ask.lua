-- ARGV: task, seconds from now.
ask(ARGV[1], ARGV[2])
