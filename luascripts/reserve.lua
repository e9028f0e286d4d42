-- reserve.lua: find and charge a slot for each of some calls of one upstream, in order.
--
-- KEYS   upstream: its key (see account.lua)
--        then the key of each account, and then the other keys of each (see gcra.lua, window.lua, concurrency.lua); all in one hash slot
-- ARGV   epoch: that the client knows (see account.lua; 0: none; "began.*": any that began then)
--        known: the latest store time that it received
--        accounts: how many follow; for each
--          algorithm
--          its parameters (see gcra.lua, window.lua, concurrency.lua)
--        then, to the end, runs of equal calls; or only maxwait, for one call of cost 1 that all accounts bind;
--        for each run
--          refs: the accounts that bind it: 0 for those of the run before (of the first run: all), else their number plus one
--          indexes: of these accounts, from 1
--          left: how many calls
--          cost: 0 if it differs from account to account
--          notbefore: µs from now
--          maxwait: µs
--          flags: the sum of 2 for one call bound by a limit that calls queue for, 4 for calls bound by one of some choices of these
--          accounts, and 8 for calls that leave what some accounts keep for others
--          costs: if cost is 0, one for each account
--          kept: with flag 8, a bit for each of those accounts, from 1: they cost a call nothing
--          and with flag 4
--          choices: how many; 0 for those of the run before; for each
--            size: of how many accounts
--            indexes: of these, among the accounts that bind the run, from 1
--          first: which choice is preferred to others with a slot as near, from 1
--          and with flag 2
--          id: of the call
--          since: its first request (µs since the epoch; 0: now)
--          flow, weight: for fair shares
--          slot: its slot (µs since the epoch; 0: none)
--          reach: µs
--          held: what the call gives back first: 0, or the number of accounts, and for each its charge and when that was made, as in cancel.lua
--          owed: 0, or the number of accounts, and for each how much more earlier calls of the flow cost than they were charged; of permits,
--          for how long the call counts (µs; 0: not known)
-- Reply  now, then for each call or some at once, in order (slots: µs since the epoch; slacks: µs):
--          n > 0, slack, charges            n calls go now; these are the charges of the first (see below); the slack is
--                                           that of the windows (0 for a rate whose windows are exact), −1 if there is none
--          0, binds, slot, till, slack, charges   one call goes at its slot
--          −n, binds, slot, till            n calls are refused; this would have been their slot
--          0, −i, again, ahead              of a call with an id: it is queued for account i behind so many, charged
--                                           nothing, and polls then
--        Charges are as in charge.lua. Of n calls, the slack of a call reaches to the first of its charges, and to that of the
--        windows.
--        The answer to a call with choices begins with the choice that binds it, or for which it is queued, from 1. It never has the first
--        form, and its accounts are those of the choice.
--        Binds: 0 nothing, i the limit of account i of the run; till: the end of an allowance that has too little left (µs since the epoch),
--        or 0.
--        A run that has worked enough decides at least one call, and leaves the rest without an answer: request them again.
--        now, −2^30 and the epoch in two numbers: the server has lost its data, or its clock stepped back by more than a second; nothing was
--        done
--        only now: a calendar's table does not hold it; nothing was done, compute the table for that now and try again
-- TTL    every key is written with one: until its last effect is past, rounded up.
--
-- A refusal (the slot lies further away than max wait) writes nothing. Earliest is monotone and never goes back, so trying the entries in
-- turn until a whole round moves nothing ends at the least common slot. After 16 rounds, only longer and longer pieces of free time are
-- tried: see package engine.

local epoch, known = ARGV[1], tonumber(ARGV[2])
nextarg = 3

local all, up, now = stack(epoch)
if string.sub(epoch, -2) == '.*' and string.match(up.epoch, '^%d+.') == string.sub(epoch, 1, -2) then epoch = up.epoch end
if epoch ~= '0' and (up.epoch ~= epoch or now < known - C.MaxBackstep) then return { now, C.Forgot, epochof(up) } end
local reply, size = { now }, 1
if stale then return reply end
open(all, now)

-- search finds and charges a slot for one call; it returns false if that is too far away.
local function search(entries, cost, costs, notbefore, maxwait)
  local p, s, binds = #entries, now + notbefore, 0
  local quiet, asked, places = 0, 0, {}
  while quiet < p do
    local i = asked % p + 1
    local o = entries[i]
    local place = o.run.earliest(o, now, s, costs and costs[i] or cost, (asked - asked % p) / p)
    places[i] = place
    if place.at > s then
      s, binds, quiet = place.at, i, 0
    end
    quiet = quiet + 1
    asked = asked + 1
  end
  spent = spent + asked
  local ok = s - now <= maxwait
  if ok then
    for i = 1, p do
      if s >= entries[i].run.horizon(entries[i]) then
        ok, binds = false, i
        break
      end
    end
  end
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = 0, binds, s, said(entries[binds], now)
  if not ok then return false end
  local slack, at = p > 0 and math.huge or C.UnboundSlack, size + 5
  size, spent = at, spent + p
  for i = 1, p do
    local o = entries[i]
    local from, to, spare, holds = o.run.commit(o, now, places[i], costs and costs[i] or cost)
    size = addcharge(reply, size, from, to, holds)
    if spare < slack then slack = spare end
  end
  reply[at] = slack
  return true
