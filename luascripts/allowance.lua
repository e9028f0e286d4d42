-- allowance.lua: the rest of a limit, as stated by the upstream. The reasoning is in package engine, allowance.go.
--
-- KEYS   key: of the account: the fields below in order, as integers without trailing zeros; a period from the first call on is 1 more
-- ARGV   limit: the most that it states
--        first: how much may be open before the first statement, if no policy limits calls; 0: any number
-- TTL    until C.AllowanceLives after until, after the last call, and after the next one may go at the pace that refusals taught

local allowance = {}

local names = {
  'till', 'low', 'at', 'open', 'older', 'mark_', 'before', 'ahead', 'early', 'edge', 'moved', 'last', 'starved', 'start', 'since', 'width', 'most', 'got',
  'oks', 'step', 'span', 'next_', 'maybe', 'said', 'dated', 'floor', 'own', 'waits', 'rate', 'ends', 'zero', 'first', 'recent', 'reported', 'period',
  'known',
}

-- clear makes an account an unknown one.
local function clear(o)
  for i = 1, #names do o[names[i]] = 0 end
end

function allowance.parse(_, account)
  local o = { key = account, unit = 'a ', limit = arg(), first_ = arg(), run = allowance, dirty = false }
  clear(o)
  return o
end

function allowance.loadstring(o, v)
  if v then fields(o, names, v) end
end

-- ends returns when nothing is known any more.
function allowance.ends(o) return math.max(o.till, o.since, o.mark_, o.next_, o.ends) + C.AllowanceLives end

function allowance.write(o, now)
  if o.dirty then save(o, text(o, names, ''), allowance.ends(o), now) end
end

-- opened begins a new generation of open calls, if it is time, and returns the cost of both.
local function opened(o, now)
  if o.early > 0 and now >= o.edge + C.Generation then o.older, o.early = o.older + o.early, 0 end
  if now >= o.mark_ + C.Generation then
    o.before, o.mark_ = o.mark_, o.mark_ + C.Generation
    if now >= o.mark_ + C.Generation then o.open, o.mark_ = 0, now end
    o.older, o.open = o.open, 0
  end
  return o.open + o.older
end

-- hold notes early calls, with slots from an instant on.
local function hold(o, from, n)
  if o.early == 0 or from < o.edge then o.edge = from end
  o.early = o.early + n
end

-- turn passes until. If no policy limits calls, they find a width until something is stated.
local function turn(o, now)
  if allowance.ends(o) <= now then clear(o) end
  if o.till > 0 and now >= o.till then
    local width = math.max(opened(o, o.till) + 1, o.low - 1)
    o.width = o.reported > 0 and width or 0
    o.open, o.ahead, o.early = o.open + o.ahead + o.early, 0, 0
    if o.dated > 0 or o.low <= 1 then o.oks = 0 end
    o.start, o.since, o.till, o.starved, o.maybe = o.till, o.till, 0, 0, 0
  end
  if o.first_ > 0 and o.width + o.till + o.at + o.start == 0 then o.width = o.first_ end
  return opened(o, now) + o.early
end

local function fits(o, open, n) return open + n < o.low or o.maybe > 0 and open == 0 end

-- floor and ceil return the quotient of two integers.
local function floor(a, b) return (a - a % b) / b end

local function ceil(a, b) return floor(a + b - 1, b) end

-- widest returns how much may be open if nothing was stated.
local function widest(o)
  local room = o.most > 0 and math.max(1, math.min(o.width, o.most - o.oks)) or o.width
  return o.got > 0 and math.max(1, math.min(room, o.got - o.oks)) or room
end

-- after returns the slot of a call that finds no room and n before it.
local function after(o, slot, n) return math.max(slot, math.min(o.last + C.Apart, slot + n * C.Apart)) end

-- ispaced reports whether there is a pace, taught or stated.
local function ispaced(o, now) return o.step > 0 or now < o.ends end

-- paced returns when the next call may go at the slower one of the paces.
local function paced(o, now, open, n) return math.max(o.till > 0 and not fits(o, open, n) and o.till or now, o.next_) end

-- taking returns how long a cost takes at that pace.
local function taking(o, now, n)
  local x, ago = 2 * C.Thousand, math.max(0, now - math.max(o.start, o.till))
  if ago < 2 * o.span then x = floor(ago * C.Thousand, o.span) end
  local one = math.max(1, floor(o.step * C.Thousand, C.Thousand + floor(x, C.Calmly) + floor(x * x * x, C.Thousand * C.Thousand)))
  if now < o.ends then one = math.max(one, o.rate) end
  return math.min(n, floor(C.Month, one)) * one
