-- queued.lua: a call bound by a limit that calls queue for. The reasoning is in package engine, queued.go.
--
-- It returns a function that grants one call, queues it or refuses it, and adds to the reply what reserve.lua says.

local queue = queues()

-- Kinds of limits, in sets. What gives slots as far ahead as need be has none.
local function set(...)
  local s = {}
  for _, kind in ipairs({ ... }) do s[kind] = true end
  return s
end
local others, shared, rates = set('atonce'), set('atonce', 'whole', 'fair'), set('atonce', 'whole', 'lane', 'fair')

-- debt returns how long a rate takes for n calls, at most the longest period of a policy.
local function debt(n, t) return math.min(n * t, C.MaxDebt) end

-- What is known of the slots that a stack has, as long as nothing is charged: calls of one request get the same answer.
local known = {}

-- rolesof returns the kinds of the entries of a stack, and of each lane, the index of the rate that it is a part of. A lane comes right
-- after that rate: this is the only place that relies on it.
local function rolesof(entries)
  local kind, whole = {}, {}
  for i = 1, #entries do
    local o = entries[i]
    kind[i] = o.kind or 'atonce'
    if o.kind == 'lane' then
      local of = entries[i - 1]
      if not of or not of.t or of.kind == 'lane' then unknown('rate of the lane at', i) end
      whole[i] = i - 1
      if not of.kind then kind[i - 1] = 'whole' end
    end
  end
  return { kind = kind, whole = whole }
end

-- What rolesof returned, by stack: those of a run are few.
local roles = {}

