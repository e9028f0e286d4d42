-- gcra.lua: the rate that remembers its gaps. The reasoning is in package engine, gcra.go.
--
-- KEYS   the account's key: a string, "tat", "tat last widest pause" or "tat last widest pause learned until share since
--        slowed", where
--          tat      the tail of free virtual time begins here; 0 for none
--          last     no gap ends after this; 0: there is no gap, and the second key means nothing
--          widest   no gap is longer than this, so that a call that fits nowhere need not look at all of them
--          pause    nothing goes before; 0 for none
--          learned  the emission interval that the upstream allows before until; 0 for none
--          share    of the rate, in millionths, that held when since came and grows from then on; 0: the whole rate
--          slowed   when the last refusal was heeded
--        the gaps: a sorted set, member = begin, score = end, disjoint, all before tat
--        if calls stand in line (algorithm 5): the line, the waits and of fair shares the flows, as in line.lua
-- ARGV   burst, emission interval T in µs, and for a rate that adapts (algorithm 3): floor and decrease in millionths, hold
--        and recovery in µs; algorithm 5 has all of these, 0 if it does not adapt, and then 1 for a lane, which comes right after
--        the rate that it is a part of, or 2 for fair shares
-- TTL    the string: until tat, pause and until are past and the share is whole; the set: until its last gap is past

local gcra = {}

function gcra.parse(algorithm)
  local o = { key = key(), gaps = key(), limit = arg(), t = arg(), tat = 0, plain = true, dirty = false, run = gcra }
  if algorithm >= 3 then o.floor, o.decrease, o.hold, o.recovery = arg(), arg(), arg(), arg() end
  if algorithm == 5 then
    if o.recovery == 0 then o.recovery = nil end
    o.line, o.waits, o.kind = key(), key(), 'lane'
    if arg() == 2 then o.flows, o.kind = key(), 'fair' end
  end
  return o
end

-- loadstring reads the string. An account is plain as long as its tail is all that there is to know.
function gcra.loadstring(o, v, now)
  if not v then
    return
  elseif string.find(v, ' ', 1, true) then
    o.plain = false
    if not gcra.earliest then gcra.rest() end
    gcra.loadmore(o, v, now)
  else
    o.tat = number(v, o.key)
  end
end

-- room returns how many calls of cost n may go now, if that is plain to see.
function gcra.room(o, now, n)
  if not o.plain then return 0 end
  local from, t = o.tat > now and o.tat or now, o.t
  local more = now + (o.limit - n) * t - from
  if more < 0 then return 0 end
  return (more - more % (n * t)) / (n * t) + 1
end

-- take charges that many calls, which go now, and returns the charge of the first: the others follow.
function gcra.take(o, now, n, many)
  local from, need = o.tat > now and o.tat or now, n * o.t
  o.tat = from + many * need
  o.dirty = true
  return from, from + need
end

function gcra.write(o, now)
  if not o.dirty then
    return
  elseif o.plain then
    redis.call('SET', o.key, o.tat, 'PX', lasting(o.tat - now))
  else
    gcra.writemore(o, now)
  end
end

