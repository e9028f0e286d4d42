-- concurrency.lua: calls that run at once. The reasoning is in package engine, concurrency.go.
--
-- KEYS   key: of the account: a string, "learned until", where
--          learned  the upstream lets only so many run before until; 0 for none
--        leases: a sorted set, member = id, score = until when it holds (µs since the epoch)
--        queue: as in queue.lua
--        waits: as in queue.lua
--        begun: when calls began, if they count only when they have run for some time: a sorted set, member = id, score = when
--        flows: of fair shares, as in queue.lua
-- ARGV   limit: how many may run
--        length: of a lease (µs)
--        after: for how long a call has run when it counts (µs)
--        fair: 1 for fair shares, else 0
-- TTL    the string: until until is past; the leases: until the last one has run out

local concurrency = { kind = 'leases' }

function concurrency.parse(_, account)
  local o = {
    key = account, leases = key(), queue = key(), waits = key(), begun = key(), limit = arg(), length = arg(), after = arg(), kind = 'leases',
    unit = 'p ', run = concurrency, learned = 0, till = 0, dirty = false,
  }
  local fair = arg()
  if fair == 1 then
    o.flows = key()
  elseif fair ~= 0 then
    unknown('queue', fair)
  end
  return o
end

function concurrency.loadstring(o, v)
  if not v then return end
  local learned, till = string.match(v, '^(%d+) (%d+)$')
  o.learned, o.till = number(learned, o.key), number(till, o.key)
end

function concurrency.room() return 0 end

function concurrency.horizon() return math.huge end

function concurrency.earliest(_, _, e) return { at = e } end

function concurrency.commit() return 0, 0, C.UnboundSlack end

-- most returns how many calls may run.
local function most(o, now)
  if now < o.till and o.learned < o.limit then return o.learned end
  return o.limit
end
concurrency.most = most

-- free returns how many more calls may begin now. Where only long ones count, and there are not too many, it is any number.
function concurrency.free(o, now)
  if o.after == 0 then return most(o, now) - redis.call('ZCARD', o.leases) end
  -- Calls whose start is unknown count.
  local short = redis.call('ZCOUNT', o.begun, '(' .. string.format('%.0f', now - o.after), '+inf')
  local free = most(o, now) - redis.call('ZCARD', o.leases) + short
  return free > 0 and math.huge or free
end

-- purge drops expired leases and dead queued calls, and reports whether there were any.
function concurrency.purge(o, now)
  local dead = queues().purge(o, now)
  local out = redis.call('ZRANGEBYSCORE', o.leases, '-inf', now)
  for i = 1, #out do concurrency.over(o, out[i]) end
  return dead or #out > 0
end

-- over drops a lease.
function concurrency.over(o, id)
  redis.call('ZREM', o.begun, id)
  redis.call('ZREM', o.leases, id)
end

function concurrency.has(o, id) return redis.call('ZSCORE', o.leases, id) end

-- expiry returns when the nth lease runs out, from 0.
function concurrency.expiry(o, n)
  local found = redis.call('ZRANGE', o.leases, n, n, 'WITHSCORES')
  return found[2] and number(found[2], o.leases) or math.huge
end

function concurrency.renew(o, now, id, began)
  local px = lasting(o.length)
  redis.call('ZADD', o.leases, now + o.length, id)
  px = math.max(px, redis.call('PTTL', o.leases))
  redis.call('PEXPIRE', o.leases, px)
  if o.after > 0 then
    redis.call('ZADD', o.begun, 'NX', began, id)
    redis.call('PEXPIRE', o.begun, px)
  end
end

function concurrency.release(o, id, ...)
  concurrency.over(o, id)
  queues().leave(o, id, ...)
end

function concurrency.cancel(o, _, id, has)
  if permitted(has) then concurrency.release(o, id, 0) end
end

for _, name in ipairs({ 'settle', 'claim', 'slow', 'stray' }) do concurrency[name] = function() end end

function concurrency.learn(o, now, value, till)
  local before = most(o, now)
  o.learned, o.till, o.dirty = math.max(1, value), till, true
  if value <= 0 or value >= o.limit or till <= now then o.learned, o.till = 0, 0 end
  return most(o, now) ~= before
end

function concurrency.reset(o)
  redis.call('UNLINK', o.leases, o.queue, o.waits, o.begun)
  if o.flows then redis.call('UNLINK', o.flows) end
  o.learned, o.till, o.dirty = 0, 0, true
end

function concurrency.write(o, now)
  if o.dirty then save(o, string.format('%.0f %.0f', o.learned, o.till), o.till, now) end
end

function concurrency.holds(o, now)
  local out = redis.call('ZCOUNT', o.leases, '(' .. string.format('%.0f', now), '+inf')
  if out == 0 then return { 0, 0 } end
  return { out, number(redis.call('ZRANGE', o.leases, -1, -1, 'WITHSCORES')[2], o.leases) }
end

function concurrency.inspect(o, now)
  local live = redis.call('ZRANGEBYSCORE', o.leases, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES')
  local running = #live / 2
  if o.after > 0 then
    running = 0
    for i = 1, #live, 2 do
      local began = redis.call('ZSCORE', o.begun, live[i])
      if not began or tonumber(began) <= now - o.after then running = running + 1 end
    end
  end
  local pace, waiting, nextat = most(o, now), queues().length(o, now), now
  local remaining = math.max(0, pace - running)
  if (remaining == 0 or waiting > 0) and live[2] then nextat = number(live[2], o.leases) end
  local full = math.max(now, pace < o.limit and o.till or 0)
  if #live > 0 then full = math.max(full, number(live[#live], o.leases)) end
  return remaining, nextat, 0, 0, pace, waiting, 0, full
end

return concurrency
