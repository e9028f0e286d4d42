-- gcra.lua: the rate that remembers its gaps. The reasoning is in package engine, gcra.go.
--
-- KEYS   key: of the account: a string, "tat", "tat last widest", "tat last widest learned until share since
--        slowed", or all these and " reset remembers", or all these and " margin raised fades", and if it keeps a log of starts, then
--        " /unlogged kept tau" after it, where
--          tat      the tail of free virtual time begins here; 0 for none
--          last     no gap ends after this; 0: there is no gap, and the second key means nothing
--          widest   no gap is longer than this, so that a call that fits nowhere need not look at all of them
--          learned  the emission interval that the upstream allows before until; 0 for none
--          share    of the rate, in millionths, that held when since came and grows from then on; 0: the whole rate
--          slowed   when the last refusal was heeded
--          reset    what was charged by then is not given back, before remembers; 0 for none
--          margin   by how much longer it took its period to be, in millionths, when raised came; less from then on, none after fades
--          unlogged there may have been calls before then that the log lacks
--          kept     the length of a window, in µs
--          tau      the tolerance, in µs: the log is one of a limit that has both
--        gaps: a sorted set, member = begin, score = end, disjoint, all before tat
--        starts: if its windows are exact (algorithms 6 and 7), as in starts.lua
--        queue: if calls are queued for it (algorithms 5 and 7), as in queue.lua
--        waits: if calls are queued for it, as in queue.lua
--        flows: if it is shared fairly, as in queue.lua
-- ARGV   limit: the burst
--        t: the emission interval T (µs)
--        most: if its windows are exact (algorithms 6 and 7): how many calls may start in one
--        within: if its windows are exact: its length (µs)
--        floor, decrease: if it adapts (algorithms 3, 5 and 7; 0 if it does not): millionths
--        hold, recovery: if it adapts: µs
--        queue: if calls are queued for it (algorithms 5 and 7): 1 for a lane, which comes right after the rate that it is a part of,
--        2 for fair shares, or 0 for neither
-- TTL    the string: until tat and until are past and the share is whole, and with a log, the later of tat and unlogged
--        is so long past as a start is kept; the gaps: until the last one is past

local gcra = {}

function gcra.parse(algorithm, account)
  local burst, t = ARGV[nextarg], ARGV[nextarg + 1]
  nextarg = nextarg + 2
  local o = {
    key = account, gaps = key(), limit = tonumber(burst), t = tonumber(t), unit = 'r' .. t .. ' ',
    tat = 0, plain = true, dirty = false, run = gcra,
  }
  o.own = o.unit
  if algorithm == C.Exact or algorithm == C.ExactQueued then
    o.log, o.starts, o.most, o.within = logs(), key(), arg(), arg()
    o.wide = o.within
  end
  if algorithm ~= C.GCRA and algorithm ~= C.Exact then o.floor, o.decrease, o.hold, o.recovery = arg(), arg(), arg(), arg() end
  if algorithm == C.Queued or algorithm == C.ExactQueued then
    if o.recovery == 0 then o.recovery = nil end
    local queue = arg()
    if queue == C.LaneQueue then
      o.queue, o.waits, o.kind = key(), key(), 'lane'
    elseif queue == C.FairQueue then
      o.queue, o.waits, o.flows, o.kind = key(), key(), key(), 'fair'
    elseif queue ~= C.NoQueue then
      unknown('queue', queue)
    end
  end
  return o
end

-- loadstring reads the string. An account is plain while its tail is all that is known.
function gcra.loadstring(o, v, now)
  if not v then
    return
  end
  if o.log then
    local tat, unlogged, kept, tau = string.match(v, '^(%d+) /(%d+) (%d+) (%d+)$')
    if tat then
      o.tat, o.unlogged, o.kept, o.logtau = number(tat, o.key), number(unlogged, o.key), number(kept, o.key), number(tau, o.key)
      o.whole = o.kept == o.within and o.logtau == (o.limit - 1) * o.t
      if o.whole and now >= o.unlogged + o.within then return end
    end
    o.plain = false
    if not gcra.earliest then gcra.rest() end
    gcra.loadmore(o, v, now)
  elseif string.find(v, ' ', 1, true) then
    o.plain = false
    if not gcra.earliest then gcra.rest() end
    gcra.loadmore(o, v, now)
  else
    o.tat = number(v, o.key)
  end
end

