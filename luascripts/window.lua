-- window.lua: at most so many calls per window. The reasoning is in package engine, window.go and window_search.go.
--
-- KEYS   key: of the account: a string, "ends total full fulllimit learned till mark remembers margin raised fades line since quiet noted",
--        without what is 0 at the end, and then "|" and its buckets, where
--          ends     when the last count stops to count
--          total    what all buckets hold
--          full     no bucket before has room, for that limit
--          learned  the limit that the upstream allows before till
--          mark     what was charged by then is not given back, before remembers; 0 for none
--          margin   by which its period was longer, in millionths, at raised; it shrinks from then on, to none at fades
--          line     of a window with a pace: how far that had come at since, in thousandths; since is the front of a sliding one
--          quiet    of a party's part, or of a window with parts, for calls in no party: begin of the first window since
--                   the last call; known until noted
--          buckets  a list (see list.lua): what each holds, and its begin
-- ARGV   limit: of a window
--        width: of a bucket (µs)
--        m: buckets before its own that a bucket counts
--        guard: the end of a window that admits nothing (µs)
--        floor, ahead: of algorithm 9: how much is kept for a party; how much of a window may start ahead of its pace; 0 for none
--        bounds: how many follow: begins of calendar windows (µs since the epoch), ascending; none for windows that are
--        computed
-- TTL    until ends, till, remembers, fades, noted and since are past

local window = {}

-- blank returns an empty account. Lua makes a table with all of its fields in much less time than one that grows.
function window.blank(account, unit, limit, width, m, tail)
  return {
    key = account, unit = unit, limit = limit, most = limit, width = width, m = m, back = m * width, tail = tail, guard = tail,
    bounds = {}, run = window, dirty = false, mark = 0, remembers = 0, ends = 0, total = 0, full = 0, fulllimit = 0,
    learned = 0, till = 0, margin = 0, raised = 0, fades = 0, ahead = 0, line = 0, since = 0, quiet = 0, noted = 0, buckets = '',
  }
end

function window.parse(which, account)
  local limit, width, m, tail = arg(), arg(), arg(), arg()
  local grid, part, ahead = ARGV[nextarg - 3] .. '.' .. ARGV[nextarg - 2] .. ' ', 0, 0
  if which == C.Part then part, ahead = arg(), arg() end
  local n = arg()
  local o = window.blank(account, (n > 0 and 'c' or 'w') .. grid, limit, width, m, tail)
  o.part, o.ahead = part > 0 and part, ahead
  for i = 1, n do o.bounds[i] = arg() end
  return o
end

-- floor returns the start of the bucket that holds t: behind a calendar's table, t itself. A table of one bound goes on evenly.
local function floor(o, t)
  local b = o.bounds
  local n = #b
  if n == 0 then return t - t % o.width end
  if t < b[1] then return t - (t - b[1]) % o.width end
  for i = 2, n do
    if b[i] > t then return b[i - 1] end
  end
  return n > 1 and t or t - (t - b[1]) % o.width
end

-- after returns the start of the bucket after the one that begins at k.
local function after(o, k)
  for i = 1, #o.bounds do
    if o.bounds[i] > k then return o.bounds[i] end
  end
  return k + o.width
end

local function reach(o, k) return after(o, k) + o.back end

-- widen applies the margin that holds at now: a sliding window reaches back over more buckets, and a fixed one has a longer tail in which
-- nothing goes. A calendar's has none.
local function widen(o, now)
  local share = #o.bounds == 0 and marginat(o, now) or 0
  o.back, o.guard, o.sum, o.peakat = widened(o.m, share) * o.width, o.tail, nil, nil
  if share > 0 and o.m == 0 then o.guard = math.min(o.width - 1, o.tail + widened(o.width, share) - o.width) end
end

local function size(o) return list.size(o.buckets) end

-- bucket returns what bucket i holds, and when it begins; 0 and math.huge if there is none.
local function bucket(o, i)
  if i > size(o) then return 0, math.huge end
  return list.pair(o.buckets, i)
end

