// Package measure separates measurements from tests of truth. Only tests import it.
//
// A test of truth judges what holds on any machine at any speed: no policy is exceeded, nothing is lost, nothing is charged
// twice, the order is right. `make test` runs these, and no busy machine makes one fail.
//
// A measurement judges goodput, waits and precision, which depend on the machine as much as on the code. Measurements are behind the build
// tag measure, and `make bench` runs them. A measurement watches the machine's own timers while it runs. It fails only if the figures are
// bad although the timers were good; otherwise it prints that it did not judge, and by how much timers were late.
//
// A test that only measures is in a file with that tag. A scenario may be both: short and judged for truth without the tag, long and
// measured with it:
//
//	length := measure.Length(3*time.Second, 20*time.Second)
//	timers := measure.Watch()
//	went := play(length)
//	late := timers.Stop()
//	requireConformance(t, went) // the truth, always
//	measure.Judge(t, late, skew, fmt.Sprintf("%.1f/s of 50/s", rate), rate >= 0.97*50)
package measure
