-- charge.lua: what a charge means. It goes over the wire as two integers for each account, and in a reply as a third for a window:
--
--   a rate        from, to: an interval of virtual time; 0, 0 if its slot was lent to it, and nothing was charged
--   a window      the start of the bucket, and a cost; in a reply, what the bucket then holds
--   an allowance  the slot, and the cost
--   concurrency   the id of the call, and 1 if it has its permit, 0 if it requests that when its slot comes
--
-- Of n calls that go at once, the charge of a rate is followed by others of the same length, each where the one before ends, and a bucket
-- holds the cost more with each call. A claim of a charge (see report.lua) carries how much a window's bucket held at least. Package engine
-- has the same in charge.go.

-- permit returns the charge of a call that has a permit, or will.
local function permit(id, has) return tonumber(id), has and 1 or 0 end

-- permitted reports whether the call of a charge has its permit.
local function permitted(has) return has > 0 end

-- addcharge adds a charge to a reply of size values, and returns its new size.
local function addcharge(reply, size, from, to, holds)
  reply[size + 1], reply[size + 2] = from, to
  if not holds then return size + 2 end
  reply[size + 3] = holds
  return size + 3
end
