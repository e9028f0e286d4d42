-- window.lua: at most so many calls per window. The reasoning is in package engine, window.go.
--
-- KEYS   the account's key: a hash of bucket begin (µs) = count, and
--          l  begin of the last bucket that ever held a call     e  when the last count stops to count
--          p  nothing goes before                                t  when past buckets are forgotten next
--          f  "until limit width": no bucket before until has room, for that limit and width
--          q  "limit until": the upstream allows so few before until
--          o and a bucket's begin  of its count, the tracked calls on their way
-- ARGV   limit, width of a bucket in µs, buckets before its own that a bucket counts, guard in µs, number of bounds, bounds
--        (begins of calendar windows in µs, ascending; none for windows that arithmetic can tell)
-- TTL    until e, p and q's until are past

local window = {}

function window.parse()
  local o = {
    key = key(), limit = arg(), width = arg(), m = arg(), guard = arg(), bounds = {}, run = window, counts = {}, changed = {},
    last = 0, ends = 0, pause = 0, tidied = 0, full = 0, fulllimit = 0, fullwidth = 0, learned = 0, till = 0, most = 0, ran = 0,
  }
  for i = 1, arg() do o.bounds[i] = arg() end
  o.most = o.limit
  return o
end

-- floor returns the begin of the bucket that holds t.
local function floor(o, t)
  local b = o.bounds
  local n = #b
  if n == 0 then return t - t % o.width end
  if t < b[1] then return t - (t - b[1]) % o.width end
  for i = 2, n do
    if b[i] > t then return b[i - 1] end
  end
  return t - (t - b[n]) % o.width
end

-- after returns the begin of the bucket after the one that begins at k.
local function after(o, k)
  for i = 1, #o.bounds do
    if o.bounds[i] > k then return o.bounds[i] end
  end
  return k + o.width
end

local function reach(o, k) return after(o, k) + o.m * o.width end

