package standin

import (
	"fmt"
	"slices"
	"time"
)

// Tickets is how many tickets each account has. Their ids run from 1.
const Tickets = 5000

// A Ticket is what the stand-in knows of a ticket: some of the fields of Zendesk's.
// Source: https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#json-format
//
//nolint:tagliatelle // the names are Zendesk's
type Ticket struct {
	ID             int64         `json:"id"`
	URL            string        `json:"url"`
	Type           string        `json:"type"`
	Subject        string        `json:"subject"`
	RawSubject     string        `json:"raw_subject"`
	Description    string        `json:"description"`
	Priority       string        `json:"priority"`
	Status         string        `json:"status"`
	RequesterID    int64         `json:"requester_id"`
	SubmitterID    int64         `json:"submitter_id"`
	AssigneeID     int64         `json:"assignee_id"`
	OrganizationID int64         `json:"organization_id"`
	GroupID        int64         `json:"group_id"`
	Tags           []string      `json:"tags"`
	CustomFields   []CustomField `json:"custom_fields"`
	IsPublic       bool          `json:"is_public"`
	CreatedAt      time.Time     `json:"created_at"`
	UpdatedAt      time.Time     `json:"updated_at"`
}

// A CustomField is a field that the account has added.
type CustomField struct {
	ID    int64  `json:"id"`
	Value string `json:"value"`
}

// ticket returns a ticket's present state; false if it does not exist.
func (a *account) ticket(tenant string, id int64) (Ticket, bool) {
	if id < 1 || id > Tickets {
		return Ticket{}, false
	}
	if t, ok := a.changes[id]; ok {
		return t, true
	}
	return madeUp(tenant, id), true
}

// madeUp returns a ticket's first state: the same for the same id.
func madeUp(tenant string, id int64) Ticket {
	pick := func(salt int64, from ...string) string { return from[(id*7919+salt*104729)%int64(len(from))] }
	topic := pick(1, "printer", "invoice", "password", "delivery", "mobile app", "contract", "export")
	symptom := pick(2, "does not work since the update", "shows the wrong name", "was sent twice", "cannot be found", "needs a second user")
	created := time.Date(2026, time.January, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(id) * 37 * time.Minute)
	return Ticket{
		ID:             id,
		URL:            fmt.Sprintf("https://%s.zendesk.com/api/v2/tickets/%d.json", tenant, id),
		Type:           pick(3, "question", "incident", "problem", "task"),
		Subject:        fmt.Sprintf("The %s %s", topic, symptom),
		RawSubject:     fmt.Sprintf("The %s %s", topic, symptom),
		Description:    fmt.Sprintf("Hello, the %s %s. Could you have a look? Thank you.", topic, symptom),
		Priority:       pick(4, "low", "normal", "normal", "high", "urgent"),
		Status:         pick(5, "new", "open", "open", "pending", "solved"),
		RequesterID:    20_000 + id%877,
		SubmitterID:    20_000 + id%877,
		AssigneeID:     10_000 + id%13,
		OrganizationID: 30_000 + id%97,
		GroupID:        40_000 + id%5,
		Tags:           []string{pick(6, "web", "email", "chat"), "customer"},
		CustomFields:   []CustomField{{ID: 50_001, Value: pick(7, "basic", "plus", "pro")}},
		IsPublic:       true,
		CreatedAt:      created,
		UpdatedAt:      created.Add(3 * time.Hour),
	}
}

// A change is what an update may set. Fields that it does not name stay.
type change struct {
	Subject  *string  `json:"subject"`
	Priority *string  `json:"priority"`
	Status   *string  `json:"status"`
	Tags     []string `json:"tags"`
}

// apply makes a change and returns the new ticket.
func (a *account) apply(t Ticket, c change, now time.Time) Ticket {
	set := func(field, value *string) {
		if value != nil {
			*field = *value
		}
	}
	set(&t.Subject, c.Subject)
	set(&t.RawSubject, c.Subject)
	set(&t.Priority, c.Priority)
	set(&t.Status, c.Status)
	if c.Tags != nil {
		t.Tags = slices.Clone(c.Tags)
	}
	t.UpdatedAt = now.UTC()
	a.changes[t.ID] = t
	return t
}
