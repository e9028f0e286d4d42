-- pace.lua: how much slower than its limit a rate is. The reasoning is in package engine, pace.go and margin.go.

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
  o.step, o.wide = widened(o.pace, share), widened(o.within, share)
end

-- whole returns when the share is whole again.
local function whole(o)
  if o.share == 0 or not o.recovery then return 0 end
  local n = (C.WholeShare - o.share) * o.recovery
  return o.since + (n - n % C.WholeShare) / C.WholeShare + 1
end

-- slower heeds a refusal, and reports whether the rate is slower now.
local function slower(o, now, at)
  if not o.recovery or o.slowed > 0 and (at <= o.slowed or now < o.slowed + C.SameEpisode) then return false end
  local f = shareat(o, now) * o.decrease
  f = (f - f % C.WholeShare) / C.WholeShare
  if now > o.since then f = math.max(f, o.share) end
  o.share, o.since, o.slowed = math.max(f, o.floor), now + o.hold, now
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
