-- cancel.lua: give back what some reservations of one upstream were charged, in order.
--
-- KEYS   as in reserve.lua
-- ARGV   accounts: how many follow; for each
--          algorithm
--          its parameters
--        then, to the end, reservations of one stack after the other; for each stack
--          refs: the accounts that bind it: 0 for those of the stack before (of the first: all), else one more than their number
--          indexes: of these accounts, from 1
--          many: how many reservations; for each, and each account
--            from, to, made: its charge (see charge.lua), and when that was made (µs since the epoch; 0: not known)
-- Reply  now (µs since the epoch)
-- TTL    as in reserve.lua; a key that means nothing any more is deleted
--
-- The elapsed part is not given back: nobody could use it. An interval that is free already stays free. Queued calls whose turn it may be
-- are woken, as in report.lua. So are calls that found no room in an allowance which now has some.

local all, up, now = stack()
local entries = all

while nextarg <= #ARGV do
  entries = bound(all, entries)
  local many = arg()
  for _ = 1, many do
    for i = 1, #entries do
      giveback(entries[i], now, arg(), arg(), arg())
      entries[i].freed = true
    end
  end
end

finish(all, up, now)
return { now }
