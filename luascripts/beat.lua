-- beat.lua: a process says that it is there, and learns how many are.
--
-- KEYS   the upstream's key (see account.lua)
--        who is there: a sorted set, member = id, score = until when that holds (µs since the epoch)
-- ARGV   id, for how long it is there (µs; 0: it leaves), the latest store time that it was told (0: none),
--        for how long an account of the upstream can matter (µs)
-- Reply  now (µs since the epoch), the era, how many are there
-- TTL    the upstream's key: for as long as its accounts can matter; the set: until the last member has gone
--
-- Store time never goes back by more than a second, as far as those know who are there: if the server's clock stepped back,
-- because of a failover to a machine whose clock is late, the upstream's key says by how much.

local id = ARGV[1]
nextarg = 2
local lives, known, keep = arg(), arg(), arg()
local up, now = readupstream(KEYS[1], redis.call('GET', KEYS[1]))
if now < known - 1000000 then
  up.shift = up.shift + known - now
  now, shifted = known, true
end
if up.era == 0 then up.era = now - now % 1000 end
writeupstream(up, keep)

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if lives > 0 then
  redis.call('ZADD', KEYS[2], now + lives, id)
  redis.call('PEXPIRE', KEYS[2], math.max(lasting(lives), redis.call('PTTL', KEYS[2])))
else
  redis.call('ZREM', KEYS[2], id)
end
return { now, up.era, redis.call('ZCARD', KEYS[2]) }