end

-- readchoices reads the choices of a run whose accounts are entries, each with what its accounts cost.
local function readchoices(entries, costs, before)
  local n = arg()
  if n == 0 then return before end
  local choices = {}
  for k = 1, n do
    local choice = { costs = costs and {} }
    for i = 1, arg() do
      local at = arg()
      choice[i] = entries[at]
      if costs then choice.costs[i] = costs[at] end
    end
    choices[k] = choice
  end
  return choices
end

-- soonest returns which choice has the nearest slot for a call, the first one from first on. It charges nothing.
local function soonest(choices, first, cost, notbefore)
  local best, at
  for k = 0, #choices - 1 do
    local i = (first - 1 + k) % #choices + 1
    search(choices[i], cost, choices[i].costs, notbefore, -1)
    local slot = reply[size + 3]
    if not at or slot < at then best, at = i, slot end
    if at <= now + notbefore then break end -- there is none that is nearer
  end
  return best
end

local entries, decide, queued, changed, alones, choices = all, nil, false, false, {}, nil
local alone = nextarg == #ARGV
while nextarg <= #ARGV and spent < enough do
  local left, cost, notbefore, maxwait, costs, mayqueue, first, keeps, wrote = 1, 1, 0, 0, nil, nil, nil, false, false
  if alone then
    maxwait = arg()
  else
    local flags
    entries = bound(all, entries)
    left, cost, notbefore, maxwait, flags = arg(), arg(), arg(), arg(), arg()
    if flags < 0 or flags > C.MayQueue + C.AnyOf + C.Keeps or flags % C.MayQueue ~= 0 then unknown('flags', flags) end
    mayqueue, first, keeps = flags % C.AnyOf >= C.MayQueue, flags % C.Keeps >= C.AnyOf, flags >= C.Keeps
  end
  if cost == 0 then
    costs = {}
    for i = 1, #entries do costs[i] = arg() end
  end
  share(entries, keeps and arg() or 0)
  if first then
    choices = readchoices(entries, costs, choices)
    first = arg()
  end
  if mayqueue then
    local c = { cost = cost, costs = costs, notbefore = notbefore, maxwait = maxwait, id = ARGV[nextarg] }
    nextarg = nextarg + 1
    c.since, c.flow, c.weight, c.slot, c.reach = arg(), arg(), arg(), arg(), arg()
    local held = arg()
    if held > 0 then c.held = {} end
    for i = 1, 3 * held do c.held[i] = arg() end
    c.owed = {}
    for i = 1, arg() do c.owed[entries[i]] = arg() end
    if first then c.choices, c.first = choices, first end
    decide = decide or define.queued()
    size, wrote = decide(entries, c, up, now, reply, size, changed)
    left, queued, changed = 0, true, false
  else
    changed = true
  end
  -- Calls that may all go now are charged at once.
  local many = left
  if notbefore > 0 or first then many = 0 end
  for i = 1, #entries do
    local o = entries[i]
    local room = 0
    if many > 0 then room, alones[i] = o.run.room(o, now, costs and costs[i] or cost, many) end
    if room < many then many = room end
  end
  if many > 0 then
    local slack, at = #entries > 0 and -1 or C.UnboundSlack, size + 2
    reply[size + 1], size, spent = many, at, spent + #entries / 2
    for i = 1, #entries do
      local o = entries[i]
      local from, to, spare, holds = o.run.take(o, now, costs and costs[i] or cost, many, alones[i])
      size = addcharge(reply, size, from, to, holds)
      if spare and (slack < 0 or spare < slack) then slack = spare end
    end
    reply[at] = slack
    left, wrote = left - many, true
  end
  while left > 0 and spent < enough do
    local of, at = entries, costs
    if first then
      local i = soonest(choices, first, cost, notbefore)
      of, at, size = choices[i], choices[i].costs, size + 1
      reply[size] = i
    end
    if search(of, cost, at, notbefore, maxwait) then
      wrote = true
    else
      reply[size + 1], size, left = -left, size + 4, 1 -- so it is for all that are alike
    end
    left = left - 1
  end
  if wrote then keepturned(entries) end
end

for i = 1, #all do all[i].run.write(all[i], now) end
if queued then
  for i = 1, #all do
    if all[i].kind then queues().keep(all[i]) end
  end
  queues().publish(up, now)
end
return reply