end

function allowance.learn(o, now, value, till)
  turn(o, now)
  local before = taking(o, now, 1)
  o.rate, o.ends, o.dirty = math.max(0, value), till, true
  if value <= 0 or till <= now then o.rate, o.ends = 0, 0 end
  return taking(o, now, 1) ~= before
end

function allowance.room(o, now, n, many)
  local open = turn(o, now)
  local left = o.till > 0 and o.low - 1 - open or o.width > 0 and widest(o) - open or many * n
  if ispaced(o, now) then left = o.next_ > now and 0 or math.min(left, n) end
  return left < n and 0 or (left - left % n) / n
end

function allowance.horizon() return math.huge end

function allowance.earliest(o, now, e, n)
  local open = turn(o, now)
  if ispaced(o, now) then e = math.max(e, paced(o, now, open, n)) end
  if o.till == 0 then
    if o.width > 0 and open + n > widest(o) then e = math.max(e, after(o, o.since + ceil(open + n - widest(o), n) * C.Apart, open)) end
  elseif e < o.till and fits(o, open, n) then
    return { at = e }
  elseif e < o.till or o.starved > 0 or not fits(o, open, n) then
    e = math.max(e, o.reported > 0 and after(o, o.till + ceil(o.ahead, n) * C.Apart, o.ahead) or o.till)
  end
  return { at = e }
end

function allowance.commit(o, now, place, n)
  local open = turn(o, now)
  if o.since == 0 then o.since = now end
  if ispaced(o, now) then o.next_ = paced(o, now, open, n) + taking(o, now, n) end
  o.last, o.dirty = place.at, true
  if o.till > 0 and place.at >= o.till then
    if not fits(o, open, n) then o.starved = 1 end
    o.ahead = o.ahead + n
  elseif place.at >= now + C.Generation then
    hold(o, place.at, n)
  else
    o.open = o.open + n
  end
  return place.at, n, C.UnboundSlack
end

function allowance.take(o, now, n, many)
  allowance.commit(o, now, { at = now }, n * many)
  return now, n, C.UnboundSlack
end

-- dropolder subtracts a call from the older open ones, if there are any.
local function dropolder(o, n)
  local older = math.min(o.older, n)
  o.older, o.open = o.older - older, math.max(0, o.open - n + older)
end

-- drop subtracts a call that was granted at made (0: unknown) from the open ones.
local function drop(o, slot, n, made)
  o.dirty = true
  local fresh = made == 0 or made >= o.start -- those that were ahead when till passed are open
  local early = made < o.moved or made == o.moved and o.ahead == 0 or slot >= made + C.Generation and (slot < o.till or o.ahead == 0)
  if fresh and o.early > 0 and slot >= o.edge and early then
    o.early = math.max(0, o.early - n)
  elseif fresh and o.till > 0 and slot >= o.till and o.ahead > 0 then
    o.ahead = math.max(0, o.ahead - n)
  elseif slot >= o.mark_ then
    local young = math.min(o.open, n)
    o.open, o.older = o.open - young, math.max(0, o.older - n + young)
  elseif slot >= o.before then -- or it was early until just now
    dropolder(o, n)
  end
end

-- blind subtracts a call from the open ones by its cost, the only thing known of it, and returns its assumed slot.
local function blind(o, now, n)
  if n == 0 then return now end
  dropolder(o, n)
  return o.till == 0 and now or math.max(o.start, o.at - 1)
end

-- cancel gives a slot back, and returns whether calls that found no room may go: the last early slot is given back.
function allowance.cancel(o, now, slot, n, made)
  turn(o, now)
  local early = o.early > 0
  drop(o, slot, n, made)
  if ispaced(o, now) and slot >= now and made >= o.at then o.next_ = math.max(0, o.next_ - taking(o, now, n)) end
  return early and o.early == 0 and o.starved > 0 and o.open + o.older < o.low - 1
end

-- news returns the kind of change to publish, if the rest has changed; nil for none.
local function news(o, was, gated)
  local left = o.low - 1 - o.open - o.older - o.early
  if o.till == 0 then return nil end
  if left < 0 and left < was then return C.ChangePaused end
  if left > 0 and (gated or o.starved > 0) then
    o.starved = 0
    return C.ChangeResumed
  end
  return nil
