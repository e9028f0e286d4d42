-- list.lua: pairs of numbers, in order, in one string.
--
-- Each number takes seven bytes, the highest first: so a pair is found, read and replaced where it is, and the others are copied at most.

-- foreign ends the script, before it has written anything, because a key holds what these scripts did not write.
local function foreign(key)
  error('HEADWAYFOREIGN ' .. key .. ' holds a value that Headway did not write', 0)
end

local list = {}

-- pair returns a pair, from 1, of a list that begins somewhere in a string, or with it.
function list.pair(pairs, i, from)
  i = 14 * i + (from or 1)
  local a, b, c, d, e, f, g, h, j, k, l, m, n, o = string.byte(pairs, i - 14, i - 1)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g,
    (((((h * 256 + j) * 256 + k) * 256 + l) * 256 + m) * 256 + n) * 256 + o
end

local function bytes(n)
  local all = {}
  for i = 7, 1, -1 do
    all[i] = n % 256
    n = (n - all[i]) / 256
  end
  return string.char(unpack(all))
end

function list.of(a, b) return bytes(a) .. bytes(b) end

function list.size(pairs) return #pairs / 14 end

-- find returns the first pair whose second number is no less than a number; one more than there are if there is none.
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
