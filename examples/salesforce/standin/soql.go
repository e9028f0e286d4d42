package standin

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// grammar is the part of SOQL that the stand-in parses. As in SOQL, case matters only in quotes.
//
//	SELECT Id, LastModifiedDate FROM Contact WHERE AccountId = '001...' AND Id > '003...' ORDER BY Id LIMIT 600
//
// Source: https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/sforce_api_calls_soql_select.htm
var grammar = regexp.MustCompile(`(?i)^\s*SELECT\s+([a-z_, ]+?)\s+FROM\s+([a-z_]+)` +
	`(?:\s+WHERE\s+(.+?))?(?:\s+ORDER\s+BY\s+(Id)(?:\s+ASC)?)?(?:\s+LIMIT\s+([0-9]{1,9}))?\s*$`)

// condition is one comparison of a WHERE clause.
var condition = regexp.MustCompile(`(?i)^\s*(AccountId\s*=|Id\s*>)\s*'([a-zA-Z0-9]*)'\s*$`)

var conjunction = regexp.MustCompile(`(?i)\s+AND\s+`)

// A query is a SELECT that was understood.
type query struct {
	object  *object
	fields  []string // as the object spells them
	account string   // only records of this account; "" for all
	after   string   // only records with a greater id
	limit   int      // -1: no limit
}

// parse parses a SELECT, or returns Salesforce's error.
func parse(soql string) (*query, *failure) {
	m := grammar.FindStringSubmatch(soql)
	if m == nil {
		return nil, &failure{Code: "MALFORMED_QUERY", Message: "the stand-in does not understand: " + strconv.Quote(soql)}
	}
	q := &query{object: objectNamed(m[2]), limit: -1}
	if q.object == nil {
		return nil, &failure{Code: "INVALID_TYPE", Message: fmt.Sprintf("sObject type '%s' is not supported.", m[2])}
	}
	for name := range strings.SplitSeq(m[1], ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(q.object.fields, func(f string) bool { return strings.EqualFold(f, name) })
		if i < 0 {
			return nil, &failure{Code: "INVALID_FIELD", Message: fmt.Sprintf("No such column '%s' on entity '%s'.", name, q.object.name)}
		}
		q.fields = append(q.fields, q.object.fields[i])
	}
	if m[3] != "" {
		for _, part := range conjunction.Split(m[3], -1) {
			c := condition.FindStringSubmatch(part)
			switch {
			case c == nil:
				return nil, &failure{Code: "MALFORMED_QUERY", Message: "the stand-in does not understand: " + strconv.Quote(part)}
			case strings.HasSuffix(c[1], ">"):
				q.after = c[2]
			case q.object.name == accounts:
				return nil, &failure{Code: "INVALID_FIELD", Message: fmt.Sprintf("No such column 'AccountId' on entity '%s'.", accounts)}
			default:
				q.account = c[2]
			}
		}
	}
	if m[5] != "" {
		q.limit, _ = strconv.Atoi(m[5])
	}
	return q, nil
}

// A locator names the rest of a result: the query, and how many records came before. To clients it is opaque.
func locator(soql string, from int) string {
	return "01g" + base64.RawURLEncoding.EncodeToString([]byte(soql)) + "-" + strconv.Itoa(from)
}

func parseLocator(s string) (soql string, from int, ok bool) {
	s, found := strings.CutPrefix(s, "01g")
	i := strings.LastIndexByte(s, '-')
	if !found || i < 0 {
		return "", 0, false
	}
	b, err := base64.RawURLEncoding.DecodeString(s[:i])
	if err != nil {
		return "", 0, false
	}
	from, err = strconv.Atoi(s[i+1:])
	return string(b), from, err == nil && from > 0
}