end

-- outdated applies an answer that states nothing about this window.
local function outdated(o, cost, was)
  if o.till == 0 and o.width > 0 then o.width = math.max(1, o.low - 1, o.width - cost) end
  return news(o, was, false)
end

-- went notes a good answer to a call with a slot, of cost n.
local function went(o, slot, n)
  if o.oks == 0 or slot - o.recent > math.max(C.Generation, 8 * o.step) then
    o.first, o.oks = slot, 0
    if o.zero > 0 and o.zero < o.start then
      if o.period ~= 0 then o.known = o.period end
      o.zero, o.period = 0, 0
    end
  end
  o.oks, o.recent = o.oks + n, math.max(o.recent, slot)
end

-- ends returns when an exhausted window of a period ends.
local function ends(o, period)
  return C.Apart + (period % 2 > 0 and o.first + period - 1 or o.zero - o.zero % period + period)
end

-- nexttime returns how long to wait if nothing states when there is more.
local function nexttime(o, now)
  local begins, whole = o.start <= o.zero or o.zero == 0, o.oks >= floor(o.most, 4)
  if begins then
    o.zero = now
    local t = o.known ~= 0 and whole and ends(o, o.known) - now or 0
    if t > 0 then return t end
  end
  local best, waited = C.LongestGuess, floor(now - o.zero, 8)
  local known = o.known - o.known % 2
  if known > 0 then best = math.min(best, math.max(known, waited)) end
  o.period = 0
  for _, p in ipairs({ C.Second, C.TenSeconds, C.Minute, C.TenMinutes, C.Hour, C.Day }) do
    for q = p, p + 1 do
      local t = ends(o, q) - now
      if t > 0 and t < best and (t >= waited or p == known and q ~= o.known) then best, o.period = t, q end
    end
  end
  if begins and o.known ~= 0 and not whole then o.period = o.known end
  return best
end

local function silent(o, now, slot, cost, was, open)
  if o.till == 0 then
    if o.oks > o.most then o.most = 0 end
    if o.oks > o.got then o.got = 0 end
    local widens = o.said > 0 or o.first_ > 0 and o.step == 0
    if o.width == 0 or widens and open <= o.width then return nil end
    o.width = widens and o.width + cost or 0
    if not widens and o.step > 0 then
      if taking(o, now, 1) >= C.Apart then return nil end
      o.next_, o.at = now, now
    end
    return C.ChangeResumed
  end
  if o.low <= 1 then
    o.maybe = math.max(0, o.maybe - cost)
  elseif slot < o.at then
    o.maybe = o.maybe + cost
  end
  o.low, o.at = math.max(1, o.low - cost), now
  if o.maybe > 0 and o.low == 1 and o.open + o.older + o.early == 0 then return C.ChangeResumed end
  return news(o, was, false)
end

local function corrected(o, left, cost, refused, should)
  if refused then
    if should and o.own ~= 1 and left == 0 then o.own = 2 end
  elseif left == 0 then
    o.own = 1
  elseif o.own == 2 then
    return math.max(0, left - cost)
  end
  return left
end

local function patient(o, slot, cost, refused, left, wait)
  if o.dated > 0 and o.till == 0 and o.width > 0 and slot >= o.start then
    if refused and o.oks <= cost then
      o.waits = math.min(5, o.waits + 1)
    elseif left > 1 then
      o.waits = math.max(0, o.waits - 1)
    end
  end
  if left == 0 and o.waits > 1 and (refused or wait <= math.max(o.till, o.start) - o.at) then
    local last = o.till > 0 and o.till - o.at or 4 * (o.start - o.at)
    local longer = wait * (math.min(2 ^ (o.waits - 1), math.max(1, floor(o.most, 4))) - 1)
    wait = wait + math.min(longer, refused and math.max(0, last - wait) or C.Minute)
  end
  return o.since + wait
end

local function set(o, now, left, till, gated, was)
  o.low, o.at, o.width, o.maybe = left + 1, now, 0, 0
  local moved = o.till == 0
  if o.till > 0 and till > o.till and o.ahead > 0 then
    hold(o, o.till, o.ahead)
    o.ahead, moved = 0, true
  end
  o.till, o.moved = till, moved and now or o.moved
  if moved and left <= o.open + o.older + o.early then return C.ChangePaused end
  return news(o, was, gated)
end

