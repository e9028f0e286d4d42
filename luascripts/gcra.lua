-- gcra.lua: the rate that remembers its gaps. The reasoning is in package engine, gcra.go.
--
-- KEYS   key: of the account: a string, "tat unlogged kept logtau learned till share since slowed mark remembers margin raised fades",
--        without trailing zeros, and then "|" and its gaps if it has some, where
--          tat      the tail of free virtual time begins here; 0 for none
--          unlogged the log of starts may lack calls before then
--          kept     the length of a window (µs), and
--          logtau   the tolerance (µs) of the limit whose log this is; 0 for none
--          learned  the emission interval that the upstream allows before till; 0 for none
--          share    of the rate, in millionths, at since; it grows from then on; 0: the whole rate
--          slowed   when the last refusal was heeded
--          mark     charges of before cannot be given back until remembers; 0 for none
--          margin   by which its period was longer, in millionths, at raised; it shrinks from then on, to none at fades
--          gaps     a list (see list.lua): begin and end of each, disjoint, all before tat; C.MaxGaps at most
--        starts: if its windows are exact, as in starts.lua
--        queue: if calls are queued for it, as in queue.lua
--        waits: if calls are queued for it, as in queue.lua
--        flows: if it is shared fairly, as in queue.lua
-- ARGV   limit: the burst
--        t: the emission interval T (µs)
--        then, of algorithm 3
--        most: if its windows are exact: how many calls may start in one; 0 if they are not
--        within: the length of a window (µs)
--        floor, decrease: if it adapts: millionths
--        hold, recovery: if it adapts: µs; 0 if it does not
--        queue: if calls are queued for it: 1 for a lane, which follows its whole rate, 2 for fair shares, or 0 for neither
-- TTL    until tat and till are past and the share is whole; with a log, until the last start before the later of tat and unlogged expires

local gcra = {}

-- blank returns a new account.
function gcra.blank(account, unit, burst, t)
  return {
    key = account, unit = unit, own = unit, limit = burst, t = t, tau = (burst - 1) * t, within = 0, wide = 0, pace = t, step = t,
    tat = 0, unlogged = 0, kept = 0, logtau = 0, learned = 0, till = 0, share = 0, since = 0, slowed = 0,
    mark = 0, remembers = 0, margin = 0, raised = 0, fades = 0, gaps = '', dirty = false, run = gcra,
  }
end

function gcra.parse(algorithm, account)
  local o = gcra.blank(account, 'r' .. ARGV[nextarg + 1] .. ' ', arg(), arg())
  if algorithm == C.GCRA then return o end
  local most, within = arg(), arg()
  if most > 0 then
    o.starts, o.most, o.within, o.wide = key(), most, within, within
  end
  o.floor, o.decrease, o.hold, o.recovery = arg(), arg(), arg(), arg()
  if o.recovery == 0 then o.recovery = nil end
  local queue = arg()
  if queue == C.LaneQueue then
    o.queue, o.waits, o.kind = key(), key(), 'lane'
  elseif queue == C.FairQueue then
    o.queue, o.waits, o.flows, o.kind = key(), key(), key(), 'fair'
  elseif queue ~= C.NoQueue then
    unknown('queue', queue)
  end
  return o
end

local names = { 'tat', 'unlogged', 'kept', 'logtau', 'learned', 'till', 'share', 'since', 'slowed', 'mark', 'remembers', 'margin', 'raised', 'fades' }

function gcra.loadstring(o, v, now)
  if not v then return end
  local n
  o.gaps, n = fields(o, names, v)
  if n > 4 then pace(o, now) end
end

-- lasts returns until when the account knows of calls that matter.
local function lasts(o) return o.kept > 0 and math.max(o.tat, o.unlogged) + o.kept or o.tat end

function gcra.write(o, now)
  if not o.dirty then return end
  local ends = math.max(lasts(o), o.till, o.fades, whole(o), o.remembers)
  save(o, text(o, names, o.gaps), ends, now)
  if o.most and ends <= now then
    redis.call('UNLINK', o.starts)
  elseif o.most and o.kept > 0 then
    redis.call('PEXPIRE', o.starts, lasting(o.tat - o.tat % o.within + 3 * o.within - now))
  end
