-- account.lua: the parts that the algorithms share.
--
-- An account is the state of one key under one algorithm. An algorithm is a table of functions: parse, loadstring, room, take, write,
-- earliest, horizon, commit, cancel, settle, slow, stray, learn, claim, reset, holds and inspect. See gcra.lua and window.lua; they mirror
-- package engine, and a differential test compares every reply.
--
-- The value of an account's key is "shape state", where
--   shape  "r" and the shortest emission interval of a rate since its tail was last past; "w", or "c" if it has a calendar, the width of a
--          bucket, "." and how many before its own a window counts; "p" of concurrency; "a" of an allowance
--   state  of the algorithm: see gcra.lua, window.lua, concurrency.lua and allowance.lua
--
-- The upstream's own key holds a string, "epoch" or "epoch barrier shift since", where
--   epoch  the life of the data, "began.resets": its start (µs since the epoch of Unix), and the number of resets since. To a client that
--          knows another one, the server has lost its data. 0 until heartbeat.lua sets it
--   barrier until when processes that had lost the server wait for each other; 0 for none
--   shift  how far the server's clock had stepped back at since (by that clock), while store time went on. It shrinks by a 64th of the
--          time that passes, so store time never stops

local list = lists()

-- define makes an algorithm, by its number in the wire format; algorithms has those that this run has used.
local define, algorithms = {}, {}

-- queues returns the functions of queue.lua.
local function queues()
  if not define.queues then define.queues = define.queue() end
  return define.queues
end

-- foreign ends the script, before it has written anything, because a key holds what these scripts did not write.
local function foreign(key)
  error('HEADWAYFOREIGN ' .. key .. ' holds a value that Headway did not write', 0)
end

-- unknown ends the script because it does not know something in a request. A guess would let calls go uncounted.
local function unknown(what, n)
  error('headway: unknown ' .. what .. ' ' .. (n or '(none)'), 0)
end

-- number reads a stored integer.
local function number(v, key)
  local n = tonumber(v)
  if not n or n < 0 or n >= C.MaxInteger or n % 1 ~= 0 then foreign(key) end
  return n
end

-- fields reads a state, "numbers|list", into the fields of an account that have these names, and returns the list; text returns such a
-- state. Trailing zeros of the numbers are left out.
local function fields(o, names, v)
  local bar, n = string.find(v, '|', 1, true) or #v + 1, 0
  if bar > 1024 then foreign(o.key) end
  for value in string.gmatch(string.sub(v, 1, bar - 1), '[^ ]+') do
    n = n + 1
    o[names[n] or foreign(o.key)] = number(value, o.key)
  end
  local pairs = string.sub(v, bar + 1)
  if n == 0 or #pairs % 14 > 0 or bar == #v then foreign(o.key) end
  return pairs, n
end

local function text(o, names, pairs)
  local n, all = #names, {}
  while n > 1 and o[names[n]] == 0 do n = n - 1 end
  for i = 1, n do all[i] = string.format('%.0f', o[names[i]]) end
  return table.concat(all, ' ') .. (pairs == '' and '' or '|' .. pairs)
end

-- missing is the value that MGET returns for an absent key, or a key of another type.
local function missing(key)
  if redis.call('TYPE', key)['ok'] ~= 'none' then foreign(key) end
  return nil
end

-- paused returns the end of an exhausted allowance, if that is after an instant.
local function paused(o, after) return o.unit == 'a ' and o.low == 1 and o.till > after and o.till or nil end

-- said returns the end of an account's allowance that was stated, if that is in the future; 0 otherwise.
local function said(o, now) return o and o.unit == 'a ' and o.till > now and o.till or 0 end

-- reset marks an account as reset. Its earlier charges matter until till, and cannot be given back: others may already have them.
local function reset(o, now, till)
  o.remembers = math.max(till, o.remembers)
  o.mark = now
  if o.remembers <= now then o.mark, o.remembers = 0, 0 end
end

-- before reports whether a charge was made before its account was reset, while that matters.
local function before(o, made, now) return made > 0 and made <= o.mark and now < o.remembers end

-- spent counts the work of a run, roughly in searches of an account. After enough of them, it leaves the remaining calls to the next run.
local spent, enough = 0, 160

-- stale is set when a calendar's table does not hold the store's now: the client's clock is off, and it must
-- compute the table anew.
local stale = false

-- readers walk through KEYS and ARGV.
local nextkey, nextarg = 1, 1

local function key()
  nextkey = nextkey + 1
  return KEYS[nextkey - 1]
end

local function arg()
  nextarg = nextarg + 1
  return tonumber(ARGV[nextarg - 1])
