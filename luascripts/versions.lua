-- versions.lua: accounts of one key, one for each shape in which a limit is asked for. The reasoning is in package engine, versions.go.
--
-- The value of an account's key is "shape state"; or, while there are others, "*shape state", and for each of them, beginning with the one
-- that was asked for last, a line "until shape state", at most C.MaxVersions lines in all, where
--   shape  "r", the emission interval, "." and the burst of a rate; "w", or "c" if it has a calendar, the width of a bucket, "." and how many
--          before its own a window counts; "p" of concurrency
--   state  what the algorithm says: see gcra.lua, window.lua and concurrency.lua
--   until  when nobody is expected to ask for it any more
-- The gaps and the starts of a rate are in keys whose names end with its emission interval. Those of other shapes are not among KEYS, but
-- in the same hash slot.
-- TTL    of the value: until none of them matters any more; of the gaps of each rate: until its last one is past

local versions = {}

-- longest is how long a shape may be that these scripts have written, with the space after it.
local longest = 40

-- complete defines all that an algorithm can do.
local function complete(a)
  if not a.earliest then a.rest() end
  if not a.cancel then a.heeding() end
  if a.turning and not a.recount then a.turning() end
  return a
end

-- run returns an algorithm with all that it can do: by its number, and of concurrency, which not every script is asked for, its definition.
local function run(algorithm, definition)
  if not algorithms[algorithm] then algorithms[algorithm] = (definition or define[algorithm])() end
  return complete(algorithms[algorithm])
end

-- read returns the account of a shape and its state, as far as it is known without a limit: what it admits is not known.
local function read(of, text, now)
  local space = string.find(text, ' ', 1, true)
  if not space or space > longest then foreign(of.key) end
  local shape, state = string.sub(text, 1, space), string.sub(text, space + 1)
  local kind, unit, more = string.match(shape, '^([rwc])(%d+)%.(%d+) $')
  local o = { key = of.key, unit = shape, reach = 0 }
  if shape == 'p ' then
    o.run = run(C.Concurrency, define.concurrency)
    o.run.blank(o)
    o.limit = 0
  elseif kind == 'r' then
    o.t, o.limit = number(unit, of.key), number(more, of.key)
    if o.t == 0 or o.limit == 0 then foreign(of.key) end
    local name, scope = string.match(of.key, '^([^}]*}:[^:]*)(.*)$')
    o.gaps, o.starts = name .. '/gaps.' .. unit .. scope, name .. '/starts.' .. unit .. scope
    o.tat, o.plain, o.dirty, o.run, o.reach = 0, true, false, run(C.GCRA), o.limit * o.t
  elseif kind then
    local width, m = number(unit, of.key), number(more, of.key)
    if width == 0 then foreign(of.key) end
    o = run(C.Window).blank(of.key, shape, C.MaxInteger, width, m, 0)
    o.reach = math.min((o.m + 2) * o.width, C.MaxDebt)
  else
    foreign(of.key)
  end
  o.run.loadstring(o, state, now)
  if o.run.unfold then o.run.unfold(o) end
  if kind == 'c' and o.ends > 0 then o.bounds = { o.at[o.size] } end -- its grid goes on evenly, for all that is known
  return o
end

