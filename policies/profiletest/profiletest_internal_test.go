package profiletest

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

const good = `# a comment

-- request --
GET https://acme.example/
-- response --
200
Date: Tue, 10 Nov 2026 12:00:00 GMT
-- reading --
verdict unjudged
`

func TestParseTakesAFileApart(t *testing.T) {
	t.Parallel()
	f, err := parse("-- request --\r\nPOST http://a.example/?q=1\r\nX-A: 1\r\nx-a:2 \r\n\r\none\r\n\r\n-- response --\r\n503\r\n\r\ntwo\r\n-- reading --\r\nverdict unjudged\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, "POST", f.method)
	require.Equal(t, "http://a.example/?q=1", f.target)
	require.Equal(t, http.Header{"X-A": {"1", "2"}}, f.sent)
	require.Equal(t, "one\n", f.requested)
	require.Equal(t, 503, f.status)
	require.Equal(t, "two", f.body)
	require.Equal(t, []string{"verdict unjudged"}, f.reading)
	require.True(t, strings.HasSuffix(f.head, "two\n"))
}

func TestAFileThatIsNotUnderstoodFails(t *testing.T) {
	t.Parallel()
	require.Empty(t, replay(policies.Profile{}, good))
	for name, c := range map[string]struct{ old, text, want string }{
		"text before the sections": {"# a comment", "a comment", "line 1"},
		"unknown section":          {"-- request --", "-- question --", `line 3: section "question"`},
		"unknown section in it":    {"-- reading --", "-- settle --", `section "settle"`},
		"section twice":            {"-- response --", "-- request --", `section "request"`},
		"sections in no order":     {"-- request --", "-- response --", `section "response"`},
		"no URL":                   {"GET https://acme.example/", "GET", "line 4"},
		"relative URL":             {"https://acme.example/", "/tickets", "line 4"},
		"HTTP version":             {"acme.example/", "acme.example/ HTTP/1.1", "line 4"},
		"reason phrase":            {"200", "200 OK", "line 6"},
		"no status":                {"200\n", "", "line 6"},
		"status of four digits":    {"200", "2000", "line 6"},
		"not a field":              {"Date: ", "Date ", "line 7"},
		"name with a blank":        {"Date: ", "Date : ", "line 7"},
		"unknown line in reading":  {"verdict unjudged", "verdict unjudged\nwait 12s", "line 10"},
		"comment in reading":       {"verdict unjudged", "verdict unjudged\n# really", "line 10"},
		"no reading":               {"-- reading --\nverdict unjudged\n", "", "HEADWAY_UPDATE"},
		"no response":              {"-- response --\n200\nDate: Tue, 10 Nov 2026 12:00:00 GMT\n-- reading --\nverdict unjudged\n", "", `"-- response --"`},
		"nothing":                  {good, "", `"-- request --"`},
		"empty request":            {"GET https://acme.example/\n", "", "line 4"},
	} {
		require.Contains(t, good, c.old)
		failures := replay(policies.Profile{}, strings.Replace(good, c.old, c.text, 1))
		require.Len(t, failures, 1, name)
		require.Contains(t, failures[0], c.want, name)
	}
}

func TestAReadingThatDiffersFails(t *testing.T) {
	t.Parallel()
	p := policies.Profile{Read: func(*policies.Reply) policies.Reading {
		return policies.Reading{
			Feedback: []policies.Feedback{{Wait: time.Second, Source: "X"}, {Limit: policies.Reported(0)}},
			Verdict:  policies.Limited,
		}
	}}
	text := strings.Replace(good, "verdict unjudged", "verdict limited\nfeedback wait=2s source=X\nfeedback limit=0", 1)
	failures := replay(p, text)
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "rule:")
	require.Contains(t, failures[0], "\n         verdict limited"+
		"\n    want feedback wait=2s source=X"+
		"\n    got  feedback wait=1s source=X"+
		"\n         feedback limit=0")
	require.Empty(t, replay(p, strings.Replace(text, "2s", "1s", 1)))
	require.NotEmpty(t, replay(p, strings.Replace(text, "feedback wait=2s source=X\n", "", 1)))
	require.NotEmpty(t, replay(p, text+"settle *=1\n"))
	p.Read = func(r *policies.Reply) policies.Reading {
		return policies.Reading{Feedback: []policies.Feedback{{Limit: policies.Reported(int64(len(r.Header.Get("Date"))))}}}
	}
	require.Contains(t, strings.Join(replay(p, good), ""), "Date of 5,000 bytes is read")
}

