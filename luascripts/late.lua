-- late.lua: a call that a limit binds which is not given far ahead. The reasoning is in package engine, late.go.
--
-- It returns a function that grants one call, puts it in line or refuses it, and adds to the reply what reserve.lua says.

local near, lastmoment, soonagain, frontagain, faragain, waitgrace = 40000, 20000, 1000, 1000000, 4000000, 1000000
local mostcalled = 32
local line = lines()

-- Kinds of limits, in sets. What gives slots as far ahead as need be has none.
local function set(...)
  local s = {}
  for _, kind in ipairs({ ... }) do s[kind] = true end
  return s
end
local others, shared, rates = set('atonce'), set('atonce', 'fair'), set('atonce', 'lane', 'fair')

local function kind(o) return o.kind or 'atonce' end

return function(entries, c, up, now, reply, size)
  local p = #entries

  local function cost(i) return c.costs and c.costs[i] or c.cost end

  -- joint finds the first slot from an instant on at which all limits of some kinds admit the call.
  local function joint(from, binds, kinds)
    local s, n = from, 0
    for i = 1, p do
      if kinds[kind(entries[i])] then n = n + 1 end
    end
    local quiet, asked, i = 0, 0, 1
    while quiet < n do
      local o = entries[i]
      if kinds[kind(o)] then
        local e = o.run.earliest(o, now, s, cost(i), asked >= 16 * n)
        if e > s then
          s, binds, quiet = e, i, 0
        end
        quiet, asked = quiet + 1, asked + 1
      end
      i = i % p + 1
    end
    return s, binds
  end

  local function answer(...)
    local values = { ... }
    for i = 1, #values do reply[size + i] = values[i] end
    size = size + #values
  end

  local function refuse(binds, s) answer(-1, binds, s) end

  -- stand puts the call in a line.
  local function stand(i, again)
    local o = entries[i]
    again = math.max(now + soonagain, math.min(again, now + faragain))
    local rank, at = line.place(o, c, now)
    line.join(o, c, at, again + waitgrace)
    answer(1, i, again, rank)
    return i
  end

  -- commit charges the call to limits of some kinds, unless its slot is too far away.
  local function commit(s, binds, kinds, places)
    if s - now > c.maxwait then return refuse(binds, s) end
    for i = 1, p do
      if s >= entries[i].run.horizon(entries[i]) then return refuse(i, s) end
    end
    answer(0, binds, s, 0)
    local slack, at = math.huge, size
    for i = 1, p do
      local o = entries[i]
      if o.kind == 'leases' then
        if places then
          local _, score = line.place(o, c, now)
          line.served(o, c, score)
          o.run.renew(o, now, c.id, s)
        end
        answer(tonumber(c.id), places and 1 or 0)
      elseif kinds[kind(o)] then
        local from, to, late, seen = o.run.commit(o, now, s, cost(i), c.tracked)
        answer(from, to)
        if seen then answer(seen) end
        if late < slack then slack = late end
        if o.kind then
          local _, score = line.place(o, c, now)
          line.served(o, c, score)
        end
      else
        line.leave(o, c.id) -- lent: it goes, and the lane is not charged
        answer(0, 0)
      end
    end
    reply[at] = slack < math.huge and slack or 1000000
  end

  -- borrow looks for a slot without the lanes' own limits. It is lent if it would soon be lost; if not, moment is when that
  -- may be so.
  local function borrow(begin, binds)
    local s, by, moment, lent = begin, binds, math.huge, false
    for i = 1, p do
      local o = entries[i]
      if o.kind == 'lane' then
        if moment == math.huge then
          s, by = joint(begin, binds, shared)
          lent, moment = s - now <= near, s - near
        end
        local whole = entries[i - 1]
        local lost = whole.start + line.place(o, c, now) * cost(i) * whole.step
        lent = lent and lost - now <= lastmoment
        moment = math.max(moment, lost - lastmoment)
      end
    end
    return lent, moment, s, by
  end

  local function decide()
    local base = now + c.notbefore
    local begin, beginbinds, queued = base, 0, false
    if up.pause > begin then begin, beginbinds = up.pause, -(p + 1) end
    for i = 1, p do
      local o = entries[i]
      local till = o.run.paused(o)
      if till > begin then begin, beginbinds = till, -i end
      if o.kind == 'lane' or o.kind == 'fair' then queued = true end
    end
    local free = joint(base, 0, others)
    local s, binds = joint(begin, beginbinds, rates)
    if free - now > near or not queued and s - now > near then return commit(s, binds, rates, false) end
    local kinds = rates
    if queued then
      local blocks, again, turn = 0, 0, s - now <= near
      for i = 1, p do
        local o = entries[i]
        if o.kind == 'lane' or o.kind == 'fair' then
          local rank = line.place(o, c, now)
          local behind = math.max(s, o.run.behind(o, now, rank, cost(i)))
          if rank > 0 and behind - now > near then turn = false end
          if blocks == 0 or behind - near > again or binds == i and behind - near == again then
            blocks, again = i, behind - near
          end
        end
      end
      if not turn then
        local soonest = again + near
        local lent, moment, at, by = borrow(begin, beginbinds)
        if lent then
          s, binds, kinds = at, by, shared
        else
          if moment < again then soonest, again = math.max(at, moment), moment end
          if soonest - now > c.maxwait then return refuse(blocks, soonest) end
          return stand(blocks, again)
        end
      end
    end
    for i = 1, p do
      local o = entries[i]
      if o.kind == 'leases' and not o.run.has(o, c.id) then
        local rank, free = line.place(o, c, now), o.run.free(o, now)
        if rank >= free then
          if c.maxwait == 0 then return refuse(i, now) end
          local before = rank - math.max(0, free)
          local again = now + faragain
          if before < mostcalled then again = now + frontagain end
          if o.after == 0 then again = math.min(again, o.run.expiry(o, before)) end
          return stand(i, again)
        end
      end
    end
    return commit(s, binds, kinds, true)
  end

  local freed = {}
  for i = 1, p do
    local o = entries[i]
    if c.held then o.run.cancel(o, now, c.held[2 * i - 1], c.held[2 * i]) end
    if o.kind then freed[i] = (o.run.purge or line.purge)(o, now) end
  end
  local stays = decide()
  for i = 1, p do
    local o = entries[i]
    -- Who has been served has left the line. Who leaves it otherwise makes room for the next one.
    if o.kind and (i ~= stays and line.leave(o, c.id) or freed[i]) then line.call(o, now, c.id) end
  end
  return size
end
