-- floor.lua: what a window keeps for parties, and its pace. The reasoning is in package engine, floor.go.

-- pace returns in how much time the front of a sliding window moves on by n. A call counts for a period and a bucket.
local function pace(o, n) return math.floor(n * ((o.m + 1) * o.width / math.max(1, o.limit - o.ahead))) end

-- move moves the front of a sliding window on by n, or back.
local function move(o, now, n)
  if o.ahead == 0 or o.m == 0 then return end
  o.since = n > 0 and math.max(o.since, now) + pace(o, n) or math.max(0, o.since - pace(o, -n))
end

-- note notes that a call goes in a window, of the party whose calls the account notes or of another one.
local function note(o, now, begin, own)
  local quiet, noted = o.quiet, math.max(o.noted, begin + (C.IdleWindows + C.IdleHalvings) * o.width)
  if own or now >= o.noted then quiet = math.max(quiet, after(o, begin)) end
  o.dirty = o.dirty or quiet ~= o.quiet or noted ~= o.noted
  o.quiet, o.noted = quiet, noted
end

-- halvings returns how many times a part is halved in the window that begins then.
local function halvings(o, now, begin)
  if now >= o.noted then return 0 end
  local away = math.max(0, begin - o.quiet + math.floor(o.width / 2))
  local idle = (away - away % o.width) / o.width
  return math.min(math.max(0, idle - C.IdleWindows), C.IdleHalvings)
end

-- share returns what is kept at t for a party, whose calls an account notes.
local function share(s, o, t, floor, spent)
  local most, last = math.min(floor - spent, math.floor(floor / 2 ^ halvings(o, s.now, s.begin))), s.ends - s.begin + 1
  last = (last - last % C.LetGo) / C.LetGo
  if s.ends - t < last then most = math.min(most, math.floor(floor * ((s.ends - t) / last))) end
  return math.max(0, most)
end

-- kept returns what is kept at t for others, by parts and for calls in no party, and for the party of the call.
local function kept(s, t)
  local parts, own = 0, 0
  for i = 1, #s.parts do
    local part = s.parts[i]
    local most = share(s, part, t, part.part, count(part, s.begin))
    if part.others then parts = parts + most else own = most end
  end
  local rest = share(s, s.whole, t, s.floor, s.spent)
  if s.whole.none then return parts, 0, rest end
  return parts, rest, own
end

-- sharing returns one window as a call of cost n finds it that leaves so much of it: see package engine, floor.go.
local function sharing(o, now, begin, n)
  local s = { whole = o, parts = o.parts or {}, now = now, begin = begin, ends = after(o, begin) - o.guard - 1, n = n, paced = o.ahead > 0 }
  s.floor, s.spent = o.limit, count(o, begin)
  s.spare = math.max(0, o.most - s.spent - n)
  local beyond = s.spent
  for i = 1, #s.parts do
    local part = s.parts[i]
    local had = count(part, begin)
    s.floor, s.spent, beyond = s.floor - part.part, s.spent - had, beyond - math.min(had, part.part)
    if not part.others and had + n <= part.part then s.paced = false end
  end
  s.beyond, s.from, s.since = math.max(0, beyond) * C.LineUnit, 0, begin
  if o.since >= begin then s.from, s.since = math.min(o.line, s.beyond), o.since end
  s.over = s.beyond - s.from - o.ahead * C.LineUnit
  return s
end

-- passed returns how far the line comes until t, if parts keep so much for others.
local function passed(s, t, parts)
  local left = math.max(0, s.spare + s.n - parts) * C.LineUnit + s.beyond - s.from
  return left * (math.max(0, t - s.since) / math.max(1, s.ends - s.since))
end

-- fits reports whether a call that starts at t leaves what is kept for others, and is not too far ahead of the pace; free finds out what is kept.
local function fits(s, t, parts, rest)
  return s.spare >= parts + rest and (not s.paced or s.over <= 0 or s.over <= passed(s, t, parts))
end

local function free(s, t) return fits(s, t, kept(s, t)) end

-- within reports whether the floor of the call's party has room for n in bucket k of a sliding window.
local function within(o, k, n)
  local floor, had = o.limit - 2 * o.ahead, n + ending(o, k)
  for i = 1, #(o.parts or {}) do
    local part = o.parts[i]
    local spent = ending(part, k)
    if not part.others then return spent + n <= part.part end
    floor, had = floor - part.part, had - spent
  end
  return had <= floor
end

-- earliest returns where a call would be placed; with line: of the pace, now. The reasoning is in package engine, floor.go.
function window.earliest(o, now, e, n, round)
  if o.part then return { at = e, begin = floor(o, e) } end
  local place = search(o, now, e, n, round)
  if o.m > 0 then
    if o.ahead == 0 or within(o, place.begin, n) then return place end
    return search(o, now, math.max(e, o.since - pace(o, o.ahead)), n + o.ahead, round)
  end
  while (o.parts or o.ahead > 0) and place.begin < window.horizon(o) do
    local s = sharing(o, now, place.begin, n)
    local parts, rest, own = kept(s, place.at)
    local found = fits(s, place.at, parts, rest) or not s.paced and n <= own
    if not found and free(s, s.ends) then
      local low, high = place.at, s.ends
      while high - low > 1 do
        local mid = low + math.floor((high - low) / 2)
        if free(s, mid) then high = mid else low = mid end
      end
      place.at, found = high, true
    end
    if found then
      if s.paced and s.begin <= now then place.line = math.floor(math.min(s.beyond, s.from + passed(s, now, (kept(s, now))))) end
      return place
    end
    place = search(o, now, after(o, place.begin), n, round)
  end
  return place
end

-- commit charges a call of cost n to its placement.
function window.commit(o, now, place, n)
  local k = place.begin
  if o.m == 0 then
    if o.part then
      note(o, now, k, not o.others)
    elseif o.parts then
      note(o, now, k, o.none)
    end
  end
  if o.others then return 0, 0, math.huge, 0 end
  tidy(o, now)
  move(o, now, n)
  local holds = add(o, k, n)
  if place.line then o.line, o.since = place.line, now end
  if place.full then o.full, o.fulllimit = place.full, o.most end
  return k, n, after(o, k) - o.guard - 1 - place.at, holds
end
