package fields

import (
	"encoding/json"
	"io"
	"net/http"
)

// maxBody is the longest body of a request that is read: 256 KiB.
const maxBody = 256 << 10

// RequestJSON reads the JSON object that a request sends into v, as [json.Unmarshal] does, from a copy that the request's GetBody makes. It
// reports false if there is no copy, or if the body is not a JSON object of at most 256 KiB; v may then hold a part of it. It also returns
// the length of the body, or −1 if that is not known.
func RequestJSON(r *http.Request, v any) (length int64, ok bool) {
	length = r.ContentLength
	if r.Body == nil || r.Body == http.NoBody {
		return 0, false
	}
	if length == 0 { // a body of unknown length
		length = -1
	}
	if r.GetBody == nil || length > maxBody {
		return length, false
	}
	body, err := r.GetBody()
	if err != nil {
		return length, false
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err != nil || len(data) > maxBody {
		return length, false
	}
	return int64(len(data)), json.Unmarshal(data, v) == nil
}
