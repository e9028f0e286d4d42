-- heartbeat.lua: a process renews its membership, and learns the number of members.
--
-- KEYS   upstream: its key (see account.lua)
--        then the keys of the accounts that the process reads, as in reserve.lua
--        alive: the members: a sorted set, member = id, score = until when (µs since the epoch)
--        came: their order of arrival: a sorted set, member = id, score = when (µs since the epoch)
-- ARGV   accounts: how many follow; for each
--          algorithm
--          its parameters
--        id: of the process
--        lives: how long its membership lasts (µs; 0: it leaves)
--        known: the latest store time that it received (0: none)
--        keep: how long an account of the upstream can matter (µs)
--        barrier: how long processes that had lost the server wait for each other (µs; 0: this one had not)
--        holds: until when the membership lasts, by the last answered heartbeat (µs since the epoch; 0: there was none)
--        began: the start of the epoch at that time (µs since the epoch)
-- Reply  now (µs since the epoch), the epoch in two numbers (see account.lua), the number of members, how many of them came before this
--        one, until when they wait (µs since the epoch), then for each account how many numbers follow, and its contents:
--          a rate        how much of the time to come is taken (µs), as far as a few dozen gaps reach
--          a window      for each bucket that still counts: its begin (µs since the epoch), and its calls
--          concurrency   the permits that are out, and until when the last lease holds (µs since the epoch)
--        or nothing after the first six numbers, if a calendar's table does not hold now
-- TTL    the upstream's key: while its accounts can matter; the sets: until the last member has gone
--
-- Store time never goes back by more than a second while a member remembers it: if the server's clock stepped back, because of a
-- failover to a machine whose clock is late, the upstream's key holds by how much.
--
-- A new epoch is published on the channel of report.lua, as "5 0 key": a process that has waiting calls and knows the epoch before must
-- report its memory now, and not with its next heartbeat.

local entries, up, now = stack()
local alive, came, id = key(), key(), ARGV[nextarg]
nextarg = nextarg + 1
local lives, known, keep, barrier, holds, began = arg(), arg(), arg(), arg(), arg(), arg()

if now < known - C.MaxBackstep then
  up.shift = up.shift + known - now
  now, shifted = known, true
end
if holds > now and epochof(up) == began and tonumber(redis.call('ZSCORE', alive, id) or 0) < holds then
  up.epoch = '0' -- the server has lost what it knew: it was restarted from a snapshot, or a replica took over
end
if up.epoch == '0' then
  up.epoch = string.format('%.0f.0', now)
  redis.pcall('PUBLISH', up.key .. '/pauses', string.format('%.0f\n%d 0 %s', now, C.ChangeBegun, up.key))
end
if barrier > 0 and up.barrier <= now then up.barrier = now + barrier end
writeupstream(up, keep)

for _, gone in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', alive, gone)
  redis.call('ZREM', came, gone)
end
if lives > 0 then
  redis.call('ZADD', alive, now + lives, id)
  redis.call('ZADD', came, 'NX', now, id)
  local px = math.max(lasting(lives), redis.call('PTTL', alive))
  redis.call('PEXPIRE', alive, px)
  redis.call('PEXPIRE', came, px)
else
  redis.call('ZREM', alive, id)
  redis.call('ZREM', came, id)
end
local reply = { now, 0, 0, redis.call('ZCARD', alive), redis.call('ZRANK', came, id) or 0, up.barrier }
reply[2], reply[3] = epochof(up)
for i = 1, stale and 0 or #entries do
  local holds, size = entries[i].run.holds(entries[i], now), #reply
  reply[size + 1] = #holds
  for k = 1, #holds do reply[size + 1 + k] = holds[k] end
end
return reply