-- fetch reads the counts of the buckets from..to, and what is in fields besides.
local function fetch(o, from, to, fields)
  local n = #fields
  for b = from, to, o.width do fields[#fields + 1] = b end
  local values = redis.call('HMGET', o.key, unpack(fields))
  for i = n + 1, #fields do
    local b, v = fields[i], values[i]
    -- What this run has counted already, it knows better.
    if not o.counts[b] then o.counts[b] = v and number(v, o.key) or 0 end
  end
  return values
end

function window.load(o, now)
  local n, k, reaches = #o.bounds, floor(o, now), o.m * o.width
  if n > 0 and (now < o.bounds[1] or now >= o.bounds[n]) then stale = true end
  local v = fetch(o, k - reaches, k + reaches, { 'l', 'e', 'p', 't', 'f', 'q' })
  if v[1] then o.last = number(v[1], o.key) end
  if v[2] then o.ends = number(v[2], o.key) end
  if v[3] then o.pause = number(v[3], o.key) end
  if v[4] then o.tidied = number(v[4], o.key) end
  if v[5] then
    local full, limit, width = string.match(v[5], '^(%d+) (%d+) (%d+)$')
    o.full, o.fulllimit, o.fullwidth = number(full, o.key), number(limit, o.key), number(width, o.key)
  end
  if v[6] then
    local learned, till = string.match(v[6], '^(%d+) (%d+)$')
    o.learned, o.till = number(learned, o.key), number(till, o.key)
    if now < o.till and o.learned < o.limit then o.most = o.learned end
  end
  o.ran = math.max(o.ends, o.pause, o.till)
end

local function count(o, b)
  if b > o.last then return 0 end
  local c = o.counts[b]
  if not c then
    fetch(o, b, b + (2 * o.m + 7) * o.width, {})
    c = o.counts[b]
  end
  return c
end

-- room returns how many calls of cost n may go now: as many as the fullest of the windows that hold them.
function window.room(o, now, n)
  local k = floor(o, now)
  if o.pause > now or now >= after(o, k) - o.guard then return 0 end
  if o.fulllimit == o.most and o.fullwidth == o.width and floor(o, o.full) > k then return 0 end
  local m, w, sum, most = o.m, o.width, 0, 0
  for b = k - m * w, k - w, w do sum = sum + count(o, b) end
  for j = k, k + m * w, w do
    sum = sum + count(o, j)
    if sum > most then most = sum end
    sum = sum - count(o, j - m * w)
  end
  local left = o.most - most
  return left < n and 0 or (left - left % n) / n
end

-- tidy forgets the buckets that count no more, once per period.
local function tidy(o, now)
  if now < o.tidied then return end
  local k = floor(o, now)
  local oldest, gone = k - o.m * o.width, {}
  if o.tidied > 0 then
    local fields = redis.call('HKEYS', o.key)
    for i = 1, #fields do
      local b = tonumber((string.gsub(fields[i], '^o', '')))
      if b and b < oldest then gone[#gone + 1] = fields[i] end
    end
    for i = 1, #gone, 1000 do
      redis.call('HDEL', o.key, unpack(gone, i, math.min(i + 999, #gone)))
    end
    for b in pairs(o.counts) do
      if b < oldest then
        o.counts[b] = 0
        o.changed[b] = nil
      end
    end
  end
  o.tidied = reach(o, k)
  o.changed.t = o.tidied
end

-- add counts n calls in the bucket that begins at k.
local function add(o, k, n)
  local c = count(o, k) + n
  o.counts[k] = c
  o.changed[k] = c
  if k > o.last then
    o.last = k
    o.changed.l = k
  end
  local r = reach(o, k)
  if r > o.ends then
    o.ends = r
    o.changed.e = r
  end
end

-- take charges that many calls, which go now, and returns the charge and the slack of the first, and how many its bucket
-- then holds: the others follow.
function window.take(o, now, n, many, tracked)
  tidy(o, now)
  local k = floor(o, now)
  local seen = count(o, k) + n
  add(o, k, n * many)
  if tracked then redis.call('HINCRBY', o.key, string.format('o%.0f', k), n * many) end
  return k, tracked and -n or n, after(o, k) - o.guard - 1 - now, seen
end

function window.write(o, now)
  if next(o.changed) == nil then return end
  local fields = {}
  for f, v in pairs(o.changed) do
    fields[#fields + 1] = f
    fields[#fields + 1] = v
  end
  for i = 1, #fields, 1000 do
    redis.call('HSET', o.key, unpack(fields, i, math.min(i + 999, #fields)))
  end
  local ends = math.max(o.ends, o.pause, o.till)
  if ends <= now then
    redis.call('DEL', o.key)
  elseif ends ~= o.ran then
    redis.call('PEXPIRE', o.key, lasting(ends - now))
  end
end

function window.rest()
  function window.paused(o) return o.pause end

  function window.horizon(o)
    return #o.bounds > 0 and o.bounds[#o.bounds] or math.huge
  end

  -- over returns the last of the buckets k..k+m whose sum would exceed the limit with n more calls, and with
  -- one more; nil for none. A call that costs more than the upstream says it allows has a window to itself.
  local function over(o, k, n)
    local m, w, limit = o.m, o.width, o.most
    local forn, forone, sum = nil, nil, 0
    for b = k - m * w, k - w, w do sum = sum + count(o, b) end
    for j = k, k + m * w, w do
      sum = sum + count(o, j)
      if sum + n > math.max(limit, n) then forn = j end
      if sum + 1 > limit then forone = j end
      sum = sum - count(o, j - m * w)
    end
    return forn, forone
  end

  function window.earliest(o, now, e, n, round)
    local k = floor(o, e)
    if e >= after(o, k) - o.guard then k = after(o, k) end
    local frontier = floor(o, now)
    if o.fulllimit == o.most and o.fullwidth == o.width then
      frontier = math.max(frontier, floor(o, o.full))
    end
    if frontier > k then k = frontier end
    local looks = 1
    while true do
      if (round >= lastround or looks > maxlooks) and o.ends > 0 then
        local r = reach(o, o.last)
        if r > k then k = floor(o, r + o.width - 1) end
      end
      local forn, forone = over(o, k, n)
      if forone and k == frontier then frontier = after(o, forone) end
      if not forn then break end
      k, looks = after(o, forn), looks + 1
    end
    o.pick, o.frontier = k, frontier
    return k > e and k or e
  end

  -- open returns how many tracked calls of a bucket are on their way.
  local function open(o, k)
    local v = redis.call('HGET', o.key, string.format('o%.0f', k))
    return v and number(v, o.key) or 0
  end

  -- answered counts tracked calls as no longer on their way.
  local function answered(o, k, n)
    local have = open(o, k)
    if have > 0 and n > 0 then redis.call('HSET', o.key, string.format('o%.0f', k), math.max(0, have - n)) end
  end

  function window.commit(o, now, s, n, tracked)
    tidy(o, now)
    local k = o.pick
    add(o, k, n)
    if o.frontier > floor(o, now) and not (o.full == o.frontier and o.fulllimit == o.most and o.fullwidth == o.width) then
      o.full, o.fulllimit, o.fullwidth = o.frontier, o.most, o.width
      o.changed.f = string.format('%.0f %.0f %.0f', o.full, o.most, o.width)
    end
    local late = after(o, k) - o.guard - 1 - s
    if tracked then
      redis.call('HINCRBY', o.key, string.format('o%.0f', k), n)
      n = -n
    end
    return k, n, late, o.counts[k]
  end

  function window.cancel(o, now, from, n)
    if reach(o, from) <= now then return end
    local c = count(o, from)
    if c == 0 then return end
    if n < 0 then
      n = -n
      answered(o, from, n)
    end
    c = c > n and c - n or 0
    o.counts[from] = c
    o.changed[from] = c
    local free = math.max(0, from - o.m * o.width)
    if free < o.full then
      o.full = free
      o.changed.f = string.format('%.0f %.0f %.0f', free, o.fulllimit, o.fullwidth)
    end
  end

  function window.settle(o, now, from, _, cost, actual)
    if actual <= cost then
      window.cancel(o, now, from, cost - actual)
    elseif reach(o, from) > now then
      add(o, from, actual - cost)
    end
  end

  function window.setpause(o, now, till)
    if till > o.pause then
      o.pause = till
      o.changed.p = till
    end
  end

  function window.resume(o)
    if o.pause > 0 then
      o.pause = 0
      o.changed.p = 0
    end
  end

  function window.slow() return false end

  function window.renew() end

  function window.release() end

  function window.learn(o, now, value, till)
    local before = o.most
    o.learned, o.till, o.most = math.max(1, value), till, o.limit
    if value <= 0 or value >= o.limit or till <= now then o.learned, o.till = 0, 0 end
    if o.till > 0 then o.most = o.learned end
    o.changed.q = string.format('%.0f %.0f', o.learned, o.till)
    return o.most ~= before
  end

  -- remaining: until there is more, the limit is what was spent and what is left; if that is not known, the present
  -- bucket is charged with what others must have spent.
  function window.remaining(o, now, bucket, left, done, till)
    local k, spent = floor(o, now), 0
    for b = k - o.m * o.width, k, o.width do spent = spent + count(o, b) end
    if bucket ~= 0 then answered(o, bucket, done) end
    local busy = open(o, k)
    if till > now then
      local allowed = math.max(1, spent - busy + left)
      if allowed >= o.most then return false end
      o.learned, o.till, o.most = allowed, till, allowed
      o.changed.q = string.format('%.0f %.0f', allowed, till)
      return true
    end
    local n = o.most - left + busy - spent
    if n <= 0 or o.m == 0 and bucket ~= 0 and bucket ~= k then return false end
    tidy(o, now)
    add(o, k, n + math.min(busy, math.floor(o.most * 60 / 10000))) -- and what they spend until we hear of it
    return true
  end

  -- claim: somebody remembers at least n calls of a bucket.
  function window.claim(o, now, from, n)
    if reach(o, from) <= now then return end
    local missing = n - count(o, from)
    if missing <= 0 then return end
    tidy(o, now)
    add(o, from, missing)
  end

  function window.reset(o)
    redis.call('DEL', o.key)
    o.counts, o.changed = {}, {}
    o.last, o.ends, o.pause, o.tidied, o.full, o.fulllimit, o.fullwidth = 0, 0, 0, 0, 0, 0, 0
    o.learned, o.till, o.most, o.ran = 0, 0, o.limit, 0
  end

  function window.inspect(o, now)
    local pause, e = o.pause, now
    if pause > now then e = pause else pause = 0 end
    local nextat = window.earliest(o, now, e, 1, 0)
    local k, backlog, remaining, m, w = floor(o, now), 0, 0, o.m, o.width
    local all = redis.call('HGETALL', o.key)
    for i = 1, #all, 2 do
      local b = tonumber(all[i])
      if b and b > k then backlog = backlog + number(all[i + 1], o.key) end
    end
    if pause == 0 and now < after(o, k) - o.guard then
      remaining = o.most
      for j = k, k + m * w, w do
        local sum = 0
        for b = j - m * w, j, w do sum = sum + count(o, b) end
        remaining = math.max(0, math.min(remaining, o.most - sum))
      end
    end
    return remaining, nextat, backlog, pause, o.most, 0
  end
end

return window
