-- reserve.lua: find and charge a slot for each of some calls of one stack, in order.
--
-- KEYS   the upstream's key, then the keys of each entry (see gcra.lua, window.lua); all in one hash slot
-- ARGV   the era that the client knows (see account.lua; 0: none), the latest store time that it was told
--        number of entries; for each: algorithm, parameters
--        number of calls; for each: cost, not before (µs from now), max wait (µs), and 1 if it is tracked, else 0;
--        if the cost is 0, then a cost for each entry
-- Reply  now, then for each call: granted (1 or 0), slot, slack, what binds, and if granted per entry its charge: two integers, and for a
--        window what its bucket then holds (now, slot: µs since the epoch; slack: µs). What binds: 0 nothing, i the limit of entry i, −i its pause,
--        −(entries + 1) the pause of the upstream.
--        now and the era: the server has forgotten, or its clock stepped back by more than a second; nothing was done
--        now alone: a calendar's table does not hold it; nothing was done, compute the table for that now and ask again
-- TTL    every key that is written gets one, with its value: until its last effect is past, rounded up.
--
-- A refusal (the slot lies further away than max wait) writes nothing. Earliest is monotone and never goes
-- back, so asking the entries in turn until a whole round has moved nothing ends at the least common slot.
-- After 16 rounds the tails alone decide.

local era, known = arg(), arg()
local entries, up, now = stack()
if era > 0 and (up.era ~= era or now < known - 1000000) then return { now, up.era } end
local p, paused = #entries, up.pause
local reply = { now }
if stale then return reply end

for _ = 1, arg() do
  local cost, notbefore, maxwait, tracked = arg(), arg(), arg(), arg() == 1
  local costs
  if cost == 0 then
    costs = {}
    for i = 1, p do costs[i] = arg() end
  end
  local s, binds = now + notbefore, 0
  if paused > s then s, binds = paused, -(p + 1) end
  for i = 1, p do
    local till = entries[i].run.paused(entries[i])
    if till > s then s, binds = till, -i end
  end
  local quiet, asked = 0, 0
  while quiet < p do
    local i = asked % p + 1
    local o = entries[i]
    local e = o.run.earliest(o, now, s, costs and costs[i] or cost, asked >= 16 * p)
    if e > s then
      s, binds, quiet = e, i, 0
    end
    quiet = quiet + 1
    asked = asked + 1
  end
  local ok = s - now <= maxwait
  if ok then
    for i = 1, p do
      if s >= entries[i].run.horizon(entries[i]) then
        ok, binds = false, i
        break
      end
    end
  end
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = ok and 1 or 0, s, 0, binds
  if ok then
    local slack = p > 0 and math.huge or 1000000
    for i = 1, p do
      local o = entries[i]
      local from, to, late, seen = o.run.commit(o, now, s, costs and costs[i] or cost, tracked)
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = from, to, seen
      if late < slack then slack = late end
    end
    reply[at + 3] = slack
  end
end

for i = 1, p do entries[i].run.write(entries[i], now) end
return reply
