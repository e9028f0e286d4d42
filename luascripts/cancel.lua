-- cancel.lua: give back what some reservations of one stack were charged.
--
-- KEYS   as in reserve.lua
-- ARGV   number of entries; for each: algorithm, parameters
--        number of reservations; for each, two integers per entry: its charge, as reserve.lua replied it
-- Reply  now (µs since the epoch)
-- TTL    as in reserve.lua; a key that means nothing any more is deleted
--
-- What is past is not given back: nobody could use it. An interval that is free already stays free. Those in line whose turn
-- it may be are called, as in report.lua.

local entries, up, now = stack()
everything(entries)

local many = arg()
for _ = 1, many do
  for i = 1, #entries do
    local from, to = arg(), arg()
    entries[i].run.cancel(entries[i], now, from, to)
  end
end

local queued = false
for i = 1, #entries do
  local o = entries[i]
  o.run.write(o, now)
  if o.kind and many > 0 then
    lines().call(o, now)
    queued = true
  end
end
if queued then lines().publish(up, now) end
return { now }