return function(entries, c, up, now, reply, size, changed)
  if changed then known = {} end
  local p, near = #entries, math.max(C.Near, c.reach)
  local lastmoment = near - C.Near / 2

  if not roles[entries] then roles[entries] = rolesof(entries) end
  local kind, whole = roles[entries].kind, roles[entries].whole

  local function cost(i) return c.costs and c.costs[i] or c.cost end

  -- joint finds the first slot from an instant on at which all limits of some kinds admit the call, what binds it, and where each
  -- of them places it.
  local function joint(from, binds, kinds)
    local s, n, places = from, 0, {}
    for i = 1, p do
      if kinds[kind[i]] then n = n + 1 end
    end
    local quiet, asked, i = 0, 0, 1
    while quiet < n do
      local o = entries[i]
      if kinds[kind[i]] then
        local place = o.run.earliest(o, now, s, cost(i), (asked - asked % n) / n)
        places[i] = place
        if place.at > s then
          s, binds, quiet = place.at, i, 0
        end
        quiet, asked, spent = quiet + 1, asked + 1, spent + 1
      end
      i = i % p + 1
    end
    return s, binds, places
  end

  -- position returns how many are before the call in the queue of an account, and its score.
  local positions = {}
  local function position(i)
    local seen = positions[i]
    if not seen then
      seen = { queue.position(entries[i], c, now) }
      positions[i] = seen
    end
    return seen[1], seen[2]
  end

  local function answer(...)
    local values = { ... }
    for i = 1, #values do reply[size + i] = values[i] end
    size = size + #values
  end

  -- served takes the call out of a queue because it has what the queue is for. Who gets a slot before its turn does not move
  -- the queue on; who had one has paid for its turn.
  local early = false
  local function served(i)
    local o = entries[i]
    if o.flows and (o.kind == 'leases' or not c.held) then
      local _, score = position(i)
      queue.served(o, c, score, not early)
    end
    queue.leave(o, c.id)
  end

  local function refuse(binds, s) answer(-1, binds, s) end

  -- enqueue puts the call in a queue.
  local function enqueue(i, again)
    local o = entries[i]
    -- They do not all ask again at the same time.
    again = math.max(now + C.SoonAgain, math.min(again, now + C.FarAgain + c.id % C.FarAgain))
    local rank, at = position(i)
    queue.join(o, c, at, again + C.WaitGrace)
    answer(1, i, again, rank)
    return i
  end

  -- commit charges the call to limits of some kinds, unless its slot is too far away.
  local function commit(s, binds, kinds, permits)
    if s - now > c.maxwait then return refuse(binds, s) end
    for i = 1, p do
      if s >= entries[i].run.horizon(entries[i]) then return refuse(i, s) end
    end
    local _, _, places = joint(s, 0, kinds)
    known = {}
    answer(0, binds, s, 0)
    local slack, at = math.huge, size
    for i = 1, p do
      local o = entries[i]
      if o.kind == 'leases' then
        if permits then
          served(i)
          o.run.renew(o, now, c.id, s)
        end
        size = addcharge(reply, size, permit(c.id, permits))
      elseif kinds[kind[i]] then
        local from, to, spare, holds = o.run.commit(o, now, places[i], cost(i), c.tracked)
        if o.aside then versions().count(o, now, places[i].at, cost(i)) end
        size = addcharge(reply, size, from, to, holds)
        if spare < slack then slack = spare end
        if o.kind then served(i) end
      elseif o.kind == 'lane' then
        queue.leave(o, c.id) -- lent: it goes, and the lane is not charged
        size = addcharge(reply, size, 0, 0)
      else
        unknown('kind', kind[i])
      end
    end
    reply[at] = slack < math.huge and slack or C.UnboundSlack
  end

  -- inturn returns the slot, what binds it and the kinds of limits, if it is the call's turn. If it is not, the call is
  -- queued, or is refused because that takes too long.
  local function inturn(begin, beginbinds, s, binds)
    local turn, fairturn, blocks, lane, again, ahead = s - now <= near, true, 0, 0, -math.huge, 0
    for i = 1, p do
      local o = entries[i]
      if o.kind == 'lane' or o.kind == 'fair' then
        local rank = position(i)
        local behind = s + debt(rank * cost(i), o.step)
        local waits = rank > 0 and behind - now > near
        turn = turn and not waits
        if o.kind == 'lane' then
          lane, ahead = i, math.max(ahead, debt(rank * cost(i), entries[whole[i]].step))
        else
          fairturn = fairturn and not waits
          if behind - near > again then blocks, again = i, behind - near end
        end
      end
    end
    if turn then return s, binds, rates end
    local soonest = again + near
    if lane > 0 then
      -- A slot without the lanes' own limits, and when what it takes of their rates is lost if nobody does.
      local at, by, lost = known.at, known.by, known.lost
      if not at then
        local places
        at, by, places = joint(begin, beginbinds, shared)
        lost = 0
        for i = 1, p do
          if entries[i].kind == 'lane' then lost = math.max(lost, places[whole[i]].begin) end
        end
        known.at, known.by, known.lost = at, by, lost
      end
      if fairturn and at - now <= near and lost + ahead - now <= lastmoment then return at, by, shared end
      local first = math.max(now, math.min(s - near, math.max(at - near, lost - lastmoment))) + ahead
      if blocks == 0 or fairturn then blocks = lane end
      soonest = math.max(again, first)
      again = math.max(again, first - (near - C.Near))
    end
    if soonest - now > c.maxwait then return refuse(blocks, soonest) end
    return nil, enqueue(blocks, again)
  end

  local function decide()
    local base = math.max(now + c.notbefore, c.slot)
    if c.costs or known.entries ~= entries or known.base ~= base or known.cost ~= c.cost then
      known = { entries = entries, base = base, cost = c.cost }
    end
    local begin, beginbinds, queued = base, 0, false
    if up.pause > begin then begin, beginbinds = up.pause, -(p + 1) end
    for i = 1, p do
      local o = entries[i]
      local till = o.run.paused(o)
      if till > begin then begin, beginbinds = till, -i end
      if o.kind == 'lane' or o.kind == 'fair' then queued = true end
    end
    local free, s, binds = known.free, known.s, known.binds
    if not free then
      free = joint(base, 0, others)
      s, binds = joint(begin, beginbinds, rates)
      known.free, known.s, known.binds = free, s, binds
    end
    queued = queued and not c.held -- who has a slot need not queue for one
    if free - now > near or not queued and s - now > near then
      early = true
      return commit(s, binds, rates, false)
    end
    local kinds = rates
    if queued then
      local at, by, of = inturn(begin, beginbinds, s, binds)
      if not at then return by end
      s, binds, kinds = at, by, of
    end
    for i = 1, p do
      local o = entries[i]
      if o.kind == 'leases' and not o.run.has(o, c.id) then
        local rank, free = position(i), o.run.free(o, now)
        if rank >= free then
          if c.maxwait == 0 then return refuse(i, now) end
          local before = rank - math.max(0, free)
          local again = math.huge
          if before < C.Front then again = now + C.FrontAgain end
          if o.after == 0 then again = math.min(again, o.run.expiry(o, before)) end
          return enqueue(i, again)
        end
      end
    end
    return commit(s, binds, kinds, true)
  end

  local freed = {}
  for i = 1, p do
    local o = entries[i]
    if c.held then
      o.run.cancel(o, now, c.held[3 * i - 2], c.held[3 * i - 1], c.held[3 * i])
      known = {}
    end
    if o.kind and not o.purged then
      freed[i] = (o.run.purge or queue.purge)(o, now)
      o.purged = true
    end
  end
  spent = spent + 2 * p
  local stays = decide()
  for i = 1, p do
    local o = entries[i]
    -- Who has been served has left the queue. Who leaves it otherwise makes room for the next one.
    if o.kind and (i ~= stays and queue.leave(o, c.id) or freed[i]) then queue.call(o, now, c.id) end
  end
  return size
end
