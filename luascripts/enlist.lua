-- enlist.lua: an upstream is paced.
--
-- KEYS   the upstreams: a sorted set, member = name, score = until when it is remembered (µs since the epoch)
-- ARGV   the name, for how long it is remembered (µs)
-- Reply  now (µs since the epoch)
-- TTL    until the last one is forgotten
--
-- It is bounded: of too many, those go that would be forgotten first.

local now, all, keep = clock(), KEYS[1], tonumber(ARGV[2])
redis.call('ZADD', all, 'GT', now + keep, ARGV[1])
redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
redis.call('ZREMRANGEBYRANK', all, 0, -C.MaxUpstreams - 1)
redis.call('PEXPIRE', all, math.max(ttl(keep), redis.call('PTTL', all)))
return { now }
