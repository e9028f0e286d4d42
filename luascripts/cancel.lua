-- cancel.lua: give back what some reservations of one upstream were charged, in order.
--
-- KEYS   as in reserve.lua
-- ARGV   accounts: how many follow; for each
--          algorithm
--          its parameters
--        then, to the end, reservations of one stack after the other; for each stack
--          refs: the accounts that bind it: 0 for all, else one more than their number
--          indexes: of these accounts, from 1
--          many: how many reservations; for each, and each account
--            from, to, made: its charge (see charge.lua), and when that was made (µs since the epoch; 0: not known)
-- Reply  now (µs since the epoch)
-- TTL    as in reserve.lua; a key that means nothing any more is deleted
--
-- The elapsed part is not given back: nobody could use it. An interval that is free already stays free. Queued calls whose turn it may be
-- are woken, as in report.lua. So are calls that found no room in an allowance which now has some.

local all, up, now = stack()
local news = false

while nextarg <= #ARGV do
  local entries, refs = all, arg() - 1
  if refs >= 0 then
    entries = {}
    for i = 1, refs do entries[i] = all[arg()] end
  end
  local many = arg()
  for _ = 1, many do
    for i = 1, #entries do
      local from, to, made = arg(), arg(), arg()
      local o = entries[i]
      if not o.turned and o.run.cancel(o, now, from, to, made) then
        queues().say(C.ChangeResumed, 0, o.key)
        news = true
      end
    end
  end
  for i = 1, #entries do
    if many > 0 then entries[i].freed = true end
  end
end

for i = 1, #all do
  local o = all[i]
  o.run.write(o, now)
  if o.kind and o.freed then
    queues().call(o, now)
    news = true
  end
end
if news then queues().publish(up, now) end
return { now }
