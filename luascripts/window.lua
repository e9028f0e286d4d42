-- window.lua: at most so many calls per window. The reasoning is in package engine, window.go.
--
-- KEYS   key: of the account: a string, "unit first last ends count total|buckets", or, if there is more to know,
--        "unit first last ends count total full limit learned until reset remembers margin raised fades line since quiet noted|buckets",
--        in one line, where
--          unit     what distances are counted in, in µs: the width of a bucket, or 1 if that does not do
--          first    begin of the first bucket that is kept
--          last     begin of the last bucket that ever held a call
--          ends     when the last count stops to count
--          count    what the last bucket holds
--          total    what all buckets that are kept hold
--          full     no bucket before has room, for that limit
--          learned  the upstream allows so few before until
--          reset    what was charged by then is not given back, before remembers; 0 for none
--          margin   by how much longer it took its period to be, in millionths, when raised came; less from then on, none after fades
--          line     of a window with a pace: how far that had come at since, in thousandths; since is the front of a sliding one
--          quiet    of a part: begin of the first window since its party's last call; known until noted
--          buckets  of each bucket but the last, in order: what it holds, ":" and the distance to the next one if that is not
--                   1, and a space
--        So a call that goes now need not read a hundred buckets (see quick.lua): the last one is at hand, those that count no
--        more are the first of the list, and as nothing lies ahead, the window holds the total.
-- ARGV   limit: of a window
--        width: of a bucket (µs)
--        m: buckets before its own that a bucket counts
--        guard: at the end of a window, in which nothing goes (µs)
--        floor, ahead: of algorithm 9: how much is kept for a party; how much of a window may start ahead of its pace; 0 for none
--        bounds: how many follow: begins of calendar windows (µs since the epoch), ascending; none for windows that are
--        computed
-- TTL    until ends, until and noted are past

local window = {}

-- Reading the whole list would double the time of a call. While calls only touch the last bucket or later ones, an account is folded: only
-- the buckets that have expired are read. Any other look at its buckets unfolds it.
local folded, unfold = { at = true, held = true, low = true, size = true, place = true, same = true }, nil -- what it knows then

function folded.__index(o, name)
  if not folded[name] then return nil end
  unfold(o)
  return o[name]
end

-- fold takes all buckets from an account that is not unfolded.
local function fold(o)
  o.folded, o.total, o.list, o.start, o.step = true, 0, '', 1, o.width -- where the first bucket begins in the list, and what it counts in
  o.first, o.last, o.count = math.huge, 0, 0 -- the first and the last one, and what that holds; none
  setmetatable(o, folded)
end

-- blank returns an empty account. Lua makes a table with all of its fields in much less time than one that grows.
function window.blank(account, unit, limit, width, m, tail)
  local o = {
    key = account, unit = unit, limit = limit, most = limit, width = width, m = m, back = m * width, tail = tail, guard = tail,
    bounds = {}, run = window, dirty = false, mark = 0, remembers = 0, ends = 0, full = 0, fulllimit = 0,
    learned = 0, till = 0, margin = 0, raised = 0, fades = 0, ahead = 0, line = 0, since = 0, quiet = 0, noted = 0,
    folded = true, total = 0, list = '', start = 1, step = width, first = 0, last = 0, count = 0,
  }
  fold(o)
  return o
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
function window.widen(o, now)
  local share = #o.bounds == 0 and marginat(o, now) or 0
  o.back, o.guard, o.sum, o.peakat = widened(o.m, share) * o.width, o.tail, nil, nil
  if share > 0 and o.m == 0 then o.guard = math.min(o.width - 1, o.tail + widened(o.width, share) - o.width) end
end