func TestAProfileThatBreaksARuleFails(t *testing.T) {
	t.Parallel()
	read := func(f func(*policies.Reply) policies.Reading) policies.Profile { return policies.Profile{Read: f} }
	reports := func(f policies.Feedback) policies.Profile {
		return read(func(*policies.Reply) policies.Reading {
			return policies.Reading{Feedback: []policies.Feedback{f}}
		})
	}
	scope := func(name string, f func(*http.Request) string) policies.Profile {
		return policies.Profile{Scopes: []policies.Scope{{Name: name, Value: f}}}
	}
	costs := func(c policies.Cost) policies.Profile {
		return policies.Profile{Costs: func(*http.Request) []policies.Cost { return []policies.Cost{c} }}
	}
	peek := func(f func(*http.Response) int) policies.Profile { return policies.Profile{Peek: f} }
	nothing := func(*http.Request) string { return "" }
	for name, c := range map[string]struct {
		profile policies.Profile
		want    string
	}{
		"negative wait":    {reports(policies.Feedback{Wait: -1}), "Wait is negative"},
		"negative window":  {reports(policies.Feedback{Window: -1}), "Window is negative"},
		"negative reset":   {reports(policies.Feedback{Reset: -1}), "Reset is negative"},
		"policy name":      {reports(policies.Feedback{Policies: []string{"a", "b c"}}), `policy "b c"`},
		"otherwise":        {reports(policies.Feedback{Otherwise: 9}), "Otherwise is invalid(9)"},
		"within":           {reports(policies.Feedback{Within: "endpoint"}), `Within is "endpoint"`},
		"negative cost":    {costs(policies.Cost{N: -1}), "costs are never negative"},
		"negative times":   {costs(policies.Cost{N: 1, Learned: policies.Learned{Times: -1}}), "nothing is negative"},
		"more than most":   {costs(policies.Cost{N: 2, Learned: policies.Learned{Times: 1, Most: 1}}), "the most is no less than the cost"},
		"name of a cost":   {costs(policies.Cost{Policy: "a b"}), "names are valid"},
		"name of a scope":  {scope("a b", nothing), "names are valid"},
		"scope of nothing": {scope("a", nil), "has no function"},
		"negative peek":    {peek(func(*http.Response) int { return -1 }), "never negative"},
		"verdict": {read(func(*policies.Reply) policies.Reading {
			return policies.Reading{Verdict: 9}
		}), "Verdict is invalid(9)"},
		"negative settle": {policies.Profile{Settle: func(*policies.Reply) []policies.Cost {
			return []policies.Cost{{N: -1}}
		}}, "Settle says"},
		"body of the request read": {scope("a", func(r *http.Request) string {
			_, err := r.Body.Read(make([]byte, 1))
			return err.Error()
		}), "reads the request's body"},
		"body of the request closed": {scope("a", func(r *http.Request) string {
			_ = r.Body.Close()
			return ""
		}), "closes the request's body"},
		"body of the response read": {peek(func(r *http.Response) int {
			_, err := r.Body.Read(make([]byte, 1))
			return len(err.Error())
		}), "reads the response's body"},
		"header of the request changed": {scope("a", func(r *http.Request) string {
			r.Header.Set("X-Seen", "1")
			return ""
		}), "request was"},
		"URL of the request changed": {read(func(r *policies.Reply) policies.Reading {
			r.Request.URL.Path += "x"
			return policies.Reading{}
		}), "request was"},
		"header of the response changed": {read(func(r *policies.Reply) policies.Reading {
			r.Header.Del("Date")
			return policies.Reading{}
		}), "reply was changed"},
		"header of the response changed in Peek": {peek(func(r *http.Response) int {
			r.Header["Date"] = nil
			return 0
		}), "Peek changed"},
		"body of the response changed": {policies.Profile{
			Peek: func(*http.Response) int { return 1 },
			Read: func(r *policies.Reply) policies.Reading {
				r.Body[0] ^= 1
				return policies.Reading{}
			},
		}, "reply was changed"},
		"chance": {read(func(*policies.Reply) policies.Reading {
			return policies.Reading{Feedback: []policies.Feedback{{Limit: policies.Reported(rand.Int64())}}}
		}), "same input, same output"},
	} {
		text := strings.Replace(good, "acme.example/\n", "acme.example/\n\nbody\n", 1)
		text = strings.Replace(text, "-- reading --", "\nbody\n-- reading --", 1)
		require.Contains(t, strings.Join(replay(c.profile, text), "\n"), c.want, name)
		f, err := parse(text)
		require.NoError(t, err)
		require.Contains(t, strings.Join(fuzzed(c.profile, &f.exchange), "\n"), c.want, name)
	}
}

