-- starts.lua: the log that makes the windows of a rate exact. The reasoning is in package engine, log.go.
--
-- KEYS   of a rate whose windows are exact:
--        starts: a sorted set, one member for each unit of cost, score = its start, member = the start of its cell of virtual time,
--        negative if it cannot be given back. It counts only while the account's own key names it
-- TTL    until the last start is out of the window, and longer, so that quick.lua need not set it with every call

local starts = {}

-- whole reports whether the log is one of the limit: all that it lacks began before o.unlogged.
function starts.whole(o) return o.kept == o.within and o.logtau == o.tau end

-- since returns from when on the log knows all that matters.
function starts.since(o) return (starts.whole(o) and o.unlogged or o.tat) + o.wide end

-- most returns how many calls may start in a window. While the pace is slower than the limit's, they are fewer.
function starts.most(o)
  if o.pace <= o.t then return o.most end
  local n = o.within + o.pace - 1
  return math.max(1, math.min(o.most, (n - n % o.pace) / o.pace))
end

-- free returns how many more starts there may be in the window that ends now.
function starts.free(o, now)
  return starts.most(o) - (starts.whole(o) and redis.call('ZCOUNT', o.starts, now - o.wide + 1, '+inf') or 0)
end

-- crowded returns s if n more starts at s are in no group of most + 1 that is shorter than the window, or else a later
-- instant before which they are; and how much work that was.
function starts.crowded(o, s, n)
  if not starts.whole(o) then return s, 0 end
  local most = starts.most(o)
  local others, within = most + 1 - math.min(n, most), o.wide
  if redis.call('ZCOUNT', o.starts, s - within + 1, s + within - 1) < others then return s, 0 end
  local after = redis.call('ZRANGEBYSCORE', o.starts, s + 1, s + within - 1, 'WITHSCORES', 'LIMIT', 0, others)
  local behind = #after / 2
  local b = math.min(behind, others - 1)
  -- Starts that are the first of a group with b, b - 1, ... 0 starts after s.
  local before = redis.call('ZREVRANGEBYSCORE', o.starts, s, s - within + 1, 'WITHSCORES', 'LIMIT', others - b - 1, b + 1)
  local at = s
  for i = 2, #before, 2 do
    local first, last = number(before[i], o.starts), b > 0 and number(after[2 * b], o.starts) or s
    if last - first < within and first + within > at then at = first + within end
    b = b - 1
  end
  if behind == others then at = math.max(at, number(after[2], o.starts)) end
  return at, C.CrowdedLook + behind
end

-- keep makes the log, if the limit needs one, before anything is charged or given back. If the limit does not, or has changed, keep drops
-- the old log.
function starts.keep(o)
  if not o.most then
    o.unlogged, o.kept, o.logtau = 0, 0, 0
  elseif not starts.whole(o) then
    redis.call('UNLINK', o.starts)
    o.unlogged, o.kept, o.logtau = o.tat, o.within, o.tau
  end
end

-- insert logs n starts with cells so far apart.
local function insert(o, at, n, cell, apart)
  local more = {}
  for i = 1, 2 * n, 2 do
    more[i], more[i + 1] = at, cell
    cell = cell + apart
  end
  redis.call('ZADD', o.starts, unpack(more))
end

-- add logs n starts of a call whose interval begins at x, at most as many as fill a window. Their cells are no earlier than the slot and at
-- most the tolerance later, so they can be found by the slot.
function starts.add(o, at, n, x)
  n = math.min(n, o.most)
  local parts = math.max(1, n - 1)
  insert(o, at, n, math.max(x, at), math.max(1, math.min(o.t, (o.tau - o.tau % parts) / parts)))
end

-- debt logs n starts that were unknown when they happened. They are charged from an instant on, and not given back.
function starts.debt(o, at, n, from)
  insert(o, at, math.min(n, o.most), -from, -1)
end

-- of returns the cells of the starts of a charge begin..ends that lie in from..to, in order.
local function of(o, begin, ends, from, to)
  local found, cells = redis.call('ZRANGEBYSCORE', o.starts, begin - o.tau, ends - 1), {}
  for i = 1, #found do
    local cell = tonumber(found[i])
    if cell >= from and cell < to then cells[#cells + 1] = cell end
  end
  table.sort(cells)
  return cells
end

-- remove takes the starts of a charge begin..ends out whose cells begin in from..to.
function starts.remove(o, begin, ends, from, to)
  local cells = of(o, begin, ends, from, to)
  for i = 1, #cells do redis.call('ZREM', o.starts, cells[i]) end
end

-- first returns the start of the first unit of a charge, and its cell; nil if that is not known.
function starts.first(o, from, to)
  local cell = starts.whole(o) and of(o, from, to, from, to)[1]
  if cell then return number(redis.call('ZSCORE', o.starts, cell), o.starts), cell end
end

-- last returns where the last n cells of a charge begin; nil if it has fewer.
function starts.last(o, from, to, n)
  if n == 0 or not starts.whole(o) then return nil end
  local cells = of(o, from, to, from, to)
  return cells[#cells - n + 1]
end

-- claim records that there may have been starts before now, and until the end of an unknown charge.
function starts.claim(o, now, from, to, unknown)
  local till = unknown and to or math.min(to, now)
  if till > now - o.within and (unknown or from <= now) then o.unlogged = math.max(o.unlogged, till) end
end

-- tidy forgets starts that do not matter any more, when the tail has come from one window into another.
function starts.tidy(o, was, now)
  if was - was % o.within ~= o.tat - o.tat % o.within then sweep(o.starts, now - o.wide) end
end