end

-- bound reads which of all accounts bind what follows: 0 for those of before, else their number plus one, and then their indexes.
local function bound(all, before)
  local n = arg() - 1
  if n < 0 then return before end
  local entries = {}
  for i = 1, n do entries[i] = all[arg()] end
  return entries
end

-- widened returns a length of time plus a share of it in millionths, rounded up.
local function widened(length, share)
  local more = length * share + C.WholeShare - 1
  return length + (more - more % C.WholeShare) / C.WholeShare
end

-- marginat returns the margin that holds at now. The reasoning is in package engine, margin.go.
local function marginat(o, now)
  if o.margin == 0 or now >= o.fades then return 0 end
  local left, whole = o.margin * (o.fades - math.max(now, o.raised)), o.fades - o.raised
  return (left - left % whole) / whole
end

-- stray applies a refusal of a call whose slot was at, and reports whether it is the only one within that time. If the margin was raised
-- after the slot, the refusal counts as one with the last: both calls were under way together.
local function stray(o, now, at, within, step, most)
  if at < o.raised then return true end
  local alone = o.fades == 0 or now - o.raised >= within
  o.margin, o.raised = math.min(most, marginat(o, now) + step), now
  local left, each = o.margin * C.StepFades, math.max(1, step)
  o.fades = now + math.max(1, within, (left - left % each) / each)
  return alone
end

-- shifted is set while store time runs more slowly than the server's clock.
local shifted = false

-- algorithm returns the algorithm of a number.
local function algorithm(n)
  if not algorithms[n] then
    if not define[n] then unknown('algorithm', n) end
    algorithms[n] = define[n]()
  end
  return algorithms[n]
end

-- lasting turns a duration of store time into the milliseconds of PX.
local function lasting(us)
  if shifted then us = us + us / 32 end
  return ttl(us)
end

-- sweep removes the past members of a sorted set, the earliest first; very many take several runs. The rest does no harm.
local function sweep(set, past)
  local n = redis.call('ZCOUNT', set, '-inf', past)
  if n > 0 then redis.call('ZREMRANGEBYRANK', set, 0, math.min(n, C.MaxSwept) - 1) end
end

-- save writes the state of an account, which matters until an instant: its key goes if that is past.
local function save(o, state, ends, now)
  if ends <= now then
    redis.call('DEL', o.key)
  else
    redis.call('SET', o.key, o.unit .. state, 'PX', lasting(ends - now))
  end
end

-- epochof returns when the epoch of the upstream began, and how many resets there were since: 0, 0 for none.
local function epochof(u)
  if u.epoch == '0' then return 0, 0 end
  local began, resets = string.match(u.epoch, '^(%d+)%.(%d+)$')
  return number(began, u.key), number(resets, u.key)
end

-- anew begins an epoch because something was reset, and records what, so that no process restores it:
--   u        the upstream, which must be written
--   resets   the key: a hash, field = one of the last C.KeptResets numbers of resets, value = "epoch now", and then for each account a
--            line: "=" and the key that was reset, "-" and the key of an allowance that was withdrawn, or "*" for all
--   lines    of the accounts
local function anew(u, resets, lines, now)
  local began, before = epochof(u)
  u.epoch = string.format('%.0f.%.0f', began, before + 1)
  local all = table.concat(lines, '\n')
  if #all > C.MaxReset then all = '*' end
  local field = string.format('%d', (before + 1) % C.KeptResets)
  redis.call('HSET', resets, field, string.format('%s %.0f\n', u.epoch, now) .. all)
  redis.call('PEXPIRE', resets, ttl(C.OnceTTL))
end

-- readupstream reads the value of the upstream's key, and the store time. Most often the value is that of an epoch and
-- nothing else, which the client knows: usual.
local function readupstream(name, v, usual)
  local u = { key = name, epoch = '0', barrier = 0, shift = 0, time = clock() }
  if usual and v == usual then
    u.epoch = usual
  elseif v then
    local epoch, more = string.match(v, '^([%d.]+)(.*)$')
    u.epoch = epoch or foreign(name)
    epochof(u)
    if more ~= '' then
      local barrier, shift, since = string.match(more, '^ (%d+) (%d+) (%d+)$')
      u.barrier = number(barrier, name)
      local passed = math.max(0, u.time - number(since, name))
      u.shift = math.max(0, number(shift, name) - (passed - passed % 64) / 64)
    end
  end
  shifted = u.shift > 0
  return u, u.time + u.shift
end

