-- versions.lua: accounts of one key, one for each shape in which a limit is asked for. The reasoning is in package engine, versions.go.
--
-- The value of an account's key is "shape state", and for each other shape, beginning with the one that was asked for last, a line
-- "until shape state" more, where
--   shape  "r", the emission interval, "." and the burst of a rate; "w", or "c" if it has a calendar, the width of a bucket, "." and how many
--          before its own a window counts; "p" of concurrency
--   state  what the algorithm says: see gcra.lua, window.lua and concurrency.lua
--   until  when nobody is expected to ask for it any more
-- The gaps and the starts of a rate are in keys whose names end with its emission interval. Those of other shapes are not among KEYS, but
-- in the same hash slot.

local versions = {}

-- run returns an algorithm with all that it can do.
local function run(algorithm)
  if not algorithms[algorithm] then algorithms[algorithm] = define[algorithm]() end
  local a = algorithms[algorithm]
  if not a.earliest then a.rest() end
  return a
end

-- read returns the account of a shape and its state, as far as it can be told without a limit: what it admits is not known.
local function read(of, text, now)
  local kind, unit, more, state = string.match(text, '^([rwcp])(%d*)%.?(%d*) (.*)$')
  if not kind then foreign(of.key) end
  local o = { key = of.key, unit = string.sub(text, 1, #text - #state), reach = 0 }
  if kind == 'p' then
    o.run = run(C.Concurrency)
    o.run.blank(o)
    o.limit = 0
  elseif kind == 'r' then
    o.t, o.limit = number(unit, of.key), number(more, of.key)
    if o.t == 0 or o.limit == 0 then foreign(of.key) end
    local name, scope = string.match(of.key, '^([^}]*}:[^:]*)(.*)$')
    o.gaps, o.starts = name .. '/gaps.' .. unit .. scope, name .. '/starts.' .. unit .. scope
    o.tat, o.plain, o.dirty, o.run, o.reach = 0, true, false, run(C.GCRA), o.limit * o.t
  else
    o.width, o.m = number(unit, of.key), number(more, of.key)
    if o.width == 0 then foreign(of.key) end
    o.run = run(C.Window)
    o.run.blank(o)
    o.limit, o.most, o.guard, o.tail = C.MaxInteger, C.MaxInteger, 0, 0
    o.reach = math.min((o.m + 2) * o.width, C.MaxDebt)
  end
  o.run.loadstring(o, state, now)
  if o.run.unfold then o.run.unfold(o) end
  if kind == 'c' and o.ends > 0 then o.bounds = { o.at[o.size] } end -- its grid goes on evenly, for all that is known
  return o
end

-- same reports whether an account that is written means the same as one of a shape: those of rates do, whatever the burst.
local function same(a, b)
  if string.byte(b) == 114 then return string.match(a, '^[^.]*%.') == string.match(b, '^[^.]*%.') end
  return string.sub(a, 1, #b) == b
end

-- convert has a new account begin with what another one knows. Nothing that was charged before is given back to it.
local function convert(o, from, now)
  if not o.run.earliest then o.run.rest() end
  if o.run.unfold then o.run.unfold(o) end
  local at, n = {}, {}
  if from.run.history then at, n = from.run.history(from, now) end
  if o.run.tell then
    for i = 1, #at do o.run.tell(o, now, at[i], n[i]) end
  end
  if from.pause > now then o.run.setpause(o, now, from.pause) end
  if o.run.inherit then o.run.inherit(o, from, now) end
  o.dirty = true
end

-- regrid counts what a window holds anew: its calendar has another time zone by now, or went on evenly as long as nobody knew it.
function versions.regrid(o, now)
  local from = { run = run(C.Window) }
  for _, name in ipairs({ 'width', 'm', 'at', 'held', 'low', 'size', 'pause', 'margin', 'raised', 'fades' }) do from[name] = o[name] end
  o.run = from.run
  o.run.clear(o, now)
  convert(o, from, now)
end

-- open loads an account whose value is not that of its shape alone.
function versions.open(o, v, now)
  local all, untils, own = {}, {}, nil
  for text in string.gmatch(v, '[^\n]+') do
    local till = 0
    if #all > 0 then
      local t, rest = string.match(text, '^(%d+) (.*)$')
      if not t then foreign(o.key) end
      till, text = number(t, o.key), rest
    end
    local kept = #all == 0 or till > now
    if same(text, o.unit) then own = #all + 1 end
    all[#all + 1], untils[#untils + 1] = text, kept and till or -1
  end
  if #all == 0 then foreign(o.key) end
  local first, others = read(o, all[1], now), {}
  for i = 2, #all do
    if untils[i] >= 0 then others[i] = read(o, all[i], now) end
  end
  -- From when it means the same as a new account, it is one.
  local ends = first.run.ends(first)
  for _, other in pairs(others) do ends = math.max(ends, other.run.ends(other)) end
  if ends <= now then others = {} end

  o.aside = {}
  local function put(other, till)
    if #o.aside < C.MaxVersions - 1 then o.aside[#o.aside + 1], other.expected = other, till end
  end
  if own ~= 1 and ends > now then put(first, now + first.reach + C.VersionLives) end
  for i = 2, #all do
    if others[i] and i ~= own then put(others[i], untils[i]) end
  end
  if #o.aside == 0 then o.aside = nil end
  if own and (own == 1 or others[own]) then
    o.run.loadstring(o, string.match(all[own], '^%S+ (.*)$'), now)
  else
    o.run.loadstring(o, nil, now)
    if not o.run.earliest then o.run.rest() end
    if ends <= now then
      if not looking then redis.call('DEL', o.key) end
    elseif looking then
      if o.run.unfold then o.run.unfold(o) end
      if first.pause > now then o.run.setpause(o, now, first.pause) end
    else
      convert(o, first, now)
    end
  end
  if own == 1 then return end
  o.dirty = not looking and ends > now
  if first.share then first.share, first.since, first.slowed = 0, 0, 0 end
end

-- told counts a call of cost n whose slot is at, for those who ask for other shapes.
function versions.told(o, now, at, n)
  for i = 1, #o.aside do
    local other = o.aside[i]
    if other.run.tell then other.run.tell(other, now, at, n) end
  end
  o.dirty = true
end

-- save writes all accounts.
function versions.save(o, text, ends, now)
  local lines = { o.unit .. (text or o.run.empty) }
  for i = 1, #o.aside do
    local other = o.aside[i]
    local state, till = other.run.text(other, now)
    lines[i + 1] = string.format('%.0f ', other.expected) .. other.unit .. (state or other.run.empty)
    if till and till > ends then ends = till end
  end
  if ends <= now then
    redis.call('DEL', o.key)
  else
    redis.call('SET', o.key, table.concat(lines, '\n'), 'PX', lasting(ends - now))
  end
end

return versions
