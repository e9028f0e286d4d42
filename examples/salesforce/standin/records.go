package standin

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Records is the number of records of each other object for an account.
const Records = 50_000

// accounts is the name of the object to which the others belong.
const accounts = "Account"

// modified is a field that every object has.
const modified = "LastModifiedDate"

// An object is a table of the org.
type object struct {
	name   string
	prefix string // of its records' ids
	fields []string
}

// objects are the tables of the org, with some of their standard fields.
// Source: https://developer.salesforce.com/docs/atlas.en-us.object_reference.meta/object_reference/sforce_api_objects_list.htm
//
//nolint:gochecknoglobals // a table
var objects = []*object{
	{accounts, "001", []string{"Id", "Name", modified}},
	{"Contact", "003", []string{"Id", "AccountId", "Name", modified}},
	{"Opportunity", "006", []string{"Id", "AccountId", "Name", modified}},
	{"Case", "500", []string{"Id", "AccountId", "Subject", modified}},
}

// names are those of the accounts: the customers whose data the org holds.
//
//nolint:gochecknoglobals // a table
var names = []string{"Acme", "Globex", "Initech"}

func objectNamed(name string) *object {
	for _, o := range objects {
		if strings.EqualFold(o.name, name) {
			return o
		}
	}
	return nil
}

// id returns the id of a record, numbered from 0. Ids have 18 characters and sort as the numbers do.
// Source: https://developer.salesforce.com/docs/atlas.en-us.object_reference.meta/object_reference/field_types.htm
func (o *object) id(n int) string { return fmt.Sprintf("%s%012dAAA", o.prefix, n) }

// count returns how many records there are.
func (o *object) count() int {
	if o.name == accounts {
		return len(names)
	}
	return len(names) * Records
}

// find returns the number of a record.
func (o *object) find(id string) (int, bool) {
	var n int
	if _, err := fmt.Sscanf(id, o.prefix+"%012dAAA", &n); err != nil || n < 0 || n >= o.count() || o.id(n) != id {
		return 0, false
	}
	return n, true
}

// span returns the numbers of the records that a query finds: from the first to before the last.
func (q *query) span() (first, last int) {
	last = q.object.count()
	if q.account != "" {
		n, ok := objects[0].find(q.account)
		if !ok {
			return 0, 0
		}
		first, last = n*Records, (n+1)*Records
	}
	first += sort.Search(last-first, func(i int) bool { return q.object.id(first+i) > q.after }) // ids sort as numbers do
	if q.limit >= 0 {
		last = min(last, first+q.limit)
	}
	return first, max(first, last)
}

// record makes a record: the same for the same number.
func (o *object) record(n int, fields []string, version string) map[string]any {
	pick := func(salt int, from ...string) string { return from[(n*7919+salt*104729)%len(from)] }
	owner := n
	if o.name != accounts {
		owner = n / Records
	}
	r := map[string]any{"attributes": map[string]string{"type": o.name, "url": dataPath + version + "/sobjects/" + o.name + "/" + o.id(n)}}
	for _, f := range fields {
		switch f {
		case "Id":
			r[f] = o.id(n)
		case "AccountId":
			r[f] = objects[0].id(owner)
		case modified:
			r[f] = time.Date(2026, time.January, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(n) * 37 * time.Second).Format("2006-01-02T15:04:05.000+0000")
		case "Subject":
			r[f] = "The " + pick(1, "printer", "invoice", "password", "delivery") + " " + pick(2, "does not work", "was sent twice", "cannot be found")
		case "Name":
			switch o.name {
			case accounts:
				r[f] = names[n]
			case "Contact":
				r[f] = pick(3, "Ann", "Bob", "Cem", "Dora") + " " + pick(4, "Meyer", "Okafor", "Silva", "Tanaka", "Yilmaz")
			default:
				r[f] = names[owner] + " " + pick(5, "renewal", "upgrade", "pilot") + fmt.Sprintf(" %d", n)
			}
		}
	}
	return r
}