-- writeupstream keeps the upstream's key for at least that long, and never for less than before.
local function writeupstream(u, keep)
  local v = u.epoch
  if u.shift > 0 or u.barrier > u.time then
    v = string.format('%s %.0f %.0f %.0f', u.epoch, u.barrier, u.shift, u.time)
  end
  redis.call('SET', u.key, v, 'PX', math.max(lasting(keep), redis.call('PTTL', u.key)))
end

-- turn loads an account that is kept under a limit of another shape. The reasoning is in package engine, kept.go. It writes nothing.
--   turned  the account was on another grid: the present one is written if something is charged or reported. Earlier charges are not
--           given back
local function turn(o, v, now)
  local from
  local t, state = string.match(v, '^r(%d+) (.*)$')
  if t then
    t = number(t, o.key)
    if t == 0 then foreign(o.key) end
    if o.t then
      o.run.loadstring(o, state, now)
      return o.run.change(o, t, now)
    end
    from = algorithm(C.GCRA).blank(o.key, '', 1, t)
  else
    local kind, width, m, rest = string.match(v, '^([wc])(%d+)%.(%d+) (.*)$')
    if kind then
      if number(width, o.key) == 0 then foreign(o.key) end
      from, state = algorithm(C.Window).blank(o.key, '', C.MaxInteger, width + 0, number(m, o.key), 0), rest
      from.calendar = kind == 'c'
    elseif not string.find(v, '^[pa] ') then
      foreign(o.key)
    end
  end
  if not from or not o.run.begin then return o.run.loadstring(o, nil, now) end
  from.run.loadstring(from, state, now)
  local at, n = from.run.spent(from, now)
  o.run.begin(o, from, at, n, now)
  o.turned = true
end

-- open prepares rates that have become faster. It is called after everything that can fail.
local function open(entries, now)
  for i = 1, #entries do
    if entries[i].opens then entries[i].run.open(entries[i], now) end
  end
end

-- share passes windows the parts that they keep for parties, which follow them in a stack, and whether a call is in none of them. bits are
-- the accounts whose parts a call leaves alone: a call in no party leaves all.
local function share(entries, bits)
  local whole
  for i = 1, #entries do
    local o = entries[i]
    if not o.part then
      whole, o.none, o.parts = o, true, entries[i + 1] and entries[i + 1].part and {}
    elseif whole then
      o.others = bits % 2 == 1
      whole.none = whole.none and o.others
      whole.parts[#whole.parts + 1] = o
    end
    bits = (bits - bits % 2) / 2
  end
end

-- keepturned marks accounts that calls found under other numbers, to be written.
local function keepturned(entries)
  for i = 1, #entries do
    local o = entries[i]
    o.dirty = o.dirty or o.turned or o.opened
  end
end

-- giveback gives a charge back, unless it was on another grid. Calls that found no room in an allowance are woken if it has some now.
local function giveback(o, now, from, to, made)
  if not o.turned and o.run.cancel(o, now, from, to, made) then queues().say(C.ChangeResumed, 0, o.key) end
end

-- finish writes accounts, wakes queued calls whose turn it may be where something was freed, and publishes what there is to publish.
local function finish(entries, up, now)
  for i = 1, #entries do entries[i].run.write(entries[i], now) end
  for i = 1, #entries do
    if entries[i].kind and entries[i].freed then queues().call(entries[i], now) end
  end
  if define.queues then define.queues.publish(up, now) end
end

-- stack reads accounts from KEYS and ARGV: the upstream's key, those of the accounts, and then of each account its other keys; the number
-- of accounts, then for each the algorithm and its parameters. It loads their state and returns the accounts, the value of the upstream's
-- key, and the store time.
local function stack(usual)
  local entries, n = {}, arg()
  nextkey = n + 2
  for i = 1, n do
    local which = arg()
    entries[i] = algorithm(which).parse(which, KEYS[i + 1])
  end
  local values = {}
  if n < C.MaxUnpack then
    values = redis.call('MGET', unpack(KEYS, 1, n + 1))
  else
    for i = 1, n + 1, C.MaxUnpack do
      local some = redis.call('MGET', unpack(KEYS, i, math.min(i + C.MaxUnpack - 1, n + 1)))
      for j = 1, #some do values[#values + 1] = some[j] end
    end
  end
  local up, now = readupstream(KEYS[1], values[1] or missing(KEYS[1]), usual)
  for i = 1, n do
    local o, v = entries[i], values[i + 1] or missing(KEYS[i + 1])
    local unit = o.unit
    if not v then
      o.run.loadstring(o, nil, now)
    elseif string.sub(v, 1, #unit) ~= unit or o.run.loadstring(o, string.sub(v, #unit + 1), now) then
      turn(o, v, now)
    end
  end
  return entries, up, now
end
