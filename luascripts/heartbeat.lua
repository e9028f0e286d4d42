-- heartbeat.lua: a process reports that it is there, and learns how many are.
--
-- KEYS   upstream: its key (see account.lua)
--        then the keys of the accounts that the process reads, as in reserve.lua
--        alive: who is there: a sorted set, member = id, score = until when that holds (µs since the epoch)
--        came: in which order they came: a sorted set, member = id, score = when (µs since the epoch)
-- ARGV   accounts: how many follow; for each
--          algorithm
--          its parameters
--        id: of the process
--        lives: for how long it is there (µs; 0: it leaves)
--        known: the latest store time that it received (0: none)
--        keep: for how long an account of the upstream can matter (µs)
--        barrier: for how long processes that were without the server wait for each other (µs; 0: this one was not without it)
--        holds: until when the process is there, by the last heartbeat that was answered (µs since the epoch; 0: there was none)
--        began: when the epoch began in which that was (µs since the epoch)
-- Reply  now (µs since the epoch), the epoch in two numbers (see account.lua), how many are there, how many of them came before this
--        one, until when they wait (µs since the epoch), then for each account how many numbers follow, and what it holds:
--          a rate        how much of the time to come is taken (µs), as far as a few dozen gaps reach
--          a window      for each bucket that still counts: when it begins (µs since the epoch), and how many calls it holds
--          concurrency   how many permits are out, and until when the last lease holds (µs since the epoch)
--        or nothing after the first six numbers, if a calendar's table does not hold now
-- TTL    the upstream's key: for as long as its accounts can matter; the sets: until the last member has gone
--
-- Store time never goes back by more than a second, as far as those know who are there: if the server's clock stepped back, because of a
-- failover to a machine whose clock is late, the upstream's key holds by how much.
--
-- A new epoch is published on the channel of report.lua, as "5 0 key": a process whose calls wait and that knows the epoch before must
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