// A body may end early, and a request may have a body that can be read only once: files show neither.
func TestFuzzTriesWhatFilesDoNotShow(t *testing.T) {
	t.Parallel()
	f, err := parse(strings.Replace(good, "-- reading --", "\nbody\n-- reading --", 1))
	require.NoError(t, err)
	f.requested = "body"
	wrong := policies.Reading{Feedback: []policies.Feedback{{Wait: -1}}}
	for name, p := range map[string]policies.Profile{
		"cut": {
			Peek: func(*http.Response) int { return 100 },
			Read: func(r *policies.Reply) policies.Reading {
				if r.Complete {
					return policies.Reading{}
				}
				return wrong
			},
		},
		"stream": {Read: func(r *policies.Reply) policies.Reading {
			if r.Request.GetBody != nil {
				return policies.Reading{}
			}
			return wrong
		}},
	} {
		require.Empty(t, play(p, &f.exchange, variant{}).broken(), name)
		require.NotEmpty(t, fuzzed(p, &f.exchange), name)
	}
}

// Read gets as much of a body as a transport would give it.
func TestTheBodyIsCutAsPeekAsks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		length, peek int
		cut          bool
		want         int
		complete     bool
	}{
		{10, 0, false, 0, false},
		{0, 1, false, 0, true},
		{10, 9, false, 9, false},
		{10, 10, false, 10, true},
		{10, 11, false, 10, true},
		{10, 11, true, 5, false},
		{policies.MaxPeek, 1 << 30, false, policies.MaxPeek, true},
		{policies.MaxPeek + 1, 1 << 30, false, policies.MaxPeek, false},
	} {
		var seen *policies.Reply
		p := policies.Profile{
			Peek: func(*http.Response) int { return c.peek },
			Read: func(r *policies.Reply) policies.Reading { seen = r; return policies.Reading{} },
		}
		x := &exchange{method: "GET", target: "http://a.example/", status: 200, body: strings.Repeat("x", c.length)}
		require.Empty(t, play(p, x, variant{cut: c.cut}).broken())
		require.Len(t, seen.Body, c.want, "%+v", c)
		require.Equal(t, c.complete, seen.Complete, "%+v", c)
	}
}

func TestSettleSeesTheHeaderAndThenBothEndsOfTheBody(t *testing.T) {
	t.Parallel()
	var seen []*policies.Reply
	var costs []policies.Cost
	p := policies.Profile{
		Read:   func(*policies.Reply) policies.Reading { return policies.Reading{Verdict: policies.Limited} },
		Settle: func(r *policies.Reply) []policies.Cost { seen = append(seen, r); return costs },
	}
	x := &exchange{method: "GET", target: "http://a.example/", status: 429, body: strings.Repeat("x", policies.MaxPeek) + "a" + strings.Repeat("y", policies.MaxPeek)}
	play(p, x, variant{})
	require.Len(t, seen, 2, "of what was refused, too")
	require.Empty(t, seen[0].Body)
	require.False(t, seen[0].Complete)
	require.True(t, strings.Replace(x.body, "a", "\x00", 1) == string(seen[1].Body)) //nolint:testifylint // nobody wants to read them
	require.False(t, seen[1].Complete)
	x.body = x.body[1:]
	play(p, x, variant{})
	require.True(t, seen[3].Complete)

	costs = []policies.Cost{}
	play(p, x, variant{})
	require.Len(t, seen, 5, "the header reported it")
	x.body, costs = "", nil
	play(p, x, variant{})
	require.Len(t, seen, 6, "there is no body")
	require.True(t, seen[5].Complete)
}