end

-- change converts an account from another emission interval.
--   opens  that interval, if the account must be opened for a faster limit: see package engine, gcra.go
function gcra.change(o, t, now)
  if o.tat <= now then return end
  if o.t > t then
    o.unit = string.format('r%.0f ', t)
  elseif 2 * o.t <= t then
    o.opens = t
  end
end

-- open makes gaps between the cells of an account from now to its first gap.
function gcra.open(o, now)
  local t, ends, first = o.opens, o.tat, list.find(o.gaps, now + 1)
  if first <= list.size(o.gaps) then ends = list.pair(o.gaps, first) end
  if ends <= now then return end
  local n, all = ends - now + t - 1, {}
  n = (n - n % t) / t
  for i = 1, math.min(n, C.MaxOpened) do
    local at = ends - (n - i + 1) * t
    all[i] = list.of(at + o.t, at + t)
  end
  o.gaps, o.kept, o.opened = list.splice(o.gaps, 1, first, table.concat(all)), 0, true
end

-- fit places the call in a free piece a..b, a gap or the tail, as early as possible; nil if the piece is too short.
local function fit(o, now, e, w, a, b, gap)
  local from = a > now and a or now
  local x = math.max(from + w.lead, e - w.before)
  if x > from then
    local r = (x - from) % o.step
    if r > 0 then
      local y = x + o.step - r
      if y + w.late <= e and y + w.room <= b then x = y end
    end
  end
  if x + w.room > b then return nil end
  local s = x + w.late
  return { at = s > e and s or e, begin = x, from = from, to = b, gap = gap }
end

-- wants returns what a call of cost n needs; strictly: with no tolerance, nor for those behind it.
local function wants(o, n, strictly)
  local need, late = n * o.step, (n - 1) * o.t - o.tau
  local before = math.max(0, late)
  if strictly then return { lead = (n - 1) * o.t, room = math.max(need, n * o.t + o.tau), late = before, before = before } end
  return { lead = 0, room = need, late = late, before = before }
end

-- search places a call at e or later, as early as it can.
local function search(o, now, e, w, round)
  if round < C.LastRound and o.gaps ~= '' then
    local length = w.room * 2 ^ math.max(0, round + 1 - C.ManyRounds) -- of the gaps that are tried
    local first = list.find(o.gaps, e - w.before + w.room)
    for i = first, math.min(list.size(o.gaps), first + C.MaxLooks - 1) do
      local a, b = list.pair(o.gaps, i)
      spent = spent + 1 / 16
      local place = b - a >= length and fit(o, now, e, w, a, b, i)
      if place then return place end
    end
  end
  return fit(o, now, e, w, o.tat, math.huge, nil)
end

-- earliest returns where a call would be placed: at, begin of its interval, from..to the free piece that holds it, gap if that is
-- one. It changes nothing.
function gcra.earliest(o, now, e, n, round)
  if not o.most then return search(o, now, e, wants(o, n, false), round) end
  -- Its windows are exact: a call that the log refuses goes later; after some work only the tail decides.
  local logged, work = starts.since(o), 0
  while true do
    local strictly = e < logged
    local place = search(o, now, e, wants(o, n, strictly), work < C.MaxCrowded and round or C.LastRound)
    local at, more = starts.crowded(o, place.at, n)
    spent = spent + 1 + more / 16
    if strictly and place.at > logged then
      at = logged
    elseif at <= place.at then
      return place
    end
    e, work = at, work + more
  end
end

gcra.first = starts.first

-- again returns the place of a call of cost n whose first unit started at an instant, in a cell, if that is free; otherwise place.
function gcra.again(o, now, n, at, cell, place)
  local old = search(o, now, cell, { lead = 0, room = n * o.step, late = 0, before = 0 }, 0)
  if old.begin ~= cell or n > o.limit then return place end
  old.at = at
  return old
end