-- change sees to an account that is kept under another emission interval.
--   opens  it, if the account is to be opened for a faster limit: see package engine, gcra.go
function gcra.change(o, t, now)
  if o.tat <= now then return end
  if o.t > t then
    o.unit = string.format('r%.0f ', t)
  elseif 2 * o.t <= t then
    o.opens = t
  end
end

-- room returns how many calls of cost n may go now, if that is plain to see, and whether the log, if there is one, would hold
-- nothing else that matters: take needs to know. It changes nothing.
function gcra.room(o, now, n)
  if not o.plain then return 0 end
  local from, t = o.tat > now and o.tat or now, o.t
  local more = now + (o.limit - n) * t - from
  if more < 0 then return 0 end
  local many, alone = (more - more % (n * t)) / (n * t) + 1, false
  if o.log then
    local free
    free, alone = o.log.free(o, now)
    many = math.min(many, math.max(0, (free - free % n) / n))
  end
  return many, alone
end

-- take charges that many calls, which go now, and returns the charge of the first: the others follow. If its windows are
-- exact, they have no slack.
function gcra.take(o, now, n, many, _, alone)
  local from, need = o.tat > now and o.tat or now, n * o.t
  if o.log then
    o.log.keep(o)
    o.log.take(o, now, n, many, from)
    if alone then o.expire = true end
  end
  local was = o.tat
  o.tat = from + many * need
  if o.log then o.log.tidy(o, was, now) end
  o.dirty = true
  return from, from + need, o.log and 0
end

-- text returns the state as it is written, and until when it matters.
function gcra.text(o)
  if not o.plain then return gcra.textmore(o) end
  if o.log then return string.format('%.0f /%.0f %.0f %.0f', o.tat, o.unlogged, o.kept, o.logtau), o.tat + o.kept end
  return string.format('%.0f', o.tat), o.tat
end

function gcra.write(o, now)
  if not o.dirty then
    if o.opened then redis.call('ZREM', o.gaps, unpack(o.opened)) end
    return
  end
  local text, ends = gcra.text(o)
  save(o, text, ends, now)
  if ends <= now then
    redis.call('UNLINK', o.gaps)
    if o.log then redis.call('UNLINK', o.starts) end
    return
  end
  if o.kept and o.log then o.log.write(o, now) end
  if o.grown then redis.call('PEXPIRE', o.gaps, lasting(o.last - now)) end
end