function gcra.rest()
  -- shareat returns the share of the rate that holds at now.
  local function shareat(o, now)
    if not o.recovery or o.share == 0 or now - o.since >= o.recovery then return 1000000 end
    if now <= o.since then return o.share end
    local grown = (now - o.since) * 1000000
    return math.min(1000000, o.share + (grown - grown % o.recovery) / o.recovery)
  end

  -- pace sets the emission interval that holds at now.
  local function pace(o, now)
    o.step = o.t
    if now < o.till and o.learned > o.t then o.step = o.learned end
    local f = shareat(o, now)
    if f < 1000000 then
      local n = o.t * 1000000 + f - 1
      o.step = math.max(o.step, (n - n % f) / f)
    end
  end

  -- whole returns when the share is whole again.
  local function whole(o)
    if o.share == 0 or not o.recovery then return 0 end
    local n = (1000000 - o.share) * o.recovery
    return o.since + (n - n % 1000000) / 1000000 + 1
  end

  -- unfold makes an account one of which there may be more to know.
  function gcra.unfold(o)
    if o.tau then return end
    o.last, o.widest, o.pause, o.learned, o.till, o.share, o.since, o.slowed = 0, 0, 0, 0, 0, 0, 0, 0
    o.tau, o.step = (o.limit - 1) * o.t, o.t
  end

  function gcra.loadmore(o, v, now)
    gcra.unfold(o)
    local tat, last, widest, pause, more = string.match(v, '^(%d+) (%d+) (%d+) (%d+)(.*)$')
    o.tat, o.last, o.widest, o.pause = number(tat, o.key), number(last, o.key), number(widest, o.key), number(pause, o.key)
    if more ~= '' then
      local learned, till, share, since, slowed = string.match(more, '^ (%d+) (%d+) (%d+) (%d+) (%d+)$')
      o.learned, o.till = number(learned, o.key), number(till, o.key)
      o.share, o.since, o.slowed = number(share, o.key), number(since, o.key), number(slowed, o.key)
      pace(o, now)
    end
  end

  function gcra.paused(o) return o.pause end

  function gcra.release(o, id) lines().leave(o, id) end

  function gcra.renew() end

  function gcra.horizon() return math.huge end

  -- before returns how long before its slot the interval of a call begins that costs more than the burst.
  local function before(o, n) return math.max(0, (n - 1) * o.t - o.tau) end

  -- fit places the call in a free piece, as early as it can, and remembers the place.
  local function fit(o, now, e, n, a, b, member)
    local t = o.t
    local need, late = n * o.step, (n - 1) * t - o.tau
    local from = a > now and a or now
    local x = math.max(from, e - before(o, n))
    if x > from then
      local r = (x - from) % t
      if r > 0 then
        local y = x + t - r
        if y + late <= e and y + need <= b then x = y end
      end
    end
    if x + need > b then return nil end
    o.start, o.need, o.from, o.to, o.member = x, need, from, b, member
    local s = x + late
    return s > e and s or e
  end

  function gcra.earliest(o, now, e, n, tail)
    if not tail and o.last > e and n * o.step <= o.widest then
      local skip, size = 0, 1
      repeat
        local found = redis.call('ZRANGEBYSCORE', o.gaps, e - before(o, n) + n * o.step, '+inf', 'WITHSCORES', 'LIMIT', skip, size)
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
    if o.last == 0 then
      redis.call('DEL', o.gaps)
      o.widest = 0
    end
    redis.call('ZADD', o.gaps, to, from)
    if to > o.last then o.last = to end
    if to - from > o.widest then o.widest = to - from end
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
    if o.till <= now then o.learned, o.till = 0, 0 end
    if o.share > 0 and whole(o) <= now then o.share, o.since, o.slowed = 0, 0, 0 end
    if o.tat <= now and o.pause == 0 and o.till == 0 and o.share == 0 then o.tat = 0 end
    o.dirty, o.plain = true, false
  end

  function gcra.commit(o, now, s)
    local t = o.t
    local from, to = o.start, o.start + o.need
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
    return from, to, math.max(0, o.start - s)
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

  function gcra.settle(o, now, from, to, cost, actual)
    if actual <= cost then
      local unit = (to - from - (to - from) % cost) / cost
      gcra.cancel(o, now, to - unit * (cost - actual), to)
      return
    end
    o.tat = math.max(o.tat, now) + math.min((actual - cost) * o.step, 315360000000000)
    forget(o, now)
  end

  function gcra.setpause(o, now, till)
    if till > o.pause then o.pause = till end
    o.dirty, o.plain = true, false
  end

  function gcra.resume(o, now)
    o.pause = 0
    forget(o, now)
  end

  function gcra.slow(o, now, at)
    forget(o, now)
    if not o.recovery or o.slowed > 0 and (at <= o.slowed or now < o.slowed + 1000000) then return false end
    local f = shareat(o, now) * o.decrease
    f = (f - f % 1000000) / 1000000
    if now > o.since then f = math.max(f, o.share) end
    o.share, o.since, o.slowed = math.max(f, o.floor), now + o.hold, now
    pace(o, now)
    return true
  end

  function gcra.learn(o, now, value, till)
    forget(o, now)
    local before = o.step
    o.learned, o.till = value, till
    if value <= o.t or till <= now then o.learned, o.till = 0, 0 end
    pace(o, now)
    return o.step ~= before
  end

  -- remaining: of the burst, only so much is left.
  function gcra.remaining(o, now, _, left)
    forget(o, now)
    local till, changed = now + math.max(0, o.limit - left) * o.t, false
    if till <= now then return false end
    if o.last > 0 then
      changed = redis.call('ZREMRANGEBYSCORE', o.gaps, '-inf', till) > 0
      local first = redis.call('ZRANGEBYSCORE', o.gaps, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if first[1] and number(first[1], o.gaps) < till then
        changed = true
        redis.call('ZREM', o.gaps, first[1])
        local ends = number(first[2], o.gaps)
        if ends - till >= o.t then keep(o, till, ends) end
      end
    end
    if o.tat < till then o.tat, changed = till, true end
    return changed
  end

  -- claim: somebody remembers from..to as charged.
  function gcra.claim(o, now, from, to)
    forget(o, now)
    from = math.max(from, now)
    if from >= to then return end
    if o.last > from then
      local met = redis.call('ZRANGEBYSCORE', o.gaps, '(' .. string.format('%.0f', from), '+inf', 'WITHSCORES')
      for i = 1, #met, 2 do
        local a, b = number(met[i], o.gaps), number(met[i + 1], o.gaps)
        if a >= to then break end
        redis.call('ZREM', o.gaps, met[i])
        if from - a >= o.t then keep(o, a, from) end
        if b - to >= o.t then keep(o, to, b) end
      end
    end
    if to > o.tat then
      local left = math.max(o.tat, now)
      if from - left >= o.t then keep(o, left, from) end
      o.tat = to
    end
  end

  function gcra.reset(o)
    redis.call('DEL', o.gaps)
    if o.line then redis.call('DEL', o.line, o.waits) end
    if o.flows then redis.call('DEL', o.flows) end
    o.tat, o.last, o.widest, o.pause, o.learned, o.till, o.share, o.since, o.slowed, o.step = 0, 0, 0, 0, 0, 0, 0, 0, 0, o.t
    o.dirty, o.plain, o.grown = true, false, false
  end

  function gcra.writemore(o, now)
    local ends = math.max(o.tat, o.pause, o.till, whole(o))
    if ends <= now then
      redis.call('DEL', o.key, o.gaps)
      return
    end
    local v = o.tat
    if o.till > 0 or o.share > 0 then
      v = string.format(
        '%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f',
        o.tat, o.last, o.widest, o.pause, o.learned, o.till, o.share, o.since, o.slowed)
    elseif o.last > 0 or o.pause > 0 then
      v = string.format('%.0f %.0f %.0f %.0f', o.tat, o.last, o.widest, o.pause)
    end
    redis.call('SET', o.key, v, 'PX', lasting(ends - now))
    if o.grown then redis.call('PEXPIRE', o.gaps, lasting(o.last - now)) end
  end

  function gcra.inspect(o, now)
    local t, reach = o.t, now + o.tau
    pace(o, now)
    local step = o.step
    local remaining, backlog, free, pause = 0, 0, 0, o.pause
    local function count(a, b)
      local from = a > now and a or now
      if from <= reach and b - from >= step then
        remaining = remaining + math.min(math.floor((b - from) / step), math.floor((reach - from) / step) + 1)
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
    return remaining, nextat, backlog, pause, step, o.line and lines().length(o, now) or 0
  end
end

return gcra