func TestReadEndSeesWhatReadHasNot(t *testing.T) {
	t.Parallel()
	called := 0
	p := policies.Profile{
		Peek: func(*http.Response) int { return 10 },
		Read: func(*policies.Reply) policies.Reading { return policies.Reading{} },
		ReadEnd: func(r *policies.Reply) []policies.Feedback {
			called++
			return []policies.Feedback{{Source: string(r.Body[len(r.Body)-3:])}}
		},
	}
	for body, want := range map[string][]policies.Feedback{"": nil, "0123456789": nil, "0123456789end": {{Source: "end"}}} {
		x := &exchange{method: "GET", target: "http://a.example/", status: 200, body: body}
		require.Equal(t, want, play(p, x, variant{}).reading.Feedback, body)
	}
	require.Equal(t, 1, called)
}

func TestValuesThatCouldBeTakenForSomethingElseAreQuoted(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"acme": "acme", "a b=c": "a b=c", "": "", " a": `" a"`, "a\nverdict limited": `"a\nverdict limited"`, "\xff": `"\xff"`, `"a"`: `"\"a\""`,
	} {
		require.Equal(t, want, quote(s))
	}
}

func TestUpdateWritesTheReadingAndNothingElse(t *testing.T) {
	t.Parallel()
	p := policies.Profile{Read: func(*policies.Reply) policies.Reading { return policies.Reading{Verdict: policies.Spent} }}
	head, _, _ := strings.Cut(good, "-- reading")
	want := head + "-- reading --\nverdict spent\n"
	for _, text := range []string{good, head, strings.TrimSuffix(head, "\n"), want} {
		path := filepath.Join(t.TempDir(), "a.txt")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.Equal(t, want, string(update(t, p, path, text)))
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(written))
	}
}

func TestAFileWithoutReadingCanBeUsed(t *testing.T) {
	t.Parallel()
	head, _, _ := strings.Cut(good, "-- reading")
	f, err := parse(head)
	require.ErrorIs(t, err, errNoReading)
	require.Equal(t, 200, f.status)
}

func TestHeaderFieldsThatNetHTTPWouldNotAcceptAreLeftOut(t *testing.T) {
	t.Parallel()
	h := parseHeader("a: 1\nA:2\r\nnot a field\nb c: 3\n: 4\nd: \x005\n")
	require.Equal(t, http.Header{"A": {"1", "2"}, "D": {"5"}}, h)
	require.Equal(t, "A: 1\nA: 2\nD: 5\n", printHeader(h))
}

func TestLimitsThatDoNotFitFail(t *testing.T) {
	t.Parallel()
	p := policies.Profile{Name: "acme", Scopes: []policies.Scope{{Name: "tenant", Value: func(*http.Request) string { return "" }}}}
	one := policies.PerSecond(1).Named("one")
	require.Empty(t, unfit(p, []policies.Policy{one, policies.PerSecond(1).Per("tenant").Named("two")}))
	for want, limits := range map[string][]policies.Policy{
		"no limits":              nil,
		"must be at least 1":     {policies.PerSecond(0)},
		`"one" is there twice`:   {one, policies.PerMinute(1).Named("one")},
		`"one" is per "user"`:    {one.Per("tenant", "user")},
		"zero value":             {{}},
		"rule: a name stands fo": {one, one},
	} {
		require.Contains(t, strings.Join(unfit(p, limits), "\n"), want)
	}
	require.NotEmpty(t, unfit(policies.Profile{}, []policies.Policy{one}), "no name")
	p.Scopes = append(p.Scopes, p.Scopes[0])
	require.NotEmpty(t, unfit(p, []policies.Policy{one}), "scope twice")
	p.Scopes = []policies.Scope{{Name: "tenant"}}
	require.NotEmpty(t, unfit(p, []policies.Policy{one}), "no function")
}
