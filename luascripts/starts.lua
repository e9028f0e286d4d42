-- starts.lua: the log that makes the windows of a rate exact. The reasoning is in package engine, log.go.
--
-- KEYS   of a rate whose windows are exact (algorithms 6 and 7), after the gaps:
--        starts: a sorted set, one member for each unit of cost, score = when it goes, member = the start of its cell of
--        virtual time, negative if it cannot be given back. It means something while the account's own key refers to it
-- TTL    until the last start is out of the window; more generously, so that it need not be set with every call

local starts = {}

-- most returns how many calls may start in a window. While the pace is slower than the limit's, they are fewer.
function starts.most(o)
  if not o.pace or o.pace <= o.t then return o.most end
  local n = o.within + o.pace - 1
  return math.max(1, math.min(o.most, (n - n % o.pace) / o.pace))
end

-- free returns how many more starts there may be in the window that ends now, and whether the log has none there.
function starts.free(o, now)
  if not o.whole then return starts.most(o), false end
  local inside = redis.call('ZCOUNT', o.starts, now - o.wide + 1, '+inf')
  return starts.most(o) - inside, inside == 0
end

-- crowded returns s if n more starts at s are in no group of most + 1 that is shorter than the window, or else a later
-- instant before which they are; and how much work that was.
function starts.crowded(o, s, n)
  if not o.whole then return s, 0 end
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

-- keep sees to it that there is a log before something is charged or given back under a limit that wants one. One that
-- does not leaves none behind, and neither does one that has changed.
function starts.keep(o)
  if o.whole then return end
  redis.call('UNLINK', o.starts)
  o.unlogged, o.kept, o.logtau, o.whole, o.expire = o.tat, o.within, (o.limit - 1) * o.t, true, true
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

-- add logs n starts of a call whose interval begins at x. More than fill a window need not be distinguished. Their cells are no
-- earlier than the slot and no more than the tolerance later, so that they are found where that is.
function starts.add(o, at, n, x)
  n = math.min(n, o.most)
  local tau, parts = (o.limit - 1) * o.t, math.max(1, n - 1)
  insert(o, at, n, math.max(x, at), math.max(1, math.min(o.t, (tau - tau % parts) / parts)))
end

-- take logs many calls of cost n that go now, whose intervals begin at x.
function starts.take(o, now, n, many, x)
  insert(o, now, n * many, x, o.t)
end

-- debt logs n starts that nobody knew of when they went. They are charged from an instant on, and not given back.
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

-- last returns where the last n cells of a charge begin; nil if it has not so many.
function starts.last(o, from, to, n)
  if not o.whole or n == 0 then return nil end
  local cells = of(o, from, to, from, to)
  return cells[#cells - n + 1]
end

-- claim notes that there may have been starts before now, and until the end of a charge that nobody knew of.
function starts.claim(o, now, from, to, unknown)
  local till = unknown and to or math.min(to, now)
  if till > now - o.within and (unknown or from <= now) then o.unlogged = math.max(o.unlogged, till) end
end

-- tidy forgets starts that do not matter any more, when the tail has come from one window into another.
function starts.tidy(o, was, now)
  local within = o.within
  if was - was % within == o.tat - o.tat % within then return end
  sweep(o.starts, now - o.wide)
  o.expire = true
end

-- write sets the log's TTL. It is good for as long as the tail stays in the window where it is: whatever else moves the tail on sets
-- o.expire.
function starts.write(o, now)
  if o.expire then redis.call('PEXPIRE', o.starts, lasting(o.tat - o.tat % o.within + 3 * o.within - now)) end
end

return starts
