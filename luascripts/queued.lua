-- queued.lua: a call bound by a limit that calls queue for. The reasoning is in package engine, queued.go.
--
-- It returns a function that grants one call, queues it or refuses it, and adds it to the reply, which reserve.lua documents.

local queue = queues()

-- Kinds of limits, in sets. A limit that gives slots however far ahead has none.
local function set(...)
  local s = {}
  for _, kind in ipairs({ ... }) do s[kind] = true end
  return s
end
local others, shared, rates = set('atonce'), set('atonce', 'whole', 'fair'), set('atonce', 'whole', 'lane', 'fair')

-- debt returns how long a rate takes for n calls, at most the longest period of a policy.
local function debt(n, t) return math.min(n * t, C.MaxDebt) end

-- Known slots of a stack, while nothing is charged: calls of one request get the same answer.
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

-- Results of rolesof, by stack: a run has few.
local roles = {}

-- Outcomes of a call by a choice; each is better than those after it.
local goes, waits, sleeps, refused = 1, 2, 3, 4

-- better reports whether one verdict is better for a call than another.
local function better(a, b)
  if a.class ~= b.class or a.class ~= waits then
    return a.class < b.class or a.class == b.class and a.at < b.at
  end
  if a.need and b.need then return a.need * b.of < b.need * a.of end
  if a.need or b.need then return not a.need end
  return a.again < b.again
end

