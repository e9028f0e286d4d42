-- cancel.lua: give back what some reservations of one stack were charged.
--
-- KEYS   as in reserve.lua
-- ARGV   number of entries; for each: algorithm, parameters
--        number of reservations; for each, two integers per entry: its charge, as reserve.lua replied it
-- Reply  now (µs since the epoch)
-- TTL    as in reserve.lua; a key that means nothing any more is deleted
--
-- What is past is not given back: nobody could use it. An interval that is free already stays free.

local entries, _, now = stack()
everything(entries)

for _ = 1, arg() do
  for i = 1, #entries do
    local from, to = arg(), arg()
    entries[i].run.cancel(entries[i], now, from, to)
  end
end

for i = 1, #entries do entries[i].run.write(entries[i], now) end
return { now }
