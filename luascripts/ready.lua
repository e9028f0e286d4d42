-- ready.lua: try every command that the other scripts run, to see whether this user may run it.
--
-- KEYS   scratch: a key of the upstream that nobody uses
-- ARGV   channel: on which the upstream's news is published
--        message: one that means nothing to any subscriber
-- Reply  of each command that failed, its name and its error; nothing if none did
-- TTL    none: the run deletes all that it writes, and writes nothing that it could not delete

local scratch = KEYS[1]
local channel, message = ARGV[1], ARGV[2]

local failed = {}
local function try(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1], failed[#failed + 2] = command, reply.err
    return false
  end
  return true
end

-- each tries commands with the same arguments.
local function each(commands, ...)
  for command in string.gmatch(commands, '%u+') do try(command, ...) end
end

try('SET', scratch, 0, 'XX') -- first: a server whose memory is full refuses only the first write of a script
local deletes = try('DEL', scratch)
try('TIME')
each('UNLINK TYPE EXISTS GET MGET PTTL ZCARD HGETALL HLEN', scratch)
each('ZSCORE ZRANK HGET HEXISTS', scratch, 0)
each('ZCOUNT ZRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE', scratch, 0, 0)
try('PUBLISH', channel, message)
try('PEXPIRE', scratch, 1)
try('ZADD', scratch, 'XX', 0, 0)
each('ZREM HDEL', scratch, 0)
each('ZREMRANGEBYSCORE ZREMRANGEBYRANK', scratch, 0, 0)
if deletes then
  try('HSET', scratch, 0, 0)
  redis.pcall('DEL', scratch)
end
return failed
