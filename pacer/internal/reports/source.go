package reports

import (
	"math"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// attribute sets where the times of some notes were stated: by the feedback that states just that, or else, as a cap shortens what is
// stated, the least that is longer.
func attribute(all []store.Note, fs []policies.Feedback) {
	for i := range all {
		n, best := &all[i], time.Duration(math.MaxInt64)
		for j := range fs {
			for _, stated := range [...]time.Duration{fs[j].Wait, fs[j].Reset} {
				if n.For > 0 && !n.Guessed && stated >= n.For && stated < best {
					n.Source, best = fs[j].Source, stated
				}
			}
		}
	}
}
