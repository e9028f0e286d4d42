-- status.lua: look at the entries of a stack. It writes nothing.
--
-- KEYS   as in reserve.lua
-- ARGV   accounts: how many follow; for each
--          algorithm
--          its parameters
--        any further argument: report only pauses
-- Reply  now, then for each entry: the cost that may go now, the next slot of a call of cost 1, the cost that is charged to the future, until
--        when nothing is left (0: something is), its pace: the emission interval of a rate or the limit of a window or of leases that holds
--        now, the number of queued calls, the margin in millionths, when all of the limit may go again
--        of pauses only: until when nothing is left of each entry (0: something is)
--        only now: as in reserve.lua
-- TTL    none: nothing is written

local entries, _, now = stack()
if stale then return { now } end
share(entries, C.MaxInteger - 1)
local reply = { now }

local onlypauses = nextarg <= #ARGV
if onlypauses then
  for i = 1, #entries do
    reply[i + 1] = paused(entries[i], now) or 0
  end
  return reply
end

for i = 1, #entries do
  local n = #reply
  local o = entries[i]
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5], reply[n + 6], reply[n + 7], reply[n + 8] = o.run.inspect(o, now)
end
return reply