-- same reports whether an account that is written means the same as one of a shape: those of rates do, whatever the burst.
local function same(a, b)
  if string.sub(b, 1, 1) == 'r' then return string.match(a, '^[^.]*%.') == string.match(b, '^[^.]*%.') end
  return string.sub(a, 1, #b) == b
end

-- convert has a new account begin with what another one knows. Nothing that was charged before is given back to it.
local function convert(o, from, now)
  complete(o.run)
  if o.run.unfold then o.run.unfold(o) end
  local at, n = {}, {}
  if from.run.history then at, n = from.run.history(from, now) end
  if o.run.recount then
    for i = 1, #at do o.run.recount(o, now, at[i], n[i]) end
  end
  if o.run.inherit then o.run.inherit(o, from, now) end
  o.dirty = true
end

-- regrid counts what a window holds anew: its calendar has another time zone by now, or went on evenly as long as nobody knew it.
function versions.regrid(o, now)
  local from = { run = run(C.Window) }
  for _, name in ipairs({ 'unit', 'width', 'm', 'at', 'held', 'low', 'size', 'margin', 'raised', 'fades' }) do from[name] = o[name] end
  o.run, turning = from.run, true
  o.run.clear(o, now)
  convert(o, from, now)
end

-- open loads an account whose value is not that of its shape alone. It writes nothing: a key of another account may hold what is foreign.
-- What is to be written is left to turn.
function versions.open(o, v, now)
  local all, own = {}, nil
  local several = string.sub(v, 1, 1) == '*'
  for text in string.gmatch((several and string.sub(v, 2) or v) .. '\n', '([^\n]*)\n') do
    local till = math.huge
    if #all > 0 then
      local t, rest = string.match(text, '^(%d+) (.*)$')
      till, text = number(t, o.key), rest
    end
    if #all == C.MaxVersions or #all == 1 and not several then foreign(o.key) end
    local one = read(o, text, now)
    one.expected, one.state = till, string.sub(text, #one.unit + 1)
    all[#all + 1] = one
    if same(text, o.unit) then own = #all end
  end
  local first, kept = all[1], {}
  for i = 1, #all do
    if all[i].expected > now then
      kept[#kept + 1] = i
    elseif own == i then
      own = nil
    end
  end
  local over = #kept == 1 and first.run.ends(first) <= now -- it means the same as a new account: nobody is to know of it
  if over then kept = {} end

  o.aside = {}
  for _, i in ipairs(kept) do
    local other = all[i]
    if i == 1 then other.expected = now + other.reach + C.VersionLives end
    if i ~= own and #o.aside < C.MaxVersions - 1 then o.aside[#o.aside + 1] = other end
  end
  if #o.aside == 0 then o.aside = nil end
  -- Of a rate, the account counts calls of other shapes up to the largest burst that was asked for since all had come back.
  if own and not over and o.t and all[own].limit > o.limit then o.unit = all[own].unit end
  o.run.loadstring(o, own and all[own].state, now)
  if own == 1 then return end
  complete(o.run)
  if looking then
    if not own and not over and o.run.unfold then o.run.unfold(o) end
    o.dirty = false
    return
  end
  function o.turn()
    o.dirty = true
    if over then
      if o.run.unfold then o.run.unfold(o) end
      o.plain = false
      return
    end
    if not own then
      convert(o, first, now)
      o.converted = o.gaps
    end
    if first.share then first.share, first.since, first.slowed = 0, 0, 0 end
  end
end

-- turn has accounts whose shapes have changed begin with what others know. It comes before anything is asked of them.
function versions.turn(entries)
  for i = 1, #entries do
    local o = entries[i]
    if o.turn then
      o.turn()
      o.turn = nil
    end
  end
end

-- unturn takes back what turn wrote of an account, because all of its calls were refused.
function versions.unturn(o)
  if o.converted then redis.call('UNLINK', o.converted, o.starts or o.converted) end
end

-- count counts a call of cost n whose slot is at, for those who ask for other shapes.
function versions.count(o, now, at, n)
  for i = 1, #o.aside do
    local other = o.aside[i]
    if other.run.recount then other.run.recount(other, now, at, n) end
  end
  o.dirty = true
end

-- save writes all accounts.
function versions.save(o, text, ends, now)
  local lines = { '*' .. o.unit .. text }
  for i = 1, #o.aside do
    local other = o.aside[i]
    local state = other.run.text(other, now)
    if other.grown then redis.call('PEXPIRE', other.gaps, lasting(other.last - now)) end
    lines[i + 1] = string.format('%.0f ', other.expected) .. other.unit .. state
    if other.expected > ends then ends = other.expected end
  end
  if ends <= now then
    redis.call('DEL', o.key)
  else
    redis.call('SET', o.key, table.concat(lines, '\n'), 'PX', lasting(ends - now))
  end
end

return versions