function gcra.rest()
  -- shareat returns the share of the rate that holds at now.
  local function shareat(o, now)
    if not o.recovery or o.share == 0 or now - o.since >= o.recovery then return C.WholeShare end
    if now <= o.since then return o.share end
    local grown = (now - o.since) * C.WholeShare
    return math.min(C.WholeShare, o.share + (grown - grown % o.recovery) / o.recovery)
  end

  -- pace sets the emission interval that holds at now, and with the margin that and the length of a window.
  local function pace(o, now)
    o.pace = o.t
    if now < o.till and o.learned > o.t then o.pace = o.learned end
    local f = shareat(o, now)
    if f < C.WholeShare then
      local n = o.t * C.WholeShare + f - 1
      o.pace = math.max(o.pace, (n - n % f) / f)
    end
    local share = marginat(o, now)
    o.step = widened(o.pace, share)
    if o.log then o.wide = widened(o.within, share) end
  end

  -- whole returns when the share is whole again.
  local function whole(o)
    if o.share == 0 or not o.recovery then return 0 end
    local n = (C.WholeShare - o.share) * o.recovery
    return o.since + (n - n % C.WholeShare) / C.WholeShare + 1
  end

  -- unfold makes an account one that may have more than a tail.
  function gcra.unfold(o)
    if o.tau then return end
    o.last, o.widest, o.learned, o.till, o.share, o.since, o.slowed = 0, 0, 0, 0, 0, 0, 0
    o.mark, o.remembers, o.margin, o.raised, o.fades = 0, 0, 0, 0, 0
    o.tau, o.pace, o.step = (o.limit - 1) * o.t, o.t, o.t
  end

  function gcra.loadmore(o, v, now)
    gcra.unfold(o)
    local base, unlogged, kept, tau = string.match(v, '^(.*) /(%d+) (%d+) (%d+)$')
    if base then
      v, o.unlogged, o.kept, o.logtau = base, number(unlogged, o.key), number(kept, o.key), number(tau, o.key)
      o.whole = o.kept == o.within and o.logtau == o.tau
    end
    if not string.find(v, ' ', 1, true) then
      o.tat = number(v, o.key)
      return
    end
    local tat, last, widest, more = string.match(v, '^(%d+) (%d+) (%d+)(.*)$')
    o.tat, o.last, o.widest = number(tat, o.key), number(last, o.key), number(widest, o.key)
    if more ~= '' then
      local learned, till, share, since, slowed, forgot = string.match(more, '^ (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
      o.learned, o.till = number(learned, o.key), number(till, o.key)
      o.share, o.since, o.slowed = number(share, o.key), number(since, o.key), number(slowed, o.key)
      if forgot ~= '' then
        local mark, remembers, wide = string.match(forgot, '^ (%d+) (%d+)(.*)$')
        o.mark, o.remembers = number(mark, o.key), number(remembers, o.key)
        if wide ~= '' then
          local margin, raised, fades = string.match(wide, '^ (%d+) (%d+) (%d+)$')
          o.margin, o.raised, o.fades = number(margin, o.key), number(raised, o.key), number(fades, o.key)
        end
      end
      pace(o, now)
    end
  end

  function gcra.release(o, id) queues().leave(o, id) end

  function gcra.renew() end

  function gcra.horizon() return math.huge end

  -- fit places the call in a free piece a..b, the gap of that member or the tail, as early as it can; nil if the piece does not
  -- hold it.
  local function fit(o, now, e, w, a, b, member)
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
    return { at = s > e and s or e, begin = x, from = from, to = b, member = member }
  end

  -- search places a call of cost n that goes at e or later, as early as it can; strictly: with no tolerance, nor for those behind
  -- it.
  local function search(o, now, e, n, round, strictly)
    local t, need = o.t, n * o.step
    local w = { lead = 0, room = need, late = (n - 1) * t - o.tau }
    w.before = math.max(0, w.late)
    if strictly then w.lead, w.room, w.late = (n - 1) * t, math.max(need, n * t + o.tau), w.before end
    local length = w.room -- of the gaps that are tried
    for _ = C.ManyRounds, round do
      if length <= o.widest then length = 2 * length end
    end
    if round < C.LastRound and o.last > e and length <= o.widest then
      local skip, size, looks, done = 0, 1, 0, false
      repeat
        local found = redis.call('ZRANGEBYSCORE', o.gaps, e - w.before + w.room, '+inf', 'WITHSCORES', 'LIMIT', skip, size)
        for i = 1, #found, 2 do
          if looks == C.MaxLooks then
            looks, length = 0, 2 * length
            if length > o.widest then
              done = true
              break
            end
          end
          looks, spent = looks + 1, spent + 1 / 16
          local a, b = number(found[i], o.gaps), number(found[i + 1], o.gaps)
          local place = b - a >= length and fit(o, now, e, w, a, b, found[i])
          if place then return place end
        end
        done = done or #found < 2 * size
        skip, size = skip + size, 32
      until done
    end
    return fit(o, now, e, w, o.tat, math.huge, nil)
  end

  -- earliest returns where a call would be placed: at, begin of its interval, from..to the free piece that holds it, member of
  -- that if it is a gap. It changes nothing.
  function gcra.earliest(o, now, e, n, round)
    if not o.log then return search(o, now, e, n, round, false) end
    -- Its windows are exact: what the log refuses goes later; after some work the tail alone decides.
    local logged, work = (o.whole and o.unlogged or o.tat) + o.wide, 0
    while true do
      local strictly = e < logged
      local place = search(o, now, e, n, work < C.MaxCrowded and round or C.LastRound, strictly)
      local at, more = o.log.crowded(o, place.at, n)
      spent = spent + 1 + more / 16
      if strictly and place.at > logged then
        at = logged
      elseif at <= place.at then
        return place
      end
      e, work = at, work + more
    end
  end

  -- logged sees to the log before something is charged or given back.
  local function logged(o)
    if o.log then o.log.keep(o) else o.kept = nil end
  end

  -- lasts returns until when the account knows of calls that matter.
  local function lasts(o)
    return o.kept and math.max(o.tat, o.unlogged) + o.kept or o.tat
  end

  -- keep adds a gap.
  local function keep(o, from, to)
    if o.last == 0 then
      redis.call('UNLINK', o.gaps)
      o.widest = 0
    end
    redis.call('ZADD', o.gaps, to, from)
    if to > o.last then o.last = to end
    if to - from > o.widest then o.widest = to - from end
    o.grown = true
  end

  -- open makes gaps between the cells of an account from now to its first gap. Unless something is charged or reported, write removes them.
  function gcra.open(o, now)
    local t, ends = o.opens, o.tat
    local first = o.last > now and redis.call('ZRANGEBYSCORE', o.gaps, '(' .. string.format('%.0f', now), '+inf', 'LIMIT', 0, 1)[1]
    if first then ends = number(first, o.gaps) else o.widest = 0 end
    if ends <= now then return end
    local n, all = ends - now + t - 1, {}
    n = (n - n % t) / t
    for i = 1, math.min(n, C.MaxOpened) do
      all[i] = ends - (n - i + 1) * t + o.t
      keep(o, all[i], all[i] + t - o.t)
    end
    o.opened, o.kept, o.whole, o.plain = all, nil, false, false
  end

  -- forget drops what is past.
  local function forget(o, now)
    if o.last > 0 then
      if o.last > o.tat then o.last = o.tat end
      if o.last <= now then
        redis.call('UNLINK', o.gaps)
        o.last, o.grown = 0, false
      elseif not o.swept then -- no gap that is past comes to be in this run
        sweep(o.gaps, now)
        o.swept = true
      end
    end
    if o.till <= now then o.learned, o.till = 0, 0 end
    if o.share > 0 and whole(o) <= now then o.share, o.since, o.slowed = 0, 0, 0 end
    if o.remembers <= now then o.mark, o.remembers = 0, 0 end
    if o.fades <= now then o.margin, o.raised, o.fades = 0, 0, 0 end
    if lasts(o) <= now and o.till == 0 and o.share == 0 and o.fades == 0 then
      o.tat, o.kept, o.whole = 0, nil, false
    end
    if o.tat <= now then o.unit = o.own end
    o.dirty, o.plain = true, false
  end

  -- commit charges a call of cost n to its placement.
  function gcra.commit(o, now, place, n)
    local t, begin, was = o.t, place.begin, o.tat
    logged(o)
    local from, to = begin, begin + n * o.step
    if place.member then redis.call('ZREM', o.gaps, place.member) end
    if begin - place.from >= t then keep(o, place.from, begin) else from = place.from end
    if not place.member then
      o.tat = to
    elseif place.to - to >= t then
      keep(o, to, place.to)
    else
      to = place.to
    end
    if o.log then
      o.log.add(o, place.at, n, begin)
      o.log.tidy(o, was, now)
      o.expire = true
    end
    forget(o, now)
    return from, to, o.log and 0 or math.max(0, begin - place.at)
  end

  -- giveback gives back what a charge begin..to has from an instant on.
  local function giveback(o, now, begin, from, to)
    local first, ends = from, to
    if to > o.tat then to = o.tat end
    if to <= now or from >= to then return end
    local back = to
    if o.last > 0 then
      local found = redis.call('ZRANGEBYSCORE', o.gaps, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
      local i, left, right = 1, nil, nil
      if found[1] and tonumber(found[2]) == from then
        left, i = found[1], 3
      end
      if found[i] then
        local a = tonumber(found[i])
        if a < to then return end
        if a == to then right = i end
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
    logged(o)
    if o.log then o.log.remove(o, begin, ends, first, back) end
    if back == o.tat then o.tat = from else keep(o, from, to) end -- a gap may end where the tail begins
    forget(o, now)
  end

  function gcra.cancel(o, now, from, to, made)
    if not before(o, made, now) then giveback(o, now, from, from, to) end
  end

  -- pack moves from..till, which is what a call that has gone keeps of its charge from..to, into an earlier gap, and returns from where on the
  -- charge is free then.
  local function pack(o, now, from, to, till)
    if from <= now or till <= from or to > o.tat or o.last == 0 then return till end
    local after = '(' .. string.format('%.0f', now)
    local found = redis.call('ZRANGEBYSCORE', o.gaps, after, from, 'WITHSCORES', 'LIMIT', 0, C.MaxLooks)
    for i = 1, #found, 2 do
      local rest, ends = math.max(number(found[i], o.gaps), now) + till - from, number(found[i + 1], o.gaps)
      if ends == from or ends >= rest then
        redis.call('ZREM', o.gaps, found[i])
        o.dirty, o.plain = true, false
        if ends == from then return rest end
        if ends - rest >= o.t then keep(o, rest, ends) end
        return from
      end
    end
    return till
  end

  function gcra.settle(o, now, from, to, cost, actual, made)
    if before(o, made, now) then return end
    if actual <= cost then
      local rest = math.max(from, to - o.t * (cost - actual))
      if made > 0 and not o.log and o.pace == o.t then rest = pack(o, now, from, to, rest) end
      giveback(o, now, from, o.log and o.log.last(o, from, to, cost - actual) or rest, to)
      return
    end
    logged(o)
    local tail = math.max(o.tat, now)
    o.tat, o.expire = tail + math.min((actual - cost) * o.step, C.MaxDebt), true
    if o.log then o.log.debt(o, now, actual - cost, tail) end
    forget(o, now)
  end

  function gcra.slow(o, now, at)
    forget(o, now)
    if not o.recovery or o.slowed > 0 and (at <= o.slowed or now < o.slowed + C.SameEpisode) then return false end
    local f = shareat(o, now) * o.decrease
    f = (f - f % C.WholeShare) / C.WholeShare
    if now > o.since then f = math.max(f, o.share) end
    o.share, o.since, o.slowed = math.max(f, o.floor), now + o.hold, now
    pace(o, now)
    return true
  end

  -- fallback heeds a refusal while the share grows, and reports whether it did, and whether the rate is slower now: see fallBack in pace.go.
  local function fallback(o, now, at, within)
    if not o.recovery or o.share == 0 then return false end
    if at <= o.slowed then return true, false end
    local share
    if now > o.since then
      local one = math.floor(C.WholeShare * o.t / math.max(within, o.t))
      share = math.max(o.share, shareat(o, now - (within - within % 2) / 2) - one)
    elseif now < o.slowed + within then
      share = math.max(o.floor, math.floor(o.share * C.LittleLess / C.WholeShare))
    else
      return false
    end
    o.share, o.since, o.slowed = share, now + o.hold, now
    return true, true
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
    local before = o.pace
    o.learned, o.till = value, till
    if value <= o.t or till <= now then o.learned, o.till = 0, 0 end
    pace(o, now)
    return o.pace ~= before
  end

  -- meeting returns the gap that holds something right after an instant, or else the first one after it.
  local function meeting(o, at)
    local found = redis.call('ZRANGEBYSCORE', o.gaps, '(' .. string.format('%.0f', at), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not found[1] then return math.huge, math.huge end
    return number(found[1], o.gaps), number(found[2], o.gaps), found[1]
  end

  -- claim: somebody remembers from..to as charged. Of the gaps that it meets, only the first and the last are read: those in between go as
  -- they are. It returns whether any future part of it was free.
  function gcra.claim(o, now, from, to)
    forget(o, now)
    logged(o)
    local begin, met = from, false
    from = math.max(from, now)
    if from >= to then
      if o.log then
        o.log.claim(o, now, begin, to, false)
        forget(o, now)
      end
      return false
    end
    if o.last > from then
      local a, b, member = meeting(o, from)
      if a < to then
        met = true
        local c, d, last = a, b, member
        if b <= to then
          c, d, last = meeting(o, to)
          redis.call('ZREMRANGEBYSCORE', o.gaps, '(' .. string.format('%.0f', from), to)
        end
        if c < to then
          redis.call('ZREM', o.gaps, last)
          if d - to >= o.t then keep(o, to, d) end
        end
        if from > now and from - a >= o.t then keep(o, a, from) end
      end
    end
    local did = met or to > o.tat
    if o.log then o.log.claim(o, now, begin, to, did) end
    if to > o.tat then
      local left = math.max(o.tat, now)
      if from - left >= o.t then keep(o, left, from) end
      o.tat, o.expire = to, true
    end
    return did
  end

  function gcra.reset(o, now)
    reset(o, now, o.tat)
    redis.call('UNLINK', o.gaps)
    if o.log then redis.call('UNLINK', o.starts) end
    if o.queue then redis.call('UNLINK', o.queue, o.waits) end
    if o.flows then redis.call('UNLINK', o.flows) end
    o.tat, o.last, o.widest, o.learned, o.till, o.share, o.since, o.slowed = 0, 0, 0, 0, 0, 0, 0, 0
    o.margin, o.raised, o.fades, o.pace, o.step, o.wide = 0, 0, 0, o.t, o.t, o.within
    o.dirty, o.plain, o.grown, o.kept, o.whole = true, false, false, nil, false
  end

  function gcra.textmore(o)
    local v
    if o.till > 0 or o.share > 0 or o.mark > 0 or o.fades > 0 then
      v = string.format(
        '%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f',
        o.tat, o.last, o.widest, o.learned, o.till, o.share, o.since, o.slowed)
      if o.mark > 0 or o.fades > 0 then v = v .. string.format(' %.0f %.0f', o.mark, o.remembers) end
      if o.fades > 0 then v = v .. string.format(' %.0f %.0f %.0f', o.margin, o.raised, o.fades) end
    elseif o.last > 0 then
      v = string.format('%.0f %.0f %.0f', o.tat, o.last, o.widest)
    else
      v = string.format('%.0f', o.tat)
    end
    if o.kept then v = v .. string.format(' /%.0f %.0f %.0f', o.unlogged, o.kept, o.logtau) end
    return v, math.max(lasts(o), o.till, o.fades, whole(o), o.remembers)
  end

  function gcra.holds(o, now)
    local free, ends = 0, o.tat
    if o.last > now then
      local size = C.MaxLooks
      local gaps = redis.call('ZRANGEBYSCORE', o.gaps, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, size)
      for i = 1, #gaps, 2 do
        local a, b = number(gaps[i], o.gaps), number(gaps[i + 1], o.gaps)
        free = free + b - math.max(a, now)
        if i == 2 * size - 1 then ends = b end
      end
    end
    return { math.max(0, ends - now - free) }
  end

  -- spent returns the calls that the rate has not got back, as a window has them, as if all had gone now.
  function gcra.spent(o, now)
    local taken = gcra.holds(o, now)[1] + o.t - 1
    return { now }, { (taken - taken % o.t) / o.t }
  end

  -- begin has an account lack the calls that a window counts, at most its burst.
  function gcra.begin(o, from, _, n, now)
    local sum = 0
    for i = 1, #n do sum = sum + n[i] end
    if sum > 0 then o.tat = now + math.min(math.min(sum, o.limit) * o.t, C.MaxDebt) end
    o.margin, o.raised, o.fades, o.plain = from.margin, from.raised, from.fades, false
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
    if not o.log then return at end
    if o.whole then
      -- Of the last window's starts, the burst leaves some as they are if it is smaller than what a window holds.
      local last = -1 - math.max(0, o.most - o.limit)
      local found = redis.call('ZRANGE', o.starts, last, last, 'WITHSCORES')
      if found[2] then at = math.max(at, number(found[2], o.starts) + o.wide) end
    end
    return math.max(at, (o.whole and o.unlogged or o.tat) + o.wide)
  end

  function gcra.inspect(o, now)
    local t, reach = o.t, now + o.tau
    pace(o, now)
    local step, gait = o.step, o.pace
    local remaining, backlog, free = 0, 0, 0
    local function count(a, b)
      local from = a > now and a or now
      if from <= reach and b - from >= step then
        remaining = remaining + math.min(math.floor((b - from) / step), math.floor((reach - from) / step) + 1)
      end
      if b < math.huge then free = free + math.max(0, b - math.max(from, reach)) end
    end
    if o.last > now then
      local after, size = '(' .. string.format('%.0f', now), C.MaxInspected
      local gaps = redis.call('ZRANGEBYSCORE', o.gaps, after, '+inf', 'WITHSCORES', 'LIMIT', 0, size)
      for i = 1, #gaps, 2 do count(number(gaps[i], o.gaps), number(gaps[i + 1], o.gaps)) end
      if #gaps == 2 * size then -- those behind are taken to be as long
        free = free + math.floor(free / size) * (redis.call('ZCOUNT', o.gaps, after, '+inf') - size)
      end
    end
    count(o.tat, math.huge)
    if o.tat > reach then backlog = math.floor(math.max(0, o.tat - reach - free - 1) / t) end
    local nextat = gcra.earliest(o, now, now, 1, 0).at
    if o.log then
      remaining = math.min(math.max(1, (o.log.free(o, now))), math.max(1, remaining))
      if now < (o.whole and o.unlogged or o.tat) + o.wide then remaining = 1 end
      if nextat > now then remaining = 0 end
    end
    return remaining, nextat, backlog, 0, gait, o.queue and queues().length(o, now) or 0, marginat(o, now), full(o, now)
  end
end

return gcra
