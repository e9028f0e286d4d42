-- gcra.lua: the rate that remembers its gaps. The reasoning is in package engine, gcra.go.
--
-- KEYS   the account's key: a string, "tat" or "tat last pause", where
--          tat    the tail of free virtual time begins here; 0 for none
--          last   no gap ends after this; 0: there is no gap, and the second key means nothing
--          pause  nothing goes before; 0 for none
--        the gaps: a sorted set, member = begin, score = end, disjoint, all before tat
-- ARGV   burst, emission interval T in µs
-- TTL    the string: until tat and pause are past; the set: until its last gap is past

local gcra = {}
algorithms[1] = gcra

function gcra.parse()
  local o = { key = key(), gaps = key(), limit = arg(), t = arg() }
  o.tau = (o.limit - 1) * o.t
  return o
end

function gcra.loadstring(o, v)
  o.tat, o.last, o.pause = 0, 0, 0
  if not v then return end
  if not string.find(v, ' ', 1, true) then
    o.tat = number(v, o.key)
    return
  end
  local tat, last, pause = string.match(v, '^(%d+) (%d+) (%d+)$')
  o.tat, o.last, o.pause = number(tat, o.key), number(last, o.key), number(pause, o.key)
end

function gcra.paused(o) return o.pause end

function gcra.horizon() return math.huge end

-- fit places the call in a free piece, as early as it can, and remembers the place.
local function fit(o, now, e, n, a, b, member)
  local t = o.t
  local need, late = n * t, (n - 1) * t - o.tau
  local from = a > now and a or now
  local x = from > e and from or e
  if x > from then
    local r = (x - from) % t
    if r > 0 then
      local y = x + t - r
      if y + late <= e and y + need <= b then x = y end
    end
  end
  if x + need > b then return nil end
  o.start, o.from, o.to, o.member = x, from, b, member
  local s = x + late
  return s > e and s or e
end

function gcra.earliest(o, now, e, n, tail)
  if not tail and o.last > e then
    local skip, size = 0, 1
    repeat
      local found = redis.call('ZRANGEBYSCORE', o.gaps, e + n * o.t, '+inf', 'WITHSCORES', 'LIMIT', skip, size)
      for i = 1, #found, 2 do
        local s = fit(o, now, e, n, number(found[i], o.gaps), number(found[i + 1], o.gaps), found[i])
        if s then return s end
      end
      local done = #found < 2 * size
      skip, size = skip + size, 32
    until done
  end
  return fit(o, now, e, n, o.tat, math.huge, nil)
end

-- keep adds a gap.
local function keep(o, from, to)
  if o.last == 0 then redis.call('DEL', o.gaps) end
  redis.call('ZADD', o.gaps, to, from)
  if to > o.last then o.last = to end
  o.grown = true
end

-- forget drops what is past.
local function forget(o, now)
  if o.last > 0 then
    if o.last > o.tat then o.last = o.tat end
    if o.last <= now then
      redis.call('DEL', o.gaps)
      o.last, o.grown = 0, false
    else
      redis.call('ZREMRANGEBYSCORE', o.gaps, '-inf', now)
    end
  end
  if o.pause <= now then o.pause = 0 end
  o.dirty = true
end

function gcra.commit(o, now, s, n)
  local t = o.t
  local from, to = o.start, o.start + n * t
  if o.member then redis.call('ZREM', o.gaps, o.member) end
  if o.start - o.from >= t then keep(o, o.from, o.start) else from = o.from end
  if not o.member then
    o.tat = to
  elseif o.to - to >= t then
    keep(o, to, o.to)
  else
    to = o.to
  end
  forget(o, now)
  return from, to, o.start - s
end

function gcra.cancel(o, now, from, to)
  if to > o.tat then to = o.tat end
  if to <= now or from >= to then return end
  if o.last > 0 then
    local found = redis.call('ZRANGEBYSCORE', o.gaps, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
    local i, left, right = 1, nil, nil
    if found[1] and tonumber(found[2]) == from then
      left, i = found[1], 3
    end
    if found[i] then
      local begin = tonumber(found[i])
      if begin < to then return end
      if begin == to then right = i end
    end
    if left then
      redis.call('ZREM', o.gaps, left)
      from = number(left, o.gaps)
    end
    if right then
      redis.call('ZREM', o.gaps, found[right])
      to = number(found[right + 1], o.gaps)
    end
  end
  if to == o.tat then o.tat = from else keep(o, from, to) end
  forget(o, now)
end

function gcra.setpause(o, now, till)
  if till > o.pause then o.pause = till end
  o.dirty = true
end

function gcra.write(o, now)
  if not o.dirty then return end
  local ends = o.tat > o.pause and o.tat or o.pause
  if ends <= now then
    redis.call('DEL', o.key, o.gaps)
    return
  end
  local v = o.tat
  if o.last > 0 or o.pause > 0 then v = string.format('%.0f %.0f %.0f', o.tat, o.last, o.pause) end
  redis.call('SET', o.key, v, 'PX', ttl(ends - now))
  if o.grown then redis.call('PEXPIRE', o.gaps, ttl(o.last - now)) end
end

function gcra.inspect(o, now)
  local t, reach = o.t, now + o.tau
  local remaining, backlog, free, pause = 0, 0, 0, o.pause
  local function count(a, b)
    local from = a > now and a or now
    if from <= reach and b - from >= t then
      remaining = remaining + math.min(math.floor((b - from) / t), math.floor((reach - from) / t) + 1)
    end
    if b < math.huge then free = free + math.max(0, b - math.max(from, reach)) end
  end
  if o.last > now then
    local gaps = redis.call('ZRANGEBYSCORE', o.gaps, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES')
    for i = 1, #gaps, 2 do count(number(gaps[i], o.gaps), number(gaps[i + 1], o.gaps)) end
  end
  count(o.tat, math.huge)
  if o.tat > reach then backlog = math.floor(math.max(0, o.tat - reach - free - 1) / t) end
  local nextat = gcra.earliest(o, now, now > pause and now or pause, 1, false)
  if pause > now then remaining = 0 else pause = 0 end
  return remaining, nextat, backlog, pause
end