-- last returns when the last bucket begins; 0 if there is none.
local function last(o)
  local n = size(o)
  if n == 0 then return 0 end
  local _, at = list.pair(o.buckets, n)
  return at
end

-- find returns the first bucket that does not begin before b.
local function find(o, b) return list.find(o.buckets, b) end

-- count returns the count of the bucket that begins at b, and its index.
local function count(o, b)
  local i = find(o, b)
  local n, at = bucket(o, i)
  return at == b and n or 0, i
end

-- live returns what the buckets hold that begin at b or later, and the first of them.
local function live(o, b)
  local sum, i, n, at = o.total, 1, bucket(o, 1)
  while at < b do
    sum, i = sum - n, i + 1
    n, at = bucket(o, i)
  end
  return sum, i
end

-- offgrid reports whether buckets are not on the grid of a calendar: see package engine, kept.go.
local function offgrid(o, now)
  local present = floor(o, now)
  if last(o) > 0 and last(o) < present and o.ends > now then return true end -- it still counts, and not by these bounds
  for i = find(o, present), size(o) do
    local _, at = bucket(o, i)
    if floor(o, at) ~= at then return true end
  end
end

local names = { 'ends', 'total', 'full', 'fulllimit', 'learned', 'till', 'mark', 'remembers', 'margin', 'raised', 'fades', 'line', 'since', 'quiet', 'noted' }

-- loadstring reads the state. It returns true if the account is on another grid.
function window.loadstring(o, v, now)
  local n = #o.bounds
  if n > 0 and (now < o.bounds[1] or now >= o.bounds[n]) then stale = true end
  if not v then return end
  o.buckets = fields(o, names, v)
  if now < o.till and o.learned < o.limit then o.most = o.learned end
  widen(o, now)
  return n > 0 and o.ends > 0 and offgrid(o, now)
end

function window.write(o, now)
  if o.dirty then save(o, text(o, names, o.buckets), math.max(o.ends, o.till, o.remembers, o.fades, o.noted, o.since), now) end
end

-- ending returns the sum of the window that ends with bucket k, which of the buckets are in it, from one on and before another
-- one. It is the last one moved on, if that is so far.
local function ending(o, k)
  local first, sum, from, to = k - o.back, o.sum, o.from, o.to
  if not sum or k < o.sumat then
    from = find(o, first)
    sum, to = 0, from
  end
  local n, at = bucket(o, to)
  while at <= k do
    sum, to = sum + n, to + 1
    n, at = bucket(o, to)
  end
  n, at = bucket(o, from)
  while from < to and at < first do
    sum, from = sum - n, from + 1
    n, at = bucket(o, from)
  end
  o.sum, o.from, o.to, o.sumat = sum, from, to, k
  return sum, from, to
end

-- fullest returns the count of the fullest window with bucket k. It searches anew only if the count of the last search, with what was added
-- since, leaves no room for n more.
local function fullest(o, k, n)
  if o.peakat == k and o.peak + n <= o.most then return o.peak end
  local sum, from, to = ending(o, k)
  local most, more, at = sum, bucket(o, to)
  while at <= k + o.back do
    local gone, began = bucket(o, from)
    while began < at - o.back do
      sum, from = sum - gone, from + 1
      gone, began = bucket(o, from)
    end
    sum, to = sum + more, to + 1
    if sum > most then most = sum end
    more, at = bucket(o, to)
  end
  o.peak, o.peakat = most, k
  return most
end

-- room returns how many calls of cost n may go now: as many as all buckets together leave room for, if that is at least many, and otherwise
-- as many as the fullest window that would contain them admits.
function window.room(o, now, n, many)
  if o.part then return many end
  if o.parts or o.ahead > 0 then return 0 end
  local k = floor(o, now)
  if now >= after(o, k) - o.guard then return 0 end
  if o.fulllimit == o.most and floor(o, o.full) > k then return 0 end
  local left = o.most - live(o, k - o.back)
  if left < n * many and last(o) > k then left = o.most - fullest(o, k, math.huge) end
  return left < n and 0 or (left - left % n) / n
end

