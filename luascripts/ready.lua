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

try('SET', scratch, 0, 'XX') -- first: a server whose memory is full refuses only the first write of a script
local deletes = try('DEL', scratch)
try('UNLINK', scratch)
try('TIME')
try('TYPE', scratch)
try('EXISTS', scratch)
try('GET', scratch)
try('MGET', scratch)
try('PTTL', scratch)
try('ZCARD', scratch)
try('ZCOUNT', scratch, 0, 0)
try('ZSCORE', scratch, 0)
try('ZRANK', scratch, 0)
try('ZRANGE', scratch, 0, 0)
try('ZRANGEBYSCORE', scratch, 0, 0)
try('ZREVRANGEBYSCORE', scratch, 0, 0)
try('HGET', scratch, 0)
try('HGETALL', scratch)
try('HEXISTS', scratch, 0)
try('HLEN', scratch)
try('PUBLISH', channel, message)
try('PEXPIRE', scratch, 1)
try('ZADD', scratch, 'XX', 0, 0)
try('ZREM', scratch, 0)
try('ZREMRANGEBYSCORE', scratch, 0, 0)
try('ZREMRANGEBYRANK', scratch, 0, 0)
try('HDEL', scratch, 0)
if deletes then
  try('HSET', scratch, 0, 0)
  redis.pcall('DEL', scratch)
end
return failed