-- unfold reads the list of a folded account.
function unfold(o)
  local name, unit, list = o.key, o.step, string.sub(o.list, o.start)
  if string.find(list, '[^%d: ]') then foreign(name) end
  setmetatable(o, nil)
  o.folded, o.list = false, list
  local at, held, place, size, b, sum = {}, {}, { 1 }, 0, o.first, o.count
  for from, n, distance in string.gmatch(list, '()(%d+):?(%d*) ') do
    size, n = size + 1, n + 0
    at[size], held[size], place[size], sum = b, n, from, sum + n
    b = b + (distance == '' and 1 or number(distance, name)) * unit
  end
  if sum ~= o.total then foreign(name) end
  if o.first <= o.last then
    if b ~= o.last then foreign(name) end
    size = size + 1
    at[size], held[size], place[size] = b, o.count, #list + 1
  end
  o.at, o.held, o.low, o.size = at, held, 1, size -- the buckets low..size: begin, count
  o.place, o.same = place, math.max(1, size) -- where the buckets begin in the list; it is as it was before this one
end

-- since returns what the buckets of a folded account hold from b on, the first of them, and where that is in the list. It continues from a
-- bucket that it returned before; the result's first bucket passes the last one only.
local function since(o, b, sum, first, from)
  while first < b and first < o.last do
    local n, distance, rest = string.match(o.list, '^(%d+):?(%d*) ()', from)
    if not n then foreign(o.key) end
    sum, first, from = sum - n, first + (distance == '' and 1 or distance) * o.width, rest
  end
  return first < b and 0 or sum, first, from
end

-- offgrid reports whether buckets are on another grid than that of a calendar: see package engine, kept.go.
local function offgrid(o, now)
  local present, last = floor(o, now), o.at[o.size] or 0
  if last > 0 and last < present and o.ends > now then return true end -- it still counts, and not by these bounds
  for i = o.low, o.size do
    if o.at[i] >= present and floor(o, o.at[i]) ~= o.at[i] then return true end
  end
end

