-- index.lua: what processes have said of an upstream. It writes nothing.
--
-- KEYS   the upstream's key, the index (see describe.lua), who is there, in which order they came (see beat.lua)
-- ARGV   none
-- Reply  now (µs since the epoch), how many are there, the ids of those that are there, the first of all ids and when they came
--        in turn (µs since the epoch), and the fields and values of the index in turn
-- TTL    none: nothing is written

local most = 1024
local up, now = readupstream(KEYS[1], redis.call('GET', KEYS[1]))
return {
  now,
  redis.call('ZCOUNT', KEYS[3], now, '+inf'),
  redis.call('ZRANGEBYSCORE', KEYS[3], now, '+inf', 'LIMIT', 0, most),
  redis.call('ZRANGE', KEYS[4], 0, most - 1, 'WITHSCORES'),
  redis.call('HGETALL', KEYS[2]),
}
