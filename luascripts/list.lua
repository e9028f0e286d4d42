-- list.lua: pairs of numbers, in order, in one string.
--
-- Each number takes seven bytes, the highest first: so a pair is found, read and replaced where it is, and the others are copied at most.
-- The first caller makes the functions: making them takes as long as a run of quick.lua.

-- Lua 5.1, which Redis and Valkey have, calls it unpack; later versions table.unpack.
local unpack = table.unpack or unpack

local function lists()
  local list = {}

  -- pair returns a pair, from 1, of a list that begins somewhere in a string, or with it.
  function list.pair(pairs, i, from)
    i = 14 * i + (from or 1)
    local a, b, c, d, e, f, g, h, j, k, l, m, n, o = string.byte(pairs, i - 14, i - 1)
    return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g,
      (((((h * 256 + j) * 256 + k) * 256 + l) * 256 + m) * 256 + n) * 256 + o
  end

  local function bytes(n)
    local g = n % 256
    n = (n - g) / 256
    local f = n % 256
    n = (n - f) / 256
    local e = n % 256
    n = (n - e) / 256
    local d = n % 256
    n = (n - d) / 256
    local c = n % 256
    n = (n - c) / 256
    local b = n % 256
    return string.char((n - b) / 256, b, c, d, e, f, g)
  end

  function list.of(a, b) return bytes(a) .. bytes(b) end

  function list.size(pairs) return #pairs / 14 end

  -- find returns the index of the first pair whose second number is at least a number; one past the last if none is.
  function list.find(pairs, least)
    local i, j = 1, #pairs / 14 + 1
    while i < j do
      local mid = i + j
      mid = (mid - mid % 2) / 2
      local _, b = list.pair(pairs, mid)
      if b < least then i = mid + 1 else j = mid end
    end
    return i
  end

  -- splice returns the list with others in place of the pairs i, i + 1, ... j − 1.
  function list.splice(pairs, i, j, others)
    return string.sub(pairs, 1, 14 * i - 14) .. others .. string.sub(pairs, 14 * j - 13)
  end

  return list
end
