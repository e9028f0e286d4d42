package redisstore

import (
	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// prefix begins every key of this package.
const prefix = "pacer:"

// gapsMark sets the second key of a rate apart. It cannot stand in a policy's name.
const gapsMark = "/gaps"

// aliveMark ends the name of the set of the processes that pace an upstream.
const aliveMark = "/alive"

// cameMark ends the name of the set of the same processes in the order in which they came.
const cameMark = "/came"

// keys returns the keys of a stack, in the order in which the scripts read them:
//
//	pacer:{upstream}                        the upstream's own pause, and the era of its data
//	pacer:{upstream}/alive                  the processes that pace it, by when they are taken for gone
//	pacer:{upstream}/came                   the same, by when they came
//	pacer:{upstream}:policy                 an account of the whole upstream
//	pacer:{upstream}:policy:value           an account of one scope value, escaped
//	pacer:{upstream}:policy/gaps[:value]    the gaps of a rate
//
// The upstream is the hash tag, so that all keys of a stack are in one slot. Names of upstreams and policies
// have no brace, colon or slash, and scope values are escaped, so no value can reach another key.
func keys(stack *pacer.Stack) []string {
	base := upstreamKey(stack.Upstream)
	keys := make([]string, 1, 1+2*len(stack.Limits))
	keys[0] = base
	for i := range stack.Limits {
		l := &stack.Limits[i]
		suffix := ""
		if l.Scope != "" {
			suffix = ":" + l.Scope
		}
		keys = append(keys, base+":"+l.Policy+suffix)
		if l.Spec.Algorithm == policies.GCRA {
			keys = append(keys, base+":"+l.Policy+gapsMark+suffix)
		}
	}
	return keys
}

func upstreamKey(upstream string) string { return prefix + "{" + upstream + "}" }
