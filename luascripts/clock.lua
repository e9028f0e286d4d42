-- clock.lua: store time.
--
-- Store time is integer microseconds since the Unix epoch, from the server's TIME: never a client's clock.
-- All numbers in these scripts are integers below 2^53, which a Lua number holds exactly. They are passed to
-- redis.call or returned as they are; tostring, which keeps 14 digits, is never used on them.

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- ttl turns a duration in microseconds into the milliseconds of PX. It rounds up, and adds two because the server
-- counts a TTL from a millisecond that began before now: a key must outlive its last effect.
local function ttl(us)
  us = us + 999
  return (us - us % 1000) / 1000 + 2
end