-- loadstring reads the state. It is all that is stored in the key, behind so many characters; nil if it is not. It returns true if the
-- account is on another grid.
function window.loadstring(o, v, now, behind)
  local n = #o.bounds
  if n > 0 and (now < o.bounds[1] or now >= o.bounds[n]) then stale = true end
  if not v then
    if n > 0 then unfold(o) end
    return
  end
  local name = o.key
  local bar = string.find(v, '|', 1, true)
  if not bar or bar > 512 then foreign(name) end -- so that no pattern takes long
  local unit, first, last, ends, counts, count, total, more = string.match(v, '^(%d+) (%d+) (%d+) (%d+) ()(%d+) (%d+)([ %d]*)|')
  unit, first, last, ends = number(unit, name), number(first, name), number(last, name), number(ends, name)
  count, total = number(count, name), number(total, name)
  if more == '' then
    if behind then o.counts, o.countslength, o.storedlast, o.storedends = behind + counts - 1, bar - counts, last, ends end
  else
    local full, limit, learned, till, mark, remembers, margin, raised, fades, line, since, quiet, noted =
      string.match(more, '^ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    o.mark, o.remembers = number(mark, name), number(remembers, name)
    o.learned, o.till = number(learned, name), number(till, name)
    o.full, o.fulllimit = number(full, name), number(limit, name)
    if now < o.till and o.learned < o.limit then o.most = o.learned end
    o.margin, o.raised, o.fades = number(margin, name), number(raised, name), number(fades, name)
    o.line, o.since, o.quiet, o.noted = number(line, name), number(since, name), number(quiet, name), number(noted, name)
    window.widen(o, now)
  end
  if bar < #v and string.byte(v, -1) ~= 32 then foreign(name) end
  o.step, o.list, o.start, o.ends, o.total = unit, v, bar + 1, ends, total
  o.storedstart = o.start
  if ends > 0 then o.first, o.last, o.count = first, last, count end
  if n > 0 or unit ~= o.width or last % unit ~= 0 then unfold(o) end
  return n > 0 and ends > 0 and offgrid(o, now)
end

-- find returns the first bucket that does not begin before b.
local function find(o, b)
  local i, j, at = o.low, o.size + 1, o.at
  if i == j or at[j - 1] < b then return j end
  while i < j do
    local mid = (i + j - (i + j) % 2) / 2
    if at[mid] < b then i = mid + 1 else j = mid end
  end
  return i
end

-- count returns what the bucket holds that begins at b, and which it is.
local function count(o, b)
  local i = find(o, b)
  return i <= o.size and o.at[i] == b and o.held[i] or 0, i
end

-- ending returns the sum of the window that ends with bucket k, which of the buckets are in it, from one on and before another
-- one. It is the last one moved on, if that is so far.
local function ending(o, k)
  local at, held, first = o.at, o.held, k - o.back
  local sum, from, to = o.sum, o.from, o.to
  if not sum or k < o.sumat then
    from = find(o, first)
    sum, to = 0, from
  end
  while to <= o.size and at[to] <= k do
    sum, to = sum + held[to], to + 1
  end
  while from < to and at[from] < first do
    sum, from = sum - held[from], from + 1
  end
  o.sum, o.from, o.to, o.sumat = sum, from, to, k
  return sum, from, to
end

-- fullest returns what the fullest of the windows with bucket k holds, or held of late: it is not searched anew while even what was added
-- since leaves room for n more.
local function fullest(o, k, n)
  if o.peakat == k and o.peak + n <= o.most then return o.peak end
  local sum, from, to = ending(o, k)
  local at, held, back, most = o.at, o.held, o.back, sum
  while at[to] and at[to] <= k + back do
    while at[from] < at[to] - back do
      sum, from = sum - held[from], from + 1
    end
    sum, to = sum + held[to], to + 1
    if sum > most then most = sum end
  end
  o.peak, o.peakat = most, k
  return most
end

-- room returns how many calls of cost n may go now: as many as the fullest of the windows that hold them, or if all that is in any of
-- these leaves room for as many as are wanted, as many as that.
function window.room(o, now, n, many)
  if o.part then return many end
  if o.parts or o.ahead > 0 then return 0 end
  local k = floor(o, now)
  if now >= after(o, k) - o.guard then return 0 end
  if o.fulllimit == o.most and floor(o, o.full) > k then return 0 end
  local left = o.folded and o.most - since(o, k - o.back, o.total, o.first, o.start)
  if not left or o.folded and k < o.last and left < n * many then left = o.most - fullest(o, k, math.huge) end
  return left < n and 0 or (left - left % n) / n
end

-- tidy forgets what is past.
local function tidy(o, now)
  local k = floor(o, now)
  if o.folded then
    o.total, o.first, o.start = since(o, k - o.back, o.total, o.first, o.start)
    if o.first < k - o.back then fold(o) end
  else
    local low = o.low
    while low <= o.size and o.at[low] < k - o.back do
      o.total = o.total - o.held[low]
      low = low + 1
    end
    o.low = low
  end
  if o.till <= now then o.learned, o.till = 0, 0 end
  if o.remembers <= now then o.mark, o.remembers = 0, 0 end
  if o.fades <= now then o.margin, o.raised, o.fades = 0, 0, 0 end
  if o.since < k then o.line, o.since = 0, 0 end
  if o.noted <= now then o.quiet, o.noted = 0, 0 end
  if o.full < after(o, k) then o.full, o.fulllimit = 0, 0 end
end

-- change counts n calls more, or fewer, in bucket i.
local function change(o, i, n)
  o.held[i], o.total, o.dirty = o.held[i] + n, o.total + n, true
  if o.same > i then o.same = i end
  if o.sum and o.from <= i and i < o.to then o.sum = o.sum + n end
  if o.peak and n > 0 and math.abs(o.at[i] - o.peakat) <= o.back then o.peak = o.peak + n end
end

-- listed returns a bucket as it is listed: what it holds, and how many steps the next one is away.
local function listed(n, distance) return string.format(distance == 1 and '%.0f ' or '%.0f:%.0f ', n, distance) end

-- add counts n calls in the bucket that begins at k, and returns how many it then holds.
local function add(o, k, n)
  local r = reach(o, k)
  if o.folded and k >= o.last then
    if o.first > o.last then
      o.first = k
    elseif k > o.last then
      o.list = o.list .. listed(o.count, (k - o.last) / o.width)
      o.count = 0
    end
    o.last = k
    o.count, o.total, o.dirty = o.count + n, o.total + n, true
    if r > o.ends then o.ends = r end
    return o.count
  end
  local i = find(o, k)
  if i > o.size or o.at[i] ~= k then
    table.insert(o.at, i, k)
    table.insert(o.held, i, 0)
    o.size = o.size + 1
    if o.same >= i then o.same = i - 1 end -- the distance to it is another one
    if o.sum and i < o.to then o.sum = nil end
  end
  change(o, i, n)
  if r > o.ends then o.ends = r end
  return o.held[i]
end

-- pace returns in how much time the front of a sliding window moves on by n.
local function pace(o, n) return math.floor(n * (o.m * o.width / o.limit)) end

-- move moves the front of a sliding window on by n, or back.
local function move(o, now, n)
  if o.ahead == 0 or o.m == 0 then return end
  o.since = n > 0 and math.max(o.since, now) + pace(o, n) or math.max(0, o.since - pace(o, -n))
end

-- note notes in a part that a call goes in a window, of its party or of another one.
local function note(o, now, begin, own)
  local quiet, noted = o.quiet, math.max(o.noted, begin + (C.IdleWindows + C.IdleHalvings) * o.width)
  if own or now >= o.noted then quiet = math.max(quiet, after(o, begin)) end
  o.dirty = o.dirty or quiet ~= o.quiet or noted ~= o.noted
  o.quiet, o.noted = quiet, noted
end

-- take charges that many calls, which go now, and returns the charge and the slack of the first, and how many its bucket
-- then holds: the others follow.
function window.take(o, now, n, many)
  tidy(o, now)
  local k = floor(o, now)
  local holds = add(o, k, n * many)
  return k, n, after(o, k) - o.guard - 1 - now, holds - n * (many - 1)
end

-- written returns the list of buckets. The part of it is kept that is as it was.
local function written(o)
  local at, unit, low, parts = o.at, o.width, o.low, {}
  for i = low + 1, o.size do
    if (at[i] - at[i - 1]) % unit ~= 0 then
      unit = 1
      break
    end
  end
  local same = o.same
  if unit ~= o.step or same < low then same = low end
  if same > low then parts[1] = string.sub(o.list, o.place[low], o.place[same] - 1) end
  for i = same, o.size - 1 do
    parts[#parts + 1] = listed(o.held[i], (at[i + 1] - at[i]) / unit)
  end
  return table.concat(parts), unit
end

-- extended reports whether there is more to know of an account than its buckets.
local function extended(o) return o.full > 0 or o.till > 0 or o.mark > 0 or o.fades > 0 or o.since > 0 or o.noted > 0 end

-- text returns the state as it is written, and until when it matters.
function window.text(o)
  local unit, list, first, last, count, more = o.width, nil, o.first, o.last, o.count, ''
  if o.folded then
    list = string.sub(o.list, o.start)
    if first > last then first = 0 end
  else
    list, unit = written(o)
    first, last, count = o.at[o.low] or 0, o.at[o.size] or 0, o.held[o.size] or 0
  end
  if extended(o) then
    more = string.format(
      ' %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f',
      o.full, o.fulllimit, o.learned, o.till, o.mark, o.remembers, o.margin, o.raised, o.fades, o.line, o.since, o.quiet, o.noted)
  end
  local v = string.format('%.0f %.0f %.0f %.0f %.0f %.0f%s|%s', unit, first, last, o.ends, count, o.total, more, list)
  return v, math.max(o.ends, o.till, o.remembers, o.fades, o.noted, o.since)
end

-- onlycounts reports whether the state is that which is stored, but for the counts of the last bucket and of all.
local function onlycounts(o)
  return o.counts and o.folded and o.start == o.storedstart and o.last == o.storedlast and o.ends == o.storedends and not extended(o)
end

-- write writes the state: only the counts if no more has changed and they take as much room as before. Then the TTL is right, and no list
-- of a hundred buckets is copied.
function window.write(o, now)
  if not o.dirty then return end
  if onlycounts(o) then
    local counts = string.format('%.0f %.0f', o.count, o.total)
    if #counts == o.countslength then
      redis.call('SETRANGE', o.key, o.counts, counts)
      return
    end
  end
  local text, ends = window.text(o)
  save(o, text, ends, now)
end

function window.rest()
  function window.horizon(o)
    return #o.bounds > 0 and o.bounds[#o.bounds] or math.huge
  end

  -- over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with one more; nil for none. A call
  -- that costs more than the upstream allows by its statement has a window to itself.
  local function over(o, k, n)
    local limit, width = o.most, o.width
    if o.total + n <= limit then return nil, nil end -- whatever the window
    if o.folded then
      local left, first, from = since(o, k - o.back, o.total, o.first, o.start)
      if left + n <= limit then return nil, nil end
      if k >= o.last then
        local forn, forone
        while left + n > math.max(limit, n) do
          forn = first + o.back
          if left + 1 > limit then forone = forn end
          left, first, from = since(o, first + width, left, first, from)
        end
        return forn, forone
      end
    end
    if o.size > 0 and o.at[o.size] > k and fullest(o, k, n) + n <= limit then return nil, nil end
    local sum, from, to = ending(o, k)
    local forn, forone, cap, last, into, out = nil, nil, math.max(limit, n), k + o.back, nil, nil
    while true do
      -- The sum stays until a bucket enters or leaves.
      into = o.at[to] and o.at[to] <= last and o.at[to] or math.huge
      if sum + n <= limit and into == math.huge then return forn, forone end -- from here on, it only shrinks
      out = from < to and o.at[from] + o.back + width or math.huge
      local change = math.min(into, out, last + width)
      if sum + n > cap then forn = change - width end
      if sum + 1 > limit then forone = change - width end
      if change > last then return forn, forone end
      if change == out then sum, from = sum - o.held[from], from + 1 end
      if change == into then sum, to = sum + o.held[to], to + 1 end
    end
  end

  -- search returns where a call would be placed but for what is kept for others: at, begin of its bucket, and full, before which no bucket has
  -- room for even one call, if that is news. It changes nothing.
  local function search(o, now, e, n, round)
    local k = floor(o, e)
    if e >= after(o, k) - o.guard then k = after(o, k) end
    local present = floor(o, now)
    local frontier = present
    if o.fulllimit == o.most then
      frontier = math.max(frontier, floor(o, o.full))
    end
    if frontier > k then k = frontier end
    local looks, horizon = 1, window.horizon(o)
    while k < horizon do
      if (round >= C.LastRound or looks > C.MaxFull) and o.ends > now and o.size >= o.low then
        k = math.max(k, reach(o, o.at[o.size]))
      end
      local forn, forone = over(o, k, n)
      if forone and k == frontier then frontier = after(o, forone) end
      if not forn then break end
      k, looks = after(o, forn), looks + 1
    end
    spent = spent + (looks - looks % C.LooksEach) / C.LooksEach
    if k > horizon then k = horizon end -- where the windows behind it begin is not known
    return { at = k > e and k or e, begin = k, full = frontier > present and frontier }
  end

  -- halvings returns how many times a part is halved in the window that begins then.
  local function halvings(o, now, begin)
    if now >= o.noted then return 0 end
    local away = math.max(0, begin - o.quiet + math.floor(o.width / 2))
    local idle = (away - away % o.width) / o.width
    return math.min(math.max(0, idle - C.IdleWindows), C.IdleHalvings)
  end

  -- kept returns what the parts of a window keep at t, for others and for the party of the call.
  local function kept(s, t)
    local others, own, last = 0, 0, s.ends - s.begin + 1
    last = (last - last % C.LetGo) / C.LetGo
    for i = 1, #s.parts do
      local part = s.parts[i]
      local most = math.min(part.part - count(part, s.begin), math.floor(part.part / 2 ^ halvings(part, s.now, s.begin)))
      if s.ends - t < last then most = math.min(most, math.floor(part.part * ((s.ends - t) / last))) end
      if most > 0 then
        if part.others then others = others + most else own = most end
      end
    end
    return others, own
  end

  -- sharing returns one window as a call of cost n finds it that leaves so much of it: see package engine, floor.go.
  local function sharing(o, now, begin, n)
    local s = { parts = o.parts or {}, now = now, begin = begin, ends = after(o, begin) - o.guard - 1, n = n, paced = o.ahead > 0 }
    s.spare = math.max(0, o.most - count(o, begin) - n)
    local beyond = count(o, begin)
    for i = 1, #s.parts do
      local part = s.parts[i]
      local had = count(part, begin)
      beyond = beyond - math.min(had, part.part)
      if not part.others and had + n <= part.part then s.paced = false end
    end
    s.beyond, s.from, s.since = math.max(0, beyond) * C.LineUnit, 0, begin
    if o.since >= begin then s.from, s.since = math.min(o.line, s.beyond), o.since end
    s.over = s.beyond - s.from - o.ahead * C.LineUnit
    return s
  end

  -- passed returns how far the line comes until t, if so much is kept for others.
  local function passed(s, t, others)
    local left = math.max(0, s.spare + s.n - others) * C.LineUnit + s.beyond - s.from
    return left * ((t - s.since) / math.max(1, s.ends - s.since))
  end

  -- free reports whether a call that starts at t leaves what is kept for others, and is not too far ahead of the pace.
  local function free(s, t)
    local others = kept(s, t)
    return s.spare >= others and (not s.paced or s.over <= 0 or s.over <= passed(s, t, others))
  end

  -- within reports whether the party of a call has so much left of its floor of a sliding window, of which k is a bucket.
  local function within(o, k, n)
    for i = 1, #(o.parts or {}) do
      local part = o.parts[i]
      if not part.others then return ending(part, k) + n <= part.part end
    end
    return false
  end

  -- earliest returns where a call would be placed; with line: of the pace, now. The reasoning is in package engine, floor.go.
  function window.earliest(o, now, e, n, round)
    if o.part then return { at = e, begin = floor(o, e) } end
    local place = search(o, now, e, n, round)
    if o.m > 0 then
      local from = o.since - pace(o, o.ahead)
      return o.ahead > 0 and place.at < from and not within(o, place.begin, n) and search(o, now, from, n, round) or place
    end
    while (o.parts or o.ahead > 0) and place.begin < window.horizon(o) do
      local s = sharing(o, now, place.begin, n)
      local _, own = kept(s, place.at)
      local fits = free(s, place.at) or n <= own
      if not fits and free(s, s.ends) then
        local low, high = place.at, s.ends
        while high - low > 1 do
          local mid = low + math.floor((high - low) / 2)
          if free(s, mid) then high = mid else low = mid end
        end
        place.at, fits = high, true
      end
      if fits then
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
    if o.part and o.m == 0 then note(o, now, k, not o.others) end
    if o.others then return 0, 0, math.huge, 0 end
    tidy(o, now)
    move(o, now, n)
    local holds = add(o, k, n)
    if place.line then o.line, o.since = place.line, now end
    if place.full then o.full, o.fulllimit = place.full, o.most end
    return k, n, after(o, k) - o.guard - 1 - place.at, holds
  end
end

-- heeding defines what calls that look for a slot can do without.
function window.heeding()
  function window.cancel(o, now, from, n, made)
    if before(o, made, now) or reach(o, from) <= now then return end
    local c, i = count(o, from)
    if c == 0 then return end
    n = math.min(n, c)
    move(o, now, -n)
    change(o, i, -n)
    local free = math.max(0, from - o.back)
    if free < o.full then o.full = free end
  end

  -- settle: what cost nothing at first has no bucket, and is charged to the present one; what one of another grid lacks, to where it lies here.
  function window.settle(o, now, from, _, cost, actual, made)
    if from == 0 then from = floor(o, now) end
    if actual <= cost then
      window.cancel(o, now, from, cost - actual, made)
    elseif reach(o, floor(o, from)) > now and not before(o, made, now) then
      move(o, now, actual - cost)
      add(o, floor(o, from), actual - cost)
    end
  end

  function window.slow() return false end

  -- clear makes a window a new one.
  function window.clear(o, now)
    o.at, o.held, o.low, o.size, o.place, o.same, o.sum, o.peak, o.peakat = nil, nil, nil, nil, nil, nil, nil, nil, nil
    fold(o)
    if #o.bounds > 0 then unfold(o) end
    o.margin, o.raised, o.fades = 0, 0, 0
    window.widen(o, now)
    o.ends, o.full, o.fulllimit, o.learned, o.till, o.line, o.since, o.quiet, o.noted = 0, 0, 0, 0, 0, 0, 0, 0, 0
    o.most, o.dirty = o.limit, true
  end

  function window.stray(o, now, at, within, step, most)
    if math.max(o.ends, o.till, o.fades, o.noted, o.since) <= now then window.clear(o, now) end
    if o.fades <= now then o.margin, o.raised, o.fades = 0, 0, 0 end
    local alone = stray(o, now, at, within, step, most)
    o.dirty = true
    window.widen(o, now)
    return alone
  end

  function window.renew() end

  function window.release() end

  function window.learn(o, now, value, till)
    local before = o.most
    o.learned, o.till, o.most, o.dirty = math.max(1, value), till, o.limit, true
    if value <= 0 or value >= o.limit or till <= now then o.learned, o.till = 0, 0 end
    if o.till > 0 then o.most = o.learned end
    return o.most ~= before
  end

  -- claim: somebody remembers at least n calls of a bucket.
  function window.claim(o, now, from, n)
    from = floor(o, from)
    if reach(o, from) <= now then return end
    local missing = n - count(o, from)
    if missing <= 0 then return end
    tidy(o, now)
    add(o, from, missing)
  end

  function window.reset(o, now)
    reset(o, now, o.ends)
    window.clear(o, now)
  end

  -- spent returns when it was that the calls that the window counts went, as if it had been now, or will, and how many.
  function window.spent(o, now)
    local at, n, counts = {}, {}, (o.m + 1) * o.width
    if o.calendar then counts = counts + o.width / C.LongerBy end
    for i = o.low, o.size do
      if o.held[i] > 0 and o.at[i] + counts > now then at[#at + 1], n[#n + 1] = math.max(now, o.at[i]), o.held[i] end
    end
    return at, n
  end

  -- begin has an account count calls that went at some instants, or will.
  function window.begin(o, from, at, n, now)
    window.clear(o, now)
    window.loadstring(o, nil, now)
    o.mark, o.remembers, o.margin, o.raised, o.fades = 0, 0, from.margin, from.raised, from.fades
    window.widen(o, now)
    for i = 1, #at do add(o, floor(o, at[i]), n[i]) end
    o.dirty = false
  end

  function window.holds(o, now)
    local all = {}
    for i = o.low, o.size do
      if o.held[i] > 0 and reach(o, o.at[i]) > now then
        all[#all + 1] = o.at[i]
        all[#all + 1] = o.held[i]
      end
    end
    return all
  end

  -- full returns when the whole limit may go again.
  local function full(o, now)
    local at, i = now, o.size
    if o.most < o.limit then at = math.max(at, o.till) end
    while i >= o.low do
      local b = o.at[i]
      if o.held[i] > 0 then
        at = math.max(at, reach(o, b))
        break
      end
      i = i - 1
    end
    local k = after(o, floor(o, at))
    return at >= k - o.guard and k or at
  end

  function window.inspect(o, now)
    local nextat = window.earliest(o, now, now, 1, 0).at
    local k, backlog, remaining = floor(o, now), 0, 0
    for i = find(o, k + 1), o.size do backlog = backlog + o.held[i] end
    local most = o.part or o.most
    if now < after(o, k) - o.guard then remaining = math.max(0, most - fullest(o, k, math.huge)) end
    return remaining, nextat, backlog, 0, most, 0, marginat(o, now), full(o, now)
  end
end

return window