-- tidy drops the past.
local function tidy(o, now)
  local k = floor(o, now)
  local total, i = live(o, k - o.back)
  if i > 1 then o.total, o.buckets, o.sum = total, list.splice(o.buckets, 1, i, ''), nil end
  if o.till <= now then o.learned, o.till = 0, 0 end
  if o.remembers <= now then o.mark, o.remembers = 0, 0 end
  if o.fades <= now then o.margin, o.raised, o.fades = 0, 0, 0 end
  if o.since < k then o.line, o.since = 0, 0 end
  if o.noted <= now then o.quiet, o.noted = 0, 0 end
  if o.full < after(o, k) then o.full, o.fulllimit = 0, 0 end
end

-- change counts n calls more, or fewer, in the bucket that begins at k, and returns how many it then holds.
local function change(o, k, n)
  local had, i = count(o, k)
  local _, at = bucket(o, i)
  if at ~= k and o.sum and i < o.to then o.sum = nil end
  o.buckets, o.total, o.dirty = list.splice(o.buckets, i, at == k and i + 1 or i, list.of(had + n, k)), o.total + n, true
  if o.sum and o.from <= i and i < o.to then o.sum = o.sum + n end
  if o.peakat and n > 0 and math.abs(k - o.peakat) <= o.back then o.peak = o.peak + n end
  return had + n
end

local function add(o, k, n)
  o.ends = math.max(o.ends, reach(o, k))
  return change(o, k, n)
end

-- take charges that many calls, which go now, and returns the charge and the slack of the first, and how many its bucket
-- then holds: the others follow.
function window.take(o, now, n, many)
  tidy(o, now)
  local k = floor(o, now)
  local holds = add(o, k, n * many)
  return k, n, after(o, k) - o.guard - 1 - now, holds - n * (many - 1)
end

function window.horizon(o) return #o.bounds > 0 and o.bounds[#o.bounds] or math.huge end

-- over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with one more; nil for none. A call
-- that costs more than the upstream allows by its statement has a window to itself.
local function over(o, k, n)
  local limit, width = o.most, o.width
  if o.total + n <= limit then return nil, nil end -- whatever the window
  if last(o) > k and fullest(o, k, n) + n <= limit then return nil, nil end
  local sum, from, to = ending(o, k)
  local forn, forone, cap, ends = nil, nil, math.max(limit, n), k + o.back
  while true do
    -- The sum stays until a bucket enters or leaves.
    local more, into = bucket(o, to)
    if into > ends then into = math.huge end
    if sum + n <= limit and into == math.huge then return forn, forone end -- from here on, it only shrinks
    local less, out = bucket(o, from)
    out = from < to and out + o.back + width or math.huge
    local change = math.min(into, out, ends + width)
    if sum + n > cap then forn = change - width end
    if sum + 1 > limit then forone = change - width end
    if change > ends then return forn, forone end
    if change == out then sum, from = sum - less, from + 1 end
    if change == into then sum, to = sum + more, to + 1 end
  end
end

-- search returns where a call would be placed if nothing was kept for others: at, the start of its bucket, and full, the instant before
-- which no bucket has room for even one call, if that is new. It changes nothing.
local function search(o, now, e, n, round)
  local k = floor(o, e)
  if e >= after(o, k) - o.guard then k = after(o, k) end
  local present = floor(o, now)
  local frontier = present
  if o.fulllimit == o.most then frontier = math.max(frontier, floor(o, o.full)) end
  k = math.max(k, frontier)
  local looks, horizon = 1, window.horizon(o)
  while k < horizon do
    if (round >= C.LastRound or looks > C.MaxFull) and o.ends > now and size(o) > 0 then k = math.max(k, reach(o, last(o))) end
    local forn, forone = over(o, k, n)
    if forone and k == frontier then frontier = after(o, forone) end
    if not forn then break end
    k, looks = after(o, forn), looks + 1
  end
  spent = spent + (looks - looks % C.LooksEach) / C.LooksEach
  if k > horizon then k = horizon end -- where the windows behind it begin is not known
  return { at = k > e and k or e, begin = k, full = frontier > present and frontier }
end
