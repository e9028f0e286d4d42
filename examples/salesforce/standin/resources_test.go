package standin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/k-capehart/go-salesforce/v3"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/salesforce/standin"
)

type page struct {
	TotalSize int    `json:"totalSize"`
	Done      bool   `json:"done"`
	Next      string `json:"nextRecordsUrl"`
	Records   []struct {
		Attributes struct{ Type, URL string }
		ID         string `json:"Id"`        //nolint:tagliatelle // Salesforce's name
		AccountID  string `json:"AccountId"` //nolint:tagliatelle // Salesforce's name
		Name       string
		Subject    string
	} `json:"records"`
}

func ask(soql string) string { return base + "/query/?q=" + url.QueryEscape(soql) }

func TestQueryInPages(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 1000})
	path := ask("SELECT Id, AccountId, Name FROM Contact WHERE AccountId = '001000000000001AAA' ORDER BY Id LIMIT 450")
	var ids []string
	for _, size := range []int{200, 200, 50} {
		p := decode[page](t, c.get(path))
		require.Len(t, p.Records, size)
		require.Equal(t, 450, p.TotalSize)
		for _, r := range p.Records {
			ids = append(ids, r.ID)
			require.Equal(t, "001000000000001AAA", r.AccountID)
			require.Equal(t, "Contact", r.Attributes.Type)
			require.NotEmpty(t, r.Name)
		}
		path = p.Next
		require.Equal(t, size < 200, p.Done)
		require.Equal(t, p.Done, path == "")
	}
	require.IsIncreasing(t, ids)
	require.Equal(t, "003000000050000AAA", ids[0])
	require.Equal(t, "003000000050449AAA", ids[449])
	require.Equal(t, 3, c.s.Stats().Used, "each page is a call")
}

func TestPageSize(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 1000, PageSize: 7})
	require.Len(t, decode[page](t, c.get(ask("SELECT Id FROM Case"))).Records, 7)
}

func TestSOQL(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 1000})
	const acme = "AccountId = '001000000000000AAA'"
	tests := []struct {
		soql        string
		total       int
		first, code string
	}{
		{soql: "SELECT Id, Name FROM Account", total: 3, first: "001000000000000AAA"},
		{soql: "select id,name from account order by id limit 2", total: 2, first: "001000000000000AAA"},
		{soql: "SELECT Id FROM Account LIMIT 0", total: 0},
		{soql: "SELECT Id FROM Opportunity", total: 3 * standin.Records, first: "006000000000000AAA"},
		{soql: "SELECT Id, Subject FROM Case WHERE " + acme + " AND Id > '500000000000006AAA' ORDER BY Id ASC", total: standin.Records - 7, first: "500000000000007AAA"},
		{soql: "SELECT Id FROM Case WHERE Id > '500000000049999AAA'", total: 2 * standin.Records, first: "500000000050000AAA"},
		{soql: "SELECT Id FROM Case WHERE Id > '500' and " + acme, total: standin.Records, first: "500000000000000AAA"},
		{soql: "SELECT Id FROM Case WHERE Id > 'zzz'", total: 0},
		{soql: "SELECT Id FROM Case WHERE " + acme + " AND Id > '500000000049999AAA'", total: 0},
		{soql: "SELECT Id FROM Case WHERE AccountId = '001000000000003AAA'", total: 0},
		{soql: "", code: "MALFORMED_QUERY"},
		{soql: "SELECT", code: "MALFORMED_QUERY"},
		{soql: "SELECT * FROM Case", code: "MALFORMED_QUERY"},
		{soql: "SELECT Id FROM Case; DROP", code: "MALFORMED_QUERY"},
		{soql: "SELECT Id FROM Case WHERE Id > '500' OR " + acme, code: "MALFORMED_QUERY"},
		{soql: "SELECT Id FROM Case LIMIT -1", code: "MALFORMED_QUERY"},
		{soql: "SELECT Id FROM Nonsense", code: "INVALID_TYPE"},
		{soql: "SELECT Id, Subject FROM Contact", code: "INVALID_FIELD"},
		{soql: "SELECT Id FROM Account WHERE " + acme, code: "INVALID_FIELD"},
	}
	for _, tt := range tests {
		w := c.get(ask(tt.soql))
		if tt.code != "" {
			require.Equal(t, http.StatusBadRequest, w.Code, tt.soql)
			failures := decode[[]salesforce.SalesforceErrorMessage](t, w)
			require.Len(t, failures, 1)
			require.Equal(t, tt.code, failures[0].ErrorCode, tt.soql)
			continue
		}
		p := decode[page](t, w)
		require.Equal(t, tt.total, p.TotalSize, tt.soql)
		require.Len(t, p.Records, min(200, tt.total), tt.soql)
		if tt.total > 0 {
			require.Equal(t, tt.first, p.Records[0].ID, tt.soql)
		}
	}
}

