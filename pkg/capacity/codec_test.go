package capacity

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEncodePools(t *testing.T) {
	got, err := EncodePools(map[string]int64{"pool-ssd": 107374182400, "a": 0, "pool-hdd": math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"0","pool-hdd":"9223372036854775807","pool-ssd":"107374182400"}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEncodePools_RefusesWhatCouldNotBeRead(t *testing.T) {
	tooMany := map[string]int64{}
	for i := range 20_000 {
		tooMany["pool-"+strconv.Itoa(i)] = 1
	}
	for name, pools := range map[string]map[string]int64{
		"negative":          {"a": -1},
		"empty name":        {"": 1},
		"name not UTF-8":    {"\xff": 1},
		"control character": {"a\n": 1},
		"too long":          tooMany,
	} {
		t.Run(name, func(t *testing.T) {
			if value, err := EncodePools(pools); err == nil {
				t.Errorf("got %d bytes, want an error", len(value))
			}
		})
	}
}

// One bad figure must not take the node's other pools away.
func TestDecodePools_OneBadValueLeavesTheOthers(t *testing.T) {
	for name, bad := range map[string]string{
		"empty":            `""`,
		"word":             `"abc"`,
		"negative":         `"-1"`,
		"minus zero":       `"-0"`,
		"plus":             `"+1"`,
		"exponent":         `"1e9"`,
		"fraction":         `"1.0"`,
		"hexadecimal":      `"0x10"`,
		"underscore":       `"1_000"`,
		"leading zero":     `"007"`,
		"space":            `" 1"`,
		"quantity":         `"10Gi"`,
		"other digits":     `"١٢"`,
		"overflow by one":  `"9223372036854775808"`,
		"overflow by far":  `"99999999999999999999999999999999"`,
		"number":           `5`,
		"float":            `1.5`,
		"null":             `null`,
		"boolean":          `true`,
		"object":           `{"a":"1"}`,
		"array":            `["1"]`,
		"deep":             strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"lone surrogate":   `"\ud800"`,
		"escaped null":     `"\u0000"`,
		"long digit chain": `"` + strings.Repeat("9", 10_000) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			pools, problems, err := DecodePools(`{"before":"1","bad":` + bad + `,"after":"2"}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]int64{"before": 1, "after": 2}, pools); diff != "" {
				t.Error(diff)
			}
			var problem *PoolValueError
			if !errors.As(problems["bad"], &problem) || problem.Pool != "bad" || len(problem.Error()) > 300 {
				t.Errorf("got %v, want a short *PoolValueError of pool bad", problems["bad"])
			}
		})
	}
}

func TestDecodePools_BadNames(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		pools map[string]int64
		bad   []string
	}{
		"empty":           {`{"":"1","b":"2"}`, map[string]int64{"b": 2}, []string{""}},
		"twice":           {`{"a":"1","b":"2","a":"1"}`, map[string]int64{"b": 2}, []string{"a"}},
		"three times":     {`{"a":"1","a":"1","a":"1","b":"2"}`, map[string]int64{"b": 2}, []string{"a"}},
		"twice, escaped":  {`{"a":"1","\u0061":"1","b":"2"}`, map[string]int64{"b": 2}, []string{"a"}},
		"bad, then good":  {`{"a":"x","a":"1","b":"2"}`, map[string]int64{"b": 2}, []string{"a"}},
		"control":         {`{"a\n":"1","b":"2"}`, map[string]int64{"b": 2}, []string{"a\n"}},
		"case is a name":  {`{"A":"1","a":"2"}`, map[string]int64{"A": 1, "a": 2}, nil},
		"foreign name":    {`{"pool ssd/1":"1"}`, map[string]int64{"pool ssd/1": 1}, nil},
		"zero is valid":   {`{"a":"0"}`, map[string]int64{"a": 0}, nil},
		"largest":         {`{"a":"9223372036854775807"}`, map[string]int64{"a": math.MaxInt64}, nil},
		"no pool":         {`{}`, map[string]int64{}, nil},
		"space around":    {" {\n\t\"a\" : \"1\" }\r\n", map[string]int64{"a": 1}, nil},
		"escaped digits":  {`{"a":"\u0031"}`, map[string]int64{"a": 1}, nil},
		"HTML characters": {`{"<a>":"1"}`, map[string]int64{"<a>": 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pools, bad, err := DecodePools(c.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.pools, pools); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.bad, slices.Sorted(maps.Keys(bad))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodePools_BadDocumentHasNoPools(t *testing.T) {
	for name, value := range map[string]string{
		"empty":               "",
		"space":               " \n",
		"word":                "abc",
		"number":              "-1",
		"exponent":            "1e9",
		"string":              `"1"`,
		"null":                "null",
		"array":               `[{"a":"1"}]`,
		"not closed":          `{"a":"1"`,
		"comma at the end":    `{"a":"1",}`,
		"no value":            `{"a"}`,
		"no colon":            `{"a" "1"}`,
		"value cut":           `{"a":"1","b":`,
		"name no string":      `{1:"1"}`,
		"single quotes":       `{'a':'1'}`,
		"comment":             `{"a":"1"} // x`,
		"trailing word":       `{"a":"1"}x`,
		"trailing object":     `{"a":"1"}{"b":"1"}`,
		"trailing brace":      `{"a":"1"}}`,
		"byte order mark":     "\ufeff" + `{"a":"1"}`,
		"not UTF-8":           "{\"a\":\"1\",\"\xff\":\"1\"}",
		"UTF-16":              "{\x00\"\x00a\x00\"\x00",
		"too long":            `{"a":"1","b":"` + strings.Repeat("1", MaxAnnotationBytes) + `"}`,
		"too long by spaces":  `{"a":"1"}` + strings.Repeat(" ", MaxAnnotationBytes),
		"too deep":            `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"too deep, not ended": `{"a":` + strings.Repeat(`{"a":`, 20_000),
		"raw line feed":       "{\"a\":\"1\n\"}",
	} {
		t.Run(name, func(t *testing.T) {
			pools, bad, err := DecodePools(value)
			if !errors.Is(err, ErrAnnotation) || len(pools) > 0 || len(bad) > 0 {
				t.Errorf("got %v, %v, %v; want no pool and ErrAnnotation", pools, bad, err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("message has %d bytes", len(err.Error()))
			}
		})
	}
}

// A byte order mark is invisible where the value is read, so the message names it.
func TestDecodePools_NamesTheByteOrderMark(t *testing.T) {
	if _, _, err := DecodePools("\ufeff{}"); err == nil || !strings.Contains(err.Error(), "byte order mark") {
		t.Errorf("got %v", err)
	}
}

func TestCodec_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := rapid.MapOf(rapid.StringMatching(`[^\pC]{1,20}`), rapid.Int64Min(0)).Draw(t, "pools")
		value, err := EncodePools(pools)
		if err != nil {
			t.Fatal(err)
		}
		got, bad, err := DecodePools(value)
		if err != nil || len(bad) > 0 {
			t.Fatal(bad, err)
		}
		if diff := cmp.Diff(pools, got); diff != "" {
			t.Fatal(diff)
		}
		if again, err := EncodePools(got); err != nil || again != value {
			t.Fatalf("encoded again: %s, %v; first: %s", again, err, value)
		}
	})
}

func FuzzDecodePools(f *testing.F) {
	for _, seed := range []string{`{"pool-ssd":"107374182400"}`, `{}`, ``, `{"a":"1","a":"2"}`, `{"a":5,"b":"6"}`,
		"\ufeff{}", `{"a":{"b":["1"]}}`, `{"a":"9223372036854775808"}`, `{"":"0"}`, "{\"a\":\"1\"}\x00", `{"\ud800":"1"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		pools, bad, err := DecodePools(value)
		if err != nil {
			if len(pools) > 0 || len(bad) > 0 || !errors.Is(err, ErrAnnotation) {
				t.Fatalf("error with pools: %v, %v, %v", pools, bad, err)
			}
			return
		}
		for name, bytes := range pools {
			if bytes < 0 || name == "" || bad[name] != nil {
				t.Fatalf("pool %q = %d, bad %v", name, bytes, bad[name])
			}
		}
		encoded, err := EncodePools(pools)
		if err != nil && len(value) <= MaxAnnotationBytes/6 { // escaping makes it at most six times longer
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		again, bad, err := DecodePools(encoded)
		if diff := cmp.Diff(pools, again); diff != "" || len(bad) > 0 || err != nil {
			t.Fatal(diff, bad, err)
		}
	})
}
