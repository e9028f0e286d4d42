package fields

import "net/http"

// maxRefusal is how much of a refusal is read. Refusals are short.
const maxRefusal = 4 << 10

// PeekRefusal is the Peek of a profile that reads the bodies of replies with 429, and of no others.
func PeekRefusal(r *http.Response) int {
	if r.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	return maxRefusal
}
