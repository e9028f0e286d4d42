package standin

import "net/http"

// dataPath is where the REST API begins.
const dataPath = "/services/data/"

// A reply is a status and its JSON.
type reply struct {
	status int
	body   any
}

// A failure is one entry of the array that Salesforce answers errors with.
// Source: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/errorcodes.htm
type failure struct {
	Message string `json:"message"`
	Code    string `json:"errorCode"`
}

func refuse(status int, code, message string) reply {
	return reply{status, []failure{{Message: message, Code: code}}}
}

func notFound() reply {
	return refuse(http.StatusNotFound, "NOT_FOUND", "The requested resource does not exist")
}

// exceeded is the answer to a call that breaks a limit.
func exceeded(limit string) reply {
	message := map[string]string{
		limitDaily:      "TotalRequests Limit exceeded.",
		limitConcurrent: "ConcurrentPerOrgLongTxn Limit exceeded.",
		limitPeak:       "Standin peak per second exceeded.", // Salesforce has none: see Config
	}[limit]
	return refuse(http.StatusForbidden, "REQUEST_LIMIT_EXCEEDED", message)
}

// page is an answer to a query.
type page struct {
	TotalSize int              `json:"totalSize"`
	Done      bool             `json:"done"`
	Next      string           `json:"nextRecordsUrl,omitempty"`
	Records   []map[string]any `json:"records"`
}

// query is Query, and Query More Results with a locator.
// Source: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/resources_query.htm
func (s *Standin) query(c *call) reply {
	soql, from := c.URL.Query().Get("q"), 0
	if l := c.PathValue("locator"); l != "" {
		var ok bool
		if soql, from, ok = parseLocator(l); !ok {
			return refuse(http.StatusBadRequest, "INVALID_QUERY_LOCATOR", "invalid query locator")
		}
	}
	q, problem := parse(soql)
	if problem != nil {
		return reply{http.StatusBadRequest, []failure{*problem}}
	}
	first, last := q.span()
	p := page{TotalSize: last - first, Records: []map[string]any{}}
	till := min(last, first+from+s.config.PageSize)
	for n := first + from; n < till; n++ {
		p.Records = append(p.Records, q.object.record(n, q.fields, c.version))
	}
	if p.Done = till >= last; !p.Done {
		p.Next = dataPath + c.version + "/query/" + locator(soql, till-first)
	}
	return reply{http.StatusOK, p}
}

// limits is Limits, as far as the stand-in has any.
// Source: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/resources_limits.htm
func (s *Standin) limits(c *call) reply {
	return reply{http.StatusOK, map[string]any{
		"DailyApiRequests": map[string]int{"Max": s.config.Allocation, "Remaining": s.config.Allocation - c.used},
	}}
}

// show is Get a Record.
// Source: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/resources_sobject_retrieve_get.htm
func show(c *call) reply {
	o := objectNamed(c.PathValue("object"))
	if o == nil {
		return notFound()
	}
	n, ok := o.find(c.PathValue("id"))
	if !ok {
		return notFound()
	}
	return reply{http.StatusOK, o.record(n, o.fields, c.version)}
}
