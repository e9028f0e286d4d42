-- pause.lua: let nothing go before a given time.
--
-- KEYS   as in reserve.lua
-- ARGV   number of entries; for each: algorithm, parameters
--        duration (µs from now)
-- Reply  now, until (µs since the epoch)
-- TTL    past the pause
--
-- With no entries it is the whole upstream that pauses, otherwise each of the entries. A pause is never shortened.

local now = clock()
local entries, paused = stack(now)
local till = now + arg()

if #entries == 0 and till > paused then
  redis.call('SET', KEYS[1], till, 'PX', ttl(till - now))
end
for i = 1, #entries do
  local o = entries[i]
  o.run.setpause(o, now, till)
  o.run.write(o, now)
end
return { now, till }
