package fields_test

import (
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	const none = -1
	for s, want := range map[string]int64{
		"0":                    0,
		"5000":                 5000,
		" 5000 ":               5000,
		"007":                  7,
		"999999999999999":      999_999_999_999_999,
		"1000000000000000":     none, // 16 digits
		"0000000000000001":     none,
		"9223372036854775808":  none,
		"18446744073709551617": none,
		"":                     none,
		" ":                    none,
		"-1":                   none,
		"+1":                   none,
		"1.0":                  none,
		"1e3":                  none,
		"0x10":                 none,
		"1,000":                none,
		"1_000":                none,
		"1 0":                  none,
		"١٢":                   none,
		"²":                    none,
		"100, 100;w=10":        none,
	} {
		got, ok := fields.Number(s)
		require.Equal(t, want != none, ok, "%q", s)
		require.Equal(t, max(0, want), got, "%q", s)
	}
}

func TestFraction(t *testing.T) {
	t.Parallel()
	type fraction struct {
		used, limit int64
		ok          bool
	}
	for s, want := range map[string]fraction{
		"32/40":                   {32, 40, true},
		"40/40":                   {40, 40, true},
		"2/80":                    {2, 80, true},
		"41/40":                   {41, 40, true}, // over the limit
		"10018/100000":            {10018, 100000, true},
		"1 / 2":                   {1, 2, true},
		"0/0":                     {0, 0, true},
		"/":                       {},
		"1/":                      {},
		"/1":                      {},
		"1":                       {},
		"1/2/3":                   {},
		"-1/2":                    {},
		"1/-2":                    {},
		"1.5/2":                   {},
		"17/250(appName=x)":       {},
		"1/9999999999999999":      {},
		"9999999999999999/1":      {},
		"":                        {},
		strings.Repeat("1/", 999): {},
	} {
		used, limit, ok := fields.Fraction(s)
		require.Equal(t, want, fraction{used, limit, ok}, "%q", s)
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]map[string]string{
		"total=100; remaining=99; resets=41":                     {"total": "100", "remaining": "99", "resets": "41"},
		"total=30; remaining=0; resets=12":                       {"total": "30", "remaining": "0", "resets": "12"},
		"api-usage=10018/100000":                                 {"api-usage": "10018/100000"},
		"api-usage=10018/100000; api-bursts=1/750":               {"api-usage": "10018/100000", "api-bursts": "1/750"},
		"api-usage=25/5000; per-app-api-usage=17/250(appName=x)": {"api-usage": "25/5000", "per-app-api-usage": "17/250(appName=x)"},
		"api-usage=/":                {"api-usage": "/"},
		" Total = 1 ;;flag; x=a=b ;": {"total": "1", "x": "a=b"},
		"=1; a=":                     {"": "1", "a": ""},
		"":                           {},
		"no pairs":                   {},
	} {
		require.Equal(t, want, maps.Collect(fields.Pairs(s, ";")), "%q", s)
	}
}

func TestPairsStopsWhenRequestedAndAfterSome(t *testing.T) {
	t.Parallel()
	for range fields.Pairs("a=1;b=2", ";") {
		break // must not panic
	}
	n := 0
	for range fields.Pairs(strings.Repeat("a=1;", 1000), ";") {
		n++
	}
	require.Equal(t, 32, n)
}

// number is the value of a count's digits; nil if it is none.
func number(s string) *big.Int {
	s = strings.TrimSpace(s)
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || len(s) > 15 || strings.ContainsAny(s, "+-_") {
		return nil
	}
	return n
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "5000", " 7 ", "999999999999999", "1000000000000000", "-1", "+1", "1_000", "1.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := fields.Number(s)
		want := number(s)
		require.Equal(t, want != nil, ok)
		if ok {
			require.Equal(t, want.Int64(), got)
			return
		}
		require.Zero(t, got)
	})
}

func FuzzFraction(f *testing.F) {
	for _, s := range []string{"32/40", "40/40", "/", "1/2/3", " 1 / 2 ", "10018/100000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		used, limit, ok := fields.Fraction(s)
		parts := strings.Split(s, "/")
		valid := len(parts) == 2 && number(parts[0]) != nil && number(parts[1]) != nil
		require.Equal(t, valid, ok)
		if !ok {
			require.Zero(t, used)
			require.Zero(t, limit)
			return
		}
		require.Equal(t, number(parts[0]).Int64(), used)
		require.Equal(t, number(parts[1]).Int64(), limit)
	})
}

func FuzzPairs(f *testing.F) {
	for _, s := range []string{"total=100; remaining=99; resets=41", "api-usage=10018/100000", "a;b=;=c", "A=b=c"} {
		f.Add(s, ";")
		f.Add(s, ",")
	}
	f.Fuzz(func(t *testing.T, s, separator string) {
		n := 0
		for key, value := range fields.Pairs(s, separator) {
			n++
			require.Equal(t, strings.ToLower(strings.TrimSpace(key)), key)
			require.Equal(t, strings.TrimSpace(value), value)
			require.Contains(t, s, value)
			require.NotContains(t, key, "=")
			if separator != "" && strings.TrimSpace(separator) == separator {
				require.NotContains(t, value, separator)
			}
		}
		require.LessOrEqual(t, n, min(32, strings.Count(s, "=")))

		// Pairs that are joined are the same when they are split.
		if key, value, ok := strings.Cut(s, "="); ok && !strings.Contains(s, ";") {
			joined := "first=1;" + s + "; last = 2"
			got := maps.Collect(fields.Pairs(joined, ";"))
			require.Equal(t, "2", got["last"])
			if key = strings.ToLower(strings.TrimSpace(key)); key != "last" {
				require.Equal(t, strings.TrimSpace(value), got[key])
			}
		}
	})
}