-- stated returns how long to wait, as far as the answer shows it.
local function stated(o, now, wait, left, guessed)
  if wait == 0 then return (o.dated > 0 or left > 0) and C.Second or nexttime(o, now) end
  if guessed then return wait end
  o.dated = 1
  return wait % C.Second == 0 and wait + o.floor * C.Second or wait
end

-- over reports whether an answer is about a window that is over.
local function over(o, slot, wait)
  return slot < o.start and (slot + wait <= o.start or wait % C.Second == 0 and slot + wait - C.Second <= o.start)
end

local function refuse(o, now, wait, teaches)
  local till = now + wait
  if teaches and o.said == 0 and o.oks > 0 and (o.step == 0 or o.till == 0 or o.oks >= C.Lesson) then
    local took, of = math.min(C.Month, math.max(C.Second, till - o.first)), math.min(C.Lesson, o.oks)
    o.step = floor(o.step * (C.Lesson - of) + floor(took, o.oks) * of, C.Lesson)
    o.span = math.min(C.Month, math.max(math.min(took, C.TenMinutes), C.Calms * o.step))
  end
  if o.low == 1 then till = math.max(till, o.till) end
  o.starved = 1
  set(o, now, 0, till, false, 0)
  return C.ChangePaused
end

-- answer applies what an answer stated: see Answered in allowance_answer.go. It returns what to publish.
function allowance.answer(o, now, slot, cost, left, wait, flags)
  turn(o, now)
  local known = flags % C.AnswerOpen
  local teaches, guessed = known >= C.AnswerTeaches, known % C.AnswerTeaches >= C.AnswerGuessed
  o.older = o.older + (flags - known) / C.AnswerOpen
  local open = o.open + o.older + o.early
  local was, refused = o.low - 1 - open, flags % 2 == C.AnswerRefused
  o.since, o.last, o.dirty = now, 0, true
  if slot ~= 0 or cost > 0 and not refused then o.reported = 1 end
  if slot == 0 then slot = blind(o, now, cost) else drop(o, slot, cost, 0) end
  local old = slot < o.start
  if not refused and not old then went(o, slot, cost) end
  if refused and not old and left == 0 then
    if o.dated > 0 and wait == 0 and slot < o.start + C.Second then o.floor = 1 end
    o.got = o.oks
  end
  if refused and (left == 0 and teaches and o.said == 0 or left < 0 and (wait > 0 or guessed)) then
    wait = stated(o, now, wait, 0, guessed)
    if over(o, slot, wait) then return outdated(o, cost, was) end
    return refuse(o, now, wait, teaches)
  end
  if left < 0 then
    if old then return outdated(o, cost, was) end
    if refused then return news(o, was, false) end
    return silent(o, now, slot, cost, was, open)
  end
  wait = stated(o, now, wait, left, guessed)
  if over(o, slot, wait) then return outdated(o, cost, was) end
  if not refused then
    o.most = math.max(o.most, left + cost)
    if o.said == 0 then o.said, o.step = 1, 0 end
  end
  left = corrected(o, left, cost, refused, o.till > 0 and was >= 0 and open == cost)
  local till, gated = patient(o, slot, cost, refused, left, wait), o.width > 0 and o.till == 0
  if o.low > 0 and slot < o.at then
    if left >= o.low then return news(o, was, false) end
    if refused then till = math.max(till, o.till) end
  end
  return set(o, now, left, till, gated, was)
end

function allowance.resume(o, now)
  turn(o, now)
  o.open, o.ahead, o.early = o.open + o.ahead + o.early, 0, 0
  o.till, o.low, o.at, o.width, o.maybe, o.starved, o.waits, o.dirty = 0, 0, 0, 0, 0, 0, 0, true
  o.step, o.rate, o.ends, o.next_ = 0, 0, 0, 0
end

function allowance.reset(o)
  clear(o)
  o.dirty = true
end

for _, name in ipairs({ 'settle', 'slow', 'stray', 'claim', 'renew', 'release' }) do allowance[name] = function() end end

function allowance.holds() return {} end

function allowance.inspect(o, now)
  local open = turn(o, now)
  local remaining = o.till > 0 and math.max(0, o.low - 1 - open) or o.limit
  return remaining, allowance.earliest(o, now, now, 1).at, o.ahead + o.early, paused(o, now) or 0, math.max(0, o.low - 1), 0, 0, math.max(now, o.till)
end

return allowance
