// Package costs learns what calls cost, where that is only known afterwards: the tokens of an answer.
//
// # Purpose
//
// A call is charged an estimate before it goes, and is settled at its real cost. The most that it can cost is a bad estimate: requests for
// an answer of at most 3,000 tokens use 300. A [Learner] keeps the distribution of the real costs that were settled lately, for each
// policy and scope, and estimates a quantile of it.
//
// # The quantile
//
// The estimate is the 25th percentile, rounded up to the end of its bucket, an eighth at most. It is low on purpose. A rate charges a
// call one interval of time. What a settlement gives back of it is a gap that is shorter than the next call, unless its neighbour is free
// as well: with the 95th percentile of lognormal costs (σ = 1), a rate was used at 43 %. What an estimate was too low is charged when the
// call is settled, and calls that come later wait for it. So the sum is right whatever the estimate is. An estimate must only be large
// enough that callers do not all go at once before the first of them are settled: with an estimate of next to nothing, a sixth of the calls
// or more were refused.
//
// # Memory
//
// A key has a histogram with eight buckets for each octave, of 1 KB. At 1,024 costs all counts are halved, so that the last thousand
// count most. At most 1,024 keys are known; one more replaces any other, which is then learned again. Nothing is shared between processes:
// each learns from its own calls within seconds, and the accounts, which are shared, are right in any case.
package costs
