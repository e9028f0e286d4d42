-- quick.lua: the common case of reserve.lua, before anything else is defined, which would take longer than this does.
--
-- KEYS, ARGV, Reply and TTL are those of reserve.lua. It is: one run of calls that cost the same for every account, want to
-- go now, and can; rates that do not adapt, of which only the tail is known, and the log if their windows are exact; and an
-- upstream of which there is nothing to say. In any other case nothing was done, and the rest of the script decides. gcra.lua
-- and starts.lua have the reasons.

local function quickly()
  local n, at, count, cost = tonumber(ARGV[3]), 4, 1, 1
  for _ = 1, n do
    local algorithm = ARGV[at]
    if algorithm == '1' then
      at = at + 3
    elseif algorithm == '6' then
      at = at + 5
    else
      return nil
    end
  end
  if #ARGV ~= at then
    if #ARGV ~= at + 5 or ARGV[at] ~= '0' or ARGV[at + 2] == '0' or ARGV[at + 3] ~= '0' then return nil end
    count, cost = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  end
  local values = redis.call('MGET', unpack(KEYS)) -- the gaps and the starts have no value
  if values[1] then
    if values[1] ~= '0 ' .. ARGV[1] then return nil end
  elseif ARGV[1] ~= '0' or redis.call('TYPE', KEYS[1])['ok'] ~= 'none' then
    return nil
  end
  local now = clock()
  if now < ARGV[2] - 1000000 then return nil end
  local reply, size, key, logs = { now, count, n > 0 and -1 or 1000000 }, 3, 2, nil
  at = 4
  for _ = 1, n do
    local burst, t, from, tat, within = ARGV[at + 1], ARGV[at + 2], now, values[key], nil
    local log, unlogged, kept, tau
    if ARGV[at] == '6' then
      within = tonumber(ARGV[at + 4])
      if tat then
        log, unlogged, kept, tau = string.match(tat, '^(%d+) /(%d+) (%d+) (%d+)$')
        if not log or kept ~= ARGV[at + 4] or now < unlogged + within or tonumber(tau) ~= (burst - 1) * t then return nil end
        tat = log
      end
    end
    if tat then
      tat = tonumber(tat)
      if not tat or tat < 0 or tat >= 9007199254740992 or tat % 1 ~= 0 then return nil end
      if tat > now then from = tat end
    elseif redis.call('TYPE', KEYS[key])['ok'] ~= 'none' then
      return nil
    end
    local need = cost * t
    if from + (count - 1) * need > now + (burst - cost) * t then return nil end
    reply[size + 1], reply[size + 2] = from, from + need
    size = size + 2
    values[key] = from + count * need
    if within then
      local inside = log and redis.call('ZCOUNT', KEYS[key + 2], now - within + 1, '+inf') or 0
      if inside + count * cost > tonumber(ARGV[at + 3]) then return nil end
      logs = logs or {}
      logs[key] = { within = within, from = from, t = t, tat = tat or 0, unlogged = unlogged or 0, inside = inside, fresh = not log, lead = (burst - 1) * t }
      reply[3] = 0
      at, key = at + 5, key + 3
    else
      at, key = at + 3, key + 2
    end
  end
  key = 2
  for _ = 1, n do
    local tat, log = values[key], logs and logs[key]
    if log then
      local within, starts, cells = log.within, KEYS[key + 2], {}
      for i = 1, 2 * count * cost, 2 do
        cells[i], cells[i + 1] = now, log.from
        log.from = log.from + log.t
      end
      if log.fresh then redis.call('DEL', starts) end
      redis.call('ZADD', starts, unpack(cells))
      local over = log.tat - log.tat % within ~= tat - tat % within
      if over then redis.call('ZREMRANGEBYSCORE', starts, '-inf', now - within) end
      if over or log.inside == 0 then redis.call('PEXPIRE', starts, ttl(tat - tat % within + 2 * within - now)) end
      redis.call('SET', KEYS[key], string.format('%.0f /%s %.0f %.0f', tat, log.unlogged, within, log.lead), 'PX', ttl(tat + within - now))
      key = key + 3
    else
      redis.call('SET', KEYS[key], tat, 'PX', ttl(tat - now))
      key = key + 2
    end
  end
  return reply
end

do
  local reply = quickly()
  if reply then return reply end
end
