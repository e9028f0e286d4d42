-- index.lua: the processes' reports about an upstream. It writes nothing.
--
-- KEYS   upstream: its key (see account.lua)
--        index: see describe.lua
--        alive: the members, see heartbeat.lua
--        came: their order of arrival, see heartbeat.lua
-- ARGV   none
-- Reply  now (µs since the epoch), the number of members, their ids, the first of all ids and their arrivals in turn (µs since the
--        epoch), and the fields and values of the index in turn
-- TTL    none: nothing is written

local upstream, index, alive, came = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local most = 1024
local _, now = readupstream(upstream, redis.call('GET', upstream))
return {
  now,
  redis.call('ZCOUNT', alive, now, '+inf'),
  redis.call('ZRANGEBYSCORE', alive, now, '+inf', 'LIMIT', 0, most),
  redis.call('ZRANGE', came, 0, most - 1, 'WITHSCORES'),
  redis.call('HGETALL', index),
}