return function(entries, c, up, now, reply, size, changed)
  if changed then known = {} end
  local near, lastmoment -- of the choice that is looked at

  -- The choice that is looked at: its accounts, what the call costs them, how many they are, their roles, and how long before its slot the
  -- call may go without another poll: near, or less if it would have permits for so long.
  local of, costs, p, kind, whole, lead

  local function cost(i) return costs and costs[i] or c.cost end
  c.costof = cost

  -- kept returns where an account places, from an instant on, a call that gives a slot back only for its permits: at its old slot, if
  -- that is earlier.
  local slots, cells = {}, {}
  local function kept(i, at, place)
    local o = of[i]
    local slot = slots[o]
    if not slot then return place end
    if cells[o] then
      return at <= slot and slot < place.at and o.run.again(o, now, cost(i), slot, cells[o], place) or place
    end
    if at <= math.max(slot, now) and said(o, now) <= at then place.at = math.min(place.at, math.max(at, slot)) end
    return place
  end

  -- joint finds the first slot from an instant on at which all limits of some kinds admit the call, the limit that binds it,
  -- and its place in each.
  local function joint(from, binds, kinds)
    local s, n, places = from, 0, {}
    for i = 1, p do
      if kinds[kind[i]] then n = n + 1 end
    end
    local quiet, asked, i = 0, 0, 1
    while quiet < n do
      local o = of[i]
      if kinds[kind[i]] then
        local place = o.run.earliest(o, now, s, cost(i), (asked - asked % n) / n)
        if place.at > s then place = kept(i, s, place) end
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
  local function position(o)
    local seen = positions[o]
    if not seen then
      seen = { queue.position(o, c, now) }
      positions[o] = seen
    end
    return seen[1], seen[2]
  end

  local function answer(...)
    local values = { ... }
    for i = 1, #values do reply[size + i] = values[i] end
    size = size + #values
  end

  -- served takes the call out of a queue because it has what the queue is for. A slot before its turn does not move the queue on; a call
  -- that had a slot has paid for its turn.
  local function served(i, early)
    local o = of[i]
    if o.flows and (o.kind == 'leases' or not c.held) then
      local _, score = position(o)
      queue.served(o, c, score, not early, i)
    end
    queue.remove(o, c.id)
  end

  -- granted returns the verdict that the call gets a slot of limits of some kinds, unless it is too far away.
  local function granted(s, binds, kinds, permits)
    if s - now > c.maxwait then return { class = refused, at = s, binds = binds } end
    for i = 1, p do
      if s >= of[i].run.horizon(of[i]) then return { class = refused, at = s, binds = i } end
    end
    return { class = permits and goes or sleeps, at = s, binds = binds, kinds = kinds }
  end

  -- queued returns the verdict to queue the call for an account.
  local function queued(i, again)
    local rank, score = position(of[i])
    return { class = waits, binds = i, again = again, rank = rank, score = score }
  end

  -- enqueue puts the call in the queue of its verdict.
  local function enqueue(v)
    -- They do not all poll at the same time.
    local again = math.max(now + C.SoonAgain, math.min(v.again, now + C.FarAgain + c.id % C.FarAgain))
    queue.join(of[v.binds], c, v.score, again + C.WaitGrace, v.binds)
    answer(0, -v.binds, again, v.rank)
  end

  -- charge charges the call to the limits of its verdict.
  local function charge(v)
    local _, _, places = joint(v.at, 0, v.kinds)
    known = {}
    answer(0, v.binds, v.at, said(of[v.binds], now), 0)
    local slack, at = math.huge, size
    for i = 1, p do
      local o = of[i]
      if o.kind == 'leases' then
        if v.class == goes then
          served(i, false)
          o.run.renew(o, now, c.id, v.at)
        end
        size = addcharge(reply, size, permit(c.id, v.class == goes))
      elseif v.kinds[kind[i]] then
        local from, to, spare, holds = o.run.commit(o, now, places[i], cost(i))
        size = addcharge(reply, size, from, to, holds)
        if spare < slack then slack = spare end
        if o.kind then served(i, v.class == sleeps) end
      elseif o.kind == 'lane' then
        queue.remove(o, c.id) -- lent: it goes, and the lane is not charged
        size = addcharge(reply, size, 0, 0)
      else
        unknown('kind', kind[i])
      end
    end
    reply[at] = slack < math.huge and slack or C.UnboundSlack
  end

  -- inturn returns the slot, what binds it and the kinds of limits. If it is not the call's turn, it also returns a verdict: the call is
  -- queued, or is refused because its turn is too far away.
  local function inturn(base, s, binds)
    local turn, fairturn, blocks, lane, again, own, ahead = s - now <= near, true, 0, 0, -math.huge, -math.huge, 0
    for i = 1, p do
      local o = of[i]
      if o.kind == 'lane' or o.kind == 'fair' then
        local rank, score = position(o)
        if o.kind == 'fair' then
          local next, ahead = queue.turn(o, c, rank, score, now + near - s)
          turn, fairturn = turn and next, fairturn and next
          if s + ahead - near > again then blocks, again = i, s + ahead - near end
        else
          local behind = s + debt(rank * cost(i), o.step)
          turn = turn and behind - now <= near
          lane, own, ahead = i, math.max(own, behind - near), math.max(ahead, debt(rank * cost(i), of[whole[i]].step))
        end
      end
    end
    local at, by, lost = nil, nil, math.huge
    if lane > 0 and (not turn or s > base) then
      -- A slot without the lanes' own limits, and when its part of their rates is lost if no call takes it.
      at, by, lost = known.at, known.by, known.lost
      if not at then
        local places
        at, by, places = joint(base, 0, shared)
        lost = 0
        for i = 1, p do
          if of[i].kind == 'lane' then lost = math.max(lost, places[whole[i]].begin) end
        end
        known.at, known.by, known.lost = at, by, lost
      end
    end
    if turn and lost >= s then return s, binds, rates end
    local soonest = again + near
    if lane > 0 then
      if fairturn and at - now <= near and lost + ahead - now <= lastmoment then return at, by, shared end
      local first = math.max(at - near, lost - lastmoment) + ahead
      if lost >= s then first = math.min(first, own) end
      if blocks == 0 or fairturn then blocks = lane end
      soonest = math.max(again, first, base)
      again = math.max(again, first - (near - C.Near))
    end
    if soonest - now > c.maxwait then return nil, nil, nil, { class = refused, at = soonest, binds = blocks } end
    return nil, nil, nil, queued(blocks, again)
  end

  -- lacking returns what becomes of the call if there is no permit for it; nil if there is one.
  local function lacking(i)
    local o = of[i]
    if o.run.has(o, c.id) then return nil end
    local rank, free = position(o), o.run.free(o, now)
    if rank < free then return nil end
    if c.maxwait == 0 then return { class = refused, at = now, binds = i } end
    local before, all = rank - math.max(0, free), o.run.most(o, now)
    local v = queued(i, before < math.max(1, math.min(C.Front, all)) and now + C.FrontAgain or math.huge)
    v.lease = o.after == 0 and before or nil -- when it runs out, the call polls: looked up only for the queue that it joins
    v.need, v.of, v.first = rank + 1 - free, all, before == 0
    return v
  end

  -- decide returns whether the call is granted, queued or refused by the choice.
  local function decide()
    local base = math.max(now + c.notbefore, c.slot)
    if costs or known.entries ~= of or known.base ~= base or known.cost ~= c.cost then
      known = { entries = of, base = base, cost = c.cost }
    end
    local turns, permits = false, false
    for i = 1, p do
      local o = of[i]
      if o.kind == 'lane' or o.kind == 'fair' then turns = turns or i end
      if o.kind == 'leases' then permits = true end
    end
    local free, s, binds = known.free, known.s, known.binds
    if not free then
      free = joint(base, 0, others)
      s, binds = joint(base, 0, rates)
      known.free, known.s, known.binds = free, s, binds
    end
    lead = permits and not turns and math.max(C.PermitNear, c.reach) or near
    if c.held then turns = false end -- a call with a slot need not queue for one
    local within = c.held and near or lead -- a call with a slot knows when to request its permits
    if free - now > within or not turns and s - now > within then return granted(s, binds, rates, false) end
    local kinds = rates
    if turns then
      local v
      s, binds, kinds, v = inturn(base, s, binds)
      if v then return v end
    end
    for i = 1, p do
      local v = of[i].kind == 'leases' and lacking(i)
      -- It waits for its slot, and keeps its turn: permits may be back by then.
      if v and v.class == waits and turns and s > now then return queued(turns, s) end
      if v then return v end
    end
    return granted(s, binds, kinds, true)
  end

  -- lookat points the functions above at a choice.
  local function lookat(choice, theirs)
    of, costs, p = choice, theirs, #choice
    if not roles[of] then roles[of] = rolesof(of) end
    kind, whole = roles[of].kind, roles[of].whole
    -- A call that needs much of a fair share goes when one that needs little would.
    local before = 0
    for i = 1, p do
      local o, from = of[i], now + c.notbefore
      if o.kind == 'fair' and cost(i) > 1 then
        local further = o.run.earliest(o, now, from, cost(i), 0).at - o.run.earliest(o, now, from, 1, 0).at
        before = math.max(before, math.min(further, debt(cost(i), o.t) + C.Near))
      end
    end
    near = math.max(C.Near, c.reach) + before
    lastmoment = near - C.Near / 2
  end

  for i = 1, c.held and #entries or 0 do
    local o = entries[i]
    local from, to, made = c.held[3 * i - 2], c.held[3 * i - 1], c.held[3 * i]
    if o.unit == 'a ' then
      slots[o] = to > 0 and from or nil
    elseif o.starts then
      slots[o], cells[o] = o.run.first(o, from, to)
    end
    giveback(o, now, from, to, made)
    known = {}
  end

  -- Of choices that are equally good, it is the first one from first on, going round.
  local choices, first = c.choices or { entries }, c.first or 1
  local freed, best, chosen, far = {}, nil, nil, math.huge
  for k = 0, #choices - 1 do
    local at = (first - 1 + k) % #choices + 1
    local choice = choices[at]
    lookat(choice, c.choices and choice.costs or c.costs)
    for i = 1, p do
      local o = of[i]
      if o.kind and not o.purged then
        freed[o] = (o.run.purge or queue.purge)(o, now)
        o.purged = true
      end
    end
    spent = spent + 2 * p
    local v = decide()
    v.lead = lead
    if v.class == sleeps then far = math.min(far, v.at) end
    if not best or better(v, best) then best, chosen = v, at end
    if v.class <= sleeps and v.class ~= waits and v.at <= math.max(now + c.notbefore, c.slot) then break end -- there is none that is nearer
  end
  lookat(choices[chosen], c.choices and choices[chosen].costs or c.costs)
  if c.choices then answer(chosen) end
  local joined, ok, lives
  if best.class == refused then
    lives = C.MaxDebt -- it hurries nobody
    answer(-1, best.binds, best.at, said(of[best.binds], now))
  elseif best.class == waits then
    -- While slots by other choices come nearer, the first in a queue polls in time for them.
    if best.first then best.again = math.min(best.again, far - best.lead) end
    joined = of[best.binds]
    if best.lease then best.again = math.min(best.again, joined.run.expiry(joined, best.lease)) end
    enqueue(best)
  else
    charge(best)
    ok = true
  end
  for i = 1, #entries do
    local o = entries[i]
    -- A served call has left the queue. One that leaves it otherwise makes room for the next one: if it goes by another choice, the next
    -- one is now the first, and polls in time for the slots of other choices.
    if o.kind then
      local least = #choices > 1 and ok and queue.isfirst(o, c.id) and 1 or 0
      local left = o ~= joined and queue.leave(o, c.id, c.flow, c.weight, c.costs and c.costs[i] or c.cost, c.owed[o])
      if left or freed[o] then queue.call(o, now, c.id, least, lives) end
    end
  end
  if c.held then known = {} end -- no other call keeps its slot
  return size, best.class ~= refused or c.held
end
