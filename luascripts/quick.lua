-- quick.lua: the common case of reserve.lua. It comes first, because to define the rest takes longer than this.
--
-- KEYS, ARGV, Reply and TTL are those of reserve.lua. The case: runs of calls that have one cost for all accounts, and differ only in how
-- long they would wait; rates that do not adapt and have only a tail, and a log if their windows are exact; windows that have only counts,
-- none of them ahead, or parts whose notes do not change; and an upstream with no news. The calls can go now, or wait for rates without a
-- log, leave no gaps in others, and are in the present bucket of each window. In any other case it does nothing, and the rest of the
-- script decides. gcra.lua, starts.lua, window.lua and floor.lua have the reasons.

-- rarely returns three functions, which are made for the calls that need them.
local function rarely()
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

  -- share returns what is kept now for a party, whose calls an account notes: see floor.lua.
  local function share(o, now, floor, spent)
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
      if i > 0 then
        floor, spent = floor - o.part, spent - o.held
        o.kept = share(o, now, o.part, o.held)
        kept = kept + o.kept
      end
    end
    whole.kept = share(whole, now, floor, spent)
    return whole.held + n <= whole.limit and (whole.limit - whole.held - n >= kept + whole.kept - mine.kept or n <= mine.kept)
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
    whole.ahead, whole.next = 0, at + 6 + ARGV[at + 5]
    if ARGV[at] == 'C.Part' then whole.ahead, whole.next = ARGV[at + 6] + 0, at + 8 + ARGV[at + 7] end
    while ARGV[whole.next] == 'C.Part' and ARGV[whole.next + 5] ~= '0' do
      local k = #parts + 1
      local o = (values[i + k] or redis.call('TYPE', KEYS[i + k])['ok'] == 'none') and read(whole.next, values[i + k], now)
      if not o then return nil end
      o.part, parts[k], whole.next = ARGV[whole.next + 5] + 0, o, whole.next + 8 + ARGV[whole.next + 7]
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

  -- look reads the accounts of calls of one cost. For a rate it returns t, how late after the tail a call starts, the tail, and the shape
  -- of the value; for a window where its arguments begin, and the value.
  local function look(n, now, cost)
    local all, at, values = {}, 4, redis.call('MGET', unpack(KEYS, 2, n + 1))
    for i = 1, n do
      local v, burst, t = values[i], ARGV[at + 1], tonumber(ARGV[at + 2])
      if not v and redis.call('TYPE', KEYS[i + 1])['ok'] ~= 'none' then return nil end
      if ARGV[at] == 'C.GCRA' then
        local shape, tail = 'r' .. ARGV[at + 2] .. ' ', 0
        if v then tail = string.sub(v, 1, #shape) == shape and tonumber(string.sub(v, #shape + 1)) end
        if not tail or tail < 0 or tail >= C.MaxInteger or tail % 1 ~= 0 then return nil end
        all[i], at = { t = t, need = cost * t, late = (cost - burst) * t, tail = math.max(tail, now), shape = shape }, at + 3
      elseif ARGV[at] == 'C.Window' then
        all[i], at = { window = at, value = v }, at + 6 + ARGV[at + 5]
      else
        return nil
      end
    end
    return all
  end

  -- charge charges many calls to the rates, the first one at a slot, and adds its charges to an answer. It returns nil if one of the rates
  -- would have a gap.
  local function charge(all, answer, slot, many)
    for i = 1, #all do
      local o = all[i]
      if o.t then
        local x, lead = o.tail, slot - math.max(0, o.late)
        if lead > x then
          if x + o.t + o.late <= slot then return nil end
          x = lead
        end
        answer[2 * i - 1], answer[2 * i], o.tail = o.tail, x + o.need, x + many * o.need
        if answer.slack then answer.slack = math.min(answer.slack, math.max(0, x - slot)) end
      end
    end
    return answer
  end

  -- decide decides about the runs of calls from an argument on by the rates only. It returns the answers, how many calls go, and in how
  -- many there must be room in windows; nil if that is not the common case.
  local function decide(all, first, now)
    local answers, goes, room = {}, 0, 0
    for at = first, #ARGV, 6 do
      local left, most = 1, ARGV[at] + 0
      if first < #ARGV then left, most = ARGV[at + 1] + 0, ARGV[at + 4] + 0 end
      local many = left
      for i = 1, #all do
        local spare, need = all[i].t and now - all[i].late - all[i].tail, all[i].need
        if spare then many = spare < 0 and 0 or math.min(many, (spare - spare % need) / need + 1) end
      end
      if many > 0 then
        answers[#answers + 1] = charge(all, { many = many, slot = now, before = goes }, now, many)
        goes, left = goes + many, left - many
      end
      while left > 0 do
        local slot, binds = now, 0
        for i = 1, #all do
          local from = all[i].t and all[i].tail + all[i].late
          if from and from > slot then slot, binds = from, i end
        end
        local answer, fits = { many = 0, slot = slot, binds = binds, before = goes, slack = math.huge }, slot - now <= most
        if not fits then
          answer.many, room, left = -left, math.max(room, goes + 1), 1
        elseif charge(all, answer, slot, 1) then
          goes = goes + 1
        else
          return nil
        end
        answers[#answers + 1], left = answer, left - 1
      end
    end
    return answers, goes, math.max(room, goes)
  end

  -- pace gives calls of one cost their slots in turn, and returns the reply.
  local function pace(first, n, now, cost)
    local all = look(n, now, cost)
    if not all then return nil end
    local answers, goes, room = decide(all, first, now)
    if not answers then return nil end
    local latest, reply, size = answers[#answers].slot, { now }, 1
    for i = 1, n do
      local o = all[i]
      if o.window and (room == goes or count(o.window, o.value, now, room, cost)) then
        o.value, o.lasts, o.begins, o.slack, o.seen = count(o.window, o.value, now, goes, cost)
      end
      if o.window and (not o.begins or o.slack < latest - now) then return nil end
    end
    for k = 1, #answers do
      local a = answers[k]
      local slack = a.slack or math.huge
      for i = 1, a.many < 0 and 0 or n do
        if all[i].window then slack = math.min(slack, all[i].slack - a.slot + now) end
      end
      if a.many > 0 then
        reply[size + 1], reply[size + 2], size = a.many, slack < math.huge and slack or -1, size + 2
      else
        reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4], size = a.many, a.binds, a.slot, 0, size + 4
        if a.many == 0 then reply[size + 1], size = slack, size + 1 end
      end
      for i = 1, a.many < 0 and 0 or n do
        local o = all[i]
        if o.t then
          reply[size + 1], reply[size + 2], size = a[2 * i - 1], a[2 * i], size + 2
        else
          reply[size + 1], reply[size + 2], reply[size + 3], size = o.begins, cost, o.seen + a.before * cost, size + 3
        end
      end
    end
    for i = 1, goes > 0 and n or 0 do
      local o = all[i]
      if o.t then o.value, o.lasts = o.shape .. string.format('%.0f', o.tail), o.tail end
      redis.call('SET', KEYS[i + 1], o.value, 'PX', ttl(o.lasts - now))
    end
    return reply
  end

  return count, pace, divide
end

local function quickly()
  local n, at, many, cost, kept, count, pace, divide = tonumber(ARGV[3]), 4, 1, 1, nil, nil, nil, nil
  for _ = 1, n do
    local algorithm = ARGV[at]
    if algorithm == 'C.GCRA' then
      at = at + 3
    elseif algorithm == 'C.Window' then
      at = at + 6 + ARGV[at + 5]
    elseif algorithm == 'C.Part' then
      at = at + 8 + ARGV[at + 7]
    elseif algorithm == 'C.AnyRate' and ARGV[at + 3] ~= '0' and ARGV[at + 8] == '0' then
      at = at + 10
    else
      return nil
    end
  end
  local first = at
  if #ARGV ~= at then
    local each, flags = ARGV[at + 2], ARGV[at + 5]
    if each == '0' or flags ~= '0' and flags ~= 'C.Keeps' then return nil end
    many, cost, kept = 0, tonumber(each), flags ~= '0' and ARGV[at + 6]
    for i = at, #ARGV, kept and 7 or 6 do
      if ARGV[i] ~= '0' or ARGV[i + 2] ~= each or ARGV[i + 3] ~= '0' or ARGV[i + 5] ~= flags or kept and ARGV[i + 6] ~= kept then return nil end
      many = many + ARGV[i + 1]
    end
  end
  local call, format, sub = redis.call, string.format, string.sub
  local values = call('MGET', unpack(KEYS, 1, n + 1))
  if values[1] then
    if values[1] ~= ARGV[1] then return nil end
  elseif ARGV[1] ~= '0' or call('TYPE', KEYS[1])['ok'] ~= 'none' then
    return nil
  end
  local now = clock()
  if now < ARGV[2] - C.MaxBackstep then return nil end
  local reply, size, more, lasts, logs =
    { now, many, n > 0 and -1 or C.UnboundSlack }, 3, n + 2, {}, nil
  local i = 2
  at = 4
  while i <= n + 1 do
    local v, algorithm = values[i], ARGV[at]
    if not v and call('TYPE', KEYS[i])['ok'] ~= 'none' then return nil end
    if algorithm == 'C.Part' or algorithm == 'C.Window' and i <= n and ARGV[at + 6 + ARGV[at + 5]] == 'C.Part' and ARGV[at + 6 + ARGV[at + 5] + 5] ~= '0' then
      if not count then count, pace, divide = rarely() end
      local o, parts
      o, size, parts = divide(values, lasts, reply, size, i, at, now, many, cost, kept or 0)
      if not o then return nil end
      if reply[3] < 0 or o.last - now < reply[3] then reply[3] = o.last - now end
      i, at = i + parts, o.next
    elseif algorithm == 'C.Window' then
      if not count then count, pace, divide = rarely() end
      local begins, slack, seen
      values[i], lasts[i], begins, slack, seen = count(at, v, now, many, cost)
      if not begins then return nil end
      reply[size + 1], reply[size + 2], reply[size + 3], size = begins, cost, seen, size + 3
      if reply[3] < 0 or slack < reply[3] then reply[3] = slack end
      at = at + 6 + ARGV[at + 5]
    else
      local burst, t, from, tat, log = ARGV[at + 1], ARGV[at + 2] + 0, now, nil, nil
      local shape = 'r' .. ARGV[at + 2] .. ' '
      if v then
        if sub(v, 1, #shape) ~= shape then return nil end
        tat = sub(v, #shape + 1)
      end
      if algorithm == 'C.AnyRate' then
        log = { within = tonumber(ARGV[at + 4]), starts = KEYS[more], unlogged = 0, fresh = not v, lead = (burst - 1) * t }
        if v then
          local kept, tau
          tat, log.unlogged, kept, tau = string.match(tat, '^(%d+) (%d+) (%d+) (%d+)$')
          if kept ~= ARGV[at + 4] or now < log.unlogged + log.within or tonumber(tau) ~= log.lead then return nil end
        end
      end
      if tat then
        tat = tonumber(tat)
        if not tat or tat < 0 or tat >= C.MaxInteger or tat % 1 ~= 0 then return nil end
        if tat > now then from = tat end
      end
      local need = cost * t
      if from + (many - 1) * need > now + (burst - cost) * t then
        if not pace then count, pace, divide = rarely() end
        return pace(first, n, now, cost)
      end
      reply[size + 1], reply[size + 2], size = from, from + need, size + 2
      local ends = from + many * need
      if log then
        log.inside = v and call('ZCOUNT', log.starts, now - log.within + 1, '+inf') or 0
        if log.inside + many * cost > tonumber(ARGV[at + 3]) then return nil end
        log.from, log.t, log.was, log.ends = from, t, tat or 0, ends
        values[i], lasts[i] = shape .. format('%.0f %s %s %.0f', ends, log.unlogged, ARGV[at + 4], log.lead), ends + log.within
        logs = logs or {}
        logs[i] = log
        reply[3] = 0
        at, more = at + 10, more + 1
      else
        values[i], lasts[i] = shape .. format('%.0f', ends), ends
        at = at + 3
      end
    end
    i = i + 1
  end
  for i = 2, n + 1 do
    local log = logs and logs[i]
    if log then
      local tat, within, starts, cells = log.ends, log.within, log.starts, {}
      for j = 1, 2 * many * cost, 2 do
        cells[j], cells[j + 1] = now, log.from
        log.from = log.from + log.t
      end
      if log.fresh then call('UNLINK', starts) end
      call('ZADD', starts, unpack(cells))
      local over = tat - tat % within ~= log.was - log.was % within
      if over then call('ZREMRANGEBYSCORE', starts, '-inf', now - within) end
      if over or log.inside == 0 then call('PEXPIRE', starts, ttl(tat - tat % within + 3 * within - now)) end
    end
    if lasts[i] then call('SET', KEYS[i], values[i], 'PX', ttl(lasts[i] - now)) end
  end
  return reply
end

do
  local reply = quickly()
  if reply then return reply end
end
