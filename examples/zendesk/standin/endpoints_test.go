package standin_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/nukosuke/go-zendesk/zendesk"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/zendesk/standin"
)

//nolint:tagliatelle // the names are Zendesk's
type page struct {
	Tickets []standin.Ticket `json:"tickets"`
	Next    *string          `json:"next_page"`
	Prev    *string          `json:"previous_page"`
	Count   int              `json:"count"`
	Meta    struct {
		HasMore bool   `json:"has_more"`
		After   string `json:"after_cursor"`
	} `json:"meta"`
}

func TestListByCursor(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Plan: "enterprise", Latency: standin.NoLatency})
	var ids []int64
	after, pages := "", 0
	for {
		p := decode[page](t, c.get("/acme/api/v2/tickets.json?page%5Bsize%5D=100&page%5Bafter%5D="+url.QueryEscape(after)))
		pages++
		for _, ticket := range p.Tickets {
			ids = append(ids, ticket.ID)
		}
		if after = p.Meta.After; !p.Meta.HasMore {
			break
		}
	}
	require.Equal(t, 50, pages)
	require.Len(t, ids, standin.Tickets)
	for i, id := range ids {
		require.Equal(t, int64(i+1), id)
	}
	for _, query := range []string{"page[size]=0", "page[size]=x", "page[after]=nonsense", "page[before]=x"} {
		require.Equal(t, http.StatusBadRequest, c.get("/acme/api/v2/tickets.json?"+query).Code, query)
	}
}

func TestListByNumber(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Plan: "enterprise", Latency: standin.NoLatency})
	p := decode[page](t, c.get("/acme/api/v2/tickets.json"))
	require.Len(t, p.Tickets, 100)
	require.Equal(t, standin.Tickets, p.Count)
	require.Nil(t, p.Prev)
	require.Equal(t, "https://acme.zendesk.com/api/v2/tickets.json?page=2&per_page=100", *p.Next)

	p = decode[page](t, c.get("/acme/api/v2/tickets.json?page=167&per_page=30"))
	require.Len(t, p.Tickets, 20)
	require.Equal(t, int64(4981), p.Tickets[0].ID)
	require.NotNil(t, p.Prev)
	require.Nil(t, p.Next)

	require.Empty(t, decode[page](t, c.get("/acme/api/v2/tickets.json?page=51")).Tickets)
	require.Equal(t, http.StatusBadRequest, c.get("/acme/api/v2/tickets.json?page=0").Code)
	require.Equal(t, http.StatusBadRequest, c.get("/acme/api/v2/tickets.json?per_page=x").Code)
}

func TestShowAndUpdate(t *testing.T) {
	t.Parallel()
	type one struct {
		Ticket standin.Ticket `json:"ticket"`
	}
	c := newClient(t, standin.Config{Plan: "enterprise", Latency: standin.NoLatency})
	before := decode[one](t, c.get("/acme/api/v2/tickets/42.json")).Ticket
	require.Equal(t, before, decode[one](t, c.get("/acme/api/v2/tickets/42.json")).Ticket)

	require.Equal(t, http.StatusOK, c.update(42).Code)
	after := decode[one](t, c.get("/acme/api/v2/tickets/42.json")).Ticket
	require.Equal(t, []string{"seen"}, after.Tags)
	require.Equal(t, before.Subject, after.Subject)
	require.True(t, after.UpdatedAt.After(before.UpdatedAt))
	elsewhere := decode[one](t, c.get("/globex/api/v2/tickets/42.json")).Ticket
	require.Equal(t, before.Tags, elsewhere.Tags)

	require.Len(t, decode[page](t, c.get("/acme/api/v2/tickets/show_many.json?ids=1,42,9999")).Tickets, 2)
	require.Equal(t, http.StatusBadRequest, c.get("/acme/api/v2/tickets/show_many.json?ids=").Code)

	require.Equal(t, http.StatusNotFound, c.get("/acme/api/v2/tickets/5001.json").Code)
	require.Equal(t, http.StatusNotFound, c.update(5001).Code)
	require.Equal(t, http.StatusNotFound, c.get("/acme/api/v2/users.json").Code)
	require.Equal(t, http.StatusNotFound, c.do(http.MethodPost, "/acme/api/v2/tickets.json", "{}").Code)
	require.Equal(t, http.StatusNotFound, c.get("/No_Tenant/api/v2/tickets.json").Code)
	require.Equal(t, http.StatusBadRequest, c.do(http.MethodPut, "/acme/api/v2/tickets/1.json", "{}").Code)
	require.Equal(t, http.StatusBadRequest, c.do(http.MethodPut, "/acme/api/v2/tickets/1.json", "{").Code)
}

func TestTheRealSDKUnderstandsIt(t *testing.T) {
	t.Parallel()
	s, err := standin.New(standin.Config{Plan: "enterprise", Latency: standin.NoLatency})
	require.NoError(t, err)
	server, err := standin.Serve(t.Context(), "127.0.0.1:0", s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })

	z, err := zendesk.NewClient(&http.Client{})
	require.NoError(t, err)
	require.NoError(t, z.SetEndpointURL(server.URL()+"/acme/api/v2"))
	z.SetCredential(zendesk.NewAPITokenCredential("ann@example.com", "secret"))

	tickets, meta, err := z.GetTicketsCBP(t.Context(), &zendesk.CBPOptions{CursorPagination: zendesk.CursorPagination{PageSize: 50}})
	require.NoError(t, err)
	require.Len(t, tickets, 50)
	require.True(t, meta.HasMore)
	tickets, _, err = z.GetTicketsCBP(t.Context(), &zendesk.CBPOptions{CursorPagination: zendesk.CursorPagination{PageSize: 50, PageAfter: meta.AfterCursor}})
	require.NoError(t, err)
	require.Equal(t, int64(51), tickets[0].ID)

	tickets, numbered, err := z.GetTickets(t.Context(), &zendesk.TicketListOptions{PageOptions: zendesk.PageOptions{Page: 2, PerPage: 10}})
	require.NoError(t, err)
	require.Equal(t, int64(11), tickets[0].ID)
	require.True(t, numbered.HasNext())

	ticket, err := z.GetTicket(t.Context(), 42)
	require.NoError(t, err)
	require.Equal(t, int64(42), ticket.ID)
	ticket, err = z.UpdateTicket(t.Context(), 42, zendesk.Ticket{Tags: append(ticket.Tags, "seen")})
	require.NoError(t, err)
	require.Contains(t, ticket.Tags, "seen")
	tickets, err = z.GetMultipleTickets(t.Context(), []int64{1, 42})
	require.NoError(t, err)
	require.Len(t, tickets, 2)

	_, err = z.GetTicket(t.Context(), 6000)
	var failure zendesk.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, http.StatusNotFound, failure.Status())

	_, err = standin.Serve(t.Context(), server.URL()[len("http://"):], s)
	require.ErrorContains(t, err, "address already in use")
	_, err = standin.Serve(t.Context(), "0.0.0.0:0", s)
	require.ErrorContains(t, err, "not a loopback address")
}