-- room returns how many calls of cost n may go now for sure, and where the first is placed: the others follow. It changes nothing.
function gcra.room(o, now, n)
  if o.gaps == '' and o.tat > now + o.tau then return 0 end
  local place = gcra.earliest(o, now, now, n, 0)
  if place.at > now then return 0 end
  if place.gap or o.step > o.t or o.most and now < starts.since(o) then return 1, place end
  local more = now + o.tau - (n - 1) * o.t - place.begin
  if o.most then more = math.min(more, (starts.free(o, now) - n) * o.t) end
  return math.max(0, (more - more % (n * o.t)) / (n * o.t)) + 1, place
end

-- take charges that many calls, and returns the charge of the first. If its windows are exact, they have no slack.
function gcra.take(o, now, n, many, place)
  local from, to = gcra.commit(o, now, place, n, many)
  return from, to, o.most and 0
end

function gcra.horizon() return math.huge end

-- forget drops past gaps, and the shortest of too many; of equally short ones, the last.
local function forget(o, now)
  if o.gaps ~= '' then
    local first = list.find(o.gaps, now + 1)
    if first > 1 then o.gaps = list.splice(o.gaps, 1, first, '') end
    while list.size(o.gaps) > C.MaxGaps do
      local shortest, least = 1, math.huge
      for i = 1, list.size(o.gaps) do
        local a, b = list.pair(o.gaps, i)
        if b - a <= least then shortest, least = i, b - a end
      end
      o.gaps, spent = list.splice(o.gaps, shortest, shortest + 1, ''), spent + C.MaxGaps / 32
    end
  end
  if o.till <= now then o.learned, o.till = 0, 0 end
  if o.share > 0 and whole(o) <= now then o.share, o.since, o.slowed = 0, 0, 0 end
  if o.remembers <= now then o.mark, o.remembers = 0, 0 end
  if o.fades <= now then o.margin, o.raised, o.fades = 0, 0, 0 end
  if lasts(o) <= now and o.till == 0 and o.share == 0 and o.fades == 0 then
    o.tat, o.kept = 0, 0
  end
  if o.tat <= now then o.unit = o.own end
  o.dirty = true
end

-- commit charges a call of cost n to its placement, or many that follow each other in the tail, and returns the charge of the first.
function gcra.commit(o, now, place, n, many)
  starts.keep(o)
  local from, need, before, was = place.begin, n * o.step, '', o.tat
  local to, last = from + need, from + need * (many or 1)
  if from - place.from >= o.t then before = list.of(place.from, from) else from = place.from end
  if not place.gap then
    o.tat, o.gaps = last, o.gaps .. before
  elseif place.to - to >= o.t then
    o.gaps = list.splice(o.gaps, place.gap, place.gap + 1, before .. list.of(to, place.to))
  else
    to, o.gaps = place.to, list.splice(o.gaps, place.gap, place.gap + 1, before)
  end
  if o.most then
    starts.add(o, place.at, n * (many or 1), place.begin)
    starts.tidy(o, was, now)
  end
  forget(o, now)
  return from, to, o.most and 0 or math.max(0, place.begin - place.at)
end

-- giveback gives back what a charge begin..to has from an instant on.
local function giveback(o, now, begin, from, to)
  local ends, first = to, from
  to = math.min(to, o.tat)
  if to <= now or from >= to then return end
  local i, size = list.find(o.gaps, from), list.size(o.gaps)
  local j, back, a, b = i, to, nil, nil
  if j <= size then a, b = list.pair(o.gaps, j) end
  if b == from then
    from, j, a = a, j + 1, nil
    if j <= size then a, b = list.pair(o.gaps, j) end
  end
  if a and a < to then return end
  starts.keep(o)
  if o.most then starts.remove(o, begin, ends, first, to) end
  if a == to then to, j = b, j + 1 end
  if back == o.tat then
    o.tat, o.gaps = from, list.splice(o.gaps, i, j, '')
  else
    o.gaps = list.splice(o.gaps, i, j, list.of(from, to))
  end
  forget(o, now)
end

function gcra.cancel(o, now, from, to, made)
  if not before(o, made, now) then giveback(o, now, from, from, to) end
end
