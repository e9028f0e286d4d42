-- window_heed.lua: what a window does with what is given back or reported, and its status. The reasoning is in package engine, window.go and
-- window_heed.go.

function window.cancel(o, now, from, n, made)
  if before(o, made, now) or reach(o, from) <= now then return end
  n = math.min(n, (count(o, from)))
  if n == 0 then return end
  move(o, now, -n)
  change(o, from, -n)
  local free = math.max(0, from - o.back)
  if free < o.full then o.full = free end
end

-- settle: a call that cost nothing at first has no bucket, and is charged to the present one; one of another grid, to its place here.
function window.settle(o, now, from, _, cost, actual, made)
  if from == 0 then from = floor(o, now) end
  if actual <= cost then
    window.cancel(o, now, from, cost - actual, made)
  elseif reach(o, floor(o, from)) > now and not before(o, made, now) then
    move(o, now, actual - cost)
    add(o, floor(o, from), actual - cost)
  end
end

function window.slow() return false end

-- clear makes a window a new one.
function window.clear(o, now)
  o.buckets, o.total, o.margin, o.raised, o.fades = '', 0, 0, 0, 0
  widen(o, now)
  o.ends, o.full, o.fulllimit, o.learned, o.till, o.line, o.since, o.quiet, o.noted = 0, 0, 0, 0, 0, 0, 0, 0, 0
  o.most, o.dirty = o.limit, true
end

-- forget drops everything if it is past.
local function forget(o, now)
  if math.max(o.ends, o.till, o.fades, o.noted, o.since) <= now then window.clear(o, now) end
end

function window.stray(o, now, at, within, step, most)
  forget(o, now)
  if o.fades <= now then o.margin, o.raised, o.fades = 0, 0, 0 end
  local alone = stray(o, now, at, within, step, most)
  o.dirty = true
  widen(o, now)
  return alone
end

function window.renew() end

function window.release() end

function window.learn(o, now, value, till)
  local before = o.most
  o.learned, o.till, o.most, o.dirty = math.max(1, value), till, o.limit, true
  if value <= 0 or value >= o.limit or till <= now then o.learned, o.till = 0, 0 end
  if o.till > 0 then o.most = o.learned end
  forget(o, now)
  return o.most ~= before
end

-- claim: a process remembers at least n calls of a bucket.
function window.claim(o, now, from, n)
  from = floor(o, from)
  if reach(o, from) <= now then return end
  local missing = n - count(o, from)
  if missing <= 0 then return end
  tidy(o, now)
  add(o, from, missing)
end

function window.reset(o, now)
  reset(o, now, o.ends)
  window.clear(o, now)
end

-- spent returns when the calls that the window counts start, past ones as if now, and how many at each time.
function window.spent(o, now)
  local at, n, counts = {}, {}, (o.m + 1) * o.width
  if o.calendar then counts = counts + o.width / C.LongerBy end
  for i = 1, size(o) do
    local held, began = bucket(o, i)
    if held > 0 and began + counts > now then at[#at + 1], n[#n + 1] = math.max(now, began), held end
  end
  return at, n
end

-- begin makes an account count n[i] calls at each instant at[i], past or future.
function window.begin(o, from, at, n, now)
  window.clear(o, now)
  window.loadstring(o, nil, now)
  o.mark, o.remembers, o.margin, o.raised, o.fades = 0, 0, from.margin, from.raised, from.fades
  widen(o, now)
  for i = 1, #at do add(o, floor(o, at[i]), n[i]) end
  o.dirty = false
end

function window.holds(o, now)
  local all = {}
  for i = 1, size(o) do
    local held, began = bucket(o, i)
    if held > 0 and reach(o, began) > now then
      all[#all + 1] = began
      all[#all + 1] = held
    end
  end
  return all
end

-- full returns when the whole limit may go again.
local function full(o, now)
  local at = now
  if o.most < o.limit then at = math.max(at, o.till) end
  for i = size(o), 1, -1 do
    local held, began = bucket(o, i)
    if held > 0 then
      at = math.max(at, reach(o, began))
      break
    end
  end
  local k = after(o, floor(o, at))
  return at >= k - o.guard and k or at
end

function window.inspect(o, now)
  local nextat = window.earliest(o, now, now, 1, 0).at
  local k, backlog, remaining = floor(o, now), 0, 0
  for i = find(o, k + 1), size(o) do backlog = backlog + bucket(o, i) end
  local most = o.part or o.most
  if now < after(o, k) - o.guard then remaining = math.max(0, most - fullest(o, k, math.huge)) end
  return remaining, nextat, backlog, 0, most, 0, marginat(o, now), full(o, now)
end

return window
