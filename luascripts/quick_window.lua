-- quick_window.lua: how quick.lua steps through accounts, and what it does with windows: those that have only counts, none of them ahead, or
-- parts whose notes do not change. window.lua and floor.lua have the reasons.

-- after returns where the arguments behind those of an account begin; nil if this is not the common case.
local function after(at)
  local algorithm = ARGV[at]
  if algorithm == 'C.GCRA' then return at + 3 end
  if algorithm == 'C.Window' then return at + 6 + ARGV[at + 5] end
  if algorithm == 'C.Part' then return at + 8 + ARGV[at + 7] end
  return algorithm == 'C.AnyRate' and ARGV[at + 8] == '0' and ARGV[at + 9] + 0 <= C.FairQueue and at + 10 or nil
end

-- windows returns two functions, which are made for the calls that need them.
local function windows()
  local list = lists()

  -- read reads the window whose arguments begin at one and whose key has the value v: what the present bucket and all of them hold, and the
  -- numbers behind these two. It returns nil if this is not the common case.
  local function read(at, v, now)
    local o = { limit = ARGV[at + 1] + 0, width = ARGV[at + 2] + 0, back = ARGV[at + 3] * ARGV[at + 2], held = 0, total = 0, more = '', buckets = '' }
    local bounds, begins, ends = at + (ARGV[at] == 'C.Part' and 7 or 5), nil, nil
    local calendar = ARGV[bounds] ~= '0'
    if not calendar then
      begins = now - now % o.width
      ends = begins + o.width
    else
      for i = bounds + 1, bounds + ARGV[bounds] do
        ends = ARGV[i] + 0
        if ends > now then break end
        begins = ends
      end
      if not begins or ends <= now then return nil end
    end
    o.begins, o.ends, o.last, o.lasts = begins, ends, ends - ARGV[at + 4] - 1, ends + o.back
    if o.last < now then return nil end
    o.shape = (calendar and 'c' or 'w') .. ARGV[at + 2] .. '.' .. ARGV[at + 3] .. ' '
    if v then
      if string.sub(v, 1, #o.shape) ~= o.shape then return nil end
      local till, all, more, from = string.match(v, '^(%d+) (%d+)([ %d]*)()', #o.shape + 1)
      if not till or till + 0 > o.lasts then return nil end
      o.total, o.more = all + 0, more
      if from <= #v then
        from = string.sub(v, from, from) == '|' and from + 1
        if not from or from > #v or (#v + 1 - from) % 14 > 0 then return nil end
        local first, size = 1, (#v + 1 - from) / 14
        local one, began = list.pair(v, size, from)
        if began > begins or o.back > 0 and (begins - began) % o.width ~= 0 then return nil end
        if began == begins then
          o.held, size = one, size - 1
        elseif calendar then
          return nil -- it may be in another grid
        end
        while first <= size do
          one, began = list.pair(v, first, from)
          if began >= begins - o.back then break end
          o.total, first = o.total - one, first + 1
        end
        o.buckets = string.sub(v, from + 14 * first - 14, from + 14 * size - 1)
      end
    end
    return o
  end

  -- value returns the value of a window's key with n calls more.
  local function value(o, n)
    return o.shape .. string.format('%.0f %.0f', o.lasts, o.total + n) .. o.more .. '|' .. o.buckets .. list.of(o.held + n, o.begins)
  end

  -- count counts many calls of one cost in a window. It returns the new value, when that expires, when the present bucket begins, its slack,
  -- and what it holds with the first call; nil if this is not the common case.
  local function count(at, v, now, many, cost)
    local o = read(at, v, now)
    if not o or o.more ~= '' or o.total + many * cost > o.limit then return nil end
    return value(o, many * cost), o.lasts, o.begins, o.last - now, o.held + cost
  end

  -- share returns what is kept now of the part of a party, whose calls an account notes: see floor.lua.
  local function share(o, now)
    local floor, spent = o.part, o.spent or o.held
    local away, last = math.max(0, o.begins - o.quiet + math.floor(o.width / 2)), math.floor((o.last - o.begins + 1) / C.LetGo)
    local halvings = math.min(math.max(0, (away - away % o.width) / o.width - C.IdleWindows), C.IdleHalvings)
    local most = math.min(floor - spent, math.floor(floor / 2 ^ halvings))
    if o.last - now < last then most = math.min(most, math.floor(floor * ((o.last - now) / last))) end
    return math.max(0, most)
  end

  -- leaves reports whether n calls more leave what parties have of a window that does not slide. Nothing new is noted of the parties.
  local function leaves(whole, parts, mine, now, n)
    local floor, spent, kept = whole.limit, whole.held, 0
    for i = 0, #parts do
      local o = parts[i]
      local quiet, noted = string.match(o.more, '^ 0 0 0 0 0 0 0 0 0 0 0 (%d+) (%d+)$')
      if not quiet or noted + 0 < o.begins + (C.IdleWindows + C.IdleHalvings) * o.width then return false end
      o.quiet, o.matters = quiet + 0, math.max(o.lasts, noted + 0)
      if o == mine and o.quiet < o.ends then return false end
      if i > 0 then floor, spent = floor - o.part, spent - o.held end
    end
    whole.part, whole.spent = floor, spent
    if whole.held + n > whole.limit then return false end
    if n <= share(mine, now) then return true end
    for i = 0, #parts do
      if parts[i] ~= mine then kept = kept + share(parts[i], now) end
    end
    return whole.limit - whole.held - n >= kept
  end

  -- fronts reports whether many calls are within the part of their party of a sliding window, or not too far ahead of its front, and moves that.
  local function fronts(whole, parts, mine, now, many, cost)
    local front, floor, had, n = string.match(whole.more, '^ 0 0 0 0 0 0 0 0 0 0 (%d+)$'), whole.limit - 2 * whole.ahead, whole.total, many * cost
    if not front and whole.more ~= '' then return false end
    for i = 1, #parts do
      if parts[i].more ~= '' then return false end
      floor, had = floor - parts[i].part, had - parts[i].total
    end
    if mine.part then floor, had = mine.part, mine.total end
    local each = (whole.back + whole.width) / math.max(1, whole.limit - whole.ahead)
    local pace, ahead, from = math.floor(cost * each), math.floor(whole.ahead * each), tonumber(front or 0)
    local soon = (many > 1 and math.max(from, now) + (many - 1) * pace or from) - ahead <= now and whole.total + n + whole.ahead <= whole.limit
    if not soon and (had + n > floor or whole.total + n > whole.limit) then return false end
    from = math.max(from, now) + many * pace
    whole.more, whole.matters = string.format(' 0 0 0 0 0 0 0 0 0 0 %.0f', from), math.max(whole.lasts, from)
    return true
  end

  -- divide counts many calls of one cost in a window with parts, whose key is i, and whose arguments begin at one. The bits of kept are those
  -- of the parts that the calls leave to others. It returns the window, and the size of the reply; nil if this is not the common case.
  local function divide(values, lasts, reply, size, i, at, now, many, cost, kept)
    local whole = read(at, values[i], now)
    local parts, mine = { [0] = whole }, whole
    if not whole then return nil end
    whole.ahead, whole.next = ARGV[at] == 'C.Part' and ARGV[at + 6] + 0 or 0, after(at)
    while ARGV[whole.next] == 'C.Part' and ARGV[whole.next + 5] ~= '0' do
      local k = #parts + 1
      local o = (values[i + k] or redis.call('TYPE', KEYS[i + k])['ok'] == 'none') and read(whole.next, values[i + k], now)
      if not o then return nil end
      o.part, parts[k], whole.next = ARGV[whole.next + 5] + 0, o, after(whole.next)
      if math.floor(kept / 2 ^ (i + k - 2)) % 2 == 0 then mine = o end
    end
    if whole.back > 0 then
      if not fronts(whole, parts, mine, now, many, cost) then return nil end
    elseif whole.ahead > 0 or not leaves(whole, parts, mine, now, many * cost) then
      return nil
    end
    for k = 0, #parts do
      local o = parts[k]
      if k == 0 or o == mine then
        values[i + k], lasts[i + k] = value(o, many * cost), o.matters or o.lasts
        reply[size + 1], reply[size + 2], reply[size + 3] = o.begins, cost, o.held + cost
      else
        reply[size + 1], reply[size + 2], reply[size + 3] = 0, 0, 0
      end
      size = size + 3
    end
    return whole, size, #parts
  end

  return count, divide
end
