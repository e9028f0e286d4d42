-- heed.lua: what a rate does with reports of an upstream, an operator or another process, and its status. The reasoning is in
-- package engine, gcra_settle.go and gcra_heed.go.

-- pack moves from..till, the part of its charge from..to that a gone call keeps, into an earlier gap, and returns where the free part of
-- the charge begins then.
local function pack(o, now, from, to, till)
  if till <= from or to > o.tat then return till end
  local first = list.find(o.gaps, now + 1)
  for i = first, math.min(list.size(o.gaps), first + C.MaxLooks - 1) do
    local a, b = list.pair(o.gaps, i)
    if b > from then break end
    local rest = math.max(a, now) + till - from
    if b == from or b >= rest then
      local left = b ~= from and b - rest >= o.t and list.of(rest, b) or ''
      o.gaps, o.dirty = list.splice(o.gaps, i, i + 1, left), true
      return b == from and rest or from
    end
  end
  return till
end

function gcra.settle(o, now, from, to, cost, actual, made)
  if before(o, made, now) then return end
  if actual <= cost then
    local rest = math.max(from, to - o.t * (cost - actual))
    if o.most then
      rest = starts.last(o, from, to, cost - actual) or rest
    elseif made > 0 and o.pace == o.t then
      rest = pack(o, now, from, to, rest)
    end
    giveback(o, now, from, rest, to)
    return
  end
  starts.keep(o)
  local tail = math.max(o.tat, now)
  o.tat = tail + math.min((actual - cost) * o.step, C.MaxDebt)
  if o.most then starts.debt(o, now, actual - cost, tail) end
  forget(o, now)
end

-- claim charges from..to, which a process remembers. It returns whether any future part of it was free.
function gcra.claim(o, now, from, to)
  forget(o, now)
  starts.keep(o)
  local begin, first = from, nil
  from = math.max(from, now)
  if from >= to then
    if o.most then starts.claim(o, now, begin, to, false) end
    forget(o, now)
    return false
  end
  first = list.find(o.gaps, from + 1)
  local last, keep = first, ''
  while last <= list.size(o.gaps) do
    local a, b = list.pair(o.gaps, last)
    if a >= to then break end
    if from > now and from - a >= o.t then keep = list.of(a, from) end
    if b - to >= o.t then keep = keep .. list.of(to, b) end
    last = last + 1
  end
  o.gaps = list.splice(o.gaps, first, last, keep)
  local did = last > first or to > o.tat
  if o.most then starts.claim(o, now, begin, to, did) end
  if to > o.tat then
    local left = math.max(o.tat, now)
    if from - left >= o.t then o.gaps = o.gaps .. list.of(left, from) end
    o.tat = to
  end
  forget(o, now)
  return did
end

function gcra.slow(o, now, at)
  forget(o, now)
  local did = slower(o, now, at)
  pace(o, now)
  return did
end

function gcra.stray(o, now, at, within, step, most)
  forget(o, now)
  local alone, slower = fallback(o, now, at, within)
  if not alone then alone = stray(o, now, at, within, step, most) end
  pace(o, now)
  return alone, slower
end

function gcra.learn(o, now, value, till)
  forget(o, now)
  local was = o.pace
  o.learned, o.till = value, till
  if value <= o.t or till <= now then o.learned, o.till = 0, 0 end
  pace(o, now)
  return o.pace ~= was
end

function gcra.release(...) queues().leave(...) end

function gcra.renew() end

function gcra.reset(o, now)
  reset(o, now, o.tat)
  if o.most then redis.call('UNLINK', o.starts) end
  if o.queue then redis.call('UNLINK', o.queue, o.waits) end
  if o.flows then redis.call('UNLINK', o.flows) end
  local mark, remembers = o.mark, o.remembers
  for i = 1, #names do o[names[i]] = 0 end
  o.mark, o.remembers, o.gaps, o.dirty = mark, remembers, '', true
  pace(o, now)
end

-- taken returns how much of the time to come is taken.
local function taken(o, now)
  local left = o.tat - now
  for i = list.find(o.gaps, now + 1), list.size(o.gaps) do
    local a, b = list.pair(o.gaps, i)
    left = left - b + math.max(a, now)
  end
  return math.max(0, left)
end

function gcra.holds(o, now) return { taken(o, now) } end

-- spent returns the calls that the rate has not recovered, in the form of a window's counts, as if all had gone now.
function gcra.spent(o, now)
  local up = taken(o, now) + o.t - 1
  return { now }, { (up - up % o.t) / o.t }
end

-- begin takes the calls that a window counts from an account, at most its burst.
function gcra.begin(o, from, _, n, now)
  local sum = 0
  for i = 1, #n do sum = sum + n[i] end
  if sum > 0 then o.tat = now + math.min(math.min(sum, o.limit) * o.t, C.MaxDebt) end
  o.margin, o.raised, o.fades = from.margin, from.raised, from.fades
  pace(o, now)
end

-- full returns when the whole burst may go again.
local function full(o, now)
  local at = math.max(now, o.tat)
  if now < o.till and o.learned > o.t then at = math.max(at, o.till) end
  if shareat(o, now) < C.WholeShare then
    local missing = (C.WholeShare - o.share) * o.recovery + C.WholeShare - 1
    at = math.max(at, o.since + (missing - missing % C.WholeShare) / C.WholeShare)
  end
  if not o.most then return at end
  -- Of the last window's starts, the burst leaves some as they are if it is smaller than what a window holds.
  if starts.whole(o) then
    local last = -1 - math.max(0, o.most - o.limit)
    local found = redis.call('ZRANGE', o.starts, last, last, 'WITHSCORES')
    if found[2] then at = math.max(at, number(found[2], o.starts) + o.wide) end
  end
  return math.max(at, starts.since(o))
end

function gcra.inspect(o, now)
  local reach, remaining, free = now + o.tau, 0, 0
  local function count(a, b)
    local from = a > now and a or now
    if from <= reach and b - from >= o.step then
      remaining = remaining + math.min(math.floor((b - from) / o.step), math.floor((reach - from) / o.step) + 1)
    end
    if b < math.huge then free = free + math.max(0, b - math.max(from, reach)) end
  end
  for i = list.find(o.gaps, now + 1), list.size(o.gaps) do count(list.pair(o.gaps, i)) end
  count(o.tat, math.huge)
  local backlog, nextat = 0, gcra.earliest(o, now, now, 1, 0).at
  if o.tat > reach then backlog = math.floor(math.max(0, o.tat - reach - free - 1) / o.t) end
  if o.most then
    remaining = math.min(math.max(1, starts.free(o, now)), math.max(1, remaining))
    if now < starts.since(o) then remaining = 1 end
    if nextat > now then remaining = 0 end
  end
  return remaining, nextat, backlog, 0, o.pace, o.queue and queues().length(o, now) or 0, marginat(o, now), full(o, now)
end

return gcra
