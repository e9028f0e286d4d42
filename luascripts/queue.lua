-- queue.lua: the calls that wait for an account, in order. The reasoning is in package engine, queue.go.
--
-- KEYS   of an account that has a queue:
--        queue: a sorted set, member = id, score = when it was first requested (µs since the epoch), or of fair shares its start tag
--        waits: a sorted set, member = id, score = until when it is believed to be alive (µs since the epoch)
--        flows: of fair shares: a sorted set, member = flow, score = the tag where its last call ends; member 0 has the start
--        tag of the call that was served last, and member -1 the length of the shortest that came, negative
-- TTL    of all: longer than a queued call is believed to be alive without a poll

local queue, changes = {}, {}

-- kept is how long a queue's keys live after a write, in µs.
local kept = 6000000

-- say records a change to publish.
function queue.say(kind, n, name)
  changes[#changes + 1] = string.format('%d %.0f %s', kind, n, name)
end

-- publish sends the recorded changes to the listeners. A failure to publish is ignored: then sleeping calls receive nothing.
function queue.publish(up, now)
  if #changes == 0 then return end
  redis.pcall('PUBLISH', up.key .. '/pauses', string.format('%.0f', now) .. '\n' .. table.concat(changes, '\n'))
end

-- keep sets the TTLs of a queue that was written: once, at the end of a run, because entries may have left until then.
function queue.keep(o)
  if not o.written then return end
  local px = lasting(kept)
  redis.call('PEXPIRE', o.queue, px)
  redis.call('PEXPIRE', o.waits, px)
  if o.flows then redis.call('PEXPIRE', o.flows, px) end
end

-- isempty reports whether this run has found the queue empty. Few credentials of a large pool have a queue: a call finds the others, and
-- then reads no more of their queues.
local function isempty(o)
  if o.empty == nil then o.empty = redis.call('EXISTS', o.queue) == 0 end
  return o.empty
end

-- tidy forgets the flows when no call waits.
local function tidy(o)
  if o.flows and redis.call('EXISTS', o.queue) == 0 then redis.call('UNLINK', o.flows) end
end

-- purge drops calls that are presumed dead, very many in several runs, and reports whether there were any.
function queue.purge(o, now)
  if isempty(o) then return false end
  local dead = redis.call('ZRANGEBYSCORE', o.waits, '-inf', now, 'LIMIT', 0, C.MaxSwept)
  for i = 1, #dead do
    redis.call('ZREM', o.queue, dead[i])
    redis.call('ZREM', o.waits, dead[i])
  end
  if #dead > 0 then tidy(o) end
  return #dead > 0
end

local function score(key, member)
  local v = redis.call('ZSCORE', key, member)
  return v and number(v, key)
end

-- position returns how many are before a call in the queue, and its score.
function queue.position(o, c, now)
  if not o.flows and isempty(o) then return 0, c.since > 0 and c.since or now end
  local at = score(o.queue, c.id)
  if at then return redis.call('ZRANK', o.queue, c.id), at end
  if o.flows then
    at = math.max(score(o.flows, 0) or 0, score(o.flows, c.flow) or 0)
    at = at + math.min(C.TagUnit - 1, redis.call('ZCOUNT', o.queue, at, at + C.TagUnit - 1))
  elseif c.since > 0 then -- calls of one request came at the same instant
    local before, most = redis.call('ZCOUNT', o.queue, '-inf', string.format('(%.0f', c.since)), redis.call('ZCOUNT', o.queue, '-inf', c.since)
    while before < most do
      local middle = (before + most - (before + most) % 2) / 2
      if redis.call('ZRANGE', o.queue, middle, middle)[1] < c.id then before = middle + 1 else most = middle end
    end
    return before, c.since
  else
    at = now
    local last = redis.call('ZRANGE', o.queue, -1, -1, 'WITHSCORES')
    if last[2] then at = math.max(at, number(last[2], o.queue) + 1) end
  end
  return redis.call('ZCOUNT', o.queue, '-inf', at), at
end

-- lengthof returns how long a call of weight 1 is in virtual time.
local function lengthof(o, cost)
  if not o.t then return C.TagStep end
  if cost < 0 then return -lengthof(o, -cost) end
  return math.min(math.min(cost * o.t, C.MaxDebt), C.MaxTagged) * C.TagMicro
end

-- owedof returns how much longer a call counts for what it owes. For permits, it is how long the call counts.
local function owedof(o, owed)
  if not owed or owed == 0 then return 0 end
  return o.t and lengthof(o, owed) or math.max(0, math.min(owed, C.MaxTagged)) * C.TagHeld - C.TagStep
end

-- turn returns whether a call of fair shares has its turn within that time, and how long it need not poll because of those before it.
function queue.turn(o, c, rank, at, within)
  if rank == 0 then return true, 0 end
  local least, virtual = -redis.call('ZSCORE', o.flows, -1), score(o.flows, 0) or 0
  local first = number(redis.call('ZRANGE', o.queue, 0, 0, 'WITHSCORES')[2], o.queue)
  local function micros(tags) return (tags - tags % C.TagMicro) / C.TagMicro end
  local few = math.min(rank * micros(least), C.MaxDebt)
  local ahead = math.max(math.min(micros(at - virtual) * c.weight, rank * C.Near), (few - few % 2) / 2)
  return few <= within and micros(at - first) * c.weight <= within, ahead
end

-- step returns by how much a call advances the tags of its flow.
local function step(o, cost, owed, weight)
  local s = math.max(0, lengthof(o, cost) + owedof(o, owed))
  weight = math.max(1, weight)
  s = (s - s % weight) / weight
  return math.max(C.TagUnit, s - s % C.TagUnit)
end

-- advance records where the flow's next call begins, and the length of the shortest call so far.
local function advance(o, c, at, i)
  local cost = c.costof(i)
  redis.call('ZADD', o.flows, at - at % C.TagUnit + step(o, cost, c.owed[o], c.weight), c.flow)
  redis.call('ZADD', o.flows, 'GT', -lengthof(o, cost), -1)
  local own = score(o.flows, 0) and 2 or 1
  if redis.call('ZCARD', o.flows) - own > C.MaxFlows then
    redis.call('ZREMRANGEBYRANK', o.flows, own, own)
  end
end

-- join puts a call in the queue, or keeps it there.
function queue.join(o, c, at, till, i)
  if redis.call('ZADD', o.queue, 'NX', at, c.id) == 1 and o.flows then advance(o, c, at, i) end
  redis.call('ZADD', o.waits, till, c.id)
  o.written, o.empty = true, false
end

-- remove takes a call out of the queue, and reports whether it was there.
function queue.remove(o, id)
  if isempty(o) then return false end
  if redis.call('ZREM', o.queue, id) == 0 then return false end
  redis.call('ZREM', o.waits, id)
  tidy(o)
  return true
end

-- leave is remove for a call that has not got what it was queued for: its flow gets back what it counted. Flow 0 counts nothing.
function queue.leave(o, id, flow, weight, cost, owed)
  local was = queue.remove(o, id)
  local ends = was and flow ~= 0 and o.flows and score(o.flows, flow)
  if ends then redis.call('ZADD', o.flows, math.max(0, ends - step(o, cost, owed, weight)), flow) end
  return was
end

-- served records in a fair queue that a call was granted; inturn means that the queue has come so far.
function queue.served(o, c, at, inturn, i)
  local first = redis.call('ZRANGE', o.queue, 0, 0, 'WITHSCORES')
  if not first[1] then return end
  if not score(o.queue, c.id) then advance(o, c, at, i) end
  if first[1] ~= c.id then at = math.min(at, number(first[2], o.queue)) end -- it went within reach before its turn
  at = at - at % C.TagUnit
  if inturn and at > (score(o.flows, 0) or 0) then
    redis.call('ZREMRANGEBYSCORE', o.flows, 0, at)
    redis.call('ZADD', o.flows, at, 0)
  end
  o.written = true
end

-- isfirst reports whether a call is the first in the queue.
function queue.isfirst(o, id) return redis.call('ZRANGE', o.queue, 0, 0)[1] == id end

-- call wakes the queued calls whose turn has come, at least the given number, except one call: they poll within lives.
function queue.call(o, now, but, least, lives)
  local n = math.min(math.max(o.run.free and o.run.free(o, now) or 1, least or 0), C.MostCalled)
  if n <= 0 then return end
  local first = redis.call('ZRANGE', o.queue, 0, n - 1)
  for i = 1, #first do
    if first[i] ~= but then
      redis.call('ZADD', o.waits, 'LT', now + (lives or C.CalledLives), first[i])
      queue.say(C.ChangeCalled, tonumber(first[i]), o.key)
    end
  end
end

function queue.length(o, now)
  return redis.call('ZCOUNT', o.waits, '(' .. string.format('%.0f', now), '+inf')
end

return queue