func TestLocatorsThatAreNone(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 1000})
	for _, locator := range []string{"x", "01g", "01g-", "01g!-200", "01gU0VMRUNU-x", "01gU0VMRUNU--5", "01gU0VMRUNU-0"} {
		w := c.get(base + "/query/" + locator)
		require.Equal(t, http.StatusBadRequest, w.Code, locator)
		require.Contains(t, w.Body.String(), "INVALID_QUERY_LOCATOR", locator)
	}
	// One that points behind the end is an empty page.
	next := decode[page](t, c.get(ask("SELECT Id FROM Case LIMIT 300"))).Next
	p := decode[page](t, c.get(strings.TrimSuffix(next, "-200")+"-300"))
	require.Empty(t, p.Records)
	require.True(t, p.Done)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	type limits struct{ DailyApiRequests struct{ Max, Remaining int } } //nolint:revive // Salesforce's name
	c := newClient(t, standin.Config{Allocation: 100})
	c.spend(7)
	l := decode[limits](t, c.get(base+"/limits"))
	require.Equal(t, 100, l.DailyApiRequests.Max)
	require.Equal(t, 92, l.DailyApiRequests.Remaining, "asking is a call, too")
}

func TestRecords(t *testing.T) {
	t.Parallel()
	c := newClient(t, standin.Config{Allocation: 1000})
	r := decode[map[string]any](t, c.get(base+"/sobjects/Opportunity/006000000149999AAA"))
	require.Equal(t, "001000000000002AAA", r["AccountId"])
	require.Contains(t, r["Name"], "Initech")
	require.Equal(t, r, decode[map[string]any](t, c.get(base+"/sobjects/opportunity/006000000149999AAA")), "the same each time")

	for _, path := range []string{
		base + "/sobjects/Opportunity/006000000150000AAA", base + "/sobjects/Opportunity/003000000000000AAA", base + "/sobjects/Opportunity/x",
		base + "/sobjects/Account/001000000000003AAA", base + "/sobjects/Nonsense/001000000000000AAA", base + "/sobjects", "/nonsense",
		"/services/data/63/sobjects/Account/001000000000000AAA",
	} {
		w := c.get(path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.JSONEq(t, `[{"message":"The requested resource does not exist","errorCode":"NOT_FOUND"}]`, w.Body.String(), path)
	}
	require.Equal(t, http.StatusNotFound, c.do(http.MethodPost, account, "").Code)
}

func TestTheRealSDKUnderstandsIt(t *testing.T) {
	t.Parallel()
	s, err := standin.New(standin.Config{Allocation: 7, Tokens: map[string]string{"secret": "sync"}, Latency: standin.NoLatency})
	require.NoError(t, err)
	server, err := standin.Serve(t.Context(), "127.0.0.1:0", s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })

	_, err = salesforce.Init(salesforce.Creds{Domain: server.URL(), AccessToken: "wrong"})
	require.ErrorContains(t, err, "unable to refresh session")
	sf, err := salesforce.Init(salesforce.Creds{Domain: server.URL(), AccessToken: "secret"})
	require.NoError(t, err, "it asks for the limits")

	var contacts []struct{ Id, Name string } //nolint:revive // Salesforce's name
	require.NoError(t, sf.Query("SELECT Id, Name FROM Contact WHERE AccountId = '001000000000000AAA' LIMIT 600", &contacts))
	require.Len(t, contacts, 600)
	require.Equal(t, "003000000000599AAA", contacts[599].Id)

	resp, err := sf.DoRequest(http.MethodGet, "/sobjects/Account/001000000000000AAA", nil)
	require.NoError(t, err)
	require.Equal(t, "api-usage=5/7", resp.Header.Get(info))
	require.NoError(t, resp.Body.Close())
	_, err = sf.DoRequest(http.MethodGet, "/sobjects/Account/x", nil)
	require.ErrorContains(t, err, "NOT_FOUND")

	require.True(t, s.Spend("bi"))
	_, err = sf.DoRequest(http.MethodGet, "/sobjects/Account/001000000000000AAA", nil)
	require.EqualError(t, err, daily+"\n", "all that the SDK tells is the body")

	_, err = standin.Serve(t.Context(), server.URL()[len("http://"):], s)
	require.ErrorContains(t, err, "address already in use")
	_, err = standin.Serve(t.Context(), "0.0.0.0:0", s)
	require.ErrorContains(t, err, "not a loopback address")
}
