package standin

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Bounds of one call's request.
const (
	maxPage = 100 // tickets, in a page and in show_many
	maxBody = 1 << 20
)

// get returns a parameter of the query.
func (c *call) get(name string) string {
	if v := c.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// number returns a parameter that is a number of at least 1, or without if it is missing.
func (c *call) number(name string, without int64) (int64, bool) {
	v := c.get(name)
	if v == "" {
		return without, true
	}
	n, err := strconv.ParseInt(v, 10, 32)
	return n, err == nil && n >= 1
}

// list is List Tickets: page[size] and page[after] turn pages by cursor, page and per_page by number.
// Source: https://developer.zendesk.com/api-reference/introduction/pagination/
func list(c *call) reply {
	if c.get("page[before]") != "" {
		return invalid("page[before] is not supported here")
	}
	if c.get("page[size]") != "" || c.get("page[after]") != "" {
		return listByCursor(c)
	}
	return listByNumber(c)
}

func listByCursor(c *call) reply {
	size, ok := c.number("page[size]", maxPage)
	if !ok {
		return invalid("page[size] is not a number of at least 1")
	}
	after, ok := parseCursor(c.get("page[after]"))
	if !ok {
		return invalid("page[after] is not a cursor")
	}
	last := min(after+min(size, maxPage), Tickets)
	more := last < Tickets
	meta := map[string]any{"has_more": more, "after_cursor": nil, "before_cursor": nil}
	if last > after {
		meta["after_cursor"], meta["before_cursor"] = cursor(last), cursor(after+1)
	}
	return reply{http.StatusOK, map[string]any{"tickets": c.tickets(after+1, last), "meta": meta}}
}

func listByNumber(c *call) reply {
	size, ok := c.number("per_page", maxPage)
	page, ok2 := c.number("page", 1)
	if !ok || !ok2 {
		return invalid("page and per_page are numbers of at least 1")
	}
	size = min(size, maxPage)
	first := (page-1)*size + 1
	last := min(page*size, Tickets)
	body := map[string]any{"tickets": c.tickets(first, last), "count": Tickets, "next_page": nil, "previous_page": nil}
	link := func(page int64) string {
		return fmt.Sprintf("https://%s.zendesk.com/api/v2/tickets.json?page=%d&per_page=%d", c.tenant, page, size)
	}
	if last < Tickets {
		body["next_page"] = link(page + 1)
	}
	if page > 1 {
		body["previous_page"] = link(page - 1)
	}
	return reply{http.StatusOK, body}
}

// tickets returns the tickets from one id to another, both included.
func (c *call) tickets(first, last int64) []Ticket {
	out := []Ticket{}
	for id := first; id <= last; id++ {
		if t, ok := c.ticket(c.tenant, id); ok {
			out = append(out, t)
		}
	}
	return out
}

// cursor points behind a ticket. To clients it is opaque.
func cursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("after:" + strconv.FormatInt(id, 10)))
}

func parseCursor(s string) (after int64, ok bool) {
	if s == "" {
		return 0, true
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, false
	}
	digits, found := strings.CutPrefix(string(b), "after:")
	after, err = strconv.ParseInt(digits, 10, 64)
	return after, found && err == nil && after >= 0 && after <= Tickets
}

// show is Show Ticket.
func show(c *call) reply {
	t, ok := c.ticket(c.tenant, c.id)
	if !ok {
		return notFound()
	}
	return reply{http.StatusOK, map[string]any{"ticket": t}}
}

// showMany is Show Multiple Tickets. It omits tickets that do not exist.
func showMany(c *call) reply {
	ids := strings.Split(c.get("ids"), ",")
	if len(ids) > maxPage {
		return invalid(fmt.Sprintf("at most %d ids", maxPage))
	}
	out := []Ticket{}
	for _, s := range ids {
		id, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return invalid("ids are numbers with commas between them")
		}
		if t, ok := c.ticket(c.tenant, id); ok {
			out = append(out, t)
		}
	}
	return reply{http.StatusOK, map[string]any{"tickets": out, "count": len(out)}}
}

// readChange reads the body of an update, and returns its mistake.
func (c *call) readChange(w http.ResponseWriter, r *http.Request) string {
	var body struct {
		Ticket *change `json:"ticket"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body)
	if err != nil || body.Ticket == nil {
		return `the body is not {"ticket": {...}}`
	}
	c.change = *body.Ticket
	return ""
}

// update is Update Ticket.
func update(c *call) reply {
	t, ok := c.ticket(c.tenant, c.id)
	if !ok {
		return notFound()
	}
	return reply{http.StatusOK, map[string]any{"ticket": c.apply(t, c.change, c.now)}}
}
