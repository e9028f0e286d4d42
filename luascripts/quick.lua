-- quick.lua: the common case of reserve.lua. It comes first, because to define the rest takes longer than this.
--
-- KEYS, ARGV, Reply and TTL are those of reserve.lua. The case: runs of calls that have one cost for all accounts, and differ only in how
-- long they would wait; rates that do not adapt and have only a tail, and a log if their windows are exact; windows that have only counts,
-- none of them ahead, or parts whose notes do not change; no queued calls; and an upstream with no news. The calls can go now, or wait for
-- rates without a log, leave no gaps in others, and are in the present bucket of each window. In any other case it does nothing, and the
-- rest of the script decides. gcra.lua, starts.lua, window.lua, floor.lua and queued.lua have the reasons.

-- paced returns a function that is made for calls that wait for rates.
local function paced()
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
    local latest, reply, size, count = answers[#answers].slot, { now }, 1, nil
    for i = 1, n do
      local o = all[i]
      if o.window then count = count or windows() end
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

  return pace
end

local function quickly()
  local n, at, many, cost, kept, queues, count, divide = tonumber(ARGV[3]), 4, 1, 1, nil, false, nil, nil
  for _ = 1, n do
    at = after(at)
    if not at then return nil end
  end
  local first = at
  if #ARGV ~= at then
    local each, flags = ARGV[at + 2], ARGV[at + 5]
    local size = 6
    queues = flags % C.Keeps == C.MayQueue
    if flags + 0 >= C.Keeps then kept, size = ARGV[at + 6], 7 end
    if each == '0' or flags + 0 ~= (kept and C.Keeps or 0) + (queues and C.MayQueue or 0) then return nil end
    many, cost, size = 0, tonumber(each), queues and size + 8 or size
    for i = at, #ARGV, size do
      if ARGV[i] ~= '0' or ARGV[i + 2] ~= each or ARGV[i + 3] ~= '0' or ARGV[i + 5] ~= flags or kept and ARGV[i + 6] ~= kept then return nil end
      if queues and (ARGV[i + size - 4] ~= '0' or ARGV[i + size - 2] ~= '0' or ARGV[i + size - 1] ~= '0') then return nil end
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
  local i, rated = 2, nil
  at = 4
  while i <= n + 1 do
    local v, algorithm = values[i], ARGV[at]
    if not v and call('TYPE', KEYS[i])['ok'] ~= 'none' then return nil end
    if algorithm == 'C.Part' or algorithm == 'C.Window' and i <= n and ARGV[after(at)] == 'C.Part' and ARGV[after(at) + 5] ~= '0' then
      if not count then count, divide = windows() end
      local o, parts
      o, size, parts = divide(values, lasts, reply, size, i, at, now, many, cost, kept or 0)
      if not o then return nil end
      if reply[3] < 0 or o.last - now < reply[3] then reply[3] = o.last - now end
      i, at = i + parts, o.next
    elseif algorithm == 'C.Window' then
      if not count then count, divide = windows() end
      local begins, slack, seen
      values[i], lasts[i], begins, slack, seen = count(at, v, now, many, cost)
      if not begins then return nil end
      reply[size + 1], reply[size + 2], reply[size + 3], size = begins, cost, seen, size + 3
      if reply[3] < 0 or slack < reply[3] then reply[3] = slack end
      at = after(at)
    else
      local burst, t, from, tat, log = ARGV[at + 1], ARGV[at + 2] + 0, now, nil, nil
      local shape = 'r' .. ARGV[at + 2] .. ' '
      if v then
        if sub(v, 1, #shape) ~= shape then return nil end
        tat = sub(v, #shape + 1)
      end
      if algorithm == 'C.AnyRate' then
        local exact, queue = ARGV[at + 3] ~= '0', ARGV[at + 9]
        if exact then log, more = { within = tonumber(ARGV[at + 4]), starts = KEYS[more], unlogged = 0, fresh = not v, lead = (burst - 1) * t }, more + 1 end
        if queue ~= 'C.NoQueue' then
          if queue == 'C.LaneQueue' and rated ~= i - 1 or call('EXISTS', KEYS[more]) == 1 then return nil end
          more = more + (queue == 'C.LaneQueue' and 2 or 3)
        end
        if log and v then
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
        return not queues and paced()(first, n, now, cost)
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
      else
        values[i], lasts[i] = shape .. format('%.0f', ends), ends
      end
      if algorithm == 'C.GCRA' or ARGV[at + 9] ~= 'C.LaneQueue' then rated = i end
      at = after(at)
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
